// SPDX-License-Identifier: Apache-2.0
// The views of an image share nothing: it costs as many forwards as it has views, each in the
// memory of one batch. So a type's figures are the answer's, and its time is times its views.
#include "job/answer/tta.h"

#include "base/unit.h"
#include "job/question/question.h"

#include <math.h>

enum { USUAL_IMAGES = 1000 }; // when nobody said how many there are

// --- What is asked: the options, and what the config says ----------------------------------------

static const char *const type_keys[] = {"tta_type", NULL};
static const char *const switch_keys[] = {"tta", "use_tta", NULL};
static const char *const mode_keys[] = {"tta_mode", NULL};
static const char *const images_keys[] = {"num_images", "num_test_images", "n_images", NULL};

static bool value_of(struct question *q, const char *const *keys, struct str *ret_path,
                     struct config_value *ret) {
    return q->has_config && question_infer_key(q->arena, &q->config, q->section, keys, ret_path) &&
           config_get(q->arena, &q->config, *ret_path, ret, NULL) == 0;
}

// A config with views whose cost nobody asked about.
static void note_unasked(struct question *q) {
    struct config_value on, type;
    struct str path;
    bool has_switch = value_of(q, switch_keys, &path, &on) && on.type == CONFIG_BOOL;
    if (has_switch && !on.boolean) return;
    if (!value_of(q, type_keys, &path, &type) || str_is(type.text, "none")) return;
    question_say(q, "%.*s = %.*s: its views are not included; --tta %.*s shows what they cost",
                 STR_ARG(path), STR_ARG(type.text), STR_ARG(type.text));
}

static int take_types(struct question *q, const struct answer_tta_options *o,
                      struct answer_tta_ask *ask, struct fail *why) {
    struct answer_tta_table all;
    struct str typed = str_of(o->tta);
    struct buf names = buf_new(q->arena);
    int rc = answer_tta_table_load(q->arena, o->table, &all, why);
    ask->is_auto = !o->tta || str_is(typed, "auto");
    ask->types = all;
    if (rc < 0 || ask->is_auto) return rc;
    for (ptrdiff_t i = 0; i < all.count; i++) {
        struct str name = all.items[i].name;
        ask->types = (struct answer_tta_table){&all.items[i], 1, 1};
        if (str_equal_nocase(name, typed)) return 0;
        buf_format(&names, "%.*s, ", STR_ARG(name));
    }
    fail_set(why, FAIL_USAGE, "--tta %s: no such type", o->tta);
    return fail_hint(why, "choose one of %sauto, or your own in --tta-table FILE", buf_z(&names));
}

static int take_limits(struct question *q, const struct answer_tta_options *o,
                       struct answer_tta_ask *ask, struct fail *why) {
    if (o->min_f1 > 1 || o->min_f1 <= 0) {
        return fail_set(why, FAIL_USAGE, "--min-f1 %g: not an F1 score between 0 and 1", o->min_f1);
    }
    if (o->target_time && !unit_parse_time(str_of(o->target_time), &ask->target_s)) {
        return fail_set(why, FAIL_USAGE, "--target-time %s: not a time such as 20m, 1h30m or 90s",
                        o->target_time);
    }
    if (!o->target_time || ask->has_images) return 0;
    ask->within_s = ask->target_s;
    ask->target_s = NAN;
    str_list_format(q->arena, &ask->notes,
                    "--target-time %s is not judged: give the number of images with --images N",
                    o->target_time);
    return 0;
}

// A time or a score alone asks which type keeps them.
int answer_tta_ask_open(struct question *q, const struct answer_tta_options *o,
                        struct answer_tta_ask *ret, struct fail *why) {
    struct config_value v;
    struct str path;
    *ret = (struct answer_tta_ask){.is_asked = o->tta || o->table || o->target_time ||
                                               o->images > 0 || !isnan(o->min_f1),
                                   .images = o->images,
                                   .target_s = (double)NAN,
                                   .within_s = (double)NAN,
                                   .min_f1 = o->min_f1};
    if (!ret->is_asked) {
        if (q->plan.inference) note_unasked(q);
        return 0;
    }
    if (ret->images <= 0 && value_of(q, images_keys, &path, &v)) {
        ret->images = v.type == CONFIG_INT && v.integer > 0 ? v.integer : 0;
    }
    ret->has_images = ret->images > 0;
    if (!ret->has_images) ret->images = USUAL_IMAGES;
    ret->stacks = value_of(q, mode_keys, &path, &v) &&
                  (str_starts(v.text, STR("stack")) || str_starts(v.text, STR("batch")));
    int rc = take_types(q, o, ret, why);
    return rc == 0 ? take_limits(q, o, ret, why) : rc;
}

