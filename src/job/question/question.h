// SPDX-License-Identifier: Apache-2.0
// What fit, team and explain are asked: a training, from the config and the command line, and what
// is needed to answer. The options here are the first members of those verbs' option structs.
#pragma once

#include "base/os.h"
#include "cli/cli.h"
#include "measure/launch/launch.h"
#include "predict/forecast/forecast.h"
#include "predict/speed/speed.h"
#include "records/config/config.h"

struct question;
struct question_options {
    struct cli_options base;
    const char *config, *dialect, *section, *keys;
    const char *model, *precision, *optimizer, *tape, *alloc_conf, *lora, *quant, *shard, *gpus,
        *loss, *offload;
    int64_t image_size, sequence_length, target_length, classes, ranks, tensor_parallel;
    int64_t batch, accumulation, effective, least, most, multiple;
    bool checkpointing, inference, ema, channels_last, compile;
    double margin;
    int64_t overhead_bytes, others_bytes, host_bytes;
    bool model_is_optional;               // no option: trials need none
    bool gpus_in_all;                     // no option: ranks has all GPUs (--gpus 8xh100)
    bool ranks_are_open;                  // their number is what is asked for
    bool is_measured;                     // no option: trials answer, whatever the config asks for
    const struct question_source *source; // no option: what the config is read from; NULL: files
    // No option: a question with the same tape and allocator options, whose tables and tapes are
    // this one's, too; NULL: all of it is read.
    const struct question *like;
};

// The rows of these options, for a verb whose struct is `type` with the member `q`.
#define QUESTION_AT(type, member) offsetof(type, q.member)

