// SPDX-License-Identifier: Apache-2.0
// Test-time augmentation for people and as JSON (doc/inference.md).
#include "base/unit.h"
#include "cmd/infer/tta.h"

#include <math.h>

static const struct {
    const char *word;
    enum show_tone tone;
} verdicts[TTA_VERDICTS] = {
    [TTA_MEETS] = {"MEETS", SHOW_GOOD},
    [TTA_LIKELY] = {"LIKELY", SHOW_WARN},
    [TTA_OOM] = {"OOM", SHOW_BAD},
    [TTA_TOO_SLOW] = {"TOO SLOW", SHOW_BAD},
    [TTA_F1_LOW] = {"F1 TOO LOW", SHOW_BAD},
    [TTA_F1_UNKNOWN] = {"F1 UNKNOWN", SHOW_WARN},
    [TTA_TIME_UNKNOWN] = {"TIME UNKNOWN", SHOW_WARN},
};

// Where nothing was asked of time or score, all that there is to meet is the memory.
static const char *word_of(const struct tta *t, const struct tta_row *row) {
    bool is_asked = !isnan(t->ask->target_s) || !isnan(t->ask->min_f1);
    return row->verdict == TTA_MEETS && !is_asked ? "FITS" : verdicts[row->verdict].word;
}

// "40 s", "3.9 min", "2.4 h".
static struct str time_text(struct arena *a, double s) {
    static const struct {
        double below, unit;
        const char *name;
    } units[] = {{100, 1, "s"}, {6000, 60, "min"}, {INFINITY, 3600, "h"}};
    int i = 0;
    while (s >= units[i].below) i++;
    return str_format(a, "%.*f %s", s / units[i].unit < 10 ? 1 : 0, s / units[i].unit,
                      units[i].name);
}

static struct str range_text(struct arena *a, const struct tta_row *row) {
    if (isnan(row->time_low_s)) return (struct str){0};
    struct str low = time_text(a, row->time_low_s);
    if (isnan(row->time_s)) return str_format(a, "at least %.*s", STR_ARG(low));
    struct str middle = time_text(a, row->time_s), high = time_text(a, row->time_high_s);
    return str_format(a, "%.*s (%.*s to %.*s)", STR_ARG(middle), STR_ARG(low), STR_ARG(high));
}

static struct str f1_text(struct arena *a, const struct tta_type *type) {
    if (isnan(type->f1_low)) return (struct str){0};
    if (isnan(type->f1_high)) return str_format(a, "%.3f or more", type->f1_low);
    return str_format(a, "%.3f to %.3f", type->f1_low, type->f1_high);
}

static void add_row(struct show_table *table, struct arena *a, const struct tta *t,
                    const struct tta_row *row) {
    show_table_cell(table, row == t->recommended ? SHOW_STRONG : SHOW_PLAIN, row->type->name);
    show_table_format(table, SHOW_PLAIN, "%lld", (long long)row->type->views);
    if (row->type->views == 1)
        show_table_cell(table, SHOW_DIM, STR("one"));
    else if (row->at_once == 1)
        show_table_cell(table, SHOW_DIM, STR("in turn"));
    else
        show_table_format(table, SHOW_DIM, "%lld stacked", (long long)row->at_once);
    show_table_format(table, SHOW_STRONG, "%lld", (long long)row->batch);
    show_table_format(table, SHOW_PLAIN, "%lld", (long long)row->forward_batch);
    show_table_cell(table, SHOW_PLAIN,
                    row->needed_bytes > 0 ? unit_bytes(a, row->needed_bytes) : STR("?"));
    show_table_known(table, SHOW_PLAIN, range_text(a, row));
    show_table_known(table, SHOW_PLAIN, f1_text(a, row->type));
    show_table_cell(table, verdicts[row->verdict].tone, str_of(word_of(t, row)));
}

static void show_rows(struct arena *a, const struct tta *t, struct show_style style,
                      struct buf *out) {
    static const struct show_heading columns[] = {{"type", SHOW_LEFT},
                                                  {"views", SHOW_RIGHT},
                                                  {"run", SHOW_LEFT},
                                                  {"images", SHOW_RIGHT},
                                                  {"model's batch", SHOW_RIGHT},
                                                  {"needed", SHOW_RIGHT},
                                                  {"time", SHOW_LEFT},
                                                  {"F1", SHOW_LEFT},
                                                  {"verdict", SHOW_LEFT},
                                                  {NULL, SHOW_LEFT}};
    struct show_table table = show_table_new(a, (struct str){0});
    show_table_columns(&table, columns);
    for (ptrdiff_t i = 0; i < t->count; i++) add_row(&table, a, t, &t->rows[i]);
    show_table_text(&table, style, out);
}

