// SPDX-License-Identifier: Apache-2.0
// The parts of the verb doctor: what is read, what is said.
#pragma once

#include "base/json.h"
#include "job/history/history.h"
#include "job/question/question.h"
#include "machine/cause/cause.h"
#include "machine/trend/trend.h"
#include "measure/logread/logread.h"
#include "measure/steps/steps.h"
#include "predict/death/death.h"
#include "view/show/show.h"

// How doctor reads a file: what is kept of it while it goes by, and one pair of functions a kind. A
// kind takes its bytes as they come or line by line, and fills the facts at the end.

enum {
    DOCTOR_READING_KEPT = 2048, // the newest steps and readings
    DOCTOR_READING_CSV_COLUMNS = 4,
    DOCTOR_SMI_COLUMNS = 64,
};

// The newest DOCTOR_READING_KEPT figures.
struct doctor_figures {
    double values[DOCTOR_READING_KEPT];
    ptrdiff_t seen;
};

// What is known of a log of nvidia-smi, or of a table like it (read_smi.c).
struct doctor_smi {
    int fields[DOCTOR_SMI_COLUMNS]; // what each column is
    bool is_csv, is_own, is_lost;   // is_own: of somebody's script
    int64_t rows, slow, slow_line;  // readings in which heat or the brake limited the clocks
    double ecc_errors;
};

// utf16.c
struct doctor_utf16 {
    bool is_so, is_big; // is_big: the upper byte first
    uint32_t half;      // the first of a pair that the next bytes complete; 0: none
    struct buf text;
};
// Of an even number of bytes, as UTF-8; valid until the next call.
struct str doctor_utf16(struct doctor_utf16 *u, struct str bytes);

struct doctor_reading {
    struct doctor *d;
    const char *name;
    struct logread log;
    struct steps steps;
    struct step *kept; // the newest, of one rank; a ring
    int64_t kept_seen;
    double earlier_most;
    double *times;
    int64_t *numbers;
    ptrdiff_t time_count;
    int64_t stride, event_line, lines, broken;
    int64_t empty; // readings of a GPU on which nothing runs
    struct doctor_figures utilisation, memory;
    struct doctor_smi smi;
    struct findings findings;
    struct buf line, document;
    struct doctor_utf16 utf16;
    bool skips;
    int columns[DOCTOR_READING_CSV_COLUMNS];
};

// read_log.c: a training's output.
int doctor_reading_log_bytes(struct doctor_reading *r, struct str bytes, struct fail *why);
int doctor_reading_log_end(struct doctor_reading *r, struct fail *why);
// read_steps.c: doc/formats/steps.md.
int doctor_reading_steps_line(struct doctor_reading *r, struct str line, struct fail *why);
int doctor_reading_steps_end(struct doctor_reading *r, struct fail *why);
// read_watch.c: the logs of watch, JSON Lines and CSV.
int doctor_reading_watch_line(struct doctor_reading *r, struct str line, struct fail *why);
int doctor_reading_csv_line(struct doctor_reading *r, struct str line, struct fail *why);
int doctor_reading_watch_end(struct doctor_reading *r, struct fail *why);
double doctor_figures_median(const struct doctor_figures *f);
// One reading of one GPU: the share of the time that it was busy, MiB; NaN: not said. One of a GPU
// on which nothing runs (the others of a machine, the time before the training) is only counted.
void doctor_gauges_add(struct doctor_reading *r, double utilisation, double used_mib,
                       double total_mib);
// read_smi.c: what nvidia-smi logs, CSV and dmon; and tables of others with its columns.
bool doctor_is_smi(struct str first_line);
int doctor_reading_smi_line(struct doctor_reading *r, struct str line, struct fail *why);
int doctor_reading_smi_end(struct doctor_reading *r, struct fail *why);
// read_bench.c: the document of bench --json.
int doctor_reading_bench_bytes(struct doctor_reading *r, struct str bytes, struct fail *why);
int doctor_reading_bench_end(struct doctor_reading *r, struct fail *why);

struct doctor_snapshot;

struct doctor_options {
    struct question_options q;
    struct history_options h;
    const char *gpu;
    int64_t gpu_memory, pid, run;
    double duration;
    bool details;
};

// What was looked at, and what it shows.
struct doctor {
    struct arena *arena;
    const struct doctor_options *options;
    struct str source; // "train.log", "process 4242", "run 57"
    struct str kind;   // "log", "steps", "watch", "bench", "process", "run"
    struct str read;   // "1,240 lines", for people
    struct cause_facts facts;
    struct causes causes;
    struct str_list notes;
    // The config, where one is given.
    bool has_question;
    struct question question;
    // What fit answers on this GPU; empty where nobody can tell.
    struct str effect;
    int64_t effect_batch, effect_accumulation, effect_before_bytes, effect_after_bytes;
    bool is_smaller;                  // it is a smaller batch
    bool is_no_wonder;                // the batch of the run does not fit by prediction
    struct doctor_snapshot *snapshot; // NULL: it is none
};

// read.c: a file, or "-". FAIL_INPUT: none such, empty, not a text, broken from end to end.
int doctor_read(struct doctor *d, const char *path, struct fail *why);
// pid.c: a live process and its tree, for `seconds`. FAIL_INPUT: no such process;
// FAIL_MACHINE: somebody else's.
int doctor_look(struct doctor *d, int64_t pid, double seconds, struct fail *why);
// recall.c: a row of the history. FAIL_INPUT: no such row.
int doctor_recall(struct doctor *d, int64_t id, struct fail *why);
// read_log.c: how a text ended: fills facts.ending.
struct failure;
void doctor_take_ending(struct doctor *d, const struct failure *e, int64_t line);

// snapshot.c: a memory snapshot of PyTorch. FAIL_INPUT: none such, no sound pickle, no snapshot.
bool doctor_is_snapshot(struct doctor *d, const char *path);
int doctor_read_snapshot(struct doctor *d, const char *path, struct fail *why);
// snapshot_show.c: what follows the causes; the member "snapshot" of the document.
void doctor_show_snapshot(struct doctor *d, struct show_style style, struct buf *out);
json_t *doctor_snapshot_json(struct doctor *d);

// remedy.c: the remedy in the words of the user's config, and what it would need.
struct str doctor_keys(struct doctor *d, const struct cause *c);
void doctor_predict(struct doctor *d);
bool doctor_is_of_gpu_memory(const struct cause *c);
// To be copied; empty: there is none.
struct str doctor_command(struct doctor *d, const struct cause *c);

// show.c
void doctor_print(struct doctor *d);
int doctor_print_json(struct doctor *d, struct fail *why);

// A memory snapshot under the doctor's eyes.

struct doctor_snapshot {
    struct snapshot file;
    struct death *gpus; // those that it has something of
    int count;
};