// What only a training has.
#define QUESTION_TRAINING_ROWS(type)                                                            \
    CLI_ROW("optimizer", "NAME", CLI_TEXT, QUESTION_AT(type, optimizer),                        \
            "sgd, adam, adamw, adamw_torch_fused (in one kernel), adafactor, lion, or "         \
            "bitsandbytes' adamw8bit, adamw32bit, lion32bit",                                   \
            "sgd adam adamw adamw_torch_fused adafactor lion adamw8bit adamw32bit lion32bit",   \
            .about = CLI_OF_TRAINING),                                                          \
        CLI_ROW("checkpointing", NULL, CLI_SWITCH, QUESTION_AT(type, checkpointing),            \
                "use gradient checkpointing", .about = CLI_OF_TRAINING),                        \
        CLI_ROW("lora", "RANK[:NAMES]", CLI_TEXT, QUESTION_AT(type, lora),                      \
                "train LoRA of this rank over frozen weights: on every linear layer, "          \
                "or 16:q_proj,v_proj",                                                          \
                .about = CLI_OF_TRAINING),                                                      \
        CLI_ROW("quant", "WORD", CLI_TEXT, QUESTION_AT(type, quant),                            \
                "with --lora: frozen weights in four bits: nf4, nf4-dq (double quantisation), " \
                "either with -left (the rest in bf16, as in Axolotl), or nf4-torchao (as in "   \
                "torchtune)",                                                                   \
                "nf4 nf4-dq nf4-left nf4-dq-left nf4-torchao", .about = CLI_OF_TRAINING),       \
        CLI_ROW(                                                                                \
            "loss", "WORD", CLI_TEXT, QUESTION_AT(type, loss),                                  \
            "loss of a language model: liger (with Liger's other kernels, as "                  \
            "use_liger_kernel; needs --checkpointing); cut (Apple's cut cross-entropy, as in "  \
            "Axolotl; needs --checkpointing); linear (torchtune's, by chunks of tokens; needs " \
            "--checkpointing); dpo (pairs and a reference model, trl 0.12 to 1.13), "           \
            "dpo@1.15 (trl 1.15 or later), dpo:precomputed, dpo:llamafactory; pairs "           \
            "without a reference: orpo (trl 0.15 to 1.13), orpo@1.14, cpo, cpo-simpo, simpo, "  \
            "orpo:llamafactory, simpo:llamafactory; kto (samples and a reference), kto@1.15; "  \
            "reward (trl's RewardTrainer); grpo (completions of --target-len tokens), "         \
            "grpo:reference, grpo@1.15; chunked (if recorded so)",                              \
            "liger cut linear dpo dpo@1.15 dpo:precomputed dpo:llamafactory orpo orpo@1.14 "    \
            "cpo cpo-simpo simpo orpo:llamafactory simpo:llamafactory kto kto@1.15 reward "     \
            "grpo grpo:reference grpo@1.15",                                                    \
            .about = CLI_OF_TRAINING),                                                          \
        CLI_ROW(                                                                                \
            "shard", "WORD", CLI_TEXT, QUESTION_AT(type, shard),                                \
            "how several GPUs share the weights: fsdp2 (torch's fully_shard; fsdp2@1.13: "      \
            "accelerate up to 1.13, or Axolotl), fsdp1 (fsdp1@4.52: transformers 4.52 or "      \
            "later), titan (torchtitan's FSDP2; titan:op: some operations recomputed), "        \
            "torchtune (its recipes' FSDP2), zero1 to zero3 (DeepSpeed; zero3:BUCKET:overlap)", \
            "fsdp1 fsdp1@4.52 fsdp2 fsdp2@1.13 titan titan:op torchtune zero1 zero2 zero3",     \
            .about = CLI_OF_TRAINING),                                                          \
        CLI_ROW("tp", "N", CLI_COUNT, QUESTION_AT(type, tensor_parallel),                       \
                "with --shard fsdp2 or titan: number of GPUs that split each layer (tensor, "   \
                "sequence and loss parallel, as in torchtitan)",                                \
                .about = CLI_OF_SPLIT),                                                         \
        CLI_ROW("offload", "WHAT", CLI_TEXT, QUESTION_AT(type, offload),                        \
                "what is kept in the host's memory: optimizer (ZeRO's master copy and states; " \
                "the CPU updates), param (zero3) or all (both; zero3 and FSDP)",                \
                "optimizer param all", .about = CLI_OF_TRAINING),                               \
        CLI_ROW("host-memory", "BYTES", CLI_BYTES, QUESTION_AT(type, host_bytes),               \
                "memory of the machine that holds the GPUs, for --offload (default this "       \
                "machine's, if its own GPUs train)",                                            \
                .about = CLI_OF_MEMORY),                                                        \
        CLI_ROW("effective-batch-size", "N", CLI_COUNT, QUESTION_AT(type, effective),           \
                "effective batch to keep (default the config's batch x accumulation x ranks)",  \
                .about = CLI_OF_STEP)

