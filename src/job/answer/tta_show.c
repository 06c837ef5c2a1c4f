// SPDX-License-Identifier: Apache-2.0
// Test-time augmentation for people and as JSON (doc/inference.md).
#include "base/unit.h"
#include "job/answer/answer.h"
#include "job/answer/tta.h"
#include "view/show/show.h"

#include <math.h>

static const char *const verdicts[ANSWER_TTA_VERDICTS] = {
    [ANSWER_TTA_MEETS] = "MEETS",
    [ANSWER_TTA_LIKELY] = "LIKELY",
    [ANSWER_TTA_OOM] = "OOM",
    [ANSWER_TTA_TOO_SLOW] = "TOO SLOW",
    [ANSWER_TTA_F1_LOW] = "F1 TOO LOW",
    [ANSWER_TTA_F1_UNKNOWN] = "F1 UNKNOWN",
    [ANSWER_TTA_TIME_UNKNOWN] = "TIME UNKNOWN",
};

// Where nothing was asked of time or score, all that there is to meet is the memory.
static const char *word_of(const struct answer_tta *t, const struct answer_tta_row *row) {
    bool is_asked = !isnan(t->ask->target_s) || !isnan(t->ask->min_f1);
    return row->verdict == ANSWER_TTA_MEETS && !is_asked ? "FITS" : verdicts[row->verdict];
}

// "40 s", "3.9 min", "2.4 h".
static struct str time_text(struct arena *a, double s) {
    double unit = s < 100 ? 1 : s < 6000 ? 60 : 3600;
    const char *name = s < 100 ? "s" : s < 6000 ? "min" : "h";
    return str_format(a, "%.*f %s", s / unit < 10 ? 1 : 0, s / unit, name);
}

static struct str range_text(struct arena *a, const struct answer_tta_range *s) {
    if (isnan(s->low)) return (struct str){0};
    struct str low = time_text(a, s->low);
    if (isnan(s->likely)) return str_format(a, "at least %.*s", STR_ARG(low));
    struct str likely = time_text(a, s->likely), high = time_text(a, s->high);
    return str_format(a, "%.*s (%.*s to %.*s)", STR_ARG(likely), STR_ARG(low), STR_ARG(high));
}

static struct str f1_text(struct arena *a, const struct answer_tta_type *type) {
    if (isnan(type->f1_low)) return (struct str){0};
    if (isnan(type->f1_high)) return str_format(a, "%.3f or more", type->f1_low);
    return str_format(a, "%.3f to %.3f", type->f1_low, type->f1_high);
}

static void show_rows(struct arena *a, const struct answer_tta *t, struct show_style style,
                      struct buf *out) {
    static const struct show_heading columns[] = {
        {"type", SHOW_LEFT}, {"views", SHOW_RIGHT},  {"images", SHOW_RIGHT},   {"time", SHOW_LEFT},
        {"F1", SHOW_LEFT},   {"verdict", SHOW_LEFT}, {"F1 source", SHOW_LEFT}, {NULL, SHOW_LEFT}};
    const struct str none = {0};
    struct show_table table = show_table_new(a, (struct str){0});
    static const char *const gives_way[] = {"F1 source", NULL};
    show_table_columns(&table, columns);
    show_table_gives_way(&table, gives_way);
    for (ptrdiff_t i = 0; i < t->ask->types.count; i++) {
        const struct answer_tta_row *row = &t->rows[i];
        show_table_cell(&table, row == t->recommended ? SHOW_STRONG : SHOW_PLAIN, row->type->name);
        show_table_format(&table, SHOW_PLAIN, "%lld%s", (long long)row->type->views,
                          row->at_once > 1 ? " stacked" : "");
        show_table_format(&table, SHOW_STRONG, "%lld", (long long)row->batch);
        show_table_known(&table, SHOW_PLAIN, range_text(a, &row->time_s));
        show_table_known(&table, SHOW_PLAIN, f1_text(a, row->type));
        show_table_cell(&table, row->verdict == ANSWER_TTA_MEETS ? SHOW_GOOD : SHOW_WARN,
                        row->verdict == ANSWER_TTA_OOM ? str_of(answer_verdict_name(ANSWER_NOT))
                                                       : str_of(word_of(t, row)));
        show_table_known(&table, SHOW_DIM, isnan(row->type->f1_low) ? none : row->type->source);
    }
    show_table_text(&table, style, out);
}

