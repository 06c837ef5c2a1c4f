// SPDX-License-Identifier: Apache-2.0
// A plan is all decisions of one training run that decide its memory. This room knows what the
// decisions are called, which values they take and how they hang together; it knows no GPU, no
// tape and no file.
#pragma once

#include "base/field.h"

enum {
    PLAN_RANKS_MAX = 65536, // GPUs of one training
    PLAN_BATCH_MAX = 1 << 24,
};

enum plan_precision {
    PLAN_PRECISION_UNKNOWN,
    PLAN_FP32,
    PLAN_AMP_FP16, // autocast, fp32 weights
    PLAN_AMP_BF16,
    PLAN_BF16, // weights, gradients and states in bf16
    PLAN_FP16, // inference only
};

// Absent values: 0 for sizes and counts, UNKNOWN, an empty view. The members' names are those of
// the history's columns and of the members of team files: see PLAN_FIELD.
struct plan {
    struct str model;
    int64_t image_size;      // pixels of the square's side
    int64_t sequence_length; // tokens
    int64_t target_length;   // tokens, seq2seq; of GRPO those of a completion
    int64_t batch;           // micro-batch of one device
    int64_t accumulation;    // micro-steps per optimizer step
    int64_t ranks;           // data-parallel devices
    int64_t shard_ranks;     // of these, so many share the weights (HSDP); 0: all
    int64_t tensor_parallel; // devices that split each layer, so many for each rank; below 2: none
    int64_t classes;         // outputs of the classifier
    enum plan_precision precision;
    struct str optimizer; // one of plan_optimizers
    struct str layout;    // nchw or nhwc
    struct str adapter;   // see plan_adapter; empty: every weight is trained
    struct str quant;     // of frozen weights: one of plan_quants; empty: none
    struct str shard; // how the ranks share weights: one of plan_shards, of ZeRO with more behind a
                      // colon (plan_zero_read); empty: each has all
    struct str loss;  // as plan_is_loss has it; empty: cross-entropy of all logits at once
    int64_t generated; // completions that a device makes at a time (GRPO); 0: as many as the batch
    struct str generator; // of them: empty: the model itself by transformers' generate; "server":
                          // another program elsewhere; "vllm:0.3": vLLM on the same GPU, with that
                          // share of its memory; "vllm:0.3:sleep": which it has while it generates
    bool frozen_fp32;     // weights that are not trained are in fp32, not in 2 bytes
    bool checkpointing, ema, inference;
    bool generates;  // beside inference: a language model writes on, and is not asked for a loss
    bool compile;    // torch.compile
    bool fused;      // the optimizer's kernel needs no temporaries
    bool expandable; // PYTORCH_ALLOC_CONF=expandable_segments:True
    // The trainer is torchtune: an adapter follows the weights' type, four bits are torchao's.
    bool is_torchtunes;
    bool lacks_flash; // the GPU has no flash attention, and so not every model a fused kernel
    unsigned lacks;   // what its trainer has no setting for: bits of plan_lack
};

enum plan_lack {
    PLAN_LACKS_ADAPTERS = 1,
    PLAN_LACKS_FSDP = 2,
    PLAN_LACKS_ZERO = 4,
    PLAN_LACKS_LIGER = 8
};
// Whether the other plan has something more that the trainer of this one lacks.
bool plan_lacks(const struct plan *p, const struct plan *other);

// "amp-fp16"; the words of the tape's header.
const char *plan_precision_name(enum plan_precision precision);
struct str plan_precision_text(enum plan_precision precision); // empty: UNKNOWN
enum plan_precision plan_precision_find(struct str name);      // UNKNOWN: no such name
extern const char *const plan_precisions[];                    // NULL-ended, PLAN_FP32 first
bool plan_precision_is_amp(enum plan_precision precision);     // autocast, in either type
extern const char *const plan_optimizers[];                    // NULL-ended
// "AdamW", "adamw_torch_fused", "torch.optim.SGD", "adamw_bnb_8bit" -> the name of plan_optimizers,
// NULL when it is not one of them.
const char *plan_optimizer_find(struct str spelled);
// The plan's. Those of bitsandbytes with 32 bits have states in fp32 whatever the weights are in:
// where weights are fp32, an adapter or parts of a master copy, they are as the plain ones.
struct str plan_optimizer_plain(const struct plan *p);

