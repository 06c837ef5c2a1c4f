// SPDX-License-Identifier: Apache-2.0
// What the history of many machines says: /api/v1/fleet, and its metrics.
#pragma once

#include "records/store/store.h"
#include "verbs/serve/metrics.h"

// `window` is the option's value, "7d"; NULL: not asked, *ret is NULL. FAIL_USAGE: no time.
int serve_fleet_open(struct arena *a, const char *window, const char *store,
                     struct serve_fleet **ret, struct fail *why);
void serve_fleet_close(struct serve_fleet *f); // NULL is nothing
struct http_page *serve_fleet_answer(void *context, const struct http_request *r);
void serve_metrics_of_fleet(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s);