// Whose the scores are, each source once.
static void show_sources(const struct tta *t, struct buf *out) {
    struct str last = {0};
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct tta_type *type = t->rows[i].type;
        if (isnan(type->f1_low) || str_equal(type->source, last)) continue;
        buf_format(out, "%s%.*s", last.len ? ", " : "F1: ", STR_ARG(type->source));
        last = type->source;
    }
    if (last.len) buf_add(out, STR("; not measured here (--tta-table has your own)\n"));
}

// --- What comes nearest --------------------------------------------------------------------------

static bool has_score(const struct tta *t, const struct tta_row *row) {
    return isnan(t->ask->min_f1) || row->type->f1_low >= t->ask->min_f1;
}

static bool keeps_time(const struct tta *t, const struct tta_row *row) {
    return isnan(t->ask->target_s) || row->time_s <= t->ask->target_s;
}

static const struct tta_row *fastest_with_score(const struct tta *t) {
    const struct tta_row *best = NULL;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct tta_row *row = &t->rows[i];
        if (!row->is_chosen || !row->fits || !has_score(t, row)) continue;
        if (!best || row->type->views < best->type->views) best = row;
    }
    return best;
}

static const struct tta_row *best_in_time(const struct tta *t) {
    const struct tta_row *best = NULL;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct tta_row *row = &t->rows[i];
        if (!row->is_chosen || !row->fits || !keeps_time(t, row) || isnan(row->type->f1_low))
            continue;
        if (!best || row->type->f1_low > best->type->f1_low) best = row;
    }
    return best;
}

static struct str nearest_text(struct arena *a, const struct tta *t) {
    const struct tta_row *fast = fastest_with_score(t), *good = best_in_time(t);
    struct buf b = buf_new(a);
    double min_f1 = t->ask->min_f1, target_s = t->ask->target_s;
    bool fits = false;
    for (ptrdiff_t i = 0; i < t->count; i++) fits |= t->rows[i].fits;
    if (!fits) return STR("not even the smallest batch fits the card");
    if (!fast)
        buf_format(&b, "no type here is known to reach F1 %.4g", min_f1);
    else if (isnan(min_f1))
        buf_format(&b, "the fastest is %.*s", STR_ARG(fast->type->name));
    else
        buf_format(&b, "with F1 %.4g the fastest is %.*s", min_f1, STR_ARG(fast->type->name));
    struct str range = fast ? range_text(a, fast) : (struct str){0};
    if (range.len > 0) buf_format(&b, ", %.*s", STR_ARG(range));
    if (good && isnan(target_s)) {
        buf_format(&b, "; the best is %.*s's %.3f", STR_ARG(good->type->name), good->type->f1_low);
    } else if (good) {
        buf_format(&b, "; within %s the best F1 is %.*s's %.3f", time_text(a, target_s).p,
                   STR_ARG(good->type->name), good->type->f1_low);
    } else if (!isnan(target_s)) {
        buf_format(&b, "; no type with a known F1 keeps within %s", time_text(a, target_s).p);
    }
    return buf_str(&b);
}

// What teams' tables call "memory x views" is one way of two.
static void show_trade(const struct tta *t, struct buf *out) {
    for (ptrdiff_t i = 0; i < t->count; i++) {
        if (t->rows[i].at_once == 1) continue;
        buf_add(out, STR("stacked: the memory of images x views, and no faster where the model "
                         "sees the same batch\n"));
        return;
    }
}

static const char *run_text(const struct tta_row *row) {
    return row->type->views == 1 ? "" : row->at_once > 1 ? ", views stacked" : ", views in turn";
}

// To three figures: more would be pretence.
static double rounded(double count) {
    double unit = pow(10, fmax(floor(log10(fmax(count, 1))) - 2, 0));
    return round(count / unit) * unit;
}

