// SPDX-License-Identifier: Apache-2.0
// Why a training is slow, or why it died: one const table of rules (cause.c) over what its log, its
// steps, its GPU and its processes show. A rule answers with a cause, with what was seen, and with
// what can be done. Rules read nothing and print nothing.
//
// Recipe: to add a cause
//   1. a row in the table of cause.c; the id is for ever. A row that the program's last words
//   decide
//      names signatures of measure/failure/failure.h and needs no judge; any other has one, in
//      memory.c, speed.c or process.c, which says nothing (returns false) where
//      it does not hold;
//   2. a log on which it comes first in tests/doctor/ID.log, or a case in
//   tests/unit/cause.c;
//   3. its row in doc/formats/doctor.md.
#pragma once

#include "machine/finding/finding.h"
#include "step/times.h"

// How strong the evidence is. The confidence of a cause is that of its strength, never a figure of
// its own: the table is in cause.c.
enum cause_strength {
    CAUSE_SAID,       // the program, the driver or the kernel says it, in words that mean only this
    CAUSE_COUNTED,    // figures in what was said show it
    CAUSE_MEASURED,   // measured, over 20 readings or more
    CAUSE_BRIEFLY,    // measured, over fewer
    CAUSE_AMBIGUOUS,  // words that usually mean this
    CAUSE_CONSISTENT, // what was seen is what it does; other causes do it, too
    CAUSE_STRENGTHS,
};
double cause_confidence(enum cause_strength strength);

// What of the training's settings would help; who knows the config says how it is spelt there.
enum cause_action {
    CAUSE_SMALLER_BATCH = 1, // with more accumulation: the effective batch stays
    CAUSE_LARGER_BATCH = 2,
    CAUSE_MORE_WORKERS = 4,
    CAUSE_FEWER_WORKERS = 8,
    CAUSE_MIXED_PRECISION = 16,
    CAUSE_FULL_PRECISION = 32,
    CAUSE_SMALLER_EVAL = 64, // the evaluation's batch; the training's is left alone
};

struct cause {
    const char *id;     // stable: "memory.fragmentation"
    const char *what;   // one line for people
    struct str subject; // the file, host or module that it is about; empty: none is named
    enum cause_strength strength;
    struct str evidence;
    struct str quote; // the line that says it; empty: none
    int64_t line;     // its number, from 1; 0: not known
    struct str remedy;
    unsigned actions; // of enum cause_action, together
};
struct causes {
    struct cause *items;
    ptrdiff_t count, capacity;
};

enum cause_place { CAUSE_ANYWHERE, CAUSE_IN_VALIDATION, CAUSE_IN_LAST_BATCH };

// How it ended: a signature of measure/failure/failure.h, by its texts. Bytes -1: not said.
struct cause_ending {
    const char *signature; // "cuda-oom"; NULL: not known, "clean": well
    const char *what, *hint;
    struct str subject; // as struct cause
    struct str line;
    int64_t line_number;
    int64_t tried_bytes, total_bytes, free_bytes, in_use_bytes, allocated_bytes, unallocated_bytes;
    bool is_fragmented, by_others, is_spilled; // as the figures say
    bool is_doubtful; // the log goes on after it, or another error came later: at most likely
    int64_t steps;    // that were seen before; -1: steps are not told
    enum cause_place place;
    struct str place_line; // that says where it was
};

// Over a stretch of /proc. Counts -1, shares NaN where not known.
struct cause_process {
    double seconds;      // 0: no process was looked at
    int workers;         // children of the process that trains
    double cpus;         // CPUs that the whole tree keeps busy
    double main_thread;  // share of the time in which the trainer's busiest thread runs or wants to
    double workers_busy; // mean share of one CPU that a worker uses
    double disk_share;   // of the looks in which one of its threads waited for a disk
    int64_t shm_total_bytes, shm_free_bytes, open_files, open_files_limit;
    ptrdiff_t looks;
};

// What is known. Zeroed, with cause_facts_unknown, nothing is.
struct cause_facts {
    struct cause_ending ending;
    int64_t nan_line, nan_count; // the first loss that was no number; how many lines; 0: none
    struct str nan_text;
    bool loss_recovered; // a finite one came after the last
    int64_t scale_line;  // from which on the fp16 loss scale was at its end; 0: it never was
    struct str scale_text;
    int64_t flush_line, flush_count; // the allocator's cache was given back for lack of memory
    struct str flush_text;
    // Times of steps, oldest first, and the line (or number) of each.
    const double *times_ms;
    const int64_t *times_at;
    ptrdiff_t time_count;
    bool at_is_line;
    struct step_times phases; // medians
    ptrdiff_t phase_steps;    // that they are of
    bool on_cpu;              // it trained without a GPU
    double utilisation;       // median share of the time in which a kernel ran
    double memory_share;      // median share of the GPU's memory in use
    ptrdiff_t gauge_count;
    const struct finding *trends; // verdicts over time (machine/trend/trend.h)
    ptrdiff_t trend_count;
    bool is_fp32;           // the config, or the run, says that there is no mixed precision
    int workers;            // of the config; -1: unknown
    bool pin_memory_is_off; // the config says so
    struct cause_process process;
};
struct cause_facts cause_facts_unknown(void);

// All causes that hold, the surest first; of equal ones in the order of the table.
void cause_judge(struct arena *a, const struct cause_facts *facts, struct causes *ret_causes);

// Every id, for the documents and tests. NULL from the end on.
const char *cause_id(int index);
// The row of a signature; NULL: no row does.
const char *cause_of_signature(const char *signature);
