// SPDX-License-Identifier: Apache-2.0
// What each type costs on a card. The model's tape of inference at batch x views says the memory,
// its work events the time; outputs of all views are kept until they are averaged. The views do not
// share anything, so that an image costs as many forwards as it has views, stacked or not.
#include "cmd/infer/tta.h"

#include "cmd/speed.h"
#include "search/search.h"

#include <assert.h>
#include <math.h>

// Images for which a time is told when nobody said how many there are.
enum { USUAL_IMAGES = 1000, OUTPUT_BYTES = 4 };

struct asking {
    struct answer *answer;
    struct forecast_card card;     // as others leave it
    int64_t at_once, output_bytes; // of all views of an image
};

static void set_batch(struct asking *ask, int64_t batch) {
    ask->card.tenants_bytes = ask->answer->card.tenants_bytes + ask->output_bytes * batch;
}

static int fits(void *context, int64_t batch, struct fail *why) {
    struct asking *ask = context;
    set_batch(ask, batch);
    return forecast_fits(&ask->answer->forecast, &ask->card, batch * ask->at_once, 1, why);
}

static bool may_fit(void *context, int64_t batch) {
    struct asking *ask = context;
    set_batch(ask, batch);
    return forecast_may_fit(&ask->answer->forecast, &ask->card, batch * ask->at_once, 1);
}

// fp32 scores of the classes; 0 where the tape says no number of them.
static int64_t bytes_of_output(const struct answer *answer) {
    const struct tape_header *h = &answer->forecast.tapes[0]->tape->header;
    int64_t classes = answer->plan.classes > 0 ? answer->plan.classes : h->classes;
    return classes > 0 ? classes * OUTPUT_BYTES : 0;
}

// What measurements have taught about the answer's speed holds for other batches, too.
static void calibrate(struct question *q, struct answer *answer, struct forecast_speed *s) {
    const struct forecast_speed *known = &answer->speed;
    const struct plan *p = &answer->plan;
    struct forecast_speed raw =
        speed_at(q, &answer->forecast, &answer->card.gpu, p->batch, p->accumulation);
    if (!known->row || !raw.row || !s->row || known->is_host_bound || s->is_host_bound) return;
    double factor = known->samples_per_s / raw.samples_per_s;
    if (fabs(factor - 1) < 1e-9) return;
    forecast_speed_calibrate(s, factor, known->high / known->samples_per_s);
}

static int predict_row(struct question *q, struct answer *answer, struct tta_row *row,
                       struct fail *why) {
    struct plan_range range = q->range;
    // It is images x views that the kernels like to be a multiple of something.
    if (row->at_once > 1 && range.multiple <= 0) range.multiple = 1;
    struct plan_batches every = plan_every_batch(q->arena, &range);
    struct asking ask = {answer, answer->card, row->at_once,
                         bytes_of_output(answer) * row->type->views};
    struct forecast_peak peak;
    if (every.count == 0) {
        return fail_set(why, FAIL_USAGE, "no batch between --min-batch-size and --max-batch-size");
    }
    int found = search_largest(every.values, every.count, may_fit, fits, &ask, &row->batch, why);
    if (found < 0) return found;
    row->fits = found > 0;
    if (!row->fits) row->batch = every.values[every.count - 1];
    row->forward_batch = row->batch * row->at_once;
    row->outputs_bytes = ask.output_bytes * row->batch;
    int rc = forecast_at(&answer->forecast, &answer->card, row->forward_batch, 1, &peak, why);
    if (rc < 0) return rc;
    row->needed_bytes = peak.needed_bytes + row->outputs_bytes;
    struct forecast_speed s =
        speed_at(q, &answer->forecast, &answer->card.gpu, row->forward_batch, 1);
    calibrate(q, answer, &s);
    if (!row->fits || !s.row) return 0;
    row->views_per_s = s.is_host_bound ? (double)NAN : s.samples_per_s;
    row->views_low = s.low;
    row->views_high = s.high;
    return 0;
}

// The batch that ran is the batch that the model sees: images x views stacked.
static void measured_row(const struct tta_measured *m, struct tta_row *row) {
    row->batch = m->batch / row->at_once;
    row->fits = row->batch > 0;
    row->forward_batch = row->batch * row->at_once;
    row->needed_bytes = m->peak_bytes;
    if (!row->fits) return;
    row->views_per_s = m->samples_per_s;
    row->views_low = isnan(m->low) ? m->samples_per_s : m->low;
    row->views_high = isnan(m->high) ? m->samples_per_s : m->high;
}

// --- The verdict ---------------------------------------------------------------------------------

