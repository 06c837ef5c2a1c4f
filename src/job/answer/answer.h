// SPDX-License-Identifier: Apache-2.0
// The answer to a question on one GPU: the plan that was chosen and what it needs. fit, team and
// explain show it in their own ways.
#pragma once

#include "base/json.h"
#include "job/question/question.h"
#include "view/show/show.h"

struct answer_eval;
struct answer_tta;

enum answer_shorter {
    ANSWER_SHORTER_NOT,
    ANSWER_SHORTER_FITS,
    ANSWER_SHORTER_SHARED, // by many GPUs
};

struct answer {
    struct forecast_card card;
    struct forecast forecast;
    struct plan plan; // with batch and accumulation
    struct forecast_peak peak;
    struct speed speed; // row NULL: nothing can be said
    int64_t budget_bytes;
    bool fits;             // the chosen batch fits the budget
    int64_t largest_batch; // that would fit if the effective batch were free; 0: none
    bool effective_kept;
    struct str_list notes;             // about this GPU
    struct forecast_remedies remedies; // when it does not fit; what is enough first
    // Where nothing is enough: up to how many GPUs that share it were tried (0: none), and whether
    // it would be with short sequences.
    int64_t gpus_tried;
    enum answer_shorter shorter;
    struct answer *empty;     // the same without what others hold; NULL: not asked
    struct answer_eval *eval; // the batch of evaluation; NULL: not asked
    struct answer_tta *tta;   // test-time augmentation; NULL: not asked
    bool config_written;
    struct str config_text; // and what it holds since
    // Words of doc/formats/fit.md: what the verdict counts, and why the config was not changed
    // (NULL: it was, or nobody asked for it).
    const char *verdict_basis, *not_written;
};

// Chooses batch and accumulation: the largest batch in the budget that keeps the effective batch.
// When none does, the answer is the smallest batch with fits = false, and the remedies.
int answer_choose(struct question *q, const struct forecast_card *card, struct answer *ret,
                  struct fail *why);
// Fills answer->remedies, what is enough first: a smaller batch, each change of the plan, and where
// none of these is enough, combinations of changes. Where it fits, what each change would save.
int answer_ways(struct question *q, struct answer *answer, struct fail *why);
// The same for a given batch, for explain; without remedies.
int answer_at(struct question *q, const struct forecast_card *card, int64_t batch,
              int64_t accumulation, struct answer *ret, struct fail *why);
// Fills answer->empty: for the same batch, or the one that would be chosen. It is to be shown, not
// to be asked further.
int answer_empty(struct question *q, struct answer *answer, bool at_batch, struct fail *why);

// Whether the tape of a larger image or a longer sequence stands in.
bool answer_stands_in(const struct answer *answer);
// A size that nobody said, and the option that says it: nothing is written on it, and no gate
// passes it. NULL: there is none.
struct answer_open {
    const char *what, *option;
};
const struct answer_open *answer_open_size(const struct question *q, const struct answer *answer);

// One element of "results" (doc/formats/fit.md).
json_t *answer_json(const struct answer *answer);
json_t *answer_plan_json(const struct plan *p);
// "not_modelled": the settings of the config that the answer does not count.
json_t *answer_not_modelled_json(const struct question *q);
// {"results": […], "not_modelled": […], "notes": […]}
json_t *answer_document(struct question *q, const struct answer *answers, int count);
// Prints it on stdout.
int answer_print_json(struct question *q, const struct answer *answers, int count,
                      struct fail *why);
// A table with a row an answer.
void answer_table(const struct question *q, const struct answer *answers, int count,
                  struct show_style style, struct buf *out);
// Notes as a bulleted list.
void answer_notes(const struct str_list *notes, struct show_style style, struct buf *out);
// What the answer does not count, to be said beside the verdict; and the others.
void answer_loud_notes(const struct str_list *notes, struct show_style style, struct buf *out);
void answer_quiet_notes(struct arena *a, const struct str_list *notes, struct show_style style,
                        struct buf *out);

// Which precision a training takes on a GPU: one place for fit, check, team and the matrix. What a
// GPU has is in the catalogue (data/gpus.tsv: tensor_cores, bf16).

