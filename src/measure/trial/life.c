// SPDX-License-Identifier: Apache-2.0
// Whether a training whose steps are not seen does anything at all.
#include "measure/trial/trial_int.h"

#include <unistd.h>

// Of one CPU, since it last showed life: what timers and ranks that poll for a lost one take is
// less, and a training that hangs has them, too.
static const double TRICKLE_SHARE = .1;

// A machine that has more to do than CPUs gives a training less than that: it wants one all the
// same, at most of so many looks.
enum { LOOKS_LEAST = 20 };

static bool wants_cpu(struct life *l, const struct tree *t) {
    bool is_runnable = false;
    for (int i = 0; i < t->count; i++) is_runnable |= t->items[i].is_runnable;
    l->looks++;
    l->runnable += is_runnable;
    return l->looks >= LOOKS_LEAST && 2 * l->runnable > l->looks;
}

// Pages that it got since it last showed more than a busy CPU: ranks that ask each other for ever,
// as NCCL's do, get none; what compiles, loads or computes gets them by the thousand.
static const int64_t FAULTS_LEAST = 256;

static int64_t faults_of(const struct tree *t) {
    int64_t faults = 0;
    for (int i = 0; i < t->count; i++) faults += t->items[i].faults;
    return faults;
}

static void see_more(struct life *l, const struct tree *t, bool speaks, int64_t now_ns) {
    int64_t faults = faults_of(t);
    bool is_more = speaks || t->count != l->processes || faults > l->faults + FAULTS_LEAST;
    if (!is_more) return;
    l->more_ns = now_ns;
    l->faults = faults;
    l->processes = t->count;
}

void trial_life_see(struct life *l, const struct tree *t, int64_t output_bytes, int64_t line_ns,
                    int64_t now_ns) {
    int64_t ticks = trial_tree_ticks(t);
    if (ticks < l->ticks) l->ticks = ticks; // a process has left the tree
    double used_s = (double)(ticks - l->ticks) / (double)sysconf(_SC_CLK_TCK);
    bool works = used_s > TRICKLE_SHARE * (double)(now_ns - l->ns) / 1e9 || wants_cpu(l, t);
    bool speaks = output_bytes > l->output_bytes || line_ns > l->ns;
    l->looked_ns = now_ns;
    see_more(l, t, speaks, now_ns);
    if (!works && !speaks) return;
    l->looks = l->runnable = 0;
    l->ns = now_ns;
    l->ticks = ticks;
    l->output_bytes = output_bytes;
}
