// SPDX-License-Identifier: Apache-2.0
// How doctor reads a file: what is kept of it while it goes by, and one pair of functions a kind. A
// kind takes its bytes as they come or line by line, and fills the facts at the end.
#ifndef CMD_DOCTOR_READING_H
#define CMD_DOCTOR_READING_H

#include "cmd/doctor/doctor.h"
#include "insight/trend.h"
#include "probe/journal.h"
#include "probe/steps.h"

enum {
    READING_KEPT = 2048, // the newest steps and readings
    READING_CSV_COLUMNS = 4,
};

// The newest READING_KEPT figures.
struct figures {
    double values[READING_KEPT];
    ptrdiff_t seen;
};

struct reading {
    struct doctor *d;
    const char *name;
    struct logread journal;
    struct steps steps;
    struct step *kept; // the newest, of one rank; a ring
    int64_t kept_seen;
    double earlier_most;
    double *times;
    int64_t *numbers;
    ptrdiff_t time_count;
    int64_t stride, event_line, lines, broken;
    struct figures utilisation, memory;
    struct insight_findings findings;
    struct buf line, document;
    bool skips;
    int columns[READING_CSV_COLUMNS];
};

// read_log.c: a training's output.
int reading_log_bytes(struct reading *r, struct str bytes, struct fail *why);
int reading_log_end(struct reading *r, struct fail *why);
// read_steps.c: doc/formats/steps.md.
int reading_steps_line(struct reading *r, struct str line, struct fail *why);
int reading_steps_end(struct reading *r, struct fail *why);
// read_watch.c: the logs of watch, JSON Lines and CSV.
int reading_watch_line(struct reading *r, struct str line, struct fail *why);
int reading_csv_line(struct reading *r, struct str line, struct fail *why);
int reading_watch_end(struct reading *r, struct fail *why);
// read_bench.c: the document of bench --json.
int reading_bench_bytes(struct reading *r, struct str bytes, struct fail *why);
int reading_bench_end(struct reading *r, struct fail *why);

#endif
