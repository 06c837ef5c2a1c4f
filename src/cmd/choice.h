// SPDX-License-Identifier: Apache-2.0
// What the verbs fit and infer share: the batch for a config on a card, by prediction or by trials.
#ifndef CMD_CHOICE_H
#define CMD_CHOICE_H

#include "cmd/infer/tta.h"
#include "cmd/launch_rows.h"
#include "cmd/measure.h"

struct choice_options {
    struct question_options q;
    struct launch_options l;
    struct history_options h;
    struct tta_options t; // of infer only
    const char *gpu, *gpu_ids, *machine, *save_config, *save_profile, *prefer, *measured;
    int64_t gpu_memory;
    bool eval_batch, test_only, force, force_anchor, force_special, profile_memory;
};

#define CHOICE_AT(member) offsetof(struct choice_options, member)
#define CHOICE_ROWS                                                                                \
    QUESTION_ROWS(struct choice_options), LAUNCH_ROWS(struct choice_options),                         \
        HISTORY_ROWS(struct choice_options),                                                       \
        ROW("fresh", NULL, OPTION_SWITCH, CHOICE_AT(h.fresh),                                      \
            "runs trials again that the history has", NULL),                                    \
        ROW("prefer", "WORD", OPTION_TEXT, CHOICE_AT(prefer),                                      \
            "after trials: largest (the largest batch that ran safely) or knee (the smallest "  \
            "that was as fast within 2 %)",                                                     \
            "largest knee"),                                                                    \
        ROW_GPU(CHOICE_AT(gpu)), ROW_GPU_MEMORY(CHOICE_AT(gpu_memory)), ROW_GPU_IDS(CHOICE_AT(gpu_ids)), \
        ROW_MACHINE(CHOICE_AT(machine)),                                                           \
        ROW("measured", "MODEL=SAMPLES", OPTION_REPEAT, CHOICE_AT(measured),                       \
            "samples per second that the card made of this model, or of several others (about " \
            "ten; MODEL@BATCH=SAMPLES at another batch): corrects the predicted speed",         \
            ""),                                                                                \
        ROW_TEST_ONLY(CHOICE_AT(test_only)),                                                       \
        ROW("save-config", "FILE", OPTION_TEXT, CHOICE_AT(save_config),                            \
            "writes the changed config here and leaves the original alone", "file"),            \
        ROW("profile-memory", NULL, OPTION_SWITCH, CHOICE_AT(profile_memory),                      \
            "also shows where the bytes go (batchfit explain)", NULL),                          \
        ROW("save-profile", "FILE", OPTION_TEXT, CHOICE_AT(save_profile),                          \
            "writes what stands at the peak as JSON (explain --json)", "file"),                 \
        ROW_FORCE(CHOICE_AT(force)), ROW("force-anchor", NULL, OPTION_SWITCH, CHOICE_AT(force_anchor),                          \
            "may change a YAML anchor, and so everything that refers to it", NULL),             \
        ROW("force-special", NULL, OPTION_SWITCH, CHOICE_AT(force_special),                        \
            "may replace values such as auto, null, ${…} or an alias", NULL)

// 0, FAIL_NO (shown), or an error. A plan is an inference by q.inference.
int choice_answer(struct arena *a, const struct choice_options *o, struct fail *why);

#endif
