// SPDX-License-Identifier: Apache-2.0
// What the files of this room share.
#ifndef FORECAST_FORECAST_INT_H
#define FORECAST_FORECAST_INT_H

#include "forecast/forecast.h"

// The entry of the model that serves the plan best, NULL with the property that stands in the way.
const struct tape_entry *forecast_match(const struct tape_store *store, const struct plan *p,
                                        const struct forecast_model *m,
                                        const char **ret_obstacle);
// Says where the entry differs from the plan and adds what it lacks to extra_bytes.
void forecast_match_notes(struct arena *a, const struct plan *p, struct forecast_tape *t);

#endif
