// SPDX-License-Identifier: Apache-2.0
// The effective batch of the command as it is without us: from the config, an option, or the
// program itself, whose parser knows its defaults (doc/formats/steps.md, "defaults").
#include "job/choice/choice_int.h"

#include <math.h>

static const struct choice_trial *told_by(const struct choice_measured *m) {
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        if (m->trials[i].result.trial.steps.default_batch > 0) return &m->trials[i];
    }
    return NULL;
}

// Micro-batches of a step that the program makes of its own accord.
static int64_t own_accumulation(const struct steps *s) {
    if (s->default_accumulation > 0) return s->default_accumulation;
    return s->count > 0 && s->items[0].micro_count > 0 ? s->items[0].micro_count : 1;
}

bool choice_learn_effective(struct choice_measured *m) {
    struct choice_effective *e = &m->effective;
    const struct choice_trial *t = told_by(m);
    if (m->q->plan.inference || e->before > 0 || !t) return false;
    const struct steps *s = &t->result.trial.steps;
    e->before = s->default_batch * own_accumulation(s) * m->q->plan.ranks;
    e->from = CHOICE_EFFECTIVE_DEFAULT;
    if (m->is_free || m->q->effective > 0) return false;
    if (!launch_takes(&m->launch, STR("accumulate"))) return false;
    m->q->effective = e->before;
    return true;
}

// The command does not take the accumulation that the answer counts on, or would need.
void choice_note_effective(struct choice_measured *m) {
    struct choice_effective *e = &m->effective;
    if (m->q->plan.inference || !m->best) return;
    int64_t asked = m->q->effective > 0 ? m->q->effective : m->q->batches.effective;
    if (m->q->effective > 0 || (e->before <= 0 && asked > 0)) {
        if (e->before != asked) e->from = CHOICE_EFFECTIVE_ASKED;
        e->before = asked;
    }
    bool takes = launch_takes(&m->launch, STR("accumulate"));
    int64_t own = own_accumulation(&m->best->result.trial.steps);
    struct plan made = m->chosen.plan;
    if (!takes && !m->best->is_recalled) made.accumulation = own;
    e->after = plan_effective(&made);
    if (e->before <= 0) {
        question_note(m->q, STR("the command's default batch is unknown, so no effective batch is "
                                "kept: set it with --effective-batch-size N"));
        return;
    }
    if (e->after == e->before) {
        if (e->from == CHOICE_EFFECTIVE_DEFAULT) {
            question_say(m->q,
                         "keeping %lld samples per step, the command's default; "
                         "--effective-batch-size N sets another number, --free-batch keeps none",
                         (long long)e->before);
        }
        return;
    }
    const char *keep =
        m->is_free ? "--free-batch allows it"
        : takes    ? "No batch that fits divides it: --effective-batch-size N sets another one"
                   : "To keep it, put {accumulate} where the command takes its gradient "
                     "accumulation steps";
    double times = (double)e->after / (double)e->before;
    question_say(m->q,
                 "training changes: %lld samples per step instead of %lld. %s; or scale the "
                 "learning rate (x %.3g for SGD, x %.3g for Adam)",
                 (long long)e->after, (long long)e->before, keep, times, sqrt(times));
}
