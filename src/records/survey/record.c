// SPDX-License-Identifier: Apache-2.0
// The members of a record, by which it is read, written and compared. Known by its question, GPU
// and batch: a later measurement of the same replaces it.
#include "records/survey/survey_int.h"

#include "base/unit.h"

#include <string.h>

#define OWN(member) FIELD(struct survey_record, member)
#define PLAN(member) PLAN_FIELD(offsetof(struct survey_record, plan), member)
const struct survey_member survey_members[] = {
    {PLAN(accumulation), true, 14, 0},
    {PLAN(batch), true, 15, 0},
    // Drivers keep some MiB more or less for themselves.
    {OWN(capacity_bytes), true, 3, UNIT_GIB},
    {OWN(card), true, 2, 0},
    {OWN(charged_bytes), false, 0, 0},
    {PLAN(checkpointing), false, 10, 0},
    {OWN(date), true, 0, 0},
    {PLAN(ema), false, 11, 0},
    {PLAN(image_size), false, 4, 0},
    {PLAN(inference), false, 12, 0},
    {PLAN(layout), false, 9, 0},
    {OWN(limit_bytes), false, 0, 0},
    {PLAN(model), true, 1, 0},
    {PLAN(optimizer), false, 8, 0},
    {OWN(peak_bytes), false, 0, 0},
    {PLAN(precision), false, 7, 0},
    {PLAN(ranks), false, 13, 0},
    {OWN(reserved_bytes), false, 0, 0},
    {OWN(samples_per_s), false, 0, 0},
    {PLAN(sequence_length), false, 5, 0},
    {OWN(status), true, 0, 0},
    {PLAN(target_length), false, 6, 0},
    {OWN(torch), false, 0, 0},
    {OWN(version), false, 0, 0},
    {.field = {.name = NULL}},
};
enum { ORDERS = 15 };

struct survey_record survey_record_unknown(void) {
    struct survey_record r = {0};
    for (const struct survey_member *m = survey_members; m->field.name; m++)
        field_forget(&r, &m->field);
    return r;
}

static int compare_text(struct str a, struct str b) {
    ptrdiff_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.p, b.p, (size_t)len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_member(const struct survey_record *a, const struct survey_record *b,
                          const struct survey_member *m) {
    const struct field *f = &m->field;
    if (field_outside(f) == FIELD_TEXT) return compare_text(field_text(a, f), field_text(b, f));
    int64_t divisor = m->divisor > 0 ? m->divisor : 1;
    int64_t x = (field_whole(a, f) + divisor / 2) / divisor;
    int64_t y = (field_whole(b, f) + divisor / 2) / divisor;
    return (x > y) - (x < y);
}

int survey_compare(const struct survey_record *a, const struct survey_record *b) {
    int orders[ORDERS] = {0};
    for (const struct survey_member *m = survey_members; m->field.name; m++) {
        if (m->order > 0) orders[m->order - 1] = compare_member(a, b, m);
    }
    for (int i = 0; i < ORDERS; i++) {
        if (orders[i]) return orders[i];
    }
    return 0;
}
