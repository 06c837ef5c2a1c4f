// SPDX-License-Identifier: Apache-2.0
// What the files of the verb bench share: a grid of settings, what each launch of a setting showed,
// and the rows that are made of them.
#ifndef CMD_BENCH_BENCH_H
#define CMD_BENCH_BENCH_H

#include "base/os.h"
#include "cmd/history.h"
#include "cmd/json.h"
#include "cmd/launch_rows.h"
#include "cmd/report.h"
#include "plan/plan.h"
#include "show/table.h"

// --- What is tried (bench_grid.c) ----------------------------------------------------------------

struct bench_axis {
    struct str name;
    struct str *values;
    ptrdiff_t count, capacity;
};
struct bench_numbers {
    int64_t *items;
    ptrdiff_t count, capacity;
};
// Every list that is empty stands for one value: the command's own.
struct bench_grid {
    struct bench_numbers batches;        // rising
    struct bench_numbers workers;        // from 0
    struct bench_numbers precisions;     // enum plan_precision
    struct bench_numbers pins, compiles; // 0 and 1
    struct bench_axis *axes;
    ptrdiff_t axis_count, axis_capacity;
    bool by_amp; // precisions are AMP off and on, and nothing else was asked
};
struct bench_setting {
    int64_t batch;                 // 0: the command's own
    int64_t workers;               // -1: the command's own
    enum plan_precision precision; // UNKNOWN: the command's own
    int pin_memory, compile;       // 0, 1; -1: the command's own
    const struct str *axes;        // one value an axis
    ptrdiff_t combination;         // settings that differ in the batch only have the same
};

// "1,2,4": whole numbers from `least` on, rising, each once. FAIL_USAGE names the option.
int bench_read_numbers(struct arena *a, const char *option, struct str text, int64_t least,
                       struct bench_numbers *ret_numbers, struct fail *why);
void bench_add_number(struct arena *a, struct bench_numbers *n, int64_t value); // keeps it rising
// "on", "off", "both" into 0 and 1, off first.
int bench_read_switch(struct arena *a, const char *option, struct str text,
                      struct bench_numbers *ret_switch, struct fail *why);
// "fp32,amp-bf16"
int bench_read_precisions(struct arena *a, struct str text, struct bench_numbers *ret_precisions,
                          struct fail *why);
// Lines of "NAME=V,V,…".
int bench_read_axes(struct arena *a, const char *lines, struct bench_grid *grid, struct fail *why);
// Every setting, in the order of the first round: one combination after the other, batches rising.
ptrdiff_t bench_settings(struct arena *a, const struct bench_grid *grid,
                         struct bench_setting **ret_settings);
// "batch 64, workers 4, amp-fp16, pinned, bucket_mb 25"; without the batch: the combination.
struct str bench_setting_text(struct arena *a, const struct bench_grid *grid,
                              const struct bench_setting *s, bool with_batch);

// --- What it showed (bench_rows.c) ---------------------------------------------------------------

// What an inference engine's trial showed of its outputs. NaN: unknown.
struct bench_outputs {
    bool is_known;
    double max_abs, mean_abs, max_rel, mean_rel, top1;
    int64_t samples;
    struct str reference;
};

// One launch of a setting.
struct bench_trial {
    enum launch_status status;
    struct str reason, hint;
    bool input_is_bad;     // of FAILED: the command or a file of the user's, not the machine
    struct str last_lines; // of its output, of FAILED
    int64_t steps, seen_batch, peak_bytes; // -1: unknown
    int64_t charged_bytes;  // what the memory's limit counts, which need not be the peak
    struct step_times times;
    double device_share;
    double *seconds_per_sample; // one a step
    ptrdiff_t sample_count;
    // Of inference:
    bool is_absent; // the engine is not installed
    bool differs;   // its outputs are wrong
    struct bench_outputs outputs;
    struct str engine_version;
};
// What a setting came to: what its trials did (enum launch_status), or
enum bench_status {
    BENCH_SKIPPED = LAUNCH_STATUSES,
    BENCH_DIFFERS, // ran, and its outputs are not the reference's
    BENCH_ABSENT,  // the engine is not installed
    BENCH_STATUSES
};
const char *bench_status_name(int status); // "OK", "OOM", …
struct bench_row {
    struct bench_setting setting;
    int status;         // enum launch_status or enum bench_status
    bool is_almost_out; // OK, but the allocator had to retry or the memory was all but full
    struct bench_trial *trials;
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
    struct bench_outputs outputs; // of the trial that is furthest off
    struct str engine_version;
};
struct bench_rows {
    struct bench_row *items; // all settings of the grid; not all were tried
    ptrdiff_t count;
};

enum bench_level { BENCH_INFO, BENCH_WARNING };
struct bench_finding {
    const char *id, *what, *remedy;
    enum bench_level level;
    struct str evidence;
    ptrdiff_t row;
};
struct bench_findings {
    struct bench_finding *items;
    ptrdiff_t count, capacity;
};
// Indexes of rows; -1: none.
struct bench_best {
    ptrdiff_t throughput, efficiency, recommended;
    bool is_certain; // the recommended one is within 2 % of the best, and smaller ones are not
    bool is_safe;    // and uses at most 85 % of the memory
};

struct bench_trial bench_trial_of(struct arena *a, const struct launch_place *place,
                                  const struct launch_result *result);
// Takes a trial into its row: the figures over all its trials.
void bench_row_add(struct arena *a, struct bench_row *row, const struct bench_trial *trial);
// Marks what spills, within each combination.
void bench_mark_spills(struct arena *a, struct bench_rows *rows, int64_t capacity_bytes);
struct bench_best bench_pick(struct arena *a, const struct bench_rows *rows,
                             int64_t capacity_bytes);