// What predictions of every kind take.
#define QUESTION_ROWS_OF_ALL(type)                                                                 \
    CLI_ROW("config", "FILE", CLI_TEXT, QUESTION_AT(type, config),                                 \
            "training config (YAML or JSON, of any common trainer)", "file",                       \
            .about = CLI_OF_FILES),                                                                \
        CLI_ROW("model", "NAME", CLI_TEXT, QUESTION_AT(type, model),                               \
                "model, if the config does not name it (batchfit list models)", "models",          \
                .about = CLI_OF_TRAINING),                                                         \
        CLI_ROW("img-size", "N", CLI_COUNT, QUESTION_AT(type, image_size), "image size in pixels", \
                .about = CLI_OF_TRAINING),                                                         \
        CLI_ROW("seq-len", "N", CLI_COUNT, QUESTION_AT(type, sequence_length),                     \
                "sequence length in tokens", .about = CLI_OF_TRAINING),                            \
        CLI_ROW("target-len", "N", CLI_COUNT, QUESTION_AT(type, target_length),                    \
                "target length in tokens (seq2seq), or the part of --seq-len that is generated "   \
                "(GRPO, infer)",                                                                   \
                .about = CLI_OF_TRAINING),                                                         \
        CLI_ROW_NUM_CLASSES(QUESTION_AT(type, classes)),                                           \
        CLI_ROW("precision", "WORD", CLI_TEXT, QUESTION_AT(type, precision),                       \
                "fp32, amp-fp16, amp-bf16, bf16 or fp16 (default the config's, else what suits "   \
                "the GPU)",                                                                        \
                "fp32 amp-fp16 amp-bf16 bf16 fp16", .about = CLI_OF_TRAINING),                     \
        CLI_ROW("channels-last", NULL, CLI_SWITCH, QUESTION_AT(type, channels_last),               \
                "use the channels_last layout", .about = CLI_OF_TRAINING),                         \
        CLI_ROW("compile", NULL, CLI_SWITCH, QUESTION_AT(type, compile),                           \
                "the model runs under torch.compile (a config's torch_compile is read)",           \
                .about = CLI_OF_TRAINING),                                                         \
        CLI_ROW("ema", NULL, CLI_SWITCH, QUESTION_AT(type, ema),                                   \
                "keep an exponential moving average of the weights", .about = CLI_OF_TRAINING),    \
        CLI_ROW("ranks", "N", CLI_COUNT, QUESTION_AT(type, ranks),                                 \
                "number of data-parallel devices", .about = CLI_OF_SPLIT),                         \
        CLI_ROW("min-batch-size", "N", CLI_COUNT, QUESTION_AT(type, least),                        \
                "smallest batch to try", .about = CLI_OF_SEARCH),                                  \
        CLI_ROW("max-batch-size", "N", CLI_COUNT, QUESTION_AT(type, most), "largest batch to try", \
                .about = CLI_OF_SEARCH),                                                           \
        CLI_ROW("multiple", "N", CLI_COUNT, QUESTION_AT(type, multiple),                           \
                "try only multiples of N, or any number below N (default 4)",                      \
                .about = CLI_OF_SEARCH),                                                           \
        CLI_ROW(                                                                                   \
            "safety-margin", "SHARE", CLI_SHARE, QUESTION_AT(type, margin),                        \
            "share of the GPU's memory to keep free (default 0.10 to 0.20, by the GPU's tier)",    \
            "", .about = CLI_OF_MEMORY),                                                           \
        CLI_ROW("overhead", "BYTES", CLI_BYTES, QUESTION_AT(type, overhead_bytes),                 \
                "memory outside PyTorch's allocator: what nvidia-smi shows for a process with "    \
                "one small tensor (default from a table)",                                         \
                .about = CLI_OF_MEMORY),                                                           \
        CLI_ROW("other-processes", "BYTES", CLI_BYTES_OR_NONE, QUESTION_AT(type, others_bytes),    \
                "memory that other processes use on the GPU; 0: as if it were empty",              \
                .about = CLI_OF_OTHERS),                                                           \
        CLI_ROW_ALLOC_CONF(QUESTION_AT(type, alloc_conf)),                                         \
        CLI_ROW("tape", "FILE", CLI_TEXT, QUESTION_AT(type, tape),                                 \
                "predict from this tape only (batchfit record)", "file", .about = CLI_OF_FILES),   \
        CLI_ROW_CONFIG_DIALECT(QUESTION_AT(type, dialect)),                                        \
        CLI_ROW_CONFIG_SECTION(QUESTION_AT(type, section)),                                        \
        CLI_ROW("key", "ROLE=PATH", CLI_LIST, QUESTION_AT(type, keys),                             \
                "config key for a value: batch=train.bs (repeatable)", .about = CLI_OF_TRAINING)

#define QUESTION_ROWS(type) QUESTION_ROWS_OF_ALL(type), QUESTION_TRAINING_ROWS(type)

// For a verb that is asked of both; fit has the verb infer beside it.
#define QUESTION_ROW_INFERENCE(type)                                     \
    CLI_ROW("inference", NULL, CLI_SWITCH, QUESTION_AT(type, inference), \
            "predict evaluation or inference instead of training")

