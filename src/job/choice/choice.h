// SPDX-License-Identifier: Apache-2.0
// What the verbs fit and infer share: the batch for a config on a GPU, by prediction or by trials.
#pragma once

#include "job/answer/answer.h"
#include "job/answer/tta.h"
#include "job/choice/choice_int.h"
#include "job/question/question.h"
#include "measure/launch/launch.h"

struct choice_options {
    struct question_options q;
    struct launch_options l;
    struct history_options h;
    struct answer_tta_options t; // of infer only
    const char *gpu, *gpu_ids, *machine, *save_config, *save_profile, *prefer, *measured, *find,
        *share, *trace;
    int64_t gpu_memory;
    bool eval_batch, test_only, free_batch, add_accumulation, force, force_anchor, force_special,
        profile_memory, details;
};

#define CHOICE_AT(member) offsetof(struct choice_options, member)
#define CHOICE_TRAINING_ROWS                                                                       \
    QUESTION_TRAINING_ROWS(struct choice_options),                                                 \
        CLI_ROW("gpus", "LIST", CLI_LIST, CHOICE_AT(q.gpus),                                       \
                "several GPUs of this name in one training: 8xh100 (--gpu and --ranks in one); "   \
                "with --check the GPUs to judge: rtx3060,a100,8xh100",                             \
                "gpus", .about = CLI_OF_GPUS),                                                     \
        CLI_ROW("find", "WORD", CLI_TEXT, CHOICE_AT(find),                                         \
                "at the config's batch (or 1), find instead: seq-len (the longest sequence), "     \
                "gpus (the fewest that --shard needs), lora (the largest rank) or shard (the "     \
                "least sharding: zero1, zero2, fsdp2); for models with a template",                \
                "seq-len gpus lora shard", .about = CLI_OF_ANSWER),                                \
        CLI_ROW("free-batch", NULL, CLI_SWITCH, CHOICE_AT(free_batch),                             \
                "do not keep the effective batch, neither the config's nor the command's default", \
                .about = CLI_OF_FREEDOM),                                                          \
        CLI_ROW("add-accumulation", NULL, CLI_SWITCH, CHOICE_AT(add_accumulation),                 \
                "add a key for gradient accumulation even if no code around the config reads it",  \
                .about = CLI_OF_EDIT)
#define CHOICE_ROWS                                                                                \
    QUESTION_ROWS_OF_ALL(struct choice_options), LAUNCH_ROWS(struct choice_options),               \
        HISTORY_ROWS(struct choice_options),                                                       \
        CLI_ROW("fresh", NULL, CLI_SWITCH, CHOICE_AT(h.fresh),                                     \
                "rerun trials that the history already has", .about = CLI_OF_TRIALS),              \
        CLI_ROW("prefer", "WORD", CLI_TEXT, CHOICE_AT(prefer),                                     \
                "after trials: largest (the largest batch that ran safely) or knee (the smallest " \
                "within 2 % of the fastest)",                                                      \
                "largest knee", .about = CLI_OF_TRIALS),                                           \
        CLI_ROW_GPU(CHOICE_AT(gpu)), CLI_ROW_GPU_MEMORY(CHOICE_AT(gpu_memory)),                    \
        CLI_ROW_GPU_IDS(CHOICE_AT(gpu_ids)), CLI_ROW_MACHINE(CHOICE_AT(machine)),                  \
        CLI_ROW("measured", "MODEL=SAMPLES", CLI_REPEAT, CHOICE_AT(measured),                      \
                "measured samples/s of this model, or of about ten others (MODEL@BATCH=SAMPLES "   \
                "at another batch): corrects the predicted speed",                                 \
                .about = CLI_OF_ANSWER),                                                           \
        CLI_ROW_TEST_ONLY(CHOICE_AT(test_only)),                                                   \
        CLI_ROW("save-config", "FILE", CLI_TEXT, CHOICE_AT(save_config),                           \
                "write the changed config here and leave the original alone", "file",              \
                .about = CLI_OF_EDIT),                                                             \
        CLI_ROW("profile-memory", NULL, CLI_SWITCH, CHOICE_AT(profile_memory),                     \
                "also show where the memory goes (batchfit explain)", .about = CLI_OF_ANSWER),     \
        CLI_ROW_DETAILS(CHOICE_AT(details)),                                                       \
        CLI_ROW("save-profile", "FILE", CLI_TEXT, CHOICE_AT(save_profile),                         \
                "write what holds the memory at the peak as JSON (explain --json)", "file",        \
                .about = CLI_OF_ANSWER),                                                           \
        CLI_ROW_SHARE(CHOICE_AT(share)), CLI_ROW_TRACE_STEPS(CHOICE_AT(trace)),                    \
        CLI_ROW_FORCE(CHOICE_AT(force)),                                                           \
        CLI_ROW("force-anchor", NULL, CLI_SWITCH, CHOICE_AT(force_anchor),                         \
                "allow changing a YAML anchor, and with it everything that refers to it",          \
                .about = CLI_OF_EDIT),                                                             \
        CLI_ROW("force-special", NULL, CLI_SWITCH, CHOICE_AT(force_special),                       \
                "allow replacing values such as auto, null, ${…} or an alias",                     \
                .about = CLI_OF_EDIT)

// The way with -- COMMAND, of a verb for which `example` is one. That a GPU is named beside it, or
// --trace without it, has a word of its own.
enum {
    CHOICE_TRIALS_TAKE = CLI_OF_TRAINING | CLI_OF_SPLIT | CLI_OF_FILES | CLI_OF_MEMORY |
                         CLI_OF_OTHERS | CLI_OF_SEARCH | CLI_OF_STEP | CLI_OF_GPU | CLI_OF_GPUS |
                         CLI_OF_MACHINE | CLI_OF_EDIT | CLI_OF_FREEDOM | CLI_OF_NO_EDIT |
                         CLI_OF_HISTORY | CLI_OF_VIEWS | CLI_OF_STEPS,
};
#define CHOICE_TRIALS_INSTEAD "leave out the command after -- to predict"
#define CHOICE_WAY_TRIALS(example) \
    { "-- COMMAND", CHOICE_TRIALS_TAKE, CLI_OF_TRIALS, example, "measures", CHOICE_TRIALS_INSTEAD }

// How the options ask for the config to be written.
struct answer_write_options choice_write_options(const struct choice_options *o);

// 0, FAIL_NO (shown), or an error. A plan is an inference by q.inference.
int choice_answer(struct arena *a, const struct choice_options *o, struct fail *why);

// What fits, asked the other way round: not the largest batch, but at the config's batch the
// longest sequence, the fewest GPUs that share the weights, the largest rank of LoRA or the least
// sharing.

// Before the question is read: the word is known, and what it finds is not said beside it.
int choice_find_check(struct choice_options *o, struct fail *why);
// Puts what was found into the question, at its batch; where nothing fits, the least.
int choice_find(struct question *q, const char *what, const struct question_gpus *cards,
                struct fail *why);
