// SPDX-License-Identifier: Apache-2.0
// A machine and the runs on it over time: what every view of it (watch's screen and log, serve's
// page and metrics) shows. It keeps the newest readings of each GPU, turns counters into shares of
// a window, follows the runs that let themselves be watched, and asks the rules what it all means.
// Draws and prints nothing. Its memory is taken when it is opened and does not grow.
#pragma once

#include "machine/device/device.h"
#include "machine/trend/trend.h"

#include <jansson.h>

enum { OBSERVE_RUNS = 16, OBSERVE_STEPS = 256 }; // runs that are shown; steps of one that are kept

// A zeroed one watches this machine, all GPUs, every second, ten minutes of it.
struct observe_options {
    const char *machine;                       // the folder of a recorded machine; NULL: this one
    int interval_ms;                           // 0: 1000
    double speed;                              // of a recording; 0: 1
    bool wants_pcie_throughput, wants_profile; // blocks 20 ms a GPU; GPM, Hopper and newer
    const char *gpu_ids;                       // "0,2": the driver's numbers; NULL: all
    const char *alerts;        // "temperature=83,memory=95%": limits of each GPU; NULL: none
    const char *alert_command; // run once when a GPU gets above one; NULL: none
    int history;               // readings of a GPU that are kept; 0: 600
    int minutes;               // means of a minute that are kept beside them; 0: none
    const char *const *steps;  // folders or files of the steps protocol, beside the registered runs
    int steps_count;
    bool no_runs;         // do not look for registered runs
    double cost_per_hour; // of a GPU, in whatever money; 0: not said
};

// What the counters of a GPU say of the time since the window's first reading. NaN: unknown.
struct observe_window {
    double seconds;         // that it covers; shares of less than 2 s are unknown
    double throttled_share; // by heat or the power brake, of the time
    double power_cap_share; // by the power limit: usual at full load
    double sync_boost_share, sw_thermal_share, hw_thermal_share, power_brake_share;
    double clock_lost_share; // how far the SM clock was below its maximum while busy
    double utilisation_mean, power_mean_watts;
    double energy_joules; // in the window; by the counter, else integrated from the power
    bool energy_is_integrated;
};

// A minute of a GPU: means of its readings, shares and joules by its counters.
struct observe_minute {
    int64_t at_ns; // its end
    double utilisation, used_bytes, power_watts, temperature_celsius, sm_clock_mhz,
        memory_utilisation, ours_bytes;
    double throttled, power_cap, energy_joules;
    double seconds; // that were watched of it
};

// A GPU of the snapshot, at the same place.
struct observe_card {
    const struct device_gauges *history; // oldest first; the last is the newest
    const int64_t *ours_history;         // ours_bytes at each of them
    ptrdiff_t history_count;
    const struct observe_minute *minutes; // oldest first, whole ones only
    ptrdiff_t minute_count;
    struct observe_window window; // of the last minute
    struct observe_window since;  // since we watch; counters that were reset are taken care of
    int64_t ours_bytes;           // held by processes of runs that we know; -1: unknown
    int64_t others_bytes;         // by all others
};

enum observe_run_state {
    OBSERVE_RUN_STARTS,
    OBSERVE_RUN_STEPS,
    OBSERVE_RUN_QUIET,
    OBSERVE_RUN_ENDED
};
const char *observe_run_state_name(
    enum observe_run_state state); // "starts", "steps", "quiet", "ended"

// The sums of the minutes that were kept. NaN: never told.
struct observe_day {
    double seconds; // that were watched
    double throttled_seconds, idle_seconds, energy_joules;
};
struct observe_day observe_day_of(const struct observe_card *card);

// A registered run (measure/registry/registry.h), or whose steps we were pointed at.
// Texts are empty, numbers -1 or NaN where not told.
struct observe_run {
    struct str host; // another machine's name; empty: this one
    struct str id, verb, model, command, precision, standin;
    int64_t pid, batch, accumulation;
    int card; // place of its GPU in the snapshot; -1: the CPU, or unknown
    enum observe_run_state state;
    int64_t ranks, steps_done, samples_done, alloc_retries;
    struct step_times phases; // means of the last steps, which add up
    double samples_per_s;     // of all ranks
    double samples_per_joule; // of one rank, and the joules of its GPU in the same steps
    int64_t predicted_peak_bytes, predicted_upper_bytes; // of the GPU
    int64_t peak_bytes;             // the most that its processes held on one GPU so far
    const struct trend_step *steps; // the newest of the slowest rank, oldest first
    ptrdiff_t step_count;
};

// A finding that has held.
struct observe_resolved {
    const char *id, *what;
    enum finding_severity severity;
    int card;
    int64_t since_ms, until_ms; // since 1970
};

// A command of an alert (--exec) that has ended.
enum { OBSERVE_NOT_STARTED = -1 };
struct observe_told {
    const char *alert; // "temperature"
    int card;          // the driver's number
    int status;        // as a shell has it: 128 + the signal; OBSERVE_NOT_STARTED
    char said[256];    // the last line of its output; may be empty
};

struct observe_view {
    int64_t at_ns; // of the newest reading; os_now_ns, but a recording's time goes with its speed
    int64_t started_ns; // when we began to watch, on the same clock
    int64_t at_ms;      // of the newest reading, milliseconds since 1970
    int64_t watched_ms; // since we began to watch: of real time, whatever the clock is set to
    int interval_ms;
    double cost_per_hour; // as the options say
    const struct device_snapshot *devices;
    const struct observe_card *cards; // one a GPU of the snapshot
    struct device_cpu_gauges cpu;
    bool has_cpu; // false: a recording without it
    const struct observe_run *runs;
    int run_count, runs_unlisted;
    bool is_judged;           // the rules have looked at least once
    struct findings findings; // trend.*, alert.*; judged every few seconds; the worst first
    const struct observe_resolved *resolved; // warnings and problems that are over, newest first
    int resolved_count;
    const struct observe_told *told; // commands that ended since the last update
    int told_count;
    int64_t readings;      // intervals that we have watched
    int64_t late_readings; // readings of a GPU later than twice the interval
};

struct watch; // private

// As device_monitor_open. FAIL_INPUT: no such recording, gpu_ids that are none; FAIL_USAGE: a speed
// that nobody can look at; FAIL_MACHINE.
int observe_open(struct arena *a, const struct observe_options *options, struct watch **ret_watch,
                 struct fail *why);
// Takes in what is new, without ever waiting for a GPU. True: the view has changed.
bool observe_update(struct watch *w);
// Valid until the next update.
const struct observe_view *observe_view(const struct watch *w);
// Asks the rules about what is there now, without waiting for their turn: before a last look.
void observe_judge(struct watch *w);
// Commands of alerts that still run have two seconds to end; the view tells of those that did.
void observe_end(struct watch *w);
void observe_close(struct watch *w);
// In a sentence, for a log: "--exec ended with status 7: curl: (7) Failed to connect".
struct str observe_told_text(struct arena *a, const struct observe_told *told);

// A watched machine as JSON (doc/formats/watch.md): what watch logs and serve sends.

// The view now. The caller drops it; NULL: out of memory.
json_t *observe_document(const struct observe_view *view);
// What is kept of the last `seconds` (0: all), at most `points` of each GPU and run (0: all),
// evenly thinned.
json_t *observe_document_history(const struct observe_view *view, double seconds, int points);