struct question {
    struct arena *arena;
    bool has_config;
    struct str path;    // of the config
    struct str section; // below which it was read (--section); empty: all of it
    struct os_stamp stamp;
    struct config config;
    struct config_reading reading;
    struct config_batches batches; // micro 0: the config does not say
    struct plan plan;              // what is trained now
    int64_t effective;             // to be kept; 0: not known, the batch is free
    bool is_decided;               // by trials or by a tape: no default of the config is said
    bool precision_fixed;          // by the user: not adapted to the GPU
    bool precision_is_open;        // nobody says any: the GPU decides
    bool batch_is_trainings;       // asked for inference, and the config has no batch for it
    double margin;                 // NaN: by tier
    int64_t overhead_bytes;        // 0: by table
    int64_t others_bytes;          // 0: what the driver says; -1: none
    int64_t host_bytes;            // of the machine; 0: this one's, where its GPUs train
    struct plan_range range;
    struct gpu_catalogue gpus;
    struct speed_table speeds;
    struct speed_tokens_table tokens;
    struct tape_store store;
    struct forecast_cache tape_cache; // on the store
    struct shape shape;               // of a model that is a file of the user's own
    struct str_list notes;            // for the user to read
};

// Reads the config and fills the question, which must not be moved afterwards. Errors name the file
// or the option.
int question_open(struct arena *a, const struct question_options *o, struct question *ret,
                  struct fail *why);
// Whether the plan's model is a language model by its shape whose weights are published in bf16, so
// not T5's, GPT-2's or an encoder's.
bool question_is_of_bf16(struct question *q);
// Completions of a prompt that GRPO compares: its batches are whole groups. 0: none, or not known.
int64_t question_group(const struct question *q);
// The GPU by its name or, without one, by its memory.
int question_card(struct question *q, struct str name, int64_t memory_bytes,
                  struct forecast_card *ret_card, struct fail *why);
// A GPU that a device or a caller names already.
void question_place(struct question *q, struct gpu gpu, struct forecast_card *ret_card);
void question_note(struct question *q, struct str note);
__attribute__((format(printf, 2, 3))) void question_say(struct question *q, const char *format,
                                                        ...);

// The config's settings that the answer does not count: "LoRA (finetuning_type: lora), …"; empty:
// none. The first note says so, and begins with these words.
#define QUESTION_NOT_MODELLED "not modelled: "
struct str question_not_modelled(const struct question *q);
// Of which training a verdict is, for what is not modelled: of one that does not fit some of it may
// lower what a GPU holds, of one that fits it may add to that; then it is another one's. Where all
// of it lowers, and surely, the figures are upper bounds.
enum question_whose {
    QUESTION_OF_IT,         // of the one that was asked for
    QUESTION_OF_IT_AT_MOST, // the same, of which the figures are bounds
    QUESTION_OF_MORE,       // of another, which needs more: bounds, too
    QUESTION_OF_ANOTHER,
};
// *ret_without: the same without its places, "ZeRO stage 3, LoRA"; may be NULL.
enum question_whose question_whose(const struct question *q, bool fits, struct str *ret_without);
// For a prediction that ends in an error and shows no notes: says the same on stderr. Returns rc.
int question_failed(const struct question *q, int rc);
// The guard that names another head than tapes and templates have; NULL: there is none.
#define QUESTION_MASKED "a head for masked words"
const struct config_guard *question_head(const struct question *q);
bool question_counts_out(const struct question *q, const struct config_guard *g);
// Whether the config has a setting of that kind (struct config_guard). Those of "compile" and
// "average" no role reads: the plan has them by it.
bool question_has_guard(const struct question *q, const char *kind);

// Which GPUs a question is answered for.

struct question_gpus {
    struct forecast_card *items;
    ptrdiff_t count, capacity;
};

// "rtx4090,rtx3080"
int question_gpus_named(struct question *q, const char *names, struct question_gpus *ret_cards,
                        struct fail *why);