int plan_fsdp(struct str shard);           // torch's: 1 or 2; 0: it is another one
bool plan_fsdp_offloads(struct str shard); // "fsdp2:offload": weights and update are the host's
extern const char *const plan_shards[];    // NULL-ended: fsdp1, fsdp1:offload, fsdp2, ...
// "fsdp1" is counted as with transformers before 4.52: where layers under an adapter are computed
// again, it keeps what each was computed from, and its gradient, to the end of the backward pass.
// plan_fsdp1_newer does not.
extern const char plan_fsdp1_newer[]; // "fsdp1@4.52"
bool plan_fsdp1_retains(const struct plan *p);
// The word of a recording: of plan_fsdp1_newer the plain one where both need the same.
struct str plan_recorded_shard(const struct plan *p);
// "fsdp2" is counted as accelerate from 1.14 on applies it; this word, "fsdp2@1.13", as those
// before and Axolotl do: embedding, last norm and head are one group, and shards have the type that
// the weights were loaded in.
extern const char plan_fsdp2_older[];
// FSDP2 as torchtitan wraps its Llama: "titan", or "titan:op" where some operations of each layer
// are computed again (its selective checkpointing).
bool plan_is_titan(struct str shard);
// FSDP2 as torchtune's distributed recipes apply it: shards in the type of the weights.
bool plan_is_tune(struct str shard);
int64_t plan_devices(const struct plan *p); // of the whole training
// DeepSpeed's ZeRO as a plan's shard says it: "zero2", "zero2:200000000", "zero2:auto:overlap",
// "zero3:auto:overlap:reuse=0"; with what is kept elsewhere than on the GPU, "optimizer=cpu" and,
// of stage 3, "param=nvme".
#define PLAN_ZERO_BUCKET INT64_C(500000000) // reduce_bucket_size where nobody says it (0.19.8)
#define PLAN_BUCKET_MAX ((int64_t)1 << 40)
enum plan_zero_number {          // of stage 3, elements
    PLAN_ZERO_PREFETCH,          // stage3_prefetch_bucket_size
    PLAN_ZERO_PERSIST,           // stage3_param_persistence_threshold
    PLAN_ZERO_LIVE,              // stage3_max_live_parameters
    PLAN_ZERO_REUSE,             // stage3_max_reuse_distance
    PLAN_ZERO_GROUP,             // sub_group_size
    PLAN_ZERO_OPTIMIZER_BUFFERS, // offload_optimizer.buffer_count
    PLAN_ZERO_PARAM_BUFFERS,     // offload_param.buffer_count
    PLAN_ZERO_PARAM_BUFFER,      // offload_param.buffer_size
    PLAN_ZERO_PARAM_MOST,        // offload_param.max_in_cpu
    PLAN_ZERO_NUMBERS
};
enum plan_place { PLAN_ON_GPU, PLAN_ON_CPU, PLAN_ON_NVME };      // offload_*.device
enum plan_offload { PLAN_OPTIMIZER, PLAN_PARAM, PLAN_OFFLOADS }; // offload_optimizer, offload_param
enum { PLAN_ZERO_AUTO = -1 }; // what transformers makes of the hidden size
struct plan_zero {
    int stage;      // 1 to 3
    int64_t bucket; // reduce_bucket_size, elements; 0: "auto", the square of the hidden size
    bool overlaps;  // overlap_comm
    int64_t numbers[PLAN_ZERO_NUMBERS]; // of stage 3; of others 0
    enum plan_place places[PLAN_OFFLOADS];
    bool is_paged;     // pin_memory is off
    bool is_reentrant; // layers are recomputed with use_reentrant=True
};
// False: it is none.
bool plan_zero_read(struct str shard, struct plan_zero *ret);
bool plan_zero_is_same(const struct plan_zero *a, const struct plan_zero *b);
const char *plan_zero_word(enum plan_zero_number number); // "prefetch", as a shard spells it
// "liger" (with its other layers, as use_liger_kernel has them), "liger:loss", "liger@0.5.2",
// "chunked", "chunked:16", "linear", "linear:16", "cut", and what plan_preference_read reads: the
// recorder's words.
bool plan_is_loss(struct str text);
// A loss of preferences: "dpo", "dpo:precomputed", "dpo@1.15", "orpo", "cpo-simpo@1.16",
// "simpo:llamafactory"; a table in loss.c has all of them.
enum plan_step {
    PLAN_STEP_DPO,    // pairs, and a reference's scores of them
    PLAN_STEP_ORPO,   // pairs alone, and a cross-entropy of the preferred half: CPO, too
    PLAN_STEP_SIMPO,  // pairs alone
    PLAN_STEP_KTO,    // samples and as many others, and a reference's scores of both
    PLAN_STEP_REWARD, // pairs, whose last tokens a head of its own gives a number
    PLAN_STEP_GRPO,   // completions, whose tokens are scored
};
enum plan_scores {            // of tokens
    PLAN_SCORES_WHOLE,        // of all logits, as trl makes them before its kernels do
    PLAN_SCORES_NEW,          // by its kernels, from 1.14 or 1.15 on
    PLAN_SCORES_LLAMAFACTORY, // with a softmax of all of them beside
};
struct plan_preference {
    enum plan_step step;
    enum plan_scores scores;
    bool is_precomputed; // the reference's scores come with the data
    bool refers;         // of GRPO: a reference scores the completions, too (beta is not 0)
};
bool plan_preference_read(struct str loss, struct plan_preference *ret); // false: it is none
bool plan_is_preference(struct str loss);
bool plan_has_reference(struct plan_preference p);         // or its scores
struct str plan_preference_word(struct plan_preference p); // empty: no version does so
bool plan_is_of_completions(struct str loss);
double plan_engine_share(struct str generator); // 0: it is none on the GPU
bool plan_engine_sleeps(struct str generator);  // it has its share only while it generates
// The word for all versions that need the same; of other losses the loss.
struct str plan_loss_form(struct str loss);
extern const char *const plan_places[];             // "", "cpu", "nvme"; NULL-ended
extern const char *const plan_offloads[];           // "optimizer", "param"; NULL-ended
bool plan_zero_offloads(const struct plan_zero *z); // something is elsewhere than on the GPU
// The shard with that kept on the host ("optimizer", "param", "all"), as its other words stay; of
// FSDP the optimizer goes where the parameters are. Empty: the shard keeps it.
struct str plan_offload(struct arena *a, struct str shard, struct str what);
// NULL-ended: nf4, nf4-dq (its scales quantised, too), nf4-torchao; of the first two with -left
// embedding, norms and head stay as loaded, where peft casts them to fp32.
extern const char *const plan_quants[];
bool plan_quant_is_left(struct str quant);
// How much more one has than is wanted: its scales 1, the rest in fp32 8; -1: it has less.
int plan_quant_excess(struct str has, struct str wanted);
// LoRA: its rank, the layers it is on (names, separated by commas, in a layer's order) and more, in
// the recorder's words: "lora:16", "lora:16:q_proj,v_proj:dropout". "all" and "all-linear" are
// "all-linear", which is left out at the end. Empty: the rank is no number from 1 on, a name is
// none, or there is more than plan_adapter_more says.
struct str plan_adapter(struct arena *a, int64_t rank, struct str targets, struct str more);
// "dropout:bf16": it has dropout; it is in bf16, where it is in fp32 else.
struct str plan_adapter_more(bool has_dropout, bool is_bf16);
// The same, "all-linear" where it names all of these layers; empty: those of a Llama.
struct str plan_adapter_short(struct arena *a, struct str adapter, struct str layers);
int64_t plan_adapter_rank(struct str adapter); // 0: none
// What stands behind the rank: "q_proj,v_proj"; empty: every linear layer, and no more.
struct str plan_adapter_rest(struct str adapter);
bool plan_adapter_has_dropout(struct str adapter);
bool plan_adapter_is_bf16(struct str adapter);
// Whether frozen weights of an adapter are in fp32 under autocast, which casts them at each use.
bool plan_is_wide(const struct plan *p);
// The layers alone; empty: every linear layer.
struct str plan_adapter_targets(struct str adapter);
// "full fine-tuning", "LoRA" or "QLoRA".
const char *plan_training_name(struct str adapter, struct str quant);

