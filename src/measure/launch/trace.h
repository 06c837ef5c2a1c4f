// SPDX-License-Identifier: Apache-2.0
// Every step of the trials that this process makes, for --trace (doc/formats/trace.md).
#pragma once

#include "base/json.h"
#include "measure/launch/launch.h"

#define CLI_ROW_TRACE_STEPS(at)                                                                \
    CLI_ROW("trace", "FILE", CLI_TEXT, at,                                                     \
            "also write every step of the trials as a trace for Perfetto or chrome://tracing", \
            "file")

struct launch_trace {
    json_t *events; // NULL: none yet
    int trials;
};
void launch_trace_add(struct arena *a, struct launch_trace *t, struct str setting,
                      const struct launch_result *result);
int launch_trace_write(struct arena *a, struct launch_trace *t, const char *path, struct fail *why);
