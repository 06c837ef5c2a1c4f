// SPDX-License-Identifier: Apache-2.0
// What people should know of a reading.
#include "records/config/dialect_int.h"

#include <stdarg.h>
#include <stdio.h>

void config_reader_warn(struct reader *r, const char *format, ...) {
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    str_list_add(r->arena, &r->reading->warnings, str_copy(r->arena, str_of(text)));
}
