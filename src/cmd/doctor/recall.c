// SPDX-License-Identifier: Apache-2.0
// A row of the history as doctor reads it.
#include "cmd/doctor/doctor.h"
#include "probe/ending.h"

static void take_run(struct doctor *d, const struct store_run *run) {
    struct cause_facts *f = &d->facts;
    f->phases =
        (struct cause_phases){run->io_ms,        run->h2d_ms,
                              run->forward_ms,   run->backward_ms,
                              run->optimizer_ms, run->other_ms,
                              run->total_ms,     (ptrdiff_t)(run->steps > 0 ? run->steps : 0)};
    f->utilisation = run->device_share;
    f->is_fp32 |= str_is(run->precision, "fp32");
    if (run->workers >= 0) f->workers = (int)run->workers;
    if (run->capacity_bytes > 0 && run->peak_bytes > 0)
        f->memory_share = (double)run->peak_bytes / (double)run->capacity_bytes;
    for (int i = 0; i < signature_count; i++) {
        if (!str_is(run->ending, signatures[i].id) || signatures[i].kind == ENDING_CLEAN) continue;
        f->ending.signature = signatures[i].id;
        f->ending.what = signatures[i].what;
        f->ending.hint = signatures[i].hint;
        f->ending.line = run->reason;
        f->ending.steps = run->made;
    }
    if (str_is(run->status, "SPILLS")) {
        struct insight_finding *spill = arena_new(d->arena, struct insight_finding, 1);
        *spill = (struct insight_finding){
            .id = "trend.spill", .severity = INSIGHT_PROBLEM, .evidence = run->reason};
        f->trends = spill;
        f->trend_count = 1;
    }
}

static int no_such_run(int64_t id, struct str note, struct fail *why) {
    fail_set(why, FAIL_INPUT, "--run %lld: the history has no such run", (long long)id);
    if (note.len == 0) return fail_hint(why, "batchfit list runs");
    return fail_hint(why, "%.*s", STR_ARG(note)); // it was damaged, and is a new one
}

int doctor_recall(struct doctor *d, int64_t id, struct fail *why) {
    const struct history_options *o = &d->options->h;
    const struct store_filter filter = {.id = id, .limit = 1};
    struct store_run *runs = NULL;
    struct store *store;
    ptrdiff_t count = 0;
    d->source = str_format(d->arena, "run %lld", (long long)id);
    d->kind = STR("run");
    if (o->is_off)
        return fail_set(why, FAIL_USAGE, "--run is a run of the history: without --no-history");
    int rc = store_open(d->arena, store_folder(d->arena, o->store), &store, why);
    if (rc < 0) return rc;
    rc = store_find(store, d->arena, &filter, &runs, &count, why);
    struct str note = store_note(store);
    if (rc == 0 && count == 0) rc = no_such_run(id, note, why);
    if (rc == 0) {
        take_run(d, &runs[0]);
        d->read =
            str_format(d->arena, "%.*s, %.*s", STR_ARG(runs[0].kind), STR_ARG(runs[0].status));
        if (note.len > 0) str_list_add(d->arena, &d->notes, note);
    }
    store_close(store);
    return rc;
}
