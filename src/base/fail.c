// SPDX-License-Identifier: Apache-2.0
#include "base/fail.h"

#include "base/out.h"
#include "base/say.h"

#include <stdarg.h>
#include <stdio.h>

// Of the error just set, for whoever wants its code and not its words.
static _Thread_local int last_code = FAIL_BUG;

int fail_set(struct fail *why, int code, const char *format, ...) {
    last_code = code;
    if (!why) return code;
    va_list args;
    va_start(args, format);
    clean_print(why->message, sizeof why->message, format, args);
    va_end(args);
    why->own_message[0] = 0;
    if (say_own(format) != format) {
        va_start(args, format);
        clean_print(why->own_message, sizeof why->own_message, say_own(format), args);
        va_end(args);
    }
    why->code = code;
    why->hint[0] = why->own_hint[0] = 0;
    return code;
}

int fail_hint(struct fail *why, const char *format, ...) {
    if (!why) return last_code;
    va_list args;
    va_start(args, format);
    clean_print(why->hint, sizeof why->hint, format, args);
    va_end(args);
    why->own_hint[0] = 0;
    if (say_own(format) == format) return why->code;
    va_start(args, format);
    clean_print(why->own_hint, sizeof why->own_hint, say_own(format), args);
    va_end(args);
    return why->code;
}

int fail_hint_lines(struct fail *why, struct str lines) {
    if (!why) return last_code;
    ARENA_AUTO scratch = {0};
    struct buf clean = buf_new(&scratch);
    clean_add_lines(&clean, lines);
    why->own_hint[0] = 0;
    clean_keep(why->hint, sizeof why->hint, buf_str(&clean));
    return why->code;
}

// In front of what a text of the error says already.
__attribute__((format(printf, 3, 0))) static void put_before(char *text, size_t room,
                                                             const char *format, va_list args) {
    ARENA_AUTO scratch = {0};
    struct str said = str_copy(&scratch, str_of(text));
    ptrdiff_t used = clean_print(text, room, format, args);
    if (used >= (ptrdiff_t)room) return;
    struct str rest = clean_cut(said, (ptrdiff_t)room - used - 3);
    snprintf(text + used, room - (size_t)used, ": %.*s", STR_ARG(rest));
}

int fail_wrap(struct fail *why, const char *format, ...) {
    if (!why) return last_code;
    va_list args;
    va_start(args, format);
    put_before(why->message, sizeof why->message, format, args);
    va_end(args);
    if (!why->own_message[0]) return why->code;
    va_start(args, format);
    put_before(why->own_message, sizeof why->own_message, say_own(format), args);
    va_end(args);
    return why->code;
}
