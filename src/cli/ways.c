// SPDX-License-Identifier: Apache-2.0
// Which options go together: by what each is about, and what the way takes in which is asked.
#include "cli/cli.h"

#include <math.h>

static bool is_given(const struct cli_options *o, const struct cli_row *row) {
    const void *at = (const char *)o + row->offset;
    switch (row->kind) {
    case CLI_SWITCH:
        return *(const bool *)at;
    case CLI_SHARE:
    case CLI_NUMBER:
        return !isnan(*(const double *)at);
    case CLI_COUNT:
    case CLI_BYTES:
    case CLI_MEMORY:
    case CLI_BYTES_OR_NONE:
        return *(const int64_t *)at != 0;
    default:
        return *(const char *const *)at != NULL;
    }
}

static bool takes(const struct cli_way *way, const struct cli_row *row) {
    return (row->about & (way->takes | way->own)) != 0;
}

// Of an option that no way takes that is asked.
static int check(const struct cli_way *way, bool is_asked, const struct cli_row *row,
                 struct fail *why) {
    if (is_asked) {
        fail_set(why, FAIL_USAGE, "%s %s: it cannot be combined with --%s", way->name, way->does,
                 row->name);
        return fail_hint(why, "%s", way->instead);
    }
    if (!(row->about & way->own)) return 0;
    fail_set(why, FAIL_USAGE, "--%s needs %s", row->name, way->name);
    return fail_hint(why, "%s", way->example);
}

int cli_ways_check(const struct cli_row *rows, const struct cli_options *options,
                   const struct cli_way *ways, size_t count, const bool *asked, struct fail *why) {
    int rc = 0;
    for (const struct cli_row *row = rows; row->name; row++) {
        bool is_taken = false;
        if (row->about == 0 || !is_given(options, row)) continue;
        for (size_t i = 0; i < count; i++) is_taken |= asked[i] && takes(&ways[i], row);
        for (size_t i = 0; i < count && rc == 0 && !is_taken; i++)
            rc = check(&ways[i], asked[i], row, why);
    }
    return rc;
}
