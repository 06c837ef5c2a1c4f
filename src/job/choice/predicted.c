// SPDX-License-Identifier: Apache-2.0
// What a tape says of the trials beforehand, and whether they bear it out.
#include "job/choice/choice_int.h"

#include "base/unit.h"
#include "job/question/question.h"

#include <math.h>

// A prediction that is further off than this, either way, is one of something else.
static const double refuted_from = 1.5;

int choice_open_card(struct choice_measured *m, struct fail *why) {
    const struct launch_options *o = m->launch.options;
    const struct launch_place *place = &m->launch.place;
    int rc = question_gpu_of_place(m->q, place, o->machine, &m->card, why);
    if (rc < 0) return rc;
    m->card.margin = m->margin;
    struct str note = {0};
    if (place->kind == LAUNCH_CUDA) {
        note = history_correct(m->history, &m->q->store, m->q->plan.model, &m->card);
    }
    if (note.len > 0) question_note(m->q, note);
    return 0;
}

// No tape is no error here: the trials find the batch without one, in a launch or two more.
void choice_predict(struct choice_measured *m) {
    struct fail why = {0};
    struct question *q = m->q;
    if (q->plan.model.len == 0) {
        question_note(q, STR("no model is named, so nothing is predicted; with --model or the "
                             "config's key the first trial would be closer"));
        return;
    }
    m->notes_before = q->notes.count;
    if (answer_choose(q, &m->card, &m->predicted, &why) == 0)
        m->is_predicted = true;
    else
        question_say(q, "no prediction: %s", why.message);
}

double choice_predicted_bytes(void *context, int64_t batch) {
    struct choice_measured *m = context;
    struct forecast_peak peak;
    int rc = forecast_at(&m->predicted.forecast, &m->card, batch,
                         plan_accumulation(m->q->effective, batch, m->q->plan.ranks), &peak, NULL);
    return rc < 0 ? (double)NAN : (double)(peak.needed_bytes + peak.overhead_bytes);
}

// What others see of the trial that runs (launch.h).
void choice_about(void *context, int64_t batch, struct registry_run *run) {
    struct choice_measured *m = context;
    struct forecast_peak peak;
    run->verb = STR("fit");
    run->model = m->q->plan.model;
    run->precision = plan_precision_text(m->q->plan.precision);
    run->accumulation = plan_accumulation(m->q->effective, batch, m->q->plan.ranks);
    if (!m->is_predicted || m->launch.place.kind != LAUNCH_CUDA) return;
    if (forecast_at(&m->predicted.forecast, &m->card, batch, run->accumulation, &peak, NULL) < 0)
        return;
    run->predicted_peak_bytes = peak.reserved_bytes + peak.overhead_bytes;
    run->predicted_upper_bytes = peak.upper_bytes;
}

// How many times as much was needed as was predicted, or at least so much; NaN: it does not tell.
static double ratio_of(struct choice_measured *m, const struct choice_trial *t) {
    const struct launch_result *r = &t->result;
    double predicted = choice_predicted_bytes(m, t->plan.batch);
    bool ran = r->status == LAUNCH_OK || r->status == LAUNCH_ALMOST;
    if (ran && r->peak_bytes > 0) return (double)r->peak_bytes / predicted;
    if (r->status != LAUNCH_OOM) return (double)NAN;
    double least = r->wanted_bytes > 0 ? r->wanted_bytes : (double)m->budget_bytes;
    return least > predicted ? least / predicted : (double)NAN;
}

void choice_see_prediction(struct choice_measured *m, const struct choice_trial *t) {
    if (!m->is_predicted) return;
    double ratio = ratio_of(m, t), predicted = choice_predicted_bytes(m, t->plan.batch);
    if (!(ratio > refuted_from) && !(ratio < 1 / refuted_from)) return;
    m->is_predicted = false;
    m->is_refuted = true;
    m->q->notes.count = m->notes_before; // what was noted of its tape is of no interest any more
    struct arena *a = m->q->arena;
    question_say(m->q,
                 "the prediction is wrong: %s for batch %lld, but the trial needed %s%s; the "
                 "answer ignores it",
                 unit_bytes(a, (int64_t)predicted).p, (long long)t->plan.batch,
                 t->result.status == LAUNCH_OOM ? "at least " : "",
                 unit_bytes(a, (int64_t)(predicted * ratio)).p);
    m->predicted = (struct answer){0};
}
