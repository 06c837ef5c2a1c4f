// SPDX-License-Identifier: Apache-2.0
// Python's tokens, as far as a config needs them.
#include "records/datum/python_int.h"

#include <string.h>

struct lexer datum_lexer_open(struct str text) {
    struct lexer x = {.text = text, .line = 1};
    if (str_starts(text, STR("\xEF\xBB\xBF"))) x.at = x.line_begin = 3;
    datum_lexer_next(&x);
    while (x.token.kind == TOKEN_LINE) datum_lexer_next(&x);
    return x;
}

static char at(const struct lexer *x, ptrdiff_t ahead) {
    return x->at + ahead < x->text.len ? x->text.p[x->at + ahead] : 0;
}

static ptrdiff_t line_end_length(const struct lexer *x, ptrdiff_t ahead) {
    if (at(x, ahead) == '\r') return at(x, ahead + 1) == '\n' ? 2 : 1;
    return at(x, ahead) == '\n';
}

static void new_line(struct lexer *x, ptrdiff_t length) {
    x->at += length;
    x->line_begin = x->at;
    x->line++;
}

// Blanks, comments, continued lines; in brackets line ends, too.
static void skip_gap(struct lexer *x) {
    for (;;) {
        const char c = at(x, 0);
        const ptrdiff_t end = line_end_length(x, 0);
        if (c == ' ' || c == '\t' || c == '\f') {
            x->at++;
        } else if (c == '#') {
            while (x->at < x->text.len && !line_end_length(x, 0)) x->at++;
        } else if (c == '\\' && line_end_length(x, 1)) {
            new_line(x, 1 + line_end_length(x, 1));
        } else if (end && x->depth > 0) {
            new_line(x, end);
        } else {
            return;
        }
    }
}

static bool is_name(char c) {
    return str_is_alnum(c) || c == '_' || (unsigned char)c >= 0x80;
}

static void fault(struct lexer *x, const char *what, ptrdiff_t where) {
    x->fault = what;
    x->fault_at = where;
    x->at = x->text.len;
    x->token.kind = TOKEN_END;
    x->token.text = (struct str){0};
}

// At the first quote. False: it never ends.
static bool pass_string(struct lexer *x) {
    const char quote = at(x, 0);
    const bool is_long = at(x, 1) == quote && at(x, 2) == quote;
    x->at += is_long ? 3 : 1;
    while (x->at < x->text.len) {
        const char c = at(x, 0);
        const ptrdiff_t end = line_end_length(x, 0);
        if (c == '\\') {
            x->at++;
            if (line_end_length(x, 0))
                new_line(x, line_end_length(x, 0));
            else
                x->at++;
        } else if (c == quote && (!is_long || (at(x, 1) == quote && at(x, 2) == quote))) {
            x->at += is_long ? 3 : 1;
            return true;
        } else if (end) {
            if (!is_long) return false;
            new_line(x, end);
        } else {
            x->at++;
        }
    }
    return false;
}

// The letters before a quote: r, b, u, f and two of them.
static ptrdiff_t prefix_length(const struct lexer *x) {
    ptrdiff_t n = 0;
    while (n < 3 && at(x, n) && strchr("rRbBuUfF", at(x, n))) n++;
    return n < 3 && (at(x, n) == '"' || at(x, n) == '\'') ? n : -1;
}

static void pass_number(struct lexer *x) {
    const bool is_hex = at(x, 0) == '0' && (at(x, 1) | 32) == 'x';
    while (str_is_alnum(at(x, 0)) || at(x, 0) == '_' || at(x, 0) == '.') {
        const bool exponent = (at(x, 0) | 32) == 'e' && !is_hex;
        x->at++;
        if (exponent && (at(x, 0) == '+' || at(x, 0) == '-')) x->at++;
    }
}

static void pass_sign(struct lexer *x) {
    static const char *const signs[] = {
        "**=", "//=", ">>=", "<<=", "**", "//", "==", "!=", "<=", ">=", "->", "+=",
        "-=",  "*=",  "/=",  "%=",  "@=", "&=", "|=", "^=", ":=", "<<", ">>", NULL};
    const struct str rest = str_slice(x->text, x->at, x->text.len);
    const char c = at(x, 0), second = at(x, 1);
    const bool is_long = second && strchr("=*/<>", second); // most are of one letter
    for (int i = 0; is_long && signs[i]; i++) {
        if (!str_starts(rest, str_of(signs[i]))) continue;
        x->at += (ptrdiff_t)strlen(signs[i]);
        return;
    }
    if (strchr("([{", c)) x->depth++;
    if (strchr(")]}", c) && x->depth > 0) x->depth--;
    x->at++;
}