// Milliseconds of a batch at a quantile of all that were timed. NaN: not measured.
double bench_batch_ms(const struct bench_row *row, double quantile);
double bench_p99_ms(const struct bench_row *row); // NaN with fewer than 100 batches
struct stats_interval bench_median_ms(const struct bench_row *row); // 95 % of the median
double bench_efficiency(const struct bench_row *row); // samples/s for each GB (10^9); NaN
double bench_share_of(const struct bench_row *row, int64_t capacity_bytes); // of the memory; NaN
// The rules that hold for a row.
void bench_diagnose(struct arena *a, const struct bench_rows *rows, ptrdiff_t row,
                    int64_t capacity_bytes, bool is_inference, struct bench_findings *ret_findings);

// --- Going on after an interrupt (bench_state.c) -------------------------------------------------

struct bench_state {
    struct str path;
    int fd;           // -1: nothing is kept
    struct str began; // of the run that was interrupted; empty: there was none
    ptrdiff_t taken;  // settings with a trial from it
    int broken_lines, added;
};
// Opens the file of the run with this identity in the cache folder, and gives the trials that are
// in it to their rows. A folder that cannot be written is no error: then nothing is kept, and
// *ret_note says so.
void bench_state_open(struct arena *a, struct str identity, bool fresh, struct bench_rows *rows,
                      struct bench_state *ret_state, struct str *ret_note);
void bench_state_add(struct bench_state *s, struct arena *a, ptrdiff_t row,
                     const struct bench_trial *trial);
// `done`: the run is complete, the file goes. One without a trial goes as well.
json_t *bench_outputs_json(const struct bench_outputs *o);
void bench_state_close(struct bench_state *s, bool done);

// --- What is shown (bench_report.c, bench_files.c) -----------------------------------------------

struct bench {
    struct arena *arena;
    struct str title; // the command, or what the built-in workload trains
    bool is_workload;
    struct bench_grid grid;
    struct bench_rows rows;
    struct bench_best best;
    struct bench_findings findings;
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
enum { BENCH_REASON_COLUMNS = 160 };
void bench_note(struct bench *b, struct str note);
void bench_print(struct bench *b);
json_t *bench_json(struct bench *b);
struct show_table bench_table(struct bench *b);
struct str bench_setting_words(struct bench *b, const struct bench_row *row);

// The kinds of file that --output writes, by their suffix.
extern const struct report_kind bench_files[];

// --- What is asked (bench_ask.c) -----------------------------------------------------------------

struct bench_options {
    struct options base;
    struct launch_options l;
    struct history_options h;
    const char *config, *data_path, *data_key, *batch_sizes, *workers, *amp, *precisions,
        *pin_memory, *compile, *axes, *outputs, *model, *optimizer;
    int64_t repeats, depth, hidden, image_size, sequence_length, classes;
    bool fresh, inference;
    const char *engines, *onnx, *weights, *compile_mode, *trtexec;
    double tolerance; // NaN: each precision's own
};
struct bench_asked {
    struct launch_options l; // with the config's steps
    struct config config;
    struct config_reading reading;
    bool has_config;
    char *const *command; // the user's, or the built-in workload's
    bool is_workload;
};
// Reads the config and the files; makes the command. Nothing is started.
int bench_ask(struct arena *a, const struct bench_options *o, struct bench *b,
              struct bench_asked *ret_asked, struct fail *why);
// The command of the built-in workload, and its title.
void bench_workload(struct arena *a, const struct bench_options *o, struct bench *b,
                    struct bench_asked *asked);
// Inference by engines (bench/engine.c): asked for by --engine, --onnx or --inference. Checks the
// options and the files before anything is started.
bool bench_is_inference(const struct bench_options *o);
int bench_engine_check(struct arena *a, const struct bench_options *o, struct fail *why);
int bench_engine_axis(const struct bench_options *o, struct bench *b, struct fail *why);
void bench_engine_steps(struct launch_options *l); // those of inference, where none are asked for
// Options of the engines' own for the command, and values for it.
void bench_engine_values(const struct bench *b, struct launch_values *v);
void bench_engine_words(const struct bench_options *o, const struct bench_asked *asked,
                        struct str_words *w);
// The folder in which one trial more makes what all are given alike, and its end.
int bench_engine_folder(struct bench *b, struct fail *why);
void bench_engine_forget(const struct bench *b);
void bench_engine_judge(struct arena *a, const struct bench_options *o,
                        const struct bench_setting *s, const struct launch_result *result,
                        struct bench_trial *trial);
// An engine that is not installed is tried once.
bool bench_engine_is_absent(const struct bench *b, const struct bench_setting *s);
void bench_engine_notes(const struct bench_options *o, struct bench *b);
void bench_engine_findings(struct bench *b);
// A value of the user's is no placeholder, whatever braces it has.
struct str bench_literal(struct arena *a, struct str text);
// What the workload itself says of its failure, by its line and exit status.
void bench_workload_failure(struct arena *a, const struct launch_result *result,
                            struct bench_trial *trial);
// ABSENT and 0 without a config or without the key.
struct config_value bench_config_value(struct arena *a, const struct bench_asked *asked,
                                       const char *path);
int64_t bench_config_number(const struct bench_asked *asked, enum config_role role);
// The grid, once the device and the command's placeholders are known.
int bench_ask_grid(const struct bench_options *o, const struct bench_asked *asked,
                   const struct launch *l, struct bench *b, struct fail *why);
// The values of a setting for the command.
void bench_values(const struct bench_options *o, const struct bench *b,
                  const struct bench_asked *asked, const struct bench_setting *s,
                  struct launch_values *ret_values);
// All that must be the same for results to belong together.
struct str bench_identity(const struct bench_options *o, const struct bench *b,
                          const struct bench_asked *asked, const struct launch *l);

#endif
