// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/say.h"
#include "stats/stats.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// Fewer models than this say less about a GPU than its data sheet: with one, the error grew
// (doc/speed-model.md, "Measured models").
enum { LEAST_MODELS = 3, MOST_MODELS = 64 };

// What a language model's has besides.
static void add_tokens(json_t *object, const struct speed *s) {
    json_t *more = json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "tokens_per_s",
                             json_number(s->samples_per_s * s->tokens * (double)s->gpus),
                             "tokens_per_s_per_gpu", json_number(s->samples_per_s * s->tokens),
                             "gpus", (json_int_t)s->gpus, "mfu", json_number(s->mfu), "waits_s",
                             json_number(s->waits_s), "link", json_text(s->link.link), "network",
                             json_text(s->link.network));
    json_object_update(object, more);
    json_decref(more);
}

json_t *answer_speed_json(const struct speed *s) {
    if (!s->row) return json_null();
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o}", "samples_per_s",
        json_number(s->samples_per_s), "low", json_number(s->low), "high", json_number(s->high),
        "step_s", json_number(s->step_s), "host_s", json_number(s->host_s), "doubtful",
        s->is_doubtful, "host_bound", s->is_host_bound, "fitted", s->is_fitted, "constants",
        json_text(s->row->name), "fitted_on", json_text(s->row->cards));
    if (object && s->tokens > 0) add_tokens(object, s);
    return object;
}

