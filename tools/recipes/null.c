// SPDX-License-Identifier: Apache-2.0
// batchfit null: the smallest verb there can be, to be copied. It says the batch that it is given.
#include "base/out.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stddef.h>

struct null_options {
    struct cli_options o;
    int64_t batch;
};

#define AT(member) offsetof(struct null_options, member)
static const struct cli_row rows[] = {
    {"batch-size", "N", CLI_COUNT, AT(batch), "the batch that is said"},
    {.name = NULL},
};

static int null_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct null_options *o = (const struct null_options *)options;
    (void)a;
    if (o->batch == 0) {
        fail_set(why, FAIL_INPUT, "there is no batch");
        return fail_hint(why, "--batch-size 8 says eight");
    }
    out_say(stdout, options->json ? "{\"batch\": %" PRId64 "}\n" : "batch %" PRId64 "\n", o->batch);
    return 0;
}

const struct cli_verb null_verb = {
    .name = "null",
    .summary = "What batch was I given?",
    .description = "Says the batch that it is given.",
    .examples = "batchfit null --batch-size 8",
    .options = rows,
    .options_size = sizeof(struct null_options),
    .run = null_run,
};
