// SPDX-License-Identifier: Apache-2.0
// The one error value. The first function that knows what went wrong fills it: what, where, and in
// the hint what the user can do. Functions above pass the code on, or put their context in front.
#pragma once

#include "base/str.h"

// Negative exit statuses (doc/formats/exit.md): a verb that fails with FAIL_INPUT exits with 3.
enum fail_code {
    FAIL_NO = -1,      // the answer is no
    FAIL_USAGE = -2,   // wrong options
    FAIL_INPUT = -3,   // a file or value the user gave is bad
    FAIL_MACHINE = -4, // the machine does not let us: permission, disk, driver, missing program
    FAIL_BUG = -5,     // ours
    FAIL_INTERRUPTED = -130, // Ctrl-C or SIGTERM, as a shell shows it
};

struct fail {
    int code;
    char message[600];
    char hint[600]; // empty: no advice
    // The same in the reader's language (say.h); empty: it has no translation.
    char own_message[600], own_hint[600];
};

// Fills *why (which may be NULL) and returns code. The texts that the format puts in are cleaned, a
// line each (out.h).
__attribute__((format(printf, 3, 4))) int fail_set(struct fail *why, int code, const char *format,
                                                   ...);
// Adds advice to the error just set and returns its code, also where why is NULL; so the next two.
__attribute__((format(printf, 2, 3))) int fail_hint(struct fail *why, const char *format, ...);
// The same with advice of several lines: each is cleaned, and they stay lines.
int fail_hint_lines(struct fail *why, struct str lines);
// Puts "context: " in front of the message and returns the code.
__attribute__((format(printf, 2, 3))) int fail_wrap(struct fail *why, const char *format, ...);