// That the training takes there: what was asked as far as it suits the GPU (no mixed precision
// without tensor cores, bf16 only in hardware), or the best where nobody said any. The user's own
// word stands.
enum plan_precision answer_precision(const struct question *q, const struct gpu *gpu);
// The same, but where fp32 was asked and mixed precision would be faster, that.
enum plan_precision answer_precision_advised(const struct question *q, const struct gpu *gpu);
// bf16 on a GPU that has none: it runs, without tensor cores, at a speed that nobody measured for
// us.
bool answer_precision_is_emulated(enum plan_precision taken, const struct gpu *gpu);
// Why it is not what was asked, or what to beware of; empty: nothing. One that begins with
// ANSWER_OVERFLOWS stands beside the verdict.
#define ANSWER_OVERFLOWS "overflows in fp16: "
#define ANSWER_EMULATED "bf16 is emulated on this GPU"
struct str answer_precision_note(const struct question *q, const struct gpu *gpu,
                                 enum plan_precision taken);

// What of the question's training the answer's GPU has not, "not on this GPU: FlashAttention
// (flash_attn: fa2) needs compute capability 8.0; it has 7.0": its trainer stops there, and what
// was counted is without it. Empty: nothing. *ret_without: "FlashAttention, TF32"; may be NULL.
#define ANSWER_LACKS "not on this GPU: "
struct str answer_lacks(const struct question *q, const struct answer *answer,
                        struct str *ret_without);
// The least compute capability (89 of 8.9) of a GPU that has all that the question's training asks
// for, bf16 without emulation too, and what asks for most; 0: any, and NULL.
enum { ANSWER_BF16 = 80 };
int answer_capability(const struct question *q, const char **ret_what);
// Whether a note is of what the GPU can do, to be said of each of several GPUs.
bool answer_is_of_gpu(struct str note);
// Whether the GPU has all of it, and what it does instead is counted, too; and what of the two is
// not so, as a note; empty: nothing.
bool answer_has_all(const struct question *q, const struct answer *answer);
struct str answer_lacking(const struct question *q, const struct answer *answer);
// What the GPU makes of a plan of the question's, precision and attention, and its forecast.
// FAIL_INPUT as of forecast_open.
int answer_open_on(struct question *q, const struct gpu *gpu, struct plan *plan,
                   struct forecast *ret_forecast, struct fail *why);

// An answer in a sentence, and the words of it: one definition for text, tables, matrix and page.

// FITS: with the margin kept free, and the worst case is within the GPU's memory. FITS TIGHTLY: it
// runs, but one of the two is not so, or not with 3 % less memory. DOES NOT FIT: more is expected
// than the GPU has. (JSON's "verdict" leaves margin and worst case out: doc/formats/fit.md.)
enum answer_verdict { ANSWER_FITS, ANSWER_TIGHT, ANSWER_NOT };
enum answer_verdict answer_verdict(const struct answer *answer);
const char *answer_verdict_name(enum answer_verdict verdict); // "FITS TIGHTLY"
enum show_tone answer_verdict_tone(enum answer_verdict verdict);
// The same of an answer as it is said: NOT COUNTED where it would be DOES NOT FIT, but of another
// training, as what the config shares, moves away or freezes is not counted.
struct answer_word {
    const char *name;
    enum show_tone tone;
};
struct answer_word answer_word(const struct question *q, const struct answer *answer);
// Why it is NOT COUNTED: what the GPU lacks, what is not modelled; empty: it is counted.
struct str answer_why_not_counted(const struct question *q, const struct answer *answer);
// Yes: the batch fits with the margin free, and it is of the training that was asked for. Over
// several GPUs that are chosen among the answer is yes where it is of one of them.
bool answer_is_yes(const struct question *q, const struct answer *answer);
// Bytes of a copy of the logits of a head for masked words, in fp32 as the loss has them; 0: there
// is no such head.
int64_t answer_masked_words(const struct question *q, const struct answer *answer);
// Whether it is of the training that was asked for (question_whose).
bool answer_is_counted(const struct question *q, const struct answer *answer);

