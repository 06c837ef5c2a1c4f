// SPDX-License-Identifier: Apache-2.0
// What is hidden follows Unicode 15's Cc, Zl, Zp, Bidi_Control and those of
// Default_Ignorable_Code_Point that stand alone: without the variation selectors, which belong to
// the emoji before them.
#include "base/out.h"

#include <stdio.h>
#include <string.h>

static const struct {
    uint32_t from, to;
} hidden[] = {
    {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},     {0x61c, 0x61c},   {0x115f, 0x1160},
    {0x17b4, 0x17b5},   {0x180e, 0x180e},   {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
    {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff},
};

bool clean_is_hidden(uint32_t c) {
    if (c >= 0x20 && c < 0x7f) return false;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden && c >= hidden[i].from; i++) {
        if (c <= hidden[i].to) return true;
    }
    return false;
}

ptrdiff_t clean_plain(struct str text) {
    ptrdiff_t n = 0;
    while (n < text.len && text.p[n] >= 0x20 && text.p[n] < 0x7f) n++;
    return n;
}

static int continuation(struct str s, ptrdiff_t i) {
    return i < s.len && ((unsigned char)s.p[i] & 0xc0) == 0x80 ? s.p[i] & 0x3f : -1;
}

uint32_t clean_next(struct str *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    struct str s = *text;
    unsigned char c = (unsigned char)s.p[0];
    int length = c < 0x80 ? 1 : c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 ? 3 : 2;
    uint32_t code = length == 1 ? c : c & (0x7fu >> length);
    bool is_good = c < 0x80 || (c >= 0xc2 && c < 0xf5);
    for (int i = 1; i < length && is_good; i++) {
        int bits = continuation(s, i);
        is_good = bits >= 0;
        code = code << 6 | (uint32_t)(bits & 0x3f);
    }
    bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    if (!is_good || code < least[length] || is_surrogate || code > 0x10ffff) {
        *text = str_slice(s, 1, s.len);
        return CLEAN_BROKEN;
    }
    *text = str_slice(s, length, s.len);
    return code;
}

// The sign of a hidden character, or of a byte that is no UTF-8.
static struct str form_of(uint32_t c, bool is_byte, char *form) {
    static const char names[] = "\nn\tt\rr";
    const char *named = c && !is_byte && c < 0x80 ? strchr(names, (int)c) : NULL;
    int n;
    if (named && (c == '\n' || c == '\t' || c == '\r'))
        n = snprintf(form, CLEAN_FORM_MOST, "\\%c", named[1]);
    else if (is_byte || c < 0x80)
        n = snprintf(form, CLEAN_FORM_MOST, "\\x%02x", c);
    else if (c < 0x10000)
        n = snprintf(form, CLEAN_FORM_MOST, "\\u%04x", c);
    else
        n = snprintf(form, CLEAN_FORM_MOST, "\\U%08x", c);
    return (struct str){form, n};
}

struct str clean_take(struct str *text, char form[CLEAN_FORM_MOST]) {
    struct str at = *text;
    uint32_t c = clean_next(text);
    struct str bytes = str_slice(at, 0, at.len - text->len);
    if (c == CLEAN_BROKEN && bytes.len == 1) return form_of((unsigned char)*at.p, true, form);
    return clean_is_hidden(c) ? form_of(c, false, form) : bytes;
}

struct str clean_cut(struct str text, ptrdiff_t max) {
    struct str rest = text;
    while (text.len - rest.len <= max && rest.len > 0) {
        struct str at = rest;
        (void)clean_next(&rest);
        if (text.len - rest.len > max) return str_slice(text, 0, text.len - at.len);
    }
    return str_slice(text, 0, text.len - rest.len);
}

void clean_keep(char *out, ptrdiff_t size, struct str text) {
    text = clean_cut(text, size - 1);
    if (text.len > 0) memcpy(out, text.p, (size_t)text.len);
    out[text.len] = 0;
}
