// SPDX-License-Identifier: Apache-2.0
// A sentence with figures that another place has made, English because documents have it, is known
// by the format it was made with: the catalogue's msgid. Its figures and names go into the
// translation in the same order, and those that are sentences themselves are said in turn. So what
// is told is worded in one place, and read in any language.
#include "base/say_int.h"

#include <ctype.h>
#include <string.h>

// Tries: several texts of a format can end at any blank of what a program said.
enum { ARGUMENTS_MOST = 12, LETTERS_LEAST = 3, TRIES_MOST = 1 << 11 };

// A specifier of a format.
struct specifier {
    const char *end;
    char conversion;
    bool is_empty; // "%.0s" shows nothing of its text
};

static struct specifier specifier_at(const char *p) {
    const char *begin = p++;
    while (*p && strchr("-+ #0123456789.*lhjzt", *p)) p++;
    return (struct specifier){*p ? p + 1 : p, *p, strncmp(begin, "%.0s", 4) == 0};
}

struct match {
    const char *format;
    struct str arguments[ARGUMENTS_MOST];
    int count, tries;
};

static bool is_number(char conversion) {
    return conversion && strchr("diufFgGeE", conversion);
}

// How many bytes of the text a number of this conversion can have.
static ptrdiff_t number_most(char conversion, struct str text) {
    const char *others = strchr("diu", conversion) ? "-" : "+-.einfa";
    ptrdiff_t n = 0;
    while (n < text.len && (isdigit((unsigned char)text.p[n]) || strchr(others, text.p[n]))) n++;
    return n;
}

static bool matches(struct match *m, const char *p, struct str text);

static bool takes(struct match *m, int at, const char *rest, struct str text, ptrdiff_t n) {
    bool may_follow = !*rest || *rest == '%' || (n < text.len && text.p[n] == *rest);
    // "5 GiB of 24 GiB: 18 GiB in use": what is before a colon is a sentence of its own.
    struct str argument = str_slice(text, 0, n);
    bool is_first = at == 0 && *m->format == '%' && *rest == ' ';
    if (!may_follow || (is_first && str_find(argument, STR(": ")) >= 0)) return false;
    if (m->tries++ >= TRIES_MOST) return false;
    m->arguments[at] = argument;
    m->count = at + 1;
    return matches(m, rest, str_slice(text, n, text.len));
}

// A number is as long as it can be; a text ends at the first place at which the rest matches.
static bool matches_argument(struct match *m, const char *p, struct str text) {
    struct specifier s = specifier_at(p);
    int at = m->count;
    if (at == ARGUMENTS_MOST || !s.conversion) return false;
    if (s.conversion == 'c') return text.len > 0 && takes(m, at, s.end, text, 1);
    if (is_number(s.conversion)) {
        for (ptrdiff_t n = number_most(s.conversion, text); n > 0; n--)
            if (takes(m, at, s.end, text, n)) return true;
    } else {
        // "%d GPU%s": the s of several.
        bool is_plural =
            p > m->format && isalpha((unsigned char)p[-1]) && str_starts(text, STR("s"));
        if (is_plural && takes(m, at, s.end, text, 1)) return true;
        for (ptrdiff_t n = *s.end ? 0 : text.len; n <= text.len; n++)
            if (takes(m, at, s.end, text, n)) return true;
    }
    m->count = at;
    return false;
}

static bool matches(struct match *m, const char *p, struct str text) {
    for (; *p; p++) {
        if (*p == '%' && p[1] != '%') return matches_argument(m, p, text);
        p += *p == '%';
        if (text.len == 0 || text.p[0] != *p) return false;
        text = str_slice(text, 1, text.len);
    }
    return text.len == 0;
}

int say_letters(const char *p) {
    int letters = 0;
    bool is_format = false;
    while (*p) {
        if (*p == '%' && p[1] != '%') {
            is_format = true;
            p = specifier_at(p).end;
            continue;
        }
        letters += isalpha((unsigned char)*p) != 0;
        p += 1 + (*p == '%');
    }
    return is_format ? letters : 0;
}

struct str say_longest(const char *p) {
    struct str best = {0};
    while (*p) {
        ptrdiff_t length = (ptrdiff_t)strcspn(p, "%");
        if (length > best.len) best = (struct str){p, length};
        p += length;
        if (*p) p = specifier_at(p).end;
    }
    return best;
}

static void add_own(struct buf *b, const struct match *m, const char *own, say_one *one) {
    for (int at = 0; *own;) {
        if (*own == '%' && own[1] != '%' && at < m->count) {
            struct specifier s = specifier_at(own);
            struct str argument = m->arguments[at++];
            if (s.conversion == 's') argument = one(argument);
            if (!s.is_empty) buf_add(b, argument);
            own = s.end;
            continue;
        }
        own += *own == '%';
        buf_byte(b, *own++);
    }
}

bool say_matched(struct arena *a, const struct say_pair *pairs, ptrdiff_t count, struct str english,
                 say_one *one, struct str *ret) {
    struct match best = {0}, m;
    const struct say_pair *chosen = NULL;
    int most = LETTERS_LEAST - 1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const char *format = pairs[i].english;
        bool may_begin = *format == '%' || (english.len > 0 && *format == english.p[0]);
        if (pairs[i].letters <= most || !may_begin) continue;
        if (str_find(english, pairs[i].longest) < 0) continue;
        m = (struct match){.format = format};
        if (!matches(&m, format, english)) continue;
        best = m;
        chosen = &pairs[i];
        most = pairs[i].letters;
    }
    if (!chosen) return false;
    struct buf b = buf_new(a);
    add_own(&b, &best, chosen->own, one);
    *ret = buf_str(&b);
    return true;
}
