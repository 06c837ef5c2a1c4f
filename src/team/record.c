// SPDX-License-Identifier: Apache-2.0
// The members of a record, by which it is read, written and compared. Known by its question, card
// and batch: a later measurement of the same replaces it.
#include "team/team_int.h"

#include "base/unit.h"

#include <math.h>
#include <string.h>

#define AT(member) offsetof(struct team_record, member)
const struct team_member team_members[] = {
    {"accumulation", TEAM_WHOLE, AT(accumulation), true, 14, 0},
    {"batch", TEAM_WHOLE, AT(batch), true, 15, 0},
    // Drivers keep some MiB more or less for themselves.
    {"capacity_bytes", TEAM_WHOLE, AT(capacity_bytes), true, 3, UNIT_GIB},
    {"card", TEAM_TEXT, AT(card), true, 2, 0},
    {"charged_bytes", TEAM_WHOLE, AT(charged_bytes), false, 0, 0},
    {"checkpointing", TEAM_WHOLE, AT(checkpointing), false, 10, 0},
    {"date", TEAM_TEXT, AT(date), true, 0, 0},
    {"ema", TEAM_WHOLE, AT(ema), false, 11, 0},
    {"image_size", TEAM_WHOLE, AT(image_size), false, 4, 0},
    {"inference", TEAM_WHOLE, AT(inference), false, 12, 0},
    {"layout", TEAM_TEXT, AT(layout), false, 9, 0},
    {"limit_bytes", TEAM_WHOLE, AT(limit_bytes), false, 0, 0},
    {"model", TEAM_TEXT, AT(model), true, 1, 0},
    {"optimizer", TEAM_TEXT, AT(optimizer), false, 8, 0},
    {"peak_bytes", TEAM_WHOLE, AT(peak_bytes), false, 0, 0},
    {"precision", TEAM_TEXT, AT(precision), false, 7, 0},
    {"ranks", TEAM_WHOLE, AT(ranks), false, 13, 0},
    {"reserved_bytes", TEAM_WHOLE, AT(reserved_bytes), false, 0, 0},
    {"samples_per_s", TEAM_REAL, AT(samples_per_s), false, 0, 0},
    {"sequence_length", TEAM_WHOLE, AT(sequence_length), false, 5, 0},
    {"status", TEAM_TEXT, AT(status), true, 0, 0},
    {"target_length", TEAM_WHOLE, AT(target_length), false, 6, 0},
    {"torch", TEAM_TEXT, AT(torch), false, 0, 0},
    {"version", TEAM_TEXT, AT(version), false, 0, 0},
    {.name = NULL},
};
enum { ORDERS = 15 };

const struct str *team_text(const struct team_record *r, const struct team_member *m) {
    return (const struct str *)(const void *)((const char *)r + m->offset);
}

int64_t team_whole(const struct team_record *r, const struct team_member *m) {
    return *(const int64_t *)(const void *)((const char *)r + m->offset);
}

double team_real(const struct team_record *r, const struct team_member *m) {
    return *(const double *)(const void *)((const char *)r + m->offset);
}

struct team_record team_record_unknown(void) {
    struct team_record r = {0};
    for (const struct team_member *m = team_members; m->name; m++) {
        char *member = (char *)&r + m->offset;
        if (m->type == TEAM_WHOLE) *(int64_t *)(void *)member = -1;
        if (m->type == TEAM_REAL) *(double *)(void *)member = NAN;
    }
    return r;
}

int64_t team_effective(const struct team_record *r) {
    return r->batch * r->accumulation * (r->ranks > 0 ? r->ranks : 1);
}

static int compare_text(struct str a, struct str b) {
    ptrdiff_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.p, b.p, (size_t)len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_member(const struct team_record *a, const struct team_record *b,
                          const struct team_member *m) {
    if (m->type == TEAM_TEXT) return compare_text(*team_text(a, m), *team_text(b, m));
    int64_t divisor = m->divisor > 0 ? m->divisor : 1;
    int64_t x = (team_whole(a, m) + divisor / 2) / divisor;
    int64_t y = (team_whole(b, m) + divisor / 2) / divisor;
    return (x > y) - (x < y);
}

int team_compare(const struct team_record *a, const struct team_record *b) {
    int orders[ORDERS] = {0};
    for (const struct team_member *m = team_members; m->name; m++) {
        if (m->order > 0) orders[m->order - 1] = compare_member(a, b, m);
    }
    for (int i = 0; i < ORDERS; i++) {
        if (orders[i]) return orders[i];
    }
    return 0;
}
