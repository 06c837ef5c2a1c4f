// SPDX-License-Identifier: Apache-2.0
// Logs that Windows PowerShell's ">" wrote: UTF-16, to be read as UTF-8.
#include "verbs/doctor/doctor.h"

static void add(struct buf *b, uint32_t c) {
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int count = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = 0; i < count; i++) {
        uint32_t bits = c >> (6 * (count - 1 - i));
        buf_byte(b, (char)(i == 0 ? heads[count] | bits : 0x80 | (bits & 0x3f)));
    }
}

static bool is_half(uint32_t unit, uint32_t first) {
    return (unit & 0xfc00) == first;
}

struct str doctor_utf16(struct doctor_utf16 *u, struct str bytes) {
    static const uint32_t high = 0xd800, low = 0xdc00, mark = 0xfeff, broken = 0xfffd;
    const unsigned char *p = (const unsigned char *)bytes.p;
    u->text.count = 0;
    for (ptrdiff_t i = 0; i + 1 < bytes.len; i += 2) {
        uint32_t unit = u->is_big ? (uint32_t)p[i] << 8 | p[i + 1] : (uint32_t)p[i + 1] << 8 | p[i];
        uint32_t before = u->half;
        u->half = is_half(unit, high) ? unit : 0;
        if (unit == mark || u->half) continue;
        if (is_half(unit, low))
            unit = before ? 0x10000 + ((before - high) << 10) + (unit - low) : broken;
        add(&u->text, unit);
    }
    return buf_str(&u->text);
}
