// SPDX-License-Identifier: Apache-2.0
// The least capacity in which a tape runs. Each replay says between which capacities its course is
// the same (cache_within), so the next capacity to try is the first one at which anything changes:
// an exact scan without a step width. It starts at the peak of live bytes, below which nothing can
// run, and ends at the peak held without limit, from which on nothing fails.
#include "predict/sim/sim_int.h"

struct scan {
    struct sim *sim;
    struct sim_saved saved;
    int32_t replays, most;
};

static bool runs_at(struct scan *s, int64_t capacity, struct sim_result *ret) {
    s->replays++;
    sim_saved_replay(&s->saved, s->sim, capacity, ret);
    return !ret->oom;
}

// By an earlier replay that met no limit (sim_replay), else by one more.
static bool runs_without_limit(struct scan *s, struct sim_result *ret) {
    if (s->sim->last.events == 0 || s->sim->last.same_below_bytes < INT64_MAX)
        return runs_at(s, SIM_UNLIMITED, ret);
    s->replays++; // so that the bound means the same
    *ret = s->sim->last;
    return !ret->oom;
}

// From `low` upward to the first capacity that does. False: the bound was reached first; *ret is
// then where the scan stopped, and everything below it fails.
static bool scan_up(struct scan *s, int64_t low, int64_t high, int64_t *ret) {
    struct sim_result r;
    for (; low < high; low = r.same_below_bytes) {
        *ret = low;
        if (s->replays >= s->most) return false;
        if (runs_at(s, low, &r)) return true;
    }
    *ret = high;
    return true;
}

// A capacity that does, with one just below it that fails, between `low` and `high` (which does):
// the least one where fit is monotone.
static int64_t crossing(struct scan *s, int64_t low, int64_t high) {
    struct sim_result r;
    while (low < high) {
        if (runs_at(s, low + (high - low) / 2, &r))
            high = r.same_from_bytes;
        else
            low = r.same_below_bytes;
    }
    return high;
}

void sim_needed(struct sim *sim, int64_t batch, int64_t classes, int32_t max_replays,
                struct sim_need *ret) {
    ARENA_AUTO scratch = {.escape = sim->arena->escape};
    struct scan s = {.sim = sim, .saved.arena = &scratch, .most = max_replays};
    sim_size_for(sim, batch, classes);
    *ret = (struct sim_need){0};
    ret->runs = runs_without_limit(&s, &ret->free);
    if (ret->runs) {
        // All that was held, and every limit that was looked at.
        int64_t low = sim_live_peak(sim, batch, classes), high = ret->free.same_from_bytes;
        ret->needed_exact = scan_up(&s, low, high, &low);
        ret->needed_bytes = ret->needed_exact ? low : crossing(&s, low, high);
    }
    ret->free.phases = NULL;
    sim->last = ret->free;
    ret->replays = s.replays;
}
