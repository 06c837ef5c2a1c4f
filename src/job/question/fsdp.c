// SPDX-License-Identifier: Apache-2.0
// torch's FSDP as a config's trainer applies it. Facts: accelerate 1.15 (utils/dataclasses.py,
// FullyShardedDataParallelPlugin; accelerator.py, utils/fsdp_utils.py), transformers 5.23
// (training_args.py, _process_fsdp_args), Axolotl 0.13 (monkeypatch/accelerate/fsdp2.py).
#include "job/question/question_int.h"

// data/dialects.tsv
static const char with_offload[] = "FSDP with offload", unsaid[] = "FSDP",
                  own_checkpointing[] = "FSDP with its own checkpointing",
                  gathers_early[] = "FSDP that gathers early in forward";

// Files of accelerate's own, or read as those; in them the first is meant where no version stands.
static bool is_accelerates(const struct question *q, const struct config_guard *g) {
    static const char *const dialects[] = {"accelerate", "axolotl", NULL};
    return str_is_one_of(q->reading.dialect, dialects) || str_starts(g->path, STR("launcher."));
}

// Trainers whose fsdp is that of transformers' TrainingArguments: from version 5 on the second is
// meant where no version stands.
static bool is_transformers(const struct question *q) {
    static const char *const dialects[] = {"huggingface", "trl", "swift", "llamafactory", NULL};
    return str_is_one_of(q->reading.dialect, dialects);
}

// What says more of it names it, too.
static bool says_no_version(const struct config_guard *g) {
    return str_is(g->what, unsaid) || str_is(g->what, with_offload) ||
           str_is(g->what, own_checkpointing) || str_is(g->what, gathers_early);
}

const char *question_fsdp_of(const struct question *q, const struct config_guard *g) {
    if (str_is(q->reading.dialect, "torchtune")) return str_is(g->what, "FSDP2") ? "torchtune" : "";
    if (str_is(g->what, "FSDP2")) return "fsdp2";
    if (str_is(g->what, "FSDP1")) return "fsdp1";
    if (!says_no_version(g) && !question_fsdp_unused(q, g)) return "";
    return is_accelerates(q, g) ? "fsdp1" : is_transformers(q) ? "fsdp2" : "";
}

// accelerate's own file, or that of its launcher.
static bool groups_by_layer(const struct question *q) {
    static const char policy[] = "launcher.config_file.fsdp_config.fsdp_auto_wrap_policy";
    struct config_value v = {0};
    (void)config_get(q->arena, &q->config, str_of(policy), &v, NULL);
    return str_is(v.text, "TRANSFORMER_BASED_WRAP") ||
           str_find(q->config.text, STR("TRANSFORMER_BASED_WRAP")) >= 0;
}

bool question_fsdp_unused(const struct question *q, const struct config_guard *g) {
    static const char *const keys[] = {"fsdp_min_num_params", "min_num_params", NULL};
    return str_is_one_of(str_last(g->path, '.'), keys) && groups_by_layer(q);
}

// Of forward_prefetch FSDP2 is told nothing (neither passes it on). FSDP1 has up to two layers more
// gathered then: recorded so, a Llama of 8 layers of 8 MiB needs 132 MiB, not 118.
bool question_fsdp_extra(const struct question *q, const struct config_guard *g) {
    if (plan_fsdp(q->plan.shard) == 0) return false;
    if (str_is(g->what, with_offload)) return plan_fsdp_offloads(q->plan.shard);
    if (str_is(g->what, gathers_early)) return plan_fsdp(q->plan.shard) == 2;
    return str_is(g->what, own_checkpointing) && q->plan.checkpointing;
}

enum reentrance question_reentrant(const struct question *q) {
    static const char *const keys[] = {"gradient_checkpointing_kwargs.use_reentrant",
                                       "use_reentrant_gc", "use_reentrant", NULL};
    for (int i = 0; keys[i]; i++) {
        struct config_value v = {0};
        (void)config_get(q->arena, &q->config, str_of(keys[i]), &v, NULL);
        if (v.type == CONFIG_BOOL) return v.boolean ? REENTRANT : NOT_REENTRANT;
    }
    // Its use_reentrant_gc is on unless it is told otherwise (hparams/model_args.py).
    return str_is(q->reading.dialect, "llamafactory") ? REENTRANT : REENTRANCE_UNSAID;
}

static bool is_extra(const struct config_guard *g) {
    return str_is(g->what, with_offload) || str_is(g->what, own_checkpointing) ||
           str_is(g->what, gathers_early);
}

static void note_unsaid(struct question *q, const struct config_guard *g) {
    if (!says_no_version(g) || str_is(g->value, "fsdp2")) return; // a file of ms-swift's own
    str_list_format(q->arena, &q->notes, "the FSDP version is not given (%.*s): %s",
                    STR_ARG(g->path),
                    is_accelerates(q, g)
                        ? "taken as 1, accelerate's default"
                        : "taken as 2, transformers' default from 5 on (version: 1 selects FSDP1)");
}

struct str question_fsdp(struct question *q) {
    struct str found = {0};
    const struct config_guard *extra = NULL, *first = NULL;
    bool offloads = false, has_own_checkpointing = false;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!str_is(g->kind, "sharding")) continue;
        offloads |= str_is(g->what, with_offload);
        has_own_checkpointing |= str_is(g->what, own_checkpointing);
        if (is_extra(g) || question_fsdp_unused(q, g)) {
            extra = g;
            continue;
        }
        struct str said = str_of(question_fsdp_of(q, g));
        if (said.len == 0 || (found.len > 0 && !str_equal(said, found))) return (struct str){0};
        found = said;
        first = g;
    }
    if (!first && extra) {
        found = str_of(question_fsdp_of(q, extra));
        first = extra;
    }
    if (found.len == 0) return (struct str){0};
    if (is_accelerates(q, first) && !str_is(q->reading.dialect, "axolotl") && !groups_by_layer(q))
        return (struct str){0};
    note_unsaid(q, first);
    if (has_own_checkpointing) q->plan.checkpointing = true;
    if (offloads) return plan_offload(q->arena, found, STR("all"));
    bool is_axolotls = str_is(q->reading.dialect, "axolotl") && str_is(found, "fsdp2");
    if (is_axolotls) return str_of(plan_fsdp2_older);
    // What is computed again is then inside of its unit, whatever the version of transformers.
    bool is_inside = has_own_checkpointing || question_reentrant(q) == NOT_REENTRANT;
    return is_inside && str_is(found, "fsdp1") ? str_of(plan_fsdp1_newer) : found;
}
