// SPDX-License-Identifier: Apache-2.0
// A remedy in the words of the user's config, and what it would need by prediction. Nothing is
// written.
#include "base/unit.h"
#include "verbs/doctor/doctor.h"

// What doctor would set, where the file says what it is now. False: nothing.
static bool change_of(struct doctor *d, unsigned actions, struct config_change *ret_change) {
    const struct question *q = &d->question;
    const struct config_value *values = q->reading.values;
    int64_t micro = q->batches.micro, accumulation = q->batches.accumulation;
    int64_t workers = values[CONFIG_WORKERS].integer;
    struct config_change w = {0};
    if ((actions & CAUSE_SMALLER_BATCH) && micro >= 2 && micro % 2 == 0) {
        w.batch = micro / 2;
        w.accumulation = accumulation > 0 ? 2 * accumulation : 2;
    } else if (actions & CAUSE_LARGER_BATCH && micro >= 1) {
        w.batch = micro * 2;
        w.accumulation =
            accumulation > 1 && accumulation % 2 == 0 ? accumulation / 2 : accumulation;
    }
    if (values[CONFIG_WORKERS].type == CONFIG_INT && workers >= 0 && workers < 1024) {
        if (actions & CAUSE_MORE_WORKERS)
            w.workers = workers > 0 ? 2 * workers : 4;
        else if ((actions & CAUSE_FEWER_WORKERS) && workers > 0)
            w.workers = workers > 1 ? workers / 2 : -1;
    }
    bool is_fp32 = str_is(values[CONFIG_PRECISION].word, "fp32");
    bool is_fp16 = str_is(values[CONFIG_PRECISION].word, "amp-fp16") ||
                   str_is(values[CONFIG_PRECISION].word, "fp16");
    if ((actions & CAUSE_MIXED_PRECISION) && is_fp32 && w.batch == 0) w.precision = STR("amp-fp16");
    if ((actions & CAUSE_FULL_PRECISION) && is_fp16) w.precision = STR("fp32");
    *ret_change = w;
    return w.batch > 0 || w.workers != 0 || w.precision.len > 0;
}

struct str doctor_keys(struct doctor *d, const struct cause *c) {
    struct config_change change;
    struct config_edits edits = {0};
    struct config_patched patched = {0};
    struct fail why = {0};
    struct question *q = &d->question;
    if (!d->has_question || !q->has_config || !change_of(d, c->actions, &change))
        return (struct str){0};
    struct buf b = buf_new(d->arena);
    int rc = config_fit(d->arena, &q->config, &q->reading, &change, &edits, &why);
    if (rc == 0)
        rc = config_patch(d->arena, &q->config, edits.items, edits.count, change.flags, &patched,
                          &why);
    if (rc < 0) return config_advice(d->arena, &q->reading, &change);
    for (ptrdiff_t i = 0; i < patched.changes.count; i++) {
        if (b.count > 0) buf_byte(&b, '\n');
        buf_add(&b, patched.changes.items[i]);
    }
    return buf_str(&b);
}

static bool wants_less(const struct doctor *d) {
    for (ptrdiff_t i = 0; i < d->causes.count; i++) {
        if (d->causes.items[i].actions & CAUSE_SMALLER_BATCH) return true;
    }
    return false;
}

static int64_t needs(const struct answer *a) {
    return a->peak.needed_bytes + a->peak.overhead_bytes;
}

// Half the batch, on the GPU that was named or that the message tells. Silent where nobody knows
// the model: a doctor needs no tape.
void doctor_predict(struct doctor *d) {
    const struct doctor_options *o = d->options;
    struct question *q = &d->question;
    struct forecast_card card;
    struct answer now, then;
    struct fail why = {0};
    int64_t batch = o->q.batch > 0 ? o->q.batch : d->has_question ? q->plan.batch : 0;
    int64_t total = o->gpu_memory > 0 ? o->gpu_memory : d->facts.ending.total_bytes;
    if (!d->has_question || !wants_less(d) || batch < 2 || q->plan.model.len == 0) return;
    if (!o->gpu && total <= 0) return;
    int64_t accumulation = q->plan.accumulation > 0 ? q->plan.accumulation : 1;
    int rc = question_card(q, str_of(o->gpu), o->gpu ? o->gpu_memory : total, &card, &why);
    if (rc == 0) rc = answer_at(q, &card, batch, accumulation, &now, &why);
    if (rc == 0) rc = answer_at(q, &card, batch / 2, 2 * accumulation, &then, &why);
    if (rc < 0) {
        str_list_format(d->arena, &d->notes, "no prediction: %s", why.message);
        return;
    }
    d->effect_batch = batch / 2;
    d->effect_before_bytes = needs(&now);
    d->effect_after_bytes = needs(&then);
    d->effect = str_format(d->arena, "batch %lld instead of %lld needs %.*s instead of %.*s",
                           (long long)(batch / 2), (long long)batch,
                           STR_ARG(unit_bytes(d->arena, d->effect_after_bytes)),
                           STR_ARG(unit_bytes(d->arena, d->effect_before_bytes)));
}
