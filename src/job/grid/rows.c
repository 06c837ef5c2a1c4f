// SPDX-License-Identifier: Apache-2.0
// From trials to rows, from rows to the best ones, and what holds a setting back. The thresholds
// are those that teams use for their own scripts: memory 60 to 80 % of the GPU, utilisation from
// 70 %, 30 ms of waiting for data.
#include "job/grid/grid.h"

#include "base/unit.h"
#include "predict/search/search.h"

#include <math.h>
#include <string.h>

static const double level = 0.95;      // of every interval
static const double tolerance = 0.02;  // within so much of the best, a smaller batch is as good
static const double safe_share = 0.85; // of the memory, for a long training
static const double gb = 1e9;
static const double rounding = 1e-9; // sums of the same steps in another order
enum { SEED = 20261121 };

const char *grid_status_name(int status) {
    static const char *const own[GRID_STATUSES] = {
        [GRID_SKIPPED] = "SKIPPED", [GRID_DIFFERS] = "DIFFERS", [GRID_ABSENT] = "NOT INSTALLED"};
    return own[status] ? own[status] : launch_status_name((enum launch_status)status);
}

// --- Trials into rows ----------------------------------------------------------------------------

static bool is_users_fault(const struct trial *t) {
    if (t->end == FAILURE_NO_START || t->end == FAILURE_ENOUGH || !t->ending.signature) return true;
    enum failure_class kind = t->ending.signature->kind;
    return kind == FAILURE_CRASH || kind == FAILURE_LIMIT || kind == FAILURE_CLEAN;
}

struct grid_trial grid_trial_of(struct arena *a, const struct launch_place *place,
                                const struct launch_result *r) {
    struct grid_trial t = {
        .status = r->status,
        .reason = str_copy(a, r->reason),
        .hint = str_copy(a, r->hint),
        .input_is_bad = r->status == LAUNCH_FAILED && is_users_fault(&r->trial),
        .last_lines =
            r->status == LAUNCH_FAILED ? str_copy(a, r->trial.ending.last_lines) : (struct str){0},
        .steps = r->steps,
        .seen_batch = r->seen_batch,
        .peak_bytes = r->peak_bytes,
        // Without a limit of ours nothing counts but what is used.
        .charged_bytes = place->is_capped ? r->charged_bytes : r->peak_bytes,
        .times = r->times,
        .device_share = r->device_share,
        .sample_count = r->sample_count,
    };
    t.seconds_per_sample = arena_new(a, double, r->sample_count + 1);
    for (ptrdiff_t i = 0; i < r->sample_count; i++) {
        t.seconds_per_sample[i] = r->seconds_per_sample[i];
    }
    return t;
}

static bool has_figures(const struct grid_trial *t) {
    return (t->status == LAUNCH_OK || t->status == LAUNCH_ALMOST || t->status == LAUNCH_SPILLS) &&
           t->sample_count > 0;
}

// A setting is as good as its worst trial.
static int status_of(const struct grid_trial *t) {
    if (t->is_absent) return GRID_ABSENT;
    if (t->status == LAUNCH_OK || t->status == LAUNCH_ALMOST)
        return t->differs ? (int)GRID_DIFFERS : (int)LAUNCH_OK;
    return t->status == LAUNCH_INTERRUPTED ? LAUNCH_UNTRIED : t->status;
}

static int badness(int status) {
    static const int of[GRID_STATUSES] = {
        [LAUNCH_OK] = 1,   [GRID_DIFFERS] = 2,  [LAUNCH_SPILLS] = 3,
        [GRID_ABSENT] = 4, [LAUNCH_FAILED] = 5, [LAUNCH_OOM] = 6,
    };
    return of[status];
}

// Means over all steps of all trials, so that the parts go on adding up to the whole.
static double pooled(const struct grid_row *row, ptrdiff_t time) {
    double sum = 0, steps = 0;
    for (ptrdiff_t i = 0; i < row->trial_count; i++) {
        const struct grid_trial *t = &row->trials[i];
        double ms = time < 0 ? t->device_share : t->times.ms[time];
        if (!has_figures(t) || isnan(ms)) continue;
        sum += ms * (double)t->steps;
        steps += (double)t->steps;
    }
    return steps > 0 ? sum / steps : (double)NAN;
}

static void pool_throughput(struct arena *a, struct grid_row *row) {
    ptrdiff_t count = 0, n = 0;
    for (ptrdiff_t i = 0; i < row->trial_count; i++) count += row->trials[i].sample_count;
    double *each = arena_new(a, double, count + 1);
    for (ptrdiff_t i = 0; i < row->trial_count; i++) {
        const struct grid_trial *t = &row->trials[i];
        if (!has_figures(t)) continue;
        memcpy(each + n, t->seconds_per_sample, (size_t)t->sample_count * sizeof *each);
        n += t->sample_count;
    }
    row->seconds_per_sample = each;
    row->sample_count = n;
    row->samples_per_s = n > 0 ? 1 / stats_mean(each, n) : (double)NAN;
    struct stats_interval slow = stats_mean_interval(each, n, level, SEED);
    row->samples_per_s_ci = (struct stats_interval){1 / slow.high, 1 / slow.low};
}

