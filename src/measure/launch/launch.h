// SPDX-License-Identifier: Apache-2.0
// Launching a training: the user's command or the built-in workload, with the values of one plan
// filled in, as one trial on this machine's device, and the figures it comes to. fit and bench ask
// here; what is tried next is not this room's business.
#pragma once

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "machine/device/device.h"
#include "measure/registry/registry.h"
#include "measure/trial/trial.h"
#include "records/config/config.h"
#include "stats/stats.h"
#include "step/times.h"

// The options of a trial (their rows: LAUNCH_ROWS).
struct launch_options {
    const char *device;    // auto, cuda, cpu
    int64_t memory_bytes;  // --memory: as if the device had this much; 0: what it has
    int64_t steps, warmup; // 0: 10 and 2
    double start_seconds, stall_seconds, time_seconds; // NaN: the defaults of measure/trial/trial.h
    const char *python; // for {python}, the workload and --ranks; NULL: $BATCHFIT_PYTHON, python3
    const char *environment; // NAME=VALUE,… with placeholders
    const char *config_keys; // [NAME=]PATH,…: the config gets the value instead of the command
    const char *machine;     // a recorded machine (for its gauges)
    int64_t ranks;           // 0: one
    bool longest_first;      // the first batch is of the data's longest samples
    bool is_inference;       // no option: the command only predicts
    const char *log_folder;  // keeps each trial's output
    const char *snapshots;   // where the memory snapshots of out-of-memories go; NULL: none
    // "0,1" or "GPU-uuid": what CUDA_VISIBLE_DEVICES says in the trials, in the driver's order;
    // NULL: the variable as it is. The first of them is watched.
    const char *cards;
    int64_t batch_dim; // of the program's tensors, along which the samples are; 0: the first
};

// Optimizer steps that a trial measures, and that it makes before them, without the options.
enum { LAUNCH_STEPS = 10, LAUNCH_WARMUP = 2 };

// Memory that a trial may use, and who limits it.
enum launch_device { LAUNCH_CPU, LAUNCH_CUDA };
struct launch_place {
    enum launch_device kind;
    struct str name;                // "NVIDIA GeForce RTX 3090", "CPU, 8 cores"
    int64_t capacity_bytes;         // the whole GPU or the machine's available memory, or --memory
    int64_t others_bytes;           // held by others before we start; 0 on the CPU
    bool is_capped;                 // --memory was given: capacity_bytes is the trial's own
    int card;                       // its place in device_list
    int card_index;                 // the driver's number; -1 on the CPU
    struct str card_uuid;           // empty: unknown
    struct str standin;             // set: the driver is a fake
    struct device_monitor *sampler; // NULL: no GPU
};

struct launch {
    struct arena *arena;
    const struct launch_options *options;
    char *const *command; // the user's, or {python} {shipped}/start.py batchfit.workload ...
    struct launch_place place;
    struct str python, layout; // layout: the folder with our Python files and the hook
    struct config *config;     // to be patched for {config}; NULL: none
    struct config_reading *reading;
    const volatile bool *interrupted;
    struct str_list notes;              // what one should know about all trials of this launch
    struct device_cpu_watch *processor; // whose energy is counted; NULL: the GPU's is
    // That samples are counted along another dimension; NULL: they are not.
    struct str *dimension_note;
    int64_t dimension_batch; // … at which batch that was seen first
    bool has_said_printed;
    int made;                        // trials so far, for the names of logs
    struct str snapshots;            // the folder of options->snapshots, its whole path
    struct str_list snapshots_known; // those in it that were told, or were there before
    // Called about ten times a second while a trial runs: for a progress line. May be NULL.
    void (*watch)(void *context, const struct steps *steps, const struct trial_outside *outside);
    void *watch_context;
    // How its trials are registered for those who watch (measure/registry/registry.h): the verb
    // says what it knows, the rest is filled in. What `about` returns for a batch goes on top; may
    // be NULL.
    struct registry_run registered;
    void (*about)(void *context, int64_t batch, struct registry_run *run);
    void *about_context;
};

// What a trial came to.
enum launch_status {
    LAUNCH_UNTRIED,
    LAUNCH_OK,
    LAUNCH_ALMOST,
    LAUNCH_OOM,
    LAUNCH_SPILLS,
    LAUNCH_FAILED,
    LAUNCH_INTERRUPTED,
    LAUNCH_STATUSES
};
const char *launch_status_name(enum launch_status status); // "OK", "ALMOST", "OOM", …
// How a training ended, in a line: what it was, and the words that it said of it.
struct str launch_failure_text(struct arena *a, const struct failure *ending);
// One that may be kept for another time, OK to SPILLS: what failed may be mended by then, and what
// was interrupted says nothing.
bool launch_status_is_kept(enum launch_status status);
bool launch_status_find(struct str name, enum launch_status *ret_status); // only of those

