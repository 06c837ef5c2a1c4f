// SPDX-License-Identifier: Apache-2.0
// TOML's scalars: texts with their escapes, numbers, booleans, dates.
#include "records/datum/datum_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int datum_toml_fail(struct toml *t, ptrdiff_t at, const char *format, ...) {
    char message[300];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return datum_source_fail(t->source, at, t->why, "not TOML: %s", message);
}

char datum_toml_peek(const struct toml *t) {
    return t->at < t->text.len ? t->text.p[t->at] : 0;
}

bool datum_toml_has(const struct toml *t, struct str what) {
    return str_starts(str_slice(t->text, t->at, t->text.len), what);
}

void datum_toml_blanks(struct toml *t) {
    while (datum_toml_peek(t) == ' ' || datum_toml_peek(t) == '\t') t->at++;
}

bool datum_toml_line_end(struct toml *t) {
    if (datum_toml_has(t, STR("\r\n"))) t->at++;
    if (datum_toml_peek(t) != '\n') return false;
    t->line_begin = ++t->at;
    t->line++;
    return true;
}

// --- Strings -------------------------------------------------------------------------------------

bool datum_text_hex(struct str digits, uint32_t *ret) {
    *ret = 0;
    for (ptrdiff_t i = 0; i < digits.len; i++) {
        const int d = str_hex(digits.p[i]);
        if (d > 15) return false;
        *ret = *ret * 16 + (uint32_t)d;
    }
    return true;
}

static int escape_unicode(struct toml *t, struct buf *b, int digits) {
    uint32_t c;
    const struct str hex = str_slice(t->text, t->at, t->at + digits);
    if (t->at + digits > t->text.len || !datum_text_hex(hex, &c) || c > 0x10FFFF ||
        (c >= 0xD800 && c < 0xE000))
        return datum_toml_fail(t, t->at, "\\%c and %d hexadecimal digits of a character expected",
                               digits == 4 ? 'u' : 'U', digits);
    buf_utf8(b, c);
    t->at += digits;
    return 0;
}

// Behind a backslash.
static int escape(struct toml *t, struct buf *b, bool is_long) {
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    const char c = datum_toml_peek(t);
    const char *known = c ? strchr(from, c) : NULL;
    const ptrdiff_t begin = t->at;
    if (known) {
        buf_byte(b, to[known - from]);
        t->at++;
        return 0;
    }
    if (c == 'u' || c == 'U') {
        t->at++;
        return escape_unicode(t, b, c == 'u' ? 4 : 8);
    }
    if (is_long) { // at a line's end it takes all blanks with it
        datum_toml_blanks(t);
        if (datum_toml_line_end(t)) {
            do {
                datum_toml_blanks(t);
            } while (datum_toml_line_end(t));
            return 0;
        }
    }
    return datum_toml_fail(t, begin, "an escape that TOML does not have");
}

// Behind the quotes that begin a text of several lines.
static int long_string(struct toml *t, char quote, struct buf *b) {
    const struct str end = quote == '"' ? STR("\"\"\"") : STR("'''");
    const ptrdiff_t begin = t->at;
    datum_toml_line_end(t);
    while (t->at < t->text.len) {
        if (datum_toml_has(t, end)) {
            t->at += 3;
            // Up to two more quotes belong to the text.
            for (int i = 0; i < 2 && datum_toml_peek(t) == quote; i++) {
                buf_byte(b, quote);
                t->at++;
            }
            return 0;
        }
        if (datum_toml_peek(t) == '\\' && quote == '"') {
            t->at++;
            int status = escape(t, b, true);
            if (status) return status;
        } else if (datum_toml_line_end(t)) {
            buf_byte(b, '\n');
        } else if (datum_toml_peek(t) == '\r') {
            return datum_toml_fail(t, t->at, "a carriage return in a text");
        } else {
            buf_byte(b, t->text.p[t->at++]);
        }
    }
    return datum_toml_fail(t, begin, "a string that never ends");
}