void grid_row_add(struct arena *a, struct grid_row *row, const struct grid_trial *trial) {
    *arena_push(a, &row->trials, &row->trial_count, &row->trial_capacity) = *trial;
    int status = status_of(trial);
    if (badness(status) > badness(row->status)) {
        row->status = status;
        row->reason = trial->reason;
        row->hint = trial->hint;
        row->last_lines = trial->last_lines;
        row->input_is_bad = trial->input_is_bad;
    }
    if (trial->status == LAUNCH_ALMOST) row->is_almost_out = true;
    if (trial->engine_version.len > 0) row->engine_version = trial->engine_version;
    bool is_further = !(trial->outputs.max_rel <= row->outputs.max_rel);
    if (trial->outputs.is_said && (!row->outputs.is_said || is_further)) {
        row->outputs = trial->outputs;
    }
    row->steps = 0;
    row->seen_batch = row->peak_bytes = row->charged_bytes = -1;
    for (ptrdiff_t i = 0; i < row->trial_count; i++) {
        const struct grid_trial *t = &row->trials[i];
        if (has_figures(t)) row->steps += t->steps;
        unit_keep_most(&row->seen_batch, t->seen_batch);
        if (!has_figures(t)) continue;
        unit_keep_most(&row->peak_bytes, t->peak_bytes);
        unit_keep_most(&row->charged_bytes, t->charged_bytes);
    }
    for (ptrdiff_t i = 0; i < STEP_TIME_COUNT; i++) row->times.ms[i] = pooled(row, i);
    row->device_share = pooled(row, -1);
    pool_throughput(a, row);
}

// --- The best ------------------------------------------------------------------------------------

// Rows of one combination that have figures; their indexes into *ret_rows.
static ptrdiff_t measured_rows(struct arena *a, const struct grid_rows *rows, ptrdiff_t combination,
                               ptrdiff_t **ret_rows) {
    ptrdiff_t n = 0;
    *ret_rows = arena_new(a, ptrdiff_t, rows->count + 1);
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        const struct grid_row *r = &rows->items[i];
        bool is_there = r->setting.combination == combination && r->sample_count > 0;
        if (is_there && r->status == LAUNCH_OK) (*ret_rows)[n++] = i;
    }
    return n;
}

void grid_mark_spills(struct arena *a, struct grid_rows *rows, int64_t capacity_bytes) {
    if (capacity_bytes <= 0) return;
    ptrdiff_t last = rows->count > 0 ? rows->items[rows->count - 1].setting.combination : -1;
    for (ptrdiff_t c = 0; c <= last; c++) {
        ptrdiff_t *which, n = measured_rows(a, rows, c, &which);
        struct search_seen *seen = arena_new(a, struct search_seen, n + 1);
        for (ptrdiff_t i = 0; i < n; i++) {
            const struct grid_row *r = &rows->items[which[i]];
            seen[i] = (struct search_seen){
                .value = r->setting.batch,
                .outcome = r->is_almost_out ? SEARCH_ALMOST : SEARCH_FITS,
                .bytes = r->charged_bytes > 0 ? (double)r->charged_bytes : (double)NAN,
                .seconds_per_item = 1 / r->samples_per_s,
            };
        }
        search_mark_spills(seen, n, (double)capacity_bytes);
        for (ptrdiff_t i = 0; i < n; i++) {
            struct grid_row *r = &rows->items[which[i]];
            if (seen[i].outcome != SEARCH_SPILLS) continue;
            r->status = LAUNCH_SPILLS;
            r->reason = STR("many times slower once memory is full: it runs out of host memory");
        }
    }
}

double grid_share_of(const struct grid_row *row, int64_t capacity_bytes) {
    if (row->charged_bytes <= 0 || capacity_bytes <= 0) return (double)NAN;
    return (double)row->charged_bytes / (double)capacity_bytes;
}

int64_t grid_batch_of(const struct grid_row *row) {
    return row->setting.batch > 0 ? row->setting.batch : row->seen_batch > 0 ? row->seen_batch : 0;
}

static double batch_of(const struct grid_row *row) {
    int64_t batch = grid_batch_of(row);
    return batch > 0 ? (double)batch : (double)NAN;
}

double grid_batch_ms(const struct grid_row *row, double quantile) {
    if (row->sample_count == 0) return (double)NAN;
    return 1e3 * batch_of(row) *
           stats_quantile(row->seconds_per_sample, row->sample_count, quantile);
}

