// SPDX-License-Identifier: Apache-2.0
// The times of a training step: one record for what a program says of a step, for means and medians
// of many, and for what is shown and stored of them. Who shows or stores them makes the rows of its
// table from the list below, so that a key, a column and a metric cannot differ.
#pragma once

// The parts of a step, which add up to its total. Each is a member NAME_ms, the key "NAME_ms" in
// JSON, CSV and the history, and phase="NAME" for Prometheus.
#define STEP_PARTS(ROW) ROW(io), ROW(h2d), ROW(forward), ROW(backward), ROW(optimizer), ROW(other)
#define STEP_TIMES(ROW) STEP_PARTS(ROW), ROW(total)
enum { STEP_PART_COUNT = 6, STEP_TIME_COUNT };

// Milliseconds: io_ms, …, total_ms. NaN: not told.
struct step_times {
    union {
        struct {
#define STEP_TIME(name) name##_ms
            double STEP_TIMES(STEP_TIME);
#undef STEP_TIME
        };
        double ms[STEP_TIME_COUNT]; // the same, in the order of the list
    };
};
extern const char *const step_time_keys[STEP_TIME_COUNT]; // "io_ms", …
struct step_times step_times_unknown(void);
