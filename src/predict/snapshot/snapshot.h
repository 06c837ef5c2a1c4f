// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot; doc/formats/snapshot.md): what the
// caching allocator of each GPU held, and the history of how it came to that. This room reads the
// file, tells whose the bytes are, and makes a tape of it. A snapshot is a pickle; nothing in it is
// ever executed: an opcode that would call or look up something is refused.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "predict/tape/tape.h"

enum {
    SNAPSHOT_GPUS = 64,        // a reader's limit
    SNAPSHOT_POOLS = 64,       // those beyond share the last
    SNAPSHOT_DEPTH = 1024,     // frames of a stack
    SNAPSHOT_TEXT_MOST = 4096, // of a text; what is longer is cut
};
#define SNAPSHOT_ROOM_MOST ((int64_t)1 << 30) // what reading may take beside the file

enum snapshot_action {
    SNAPSHOT_OTHER, // one that we do not know
    SNAPSHOT_ALLOC,
    SNAPSHOT_FREE_REQUESTED,
    SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_OOM,
    SNAPSHOT_TAKEN,
    SNAPSHOT_ACTION_COUNT
};

struct snapshot_frame {
    int32_t file, name, line; // of texts; 0: none
};
struct snapshot_stack {   // innermost frame first
    int32_t first, count; // in stack_frames
};
struct snapshot_event {
    int64_t address; // of an oom: what the GPU had free; -1: not in the file
    int64_t size;
    int32_t stack; // in stacks; 0: none
    uint8_t action, pool;
};
struct snapshot_pool { // a stream's, or a private one of a stream
    int64_t stream;
    int32_t high, low; // 0, 0: not private
};
enum snapshot_state { SNAPSHOT_INACTIVE, SNAPSHOT_ACTIVE, SNAPSHOT_AWAITS_FREE };
struct snapshot_block {
    int64_t address, size, requested; // requested: -1: not in the file
    int32_t stack;
    int32_t history; // while reading; see room's object.c
    uint8_t state;
};
struct snapshot_segment {
    int64_t address, bytes;
    int32_t device, pool;
    int32_t first, count; // in blocks
};
struct snapshot_settings {
    bool known;
    struct str conf;         // PYTORCH_CUDA_ALLOC_CONF as torch last read it
    int expandable;          // 0, 1 or -1
    int64_t max_split_bytes; // -1: not set
    double gc_threshold;     // 0 or NaN: not set
    int64_t roundup[16];     // roundup_power2_divisions, from 1 MiB on; 0: none
};
struct snapshot_trace {   // of a GPU
    int32_t first, count; // in events
};

struct snapshot {
    struct str name;
    int64_t bytes;
    struct str *texts; // [0] is empty
    struct snapshot_frame *frames;
    struct snapshot_stack *stacks; // [0] is empty; equal stacks have one number
    int32_t *stack_frames;
    struct snapshot_event *events;
    struct snapshot_block *blocks;
    struct snapshot_segment *segments;
    ptrdiff_t text_count, frame_count, stack_count, stack_frame_count;
    ptrdiff_t event_count, block_count, segment_count;
    struct snapshot_pool pools[SNAPSHOT_POOLS]; // [0] is the default stream's
    int pool_count;
    struct snapshot_trace traces[SNAPSHOT_GPUS];
    int trace_count; // 0: the file has no history
    struct snapshot_settings settings;
};

// Whether a file begins like one: a pickle of protocol 2 to 5.
bool snapshot_is_pickle(struct str head);
// Everything in *ret lives in the arena. FAIL_INPUT: no such file, no pickle, one that wants to
// call something, broken, or no snapshot.
int snapshot_read(struct arena *a, const char *path, struct snapshot *ret, struct fail *why);
int snapshot_read_bytes(struct arena *a, struct str name, struct str bytes, struct snapshot *ret,
                        struct fail *why);

// One GPU of a snapshot: every allocation with its birth and death, the moment that is asked about
// (the out-of-memory, else the peak), whose the bytes were then, and the steps of the training.

enum { SNAPSHOT_BEFORE = -1, SNAPSHOT_NEVER = INT32_MAX };

