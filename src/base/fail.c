// SPDX-License-Identifier: Apache-2.0
#include "base/fail.h"

#include "base/clean.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail_set(struct fail *why, int code, const char *format, ...) {
    if (!why) return code;
    va_list args;
    va_start(args, format);
    clean_print(why->message, sizeof why->message, format, args);
    va_end(args);
    why->code = code;
    why->hint[0] = 0;
    return code;
}

int fail_hint(struct fail *why, const char *format, ...) {
    if (!why) return FAIL_BUG;
    va_list args;
    va_start(args, format);
    clean_print(why->hint, sizeof why->hint, format, args);
    va_end(args);
    return why->code;
}

int fail_hint_lines(struct fail *why, struct str lines) {
    if (!why) return FAIL_BUG;
    ARENA_AUTO scratch = {0};
    struct buf clean = buf_new(&scratch);
    clean_add_lines(&clean, lines);
    clean_keep(why->hint, sizeof why->hint, buf_str(&clean));
    return why->code;
}

int fail_wrap(struct fail *why, const char *format, ...) {
    if (!why) return FAIL_BUG;
    char message[sizeof why->message];
    memcpy(message, why->message, sizeof message);
    va_list args;
    va_start(args, format);
    ptrdiff_t used = clean_print(why->message, sizeof why->message, format, args);
    va_end(args);
    if (used >= (ptrdiff_t)sizeof why->message) return why->code;
    struct str rest = clean_cut(str_of(message), (ptrdiff_t)sizeof why->message - used - 3);
    snprintf(why->message + used, sizeof why->message - (size_t)used, ": %.*s", STR_ARG(rest));
    return why->code;
}
