// SPDX-License-Identifier: Apache-2.0
// The rules over time, as trend.c's table names them.
#pragma once

#include "machine/finding/finding.h"
#include "machine/trend/trend.h"

struct trend {
    struct arena *arena;
    const struct trend_stretch *stretch;
};

// As rules_rule: false where there is nothing to say.
typedef bool trend_rule(const struct trend *t, struct finding *f);

enum { TREND_POINTS_MIN = 20 };

static inline double trend_seconds(const struct device_gauges *a, const struct device_gauges *b) {
    return (double)(b->at_ns - a->at_ns) * 1e-9;
}

// memory.c
trend_rule trend_leak, trend_spill, trend_full, trend_missed;
// use.c
trend_rule trend_starved;
// health.c
trend_rule trend_state, trend_xid, trend_ecc, trend_replays;
