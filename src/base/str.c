// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct str str_of(const char *terminated) {
    return (struct str){terminated, terminated ? (ptrdiff_t)strlen(terminated) : 0};
}

char *str_z(struct arena *a, struct str s) {
    char *copy = arena_alloc(a, 1, 1, s.len + 1);
    if (s.len > 0) memcpy(copy, s.p, (size_t)s.len);
    return copy;
}

char *str_z_swapped(struct arena *a, struct str s, char from, char to) {
    char *text = str_z(a, s);
    for (char *p = text; (p = strchr(p, from)); p++) *p = to;
    return text;
}

struct str str_copy(struct arena *a, struct str s) {
    return (struct str){str_z(a, s), s.len};
}

struct str str_format_list(struct arena *a, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *text = arena_alloc(a, 1, 1, len + 1);
    vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return (struct str){text, len};
}

struct str str_format(struct arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct str text = str_format_list(a, format, args);
    va_end(args);
    return text;
}

void str_list_add(struct arena *a, struct str_list *list, struct str text) {
    *arena_push(a, &list->items, &list->count, &list->capacity) = text;
}

void str_list_format(struct arena *a, struct str_list *list, const char *format, ...) {
    va_list args;
    va_start(args, format);
    str_list_add(a, list, str_format_list(a, format, args));
    va_end(args);
}

void str_list_add_new(struct arena *a, struct str_list *list, struct str text) {
    if (!str_list_has(list, text)) str_list_add(a, list, text);
}

bool str_list_has(const struct str_list *list, struct str text) {
    ptrdiff_t i = 0;
    while (i < list->count && !str_equal(list->items[i], text)) i++;
    return i < list->count;
}

void str_word_add(struct str_words *w, struct str word) {
    *arena_push(w->arena, &w->items, &w->count, &w->capacity) = str_z(w->arena, word);
    *arena_push(w->arena, &w->items, &w->count, &w->capacity) = NULL;
    w->count--;
}

struct str_words str_words_of(struct arena *a, struct str joined, char separator) {
    struct str_words w = {.arena = a};
    while (joined.len > 0) str_word_add(&w, str_cut(&joined, separator));
    return w;
}

bool str_equal(struct str a, struct str b) {
    if (a.len != b.len || a.len <= 0) return a.len == b.len;
    assert(a.p && b.p);
    return memcmp(a.p, b.p, (size_t)a.len) == 0;
}

char str_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool str_equal_nocase(struct str a, struct str b) {
    if (a.len != b.len) return false;
    for (ptrdiff_t i = 0; i < a.len; i++) {
        if (str_lower(a.p[i]) != str_lower(b.p[i])) return false;
    }
    return true;
}

// Most words differ in the first letter.
bool str_is(struct str s, const char *terminated) {
    if (s.len > 0 && terminated && s.p[0] != terminated[0]) return false;
    return str_equal(s, str_of(terminated));
}

bool str_is_one_of(struct str s, const char *const *words) {
    while (*words && !str_is(s, *words)) words++;
    return *words;
}

bool str_is_one_of_nocase(struct str s, const char *const *words) {
    while (*words && !str_equal_nocase(s, str_of(*words))) words++;
    return *words;
}

bool str_starts_one_of(struct str s, const char *const *prefixes) {
    while (*prefixes && !str_starts(s, str_of(*prefixes))) prefixes++;
    return *prefixes;
}

bool str_has_one_of(struct str s, const char *const *needles) {
    while (*needles && str_find(s, str_of(*needles)) < 0) needles++;
    return *needles;
}

bool str_has_word(struct str words, struct str word) {
    while (words.len > 0) {
        if (str_equal(str_cut(&words, ' '), word)) return true;
    }
    return false;
}

bool str_has_name(struct str names, struct str name) {
    while (names.p)
        if (str_equal(str_cut(&names, ','), name)) return true;
    return false;
}

int str_count_names(struct str names) {
    int count = 0;
    for (; names.p; count++) (void)str_cut(&names, ',');
    return count;
}

bool str_is_digit(char c) {
    return c >= '0' && c <= '9';
}

int str_hex(char c) {
    const char low = str_lower(c);
    if (str_is_digit(c)) return c - '0';
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : 16;
}

bool str_is_alnum(char c) {
    return str_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool str_is_made_of(struct str s, const char *others) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (!str_is_alnum(s.p[i]) && (s.p[i] == 0 || !strchr(others, s.p[i]))) return false;
    }
    return s.len > 0;
}