// Those of the catalogue.
void question_gpus_every(struct question *q, struct question_gpus *cards);
// The GPUs of the config's team_gpu_settings, else four that span what teams have.
int question_gpus_of_team(struct question *q, struct question_gpus *ret_cards, struct fail *why);
// This machine's, all or those with the ids "0,2". None is no error: a note says why there is none.
int question_gpus_here(struct question *q, const char *ids, const char *machine,
                       struct question_gpus *ret_cards, struct fail *why);
// The GPU that a command is launched on; where it is limited to a part of it, or on the CPU,
// one of that size.
int question_gpu_of_place(struct question *q, const struct launch_place *place, const char *machine,
                          struct forecast_card *ret_card, struct fail *why);

// The config and the files that it is made of.

// The project that a config is in: the nearest folder above it that holds .git, pyproject.toml or
// setup.py; without one, the working folder if the config is below it, else the config's own.
struct str question_project(struct arena *a, const char *path);

// Where configs are read from, if not from the file system: a commit of git. By the path that the
// user typed, or one that a config names relative to that.
struct question_source {
    int (*read)(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why);
    void *self;
};

// config_parse with the other files of the config at hand: regular files of at most 16 MiB inside
// of its project, wherever a link leads.
int question_parse(struct arena *a, const char *path, struct str text, struct config *ret_config,
                   struct fail *why);
// The same with the other files from where this one came from.
int question_parse_from(struct arena *a, const char *path, struct str text,
                        const struct question_source *source, struct config *ret_config,
                        struct fail *why);

// Where a config says how inference is to be.

// The first of these keys in a section for inference, below `prefix` (empty: the top).
bool question_infer_key(struct arena *a, const struct config *c, struct str prefix,
                        const char *const *keys, struct str *ret_path);
// config_read_roles for inference: the batch is that of inference, else of evaluation.
// *ret_is_trainings: it is the training's for want of one, or nowhere, and not to be written.
int question_infer_roles(struct arena *a, const struct config *c,
                         const struct config_options *asked, struct config_reading *ret_reading,
                         bool *ret_is_trainings, struct fail *why);

// Weights that several GPUs share: from the command line, or from what the config says of it.

// Puts it into the plan. Of a config that is FSDP2 as templates have it, and nothing beside it;
// what else a config says of sharding stays one of its guards.
int question_shard(struct question *q, const struct question_options *o, struct fail *why);
// Whether the plan has what the config says here.
bool question_shard_models(const struct question *q, const struct config_guard *g);
// When the model and the number of GPUs are known: sharding is over several. What the config alone
// asks for and cannot be predicted is one of its guards again.
int question_shard_check(struct question *q, const struct question_options *o, struct fail *why);
// A word of --gpus, "8xh100" or "h100": its name, and how many; 0: it does not say. FAIL_USAGE: it
// is neither, or other than --ranks.
int question_gpu_word(const struct question_options *o, struct str word, int64_t *ret_count,
                      struct str *ret_name, struct fail *why);
// All of --gpus as one such word with a number: the name of the GPU, and 8 into the options' ranks.
int question_shard_gpus(struct question_options *o, const char **ret_gpu, struct arena *a,
                        struct fail *why);

// LoRA over frozen weights, in four bits or not: from the command line, or from what the config
// says of it.

// Puts it into the plan. What the config says only in part stays one of its guards.
int question_adapter(struct question *q, const struct question_options *o, struct fail *why);
// What it is trained in where nobody says it.
enum plan_precision question_adapter_precision(const struct plan *p);
// After the precision is known: an adapter of a trainer whose adapters are in the weights' type.
void question_adapter_type(struct question *q);
// After all else of the plan is known: a config's adapter that no tape or template covers becomes
// one of its guards again, and the reason a note.
void question_adapter_check(struct question *q, const struct question_options *o);
// Whether a guard of the config is in the plan.
bool question_adapter_models(const struct question *q, const struct config_guard *g);
// "LoRA", "QLoRA" or "full fine-tuning"
