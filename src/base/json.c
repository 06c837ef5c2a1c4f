// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Ten digits: 0.15 is printed as it was typed.
enum { FORMAT = JSON_INDENT(2) | JSON_REAL_PRECISION(10) };

// What a training printed may be no UTF-8, and a document must be: its odd bytes become '?'.
static json_t *mended_text(struct str s) {
    ARENA_AUTO scratch = {0};
    struct buf b = buf_new(&scratch);
    while (s.len > 0) {
        struct str at = s;
        bool is_broken = clean_next(&s) == CLEAN_BROKEN && at.len - s.len == 1;
        buf_add(&b, is_broken ? STR("?") : str_slice(at, 0, at.len - s.len));
    }
    return json_stringn(b.items, (size_t)b.count);
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

json_t *json_texts(const struct str_list *texts) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < texts->count; i++) {
        json_array_append_new(list, json_text(texts->items[i]));
    }
    return list;
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

// Outside ASCII only strings have anything: what a terminal would obey or nobody sees is escaped,
// as jansson does with C0.
static struct str escaped(struct arena *a, struct str text) {
    struct buf b = buf_new(a);
    struct str plain = {text.p, 0};
    while (text.len > 0) {
        struct str at = text;
        uint32_t c = clean_next(&text);
        if (c < 0x7f || !clean_is_hidden(c)) {
            plain.len += at.len - text.len;
            continue;
        }
        buf_add(&b, plain);
        if (c >= 0x10000) {
            buf_format(&b, "\\u%04x", 0xd7c0 + (c >> 10));
            c = 0xdc00 | (c & 0x3ff);
        }
        buf_format(&b, "\\u%04x", c);
        plain = (struct str){text.p, 0};
    }
    if (b.count == 0) return plain;
    buf_add(&b, plain);
    return buf_str(&b);
}

struct str json_bytes(struct arena *a, const json_t *document, size_t flags) {
    char *text = document ? json_dumps(document, flags) : NULL;
    if (!text) return (struct str){0};
    struct str copy = str_copy(a, escaped(a, str_of(text)));
    free(text);
    return copy;
}

struct str json_take(struct arena *a, json_t *document, size_t flags) {
    struct str text = json_bytes(a, document, flags);
    json_decref(document);
    return text;
}

int json_print(json_t *document, struct fail *why) {
    ARENA_AUTO scratch = {0};
    struct str text = json_take(&scratch, document, FORMAT);
    out_data(stdout, text);
    out_say(stdout, "\n");
    // A stdout that cannot be written is said by main.
    return text.len == 0 ? fail_set(why, FAIL_BUG, "the answer is not valid JSON") : 0;
}

struct str json_document(struct arena *a, json_t *document) {
    struct str text = json_take(a, document, FORMAT);
    return str_format(a, "%.*s\n", STR_ARG(text));
}
