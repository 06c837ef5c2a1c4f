// SPDX-License-Identifier: Apache-2.0
// The trials of a comparison: one of each side that does not count, then A B B A A B …, each begun
// when the GPU is as cool as before the first.
#include "verbs/compare/compare.h"

#include "base/out.h"
#include "machine/device/device.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { COOL_SECONDS = 60, COOL_LOOK_MS = 200 };
static const double warmer_celsius = 3; // than before the first trial that counts

struct measuring {
    struct compare *c;
    struct launch *l;
    struct history *h;
    struct show_progress progress;
    struct str now;
    int64_t done;
    double cool_celsius; // NaN: no GPU tells it
    bool was_hot;
};

static void draw(void *context, const struct steps *steps, const struct trial_outside *outside) {
    struct measuring *m = context;
    (void)steps, (void)outside;
    show_progress_set(&m->progress, m->done, m->now);
}

// --- Figures -------------------------------------------------------------------------------------

static void add_figures(struct compare_side *side, const struct launch_result *r) {
    ptrdiff_t i = side->count++;
    side->figures[COMPARE_THROUGHPUT][i] = r->samples_per_s;
    side->figures[COMPARE_TIME][i] = 1e3 / r->samples_per_s;
    side->figures[COMPARE_MEMORY][i] = r->peak_bytes > 0 ? (double)r->peak_bytes : (double)NAN;
    side->figures[COMPARE_ENERGY][i] = r->joules_per_sample;
    side->why[COMPARE_ENERGY] = r->energy_why;
    side->why[COMPARE_THROUGHPUT] = side->why[COMPARE_TIME] =
        STR("the command's steps report neither their time nor their samples");
    side->why[COMPARE_MEMORY] = STR("the device does not report memory use");
}

static void read_framework(struct compare *c, struct compare_side *side,
                           const struct launch_result *r) {
    if (r->trial.steps.rank_count == 0) return;
    const struct step_rank *rank = &r->trial.steps.ranks[0];
    side->framework = str_trim(str_format(c->arena, "%.*s %.*s", STR_ARG(rank->framework),
                                          STR_ARG(rank->framework_version)));
}

static void set_failed(struct compare *c, struct compare_side *side,
                       const struct launch_result *r) {
    side->has_failed = true;
    side->status = r->status;
    side->reason = r->reason;
    side->hint = r->hint;
    side->input_is_bad = r->status == LAUNCH_FAILED;
    if (!side->asked.is_workload) return;
    struct grid_trial trial = grid_trial_of(c->arena, &(struct launch_place){0}, r);
    grid_workload_failure(c->arena, r, &trial);
    side->reason = trial.reason;
    side->hint = trial.hint;
    side->input_is_bad = trial.input_is_bad;
}

static int check_steps(const struct compare_side *side, const struct launch_result *r,
                       struct fail *why) {
    if (r->status != LAUNCH_OK && r->status != LAUNCH_ALMOST) return 0;
    if (r->steps >= COMPARE_STEPS_LEAST) return 0;
    fail_set(why, FAIL_INPUT, "%.*s: the command ended after %lld steps, %lld of them measured",
             STR_ARG(side->name), (long long)r->made, (long long)r->steps);
    return fail_hint(why, "a figure needs at least %d: let it train longer, or use --warmup 1",
                     COMPARE_STEPS_LEAST);
}

// --- The history ---------------------------------------------------------------------------------

static void store_trial(struct measuring *m, int side, int64_t pair,
                        const struct launch_result *r) {
    const struct compare_side *s = &m->c->sides[side];
    struct store_run run = history_row(m->h, "trial", &s->plan);
    run.setting = str_format(m->c->arena, "compare, %s of pair %lld: %.*s", compare_side_name(side),
                             (long long)pair, STR_ARG(s->name));
    run.limit_bytes = m->l->place.is_capped ? m->l->place.capacity_bytes : -1;
    history_result(m->h, r, &run);
    history_add(m->h, &run);
}