static int short_string(struct toml *t, char quote, struct buf *b) {
    const ptrdiff_t begin = t->at;
    while (t->at < t->text.len && datum_toml_peek(t) != '\n' && datum_toml_peek(t) != '\r') {
        const char c = t->text.p[t->at++];
        if (c == quote) return 0;
        if (c != '\\' || quote == '\'') {
            buf_byte(b, c);
            continue;
        }
        int status = escape(t, b, false);
        if (status) return status;
    }
    return datum_toml_fail(t, begin, "a string that does not end on its line");
}

int datum_toml_string(struct toml *t, bool may_be_long, struct str *ret) {
    struct buf b = buf_new(t->data.arena);
    const char quote = datum_toml_peek(t);
    const bool is_long =
        may_be_long && datum_toml_has(t, quote == '"' ? STR("\"\"\"") : STR("'''"));
    t->at += is_long ? 3 : 1;
    int status = is_long ? long_string(t, quote, &b) : short_string(t, quote, &b);
    *ret = b.count ? buf_str(&b) : STR("");
    return status;
}

// --- Scalars -------------------------------------------------------------------------------------

static bool digits_at(struct str s, ptrdiff_t at, int count) {
    for (int i = 0; i < count; i++) {
        if (at + i >= s.len || !str_is_digit(s.p[at + i])) return false;
    }
    return true;
}

static int two(struct str s, ptrdiff_t at) {
    return (s.p[at] - '0') * 10 + s.p[at + 1] - '0';
}

// "12:30:00.5": how long it is; 0: it is none.
static ptrdiff_t time_length(struct str s) {
    if (!digits_at(s, 0, 2) || s.len < 8 || s.p[2] != ':' || !digits_at(s, 3, 2) || s.p[5] != ':' ||
        !digits_at(s, 6, 2))
        return 0;
    if (two(s, 0) > 23 || two(s, 3) > 59 || two(s, 6) > 59) return 0;
    if (s.len < 9 || s.p[8] != '.') return 8;
    ptrdiff_t end = 9;
    while (end < s.len && str_is_digit(s.p[end])) end++;
    return end > 9 ? end : 0;
}

static bool is_offset(struct str s) {
    if (s.len == 0 || str_is(s, "Z") || str_is(s, "z")) return true;
    return s.len == 6 && strchr("+-", s.p[0]) && digits_at(s, 1, 2) && s.p[3] == ':' &&
           digits_at(s, 4, 2) && two(s, 1) < 24 && two(s, 4) < 60;
}

static bool is_day(struct str s) {
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (!digits_at(s, 0, 4) || s.len < 10 || s.p[4] != '-' || !digits_at(s, 5, 2) ||
        s.p[7] != '-' || !digits_at(s, 8, 2))
        return false;
    const int year = two(s, 0) * 100 + two(s, 2), month = two(s, 5), day = two(s, 8);
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days[month - 1]) return false;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month != 2 || day < 29 || leap;
}

static bool is_date(struct str s) {
    const ptrdiff_t length = time_length(s);
    if (length > 0) return length == s.len;
    if (!is_day(s)) return false;
    if (s.len == 10) return true;
    if (!strchr("Tt ", s.p[10])) return false;
    s = str_slice(s, 11, s.len);
    const ptrdiff_t clock = time_length(s);
    return clock > 0 && is_offset(str_slice(s, clock, s.len));
}

// Underscores stand between two digits; the text without them.
static bool plain_digits(struct arena *a, struct str s, struct str *ret) {
    const bool is_hex = str_starts(s, STR("0x"));
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (s.p[i] != '_') {
            buf_byte(&b, s.p[i]);
            continue;
        }
        const int most = is_hex ? 15 : 9;
        if (i == 0 || i + 1 == s.len || str_hex(s.p[i - 1]) > most || str_hex(s.p[i + 1]) > most)
            return false;
    }
    *ret = buf_str(&b);
    return s.len > 0;
}

