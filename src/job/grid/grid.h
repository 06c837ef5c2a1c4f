// SPDX-License-Identifier: Apache-2.0
// What the files of the verb bench share: a grid of settings, what each launch of a setting showed,
// and the rows that are made of them.
#pragma once

#include "base/json.h"
#include "base/os.h"
#include "job/history/history.h"
#include "measure/launch/launch.h"
#include "predict/plan/plan.h"
#include "view/show/show.h"

// --- What is tried (space.c) ---------------------------------------------------------------------

struct grid_axis {
    struct str name;
    struct str *values;
    ptrdiff_t count, capacity;
    bool is_idle; // it sets what has no effect on this device
};
struct grid_numbers {
    int64_t *items;
    ptrdiff_t count, capacity;
};
// Every list that is empty stands for one value: the command's own.
struct grid_space {
    struct grid_numbers batches;        // rising
    struct grid_numbers workers;        // from 0
    struct grid_numbers precisions;     // enum plan_precision
    struct grid_numbers pins, compiles; // 0 and 1
    struct grid_axis *axes;
    ptrdiff_t axis_count, axis_capacity;
    bool by_amp; // precisions are AMP off and on, and nothing else was asked
};
struct grid_setting {
    int64_t batch;                 // 0: the command's own
    int64_t workers;               // -1: the command's own
    enum plan_precision precision; // UNKNOWN: the command's own
    int pin_memory, compile;       // 0, 1; -1: the command's own
    const struct str *axes;        // one value an axis
    ptrdiff_t combination;         // settings that differ in the batch only have the same
};

// "1,2,4": whole numbers from `least` on, rising, each once. FAIL_USAGE names the option.
int grid_read_numbers(struct arena *a, const char *option, struct str text, int64_t least,
                      struct grid_numbers *ret_numbers, struct fail *why);
void grid_add_number(struct arena *a, struct grid_numbers *n, int64_t value); // keeps it rising
// "on", "off", "both" into 0 and 1, off first.
int grid_read_switch(struct arena *a, const char *option, struct str text,
                     struct grid_numbers *ret_switch, struct fail *why);
// "fp32,amp-bf16"
int grid_read_precisions(struct arena *a, struct str text, struct grid_numbers *ret_precisions,
                         struct fail *why);
bool grid_axis_has(const struct grid_axis *axis, struct str value);
// Lines of "NAME=V,V,…".
int grid_read_axes(struct arena *a, const char *lines, struct grid_space *grid, struct fail *why);
// Every setting, in the order of the first round: one combination after the other, batches rising.
ptrdiff_t grid_settings(struct arena *a, const struct grid_space *grid,
                        struct grid_setting **ret_settings);
// "batch 64, workers 4, amp-fp16, pinned, bucket_mb 25"; without the batch: the combination.
struct str grid_setting_text(struct arena *a, const struct grid_space *grid,
                             const struct grid_setting *s, bool with_batch);

// --- What it showed (rows.c) ---------------------------------------------------------------------

// One launch of a setting.
struct grid_trial {
    enum launch_status status;
    struct str reason, hint;
    bool input_is_bad;     // of FAILED: the command or a file of the user's, not the machine
    struct str last_lines; // of its output, of FAILED
    int64_t steps, seen_batch, peak_bytes; // -1: unknown
    int64_t charged_bytes; // what the memory's limit counts, which need not be the peak
    struct step_times times;
    double device_share;
    double *seconds_per_sample; // one a step
    ptrdiff_t sample_count;
    // Of inference:
    bool is_absent;               // the engine is not installed
    bool differs;                 // its outputs are wrong
    struct steps_outputs outputs; // is_said: they could be compared
    struct str engine_version;
};
// What a setting came to: what its trials did (enum launch_status), or
enum grid_status {
    GRID_SKIPPED = LAUNCH_STATUSES,
    GRID_DIFFERS, // ran, and its outputs are not the reference's
    GRID_ABSENT,  // the engine is not installed
    GRID_STATUSES
};
const char *grid_status_name(int status); // "OK", "OOM", …
struct grid_row {
    ptrdiff_t index; // in the whole grid
    struct grid_setting setting;
    int status;         // enum launch_status or enum grid_status
    bool is_almost_out; // OK, but the allocator had to retry or the memory was all but full
    struct grid_trial *trials;
    ptrdiff_t trial_count, trial_capacity;
    // Over all its trials:
    struct str reason, hint, last_lines;
    bool input_is_bad;
    int64_t steps, seen_batch, peak_bytes, charged_bytes;
    struct step_times times;
    double samples_per_s, device_share;
    struct stats_interval samples_per_s_ci;
    const double *seconds_per_sample;
    ptrdiff_t sample_count;
    struct steps_outputs outputs; // of the trial that is furthest off
    struct str engine_version;
};
struct grid_rows {
    struct grid_row *items; // all settings of the grid; not all were tried
    ptrdiff_t count;
};