// A member of a plan that stands `at` bytes into a record, as a row of the record's table.
// clang-format off
#define PLAN_FIELD(at, member)                                           \
    {                                                                    \
        .name = #member, .offset = (at) + offsetof(struct plan, member), \
        .words = plan_precisions,                                        \
        .type = _Generic(((struct plan *)1)->member, /* unevaluated */           \
            struct str: FIELD_TEXT,                                      \
            int64_t: FIELD_COUNT,                                        \
            bool: FIELD_SWITCH,                                          \
            enum plan_precision: FIELD_WORD)                             \
    }
// clang-format on

// What the learning sees: batch x accumulation x ranks.
int64_t plan_effective(const struct plan *p);
int64_t plan_shard_ranks(const struct plan *p); // that share the weights
int64_t plan_micro_steps(const struct plan *p); // its accumulation; 1 where none is said
// The fewest micro-steps with which batch x ranks reaches the effective batch; 1 where none is
// asked for (0).
int64_t plan_accumulation(int64_t effective, int64_t batch, int64_t ranks);

// The batches that may be tried, largest first.
struct plan_batches {
    int64_t *values;
    int count;
};
enum { PLAN_BATCH_MOST = 4096 }; // tried where nobody says more
struct plan_range {
    // Inclusive; 0: no bound (least 1, most PLAN_BATCH_MOST or the config's own).
    int64_t least, most;
    int64_t multiple; // batches at and above it are multiples of it, below it any; 0: 4
    int64_t own;      // the config's batch: always tried when within the bounds; 0: none
};
// Every batch of the range: multiples of range.multiple, and 1 … multiple-1.
struct plan_batches plan_every_batch(struct arena *a, const struct plan_range *range);
// Those of them that keep the effective batch exactly: batch x ranks divides it.
struct plan_batches plan_keeping(struct arena *a, struct plan_batches every, int64_t effective,
                                 int64_t ranks);