bool str_starts(struct str s, struct str prefix) {
    return s.len >= prefix.len && str_equal(str_slice(s, 0, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix) {
    return s.len >= suffix.len && str_equal(str_slice(s, s.len - suffix.len, s.len), suffix);
}

// memmem makes tables before it looks, which a short text does not repay.
static ptrdiff_t find_short(struct str s, struct str needle) {
    const char *at = s.p, *const last = s.p + s.len - needle.len;
    while (at <= last && (at = memchr(at, needle.p[0], (size_t)(last - at) + 1))) {
        if (memcmp(at, needle.p, (size_t)needle.len) == 0) return at - s.p;
        at++;
    }
    return -1;
}

ptrdiff_t str_find(struct str s, struct str needle) {
    enum { SHORT = 64 };
    if (needle.len == 0) return 0;
    if (s.len < needle.len) return -1;
    if (s.len <= SHORT) return find_short(s, needle);
    const char *hit = memmem(s.p, (size_t)s.len, needle.p, (size_t)needle.len);
    return hit ? hit - s.p : -1;
}

struct str str_slice(struct str s, ptrdiff_t begin, ptrdiff_t end) {
    return (struct str){s.p ? s.p + begin : NULL, end - begin};
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s) {
    while (s.len > 0 && is_blank(s.p[0])) s = str_slice(s, 1, s.len);
    while (s.len > 0 && is_blank(s.p[s.len - 1])) s.len--;
    return s;
}

struct str str_cut(struct str *s, char separator) {
    const char *hit = s->len > 0 ? memchr(s->p, separator, (size_t)s->len) : NULL;
    struct str head = *s;
    if (!hit) {
        *s = (struct str){0};
        return head;
    }
    head.len = hit - s->p;
    *s = str_slice(*s, head.len + 1, s->len);
    return head;
}

struct str str_last(struct str s, char separator) {
    const char *hit = s.len > 0 ? memrchr(s.p, separator, (size_t)s.len) : NULL;
    return hit ? str_slice(s, hit + 1 - s.p, s.len) : s;
}

struct str str_before_last(struct str s, char separator) {
    const ptrdiff_t end = s.len - str_last(s, separator).len;
    return str_slice(s, 0, end > 0 ? end - 1 : 0);
}

struct str str_line(struct str *text) {
    struct str line = str_cut(text, '\n');
    if (line.len > 0 && line.p[line.len - 1] == '\r') line.len--;
    return line;
}

bool str_to_i64(struct str s, int64_t *ret) {
    bool negative = s.len > 0 && s.p[0] == '-';
    ptrdiff_t i = negative;
    if (i == s.len) return false;
    int64_t value = 0;
    for (; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, s.p[i] - '0', &value)) {
            return false;
        }
    }
    *ret = negative ? -value : value;
    return true;
}

// "12", "0.5", as nearly all are: a whole number and a power of ten, both exact in a double, so
// that their quotient is the nearest double, as strtod's (Clinger 1990, "How to read floating point
// numbers accurately").
static bool plain_decimal(struct str s, double *ret) {
    static const double tens[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    int64_t digits = 0;
    ptrdiff_t point = -1;
    if (s.len < 1 || s.len > 15 || !str_is_digit(s.p[0])) return false;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (str_is_digit(s.p[i]))
            digits = digits * 10 + (s.p[i] - '0');
        else if (s.p[i] == '.' && point < 0)
            point = i;
        else
            return false;
    }
    *ret = (double)digits / tens[point < 0 ? 0 : s.len - 1 - point];
    return true;
}

bool str_to_digits(struct str s, int base, int64_t *ret) {
    int64_t value = 0;
    bool any = false;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (s.p[i] == '_') continue;
        const int d = str_hex(s.p[i]);
        if (d >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, d, &value))
            return false;
        any = true;
    }
    if (any) *ret = value;
    return any;
}

bool str_to_double(struct str s, double *ret) {
    char text[64];
    if (plain_decimal(s, ret)) return true;
    if (s.len <= 0 || s.len >= (ptrdiff_t)sizeof text || is_blank(s.p[0])) return false;
    memcpy(text, s.p, (size_t)s.len);
    text[s.len] = 0;
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end != text + s.len || errno == ERANGE) return false;
    *ret = value;
    return true;
}

uint64_t str_hash(struct str s) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        hash = (hash ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    }
    return hash;
}
