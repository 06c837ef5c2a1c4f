// SPDX-License-Identifier: Apache-2.0
// Causes that make a training slow, and the loss that is no number.
#include "machine/cause/cause_int.h"

#include "stats/stats.h"

#include <math.h>

// The team's guide (its section on reading the benchmark): more than 30 ms of waiting for data is
// too much, and less than 70 % of the GPU is little. A wait of 30 ms in a step of seconds is none,
// so it must be a tenth as well.
static const double io_ms_most = 30, io_share_least = 0.1, io_share_most = 0.3, well_used = 0.7;
static const double compute_share = 0.7, other_share = 0.3, copy_share = 0.15;

static bool is_idle(const struct cause_facts *f) {
    return f->utilisation < well_used; // false for NaN
}

bool cause_loading(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    double share = p->io_ms / p->total_ms;
    if (!(share >= io_share_most || (p->io_ms > io_ms_most && share >= io_share_least)))
        return false;
    struct buf b = buf_new(v->arena);
    buf_format(
        &b, "%.1f ms (%.0f %%) of a step of %.1f ms is spent waiting for data, median of %td steps",
        p->io_ms, 100 * share, p->total_ms, v->facts->phase_steps);
    if (!isnan(v->facts->utilisation))
        buf_format(&b, "; the GPU is busy %.0f %% of the time", 100 * v->facts->utilisation);
    return cause_say(c, cause_measured(v->facts->phase_steps), buf_str(&b));
}

// Nothing to say of a run that is known to get its data in time.
bool cause_no_workers(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    bool waits = p->io_ms / p->total_ms >= io_share_least;
    if (v->facts->workers != 0 || !(waits || is_idle(v->facts))) return false;
    return cause_say(c, waits ? CAUSE_MEASURED : CAUSE_CONSISTENT,
                     v->facts->on_cpu
                         ? STR("the config has 0 loader workers, and the training waits")
                         : STR("the config has 0 loader workers, and the GPU waits"));
}

bool cause_pin(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    double share = p->h2d_ms / p->total_ms;
    if (!(share >= copy_share)) return false;
    return cause_tell(
        v, c,
        v->facts->pin_memory_is_off ? cause_measured(v->facts->phase_steps) : CAUSE_CONSISTENT,
        "%.1f ms (%.0f %%) of a step of %.1f ms is spent copying the batch%s", p->h2d_ms,
        100 * share, p->total_ms, v->facts->pin_memory_is_off ? ", and pin_memory is off" : "");
}

// That a training computes is no fault: only with a known way to compute less.
bool cause_compute(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    double share = (p->forward_ms + p->backward_ms) / p->total_ms;
    if (!v->facts->is_fp32 || !(share > compute_share)) return false;
    return cause_tell(v, c, cause_measured(v->facts->phase_steps),
                      "forward and backward take %.0f %% of a step of %.1f ms, in fp32",
                      100 * share, p->total_ms);
}

// Some hundred kernels of 10 us launch time each: below 20 ms the CPU is the pace.
bool cause_small(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    if (!is_idle(v->facts) || p->io_ms / p->total_ms >= io_share_most) return false;
    if (p->total_ms < 20) {
        return cause_tell(v, c, cause_measured(v->facts->phase_steps),
                          "a step takes %.1f ms, and the GPU is busy %.0f %% of the time",
                          p->total_ms, 100 * v->facts->utilisation);
    }
    // The guide again: less than 60 % of the memory in use leaves room for a larger batch.
    if (!(v->facts->memory_share < 0.6)) return false;
    return cause_tell(v, c, CAUSE_CONSISTENT,
                      "the GPU is busy %.0f %% of the time, %.0f %% of its memory is in use",
                      100 * v->facts->utilisation, 100 * v->facts->memory_share);
}

// Where no step tells for what it waits.
bool cause_idle(const struct cause_view *v, struct cause *c) {
    const struct finding *f = cause_trend(v);
    if (f) return cause_say(c, CAUSE_MEASURED, f->evidence);
    if (!is_idle(v->facts) || !isnan(v->facts->phases.io_ms)) return false;
    return cause_tell(v, c, cause_measured(v->facts->gauge_count),
                      "busy %.0f %% of the time, median of %td readings",
                      100 * v->facts->utilisation, v->facts->gauge_count);
}

bool cause_sync(const struct cause_view *v, struct cause *c) {
    const struct step_times *p = &v->facts->phases;
    double share = p->other_ms / p->total_ms;
    if (!(share >= other_share)) return false;
    return cause_tell(v, c, cause_measured(v->facts->phase_steps),
                      "%.0f %% of a step of %.1f ms is neither data, model nor "
                      "optimizer, median of %td steps",
                      100 * share, p->total_ms, v->facts->phase_steps);
}

// --- Steps that became slower ---

enum {
    SPLITS = 64,
    SIDE_LEAST = 5,
    SPILL_TIMES = 8, // the team's guide: 10 to 20 times slower; a smoothed rate shows less
};
static const double slower_least = 3;

