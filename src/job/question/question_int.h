// SPDX-License-Identifier: Apache-2.0
// Inside the question room: what its files take out of config and options into the plan.
#pragma once

#include "job/question/question.h"

// Weights that are loaded in half precision stay so: autocast has nothing to cast then. Again where
// less than was thought is known of the plan.
void question_weights(struct question *q);
// The allocator as the config or its trainer sets it, where no option does.
void question_allocator(struct question *q);
// Of an adapter, after all else of the plan is taken: whether frozen weights are in fp32; and when
// the model is known, that they are, as a guard where no tape has them so.
void question_frozen(struct question *q);
void question_frozen_check(struct question *q);
// Settings that are not counted, but that an option says are another, are none.
void question_answered(struct question *q, const struct question_options *o);
// Paged states of an optimizer are said where they may leave the GPU.
void question_say_paged(struct question *q);
// Of GRPO, where a config says how many completions are generated at a time: the batch stays.
void question_keep_generations(struct question *q);
// Where the trainer refuses to accumulate, the batch is the config's own.
void question_keep_whole(struct question *q);
// When the model and its loss are known: a head that is none of the counted ones becomes a guard;
// eager attention is none where the model has no other. A decoder's target is behind its source.
void question_model_check(struct question *q);

// The tapes that may answer: all there are, or the one that the command line names, whose
// conditions go into the plan where nothing else was said.
int question_store(struct question *q, const struct question_options *o, struct fail *why);
// Numbers of GPUs, samples and micro-steps whose products are none. FAIL_INPUT: the effective batch
// cannot be split so.
int question_check_ranks(const struct question *q, const struct question_options *o,
                         struct fail *why);
// As many GPUs as share the weights of the named one, where nobody said how many. FAIL_USAGE:
// others.
int question_tape_ranks(struct question *q, const struct question_options *o, struct fail *why);
// One that was recorded at one batch is of no larger one. FAIL_USAGE: that is asked for.
int question_tape_range(struct question *q, const struct question_options *o, struct fail *why);

// A model that is a folder of the user's own, as transformers reads it, its config.json, one of the
// Hugging Face cache, or a copy of a known one under another owner: what counts is its shape.

// Where the plan's model is a folder or a config.json (also behind hf:), or a name of the hub that
// neither tapes nor tables have: the template of its shape, or the model of the same shape that
// there are tapes of; or none, and why, as a note. Weights that it has in few bits go into the plan
// or become a guard. FAIL_INPUT: there is none, and it is needed.
int question_local(struct question *q, bool is_optional, struct fail *why);

// A config of an ensemble: several models, trained one after another with the same settings.

// Puts into the plan that one of the config's models which needs the most memory, and names all.
// FAIL_INPUT: one of them has no tape, so nobody knows.
int question_several(struct question *q, struct fail *why);

// A config of torchtitan: its FSDP2, its selective checkpointing and its tensor parallelism, which
// templates have as that program applies them.

// Takes what the config and --tp say into the plan; with --tp FSDP2 is torchtitan's. FAIL_USAGE.
int question_titan(struct question *q, const struct question_options *o, struct fail *why);
// Of so many GPUs in all, those that are data-parallel. FAIL_INPUT: they cannot be divided.
int question_titan_ranks(struct question *q, const struct question_options *o, int64_t *ret_ranks,
                         struct fail *why);
// Whether the plan has what the guard names.
void question_titan_groups(struct question *q); // once the ranks are known
bool question_titan_models(const struct question *q, const struct config_guard *g);

// A fused loss of a language model: from the command line, or from what the config says of it.

// Puts it into the plan. What the config says only in part stays one of its guards.
int question_loss(struct question *q, const struct question_options *o, struct fail *why);
// Of GRPO: trl refuses completions that are no whole groups; on one GPU it is said.
int question_groups(struct question *q, const struct question_options *o, struct fail *why);
// After all else of the plan is known: a config's loss that no tape or template covers becomes one
// of its guards again.
void question_loss_check(struct question *q, const struct question_options *o);
// vLLM on the same GPU has its share of it, whatever it uses, unless it sleeps.
void question_add_engine(const struct plan *p, const struct gpu *gpu, struct gpu_overhead *o);
// Whether a guard of the config is in the plan.
bool question_loss_models(const struct question *q, const struct config_guard *g);

// torch's FSDP of a config.

// What it is as a shard of a plan, "fsdp2:offload"; empty: it is none, or more than templates have.
// Its own checkpointing of the layers, which is as transformers', goes into the plan.
struct str question_fsdp(struct question *q);
// Whether the config has layers recomputed with use_reentrant=True. transformers' own answer is yes
// up to 4, and no from 5 on.
enum reentrance { REENTRANCE_UNSAID, REENTRANT, NOT_REENTRANT };
enum reentrance question_reentrant(const struct question *q);
// Which of torch's two a guard says. "": neither, or one of them with more to it: Axolotl makes
// groups of its own of an adapter's layers.
const char *question_fsdp_of(const struct question *q, const struct config_guard *g);
// accelerate's least size of a group, which counts only where groups are made by size.
bool question_fsdp_unused(const struct question *q, const struct config_guard *g);
// Offload and checkpointing beside FSDP that the plan has; what changes nothing of FSDP2.
bool question_fsdp_extra(const struct question *q, const struct config_guard *g);
// "fused: true" beside the optimizer's name, as torchtune has it.
bool question_says_fused(const struct question *q);
