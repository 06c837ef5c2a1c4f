// SPDX-License-Identifier: Apache-2.0
// What the files of this room share.
#pragma once

#include "predict/forecast/forecast.h"
#include "predict/tape/generate.h"
#include "predict/tape/optimizer.h"
#include "predict/tape/scores.h"
#include "predict/tape/zero.h"

// What a tape shows at a batch without any limit, and the least it needs. Bytes.
struct forecast_figures {
    int64_t batch, classes;
    int64_t allocated_bytes, reserved_bytes, needed_bytes;
    int64_t scratch_bytes; // reserved with the kernels' scratch guessed
    bool needed_is_exact;
    bool is_beyond; // of SIM_UNLIMITED: the other figures are of a part
};

// The entry's tape, loaded once for each kind of the allocator's segments; of a template, at that
// image size.
int forecast_load(struct forecast_cache *cache, const struct tape_entry *entry, int64_t image_size,
                  const struct tape_scores *scores, bool is_expandable,
                  struct forecast_loaded **ret_loaded, struct fail *why);
const struct tape *forecast_loaded_tape(const struct forecast_loaded *loaded);
struct tape_scores forecast_loaded_scores(const struct forecast_loaded *l); // tokens 0: none
struct sim *forecast_loaded_sim(const struct forecast_loaded *loaded);
// Does it run in that capacity? Answered without a replay where an earlier one tells.
bool forecast_runs(struct forecast_loaded *loaded, int64_t batch, int64_t classes,
                   int64_t capacity_bytes);
// The least capacity from which on a run in that one is known to have the same course.
int64_t forecast_runs_from(const struct forecast_loaded *loaded, int64_t batch, int64_t classes,
                           int64_t capacity_bytes);
// The exact least capacity took 19 replays at the median and 133 at most (282 tapes and batches);
// each goes on where the one before it began to differ (saved.c).
enum { FORECAST_NEED_REPLAYS = 150 };
struct forecast_figures forecast_figures(struct forecast_loaded *loaded, int64_t batch,
                                         int64_t classes);

// What is made of a template's tape.
struct forecast_making {
    struct tape_scores scores;         // tokens 0: attention is fused
    bool accumulates;                  // several micro-steps an optimizer step
    struct tape_zero zero;             // stage 0: every GPU has all
    const char *optimizer;             // instead of AdamW, of tape_optimizers; NULL: AdamW
    struct tape_generation generation; // layers 0: nothing is generated
};
// Where the GPU has no fused kernel for the attention of the plan's model, its scores; and what to
// say of them.
struct tape_scores forecast_scores(const struct plan *p, const struct shape *s);
void forecast_note_scores(struct forecast *f, struct forecast_tape *t);
// The optimizer that a tape with AdamW is made over for; NULL: it stays AdamW's.
const char *forecast_other_optimizer(const struct plan *p);
// … of a template, whose AdamW may have the other kernel.
const char *forecast_optimizer_for(const struct plan *p, bool is_fused);
// A template's tape at these dimensions, made so, loaded once.
int forecast_load_template(struct forecast_cache *cache, const struct tape_catalogue_entry *entry,
                           const int64_t values[TAPE_DIM_COUNT], const struct forecast_making *how,
                           bool is_expandable, struct forecast_loaded **ret_loaded,
                           struct fail *why);
// Fills *ret_tape from the template that covers the plan of a model of the forecast's shape.
// FAIL_INPUT: none does, and what stands in the way.
int forecast_fill_template(struct forecast *f, const struct plan *p, bool is_single,
                           struct forecast_tape *ret_tape, struct fail *why);
// DeepSpeed's ZeRO as the plan has it, of stage 0 where it has none, and what to say of it.
struct tape_zero forecast_zero_of(const struct plan *p, const struct shape *s);
void forecast_note_zero(struct forecast *f, const struct plan *p, const struct shape *s,
                        struct forecast_tape *t);
// What GRPO has around its step, or a model does that predicts, and what to say of it.
struct tape_generation forecast_generation(const struct plan *p, const struct shape *s);
// Tokens of a sample and of its completion. FAIL_INPUT: the latter are not a part of the former.
int forecast_completion(const struct plan *p, int64_t *ret_tokens, int64_t *ret_completion,
                        struct fail *why);