// Images that a time is enough for, where nobody has said how many there are.
static void show_within(struct arena *a, const struct tta *t, struct buf *out) {
    const struct tta_row *row = t->recommended;
    double views = (double)row->type->views, s = t->ask->within_s;
    if (isnan(s) || isnan(row->views_per_s)) return;
    buf_format(out, "in %s: about %.0f images (%.0f to %.0f)\n", time_text(a, s).p,
               rounded(s * row->views_per_s / views), rounded(s * row->views_low / views),
               rounded(s * row->views_high / views));
}

static void show_recommended(struct arena *a, const struct tta *t, struct show_style style,
                             struct buf *out) {
    const struct tta_row *row = t->recommended;
    struct str f1 = f1_text(a, row->type), range = range_text(a, row);
    show_text(out, style, SHOW_GOOD,
              t->ask->is_auto ? STR("recommended: ") : STR("test-time augmentation: "));
    show_text(out, style, SHOW_STRONG, row->type->name);
    buf_format(out, "%s, batch %lld", run_text(row), (long long)row->batch);
    if (range.len > 0) buf_format(out, ": %.*s", STR_ARG(range));
    if (f1.len > 0) buf_format(out, ", F1 %.*s", STR_ARG(f1));
    if (row->verdict == TTA_LIKELY)
        buf_add(out, STR("; the far end of the range is beyond the target"));
    buf_byte(out, '\n');
}

void tta_show(struct arena *a, const struct tta *t, struct show_style style, struct buf *out) {
    buf_format(out,
               "\ntest-time augmentation, time for %lld images%s; without loading them and making "
               "the views\n\n",
               (long long)(t->ask->images > 0 ? t->ask->images : 1000),
               t->ask->images > 0 ? "" : " (--images says how many)");
    show_rows(a, t, style, out);
    show_trade(t, out);
    show_sources(t, out);
    if (t->recommended) {
        show_recommended(a, t, style, out);
        show_within(a, t, out);
    } else {
        show_text(out, style, SHOW_BAD, STR("nothing meets it: "));
        buf_format(out, "%.*s\n", STR_ARG(nearest_text(a, t)));
    }
    answer_notes(&t->ask->notes, style, out);
}

// --- JSON ----------------------------------------------------------------------------------------

static json_t *json_range(double middle, double low, double high) {
    if (isnan(low)) return json_null();
    return json_pack("{s:o, s:o, s:o}", "likely", json_number(middle), "low", json_number(low),
                     "high", json_number(high));
}

static json_t *json_row(const struct tta *t, const struct tta_row *row) {
    double per_1000 = 1000.0 * (double)row->type->views / 60;
    bool has_images = t->ask->images > 0;
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:b}",
        "type", json_text(row->type->name), "views", (json_int_t)row->type->views, "views_at_once",
        (json_int_t)row->at_once, "batch_size", (json_int_t)row->batch, "forward_batch_size",
        (json_int_t)row->forward_batch, "needed_bytes", (json_int_t)row->needed_bytes,
        "outputs_bytes", (json_int_t)row->outputs_bytes, "fits", row->fits, "samples_per_s",
        json_number(row->views_per_s / (double)row->type->views), "minutes_per_1000_images",
        json_range(per_1000 / row->views_per_s, per_1000 / row->views_high,
                   per_1000 / row->views_low),
        "time_s",
        has_images ? json_range(row->time_s, row->time_low_s, row->time_high_s) : json_null(),
        "f1_low", json_number(row->type->f1_low), "f1_high", json_number(row->type->f1_high),
        "f1_source", isnan(row->type->f1_low) ? json_null() : json_text(row->type->source),
        "verdict", word_of(t, row), "is_chosen", row->is_chosen, "is_recommended",
        row == t->recommended);
}

void tta_json(json_t *to, const struct tta *t) {
    ARENA_AUTO scratch = {0};
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < t->count; i++) {
        json_array_append_new(list, json_row(t, &t->rows[i]));
    }
    json_object_set_new(to, "tta", list);
    json_object_set_new(to, "recommended",
                        t->recommended ? json_text(t->recommended->type->name) : json_null());
    json_object_set_new(to, "nearest",
                        t->recommended ? json_null() : json_text(nearest_text(&scratch, t)));
    json_object_set_new(to, "images", json_size(t->ask->images));
}