// Which part of a training a stack belongs to; places.c has the rules.
enum snapshot_place {
    SNAPSHOT_NOWHERE, // no rule knows it
    SNAPSHOT_LOADING, // weights are made, loaded or moved
    SNAPSHOT_STATE,   // the optimizer makes its state
    SNAPSHOT_STEPPING,
    SNAPSHOT_EXCHANGE, // between GPUs
    SNAPSHOT_CACHING,
    SNAPSHOT_LIBRARY, // work spaces
    SNAPSHOT_FEEDING, // a batch comes
    SNAPSHOT_BACKWARD,
    SNAPSHOT_FORWARD,
    SNAPSHOT_PROGRAM, // the program's own lines, nothing of PyTorch's in between
    SNAPSHOT_PLACE_COUNT
};
enum snapshot_kind {
    SNAPSHOT_WEIGHTS,
    SNAPSHOT_GRADIENTS,
    SNAPSHOT_OPTIMIZER,
    SNAPSHOT_ACTIVATIONS,
    SNAPSHOT_PASSING, // backward's own or an optimizer step's: gone soon
    SNAPSHOT_INPUTS,
    SNAPSHOT_KEPT, // made in an earlier step, still there
    SNAPSHOT_CACHES,
    SNAPSHOT_WORKSPACES,
    SNAPSHOT_BUCKETS,
    SNAPSHOT_UNKNOWN,
    SNAPSHOT_KIND_COUNT
};
struct snapshot_word {
    const char *id, *text;
};
extern const struct snapshot_word snapshot_kinds[SNAPSHOT_KIND_COUNT];

struct snapshot_alloc {
    int64_t address, requested, bytes; // bytes: of its block
    int32_t born, died;                // events of the history; SNAPSHOT_BEFORE, SNAPSHOT_NEVER
    int32_t stack;
    int32_t step; // in which it was made; -1: before the history
    int32_t pool; // 0: the common one of the first stream; 1, 2, … as they come
    uint8_t place, kind;
};

struct snapshot_step { // a stretch of the history
    int32_t first;     // event
    uint8_t phase;     // enum snapshot_place: FORWARD, BACKWARD, STEPPING, FEEDING, LOADING
    int32_t step;
};

struct snapshot_history {
    const struct snapshot *of;
    int gpu;
    const struct snapshot_event *events;
    int32_t event_count;
    struct snapshot_alloc *allocs; // those from before by address, then by birth
    ptrdiff_t count, capacity;
    int32_t *alloc_of;                  // by event: the allocation that is made or freed; -1
    int64_t before_count, before_bytes; // there when the history begins
    uint8_t *places;                    // by stack
    bool has_stacks;                    // of allocations in the history
    bool has_optimizer;                 // an optimizer's lines are among them
    struct snapshot_step *phases;
    ptrdiff_t phase_count, phase_capacity;
    int32_t steps; // begun
    // The moment.
    bool is_oom;
    int32_t moment;             // an event; -1: the file's end without a history
    int64_t asked, device_free; // of the oom; -1
    int32_t oom_stack;
    uint8_t phase;                          // of the moment
    int32_t step;                           // of the moment
    int64_t allocated, requested, reserved; // reserved -1: not known
    int64_t live;                           // allocations
    int64_t holes, largest_hole;            // free inside of what is reserved; -1: not known
    int32_t ooms;
};
// The GPUs of a snapshot that have anything to say.
bool snapshot_has(const struct snapshot *s, int gpu);
void snapshot_look(struct arena *a, const struct snapshot *s, int gpu,
                   struct snapshot_history *ret);
static inline bool snapshot_lives(const struct snapshot_alloc *x, int32_t moment) {
    return x->born <= moment && x->died > moment;
}
// "train.py:57 forward": the innermost frame that is the user's own, else the innermost one; empty
// where there is none.
struct str snapshot_place_text(struct arena *a, const struct snapshot *s, int32_t stack);

// tape.c: the history up to the moment, and what was asked for there, as a tape. Sizes are those of
// the file; with a batch those of activations, inputs and what backward passes on are shared out
// over it where that goes without a rest. FAIL_INPUT: there is no history, or it is too long.
struct snapshot_tape_options {
    int64_t batch; // 0: not known
    bool whole;    // to the end of the history, not to the moment
};
// ret_fixed_bytes: of activations at the moment whose size the batch does not divide.
int snapshot_tape(struct arena *a, const struct snapshot_history *h,
                  const struct snapshot_tape_options *o, struct tape *ret, int64_t *ret_fixed_bytes,
                  struct fail *why);
