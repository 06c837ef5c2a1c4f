// SPDX-License-Identifier: Apache-2.0
// Chrome's trace event format, its JSON object form: "X" spans, "C" counters, "b" and "e" around
// what overlaps, "M" names. A tape has no times: one of its events is one microsecond, which is
// said in the name of the process.
#include "job/answer/answer.h"

#include "base/os.h"

#include <stdlib.h>

enum { POINTS = 20000, LARGEST = 200, PROCESS = 1, THREAD = 1 };

static void add(json_t *events, json_t *event) {
    json_array_append_new(events, event);
}

static void add_name(json_t *events, const char *kind, struct str name) {
    add(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", kind, "pid", PROCESS,
                          "tid", THREAD, "args", "name", json_text(name)));
}

static void add_phases(struct arena *a, const struct sim_timeline *line, json_t *events) {
    int32_t last = line->points[line->count - 1].event;
    for (int i = 0; i < line->phase_count; i++) {
        const struct sim_phase *p = &line->phases[i];
        int32_t begin = p->event < 0 ? 0 : p->event;
        int32_t end = i + 1 < line->phase_count ? line->phases[i + 1].event : last;
        struct str name = str_format(a, "%s %d", tape_phase_names[p->phase], (int)p->step);
        if (end <= begin) continue;
        add(events, json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:i, s:{s:I}}", "ph", "X", "name",
                              json_text(name), "cat", "phase", "pid", PROCESS, "tid", THREAD, "ts",
                              (int)begin, "dur", (int)(end - begin), "args", "peak_allocated_bytes",
                              (json_int_t)p->allocated_bytes));
    }
}

static void add_memory(const struct sim_timeline *line, json_t *events) {
    for (int i = 0; i < line->count; i++) {
        const struct sim_point *p = &line->points[i];
        json_t *tags = json_object();
        for (int t = 0; t < TAPE_TAG_COUNT; t++) {
            json_object_set_new(tags, tape_tag_names[t], json_integer(p->tags[t]));
        }
        add(events, json_pack("{s:s, s:s, s:i, s:i, s:o}", "ph", "C", "name", "allocated", "pid",
                              PROCESS, "ts", (int)p->event, "args", tags));
        add(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:I}}", "ph", "C", "name", "reserved", "pid",
                              PROCESS, "ts", (int)p->event, "args", "bytes",
                              (json_int_t)p->reserved_bytes));
    }
}

struct sized {
    int64_t bytes;
    int32_t alloc;
};

static int larger_first(const void *a, const void *b) {
    const struct sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->alloc < y->alloc ? -1 : 1;
}

// The largest, each from its allocation until it is freed, or the end.
static void add_tensors(struct arena *a, const struct answer_traced *traced, int32_t last,
                        json_t *events) {
    const struct tape *t = traced->tape;
    struct sized *all = arena_new(a, struct sized, t->alloc_count + 1);
    for (int32_t i = 0; i < t->alloc_count; i++) {
        all[i] = (struct sized){tape_size(t, &t->allocs[i], traced->batch, traced->classes), i};
    }
    qsort(all, (size_t)t->alloc_count, sizeof *all, larger_first);
    for (int32_t i = 0; i < t->alloc_count && i < LARGEST; i++) {
        const struct tape_alloc *x = &t->allocs[all[i].alloc];
        int32_t end = x->free_event >= 0 && x->free_event < last ? x->free_event : last;
        struct str name = t->strings[x->op];
        if (all[i].bytes <= 0 || x->event >= last) continue;
        if (name.len == 0) name = str_of(tape_tag_names[x->tag]);
        add(events,
            json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:i, s:{s:I, s:s, s:o}}", "ph", "b", "name",
                      json_text(name), "cat", "tensor", "id", (int)i + 1, "pid", PROCESS, "tid",
                      THREAD, "ts", (int)x->event, "args", "bytes", (json_int_t)all[i].bytes,
                      "kind", tape_tag_names[x->tag], "module", json_text(t->strings[x->module])));
        add(events, json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:i}", "ph", "e", "name",
                              json_text(name), "cat", "tensor", "id", (int)i + 1, "pid", PROCESS,
                              "tid", THREAD, "ts", (int)end));
    }
}

int answer_trace_write(struct arena *a, const char *path, const struct answer_traced *traced,
                       struct fail *why) {
    struct sim_timeline line;
    json_t *events = json_array();
    struct str model = traced->tape->header.model;
    sim_timeline(a, traced->sim, traced->batch, traced->classes, traced->capacity_bytes, POINTS,
                 &line);
    add_name(events, "process_name",
             str_format(a,
                        "%.*s at batch %lld: one event of the tape is one microsecond, no time "
                        "was measured%s",
                        STR_ARG(model), (long long)traced->batch,
                        line.oom ? "; it ends where memory runs out" : ""));
    add_name(events, "thread_name", STR("phases and largest tensors"));
    if (line.count > 0) {
        add_phases(a, &line, events);
        add_memory(&line, events);
        add_tensors(a, traced, line.points[line.count - 1].event, events);
    }
    json_t *document = json_pack("{s:s, s:o, s:{s:s}}", "displayTimeUnit", "ms", "traceEvents",
                                 events, "otherData", "made_by", "batchfit " BATCHFIT_VERSION);
    struct str text = json_take(a, document, JSON_COMPACT);
    if (text.len == 0) return fail_set(why, FAIL_BUG, "the trace cannot be built");
    return os_replace(a, path, text, NULL, why);
}
