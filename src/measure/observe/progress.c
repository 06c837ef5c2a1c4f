// SPDX-License-Identifier: Apache-2.0
// What the processes of a run did, in memory that does not grow: sums of each rank, and the newest
// steps of the slowest, the one with the fewest. Steps of registered runs carry how many came
// before them, so a file that is begun again counts nothing twice.
#include "measure/observe/observe_int.h"

#include "base/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER = OBSERVE_STEPS + OBSERVE_STEPS / 8, SHOWN = 32, LEAD = 3 };
// Energy counters step about ten times a second (hardware: ~100 ms on recent GPUs), so shorter
// stretches are mostly their grain; longer ones than this are history.
static const double joule_seconds_least = 2, joule_seconds_most = 60;

void observe_progress_open(struct progress *p, struct arena *a) {
    p->steps = arena_new(a, struct trend_step, BUFFER);
    observe_progress_reset(p);
}

void observe_progress_reset(struct progress *p) {
    *p = (struct progress){.followed = -1, .steps = p->steps};
}

static struct progress_rank *rank_of(struct progress *p, int rank) {
    for (int i = 0; i < p->rank_count; i++) {
        if (p->ranks[i].rank == rank) return &p->ranks[i];
    }
    if (p->rank_count == PROGRESS_RANKS) return NULL;
    struct progress_rank *r = &p->ranks[p->rank_count++];
    *r = (struct progress_rank){.rank = rank, .pid = -1};
    for (int i = 0; i < PROGRESS_RECENT; i++) {
        r->recent_ms[i] = r->recent_samples[i] = (double)NAN;
    }
    return r;
}

static void keep_step(struct progress *p, const struct step *s, int64_t at_ns) {
    if (p->count == OBSERVE_STEPS) {
        double oldest = p->steps[p->begin].allocated_bytes;
        if (oldest > p->earlier_most_bytes) p->earlier_most_bytes = oldest;
        p->begin++;
        p->count--;
    }
    if (p->begin + p->count == BUFFER) {
        memmove(p->steps, p->steps + p->begin, (size_t)p->count * sizeof *p->steps);
        p->begin = 0;
    }
    ptrdiff_t at = p->begin + p->count++;
    // Times do not go back, whatever was guessed.
    if (p->count > 1 && at_ns <= p->steps[at - 1].at_ns) at_ns = p->steps[at - 1].at_ns + 1;
    p->steps[at] = (struct trend_step){
        .at_ns = at_ns,
        .allocated_bytes = s->allocated_bytes >= 0 ? (double)s->allocated_bytes : (double)NAN,
        .samples = s->samples >= 0 ? (double)s->samples : (double)NAN,
        .times = s->times,
    };
    p->last_ns = at_ns;
}

// False: it was taken in before.
static bool count_step(struct progress *p, struct progress_rank *r, const struct step *s) {
    if (s->made >= 0 && s->made <= r->made) return false;
    if (r->made == 0 && s->made < 0 && s->number > 1) { // we came late
        r->made = s->number - 1;
        p->is_partial = true;
    }
    int at = (int)(r->made % PROGRESS_RECENT);
    r->made = s->made >= 0 ? s->made : r->made + 1;
    r->samples =
        s->made_samples >= 0 ? s->made_samples : r->samples + (s->samples > 0 ? s->samples : 0);
    r->recent_ms[at] = s->times.total_ms;
    r->recent_samples[at] = s->samples >= 0 ? (double)s->samples : (double)NAN;
    r->state = STEPS_RANK_STARTED;
    unit_keep_most(&r->retries, s->alloc_retries);
    return true;
}

// The rank with the fewest steps; another takes its place only when it is clearly behind.
static void choose_followed(struct progress *p) {
    const struct progress_rank *now = NULL, *least = NULL;
    for (int i = 0; i < p->rank_count; i++) {
        const struct progress_rank *r = &p->ranks[i];
        if (r->rank == p->followed) now = r;
        if (r->made > 0 && (!least || r->made < least->made)) least = r;
    }
    if (!least || (now && now->made > 0 && now->made < least->made + LEAD)) return;
    p->followed = least->rank;
    p->begin = p->count = 0;
}

static int64_t time_of(const struct progress_clock *clock, const struct step *s, int64_t guess_ns) {
    if (isnan(s->t_s)) return guess_ns;
    double at = s->t_s * clock->t_to_ns + clock->t_offset_ns;
    return at > 0 && at < 9e18 ? (int64_t)at : guess_ns;
}

static void take_ranks(struct progress *p, const struct steps *steps) {
    unit_keep_most(&p->world, steps->world);
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) {
        const struct step_rank *seen = &steps->ranks[i];
        struct progress_rank *r = rank_of(p, seen->rank);
        if (!r) continue;
        if (seen->pid >= 0) r->pid = seen->pid;
        r->state = seen->state;
        p->is_standin |= str_is(seen->framework, "standin");
        if (seen->device.len) snprintf(p->device, sizeof p->device, "%.*s", STR_ARG(seen->device));
    }
}

// Of the rank that is followed: how long all of its steps from the one at `first` on took.
static double ms_after(const struct progress *p, const struct steps *steps, ptrdiff_t first) {
    double ms = 0;
    for (ptrdiff_t i = first; i < steps->count; i++) {
        const struct step *s = &steps->items[i];
        if (s->rank == p->followed && s->times.total_ms > 0) ms += s->times.total_ms;
    }
    return ms;
}

