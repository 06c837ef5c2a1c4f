// SPDX-License-Identifier: Apache-2.0
// The tape (doc/formats/tape.md): what some training steps ask of the memory allocator, in order,
// every size affine in the batch. This room reads, checks, writes and sizes tapes; it knows nothing
// of allocators (sim) or GPUs (gpu). Bytes are signed 64-bit; unknown is TAPE_UNKNOWN, NaN or an
// empty view, never zero.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum {
    TAPE_VERSION = 1,
    TAPE_UNKNOWN = -1,         // a number or boolean of the header that is absent or null
    TAPE_EVENTS_MAX = 1 << 24, // a reader's limit, a thousand times the largest tape seen
};
#define TAPE_TEXT_MAX ((int64_t)1 << 27) // a reader's limit for text, also after decompression
#define TAPE_SIZE_MAX ((int64_t)1 << 60) // PyTorch refuses larger requests outright

enum tape_phase {
    TAPE_INIT,
    TAPE_INPUT,
    TAPE_FORWARD,
    TAPE_BACKWARD,
    TAPE_OPTIMIZER,
    TAPE_ZERO_GRAD,
    TAPE_PHASE_COUNT
};
enum tape_tag {
    TAPE_PARAM,
    TAPE_BUFFER,
    TAPE_INPUT_DATA, // "input": `input` is also a phase
    TAPE_ACTIVATION,
    TAPE_CAST,
    TAPE_GRADIENT,
    TAPE_OPTIMIZER_STATE, // "optimizer"
    TAPE_TEMPORARY,
    TAPE_OTHER,
    TAPE_REFERENCE, // weights of a second model that is not trained
    TAPE_TAG_COUNT,
    // Words of a tape whose allocations are the host's, not page-locked and page-locked: a reader
    // counts them (host_bytes of the header) and has none of them.
    TAPE_HOST = TAPE_TAG_COUNT,
    TAPE_PINNED,
    TAPE_TAG_WORDS
};
enum tape_class { // of work events
    TAPE_MM,
    TAPE_BMM,
    TAPE_CONV_FWD,
    TAPE_CONV_DGRAD,
    TAPE_CONV_WGRAD,
    TAPE_ATTENTION,
    TAPE_ELEM,
    TAPE_NONCONTIG,
    TAPE_NORM,
    TAPE_BN_FWD,
    TAPE_BN_BWD,
    TAPE_REDUCE,
    TAPE_HEAVY,
    TAPE_OPT,
    TAPE_CLASS_COUNT
};
// Their words in the file.
extern const char *const tape_phase_names[TAPE_PHASE_COUNT];
extern const char *const tape_tag_names[TAPE_TAG_WORDS];
extern const char *const tape_class_names[TAPE_CLASS_COUNT];

// Line 1. Text is empty, numbers and booleans are TAPE_UNKNOWN, seconds is NaN where absent.
struct tape_header {
    struct str json; // the line as read, for unknown keys and for writing; empty: made by hand
    struct str model, library, torch, recorder, rules, mode, precision, layout, optimizer;
    struct str zero_grad, attention;
    struct str adapter, quant, weights; // "lora:16", "nf4", "bf16"; empty: none, none, not said
    struct str shard;                   // of one rank's part, "fsdp1"; empty: of all weights
    struct str loss;                    // a fused one, "liger"; empty: none
    struct str compile;                 // "model" or "layers" by torch.compile; empty: not
    int64_t image_size, sequence_length, target_length, accumulation, classes, parameters, steps;
    int64_t ranks;                   // that the weights are spread over
    int64_t loss_tokens, loss_parts; // a sample's, and of how many its chunks are made
    // A rank's memory on the host under offload, at its most; how much of it is page-locked.
    int64_t host_bytes, host_pinned_bytes;
    int64_t tp;                                                     // that split each layer
    int checkpointing, ema, grad_scaler, cudnn_benchmark, prefetch; // 0, 1 or TAPE_UNKNOWN
    double seconds;
    const int64_t *batches; // at which the sequence was recorded; ascending is not promised
    int batch_count;
};
// Every field unknown.
struct tape_header tape_header_unknown(void);

