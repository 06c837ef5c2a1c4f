// SPDX-License-Identifier: Apache-2.0
// What a stretch of watched time shows of one GPU and of the run on it: throttled, leaking,
// spilling, starved. Rules as those of rules.h, over series instead of facts; watch, serve,
// doctor and run ask here.
#pragma once

#include "machine/rules/rules.h"
#include "step/times.h"

// One optimizer step of the run. NaN: not told.
struct trend_step {
    int64_t at_ns;          // when it ended, on the clock of the gauges; 0: not known
    double allocated_bytes; // live at its end, by the framework
    double samples;
    struct step_times times;
};

// What a zeroed member says is not known.
struct trend_stretch {
    const struct device_gauges *gauges; // of one GPU, oldest first
    ptrdiff_t gauge_count;
    double sm_clock_max_mhz;        // NaN: unknown
    const struct trend_step *steps; // oldest first; none: no run is attached
    ptrdiff_t step_count;
    enum device_state state;
    const char *reason;        // of a state other than answers
    bool is_unified, is_wsl;   // the memory is the CPU's; WSL
    double swap_grown_bytes;   // in the last minute
    double process_cpus;       // CPUs that the run's process keeps busy
    double earlier_most_bytes; // the most that was allocated before the steps above
    int64_t steps_before;      // how many those were
    int64_t predicted_peak_bytes, predicted_upper_bytes, peak_bytes; // of the run, on the GPU
    int64_t alloc_retries;
};

// Adds what is to be said, also that all is well; nothing where the stretch is too short to tell.
void trend_judge(struct arena *a, const struct trend_stretch *stretch, int card,
                 struct findings *findings);
