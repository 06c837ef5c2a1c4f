// SPDX-License-Identifier: Apache-2.0
// An answer as files, in the kinds that a verb can write: --output, --report.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct show_report_kind {
    const char *suffix; // ".csv"
    struct str (*text)(void *context);
    // What the file holds in place of the text, and whether that can be made here; NULL: the text.
    int (*finish)(struct arena *a, struct str text, struct str *ret, struct fail *why);
    int (*check)(struct arena *a, struct fail *why);
};

// `paths` are those of the option, a line each; NULL: none. `kinds` ends with one without a suffix.
// To be asked before anything is measured: nobody wants to hear of it an hour later.
int show_report_check(struct arena *a, const struct show_report_kind *kinds, const char *option,
                      const char *paths, struct fail *why);
// Makes the folders that are missing.
int show_report_write(struct arena *a, const struct show_report_kind *kinds, const char *paths,
                      void *context, struct fail *why);