struct config_edits answer_tta_edits(struct question *q, const struct answer_tta_type *type) {
    struct str path, batch = q->reading.values[CONFIG_BATCH].path;
    struct config_edits edits = {0};
    struct config_value v;
    bool is_on = type->views > 1;
    if (batch.len == 0 || q->batch_is_trainings) return edits;
    if (value_of(q, type_keys, &path, &v)) {
        config_edits_add(q->arena, &edits,
                         (struct config_edit){.path = path, .value = type->name, .is_text = true});
    }
    if (value_of(q, switch_keys, &path, &v) && v.type == CONFIG_BOOL && v.boolean != is_on) {
        struct str word = is_on ? STR("true") : STR("false");
        config_edits_add(q->arena, &edits, (struct config_edit){.path = path, .value = word});
    }
    return edits;
}

// --- The answer ----------------------------------------------------------------------------------

static enum answer_tta_verdict verdict_of(const struct answer_tta_ask *ask,
                                          const struct answer_tta_row *row) {
    if (!row->fits) return ANSWER_TTA_OOM;
    if (!isnan(ask->min_f1) && isnan(row->type->f1_low)) return ANSWER_TTA_F1_UNKNOWN;
    if (row->type->f1_low < ask->min_f1) return ANSWER_TTA_F1_LOW;
    if (isnan(ask->target_s)) return ANSWER_TTA_MEETS;
    const struct answer_tta_range *s = &row->time_s;
    if (s->low > ask->target_s || s->likely > ask->target_s) return ANSWER_TTA_TOO_SLOW;
    if (isnan(s->likely)) return ANSWER_TTA_TIME_UNKNOWN;
    return s->high > ask->target_s ? ANSWER_TTA_LIKELY : ANSWER_TTA_MEETS;
}

// With a time to keep, or nothing: the highest score. With a score alone: the fewest views.
static bool is_better(const struct answer_tta_ask *ask, const struct answer_tta_row *a,
                      const struct answer_tta_row *b) {
    if (!b || a->verdict != b->verdict) return !b || a->verdict < b->verdict; // MEETS, LIKELY
    double x = isnan(a->type->f1_low) ? -1 : a->type->f1_low;
    double y = isnan(b->type->f1_low) ? -1 : b->type->f1_low;
    bool is_score_enough = isnan(ask->target_s) && !isnan(ask->min_f1);
    if (is_score_enough || x == y) return a->type->views < b->type->views;
    return x > y;
}

// What the prediction says, where no trial has shown it.
static struct answer_tta_measured predicted(const struct answer *answer) {
    const struct speed *s = &answer->speed;
    struct answer_tta_measured m = {answer->plan.batch, answer->peak.needed_bytes, {NAN, NAN, NAN}};
    if (!s->row || !answer->fits) return m;
    m.per_s = (struct answer_tta_range){s->is_host_bound ? (double)NAN : s->samples_per_s, s->low,
                                        s->high};
    return m;
}

int answer_tta_answer(struct question *q, const struct answer *answer,
                      const struct answer_tta_ask *ask, const struct answer_tta_measured *measured,
                      struct answer_tta **ret, struct fail *why) {
    struct answer_tta *t = *ret = arena_new(q->arena, struct answer_tta, 1);
    struct answer_tta_measured m = measured ? *measured : predicted(answer);
    if (answer->plan.sequence_length > 0) {
        return fail_set(why, FAIL_USAGE, "--tta: %.*s reads text; views are for images",
                        STR_ARG(answer->plan.model));
    }
    if (isnan(m.per_s.low)) m.per_s.low = m.per_s.likely;
    if (isnan(m.per_s.high)) m.per_s.high = m.per_s.likely;
    t->ask = ask;
    t->rows = arena_new(q->arena, struct answer_tta_row, ask->types.count);
    for (ptrdiff_t i = 0; i < ask->types.count; i++) {
        struct answer_tta_row *row = &t->rows[i];
        const struct answer_tta_type *type = &ask->types.items[i];
        double views = (double)ask->images * (double)type->views;
        *row = (struct answer_tta_row){type, ask->stacks ? type->views : 1,
                                       .needed_bytes = m.peak_bytes};
        row->batch = m.batch / row->at_once;
        row->fits = answer->fits && row->batch > 0;
        row->time_s = (struct answer_tta_range){views / m.per_s.likely, views / m.per_s.high,
                                                views / m.per_s.low};
        row->verdict = verdict_of(ask, row);
        bool meets = row->verdict == ANSWER_TTA_MEETS || row->verdict == ANSWER_TTA_LIKELY;
        if (meets && is_better(ask, row, t->recommended)) t->recommended = row;
    }
    return 0;
}
