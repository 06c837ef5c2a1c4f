// SPDX-License-Identifier: Apache-2.0
// An attempt of a training that is to reach its own end, with the same values, environment and
// announcement as a trial.
#include "measure/launch/launch_int.h"

#include <math.h>

static const double start_limit_s = 600, stall_limit_s = 1800; // doc/run.md says why

struct watching {
    struct launch *l;
    struct registry_entry *entry;
};

static void show(void *context, const struct steps *steps, const struct trial_outside *outside) {
    struct watching *w = context;
    registry_steps(w->entry, steps);
    if (w->l->watch) w->l->watch(w->l->watch_context, steps, outside);
}

// 0 is no limit.
static double limit_of(double seconds, double usual_s) {
    return isnan(seconds) ? usual_s : seconds > 0 ? seconds : (double)INFINITY;
}

int launch_whole(struct launch *l, const struct launch_values *values,
                 struct launch_attempt *attempt, struct trial *ret_trial, struct fail *why) {
    struct launch_making making = launch_making_of(l, values, attempt->limit_bytes);
    struct watching watching = {.l = l};
    making.attempt = attempt;
    attempt->start_limit_s = limit_of(l->options->start_seconds, start_limit_s);
    struct trial_request request = {
        .argv = l->command,
        .prepare = launch_prepare,
        .prepare_context = &making,
        .ranks = l->options->ranks,
        .memory_limit_bytes = l->place.kind == LAUNCH_CPU ? attempt->limit_bytes : 0,
        .start_limit_s = attempt->start_limit_s,
        .stall_limit_s = limit_of(l->options->stall_seconds, stall_limit_s),
        .grace_s = attempt->grace_s,
        .watch = show,
        .watch_context = &watching,
        .whole = &attempt->whole,
    };
    l->made++;
    if (l->place.sampler) device_sampler_reset(l->place.sampler);
    watching.entry = launch_register(l, attempt->batch);
    int rc = trial_run(attempt->arena, &request, ret_trial, why);
    registry_close(watching.entry);
    return rc;
}