static enum token_kind pass_token(struct lexer *x) {
    const char c = at(x, 0);
    const ptrdiff_t prefix = prefix_length(x);
    if (prefix >= 0) {
        x->at += prefix;
        return pass_string(x) ? TOKEN_STRING : TOKEN_END;
    }
    if (str_is_digit(c) || (c == '.' && str_is_digit(at(x, 1)))) {
        pass_number(x);
        return TOKEN_NUMBER;
    }
    if (is_name(c)) {
        while (is_name(at(x, 0))) x->at++;
        return TOKEN_NAME;
    }
    pass_sign(x);
    return TOKEN_SIGN;
}

void datum_lexer_next(struct lexer *x) {
    x->end = x->at;
    if (x->fault) return;
    skip_gap(x);
    const ptrdiff_t begin = x->at, end = line_end_length(x, 0);
    x->token = (struct token){.line = x->line, .column = (int)(begin - x->line_begin) + 1};
    x->token.text = str_slice(x->text, begin, x->text.len);
    if (x->at >= x->text.len) {
        x->token.text.len = 0;
        if (x->depth > 0) fault(x, "a bracket is never closed", begin);
        return;
    }
    if (end) {
        new_line(x, end);
        x->token.kind = TOKEN_LINE;
        x->token.text.len = 0;
        return;
    }
    x->token.kind = pass_token(x);
    x->token.text.len = x->at - begin;
    if (x->token.kind == TOKEN_END) fault(x, "a string is never closed", begin);
}

bool datum_lexer_is(const struct lexer *x, const char *sign_or_name) {
    return (x->token.kind == TOKEN_SIGN || x->token.kind == TOKEN_NAME) &&
           str_is(x->token.text, sign_or_name);
}

// --- Texts ---------------------------------------------------------------------------------------

static ptrdiff_t octal(struct str s, ptrdiff_t i, struct buf *b) {
    uint32_t c = 0;
    const ptrdiff_t begin = i;
    while (i < s.len && i < begin + 3 && s.p[i] >= '0' && s.p[i] < '8')
        c = c * 8 + (uint32_t)(s.p[i++] - '0');
    buf_utf8(b, c);
    return i;
}

// Behind the backslash; returns what follows the escape.
static ptrdiff_t escape(struct str s, ptrdiff_t i, struct buf *b) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = i < s.len ? s.p[i] : 0;
    const char *known = c ? strchr(from, c) : NULL;
    uint32_t code;
    if (c == '\r') return i + 1 < s.len && s.p[i + 1] == '\n' ? i + 2 : i + 1;
    if (c == '\n') return i + 1;
    if (known) {
        buf_byte(b, to[known - from]);
        return i + 1;
    }
    if (c >= '0' && c < '8') return octal(s, i, b);
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits && i + 1 + digits <= s.len &&
        datum_text_hex(str_slice(s, i + 1, i + 1 + digits), &code) && code < 0x110000 &&
        (code < 0xD800 || code >= 0xE000)) {
        buf_utf8(b, code);
        return i + 1 + digits;
    }
    buf_byte(b, '\\');
    return i;
}

bool datum_lexer_string(struct arena *a, struct str token, struct str *ret) {
    bool is_raw = false, is_format = false;
    ptrdiff_t i = 0;
    for (; token.p[i] != '"' && token.p[i] != '\''; i++) {
        const char c = (char)(token.p[i] | 32);
        if (c == 'b') return false;
        is_raw = is_raw || c == 'r';
        is_format = is_format || c == 'f';
    }
    const bool is_long =
        token.len - i >= 6 && token.p[i + 1] == token.p[i] && token.p[i + 2] == token.p[i];
    const struct str s = str_slice(token, i + (is_long ? 3 : 1), token.len - (is_long ? 3 : 1));
    if (is_format && s.len > 0 &&
        (memchr(s.p, '{', (size_t)s.len) || memchr(s.p, '}', (size_t)s.len)))
        return false;
    struct buf b = buf_new(a);
    for (i = 0; i < s.len;) {
        if (s.p[i] == '\\' && !is_raw)
            i = escape(s, i + 1, &b);
        else
            buf_byte(&b, s.p[i++]);
    }
    *ret = b.count ? buf_str(&b) : STR("");
    return true;
}
