// SPDX-License-Identifier: Apache-2.0
// check --benchmark: measured in processes of their own (src/verbs/check/microbench_verb.c), judged
// (machine/rules/microbench.h), shown.
#pragma once

#include "base/json.h"
#include "machine/rules/microbench.h"
#include "view/show/style.h"

struct check;

struct check_microbenches {
    struct rules_microbench *items;
    ptrdiff_t count, capacity;
    double busy; // share of the cores that others kept busy before we began; NaN: unknown
};

// microbench.c: measures and adds the findings. FAIL_INPUT: a broken rates.tsv.
int check_measure(struct check *c, struct fail *why);
// microbench_show.c
json_t *check_figure_json(const struct microbench_figure *figure); // a line between the processes
void check_figure_read(struct arena *a, const json_t *line, struct microbench_figure *ret_figure);
void check_microbench_show(const struct check *c, struct show_style style, struct buf *out);
json_t *check_microbench_json(const struct check *c);