double grid_p99_ms(const struct grid_row *row) {
    return row->sample_count >= 100 ? grid_batch_ms(row, 0.99) : (double)NAN;
}

struct stats_interval grid_median_ms(const struct grid_row *row) {
    struct stats_interval each =
        stats_median_interval(row->seconds_per_sample, row->sample_count, level, SEED);
    double batch_ms = 1e3 * batch_of(row);
    return (struct stats_interval){each.low * batch_ms, each.high * batch_ms};
}

double grid_efficiency(const struct grid_row *row) {
    return row->peak_bytes > 0 ? row->samples_per_s / ((double)row->peak_bytes / gb) : (double)NAN;
}

static double throughput_of(const struct grid_row *row) {
    return row->samples_per_s;
}

static bool is_safe(const struct grid_row *row, int64_t capacity_bytes) {
    return !row->is_almost_out && !(grid_share_of(row, capacity_bytes) > safe_share);
}

// The row with the highest figure, of equal ones the first; -1: none has one.
static ptrdiff_t highest(const struct grid_rows *rows, double (*figure)(const struct grid_row *),
                         int64_t safe_capacity_bytes) {
    ptrdiff_t best = -1;
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        const struct grid_row *r = &rows->items[i];
        if (r->status != LAUNCH_OK || isnan(figure(r))) continue;
        if (safe_capacity_bytes >= 0 && !is_safe(r, safe_capacity_bytes)) continue;
        if (best < 0 || figure(r) > figure(&rows->items[best]) * (1 + rounding)) best = i;
    }
    return best;
}

// The smallest batch that is as fast as the best, with everything else as the best has it.
static ptrdiff_t smallest_as_good(struct arena *a, const struct grid_rows *rows, ptrdiff_t best,
                                  int64_t capacity_bytes, bool *ret_is_certain) {
    ptrdiff_t *which, n = 0;
    ptrdiff_t all = measured_rows(a, rows, rows->items[best].setting.combination, &which);
    struct stats_setting *settings = arena_new(a, struct stats_setting, all + 1);
    for (ptrdiff_t i = 0; i < all; i++) {
        const struct grid_row *r = &rows->items[which[i]];
        if (which[i] != best && !is_safe(r, capacity_bytes)) continue;
        which[n] = which[i];
        settings[n++] =
            (struct stats_setting){r->setting.batch, r->seconds_per_sample, r->sample_count};
    }
    struct stats_knee knee = stats_find_knee(settings, n, tolerance, level, SEED);
    *ret_is_certain = knee.is_certain;
    return knee.knee >= 0 ? which[knee.knee] : best;
}

struct grid_best grid_pick(struct arena *a, const struct grid_rows *rows, int64_t capacity_bytes) {
    struct grid_best best = {.throughput = highest(rows, throughput_of, -1),
                             .efficiency = highest(rows, grid_efficiency, -1),
                             .recommended = highest(rows, throughput_of, capacity_bytes)};
    best.is_safe = best.recommended >= 0;
    // Nothing is safe: of what runs, what leaves most room.
    if (!best.is_safe) {
        for (ptrdiff_t i = 0; i < rows->count; i++) {
            const struct grid_row *r = &rows->items[i];
            if (r->status != LAUNCH_OK) continue;
            if (best.recommended < 0 ||
                r->charged_bytes < rows->items[best.recommended].charged_bytes) {
                best.recommended = i;
            }
        }
        return best;
    }
    best.recommended =
        smallest_as_good(a, rows, best.recommended, capacity_bytes, &best.is_certain);
    return best;
}

// --- Diagnosis -----------------------------------------------------------------------------------

// What a rule looks at: shares of the step and of the memory, NaN where not known, which no
// comparison passes.
struct view {
    const struct grid_row *row;
    double io, io_ms, compute, optimizer, other, device, memory, spread;
    bool is_largest, may_use_amp; // AMP was not tried
};

static bool is_largest_batch(const struct grid_rows *rows, const struct grid_row *row) {
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        const struct grid_row *r = &rows->items[i];
        bool is_same = r->setting.combination == row->setting.combination;
        if (is_same && r->setting.batch > row->setting.batch && r->status != LAUNCH_UNTRIED) {
            return false;
        }
    }
    return true;
}

static bool tried_amp(const struct grid_rows *rows) {
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        if (rows->items[i].setting.precision > PLAN_FP32) return true;
    }
    return false;
}

