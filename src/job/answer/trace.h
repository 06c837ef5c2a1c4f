// SPDX-License-Identifier: Apache-2.0
// The course of memory along a tape as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing
// open: doc/formats/trace.md.
#pragma once

#include "base/json.h"
#include "job/question/question.h"

struct answer_traced {
    struct sim *sim;
    const struct tape *tape;
    int64_t batch, classes, capacity_bytes;
};
// Writes the file whole.
int answer_trace_write(struct arena *a, const char *path, const struct answer_traced *traced,
                       struct fail *why);
