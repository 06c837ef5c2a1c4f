// SPDX-License-Identifier: Apache-2.0
// The steps of trials as a trace (doc/formats/trace.md): a process a trial, a thread
// a rank. Each step is as long as it was; its parts are told as sums, and stand one behind the
// other.
#include "measure/launch/launch.h"

#include "base/os.h"

#include <string.h>

static const double US_PER_MS = 1000;

static void add(struct launch_trace *t, json_t *event) {
    if (!t->events) t->events = json_array();
    json_array_append_new(t->events, event);
}

static json_t *span_of(const char *kind, struct str name, int process, int thread, double begin_ms,
                       double ms) {
    return json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:f}", "ph", "X", "name", json_text(name),
                     "cat", kind, "pid", process, "tid", thread, "ts", begin_ms * US_PER_MS, "dur",
                     ms * US_PER_MS);
}

static struct str part_name(int part) {
    const char *key = step_time_keys[part];
    return (struct str){key, (ptrdiff_t)(strlen(key) - strlen("_ms"))};
}

static void add_step(struct arena *a, struct launch_trace *t, const struct step *s,
                     double begin_ms) {
    double at_ms = begin_ms;
    struct str name = str_format(a, "step %lld", (long long)s->number);
    json_t *step = span_of("step", name, t->trials, s->rank, begin_ms, s->times.total_ms);
    json_object_set_new(step, "args",
                        json_pack("{s:o, s:o}", "samples", json_count(s->samples),
                                  "peak_allocated_bytes", json_count(s->peak_allocated_bytes)));
    add(t, step);
    for (int i = 0; i < STEP_PART_COUNT; i++) {
        double ms = s->times.ms[i];
        if (!(ms > 0)) continue;
        add(t, span_of("part", part_name(i), t->trials, s->rank, at_ms, ms));
        at_ms += ms;
    }
}

void launch_trace_add(struct arena *a, struct launch_trace *t, struct str setting,
                      const struct launch_result *result) {
    const struct steps *steps = &result->trial.steps;
    t->trials++;
    struct str name =
        str_format(a, "%.*s: %s", STR_ARG(setting), launch_status_name(result->status));
    add(t, json_pack("{s:s, s:s, s:i, s:{s:o}}", "ph", "M", "name", "process_name", "pid",
                     t->trials, "args", "name", json_text(name)));
    for (ptrdiff_t r = 0; r < steps->rank_count; r++) {
        double at_ms = 0;
        for (ptrdiff_t i = 0; i < steps->count; i++) {
            const struct step *s = &steps->items[i];
            if (s->rank != steps->ranks[r].rank || !(s->times.total_ms > 0)) continue;
            add_step(a, t, s, at_ms);
            at_ms += s->times.total_ms;
        }
    }
}

int launch_trace_write(struct arena *a, struct launch_trace *t, const char *path,
                       struct fail *why) {
    json_t *events = t->events ? t->events : json_array();
    json_t *document = json_pack("{s:s, s:o, s:{s:s}}", "displayTimeUnit", "ms", "traceEvents",
                                 events, "otherData", "made_by", "batchfit " BATCHFIT_VERSION);
    struct str text = json_take(a, document, JSON_COMPACT);
    t->events = NULL;
    if (text.len == 0) return fail_set(why, FAIL_BUG, "the trace cannot be built");
    return os_replace(a, path, text, NULL, why);
}