// The lengths of the plan, or the usual ones of the shape's family.
void forecast_set_tokens(const struct plan *p, const struct shape *s,
                         int64_t values[TAPE_DIM_COUNT]);
void forecast_note_generator(struct forecast *f, const struct plan *p, const struct shape *s,
                             struct forecast_tape *t);
// The training whose template has the weights of a plan that only predicts; of any other it is it.
struct plan forecast_trained(const struct plan *p);
void forecast_note_completions(struct forecast *f, const struct plan *p, struct forecast_tape *t);
// What to say of the model's own attention, experts and lengths.
void forecast_note_shape(struct forecast *f, const struct plan *p, const struct shape *s,
                         struct forecast_tape *t);
void forecast_note_loss(struct forecast *f, const struct plan *p, struct forecast_tape *t);
// That the plan is compiled, and how far that is counted.
void forecast_note_compile(struct forecast *f, struct forecast_tape *t);
void forecast_note_adapter(struct forecast *f, const struct plan *p, struct forecast_tape *t);
// What to say of AdamW's temporaries; is_fused: those of the template.
void forecast_note_update(struct forecast *f, const struct plan *p, struct forecast_tape *t,
                          bool is_fused);
// Templates of T5 are for lengths that are multiples of it: torch's sdpa pads the bias of others
// (aten/src/ATen/native/transformers/attention.cpp, pad_bias).
enum { FORECAST_BIASED_BY = 16 };
// The templates of a family, or of all where it is empty, and what each is for, made when first
// asked: each way that might help asks again.
struct forecast_family {
    struct str name;
    struct tape_catalogue catalogue;
    struct forecast_words *words;
    struct forecast_family *next;
};
int forecast_open_family(struct forecast_cache *cache, struct str name,
                         struct forecast_family **ret, struct fail *why);
// In what ways a model of this kind is trained under the plan's sharding; none: the families that
// have templates of it.
// Returns what fail_hint does.
int forecast_shard_hint(struct forecast *f, const struct plan *p, struct str ways,
                        struct fail *why);
// Of the gradients that are there when the optimizer comes.
int64_t forecast_gradient_bytes(const struct tape *t);
// So much more than the tape has would cuBLAS take with a work space of that size for each thread.
int64_t forecast_workspace_bytes(const struct tape *t, int64_t size);
// Of the weights, trained or not.
int64_t forecast_weight_bytes(const struct tape *t);
// Of an adapter under autocast, whether its frozen weights are in fp32.
bool forecast_has_wide(const struct forecast_tape *t);
// The command that records what the plan asks for.
struct str forecast_record_command(struct arena *a, const struct plan *p,
                                   const struct forecast_model *m);

// The size in pixels that an answer is for: the plan's, else the one of the model's name.
int64_t forecast_image_size(const struct plan *p, const struct forecast_model *m);
// The least size of a template that is not below the one that is wanted; 0: there is none.
int64_t forecast_size_of(const struct tape_entry *e, int64_t wanted);
// The entry of the model that serves the plan best, NULL with the property that stands in the way.
const struct tape_entry *forecast_match(const struct tape_store *store, const struct plan *p,
                                        const struct forecast_model *m, const char **ret_obstacle);
// Says where the entry differs from the plan and adds what it lacks to extra_bytes.
void forecast_match_notes(struct arena *a, const struct plan *p, struct forecast_tape *t);

// torchtitan's layers that several GPUs split: what its templates are called ("titan:tp"; empty:
// none is split), the dimensions of one GPU (FAIL_INPUT: they cannot be divided), and what is said
// of it.
struct str forecast_split_shard(const struct plan *p, const struct shape *s);
struct str forecast_split_words(struct str shard); // for people; others as they are
int forecast_split(const struct plan *p, const struct shape *s, int64_t values[TAPE_DIM_COUNT],
                   struct fail *why);
void forecast_note_titan(struct forecast *f, const struct plan *p, struct forecast_tape *t);
void forecast_note_tune(struct forecast *f, const struct plan *p, struct forecast_tape *t);
void forecast_note_fsdp(struct forecast *f, const struct plan *p, const struct shape *s,
                        struct forecast_tape *t);
