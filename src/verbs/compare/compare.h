// SPDX-License-Identifier: Apache-2.0
// What the files of the verb compare share: two sides, one figure a trial and metric, and what the
// figures come to.
#pragma once

#include "job/cluster/cluster.h"
#include "job/grid/grid.h"
#include "predict/gpu/gpu.h"

enum { COMPARE_A, COMPARE_B, COMPARE_SIDES };
enum { COMPARE_STEPS_LEAST = 3, COMPARE_PAIRS = 10, COMPARE_PAIRS_LEAST = 4 };

enum compare_metric {
    COMPARE_THROUGHPUT,
    COMPARE_MEMORY,
    COMPARE_ENERGY,
    COMPARE_TIME,
    COMPARE_METRICS
};
struct compare_metric_row {
    const char *name, *alias; // alias: as older scripts spell it; may be NULL
    const char *unit, *title; // of the figure; for charts
    bool more_is_better;
};
extern const struct compare_metric_row compare_metrics[COMPARE_METRICS];

struct compare_options {
    struct cli_options base;
    struct launch_options l;
    struct history_options h;
    const char *a, *b, *metrics, *reports, *runs, *cost, *data_path, *data_key;
    int64_t pairs, runs_per_month, samples, epochs;
    double cool_seconds;
    struct cluster_options cluster;
    bool fresh;
};

struct compare_side {
    struct str name; // the config's path, "run 41"
    struct grid_asked asked;
    struct grid bench; // of the workload: its title and notes
    struct launch_values values;
    struct plan plan;
    int64_t batch; // 0: the command's own
    // One a trial, NaN where it was not measured; and then why.
    double *figures[COMPARE_METRICS];
    struct str why[COMPARE_METRICS];
    ptrdiff_t count;
    bool has_failed;
    enum launch_status status;
    struct str reason, hint;
    bool input_is_bad;
    struct str framework; // "torch 2.6.0"; empty: not said
};

struct compare_result {
    bool is_asked, is_measured;
    struct str reason; // not measured, why; or what decided besides the figures
    double a, b;       // medians
    struct stats_ratio ratio;
    bool is_tested;         // p and the interval say something
    const char *verdict;    // "a", "b", "no difference"
    ptrdiff_t pairs_wanted; // with which a difference of `difference` would be found; 0: not asked
    double difference;
};

// What it costs and saves. NaN: not asked.
struct compare_cost {
    bool is_asked;
    double usd_per_hour, cards;
    struct str source; // one line: where the price comes from
    double per_million[COMPARE_SIDES];
    double runs_per_month, samples;
    struct gpu_month months[COMPARE_SIDES];
};

struct compare {
    struct arena *arena;
    const struct compare_options *options;
    struct compare_side sides[COMPARE_SIDES];
    struct compare_result results[COMPARE_METRICS];
    struct compare_cost cost;
    int64_t pairs_asked;
    ptrdiff_t pairs; // whole ones
    bool is_of_runs, is_standin, is_interrupted;
    struct str device, command, driver, standin;
    struct str_list notes;
};
void compare_note(struct compare *c, struct str note);
const char *compare_side_name(int side); // "a", "b"

// --- What is asked (ask.c) -----------------------------------------------------------------------

// Reads metrics, configs and report names. FAIL_INPUT: the sides cannot be compared.
int compare_ask(struct compare *c, struct fail *why);
// The values that a config gives to the built-in workload.
int compare_values(struct compare *c, struct compare_side *side, struct fail *why);

// --- Measuring (trials.c, runs.c) ----------------------------------------------------------------

int compare_measure(struct compare *c, struct launch *l, struct history *h, struct fail *why);
// Two runs of the history.
int compare_recall(struct compare *c, struct fail *why);

// --on slurm (cluster.c): as a job on each GPU type. FAIL_MACHINE: nothing was measured.
int compare_cluster_check(const struct compare_options *o, struct fail *why); // FAIL_USAGE
int compare_cluster(struct arena *a, const struct compare_options *o, struct fail *why);

// --- What it comes to (judge.c, cost.c) ----------------------------------------------------------

void compare_judge(struct compare *c);
// FAIL_USAGE, FAIL_INPUT: no such provider, no price for the GPU.
int compare_ask_cost(struct compare *c, struct str card_name, int64_t card_bytes, int64_t ranks,
                     struct fail *why);
void compare_count_cost(struct compare *c);

// --- What is shown (show.c, files.c, diff.c) -----------------------------------------------------

struct show_table compare_table(const struct compare *c);
struct show_table compare_cost_table(const struct compare *c);
// "0.526 USD for a GPU's hour: aws, t4, …"
struct str compare_price(const struct compare *c);
// A sentence a metric.
struct str_list compare_sentences(const struct compare *c);
void compare_print(struct compare *c);
json_t *compare_json(const struct compare *c, bool is_whole);
extern const struct show_report_kind compare_files[]; // that --report writes
// The lines in which two texts differ, as diff -u without context prints them; empty: none.
struct str compare_diff(struct arena *a, struct str text_a, struct str text_b);
