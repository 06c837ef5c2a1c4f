// SPDX-License-Identifier: Apache-2.0
// Logs that Windows PowerShell's ">" wrote: UTF-16, to be read as UTF-8.
#include "verbs/doctor/doctor.h"

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
        buf_utf8(&u->text, unit);
    }
    return buf_str(&u->text);
}
