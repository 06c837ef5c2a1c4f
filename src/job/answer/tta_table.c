// SPDX-License-Identifier: Apache-2.0
// A score beyond 0 … 1 or a type without views is
// refused with its line: a wrong figure would recommend the wrong type.
#include "base/data.h"
#include "base/os.h"
#include "base/unit.h"
#include "job/answer/tta.h"

#include <math.h>

static int bad_cell(const struct tsv *t, const char *column, const char *expected,
                    struct fail *why) {
    fail_set(why, FAIL_INPUT, "%.*s:%d: %s is \"%.*s\", not %s", STR_ARG(t->name), t->line, column,
             STR_ARG(tsv_cell(t, column)), expected);
    return fail_hint(why, "columns name, views, f1_low, f1_high, source, separated by tabs");
}

static int read_score(const struct tsv *t, const char *column, double *ret, struct fail *why) {
    struct str cell = tsv_cell(t, column);
    *ret = (double)NAN;
    if (cell.len == 0) return 0;
    if (str_to_double(cell, ret) && *ret >= 0 && *ret <= 1) return 0;
    return bad_cell(t, column, "an F1 score from 0 to 1", why);
}

static int read_type(const struct tsv *t, struct answer_tta_type *ret, struct fail *why) {
    *ret = (struct answer_tta_type){.name = tsv_cell(t, "name"), .source = tsv_cell(t, "source")};
    if (ret->name.len == 0) return bad_cell(t, "name", "a name", why);
    if (!str_to_i64(tsv_cell(t, "views"), &ret->views) || ret->views < 1 || ret->views > 1000) {
        return bad_cell(t, "views", "a number of views from 1 to 1000", why);
    }
    int rc = read_score(t, "f1_low", &ret->f1_low, why);
    if (rc == 0) rc = read_score(t, "f1_high", &ret->f1_high, why);
    if (ret->source.len == 0) ret->source = t->name;
    if (rc == 0 && ret->f1_high < ret->f1_low) return bad_cell(t, "f1_high", "above f1_low", why);
    return rc;
}

int answer_tta_table_load(struct arena *a, const char *path, struct answer_tta_table *ret,
                          struct fail *why) {
    const char *name = path ? path : "data/tta.tsv";
    struct tsv *t = arena_new(a, struct tsv, 1);
    struct answer_tta_type type;
    struct str text;
    *ret = (struct answer_tta_table){0};
    int rc = path ? os_read(a, path, UNIT_MIB, &text, NULL, why) : data_find(a, name, &text, why);
    if (rc == 0) rc = tsv_open(t, str_of(name), text, why);
    while (rc == 0 && (rc = tsv_next(t, why)) > 0) {
        if ((rc = read_type(t, &type, why)) < 0) return rc;
        *arena_push(a, &ret->items, &ret->count, &ret->capacity) = type;
    }
    if (rc < 0 || ret->count > 0) return rc;
    return fail_set(why, FAIL_INPUT, "%s: lists no types", name);
}