// Whether steps became slower and stayed so, from where on and how many times.
// The place with the largest ratio of the medians behind and before it, which stays to the end:
// nine of ten behind it are slower than nine of ten before it, by half of that at least.
static bool find_slowdown(const struct cause_view *v, struct cause *c, double *ret_times) {
    const struct cause_facts *f = v->facts;
    ptrdiff_t best = 0, n = f->time_count;
    double most = 0;
    for (int i = 1; i < SPLITS; i++) {
        ptrdiff_t at = n * i / SPLITS;
        if (at < SIDE_LEAST || n - at < SIDE_LEAST) continue;
        double times = stats_median(f->times_ms + at, n - at) / stats_median(f->times_ms, at);
        if (times > most) most = times, best = at;
    }
    if (most < slower_least) return false;
    // The exact place lies between two splits: it is the first that is slower.
    double before = stats_median(f->times_ms, best),
           after = stats_median(f->times_ms + best, n - best);
    while (best > SIDE_LEAST && f->times_ms[best - 1] > sqrt(before * after)) best--;
    while (best < n - SIDE_LEAST && f->times_ms[best] < sqrt(before * after)) best++;
    double fastest = stats_quantile(f->times_ms + best, n - best, 0.1);
    if (fastest < slower_least / 2 * stats_quantile(f->times_ms, best, 0.9)) return false;
    struct stats_interval i = stats_median_interval(f->times_ms + best, n - best, 0.95, 1);
    c->line = f->at_is_line ? f->times_at[best] : 0;
    *ret_times = after / before;
    return cause_tell(v, c, n >= CAUSE_READINGS ? CAUSE_MEASURED : CAUSE_BRIEFLY,
                      "from %s %lld on, a step takes %.4g ms (95 %%: %.4g to %.4g), before %.4g "
                      "ms: %.1f times slower",
                      f->at_is_line ? "line" : "step", (long long)f->times_at[best], after, i.low,
                      i.high, before, after / before);
}

// Counted where memory ran out with more of it in use than the GPU has, measured where the GPU was
// seen to be full, consistent where only the steps tell.
bool cause_spill(const struct cause_view *v, struct cause *c) {
    if (v->facts->ending.is_spilled) return cause_quote(v, c, CAUSE_COUNTED, cause_figures(v).p);
    struct cause_view spill = *v;
    struct cause slow = {0};
    spill.trends = "trend.spill";
    const struct finding *f = cause_trend(&spill);
    if (f) return cause_say(c, CAUSE_MEASURED, f->evidence);
    double times = 0;
    if (!find_slowdown(v, &slow, &times) || times < SPILL_TIMES) return false;
    bool is_full = v->facts->memory_share >= 0.95;
    struct str evidence = slow.evidence;
    if (is_full) {
        evidence = str_format(v->arena, "%.*s; %.0f %% of the GPU's memory in use",
                              STR_ARG(evidence), 100 * v->facts->memory_share);
    }
    c->line = slow.line;
    return cause_say(c, is_full ? CAUSE_MEASURED : CAUSE_AMBIGUOUS, evidence);
}

bool cause_slowed(const struct cause_view *v, struct cause *c) {
    double times = 0;
    struct cause spill = {0};
    return find_slowdown(v, c, &times) && !cause_spill(v, &spill);
}

// fp16's scaler halves its scale at every overflow; at its end there is nothing left to halve.
static bool collapsed(const struct cause_facts *f, const struct cause_view *v, struct cause *c) {
    c->what = "the loss scale has collapsed: the gradients overflow at every step";
    c->quote = str_trim(f->scale_text);
    c->line = f->scale_line;
    return cause_tell(v, c, CAUSE_AMBIGUOUS, "line %lld: %.*s", (long long)f->scale_line,
                      STR_ARG(c->quote));
}

bool cause_nan(const struct cause_view *v, struct cause *c) {
    const struct cause_facts *f = v->facts;
    struct str end = str_of(f->ending.signature);
    bool ended_so = str_equal(end, STR("loss-nan")) || str_equal(end, STR("loss-scale"));
    if (f->nan_count == 0 && ended_so) return cause_quote(v, c, CAUSE_SAID, NULL);
    if (f->nan_count == 0) return f->scale_line > 0 && collapsed(f, v, c);
    struct buf b = buf_new(v->arena);
    if (f->nan_line > 0) buf_format(&b, "line %lld: ", (long long)f->nan_line);
    buf_add(&b, str_trim(f->nan_text));
    buf_format(&b, " (the first of %lld%s)", (long long)f->nan_count,
               f->loss_recovered ? "; later ones were finite" : "");
    c->quote = str_trim(f->nan_text);
    c->line = f->nan_line;
    bool is_sure = ended_so || !f->loss_recovered;
    return cause_say(c, is_sure ? CAUSE_SAID : CAUSE_AMBIGUOUS, buf_str(&b));
}

// A verdict over time says it already.
bool cause_told(const struct cause_view *v, struct cause *c) {
    const struct finding *f = cause_trend(v);
    if (!f) return false;
    if (f->remedy.len > 0) c->remedy = f->remedy;
    return cause_say(c, c->strength, f->evidence);
}
