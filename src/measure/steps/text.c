// SPDX-License-Identifier: Apache-2.0
// Texts of others, for a terminal.
#include "measure/steps/steps.h"

// Bytes of the UTF-8 character at the beginning; 0: not a character, or one that a terminal obeys
// (C0, C1).
static int character_len(const unsigned char *p, ptrdiff_t len) {
    static const struct {
        unsigned char mask, lead;
        int len;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0x20},
                 {0xe0, 0xc0, 2, 0xa0},
                 {0xf0, 0xe0, 3, 0x800},
                 {0xf8, 0xf0, 4, 0x10000}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if ((p[0] & forms[i].mask) != forms[i].lead) continue;
        if (forms[i].len > len) return 0;
        uint32_t c = p[0] & (unsigned char)~forms[i].mask;
        for (int k = 1; k < forms[i].len; k++) {
            if ((p[k] & 0xc0) != 0x80) return 0;
            c = c << 6 | (p[k] & 0x3fu);
        }
        bool is_good = c >= forms[i].least && c <= 0x10ffff && c != 0x7f && c >> 11 != 0x1b;
        return is_good ? forms[i].len : 0;
    }
    return 0;
}

struct str steps_text(struct arena *a, struct str text, ptrdiff_t max) {
    struct buf out = buf_new(a);
    for (ptrdiff_t i = 0; i < text.len;) {
        int len = character_len((const unsigned char *)text.p + i, text.len - i);
        struct str one = len ? str_slice(text, i, i + len) : STR("?");
        if (text.p[i] == '\n' || text.p[i] == '\t') one = text.p[i] == '\n' ? STR("\n") : STR(" ");
        if (out.count + one.len > max) break;
        buf_add(&out, one);
        i += len ? len : 1;
    }
    return buf_str(&out);
}