// The comparison itself: a row a side, with one figure a pair, so that it can be compared again.
static void store_side(struct measuring *m, int side) {
    const struct compare *c = m->c;
    const struct compare_side *s = &c->sides[side];
    struct store_run run = history_row(m->h, "compare", &s->plan);
    struct buf each = buf_new(c->arena);
    const struct compare_result *r = c->results;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        buf_format(&each, "%s%.6g", i > 0 ? " " : "", s->figures[COMPARE_TIME][i] / 1e3);
    }
    run.setting = str_format(c->arena, "%s of %td pairs: %.*s", compare_side_name(side), c->pairs,
                             STR_ARG(s->name));
    run.status = str_of(launch_status_name(s->has_failed ? s->status : LAUNCH_OK));
    run.reason = s->reason;
    run.is_standin = c->is_standin ? 1 : m->h->base.is_standin;
    run.samples_per_s = side == COMPARE_A ? r[COMPARE_THROUGHPUT].a : r[COMPARE_THROUGHPUT].b;
    double peak = side == COMPARE_A ? r[COMPARE_MEMORY].a : r[COMPARE_MEMORY].b;
    run.peak_bytes = isnan(peak) ? -1 : (int64_t)peak;
    run.each_s = buf_str(&each);
    history_add(m->h, &run);
}

// --- Running -------------------------------------------------------------------------------------

static bool is_stopped(const struct measuring *m) {
    return m->l->interrupted && *m->l->interrupted;
}

static double temperature(const struct measuring *m) {
    if (!m->l->place.sampler) return (double)NAN;
    return device_sampler_read(m->l->place.sampler).temperature_celsius;
}

static void cool_down(struct measuring *m) {
    double limit = m->c->options->cool_seconds;
    double seconds = isnan(limit) ? COOL_SECONDS : limit;
    int64_t end = os_now_ns() + (int64_t)(seconds * 1e9);
    const struct timespec nap = {0, COOL_LOOK_MS * 1000000};
    if (isnan(m->cool_celsius)) m->cool_celsius = temperature(m);
    while (!is_stopped(m) && temperature(m) > m->cool_celsius + warmer_celsius) {
        if (os_now_ns() >= end) {
            m->was_hot = true;
            return;
        }
        nanosleep(&nap, NULL);
    }
}

static void say_trial(const struct measuring *m, const struct launch_result *r) {
    if (m->progress.is_live) return;
    out_say(stderr, "%lld of %lld: %.*s: %s", (long long)m->done, (long long)m->progress.total,
            STR_ARG(m->now), launch_status_name(r->status));
    if (r->sample_count > 0) out_say(stderr, ", %.1f samples/s", r->samples_per_s);
    out_say(stderr, ", %.1f s\n", r->trial.seconds);
}

// `pair` 0: to warm up.
static int run_trial(struct measuring *m, int index, int64_t pair, struct fail *why) {
    struct compare *c = m->c;
    struct compare_side *side = &c->sides[index];
    struct launch_result result;
    int64_t limit = m->l->place.is_capped ? m->l->place.capacity_bytes : 0;
    m->now = pair == 0
                 ? str_format(c->arena, "%s, warm-up", compare_side_name(index))
                 : str_format(c->arena, "%s, pair %lld", compare_side_name(index), (long long)pair);
    show_progress_set(&m->progress, m->done, m->now);
    m->l->command = side->asked.command;
    int rc = launch_try(m->l, &side->values, side->asked.is_workload ? side->batch : 0, limit,
                        &result, why);
    if (rc < 0) return rc;
    if (result.status == LAUNCH_INTERRUPTED) {
        c->is_interrupted = true;
        return 0;
    }
    if (result.trial.is_standin) c->is_standin = true;
    m->done++;
    say_trial(m, &result);
    read_framework(c, side, &result);
    store_trial(m, index, pair, &result);
    rc = check_steps(side, &result, why);
    if (rc < 0) return rc;
    if (result.status != LAUNCH_OK && result.status != LAUNCH_ALMOST)
        set_failed(c, side, &result);
    else if (pair > 0)
        add_figures(side, &result);
    return 0;
}

static bool has_failed(const struct compare *c) {
    return c->sides[COMPARE_A].has_failed || c->sides[COMPARE_B].has_failed;
}