void observe_progress_add(struct progress *p, const struct steps *steps,
                          const struct progress_clock *clock) {
    if (p->followed < 0 && steps->count > 0) p->followed = steps->items[0].rank;
    double left_ms = ms_after(p, steps, 0);
    for (ptrdiff_t i = 0; i < steps->count; i++) {
        const struct step *s = &steps->items[i];
        struct progress_rank *r = rank_of(p, s->rank);
        bool is_followed = s->rank == p->followed;
        if (is_followed && s->times.total_ms > 0) left_ms -= s->times.total_ms;
        if (!r || !count_step(p, r, s) || !is_followed) continue;
        keep_step(p, s,
                  time_of(clock, s, clock->now_ns - (int64_t)(fmin(fmax(left_ms, 0), 1e9) * 1e6)));
    }
    take_ranks(p, steps);
    choose_followed(p);
}

// --- Shown ---------------------------------------------------------------------------------------

struct mean {
    double sum;
    int count;
};
static void mean_add(struct mean *m, double value) {
    if (!isnan(value)) m->sum += value, m->count++;
}
static double mean_get(struct mean m) {
    return m.count ? m.sum / m.count : (double)NAN;
}

static struct step_times phases_of(const struct progress *p) {
    struct step_times means;
    ptrdiff_t end = p->begin + p->count, begin = p->count > SHOWN ? end - SHOWN : p->begin;
    for (int t = 0; t < STEP_TIME_COUNT; t++) {
        struct mean mean = {0};
        for (ptrdiff_t i = begin; i < end; i++) mean_add(&mean, p->steps[i].times.ms[t]);
        means.ms[t] = mean_get(mean);
    }
    return means;
}

static double samples_per_s(const struct progress *p) {
    double all = 0;
    for (int i = 0; i < p->rank_count; i++) {
        struct mean ms = {0}, samples = {0};
        for (int k = 0; k < PROGRESS_RECENT; k++) {
            mean_add(&ms, p->ranks[i].recent_ms[k]);
            mean_add(&samples, p->ranks[i].recent_samples[k]);
        }
        if (p->ranks[i].made > 0) all += mean_get(samples) / mean_get(ms) * 1e3;
    }
    return all > 0 && isfinite(all) ? all : (double)NAN;
}

static double usual_ms(const struct progress *p) {
    double total = phases_of(p).total_ms;
    return isnan(total) ? 0 : total;
}

enum observe_run_state observe_progress_state(const struct progress *p, int64_t now_ns) {
    int ended = 0;
    for (int i = 0; i < p->rank_count; i++) ended += p->ranks[i].state >= STEPS_RANK_ENDED_WELL;
    if (p->rank_count > 0 && ended == p->rank_count) return OBSERVE_RUN_ENDED;
    if (p->count == 0) return OBSERVE_RUN_STARTS;
    double quiet_ms = fmax(10 * usual_ms(p), 5000);
    return (double)(now_ns - p->last_ns) / 1e6 > quiet_ms ? OBSERVE_RUN_QUIET : OBSERVE_RUN_STEPS;
}

void observe_progress_show(const struct progress *p, struct observe_run *run) {
    run->ranks = p->world > p->rank_count ? p->world : p->rank_count;
    run->steps_done = run->samples_done = run->alloc_retries = 0;
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < p->rank_count; i++) {
        const struct progress_rank *r = &p->ranks[i];
        if (r->made > 0 && r->made < fewest) fewest = r->made;
        run->samples_done += r->samples;
        run->alloc_retries += r->retries;
    }
    if (fewest != INT64_MAX) run->steps_done = fewest;
    if (p->is_partial) run->samples_done = -1;
    run->phases = phases_of(p);
    run->samples_per_s = samples_per_s(p);
    run->steps = p->steps + p->begin;
    run->step_count = p->count;
}

// --- Energy --------------------------------------------------------------------------------------

// The counter at a moment between two readings; NaN: there are none, or it was reset.
static double joules_at(const struct device_gauges *h, ptrdiff_t count, int64_t at_ns) {
    for (ptrdiff_t i = count - 1; i > 0; i--) {
        if (h[i - 1].at_ns > at_ns) continue;
        if (h[i].at_ns < at_ns || h[i].energy_joules < h[i - 1].energy_joules) return (double)NAN;
        double part = (double)(at_ns - h[i - 1].at_ns) / (double)(h[i].at_ns - h[i - 1].at_ns);
        return h[i - 1].energy_joules + part * (h[i].energy_joules - h[i - 1].energy_joules);
    }
    return (double)NAN;
}

double observe_progress_samples_per_joule(const struct progress *p,
                                          const struct device_gauges *history, ptrdiff_t count) {
    if (p->count < 2 || count < 2) return (double)NAN;
    const struct trend_step *steps = p->steps + p->begin;
    ptrdiff_t last = p->count - 1;
    while (last > 0 && steps[last].at_ns > history[count - 1].at_ns) last--;
    ptrdiff_t first = last;
    double samples = 0;
    for (; first > 0 && steps[first - 1].at_ns >= history[0].at_ns; first--) {
        if ((double)(steps[last].at_ns - steps[first - 1].at_ns) > joule_seconds_most * 1e9) break;
        samples += steps[first].samples;
    }
    double seconds = (double)(steps[last].at_ns - steps[first].at_ns) * 1e-9;
    double joules = joules_at(history, count, steps[last].at_ns) -
                    joules_at(history, count, steps[first].at_ns);
    return seconds >= joule_seconds_least && joules > 0 ? samples / joules : (double)NAN;
}