static struct view view_of(const struct grid_rows *rows, const struct grid_row *r,
                           int64_t capacity_bytes) {
    const struct step_times *t = &r->times;
    return (struct view){
        .row = r,
        .io = t->io_ms / t->total_ms,
        .io_ms = t->io_ms,
        .compute = t->forward_ms / t->total_ms + t->backward_ms / t->total_ms,
        .optimizer = t->optimizer_ms / t->total_ms,
        .other = t->other_ms / t->total_ms + (isnan(t->h2d_ms) ? 0 : t->h2d_ms / t->total_ms),
        .device = r->device_share,
        .memory = grid_share_of(r, capacity_bytes),
        .spread = (r->samples_per_s_ci.high - r->samples_per_s_ci.low) / 2 / r->samples_per_s,
        .is_largest = is_largest_batch(rows, r),
        .may_use_amp = r->setting.precision <= PLAN_FP32 && !tried_amp(rows),
    };
}

struct rule {
    const char *id;
    enum grid_level level;
    bool is_so;
    struct str evidence;
    const char *what, *remedy;
    bool is_of_inference; // holds for it as well as for a training
};

void grid_diagnose(struct arena *a, const struct grid_rows *rows, ptrdiff_t row,
                   int64_t capacity_bytes, bool is_inference, struct grid_findings *ret_findings) {
    if (row < 0) return;
    const struct view v = view_of(rows, &rows->items[row], capacity_bytes);
    const struct str io =
        str_format(a, "each step waits %.1f ms for data, %.0f %% of its time", v.io_ms, 100 * v.io);
    const struct str compute =
        str_format(a, "forward and backward are %.0f %% of the step%s", 100 * v.compute,
                   v.row->setting.precision == PLAN_FP32 ? ", in fp32" : "");
    const struct str memory = v.memory < 0.01
                                  ? STR("less than 1 % of the memory is used")
                                  : str_format(a, "%.0f %% of the memory is used", 100 * v.memory);
    const struct rule rules[] = {
        {"io-bound", GRID_WARNING, v.io > 0.3, io, "data loading is the bottleneck",
         "more loader workers (--num-workers 4 8 12), pin_memory, a faster disk, less "
         "preprocessing"},
        {"io-slow", GRID_INFO, v.io_ms > 30 && !(v.io > 0.3), io, "data loading is slow",
         "more loader workers (--num-workers 4 8 12), pin_memory, a faster disk"},
        {"compute-bound", GRID_INFO, v.compute > 0.7 && v.may_use_amp, compute,
         "compute is the bottleneck",
         "mixed precision (--amp both), a larger batch, compile, a lighter model"},
        {"compute-bound", GRID_INFO, v.compute > 0.7 && !v.may_use_amp, compute,
         "compute is the bottleneck", "a larger batch, compile, channels_last, a lighter model"},
        {"low-utilisation", GRID_WARNING, v.device < 0.7,
         str_format(a, "a kernel runs on the GPU %.0f %% of the time", 100 * v.device),
         "the GPU is underused", "a larger batch; more loader workers if it waits for data", true},
        {"low-memory", GRID_INFO, v.memory < 0.6 && v.is_largest, memory, "the batch can grow",
         "try larger --batch-sizes"},
        {"high-memory", GRID_INFO, v.memory > 0.8 && !(v.memory > 0.9), memory,
         "little memory is left",
         "watch it: longer samples, validation or another process may need the rest", true},
        {"memory-full", GRID_WARNING, v.memory > 0.9, memory, "close to out of memory",
         "a smaller batch with gradient accumulation, mixed precision, gradient checkpointing",
         true},
        {"almost-out-of-memory", GRID_WARNING, v.row->is_almost_out,
         v.row->reason.len > 0 ? v.row->reason : STR("the allocator had to retry"),
         "close to out of memory",
         "a smaller batch, or expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF", true},
        {"optimizer-heavy", GRID_INFO, v.optimizer > 0.2,
         str_format(a, "the optimizer takes %.0f %% of the step", 100 * v.optimizer),
         "the optimizer takes much of the step",
         "a fused or foreach optimizer, a larger batch or more gradient accumulation"},
        {"other-heavy", GRID_INFO, v.other > 0.2,
         str_format(a, "%.0f %% of the step is neither data, model nor optimizer", 100 * v.other),
         "time is spent elsewhere",
         "look for logging, metrics and .item() in each step, and for copies that could be "
         "non_blocking"},
        {"noisy", GRID_INFO, v.spread > 0.05,
         str_format(a, "throughput is known only to \xc2\xb1%.0f %%", 100 * v.spread),
         "the measurement is noisy",
         "more --steps, or --repeats 3; close other programs on the machine", true},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if ((is_inference && !r->is_of_inference) || !r->is_so) continue;
        struct grid_finding finding = {r->id, r->what, r->remedy, r->level, r->evidence, row};
        *arena_push(a, &ret_findings->items, &ret_findings->count, &ret_findings->capacity) =
            finding;
    }
}
