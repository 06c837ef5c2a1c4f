// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>

// Ten digits: 0.15 is printed as it was typed.
enum { FORMAT = JSON_INDENT(2) | JSON_REAL_PRECISION(10) };

// What a training printed may be no UTF-8, and a document must be: its odd bytes become '?'.
static json_t *mended_text(struct str s) {
    ARENA_AUTO scratch = {0};
    char *copy = str_z(&scratch, s);
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (copy[i] & 0x80) copy[i] = '?';
    }
    return json_stringn(copy, (size_t)s.len);
}

json_t *json_text(struct str s) {
    if (s.len <= 0) return json_null();
    json_t *text = json_stringn(s.p, (size_t)s.len);
    return text ? text : mended_text(s);
}

json_t *json_size(int64_t value) {
    return value > 0 ? json_integer(value) : json_null();
}

json_t *json_count(int64_t value) {
    return value >= 0 ? json_integer(value) : json_null();
}

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_field(const void *record, const struct field *f) {
    if (f->type == FIELD_SWITCH) return json_boolean(field_whole(record, f));
    enum field_type outside = field_outside(f);
    return outside == FIELD_TEXT   ? json_text(field_text(record, f))
           : outside == FIELD_REAL ? json_number(field_real(record, f))
                                   : json_count(field_whole(record, f));
}

void json_add_fields(json_t *to, const void *record, const struct field *rows) {
    for (; rows->name; rows++) json_object_set_new(to, rows->name, json_field(record, rows));
}

json_t *json_fields(const void *record, const struct field *rows) {
    json_t *made = json_object();
    json_add_fields(made, record, rows);
    return made;
}

struct str json_text_at(struct arena *a, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return str_copy(a,
                    (struct str){json_string_value(value), (ptrdiff_t)json_string_length(value)});
}

double json_number_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

void json_read_fields(struct arena *a, const json_t *from, void *record, const struct field *rows) {
    for (; rows->name; rows++) {
        const json_t *value = json_object_get(from, rows->name);
        enum field_type outside = field_outside(rows);
        if (outside == FIELD_TEXT)
            field_set_text(record, rows, json_text_at(a, from, rows->name));
        else if (outside == FIELD_REAL)
            field_set_real(record, rows, json_number_at(from, rows->name));
        else if (json_is_integer(value))
            field_set_whole(record, rows, json_integer_value(value));
        else
            field_set_whole(record, rows, json_is_true(value) ? 1 : -1);
    }
}

int json_print(json_t *document, struct fail *why) {
    int rc = document ? json_dumpf(document, stdout, FORMAT) : -1;
    putchar('\n');
    bool is_built = document != NULL;
    json_decref(document);
    // A stdout that cannot be written is said by main.
    return rc < 0 && !is_built ? fail_set(why, FAIL_BUG, "the answer is not valid JSON") : 0;
}

struct str json_document(struct arena *a, json_t *document) {
    char *text = json_dumps(document, FORMAT);
    struct str copy = str_format(a, "%s\n", text ? text : "");
    free(text);
    json_decref(document);
    return copy;
}
