// SPDX-License-Identifier: Apache-2.0
// liger-kernel by one switch (transformers' and trl's use_liger_kernel, LLaMA-Factory's
// enable_liger_kernel) or by all four of Axolotl's. Some of them are another training, and so is
// one whose objective is another: its loss is no cross-entropy of a head. Of those DPO is one.
#include "job/question/loss.h"

static bool is_liger(const struct config_guard *g) {
    return str_is(g->kind, "fused") && str_starts(g->what, STR("Liger"));
}

static struct str last_key(struct str path) {
    for (ptrdiff_t dot; (dot = str_find(path, STR("."))) >= 0;)
        path = str_slice(path, dot + 1, path.len);
    return path;
}

// --- Preferences ---------------------------------------------------------------------------------

static bool is_of_loss(const struct config_guard *g) {
    return str_is(g->kind, "objective") || str_is(g->kind, "preference");
}

static bool is_dpo(const struct config_guard *g) {
    static const char *const names[] = {"DPO", "IPO", NULL}; // the second differs in scalars
    return is_of_loss(g) && str_is_one_of(g->what, names);
}

// What says that it is of preferences, and not which.
static bool is_some_preference(const struct question *q, const struct config_guard *g) {
    static const char *const names[] = {"preference training", "a reference model's scores", NULL};
    static const char *const references[] = {"ref_model", "ref_model_name_or_path", NULL};
    if (!is_of_loss(g) || !str_is_one_of(g->what, names)) return false;
    bool is_reference = str_is_one_of(last_key(g->path), references);
    return !is_reference || str_equal(g->value, q->plan.model); // another model is of another size
}

// A loss of trl's DPOTrainer; no other trainer of transformers or trl has one of these names.
static bool is_loss_of_dpo(struct str text) {
    static const char *const losses[] = {
        "sigmoid",   "sigmoid_norm", "hinge",        "ipo",      "exo_pair", "nca_pair", "robust",
        "bco_pair",  "sppo_hard",    "aot",          "aot_pair", "apo_zero", "apo_down", "discopop",
        "kto_pair",  NULL};
    return str_is_one_of(text, losses);
}

// Or a name that somebody gave the run: "zephyr-7b-dpo-full".
static bool is_name_of_dpo(struct str text) {
    if (is_loss_of_dpo(text)) return true;
    for (ptrdiff_t at; (at = str_find(text, STR("dpo"))) >= 0;) {
        if (at == 0 || !str_is_alnum(text.p[at - 1])) return true;
        text = str_slice(text, at + 3, text.len);
    }
    return false;
}

// Trainers that are trl's.
static bool is_trainer_known(const struct question *q) {
    static const char *const names[] = {"trl", "huggingface", "axolotl", "llamafactory", NULL};
    return str_is_one_of(q->reading.dialect, names);
}

// ret_some: the setting that says only that it is of preferences, where no other says more.
static bool has_dpo(const struct question *q, const struct config_guard **ret_some) {
    const struct config_guard *some = NULL;
    bool is_named = false;
    *ret_some = NULL;
    if (!is_trainer_known(q)) return false;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (is_dpo(g))
            is_named = true;
        else if (is_some_preference(q, g))
            some = g;
        else if (str_is(g->kind, "objective"))
            return false;
    }
    if (is_named) return true;
    *ret_some = some;
    struct str name = q->reading.values[CONFIG_PREFERENCE].text;
    return some ? is_name_of_dpo(name) : is_loss_of_dpo(name);
}

static void say_name(struct question *q) {
    const struct config_value *name = &q->reading.values[CONFIG_PREFERENCE];
    const struct config_guard *some;
    if (!plan_is_preference(q->plan.loss) || !has_dpo(q, &some)) return;
    if (!is_name_of_dpo(name->text)) return;
    struct str by = some ? str_format(q->arena, " (%.*s)", STR_ARG(some->path)) : (struct str){0};
    str_list_format(q->arena, &q->notes,
                    "preference training%.*s is counted as DPO, which %.*s: %.*s names",
                    STR_ARG(by), STR_ARG(name->path), STR_ARG(name->text));
}

static void take_preference(struct question *q) {
    const struct config_guard *some;
    struct plan *p = &q->plan;
    if (p->loss.len == 0 && has_dpo(q, &some)) {
        const struct plan_preference how = {
            .is_precomputed = q->reading.values[CONFIG_PRECOMPUTED].boolean,
            .scores = str_is(q->reading.dialect, "llamafactory") ? PLAN_SCORES_LLAMAFACTORY
                                                                 : PLAN_SCORES_WHOLE};
        p->loss = plan_preference_word(how);
    }
    if (!plan_is_preference(p->loss)) return;
    p->adapter = plan_adapter(q->arena, plan_adapter_rank(p->adapter),
                              plan_adapter_targets(p->adapter), false);
}

// --- Both ----------------------------------------------------------------------------------------

bool question_loss_models(const struct question *q, const struct config_guard *g) {
    if (plan_is_preference(q->plan.loss)) return is_dpo(g) || is_some_preference(q, g);
    return is_liger(g) && str_starts(q->plan.loss, STR("liger"));
}

// Whether the guards say all of liger's and nothing that goes against it.
static bool has_liger(const struct question *q) {
    static const char *const switches[] = {"use_liger_kernel", "enable_liger_kernel", NULL};
    static const char *const parts[] = {"liger_rope", "liger_rms_norm", "liger_glu_activation",
                                        "liger_fused_linear_cross_entropy", NULL};
    bool has_switch = false, is_other = false;
    int part_count = 0;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        const struct str key = last_key(g->path);
        is_other |= is_of_loss(g) || (is_liger(g) && str_is(key, "liger_kernel_config"));
        if (!is_liger(g)) continue;
        has_switch |= str_is_one_of(key, switches);
        part_count += str_is_one_of(key, parts);
    }
    return !is_other && (has_switch || part_count == 4);
}

int question_loss(struct question *q, const struct question_options *o, struct fail *why) {
    if (q->plan.inference) return 0;
    if (o->loss && !plan_is_loss(str_of(o->loss))) {
        fail_set(why, FAIL_USAGE,
                 "--loss %s: not liger, liger:loss, liger@VERSION, chunked, chunked:N, cut, dpo, "
                 "dpo:precomputed, dpo@VERSION (from 0.12 on) or dpo:llamafactory",
                 o->loss);
        return fail_hint(why, "for example --loss liger --checkpointing; without --loss all logits "
                              "are there at once");
    }
    if (o->loss)
        q->plan.loss = str_of(o->loss);
    else if (has_liger(q))
        q->plan.loss = STR("liger");
    take_preference(q);
    return 0;
}

void question_loss_check(struct question *q, const struct question_options *o) {
    struct forecast f;
    struct plan without = q->plan;
    if (o->loss || o->tape || q->plan.loss.len == 0) return;
    without.loss = (struct str){0};
    if (q->plan.model.len == 0)
        q->plan = without;
    else if (forecast_open(&q->tape_cache, &q->plan, &f, NULL) < 0)
        q->plan = without;
    say_name(q);
}
