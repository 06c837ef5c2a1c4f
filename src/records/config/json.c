// SPDX-License-Identifier: Apache-2.0
// Whether a text is JSON, without a tree: jansson's of a million keys takes more memory than all
// the rest of an edit. Says yes only where jansson would; what it does not know is jansson's to
// judge, and to explain.
#include "records/config/tree_int.h"

#include <string.h>

enum {
    LEVELS = 256,        // more than parse.c opens
    INTEGER_DIGITS = 18, // fits 64 bits
    REAL_DIGITS = 200,   // with an exponent of two digits: no overflow
    EXPONENT_DIGITS = 2,
};

struct scan {
    const char *at, *end;
};

static char peek(const struct scan *s) {
    return s->at < s->end ? *s->at : 0;
}

static void skip_blanks(struct scan *s) {
    while (s->at < s->end && strchr(" \t\n\r", *s->at)) s->at++;
}

static bool take(struct scan *s, char c) {
    const bool is_there = s->at < s->end && *s->at == c;
    s->at += is_there;
    return is_there;
}

static ptrdiff_t take_digits(struct scan *s) {
    const char *begin = s->at;
    while (str_is_digit(peek(s))) s->at++;
    return s->at - begin;
}

static bool take_number(struct scan *s) {
    take(s, '-');
    const bool zero = peek(s) == '0';
    const ptrdiff_t whole = take_digits(s);
    if (whole == 0 || (zero && whole > 1)) return false;
    bool is_real = false;
    if (take(s, '.')) {
        is_real = true;
        if (take_digits(s) == 0) return false;
    }
    if (take(s, 'e') || take(s, 'E')) {
        is_real = true;
        if (!take(s, '+')) take(s, '-');
        const ptrdiff_t digits = take_digits(s);
        if (digits == 0 || digits > EXPONENT_DIGITS) return false;
    }
    return whole <= (is_real ? REAL_DIGITS : INTEGER_DIGITS);
}

// Four digits of an escape; -1: there are none.
static int take_hex(struct scan *s) {
    int value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const int digit = str_hex(peek(s));
        if (digit > 15) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool take_escape(struct scan *s) {
    const char c = peek(s);
    if (c == 0) return false;
    s->at++;
    if (c != 'u') return strchr("\"\\/bfnrt", c) != NULL;
    const int first = take_hex(s);
    if (first <= 0) return false; // no NUL
    if (first < 0xD800 || first > 0xDFFF) return true;
    if (first > 0xDBFF || !take(s, '\\') || !take(s, 'u')) return false;
    const int second = take_hex(s);
    return second >= 0xDC00 && second <= 0xDFFF;
}

// The text is UTF-8: config_bytes_check.
static bool take_string(struct scan *s) {
    if (!take(s, '"')) return false;
    while (s->at < s->end) {
        const char c = *s->at++;
        if (c == '"') return true;
        if ((unsigned char)c < 0x20) return false;
        if (c == '\\' && !take_escape(s)) return false;
    }
    return false;
}

static bool take_scalar(struct scan *s) {
    static const struct str words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    const struct str rest = {s->at, s->end - s->at};
    for (int i = 0; i < 3; i++) {
        if (!str_starts(rest, words[i])) continue;
        s->at += words[i].len;
        return true;
    }
    return peek(s) == '"' ? take_string(s) : take_number(s);
}

static bool take_key(struct scan *s) {
    skip_blanks(s);
    if (!take_string(s)) return false;
    skip_blanks(s);
    return take(s, ':');
}

bool config_json_is_plain(struct str text) {
    struct scan s = {text.p, text.p + text.len};
    char closers[LEVELS];
    int depth = 0;
    for (bool is_value = true;;) {
        skip_blanks(&s);
        const char c = peek(&s);
        if (!is_value && depth == 0) return s.at == s.end;
        if (is_value && (c == '{' || c == '[')) {
            if (depth == LEVELS) return false;
            closers[depth++] = c == '{' ? '}' : ']';
            s.at++;
            skip_blanks(&s);
            is_value = peek(&s) != closers[depth - 1];
            if (is_value && c == '{' && !take_key(&s)) return false;
        } else if (is_value) {
            if (!take_scalar(&s)) return false;
            is_value = false;
        } else if (take(&s, ',')) {
            if (closers[depth - 1] == '}' && !take_key(&s)) return false;
            is_value = true;
        } else if (take(&s, closers[depth - 1])) {
            depth--;
        } else {
            return false;
        }
    }
}