enum grid_level { GRID_INFO, GRID_WARNING };
struct grid_finding {
    const char *id, *what, *remedy;
    enum grid_level level;
    struct str evidence;
    ptrdiff_t row;
};
struct grid_findings {
    struct grid_finding *items;
    ptrdiff_t count, capacity;
};
// Indexes of rows; -1: none.
struct grid_best {
    ptrdiff_t throughput, efficiency, recommended;
    bool is_certain; // the recommended one is within 2 % of the best, and smaller ones are not
    bool is_safe;    // and uses at most 85 % of the memory
};

struct grid_trial grid_trial_of(struct arena *a, const struct launch_place *place,
                                const struct launch_result *result);
// Takes a trial into its row: the figures over all its trials.
void grid_row_add(struct arena *a, struct grid_row *row, const struct grid_trial *trial);
// Marks what spills, within each combination.
void grid_mark_spills(struct arena *a, struct grid_rows *rows, int64_t capacity_bytes);
struct grid_best grid_pick(struct arena *a, const struct grid_rows *rows, int64_t capacity_bytes);
int64_t grid_batch_of(const struct grid_row *row); // asked for, or seen; 0: not known
// Milliseconds of a batch at a quantile of all that were timed. NaN: not measured.
double grid_batch_ms(const struct grid_row *row, double quantile);
double grid_p99_ms(const struct grid_row *row);                   // NaN with fewer than 100 batches
struct stats_interval grid_median_ms(const struct grid_row *row); // 95 % of the median
double grid_efficiency(const struct grid_row *row); // samples/s for each GB (10^9); NaN
double grid_share_of(const struct grid_row *row, int64_t capacity_bytes); // of the memory; NaN
// The rules that hold for a row.
void grid_diagnose(struct arena *a, const struct grid_rows *rows, ptrdiff_t row,
                   int64_t capacity_bytes, bool is_inference, struct grid_findings *ret_findings);

// --- Going on after an interrupt (state.c) -------------------------------------------------------

struct grid_state {
    struct str path;
    struct str_list parts; // files that were read besides
    bool is_part;          // another call puts them together: the file stays
    int fd;                // -1: nothing is kept
    struct str began;      // of the run that was interrupted; empty: there was none
    ptrdiff_t taken;       // settings with a trial from it
    ptrdiff_t joined;      // from the parts
    int broken_lines, added;
};
// A grid that is split: each part keeps its trials in a file of its own, also when it is done; who
// puts them together reads all of them.
struct grid_part {
    int64_t index, count; // from 1; index 0: all of them put together; count 0: it is not split
};
// "2/4", "all/4". FAIL_USAGE: neither.
int grid_read_part(const char *text, struct grid_part *ret_part, struct fail *why);
// Opens the file of the run with this identity in the cache folder, and gives the trials that are
// in it to their rows, all in the whole grid's order. A folder that cannot be written is no error:
// then nothing is kept, and *ret_note says so.
void grid_state_open(struct arena *a, struct str identity, struct grid_part part, bool fresh,
                     struct grid_rows *rows, struct grid_state *ret_state, struct str *ret_note);
// Only a part's own settings stay: whole combinations where there are as many as parts.
void grid_keep_part(struct grid_rows *rows, struct grid_part part);
void grid_state_add(struct grid_state *s, struct arena *a, ptrdiff_t row,
                    const struct grid_trial *trial);
// `done`: the run is complete, the file goes, and the parts' that it put together. One without a
// trial goes as well.
json_t *grid_outputs_json(const struct steps_outputs *o);
void grid_state_close(struct grid_state *s, bool done);

// --- What is shown (verbs/bench/report.c, verbs/bench/files.c) -----------------------------------

