// SPDX-License-Identifier: Apache-2.0
// batchfit rate: what `check --benchmark` starts for the CPU and for each GPU, so that a
// GPU that hangs, or a library that breaks, does so in a process of its own. One figure a line, as
// JSON, as soon as it is there.
#include "base/json.h"
#include "base/out.h"
#include "cli/cli.h"
#include "verbs/check/check.h"

#include <stdio.h>

struct rate_options {
    struct cli_options base;
    int64_t cores, memory_bytes;
    const char *card, *libraries;
};

#define AT(member) offsetof(struct rate_options, member)
static const struct cli_row rows[] = {
    {"card", "ID", CLI_TEXT, AT(card), "GPU, by UUID or number (default the CPU)"},
    {"libraries", "DIRS", CLI_TEXT_OR_NONE, AT(libraries),
     "folders to search for cuBLAS, separated by colons"},
    {"cores", "N", CLI_COUNT, AT(cores), "number of CPU threads"},
    {"memory", "BYTES", CLI_BYTES, AT(memory_bytes), "free memory of the CPU"},
    {.name = NULL},
};

static void print_figure(void *owner, const struct microbench_figure *figure) {
    ARENA_AUTO scratch = {0};
    (void)owner;
    struct str line = json_take(&scratch, check_figure_json(figure), JSON_COMPACT);
    out_say(stdout, "%.*s\n", STR_ARG(line));
    fflush(stdout);
}

static int rate_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct rate_options *o = (const struct rate_options *)options;
    const struct microbench_sink sink = {print_figure, NULL};
    const struct microbench_host host = {
        .cores = o->cores > 0 && o->cores < 4096 ? (int)o->cores : 1,
        .available_bytes = o->memory_bytes > 0 ? o->memory_bytes : -1};
    const struct microbench_place place = {str_of(o->card), str_of(o->libraries)};
    if (options->argument_count > 0) return fail_set(why, FAIL_USAGE, "rate takes no arguments");
    if (o->card)
        microbench_card(a, &place, &sink);
    else
        microbench_cpu(a, &host, &sink);
    return 0;
}

const struct cli_verb check_microbench_verb = {
    .name = "rate",
    .summary = "measure the CPU or one GPU (for check --benchmark)",
    .description = "The plumbing of check --benchmark: prints one figure per line as JSON.",
    .options = rows,
    .options_size = sizeof(struct rate_options),
    .run = rate_run,
    .hidden = true,
};