enum tape_kind { TAPE_MARK, TAPE_ALLOC, TAPE_FREE, TAPE_EMPTY_CACHE, TAPE_SCRATCH, TAPE_WORK };

// One line after the header: event i stands on line i + 2.
struct tape_event {
    uint8_t kind;  // enum tape_kind
    uint8_t phase; // of a TAPE_MARK
    int32_t index; // ALLOC, FREE: in allocs; SCRATCH: in scratches; WORK: in works; MARK: the step
};

// Allocations are numbered in order of their `a` lines.
struct tape_alloc {
    int64_t id; // as written; for tape_write only
    // Bytes: C + K·B + (CN + KN·B)·(n − classes), or with chunks of a loss C + K·B + CN·(rows of
    // the first) + KN·(rows of the second).
    int64_t c, k, cn, kn;
    int32_t event;      // its line
    int32_t free_event; // the line that frees it; -1: lives to the end
    int32_t op, module; // in strings; 0: unknown
    int32_t stream;     // 0: the main stream
    uint8_t tag;        // enum tape_tag
};

// Scratch that one kernel may ask for (`w`).
struct tape_scratch {
    int64_t c, k;
};

// `count` equal kernels (`o`); flops and bytes are those of one.
struct tape_work {
    uint8_t class_; // enum tape_class
    int64_t flops_c, flops_k, bytes_c, bytes_k, count;
    int32_t details; // in strings: "dtype=f16 m=0+64B …"; 0: none
};

struct tape {
    struct str name; // of the file, for messages
    struct tape_header header;
    struct tape_event *events;
    struct tape_alloc *allocs;
    struct tape_scratch *scratches;
    struct tape_work *works;
    struct str *strings; // [0] is empty; equal texts have one number
    int32_t event_count, alloc_count, scratch_count, work_count, string_count;
    int32_t stream_count; // 1 + the highest stream used
};

// Reads a whole tape, plain or zstd-compressed. Everything in *ret lives in the arena or in
// `bytes`, which must stay. A malformed tape is FAIL_INPUT with "NAME:LINE: what was expected".
int tape_read(struct arena *a, struct str name, struct str bytes, struct tape *ret,
              struct fail *why);
// Only line 1; `bytes` may be the beginning of a file.
int tape_read_header(struct arena *a, struct str name, struct str bytes, struct tape_header *ret,
                     struct fail *why);
// The text of the tape; reading it again gives an equal tape.
void tape_write(const struct tape *t, struct buf *out);
// The same in fewer bytes (doc/formats/tape.md, "Packed"); reading it gives an equal tape,
// too. False: too many allocations live at once, or a name is "-" or begins with "n=", and *out is
// as it was.
bool tape_pack(const struct tape *t, struct buf *out);
// Line 1 without its line end. Known keys come from the fields where `json` is empty.
struct str tape_header_text(struct arena *a, const struct tape_header *h);

// Bytes asked for at a batch and a number of classes (0 or TAPE_UNKNOWN: the header's), cut to
// 0 … TAPE_SIZE_MAX. Without `classes` in the header only the header's own number is known.
int64_t tape_size(const struct tape *t, const struct tape_alloc *alloc, int64_t batch,
                  int64_t classes);
// The same for all allocations at once: ret_bytes has room for alloc_count.
void tape_sizes(const struct tape *t, int64_t batch, int64_t classes, int64_t *ret_bytes);
// Rows of the first chunk of a loss that takes 2^n tokens at a time, and of the second.
struct tape_rows {
    int64_t first, second;
};
struct tape_rows tape_rows(const struct tape_header *h, int64_t batch);
// Whether a size depends on the number of classes.
bool tape_counts_classes(const struct tape *t);
int64_t tape_scratch_size(const struct tape_scratch *s, int64_t batch);

// The same training with several micro-steps an optimizer step, from a tape of two steps with one
// each; texts, scratch and work are shared. False: the tape is not of that kind, and *ret is none.
bool tape_accumulate(struct arena *a, const struct tape *t, struct tape *ret);

// "3" for key `stride` of "… kernel=7 stride=3"; empty when the work has no such key.
struct str tape_work_value(const struct tape *t, const struct tape_work *w, const char *key);
