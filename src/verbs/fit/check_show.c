// SPDX-License-Identifier: Apache-2.0
// The gate's answer for people and as a document: one table, then what is wrong, then the notes.
#include "verbs/fit/fit.h"

#include "base/json.h"
#include "base/out.h"
#include "base/unit.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double gib = (double)UNIT_GIB;

struct str fit_check_peak(struct arena *a, int64_t bytes) {
    return bytes > 0 ? unit_bytes(a, bytes) : STR("–");
}

struct str fit_check_change(struct arena *a, const struct fit_check_row *row) {
    const struct fit_check_known *b = &row->before;
    int64_t now = row->memory.expected_bytes, more = now - b->bytes;
    if (b->verdict.len == 0) return STR("new");
    if (now <= 0 || b->bytes <= 0) return STR("–");
    if (more == 0) return STR("none");
    double share = 100 * (double)more / (double)b->bytes;
    return str_format(a, "%+.2f GiB (%+.1f %%)", (double)more / gib, share);
}

struct str fit_check_summary(const struct fit_check *c) {
    struct buf text = buf_new(c->arena);
    buf_format(&text, "%d of %td fit", c->passed, c->count);
    if (c->failed > 0) buf_format(&text, ", %d do%s not", c->failed, c->failed == 1 ? "es" : "");
    if (c->unjudged > 0)
        buf_format(&text, ", %d %s not judged", c->unjudged, c->unjudged == 1 ? "was" : "were");
    if (c->drifted > 0)
        buf_format(&text, ", %d %s not as in the lock", c->drifted, c->drifted == 1 ? "is" : "are");
    return buf_str(&text);
}

bool fit_check_is_off_lock(const struct fit_check_row *row) {
    return row->lock && strcmp(row->lock, "same") != 0;
}

bool fit_check_is_loud(const struct fit_check_row *row) {
    return row->state != FIT_CHECK_PASSES || fit_check_is_off_lock(row);
}

static void add_lock(struct arena *a, const struct fit_check_row *row, struct buf *text) {
    const struct fit_check_known *l = &row->locked;
    const char *before = text->count > 0 ? "; " : "";
    if (l->verdict.len == 0) {
        buf_format(text, "%snot in the lock (--update-lock adds it)", before);
        return;
    }
    buf_format(text, "%sthe lock has %.*s, %.*s; now %s, %.*s (--update-lock takes it)", before,
               STR_ARG(l->verdict), STR_ARG(fit_check_peak(a, l->bytes)), row->verdict,
               STR_ARG(fit_check_peak(a, row->memory.expected_bytes)));
}

struct str fit_check_words(struct arena *a, const struct fit_check_row *row) {
    struct buf text = buf_new(a);
    buf_add(&text, row->reason);
    if (row->hint.len > 0) buf_format(&text, "; %.*s", STR_ARG(row->hint));
    if (fit_check_is_off_lock(row)) add_lock(a, row, &text);
    return buf_str(&text);
}

// --- Text ----------------------------------------------------------------------------------------

static enum show_tone tone_of(const struct fit_check_row *row) {
    if (row->state == FIT_CHECK_PASSES)
        return strcmp(row->verdict, "FITS") == 0 ? SHOW_GOOD : SHOW_WARN;
    return row->state == FIT_CHECK_FAILS ? SHOW_BAD : SHOW_WARN;
}

static void add_row(const struct fit_check *c, struct show_table *t,
                    const struct fit_check_row *row) {
    const struct answer_memory *m = &row->memory;
    const bool is_judged = m->expected_bytes > 0;
    show_table_cell(t, SHOW_PLAIN, row->config);
    show_table_cell(t, SHOW_STRONG, row->gpu);
    show_table_known(t, SHOW_PLAIN,
                     row->plan.batch > 0 ? answer_batch_text(c->arena, &row->plan) : STR(""));
    show_table_bytes(t, SHOW_PLAIN, m->expected_bytes);
    show_table_known(t, SHOW_PLAIN,
                     is_judged
                         ? str_format(c->arena, "%.0f %% of %.*s",
                                      100 * (double)m->expected_bytes / (double)m->usable_bytes,
                                      STR_ARG(unit_bytes(c->arena, m->usable_bytes)))
                         : STR(""));
    show_table_known(t, SHOW_DIM,
                     row->limit > 0 ? str_format(c->arena, "%.0f %%", 100 * row->limit) : STR(""));
    if (c->has_base) show_table_cell(t, SHOW_PLAIN, fit_check_change(c->arena, row));
    show_table_cell(t, tone_of(row), str_of(row->verdict));
}

static void table(const struct fit_check *c, struct show_style style, struct buf *out) {
    static const char *const gives_way[] = {"limit", "batch", NULL};
    struct show_table t = show_table_new(c->arena, (struct str){0});
    show_table_wrapping(&t, "config");
    show_table_column(&t, "GPU", SHOW_LEFT);
    show_table_column(&t, "batch", SHOW_LEFT);
    show_table_column(&t, "peak", SHOW_RIGHT);
    show_table_column(&t, "of usable", SHOW_RIGHT);
    show_table_column(&t, "limit", SHOW_RIGHT);
    if (c->has_base) show_table_column(&t, "change", SHOW_RIGHT);
    show_table_column(&t, "verdict", SHOW_LEFT);
    show_table_gives_way(&t, gives_way);
    for (ptrdiff_t i = 0; i < c->count; i++) add_row(c, &t, &c->rows[i]);
    show_table_text(&t, style, out);
}