struct grid {
    struct arena *arena;
    struct str title; // the command, or what the built-in workload trains
    bool is_workload;
    struct grid_space grid;
    struct grid_rows rows;
    struct grid_best best;
    struct grid_findings findings;
    const struct launch_place *place;
    struct str_list notes;
    struct str reason; // why nothing ran; empty: something did
    int64_t ranks;     // 1: one process
    bool is_standin;   // a program that plays a scenario said so
    bool is_inference;
    bool is_preparing;
    struct str prepared; // the folder with what all engines are given alike
};
// Of a reason that people are shown: PyTorch says in a paragraph that memory ran out; the document
// has all of it.
enum { GRID_REASON_COLUMNS = 160 };
void grid_note(struct grid *b, struct str note);
void bench_print(struct grid *b);
json_t *bench_json(struct grid *b);
// 0 when a setting ran; else what is to be said, and the exit status (verbs/bench/verdict.c).
int bench_verdict(struct grid *b, struct fail *why);
struct show_table bench_table(struct grid *b);

// The kinds of file that --output writes, by their suffix.
extern const struct show_report_kind bench_files[];

// --- What is asked (ask.c) -----------------------------------------------------------------------

struct grid_options {
    struct cli_options base;
    struct launch_options l;
    struct history_options h;
    const char *config, *data_path, *data_key, *batch_sizes, *workers, *amp, *precisions,
        *pin_memory, *compile, *bucket_caps, *axes, *outputs, *trace, *model, *optimizer;
    int64_t repeats, depth, hidden, image_size, sequence_length, classes;
    bool fresh, inference;
    const char *part; // "2/4", "all/4"; NULL: the whole grid
    const char *engines, *onnx, *weights, *compile_mode, *trtexec, *keep_engines;
    double tolerance; // NaN: each precision's own
};
struct grid_asked {
    struct launch_options l; // with the config's steps
    struct config config;
    struct config_reading reading;
    bool has_config;
    char *const *command; // the user's, or the built-in workload's
    bool is_workload;
};
// Reads the config and the files; makes the command. Nothing is started.
int grid_ask(struct arena *a, const struct grid_options *o, struct grid *b,
             struct grid_asked *ret_asked, struct fail *why);
// The command of the built-in workload, and its title.
void grid_workload(struct arena *a, const struct grid_options *o, struct grid *b,
                   struct grid_asked *asked);
// Inference by engines (bench/engine.c): asked for by --engine, --onnx or --inference. Checks the
// options and the files before anything is started.
bool grid_is_inference(const struct grid_options *o);
int grid_engine_check(struct arena *a, const struct grid_options *o, struct fail *why);
int grid_engine_axis(const struct grid_options *o, struct grid *b, struct fail *why);
void grid_engine_steps(struct launch_options *l); // those of inference, where none are asked for
// Options of the engines' own for the command, and values for it.
void grid_engine_values(const struct grid *b, struct launch_values *v);
void grid_engine_words(const struct grid_options *o, const struct grid_asked *asked,
                       struct str_words *w);
// The folder in which one trial more makes what all are given alike, and its end.
int grid_engine_folder(struct grid *b, struct fail *why);
void grid_engine_forget(const struct grid *b);
void grid_engine_judge(struct arena *a, const struct grid_options *o, const struct grid_setting *s,
                       const struct launch_result *result, struct grid_trial *trial);
// An engine that is not installed is tried once.
bool grid_engine_is_absent(const struct grid *b, const struct grid_setting *s);
void grid_engine_notes(const struct grid_options *o, struct grid *b);
void grid_engine_findings(struct grid *b);
// --bucket-cap-mb (buckets.c): its axis, and what hands a value to the emitter. Whether a program
// took one; that none did.
int grid_buckets_read(struct arena *a, const char *sizes, struct grid_space *grid,
                      struct fail *why);
const char *grid_buckets_environment(struct arena *a, const char *environment);
bool grid_has_buckets(const struct launch_result *result);
void grid_buckets_idle(struct grid *b);
// A value of the user's is no placeholder, whatever braces it has.
struct str grid_literal(struct arena *a, struct str text);
// What the workload itself says of its failure, by its line and exit status.
void grid_workload_failure(struct arena *a, const struct launch_result *result,
                           struct grid_trial *trial);
// ABSENT and 0 without a config or without the key.
struct config_value grid_config_value(struct arena *a, const struct grid_asked *asked,
                                      const char *path);
int64_t grid_config_number(const struct grid_asked *asked, enum config_role role);
// The grid, once the device and the command's placeholders are known.
int grid_ask_grid(const struct grid_options *o, const struct grid_asked *asked,
                  const struct launch *l, struct grid *b, struct fail *why);
// The values of a setting for the command.
void grid_values(const struct grid_options *o, const struct grid *b, const struct grid_asked *asked,
                 const struct grid_setting *s, struct launch_values *ret_values);
// All that must be the same for results to belong together.
struct str grid_identity(const struct grid_options *o, const struct grid *b,
                         const struct grid_asked *asked, const struct launch *l);
