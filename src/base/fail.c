// SPDX-License-Identifier: Apache-2.0
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail_set(struct fail *why, int code, const char *format, ...) {
    if (!why) return code;
    va_list args;
    va_start(args, format);
    vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    why->code = code;
    why->hint[0] = 0;
    return code;
}

int fail_hint(struct fail *why, const char *format, ...) {
    if (!why) return FAIL_BUG;
    va_list args;
    va_start(args, format);
    vsnprintf(why->hint, sizeof why->hint, format, args);
    va_end(args);
    return why->code;
}

int fail_wrap(struct fail *why, const char *format, ...) {
    if (!why) return FAIL_BUG;
    char message[sizeof why->message];
    memcpy(message, why->message, sizeof message);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    if (used < 0 || (size_t)used >= sizeof why->message) return why->code;
    snprintf(why->message + used, sizeof why->message - (size_t)used, ": %s", message);
    return why->code;
}
