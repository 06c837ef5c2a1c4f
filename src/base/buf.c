// SPDX-License-Identifier: Apache-2.0
// Text that is being built, as it is or clean (out.h).
#include "base/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct buf buf_new(struct arena *a) {
    return (struct buf){.arena = a};
}

struct buf buf_shown(struct arena *a) {
    return (struct buf){.arena = a, .is_shown = true};
}

static char *buf_reserve(struct buf *b, ptrdiff_t more) {
    if (b->capacity - b->count < more) {
        ptrdiff_t bigger = b->capacity * 2 > b->count + more ? b->capacity * 2 : b->count + more;
        char *copy = arena_alloc(b->arena, 1, 1, bigger);
        if (b->count > 0) memcpy(copy, b->items, (size_t)b->count);
        b->items = copy;
        b->capacity = bigger;
    }
    return b->items + b->count;
}

void buf_expect(struct buf *b, ptrdiff_t bytes) {
    buf_reserve(b, bytes);
}

void buf_add_raw(struct buf *b, struct str s) {
    if (s.len <= 0) return;
    memcpy(buf_reserve(b, s.len), s.p, (size_t)s.len);
    b->count += s.len;
}

static void add(struct buf *b, struct str text, const char *kept) {
    struct str clean = {text.p, 0};
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) {
        ptrdiff_t plain = clean_plain(text);
        clean.len += plain;
        text = str_slice(text, plain, text.len);
        if (text.len == 0) break;
        bool is_kept = *text.p && strchr(kept, *text.p);
        struct str at = text, shown = is_kept ? str_slice(text, 0, 1) : clean_take(&text, form);
        if (is_kept) text = str_slice(text, 1, text.len);
        if (shown.p == at.p) {
            clean.len += shown.len;
            continue;
        }
        buf_add_raw(b, clean);
        buf_add_raw(b, shown);
        clean = (struct str){text.p, 0};
    }
    buf_add_raw(b, clean);
}

void clean_add_lines(struct buf *b, struct str text) {
    add(b, text, "\n\t");
}

struct str clean_text(struct arena *a, struct str text) {
    struct buf b = buf_new(a);
    add(&b, text, "");
    return buf_str(&b);
}

void clean_csv(struct buf *b, struct str text) {
    double number;
    text = clean_text(b->arena, text);
    bool is_plain = true;
    bool computes = text.len > 0 && strchr("=+-@", text.p[0]) && !str_to_double(text, &number);
    for (ptrdiff_t i = 0; i < text.len; i++) is_plain = is_plain && !strchr(",\"", text.p[i]);
    is_plain = is_plain && !computes;
    if (!is_plain) buf_byte(b, '"');
    if (computes) buf_byte(b, '\'');
    for (ptrdiff_t i = 0; i < text.len; i++) {
        if (text.p[i] == '"') buf_byte(b, '"');
        buf_byte(b, text.p[i]);
    }
    if (!is_plain) buf_byte(b, '"');
}

struct str clean_short(struct arena *a, struct str text, ptrdiff_t max) {
    struct buf b = buf_new(a);
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) {
        char first = *text.p;
        struct str shown = clean_take(&text, form);
        if (shown.p == form)
            shown = first == '\n' ? STR("\n") : first == '\t' ? STR(" ") : STR("?");
        if (b.count + shown.len > max) break;
        buf_add(&b, shown);
    }
    return buf_str(&b);
}

void buf_add(struct buf *b, struct str s) {
    if (b->is_shown)
        clean_add_lines(b, s);
    else
        buf_add_raw(b, s);
}

void buf_join(struct buf *b, const char *between, struct str s) {
    buf_format(b, "%s%.*s", b->count > 0 ? between : "", STR_ARG(s));
}

void buf_byte(struct buf *b, char c) {
    *buf_reserve(b, 1) = c;
    b->count++;
}

void buf_utf8(struct buf *b, uint32_t c) {
    static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    buf_byte(b, (char)(heads[more] | c >> (6 * more)));
    while (more-- > 0) buf_byte(b, (char)(0x80 | (c >> (6 * more) & 0x3f)));
}

static ptrdiff_t print(bool cleans, char *out, ptrdiff_t size, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
static ptrdiff_t print(bool cleans, char *out, ptrdiff_t size, const char *format, va_list args) {
    if (cleans) return clean_print(out, size, format, args);
    return vsnprintf(out, (size_t)size, format, args);
}

void buf_format(struct buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    ptrdiff_t len = print(b->is_shown, NULL, 0, format, args);
    char *end = buf_reserve(b, len + 1);
    print(b->is_shown, end, len + 1, format, again);
    b->count += len;
    va_end(again);
    va_end(args);
}

struct str buf_str(const struct buf *b) {
    return (struct str){b->items, b->count};
}

char *buf_z(struct buf *b) {
    *buf_reserve(b, 1) = 0;
    return b->items;
}

struct str str_list_text(struct arena *a, const struct str_list *list) {
    struct buf text = buf_new(a);
    for (ptrdiff_t i = 0; i < list->count; i++) buf_join(&text, ", ", list->items[i]);
    return buf_str(&text);
}