// One value of the plan for the command: "batch", "64"; see command_value.
struct launch_values {
    struct trial_command_value *items;
    ptrdiff_t count, capacity;
};
void launch_value(struct arena *a, struct launch_values *v, const char *name, struct str text);
void launch_switch(struct arena *a, struct launch_values *v, const char *name, bool on);

// What the trial showed of the slowest rank. Times: ms, means over the steps after the warm-up, so
// that they add up, and the batch over total_ms is the throughput; NaN unknown. Bytes -1 unknown.
struct launch_result {
    enum launch_status status;
    struct str reason; // one line when not OK
    struct str hint;
    int64_t batch;      // asked for
    int64_t seen_batch; // largest micro-batch that the program reported; -1: it reported none
    int64_t made;       // optimizer steps, the warm-up included; no more than were wanted
    int64_t steps;      // measured, after the warm-up
    struct step_times times;
    double samples_per_s; // of all ranks together
    struct stats_interval samples_per_s_ci;
    const double *seconds_per_sample; // one a measured step, all ranks' samples
    ptrdiff_t sample_count;
    double device_share;   // utilisation of the GPU, 0 … 1; NaN: no GPU
    int64_t peak_bytes;    // what counts against the capacity: NVML's, or the tree's PSS on the CPU
    int64_t charged_bytes; // the same; of stored trials what was held against the limit then
    bool is_on_cpu;        // the program itself says so, or says nothing
    int64_t torch_allocated_bytes, torch_reserved_bytes; // the program's own peaks
    int64_t alloc_retries;
    double wanted_bytes; // of OOM: what would have been needed at least; NaN
    // By the GPU's counter, or the CPU's, over the measured steps; NaN, and then why.
    double joules_per_sample, energy_joules;
    struct str energy_why;
    unsigned covered; // enum step_cover
    struct trial trial;
};

// What a trial may use when the share `margin` is to stay free.
int64_t launch_budget(const struct launch_place *place, double margin);

// Finds the device and the Python side. FAIL_MACHINE, FAIL_USAGE.
int launch_open(struct arena *a, const struct launch_options *options, char *const *command,
                struct launch *ret_launch, struct fail *why);
void launch_close(struct launch *l);
// One trial at these values; {python}, {shipped} (its layout), {device}, {ranks}, {scratch} and
// {config} are added. An error only when no trial could be made at all (no such command, bad
// placeholder); else the result says what happened. `asked_bytes`: how much of the device the trial
// may use; 0: all; on the CPU always 5 % less than is free when it starts. (launch_takes: whether
// the value of that name reaches the command, by a placeholder, a variable or the config.)
bool launch_takes(const struct launch *l, struct str name);
void launch_note(struct launch *l, struct str note);
// Of the Slurm job that this is in; 1 outside of one.
int64_t launch_nodes(void);
int64_t launch_warmup(const struct launch_options *o);
int64_t launch_steps(const struct launch_options *o);
int launch_try(struct launch *l, const struct launch_values *values, int64_t batch,
               int64_t asked_bytes, struct launch_result *ret_result, struct fail *why);

// One attempt of a training that is to reach its own end: at the options' limits (0: none) but for
// steps, warm-up and time. Everything lives in `arena`, which may end with the attempt.
struct launch_attempt {
    struct arena *arena;
    int64_t batch, accumulation;
    int64_t limit_bytes; // how much of the device it may use; 0: all
    double grace_s;
    struct trial_whole whole;
    // Set once it runs: the time in which it is to announce itself and make a step; the file that
    // tells the program of another batch (doc/run.md). May be replaced by launch_control from
    // `watch` on.
    double start_limit_s;
    struct str control_path;
};
int launch_whole(struct launch *l, const struct launch_values *values,
                 struct launch_attempt *attempt, struct trial *ret_trial, struct fail *why);
// Tells the program the batch and the accumulation to go on with. A courtesy: it may fail.
void launch_control(struct launch_attempt *attempt, int64_t batch, int64_t accumulation);
// The command of such an attempt as it would be given to a shell.
int launch_preview(struct launch *l, const struct launch_values *values, struct str *ret_text,
                   struct fail *why);