// Neither side always comes after the other: A B, B A, A B, …
static int run_pair(struct measuring *m, int64_t pair, struct fail *why) {
    int first = pair > 0 && pair % 2 == 0 ? COMPARE_B : COMPARE_A, rc = 0;
    for (int k = 0; rc == 0 && k < COMPARE_SIDES; k++) {
        if (is_stopped(m)) m->c->is_interrupted = true;
        if (m->c->is_interrupted || (pair > 0 && has_failed(m->c))) return 0;
        if (pair > 0) cool_down(m);
        rc = run_trial(m, k == 0 ? first : 1 - first, pair, why);
    }
    return rc;
}

// When one side cannot run, the other is measured once, so that its figures can be told.
static int run_survivor(struct measuring *m, struct fail *why) {
    int alive = m->c->sides[COMPARE_A].has_failed ? COMPARE_B : COMPARE_A;
    const struct compare_side *side = &m->c->sides[alive];
    if (side->has_failed || side->count > 0 || m->c->is_interrupted) return 0;
    return run_trial(m, alive, 1, why);
}

// How many trials, before the first; how long they take, when the warm-up has shown it (NaN: it has
// not).
static void say_plan(const struct measuring *m, double seconds_of_pair) {
    const struct compare *c = m->c;
    if (isnan(seconds_of_pair)) {
        out_say(stderr,
                "%lld trials: a warm-up of each side, then %lld pairs; Ctrl-C stops and shows what "
                "was measured\n",
                2 * (long long)c->pairs_asked + 2, (long long)c->pairs_asked);
        return;
    }
    struct str time = show_duration(c->arena, seconds_of_pair * (double)c->pairs_asked);
    out_say(stderr, "about %.*s for the %lld pairs\n", STR_ARG(time), (long long)c->pairs_asked);
}

static int warm_up(struct measuring *m, struct fail *why) {
    int64_t began = os_now_ns();
    say_plan(m, (double)NAN);
    m->progress = show_progress_open(STDERR_FILENO, STR("compare"), 2 * m->c->pairs_asked + 2);
    int rc = run_pair(m, 0, why);
    if (rc < 0 || m->c->is_interrupted || has_failed(m->c)) return rc;
    const bool is_live = m->progress.is_live;
    if (is_live) show_progress_close(&m->progress);
    say_plan(m, (double)(os_now_ns() - began) / 1e9);
    m->progress.is_live = is_live;
    return 0;
}

static int run_all(struct measuring *m, struct fail *why) {
    struct compare *c = m->c;
    m->l->watch = draw;
    m->l->watch_context = m;
    int rc = warm_up(m, why);
    for (int64_t i = 1; rc == 0 && i <= c->pairs_asked && !c->is_interrupted && !has_failed(c);
         i++) {
        rc = run_pair(m, i, why);
    }
    if (rc == 0 && has_failed(c)) rc = run_survivor(m, why);
    show_progress_close(&m->progress);
    ptrdiff_t a = c->sides[COMPARE_A].count, b = c->sides[COMPARE_B].count;
    c->pairs = a < b ? a : b;
    return rc;
}

static void make_room(struct compare *c) {
    for (int i = 0; i < COMPARE_SIDES; i++) {
        for (int k = 0; k < COMPARE_METRICS; k++) {
            c->sides[i].figures[k] = arena_new(c->arena, double, c->pairs_asked + 2);
        }
    }
}

int compare_measure(struct compare *c, struct launch *l, struct history *h, struct fail *why) {
    struct measuring m = {.c = c, .l = l, .h = h, .cool_celsius = (double)NAN};
    int rc = 0;
    make_room(c);
    for (int i = 0; rc == 0 && i < COMPARE_SIDES; i++) rc = compare_values(c, &c->sides[i], why);
    if (rc == 0) rc = run_all(&m, why);
    if (rc < 0) return rc;
    if (m.was_hot) {
        compare_note(c,
                     STR("the GPU did not cool down between some trials (--cool-down SECONDS waits "
                         "longer)"));
    }
    compare_judge(c);
    for (int i = 0; i < COMPARE_SIDES; i++) {
        if (c->sides[i].count > 0 || c->sides[i].has_failed) store_side(&m, i);
    }
    return 0;
}
