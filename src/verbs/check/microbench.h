// SPDX-License-Identifier: Apache-2.0
// check --benchmark: measured in processes of their own (src/verbs/check/rate_verb.c), judged
// (machine/rules/rate.h), shown.
#ifndef CHECK_RATE_H
#define CHECK_RATE_H

#include "base/json.h"
#include "machine/rules/rate.h"
#include "view/show/style.h"

struct check;

struct check_rates {
    struct rules_rate *items;
    ptrdiff_t count, capacity;
    double busy; // share of the cores that others kept busy before we began; NaN: unknown
};

// rate.c: measures and adds the findings. FAIL_INPUT: a broken rates.tsv.
int check_measure(struct check *c, struct fail *why);
// rate_show.c
json_t *check_rate_json(const struct microbench_figure *figure); // one line between the processes
void check_rate_read(struct arena *a, const json_t *line, struct microbench_figure *ret_figure);
void check_rates_show(const struct check *c, struct show_style style, struct buf *out);
json_t *check_rates_json(const struct check *c);

#endif
