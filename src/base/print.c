// SPDX-License-Identifier: Apache-2.0
// printf for what is shown: the format is ours and passes, the texts that it puts in are cleaned.
#include "base/out.h"

#include <stdio.h>
#include <string.h>

enum { SPEC_MOST = 32, NUMBER_MOST = 400 }; // %.0f of the greatest double has 309 digits

// `needed` goes on where `out` is full.
struct sink {
    char *out;
    ptrdiff_t size, used, needed;
};

// A whole character, or nothing of it.
static void put(struct sink *s, struct str piece) {
    bool has_room = s->out && s->used == s->needed && s->used + piece.len < s->size;
    s->needed += piece.len;
    if (!has_room) return;
    memcpy(s->out + s->used, piece.p, (size_t)piece.len);
    s->used += piece.len;
}

static void put_blanks(struct sink *s, ptrdiff_t count) {
    while (count-- > 0) put(s, STR(" "));
}

static void put_clean(struct sink *s, struct str text) {
    char form[CLEAN_FORM_MOST];
    while (text.len > 0) put(s, clean_take(&text, form));
}

static void put_foreign(struct sink *s, struct str text, ptrdiff_t width, bool is_left) {
    struct sink length = {0};
    put_clean(&length, text);
    if (!is_left) put_blanks(s, width - length.needed);
    put_clean(s, text);
    if (is_left) put_blanks(s, width - length.needed);
}

// One conversion: "%-*.3lld".
struct spec {
    char text[SPEC_MOST]; // with the numbers of its stars
    int length;
    ptrdiff_t width, precision; // -1: none
    bool is_left;
    char size; // 0, 'h', 'l', 'q' (ll), 'z', 't', 'j'
    char kind;
};

static void spec_add(struct spec *c, char byte) {
    if (c->length + 1 < SPEC_MOST) c->text[c->length++] = byte;
    c->text[c->length] = 0;
}

static ptrdiff_t read_number(struct spec *c, const char **at, va_list *args) {
    char digits[SPEC_MOST];
    int value = 0;
    if (**at == '*') {
        (*at)++;
        value = va_arg(*args, int);
    } else {
        while (str_is_digit(**at)) value = value * 10 + *(*at)++ - '0';
    }
    snprintf(digits, sizeof digits, "%d", value);
    for (const char *d = digits; *d; d++) spec_add(c, *d);
    return value;
}

static const char *read_spec(struct spec *c, const char *at, va_list *args) {
    *c = (struct spec){.width = -1, .precision = -1};
    spec_add(c, '%');
    for (; *at && strchr("-+ #0", *at); at++) {
        c->is_left = c->is_left || *at == '-';
        spec_add(c, *at);
    }
    if (*at == '*' || str_is_digit(*at)) c->width = read_number(c, &at, args);
    if (*at == '.') {
        spec_add(c, *at++);
        c->precision = read_number(c, &at, args);
    }
    for (; *at && strchr("hlztjL", *at); at++) {
        c->size = c->size == 'l' && *at == 'l' ? 'q' : *at;
        spec_add(c, *at);
    }
    c->kind = *at;
    spec_add(c, *at);
    return *at ? at + 1 : at;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" // the conversion was taken from a checked one
static void put_number(struct sink *s, const struct spec *c, va_list *args) {
    char text[NUMBER_MOST];
    int n = 0;
    if (strchr("aAeEfFgG", c->kind))
        n = snprintf(text, sizeof text, c->text, va_arg(*args, double));
    else if (c->kind == 'p')
        n = snprintf(text, sizeof text, c->text, va_arg(*args, void *));
    else if (c->size == 'q' || c->size == 'j')
        n = snprintf(text, sizeof text, c->text, va_arg(*args, long long));
    else if (c->size == 'l' || c->size == 'z' || c->size == 't')
        n = snprintf(text, sizeof text, c->text, va_arg(*args, long));
    else
        n = snprintf(text, sizeof text, c->text, va_arg(*args, int));
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    put(s, (struct str){text, n > 0 ? n : 0});
}
#pragma GCC diagnostic pop

static void put_argument(struct sink *s, const struct spec *c, va_list *args) {
    if (c->kind == 's') {
        const char *text = va_arg(*args, const char *);
        if (!text) text = "";
        ptrdiff_t len =
            (ptrdiff_t)(c->precision >= 0 ? strnlen(text, (size_t)c->precision) : strlen(text));
        struct str whole = {text, len};
        put_foreign(s, whole, c->width, c->is_left);
    } else if (c->kind == 'c') {
        char byte = (char)va_arg(*args, int);
        put_foreign(s, (struct str){&byte, 1}, c->width, c->is_left);
    } else {
        put_number(s, c, args);
    }
}

ptrdiff_t clean_print(char *out, ptrdiff_t size, const char *format, va_list list) {
    struct sink s = {.out = out, .size = size};
    struct spec c;
    va_list args;
    va_copy(args, list);
    for (const char *at = format; *at;) {
        struct str rest = {at, (ptrdiff_t)strcspn(at, "%")};
        at += rest.len;
        while (rest.len > 0) {
            struct str from = rest;
            (void)clean_next(&rest);
            put(&s, str_slice(from, 0, from.len - rest.len));
        }
        if (!*at) break;
        at = read_spec(&c, at + 1, &args);
        if (c.kind == '%')
            put(&s, STR("%"));
        else
            put_argument(&s, &c, &args);
    }
    va_end(args);
    if (size > 0) out[s.used] = 0;
    return s.needed;
}

struct str clean_format_list(struct arena *a, const char *format, va_list args) {
    ptrdiff_t len = clean_print(NULL, 0, format, args);
    char *text = arena_alloc(a, 1, 1, len + 1);
    clean_print(text, len + 1, format, args);
    return (struct str){text, len};
}