// The Python files that travel inside the program: laid into the cache folder, one folder for each
// version of them, and run by the user's own Python. What we start for ourselves runs nothing of
// the current folder: not by -m or -c, but by start.py, and with the path of
// launch_python_own_path.

// Lays the files out unless they are there already. The folder holds batchfit/ (the package),
// start.py (which runs a module of it) and hook/ (sitecustomize, which puts the step emitter into a
// training).
int launch_python_lay_out(struct arena *a, struct str *ret_folder, struct fail *why);
// The option's value, $BATCHFIT_PYTHON, or python3.
const char *launch_python_program(const char *option);
// `folders` (joined with colons) in front of $PYTHONPATH.
struct str launch_python_path(struct arena *a, struct str folders);
// The same without the empty entries of $PYTHONPATH ("/lib:"), which are the current folder.
struct str launch_python_own_path(struct arena *a, struct str folders);

// Every step of the trials that this process makes, for --trace (doc/formats/trace.md).

#define CLI_ROW_TRACE_STEPS(at)                                                                \
    CLI_ROW("trace", "FILE", CLI_TEXT, at,                                                     \
            "also write every step of the trials as a trace for Perfetto or chrome://tracing", \
            "file", .about = CLI_OF_STEPS)

struct launch_trace {
    json_t *events; // NULL: none yet
    int trials;
};
void launch_trace_add(struct arena *a, struct launch_trace *t, struct str setting,
                      const struct launch_result *result);
int launch_trace_write(struct arena *a, struct launch_trace *t, const char *path, struct fail *why);

// The options of the verbs that launch trainings.

// The rows of these options, for a verb whose struct is `type` with the member `l`.
#define LAUNCH_AT(type, member) offsetof(type, l.member)
#define LAUNCH_ROWS(type)                                                                          \
    CLI_ROW("device", "WORD", CLI_TEXT, LAUNCH_AT(type, device),                                   \
            "device for the trials: auto, cuda, cpu; auto takes a GPU if there is one",            \
            "auto cuda cpu", .about = CLI_OF_TRIALS),                                              \
        CLI_ROW("memory", "BYTES", CLI_MEMORY, LAUNCH_AT(type, memory_bytes),                      \
                "pretend that the device has this much memory, such as 2GiB: on a GPU the "        \
                "caching allocator is capped, on the CPU the training is (by a control group or "  \
                "batchfit's guard)",                                                               \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW("steps", "N", CLI_COUNT, LAUNCH_AT(type, steps),                                   \
                "optimizer steps to measure per trial (default 10)", .about = CLI_OF_TRIALS),      \
        CLI_ROW("warmup", "N", CLI_COUNT, LAUNCH_AT(type, warmup),                                 \
                "steps to run before measuring (default 2)", .about = CLI_OF_TRIALS),              \
        CLI_ROW("start-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, start_seconds),              \
                "stop a trial without a first step after this time (default 300)",                 \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW("stall-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, stall_seconds),              \
                "stop a trial without a further step after this time (default 120)",               \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW("time-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, time_seconds),                \
                "time limit of a trial (default none)", .about = CLI_OF_TRIALS),                   \
        CLI_ROW("batch-dim", "N", CLI_COUNT, LAUNCH_AT(type, batch_dim),                           \
                "tensor dimension that counts the samples: 1 if the sequence comes first "         \
                "(default the first, or the one with the size of {batch})",                        \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW_PYTHON(LAUNCH_AT(type, python)), CLI_ROW_ENV(LAUNCH_AT(type, environment)),        \
        CLI_ROW("config-key", "[NAME=]PATH", CLI_REPEAT, LAUNCH_AT(type, config_keys),             \
                "key for the value NAME (batch) in the trial's copy of the config, which the "     \
                "command takes as {config} (repeatable)",                                          \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW("longest-first", NULL, CLI_SWITCH, LAUNCH_AT(type, longest_first),                 \
                "start each trial with the longest of 4096 samples (found within 10 s), for data " \
                "of varying length",                                                               \
                .about = CLI_OF_TRIALS),                                                           \
        CLI_ROW_SNAPSHOT(LAUNCH_AT(type, snapshots)),                                              \
        CLI_ROW("keep-logs", "DIR", CLI_TEXT, LAUNCH_AT(type, log_folder),                         \
                "keep the complete output of each trial in this folder", "file",                   \
                .about = CLI_OF_TRIALS)
