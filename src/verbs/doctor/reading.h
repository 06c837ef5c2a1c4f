// SPDX-License-Identifier: Apache-2.0
// How doctor reads a file: what is kept of it while it goes by, and one pair of functions a kind. A
// kind takes its bytes as they come or line by line, and fills the facts at the end.
#pragma once

#include "machine/trend/trend.h"
#include "measure/logread/logread.h"
#include "measure/steps/steps.h"
#include "verbs/doctor/doctor.h"

enum {
    DOCTOR_READING_KEPT = 2048, // the newest steps and readings
    DOCTOR_READING_CSV_COLUMNS = 4,
};

// The newest DOCTOR_READING_KEPT figures.
struct doctor_figures {
    double values[DOCTOR_READING_KEPT];
    ptrdiff_t seen;
};

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
    struct doctor_figures utilisation, memory;
    struct findings findings;
    struct buf line, document;
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
// read_bench.c: the document of bench --json.
int doctor_reading_bench_bytes(struct doctor_reading *r, struct str bytes, struct fail *why);
int doctor_reading_bench_end(struct doctor_reading *r, struct fail *why);
