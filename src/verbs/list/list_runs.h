// SPDX-License-Identifier: Apache-2.0
// The part of the verb list that reads the history.
#pragma once

#include "job/history/history.h"

#include <unistd.h>

struct list_options {
    struct cli_options base;
    const char *model, *gpu, *kind, *since, *store, *copy_to;
    int64_t limit;
};

int list_runs(struct arena *a, const struct list_options *o, struct fail *why);
