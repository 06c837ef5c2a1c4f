// SPDX-License-Identifier: Apache-2.0
#include "base/field.h"

#include <math.h>

static const void *at(const void *record, const struct field *f) {
    return (const char *)record + f->offset;
}

static void *place(void *record, const struct field *f) {
    return (char *)record + f->offset;
}

enum field_type field_outside(const struct field *f) {
    static const enum field_type outside[] = {
        [FIELD_TEXT] = FIELD_TEXT,   [FIELD_WHOLE] = FIELD_WHOLE, [FIELD_REAL] = FIELD_REAL,
        [FIELD_COUNT] = FIELD_WHOLE, [FIELD_INT] = FIELD_WHOLE,   [FIELD_SWITCH] = FIELD_WHOLE,
        [FIELD_WORD] = FIELD_TEXT,
    };
    return outside[f->type];
}

struct str field_text(const void *record, const struct field *f) {
    if (f->type == FIELD_TEXT) return *(const struct str *)at(record, f);
    unsigned word = *(const unsigned *)at(record, f);
    return word > 0 ? str_of(f->words[word - 1]) : (struct str){0};
}

int64_t field_whole(const void *record, const struct field *f) {
    if (f->type == FIELD_SWITCH) return *(const bool *)at(record, f);
    if (f->type == FIELD_INT) return *(const int *)at(record, f);
    int64_t whole = *(const int64_t *)at(record, f);
    return f->type == FIELD_COUNT && whole <= 0 ? -1 : whole;
}

double field_real(const void *record, const struct field *f) {
    return *(const double *)at(record, f);
}

double field_number(const void *record, const struct field *f) {
    if (f->type == FIELD_REAL) return field_real(record, f);
    int64_t whole = field_whole(record, f);
    return whole < 0 ? (double)NAN : (double)whole;
}

void field_set_text(void *record, const struct field *f, struct str text) {
    if (f->type == FIELD_TEXT) {
        *(struct str *)place(record, f) = text;
        return;
    }
    unsigned word = 0;
    while (f->words[word] && !str_is(text, f->words[word])) word++;
    *(unsigned *)place(record, f) = f->words[word] ? word + 1 : 0;
}

void field_set_whole(void *record, const struct field *f, int64_t whole) {
    if (f->type == FIELD_SWITCH)
        *(bool *)place(record, f) = whole > 0;
    else if (f->type == FIELD_INT)
        *(int *)place(record, f) = (int)whole;
    else
        *(int64_t *)place(record, f) = f->type == FIELD_COUNT && whole < 0 ? 0 : whole;
}

void field_set_real(void *record, const struct field *f, double real) {
    *(double *)place(record, f) = real;
}

void field_forget(void *record, const struct field *f) {
    enum field_type outside = field_outside(f);
    if (outside == FIELD_TEXT) field_set_text(record, f, (struct str){0});
    if (outside == FIELD_WHOLE) field_set_whole(record, f, -1);
    if (outside == FIELD_REAL) field_set_real(record, f, (double)NAN);
}