// The fewest views that reach the score.
static struct str nearest_text(struct arena *a, const struct answer_tta *t) {
    const struct answer_tta_row *best = NULL;
    double min_f1 = t->ask->min_f1;
    bool any_fits = false;
    for (ptrdiff_t i = 0; i < t->ask->types.count; i++) {
        const struct answer_tta_row *row = &t->rows[i];
        any_fits |= row->fits;
        if (!row->fits || !(isnan(min_f1) || row->type->f1_low >= min_f1)) continue;
        if (!best || row->type->views < best->type->views) best = row;
    }
    if (!any_fits) return STR("even the smallest batch does not fit the GPU");
    if (!best) return str_format(a, "no type here is known to reach F1 %.4g", min_f1);
    struct str with = isnan(min_f1) ? (struct str){0} : str_format(a, "with F1 %.4g ", min_f1);
    return str_format(a, "%.*sthe fastest is %.*s", STR_ARG(with), STR_ARG(best->type->name));
}

static void show_recommended(struct arena *a, const struct answer_tta *t, struct show_style style,
                             struct buf *out) {
    const struct answer_tta_row *row = t->recommended;
    double enough_for = t->ask->within_s * (double)t->ask->images;
    show_text(out, style, SHOW_GOOD,
              t->ask->is_auto ? STR("recommended: ") : STR("test-time augmentation: "));
    show_text(out, style, SHOW_STRONG, row->type->name);
    buf_format(out, ", batch %lld\n", (long long)row->batch);
    if (isnan(enough_for / row->time_s.likely)) return;
    buf_format(out, "in %s: about %s images (%s to %s)\n", time_text(a, t->ask->within_s).p,
               unit_count(a, (int64_t)(enough_for / row->time_s.likely)).p,
               unit_count(a, (int64_t)(enough_for / row->time_s.high)).p,
               unit_count(a, (int64_t)(enough_for / row->time_s.low)).p);
}

void answer_tta_show(struct arena *a, const struct answer_tta *t, struct show_style style,
                     struct buf *out) {
    struct str title = str_format(
        a,
        "test-time augmentation, time for %lld images%s; without loading images and making views. "
        "F1 is not measured (--tta-table takes your own)",
        (long long)t->ask->images, t->ask->has_images ? "" : " (set with --images)");
    buf_byte(out, '\n');
    show_prose(out, style, SHOW_PLAIN, title, 0, 2);
    buf_byte(out, '\n');
    show_rows(a, t, style, out);
    if (t->recommended) {
        show_recommended(a, t, style, out);
    } else {
        show_text(out, style, SHOW_BAD, STR("no type meets it: "));
        buf_format(out, "%.*s\n", STR_ARG(nearest_text(a, t)));
    }
    answer_notes(&t->ask->notes, style, out);
}

// --- JSON ----------------------------------------------------------------------------------------

static json_t *json_range(const struct answer_tta_range *s, double scale) {
    if (isnan(s->low * scale)) return json_null();
    return json_pack("{s:o, s:o, s:o}", "likely", json_number(s->likely * scale), "low",
                     json_number(s->low * scale), "high", json_number(s->high * scale));
}

static json_t *json_row(const struct answer_tta *t, const struct answer_tta_row *row) {
    double images = (double)t->ask->images;
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:b}", "type",
        json_text(row->type->name), "views", (json_int_t)row->type->views, "views_at_once",
        (json_int_t)row->at_once, "batch_size", (json_int_t)row->batch, "forward_batch_size",
        (json_int_t)row->batch * row->at_once, "needed_bytes", (json_int_t)row->needed_bytes,
        "fits", row->fits, "samples_per_s", json_number(images / row->time_s.likely),
        "minutes_per_1000_images", json_range(&row->time_s, 1000 / images / 60), "time_s",
        json_range(&row->time_s, t->ask->has_images ? 1 : (double)NAN), "f1_low",
        json_number(row->type->f1_low), "f1_high", json_number(row->type->f1_high), "f1_source",
        isnan(row->type->f1_low) ? json_null() : json_text(row->type->source), "verdict",
        word_of(t, row), "is_chosen", true, "is_recommended", row == t->recommended);
}

void answer_tta_json(json_t *to, const struct answer_tta *t) {
    ARENA_AUTO scratch = {0};
    const struct answer_tta_row *best = t->recommended;
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < t->ask->types.count; i++) {
        json_array_append_new(list, json_row(t, &t->rows[i]));
    }
    json_object_set_new(to, "tta", list);
    json_object_set_new(to, "recommended", best ? json_text(best->type->name) : json_null());
    json_object_set_new(to, "nearest", best ? json_null() : json_text(nearest_text(&scratch, t)));
    json_object_set_new(to, "images", json_size(t->ask->has_images ? t->ask->images : 0));
}