// Three digits or a few more: "27.5", "412".
static void add_number(struct buf *out, double value) {
    buf_format(out, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
}

// "an RTX 3090" of the key "rtx_3090", the first of several.
static void add_card(struct buf *out, struct str keys) {
    struct str key = str_cut(&keys, ',');
    const bool is_vowel = key.len > 0 && strchr("aefhilmnorsx", key.p[0]);
    struct buf name = buf_new(out->arena);
    for (ptrdiff_t i = 0; i < key.len; i++) {
        buf_byte(&name, key.p[i] == '_' ? ' ' : (char)toupper((unsigned char)key.p[i]));
    }
    buf_format(out, is_vowel ? _("an %.*s") : _("a %.*s"), STR_ARG(buf_str(&name)));
}

// "46100": what is known to two or three digits.
static void add_rate(struct buf *out, double value) {
    double unit = value > 0 ? pow(10, floor(log10(value)) - 2) : 1;
    buf_format(out, "%.0f", round(value / unit) * unit);
}

static void tokens_text(const struct speed *s, struct buf *out) {
    double all = s->tokens * (double)s->gpus;
    const bool is_most = s->is_host_bound || s->is_offloaded;
    buf_add(out, is_most ? str_of(_("speed: at most ")) : str_of(_("speed: about ")));
    add_rate(out, (is_most ? s->high : s->samples_per_s) * all);
    buf_add(out, str_of(_(" tokens/s")));
    if (s->gpus > 1) buf_format(out, _(" on %lld GPUs"), (long long)s->gpus);
    if (s->is_host_bound) {
        buf_add(out, str_of(_(": at this batch the CPU may be the limit, not the GPU\n")));
        return;
    }
    if (s->is_offloaded) {
        buf_add(out, str_of(_(": transfers over PCIe to the host and back take ")));
        add_number(out, s->copies_s);
        buf_add(out, str_of(_(" s of a step; the CPU's update comes on top and is not counted\n")));
        return;
    }
    buf_add(out, STR(" ("));
    add_rate(out, s->low * all);
    buf_add(out, str_of(_(" to ")));
    add_rate(out, s->high * all);
    buf_add(out, STR(")"));
    if (s->gpus > 1) {
        buf_add(out, STR(", "));
        add_rate(out, s->samples_per_s * s->tokens);
        buf_add(out, str_of(_(" a GPU")));
    }
    buf_format(out, _(", %.0f %% of the peak rate (MFU), "), 100 * s->mfu);
    add_number(out, s->step_s);
    buf_add(out, str_of(_(" s a step")));
    if (s->gpus > 1)
        buf_format(out, _(", %.0f %% of it waiting on %.*s"), 100 * s->waits_s / s->step_s,
                   STR_ARG(s->link.link));
    if (s->gpus > 1 && s->gpus > s->link.machine)
        buf_format(out, " and %.*s", STR_ARG(s->link.network));
    if (!s->is_fitted)
        buf_format(out, _("; calibrated on the %.*s, not on this GPU"), STR_ARG(s->row->note));
    buf_byte(out, '\n');
}

void answer_speed_text(const struct speed *s, struct buf *out) {
    if (!s->row) return;
    if (s->tokens > 0) {
        tokens_text(s, out);
        return;
    }
    if (s->is_host_bound) {
        buf_add(out, str_of(_("speed: at most ")));
        add_number(out, s->high);
        buf_add(out,
                str_of(_(" samples/s: at this batch the CPU may be the limit, not the GPU\n")));
        return;
    }
    buf_add(out, str_of(_("speed: about ")));
    add_number(out, s->samples_per_s);
    buf_add(out, str_of(_(" samples/s (")));
    add_number(out, s->low);
    buf_add(out, str_of(_(" to ")));
    add_number(out, s->high);
    buf_add(out, STR("), "));
    add_number(out, s->step_s * 1e3);
    buf_add(out, str_of(_(" ms a step without loading data")));
    if (!s->is_fitted) {
        buf_add(out, str_of(_("; calibrated on ")));
        add_card(out, s->row->cards);
        buf_add(out, s->is_card ? str_of(_(" with other software or precision"))
                                : str_of(_(", not on this GPU and software")));
    }
    if (s->is_doubtful) {
        buf_add(out, str_of(_("; uncertain: the time of some kernels depends on cuDNN's choice")));
    }
    buf_byte(out, '\n');
}

// A plan's on a GPU; row NULL where nothing can be said.
static struct speed at(struct question *q, struct forecast *f, const struct gpu *gpu, int64_t batch,
                       int64_t accumulation) {
    struct forecast_tape *t = NULL;
    struct speed s = {0};
    if (answer_precision_is_emulated(f->plan.precision, gpu)) return s;
    if (forecast_tape(f, batch, accumulation, &t, NULL) < 0) return s;
    const struct speed_run run = {t->tape, batch, accumulation, gpu, 0};
    if (speed_at(&q->speeds, &run, &s)) return s;
    // A template has no work lines; its shape says as much.
    struct plan p = f->plan;
    p.batch = batch;
    p.accumulation = accumulation;
    p.sequence_length = t->tape->header.sequence_length;
    const struct speed_tokens_run tokens = {&p, f->shape, gpu, speed_seen_of(t->tape, batch)};
    bool is_model = f->shape && t->template.len > 0 && !p.inference;
    if (!is_model || !speed_tokens_at(&q->tokens, &tokens, &s)) s.row = NULL;
    // Of an encoder people count samples; of several GPUs only tokens are said of all together.
    if (is_model && shape_is_encoder(f->shape) && s.gpus < 2) s.tokens = 0;
    return s;
}

void answer_speed_predict(struct question *q, struct answer *answer) {
    const struct plan *p = &answer->plan;
    answer->speed = at(q, &answer->forecast, &answer->card.gpu, p->batch, p->accumulation);
}

struct measurement {
    struct str model;
    int64_t batch; // 0: the answer's
    double samples_per_s;
};

static int read_measurement(struct str text, struct measurement *ret, struct fail *why) {
    struct str rest = text, model = str_cut(&rest, '=');
    *ret = (struct measurement){.model = str_cut(&model, '@')};
    bool has_batch = !model.p || (str_to_i64(model, &ret->batch) && ret->batch > 0);
    bool has_speed = str_to_double(rest, &ret->samples_per_s) && ret->samples_per_s > 0 &&
                     ret->samples_per_s < 1e9;
    if (ret->model.len > 0 && has_batch && has_speed) return 0;
    fail_set(why, FAIL_USAGE, "--measured %.*s: not MODEL=SAMPLES", STR_ARG(text));
    return fail_hint(
        why,
        "samples/s measured on the GPU: --measured resnet50=1170, or resnet50@64=1130 at batch 64");
}

// How many times faster than predicted it was; NAN where nothing is predicted for it.
static int ratio_of(struct question *q, const struct answer *answer, const struct measurement *m,
                    double *ret_ratio, bool *ret_is_same, struct fail *why) {
    struct plan plan = answer->plan;
    struct forecast f;
    plan.model = m->model;
    plan.image_size = plan.sequence_length = plan.target_length = 0;
    plan.accumulation = 1;
    int rc = forecast_open(&q->tape_cache, &plan, &f, why);
    if (rc < 0) return rc;
    int64_t batch = m->batch > 0 ? m->batch : answer->plan.batch;
    *ret_is_same = str_equal(f.model.name, answer->forecast.model.name);
    // The same model was measured as the question has it.
    if (*ret_is_same) f = answer->forecast;
    struct speed s =
        at(q, &f, &answer->card.gpu, batch, *ret_is_same ? answer->plan.accumulation : 1);
    *ret_ratio = s.row && !s.is_host_bound ? m->samples_per_s / s.samples_per_s : NAN;
    if (!isnan(*ret_ratio)) return 0;
    question_say(q,
                 "--measured %.*s is not used: the host is the limit at that batch, or there is no "
                 "prediction for it",
                 STR_ARG(m->model));
    return 0;
}

static void apply(struct question *q, struct answer *answer, double factor, double range,
                  const char *from) {
    speed_calibrate(&answer->speed, factor, range);
    question_say(q, "speed: predicted x %.2f, from %s", factor, from);
}

int answer_speed_calibrate(struct question *q, const char *measured, struct answer *answer,
                           struct fail *why) {
    struct str rest = str_of(measured);
    double all[MOST_MODELS], same[MOST_MODELS];
    int count = 0, same_count = 0;
    while (rest.p && count < MOST_MODELS) {
        struct measurement m;
        double ratio = NAN;
        bool is_same = false;
        int rc = read_measurement(str_cut(&rest, '\n'), &m, why);
        if (rc == 0) rc = ratio_of(q, answer, &m, &ratio, &is_same, why);
        if (rc < 0) return rc;
        if (isnan(ratio)) continue;
        all[count++] = ratio;
        if (is_same) same[same_count++] = ratio;
    }
    if (!answer->speed.row || count == 0) return 0;
    const struct speed_row *row = answer->speed.row;
    if (same_count > 0) {
        apply(q, answer, stats_median(same, same_count), row->range, "measurements of this model");
    } else if (count >= LEAST_MODELS) {
        double range = answer->speed.is_doubtful ? row->range_doubtful : row->range_measured;
        apply(q, answer, stats_median(all, count), range, "the models measured on this GPU");
    } else {
        question_note(q, STR("--measured of other models is not used: fewer than three say less "
                             "than the data sheet; about ten are good"));
    }
    return 0;
}
