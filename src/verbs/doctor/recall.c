// SPDX-License-Identifier: Apache-2.0
// A row of the history as doctor reads it.
#include "measure/failure/failure.h"
#include "verbs/doctor/doctor.h"

// The reason as launch words it is what the signature says already, and the program's own words.
static struct str own_words(struct str reason, const char *what) {
    struct str known = str_of(what);
    if (str_equal(reason, known)) return (struct str){0};
    if (!str_starts(reason, known) || reason.len < known.len + 2) return reason;
    return str_slice(reason, known.len + 2, reason.len);
}

static void take_run(struct doctor *d, const struct store_run *run) {
    struct cause_facts *f = &d->facts;
    f->phases = run->times;
    f->phase_steps = (ptrdiff_t)(run->steps > 0 ? run->steps : 0);
    f->utilisation = run->device_share;
    f->on_cpu = str_is(run->device, "cpu");
    f->is_fp32 |= run->plan.precision == PLAN_FP32;
    if (run->workers >= 0) f->workers = (int)run->workers;
    if (run->capacity_bytes > 0 && run->peak_bytes > 0)
        f->memory_share = (double)run->peak_bytes / (double)run->capacity_bytes;
    const struct failure_signature *row = failure_signature_named(run->ending);
    if (row && row->kind != FAILURE_CLEAN) {
        f->ending.signature = row->id;
        f->ending.what = row->what;
        f->ending.hint = row->hint;
        f->ending.line = own_words(run->reason, row->what);
        f->ending.subject = failure_subject(row, f->ending.line);
        f->ending.steps = run->made;
    }
    if (str_is(run->status, "SPILLS")) {
        struct finding *spill = arena_new(d->arena, struct finding, 1);
        *spill = (struct finding){
            .id = "trend.spill", .severity = FINDING_PROBLEM, .evidence = run->reason};
        f->trends = spill;
        f->trend_count = 1;
    }
}

int doctor_recall(struct doctor *d, int64_t id, struct fail *why) {
    const struct history_options *o = &d->options->h;
    struct store_run run;
    struct store *store;
    d->source = str_format(d->arena, "run %lld", (long long)id);
    d->kind = STR("run");
    if (o->is_off)
        return fail_set(why, FAIL_USAGE, "--run needs the history; leave out --no-history");
    int rc = store_open(d->arena, store_place(d->arena, o->store), &store, why);
    if (rc < 0) return rc;
    rc = history_run(d->arena, store, id, &run, why);
    struct str note = store_note(store);
    if (rc == 0) {
        take_run(d, &run);
        d->read = str_format(d->arena, "%.*s, %.*s", STR_ARG(run.kind), STR_ARG(run.status));
        if (note.len > 0) str_list_add(d->arena, &d->notes, note);
    }
    store_close(store);
    return rc;
}
