// SPDX-License-Identifier: Apache-2.0
// What is to be said about a measured rate beside the range that it should lie in.
#ifndef INSIGHT_RATE_H
#define INSIGHT_RATE_H

#include "insight/insight.h"
#include "rate/rate.h"

struct insight_rate {
    int card; // index into the cards; -1: the processor
    struct rate_figure figure;
    struct rate_range range;
    double
        busy; // share of the card, or of the cores, that others kept busy just before; NaN: unknown
};

// Adds one finding. Far below the range is a warning, a wrong result a problem; what others who
// compute on the card may have slowed down is not judged.
void insight_rate(struct arena *a, const struct insight_facts *facts,
                  const struct insight_rate *rate, struct insight_findings *findings);

#endif