static enum tta_verdict verdict_of(const struct tta_ask *ask, const struct tta_row *row) {
    if (!row->fits) return TTA_OOM;
    if (!isnan(ask->min_f1) && isnan(row->type->f1_low)) return TTA_F1_UNKNOWN;
    if (row->type->f1_low < ask->min_f1) return TTA_F1_LOW;
    if (isnan(ask->target_s)) return TTA_MEETS;
    if (row->time_low_s > ask->target_s || row->time_s > ask->target_s) return TTA_TOO_SLOW;
    if (isnan(row->time_s)) return TTA_TIME_UNKNOWN;
    return row->time_high_s > ask->target_s ? TTA_LIKELY : TTA_MEETS;
}

static void judge(const struct tta_ask *ask, struct tta_row *row) {
    double forwards =
        (double)(ask->images > 0 ? ask->images : USUAL_IMAGES) * (double)row->type->views;
    row->time_s = forwards / row->views_per_s;
    row->time_low_s = forwards / row->views_high;
    row->time_high_s = forwards / row->views_low;
    row->verdict = verdict_of(ask, row);
}

static int add_row(struct question *q, struct answer *answer, const struct tta_type *type,
                   int64_t at_once, const struct tta_measured *measured, struct tta *t,
                   struct fail *why) {
    struct tta_row row = {.type = type,
                          .at_once = at_once,
                          .views_per_s = (double)NAN,
                          .views_low = (double)NAN,
                          .views_high = (double)NAN};
    int rc = 0;
    if (measured)
        measured_row(measured, &row);
    else
        rc = predict_row(q, answer, &row, why);
    if (rc < 0) return rc;
    judge(t->ask, &row);
    *arena_push(q->arena, &t->rows, &t->count, &t->capacity) = row;
    return 0;
}

// One view after the other always; and stacked, as many as asked, else all of them.
static int add_type(struct question *q, struct answer *answer, const struct tta_type *type,
                    const struct tta_measured *measured, struct tta *t, struct fail *why) {
    int64_t wanted = t->ask->at_once;
    int64_t stacked = wanted > 0 && wanted < type->views ? wanted : type->views;
    int rc = add_row(q, answer, type, 1, measured, t, why);
    if (rc < 0 || stacked == 1) return rc;
    return add_row(q, answer, type, stacked, measured, t, why);
}

// Stacked only where it was asked for and fits: it is no faster at the same batch of the model.
static void choose_arrangements(struct tta *t) {
    for (ptrdiff_t i = 0; i < t->count; i++) {
        struct tta_row *row = &t->rows[i];
        struct tta_row *next = i + 1 < t->count && row[1].type == row->type ? row + 1 : NULL;
        bool stacks = next && t->ask->at_once > 1 && next->fits;
        row->is_chosen = !stacks;
        if (!next) continue;
        next->is_chosen = stacks;
        i++;
    }
}

// --- The recommendation --------------------------------------------------------------------------

static bool has_more_f1(const struct tta_row *a, const struct tta_row *b) {
    double x = isnan(a->type->f1_low) ? -1 : a->type->f1_low;
    double y = isnan(b->type->f1_low) ? -1 : b->type->f1_low;
    return x > y || (x == y && a->type->views < b->type->views);
}

// With a time to keep, or nothing: the highest score. With a score alone: the fewest views.
static bool is_better(const struct tta_ask *ask, const struct tta_row *a, const struct tta_row *b) {
    if (a->verdict != b->verdict) return a->verdict < b->verdict; // MEETS before LIKELY
    if (isnan(ask->target_s) && !isnan(ask->min_f1)) return a->type->views < b->type->views;
    return has_more_f1(a, b);
}

static void recommend(struct tta *t) {
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct tta_row *row = &t->rows[i];
        bool meets = row->verdict == TTA_MEETS || row->verdict == TTA_LIKELY;
        if (!row->is_chosen || !meets) continue;
        if (!t->recommended || is_better(t->ask, row, t->recommended)) t->recommended = row;
    }
}

int tta_answer(struct question *q, struct answer *answer, const struct tta_ask *ask,
               const struct tta_measured *measured, struct tta **ret, struct fail *why) {
    struct tta *t = arena_new(q->arena, struct tta, 1);
    if (answer->plan.sequence_length > 0) {
        return fail_set(why, FAIL_USAGE, "--tta: %.*s reads text, and the views are of images",
                        STR_ARG(answer->plan.model));
    }
    t->ask = ask;
    for (ptrdiff_t i = 0; i < ask->types.count; i++) {
        int rc = add_type(q, answer, &ask->types.items[i], measured, t, why);
        if (rc < 0) return rc;
    }
    choose_arrangements(t);
    recommend(t);
    *ret = t;
    return 0;
}