// How to look further is said once, not of each.
static void add_faults(const struct fit_check *c, struct show_style style, struct buf *out) {
    bool is_first = true, is_explained = false;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        struct fit_check_row row = c->rows[i];
        if (!fit_check_is_loud(&row)) continue;
        if (is_first) buf_byte(out, '\n');
        is_first = false;
        is_explained |= row.state == FIT_CHECK_FAILS && row.hint.len > 0;
        if (row.state == FIT_CHECK_FAILS) row.hint = (struct str){0};
        struct buf text = buf_shown(c->arena);
        buf_format(&text, "%.*s", STR_ARG(row.config));
        if (!str_is(row.key, "any")) buf_format(&text, " on %.*s", STR_ARG(row.gpu));
        buf_format(&text, ": %.*s", STR_ARG(fit_check_words(c->arena, &row)));
        show_prose(out, style, tone_of(&row), buf_str(&text), 0, 2);
    }
    if (is_explained)
        show_prose(out, style, SHOW_DIM,
                   STR("batchfit explain --config FILE --gpu NAME shows where the memory goes and "
                       "what would fit"),
                   0, 2);
}

// What a GPU can do, and a row does not say already.
static void add_gpu_notes(struct arena *a, const struct fit_check_row *row,
                          struct str_list *notes) {
    for (ptrdiff_t i = 0; i < row->notes.count; i++) {
        const struct str note = row->notes.items[i];
        if (!answer_is_of_gpu(note) || str_equal(note, row->reason)) continue;
        str_list_add_new(a, notes,
                         str_format(a, "%.*s on %.*s: %.*s", STR_ARG(row->config),
                                    STR_ARG(row->gpu), STR_ARG(note)));
    }
}

// What was assumed where a config says nothing; a note of several configs is there once.
static void add_notes(const struct fit_check *c, struct show_style style, struct buf *out) {
    struct str_list notes = c->notes;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_row *row = &c->rows[i];
        if (!row->question || (i > 0 && c->rows[i - 1].question == row->question)) continue;
        for (ptrdiff_t k = 0; k < row->question->notes.count; k++) {
            struct str note = row->question->notes.items[k];
            if (str_starts(note, STR(QUESTION_NOT_MODELLED))) continue;
            note = str_format(c->arena, "%.*s: %.*s", STR_ARG(row->config), STR_ARG(note));
            str_list_add_new(c->arena, &notes, note);
        }
    }
    for (ptrdiff_t i = 0; i < c->count; i++) add_gpu_notes(c->arena, &c->rows[i], &notes);
    if (notes.count > 0) buf_byte(out, '\n');
    answer_notes(&notes, style, out);
}

int fit_check_text(const struct fit_check *c, struct fail *why) {
    (void)why;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(c->arena);
    bool is_good = c->failed + c->unjudged + c->drifted == 0;
    struct str text = str_format(
        c->arena, "%.*s: %d config%s on %d GPU%s", STR_ARG(fit_check_summary(c)), c->config_count,
        c->config_count == 1 ? "" : "s", c->gpu_count, c->gpu_count == 1 ? "" : "s");
    show_prose(&out, style, is_good ? SHOW_GOOD : SHOW_BAD, text, 0, 2);
    buf_byte(&out, '\n');
    table(c, style, &out);
    add_faults(c, style, &out);
    add_notes(c, style, &out);
    out_buf(stdout, &out);
    return 0;
}

// --- The document --------------------------------------------------------------------------------

static json_t *known_json(const struct fit_check_known *k) {
    if (k->verdict.len == 0) return json_null();
    return json_pack("{s:o, s:o}", "expected_bytes", json_size(k->bytes), "verdict",
                     json_text(k->verdict));
}

static json_t *row_json(const struct fit_check *c, const struct fit_check_row *row) {
    const struct answer_memory *m = &row->memory;
    const bool is_judged = m->expected_bytes > 0;
    json_t *passes = row->state == FIT_CHECK_UNJUDGED
                         ? json_null()
                         : json_boolean(row->state == FIT_CHECK_PASSES);
    json_t *object = json_pack(
        "{s:o, s:o, s:{s:o, s:o, s:o}, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "config",
        json_text(row->config), "line", json_size(row->line), "gpu", "name", json_text(row->gpu),
        "key", json_text(row->key), "usable_bytes", json_size(m->usable_bytes), "verdict",
        row->verdict, "passes", passes, "expected_bytes", json_size(m->expected_bytes),
        "worst_bytes", json_size(is_judged ? m->worst_bytes : 0), "limit",
        row->limit > 0 ? json_real(row->limit) : json_null(), "plan",
        row->plan.batch > 0 ? answer_plan_json(&row->plan) : json_null(), "verdict_basis",
        row->basis ? json_string(row->basis) : json_null(), "reason", json_text(row->reason),
        "hint", json_text(row->hint), "not_modelled",
        row->question ? answer_not_modelled_json(row->question) : json_array());
    if (c->has_base) json_object_set_new(object, "base", known_json(&row->before));
    if (c->has_lock) {
        json_object_set_new(object, "lock", row->lock ? json_string(row->lock) : json_null());
        json_object_set_new(object, "locked", known_json(&row->locked));
    }
    json_object_set_new(object, "notes", json_texts(&row->notes));
    return object;
}

int fit_check_json(const struct fit_check *c, struct fail *why) {
    json_t *results = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++)
        json_array_append_new(results, row_json(c, &c->rows[i]));
    return json_print(json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:o}", "gate", 1, "results",
                                results, "passed", c->passed, "failed", c->failed, "not_judged",
                                c->unjudged, "not_as_locked", c->drifted, "notes",
                                json_texts(&c->notes)),
                      why);
}
