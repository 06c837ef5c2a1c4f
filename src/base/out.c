// SPDX-License-Identifier: Apache-2.0
#include "base/out.h"

#include <stdarg.h>

void out_data(FILE *to, struct str bytes) {
    if (bytes.len > 0) fwrite(bytes.p, 1, (size_t)bytes.len, to);
}

bool out_is_written(FILE *to) {
    return fflush(to) == 0 && !ferror(to);
}

void out_buf(FILE *to, const struct buf *b) {
    ARENA_AUTO scratch = {0};
    struct buf shown = buf_shown(&scratch);
    if (!b->is_shown) buf_add(&shown, buf_str(b));
    out_data(to, buf_str(b->is_shown ? b : &shown));
}

void out_say_list(FILE *to, const char *format, va_list args) {
    ARENA_AUTO scratch = {0};
    out_data(to, clean_format_list(&scratch, format, args));
}

void out_say(FILE *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    out_say_list(to, format, args);
    va_end(args);
}