// Of the whole GPU, with what others hold.
struct answer_memory {
    int64_t expected_bytes; // in which the step runs, and what is outside the allocator
    int64_t worst_bytes;    // the same where the prediction errs by all of its band
    int64_t usable_bytes;   // what CUDA gives to programs
    int64_t headroom_bytes; // usable less expected; 0: none
};
struct answer_memory answer_memory(const struct answer *answer);
// What ZeRO keeps in the host's memory; all 0: nothing.
struct forecast_host answer_host(const struct answer *answer);
// More than the machine has, as far as it is known.
bool answer_host_is_short(const struct answer *answer);
// "host: 93.1 GiB a rank, 64 GiB of it page-locked; …"; empty: nothing is kept there.
struct str answer_host_text(struct arena *a, const struct answer *answer);
json_t *answer_host_json(const struct answer *answer);
// "8.6 of 11.8 GiB"
struct str answer_memory_text(struct arena *a, const struct answer_memory *m);
// Others hold so much of the GPU that it is to be said first.
bool answer_is_busy(const struct answer *answer);
bool answer_margin_kept(const struct answer *answer);
// "12", "12 x 4 = 48", "12 x 4 x 2 GPUs = 96"
struct str answer_batch_text(struct arena *a, const struct plan *p);

// "FITS  batch 12 x 4 = 48 on RTX 3060: 8.6 of 11.8 GiB (worst case 9.6)"
struct str answer_verdict_text(struct question *q, const struct answer *answer);
// Its parts, without the word: the sentence, what changes in the config, why it is tight or what
// would fit; empty: nothing.
struct answer_said {
    struct str sentence, change, advice;
};
struct answer_said answer_said(struct question *q, const struct answer *answer, bool changes);
// A remedy as it is called, in the reader's language.
struct str answer_way_text(struct arena *a, struct str way);
// The first lines: the verdict with the figures that decide, what changes in the config (when the
// answer `changes` it), and what to do where it does not fit.
void answer_verdict_show(struct question *q, const struct answer *answer, bool changes,
                         struct show_style style, struct buf *out);
// The same for several GPUs (at least one), in a line: the best answer, as one of them is to be
// chosen, or, where they train together, the worst.
void answer_verdict_show_all(struct question *q, const struct answer *answers, int count,
                             bool is_together, struct show_style style, struct buf *out);
// That one, which decides: of equally good ones the first, of equally bad ones that of the smallest
// batch.
struct answer *answer_leading(const struct question *q, struct answer *answers, ptrdiff_t count,
                              bool is_together);

// Where the bytes go at the peak of an answer, and what would save some: as text, JSON and HTML.

// "configs/train.yaml (…): swin_base_384 at 384 px, adamw, amp-fp16, effective batch 48 (now 48 x
// 1)"
void answer_breakdown_headline(const struct question *q, const struct answer *answer,
                               struct show_style style, struct buf *out);
// The GPU's memory as a bar: the largest parts of what is expected, and the margin.
void answer_breakdown_bar(struct question *q, struct answer *answer, struct show_style style,
                          struct buf *out);
// The four figures of memory, and the speed: a line each.
void answer_breakdown_memory(struct question *q, const struct answer *answer,
                             struct show_style style, struct buf *out);
// The allocator's figures, for those who know its words.
void answer_breakdown_details(struct question *q, const struct answer *answer,
                              struct show_style style, struct buf *out);
// Batches in a row, with their verdicts and the cliff.
void answer_cells(struct question *q, const struct answer *answer, struct show_style style,
                  struct buf *out);
// By tag, by module, by operation, and the largest single tensors.
void answer_breakdown_tables(struct question *q, struct answer *answer, struct show_style style,
                             struct buf *out);
void answer_breakdown_remedies(struct question *q, struct answer *answer, struct show_style style,
                               struct buf *out);
json_t *answer_breakdown_json(struct question *q, struct answer *answer);
// One self-contained page with the course of the step as a picture.
struct str answer_breakdown_html(struct question *q, struct answer *answer);

// Predicted speed as fit, explain, team and sim show it, and what measurements teach about it.

// An object, or null where nothing can be said (doc/formats/fit.md, "speed").
json_t *answer_speed_json(const struct speed *s);
// "speed: about 412 samples/s (343 to 494), 310 ms a step", with what makes it uncertain; nothing
// where nothing can be said.
void answer_speed_text(const struct speed *s, struct buf *out);
// Of the answer's plan on its GPU; a note where tape or GPU say nothing.
void answer_speed_predict(struct question *q, struct answer *answer);
// Corrects the answer's speed by what was measured on its GPU: "MODEL=SAMPLES" or
// "MODEL@BATCH=SAMPLES", line ends between, everything else as in the question. FAIL_USAGE,
// FAIL_INPUT.
int answer_speed_calibrate(struct question *q, const char *measured, struct answer *answer,
                           struct fail *why);

