// SPDX-License-Identifier: Apache-2.0
// What the machines of a team measured: one text file a machine, in a folder that git carries
// (doc/formats/team-results.md). This room reads and writes these files and finds what they come to
// together: one setting a GPU, who differs, what was left out and why. It knows no GPU and no
// history: who asks says which entry a record's GPU is.
//
// Recipe: to add a figure to the records, a member here, a row of `survey_members` in
// src/records/survey/record.c, and a row of doc/formats/team-results.md. A figure that older
// programs must not pass over needs the next SURVEY_VERSION.
#pragma once

#include "base/fail.h"
#include "predict/plan/plan.h"

#include <stdbool.h>

enum { SURVEY_VERSION = 1, SURVEY_RECORDS_MOST = 5000 };

// One measured trial. Unknown is -1, NaN and an empty text.
struct survey_record {
    struct str date; // "2026-11-22T01:10:33Z"
    struct str card; // as the driver names it
    struct str version, torch;
    struct plan plan;  // unknown in its own way; `classes` is not in the file
    struct str status; // OK, ALMOST, OOM, SPILLS
    int64_t capacity_bytes, limit_bytes;
    int64_t peak_bytes, reserved_bytes, charged_bytes;
    double samples_per_s;
    int64_t number; // not in the file: its place in the order in which they came
    // Not in the file; who asks fills them in before survey_judge.
    struct str key; // the GPU's entry in the settings file; empty: the record is passed over
    enum plan_precision adapted; // that suits the GPU, beside the question's own
};
struct survey_record survey_record_unknown(void);
// A member that no file may hold; NULL: it can be written and is read again.
const char *survey_unsound(const struct survey_record *r);

struct survey_file {
    struct str machine; // 16 hexadecimal digits, drawn once; says nothing about the machine
    struct str name;    // what its owner calls it; empty: not said
    struct survey_record *records;
    ptrdiff_t count, capacity;
    ptrdiff_t tidied; // of them there were after the last tidying
    int64_t came;     // in all
};
// What people see of a machine: its name, else its first eight digits.
struct str survey_called(const struct survey_file *file);
bool survey_is_name(struct str s); // what a file may hold as its name

// FAIL_INPUT: damaged, a merge that was not finished, or of a newer version; the message says where
// (`path`:LINE) and *ret_line too. ret_line may be NULL.
int survey_read(struct arena *a, struct str path, struct str text, struct survey_file *ret_file,
                int64_t *ret_line, struct fail *why);
// The records sorted, one a line: the same records are the same text.
struct str survey_write(struct arena *a, struct survey_file *file);
// Puts a record in; of those of one question, GPU and batch the newest is written.
void survey_add(struct arena *a, struct survey_file *file, const struct survey_record *record);
// A machine's file holds at most SURVEY_RECORDS_MOST: the newest stay, and it returns how many go.
ptrdiff_t survey_drop_oldest(struct survey_file *file);

// --- A folder of them ----------------------------------------------------------------------------

struct survey_left {
    struct str file;
    int64_t line; // 0: the whole file
    struct str reason;
};
struct survey_folder {
    struct survey_file *files;
    ptrdiff_t count, capacity;
    struct survey_left *left; // files that could not be used
    ptrdiff_t left_count, left_capacity;
};
struct str survey_path(struct arena *a, struct str folder, struct str machine);
// All machines' files. An absent folder has none. FAIL_MACHINE: it cannot be read.
int survey_open(struct arena *a, struct str folder, struct survey_folder *ret_folder,
                struct fail *why);

// --- What they come to ---------------------------------------------------------------------------

enum survey_prefer { SURVEY_SAFEST, SURVEY_NEWEST, SURVEY_FASTEST };

// The training that is asked about.
struct survey_question {
    struct plan plan;  // its batch does not count; precision UNKNOWN: any
    struct str also;   // the name of the model's tape: either counts
    int64_t effective; // what every machine must keep; 0: the batch is free
    double margin;     // share of the GPU that must have been free; NaN: what the trials kept
    enum survey_prefer prefer;
};

// What one machine measured on one GPU.
struct survey_choice {
    const struct survey_file *file;
    const struct survey_record *record;  // NULL: nothing ran
    const struct survey_record *stopped; // smallest batch that did not run; NULL: none was met
};
struct survey_card {
    struct str key;
    struct survey_choice *choices;
    ptrdiff_t count, capacity;
    ptrdiff_t taken;  // -1: nothing ran
    bool is_conflict; // the machines' batches or precisions differ
};
// A machine's part in it.
struct survey_part {
    const struct survey_file *file;
    ptrdiff_t used;    // records of the question
    int64_t effective; // of the newest of them; 0: there is none
    bool differs;      // from the effective batch that is asked for
    struct str reason; // used 0: how its newest record is another question
};
struct survey_merged {
    struct survey_card *cards; // in the order of their keys
    ptrdiff_t count, capacity;
    struct survey_part *parts; // one a file
    ptrdiff_t part_count;
    ptrdiff_t differing; // parts that differ: their records are not used
};
void survey_judge(struct arena *a, const struct survey_folder *folder,
                  const struct survey_question *q, struct survey_merged *ret_merged);
