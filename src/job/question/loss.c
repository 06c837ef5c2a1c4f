// SPDX-License-Identifier: Apache-2.0
// liger-kernel by one switch (transformers' and trl's use_liger_kernel, LLaMA-Factory's
// enable_liger_kernel) or by all four of Axolotl's. Some of them are another training, and so is
// one whose objective is another: its loss is no cross-entropy of a head.
#include "job/question/loss.h"

static bool is_liger(const struct config_guard *g) {
    return str_is(g->kind, "fused") && str_starts(g->what, STR("Liger"));
}

static struct str last_key(struct str path) {
    for (ptrdiff_t dot; (dot = str_find(path, STR("."))) >= 0;)
        path = str_slice(path, dot + 1, path.len);
    return path;
}

bool question_loss_models(const struct question *q, const struct config_guard *g) {
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
        is_other |=
            str_is(g->kind, "objective") || (is_liger(g) && str_is(key, "liger_kernel_config"));
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
                 "--loss %s: not liger, liger:loss, liger@VERSION, chunked, "
                 "chunked:N or cut",
                 o->loss);
        return fail_hint(why, "for example --loss liger --checkpointing; without --loss all logits "
                              "are there at once");
    }
    if (o->loss)
        q->plan.loss = str_of(o->loss);
    else if (has_liger(q))
        q->plan.loss = STR("liger");
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
}
