// SPDX-License-Identifier: Apache-2.0
// The table of measurements, the timing, and what products are checked with.
#include "machine/microbench/microbench_int.h"

#include "base/os.h"
#include "stats/stats.h"

#include <math.h>

const struct microbench_measure microbench_measures[] = {
    {"rate.cpu_copy", "memory copy, all cores", MICROBENCH_BYTES_S, false},
    {"rate.cpu_copy_one", "memory copy, one core", MICROBENCH_BYTES_S, false},
    {"rate.cpu_triad", "memory triad, all cores", MICROBENCH_BYTES_S, false},
    {"rate.shm", "writing to /dev/shm", MICROBENCH_BYTES_S, false},
    {"rate.cpu_sgemm", "matrix product fp32, all cores", MICROBENCH_FLOP_S, false},
    {"rate.h2d", "host to GPU", MICROBENCH_BYTES_S, true},
    {"rate.d2h", "GPU to host", MICROBENCH_BYTES_S, true},
    {"rate.both", "both directions at once", MICROBENCH_BYTES_S, true},
    {"rate.h2d_pageable", "host to GPU, not pinned", MICROBENCH_BYTES_S, true},
    {"rate.device_copy", "copy in the GPU's memory", MICROBENCH_BYTES_S, true},
    {"rate.fp32", "matrix product fp32", MICROBENCH_FLOP_S, true},
    {"rate.tf32", "matrix product tf32", MICROBENCH_FLOP_S, true},
    {"rate.fp16", "matrix product fp16", MICROBENCH_FLOP_S, true},
    {"rate.bf16", "matrix product bf16", MICROBENCH_FLOP_S, true},
};
const int microbench_measure_count = sizeof microbench_measures / sizeof *microbench_measures;

// Enough runs for a median that one disturbed run does not move; a second and a half at most, so
// that a GPU is done in fifteen.
enum { RUNS_LEAST = 5, RUNS_MOST = 40 };
static const double agreement = 0.02;
static const int64_t time_ns = MICROBENCH_SECOND * 3 / 2;

const struct microbench_measure *microbench_find(struct str id) {
    for (int i = 0; i < microbench_measure_count; i++) {
        if (str_is(id, microbench_measures[i].id)) return &microbench_measures[i];
    }
    return NULL;
}

const char *microbench_state_name(enum microbench_state state) {
    static const char *const names[] = {"unknown", "measured", "wrong"};
    return names[state];
}

struct microbench_figure microbench_begin(const char *id) {
    double none = (double)NAN;
    return (struct microbench_figure){.measure = microbench_find(str_of(id)),
                                      .median = none,
                                      .low = none,
                                      .high = none,
                                      .variation = none};
}

void microbench_give(const struct microbench_sink *sink, const struct microbench_figure *f) {
    sink->take(sink->owner, f);
}

void microbench_give_unknown(const struct microbench_sink *sink, const char *id, struct str why) {
    struct microbench_figure f = microbench_begin(id);
    f.why = why;
    microbench_give(sink, &f);
}

static double variation_of(const double *values, int count) {
    double mean = stats_mean(values, count), sum = 0;
    for (int i = 0; i < count; i++) sum += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? sqrt(sum / (count - 1)) / mean : (double)NAN;
}

// Clocks rise and a sleeping link wakes within some tenths of a second.
static bool warm_up(microbench_once *once, void *owner) {
    int64_t end_ns = os_now_ns() + MICROBENCH_SECOND / 4;
    for (int i = 0; i < RUNS_MOST; i++) {
        if (once(owner) < 0) return false;
        if (os_now_ns() > end_ns) break;
    }
    return true;
}

bool microbench_repeat(microbench_once *once, void *owner, double amount,
                       struct microbench_figure *f) {
    double rates[RUNS_MOST];
    int count = 0;
    if (!warm_up(once, owner)) return false;
    int64_t end_ns = os_now_ns() + time_ns;
    while (count < RUNS_MOST) {
        double seconds = once(owner);
        if (seconds < 0) return false;
        // A clock that did not move would make an infinite rate.
        rates[count++] = amount / fmax(seconds, 1e-9);
        f->variation = variation_of(rates, count);
        if (count >= RUNS_LEAST && (f->variation <= agreement || os_now_ns() > end_ns)) break;
        if (count >= 2 && os_now_ns() > end_ns + time_ns) break; // a very slow machine
    }
    f->state = MICROBENCH_MEASURED;
    f->count = count;
    f->median = stats_median(rates, count);
    f->low = stats_quantile(rates, count, 0);
    f->high = stats_quantile(rates, count, 1);
    return true;
}

// --- Matrices ------------------------------------------------------------------------------------

int microbench_element(int which, int64_t index) {
    uint32_t x = (uint32_t)index * 2654435761u + (uint32_t)which * 0x9e3779b9u;
    x ^= x >> 15;
    x *= 0x85ebca6bu; // of MurmurHash3's finalizer
    x ^= x >> 13;
    return (int)(x % 7) - 3;
}

double microbench_product(int64_t n, int64_t row, int64_t column) {
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += microbench_element(0, row + k * n) * microbench_element(1, k + column * n);
    }
    return (double)sum;
}

void microbench_check_place(int64_t n, int check, int64_t *ret_row, int64_t *ret_column) {
    *ret_row = check == 0 ? 0 : check == 1 ? n - 1 : n * check / MICROBENCH_CHECKS + check;
    *ret_column = check == 0 ? 0 : check == 1 ? n - 1 : n - 1 - n * check / (2 * MICROBENCH_CHECKS);
    if (*ret_row >= n) *ret_row = n - 1;
}

// bf16 keeps eight bits: one part in 256 of rounding, and some to spare for sums in pieces.
bool microbench_is_right(double got, double wanted) {
    return fabs(got - wanted) <= 0.5 + fabs(wanted) / 64;
}

struct str microbench_text(struct arena *a, enum microbench_unit unit, double value) {
    static const struct {
        double factor;
        const char *names[2];
    } steps[] = {{1e15, {"PB/s", "PFLOP/s"}},
                 {1e12, {"TB/s", "TFLOP/s"}},
                 {1e9, {"GB/s", "GFLOP/s"}},
                 {1e6, {"MB/s", "MFLOP/s"}},
                 {0, {"kB/s", "kFLOP/s"}}};
    int i = 0;
    if (isnan(value)) return (struct str){0};
    while (value < steps[i].factor) i++;
    double shown = value / (steps[i].factor > 0 ? steps[i].factor : 1e3);
    return str_format(a, "%.*f %s",
                      shown < 10    ? 2
                      : shown < 100 ? 1
                                    : 0,
                      shown, steps[i].names[unit == MICROBENCH_FLOP_S]);
}