// The batch with which a training evaluates between its epochs: no activations are kept for a
// backward, but the optimizer's states (and gradients, where they are not dropped) stay on the
// GPU.

struct answer_eval {
    int64_t batch, now;     // now 0: the config does not say
    int64_t resident_bytes; // of the training, beside what evaluation itself needs
    int64_t cache_bytes;    // of generated text at that batch; 0: it generates none, or not known
    struct forecast_peak peak;
    bool fits;
    bool may_generate;    // and nobody knows the cache's size
    bool has_key;         // the config has a place for it
    struct answer answer; // as of inference, where others hold the training's states
};

// For the training's answer on its GPU. FAIL_INPUT: there is no tape of inference.
int answer_eval_choose(struct question *q, const struct answer *training, struct answer_eval **ret,
                       struct fail *why);
void answer_eval_show(struct arena *a, const struct answer_eval *e, struct show_style style,
                      struct buf *out);
json_t *answer_eval_json(const struct answer_eval *e);

// Putting an answer into the user's config: the smallest edit, a backup, an atomic replacement.

// Replaces the file, with a backup of what is there; the backup's name goes into *report. With a
// known stamp it fails when the file has changed since.
int answer_write_file(struct arena *a, const char *path, struct str text,
                      const struct os_stamp *stamp, struct buf *report, struct fail *why);

// Whether what is to be written rests on an answer that does not count all that the config says,
// and nobody forces it; then *report says so.
bool answer_write_is_refused(const struct question *q, bool force, struct buf *report);
// The same of one whose GPU lacks what is asked for (answer_has_all).
bool answer_write_is_lacking(const struct question *q, const struct answer *answer, bool force,
                             struct buf *report);
// The same of an answer for a size that nobody said (answer_open_size).
bool answer_write_is_assumed(const struct question *q, const struct answer *answer, bool force,
                             struct buf *report);

struct answer_write_options {
    const char *save_config;  // another file to write to; NULL: the config itself
    unsigned flags;           // enum config_flags
    bool force;               // also when the answer does not count all that the config says
    bool is_measured;         // by trials of the config as it is
    bool add_accumulation;    // also a key that the code around the config never reads
    struct config_edits more; // beside what the answer changes
};
// Writes and sets answer->config_written; what was changed is added to *report as lines for people.
// FAIL_NO: answer_write_is_refused or _is_assumed, or a new key would be read by nobody
// (project.c). A file that cannot be edited is an error (FAIL_INPUT with the place), and *report
// says what to type.
int answer_write(struct question *q, struct answer *answer,
                 const struct answer_write_options *options, struct buf *report, struct fail *why);
// The config as it was, where stdout did not take the answer: only who reads of an edit has made it.
// FAIL_INPUT: somebody has changed the file since; FAIL_MACHINE.
int answer_take_back(struct question *q, const struct answer *answer,
                     const struct answer_write_options *options, struct fail *why);

// An answer as one self-contained card, to paste into a chat.

#define CLI_ROW_SHARE(at)                                                                    \
    CLI_ROW("share", "FILE", CLI_REPEAT, at,                                                 \
            "also write the answer as one card to paste into a chat, .svg, .html or, where " \
            "rsvg-convert is installed, .png (repeatable)",                                  \
            "file", .about = CLI_OF_ANSWER)

// Before anything is computed: the files' kinds and folders. NULL: nothing is asked.
int answer_share_check(struct arena *a, const char *paths, struct fail *why);
struct answer_share_asked {
    const char *paths;              // of the option, a line each
    const struct cli_options *base; // the command
};
// `changes`: the answer's batch is for the config.
int answer_share_write(struct question *q, const struct answer *answer, bool changes,
                       const struct answer_share_asked *asked, struct fail *why);

// The course of memory along a tape as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing
// open: doc/formats/trace.md.

struct answer_traced {
    struct sim *sim;
    const struct tape *tape;
    int64_t batch, classes, capacity_bytes;
};
// Writes the file whole.
int answer_trace_write(struct arena *a, const char *path, const struct answer_traced *traced,
                       struct fail *why);