// 0x1F, 0o17, 0b11, 12. Larger ones than fit are still numbers.
static bool integer(struct str s, int64_t *ret, bool *ret_too_large) {
    int base = 10;
    bool negative = false;
    *ret_too_large = false;
    if (s.len > 2 && s.p[0] == '0' && strchr("xob", s.p[1])) {
        base = s.p[1] == 'x' ? 16 : s.p[1] == 'o' ? 8 : 2;
        s = str_slice(s, 2, s.len);
    } else {
        negative = s.len > 0 && s.p[0] == '-';
        if (s.len > 0 && strchr("+-", s.p[0])) s = str_slice(s, 1, s.len);
        if (s.len > 1 && s.p[0] == '0') return false;
    }
    *ret = 0;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        const int d = str_hex(s.p[i]);
        if (d >= base) return false;
        *ret_too_large = *ret_too_large || __builtin_mul_overflow(*ret, base, ret) ||
                         __builtin_sub_overflow(*ret, d, ret);
    }
    if (!negative) *ret_too_large = *ret_too_large || __builtin_mul_overflow(*ret, -1, ret);
    return s.len > 0;
}

static bool skip_digits(struct str s, ptrdiff_t *at) {
    const ptrdiff_t begin = *at;
    while (*at < s.len && str_is_digit(s.p[*at])) ++*at;
    return *at > begin;
}

static bool is_float(struct str s) {
    ptrdiff_t at = s.len > 0 && strchr("+-", s.p[0]) ? 1 : 0, first = at;
    if (!skip_digits(s, &at) || (at - first > 1 && s.p[first] == '0')) return false;
    const ptrdiff_t whole = at;
    if (at < s.len && s.p[at] == '.') {
        at++;
        if (!skip_digits(s, &at)) return false;
    }
    if (at < s.len && (s.p[at] | 32) == 'e') {
        at++;
        if (at < s.len && strchr("+-", s.p[at])) at++;
        if (!skip_digits(s, &at)) return false;
    }
    return at == s.len && at > whole;
}

static bool is_endless(struct str s) {
    if (s.len > 0 && strchr("+-", s.p[0])) s = str_slice(s, 1, s.len);
    return str_is(s, "inf") || str_is(s, "nan");
}

static bool number(struct toml *t, struct str word, struct datum *v) {
    struct str s;
    bool too_large;
    if (is_endless(word)) {
        v->kind = DATUM_UNKNOWN;
        v->text = word;
        return true;
    }
    if (!plain_digits(t->data.arena, word, &s)) return false;
    if (integer(s, &v->integer, &too_large)) {
        v->kind = too_large ? DATUM_UNKNOWN : DATUM_INT;
        if (too_large) v->text = word;
        return true;
    }
    if (!is_float(s)) return false;
    if (s.p[0] == '+') s = str_slice(s, 1, s.len);
    v->kind = DATUM_FLOAT;
    if (str_to_double(s, &v->number)) return true;
    v->kind = DATUM_UNKNOWN; // 1e999
    v->text = word;
    return true;
}

int datum_toml_word(struct toml *t, struct datum *v) {
    const ptrdiff_t begin = t->at;
    while (t->at < t->text.len &&
           (str_is_alnum(datum_toml_peek(t)) || strchr("_+-.:", datum_toml_peek(t))))
        t->at++;
    // A blank may stand between a day and its time.
    if (t->at - begin == 10 && datum_toml_peek(t) == ' ' &&
        is_day(str_slice(t->text, begin, t->at)) && digits_at(t->text, t->at + 1, 2)) {
        t->at++;
        while (t->at < t->text.len &&
               (str_is_alnum(datum_toml_peek(t)) || strchr("_+-.:", datum_toml_peek(t))))
            t->at++;
    }
    const struct str s = str_slice(t->text, begin, t->at);
    if (str_is(s, "true") || str_is(s, "false")) {
        v->kind = DATUM_BOOL;
        v->boolean = s.p[0] == 't';
        return 0;
    }
    if (is_date(s)) {
        v->kind = DATUM_TEXT;
        v->text = s;
        return 0;
    }
    if (number(t, s, v)) return 0;
    return datum_toml_fail(t, begin,
                           s.len ? "'%.*s' is not a value (a string needs quotes)"
                                 : "a value is missing%.*s",
                           s.len < 40 ? (int)s.len : 40, s.p);
}
