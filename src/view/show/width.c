// SPDX-License-Identifier: Apache-2.0
// Columns that text takes on a terminal. The wide characters are those of Unicode 14's East Asian
// Width W and F (unassigned gaps filled); of the characters without width, those in use: combining
// marks, Hangul vowels and finals of decomposed syllables, variation selectors, joiners.
#include "view/show/show.h"

#include "base/out.h"

struct range {
    uint32_t from, to;
};

static const struct range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
    {0x23f0, 0x23f0},   {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},
    {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
    {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},
    {0x2728, 0x2728},   {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27b0},   {0x27bf, 0x27bf},
    {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},   {0x2e80, 0x303e},
    {0x3041, 0x3247},   {0x3250, 0x4dbf},   {0x4e00, 0xa4c6},   {0xa960, 0xa97c},
    {0xac00, 0xd7a3},   {0xf900, 0xfad9},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6b},
    {0xff01, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18d08}, {0x1aff0, 0x1b2fb},
    {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a},
    {0x1f200, 0x1f265}, {0x1f300, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0},
    {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc},
    {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567}, {0x1f57a, 0x1f57a},
    {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec},
    {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
    {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faf6}, {0x20000, 0x3fffd},
};
static const struct range empty[] = {
    {0x0300, 0x036f},   {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x0e31, 0x0e31},   {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1160, 0x11ff}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff},   {0x200b, 0x200f}, {0x2060, 0x2064}, {0x20d0, 0x20f0}, {0x302a, 0x302d},
    {0x3099, 0x309a},   {0xd7b0, 0xd7ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
    {0xe0100, 0xe01ef},
};

static bool is_in(uint32_t c, const struct range *ranges, int count) {
    int low = 0, high = count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (c > ranges[mid].to)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && c >= ranges[low].from;
}

int show_width_of(uint32_t c) {
    if (c < 0x300) return 1;
    if (is_in(c, empty, (int)(sizeof empty / sizeof *empty))) return 0;
    return is_in(c, wide, (int)(sizeof wide / sizeof *wide)) ? 2 : 1;
}

// Of the next character, as it is shown.
static int take_width(struct str *text) {
    char form[CLEAN_FORM_MOST];
    struct str at = *text, shown = clean_take(text, form);
    return shown.p == form ? (int)shown.len : show_width_of(clean_next(&at));
}

int show_width(struct str text) {
    int width = 0;
    while (text.len > 0) {
        ptrdiff_t plain = clean_plain(text);
        width += (int)plain;
        text = str_slice(text, plain, text.len);
        if (text.len > 0) width += take_width(&text);
    }
    return width;
}

struct str show_fit(struct str text, int width) {
    if (text.len == 0) return text;
    struct str rest = text;
    while (rest.len > 0) {
        struct str after = rest;
        int columns = take_width(&after);
        if (columns > width) break;
        width -= columns;
        rest = after;
    }
    return str_slice(text, 0, text.len - rest.len);
}

struct str show_first_line(struct arena *a, struct str text, int width) {
    text = str_line(&text);
    if (show_width(text) <= width) return text;
    return str_format(a, "%.*s...", STR_ARG(show_fit(text, width)));
}
