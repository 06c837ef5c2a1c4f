// SPDX-License-Identifier: Apache-2.0
// What the machines of a team measured: one text file a machine, in a folder that git carries
// (doc/formats/team-results.md). This room reads and writes these files and finds what they come to
// together: one setting a card, who differs, what was left out and why. It knows no card and no
// history: who asks says which entry a record's card is.
//
// Recipe: to add a figure to the records, a member here, a row of `team_members` in
// src/team/record.c, and a row of doc/formats/team-results.md. A figure that older programs must
// not pass over needs the next TEAM_VERSION.
#ifndef TEAM_TEAM_H
#define TEAM_TEAM_H

#include "base/fail.h"
#include "plan/plan.h"

#include <stdbool.h>

enum { TEAM_VERSION = 1 };

// One measured trial. Unknown is -1, NaN and an empty text.
struct team_record {
    struct str date; // "2026-11-22T01:10:33Z"
    struct str card; // as the driver names it
    struct str version, torch;
    struct plan plan;  // unknown in its own way; `classes` is not in the file
    struct str status; // OK, ALMOST, OOM, SPILLS
    int64_t capacity_bytes, limit_bytes;
    int64_t peak_bytes, reserved_bytes, charged_bytes;
    double samples_per_s;
    // Not in the file; who asks fills them in before team_judge.
    struct str key; // the card's entry in the settings file; empty: the record is passed over
    enum plan_precision adapted; // that suits the card, beside the question's own
};
struct team_record team_record_unknown(void);
// A member that no file may hold; NULL: it can be written and is read again.
const char *team_unsound(const struct team_record *r);

struct team_file {
    struct str machine; // 16 hexadecimal digits, drawn once; says nothing about the machine
    struct str name;    // what its owner calls it; empty: not said
    struct team_record *records;
    ptrdiff_t count, capacity;
};
// What people see of a machine: its name, else its first eight digits.
struct str team_called(const struct team_file *file);
bool team_is_name(struct str s); // what a file may hold as its name

// FAIL_INPUT: damaged, a merge that was not finished, or of a newer version; the message says where
// (`path`:LINE) and *ret_line too. ret_line may be NULL.
int team_read(struct arena *a, struct str path, struct str text, struct team_file *ret_file,
              int64_t *ret_line, struct fail *why);
// The records sorted, one a line: the same records are the same text.
struct str team_write(struct arena *a, struct team_file *file);
// Puts a record in, in place of one that is of the same question, card and batch and no newer.
void team_add(struct arena *a, struct team_file *file, const struct team_record *record);

// --- A folder of them ----------------------------------------------------------------------------

struct team_left {
    struct str file;
    int64_t line; // 0: the whole file
    struct str reason;
};
struct team_folder {
    struct team_file *files;
    ptrdiff_t count, capacity;
    struct team_left *left; // files that could not be used
    ptrdiff_t left_count, left_capacity;
};
struct str team_path(struct arena *a, struct str folder, struct str machine);
// All machines' files. An absent folder has none. FAIL_MACHINE: it cannot be read.
int team_open(struct arena *a, struct str folder, struct team_folder *ret_folder, struct fail *why);

// --- What they come to ---------------------------------------------------------------------------

enum team_prefer { TEAM_SAFEST, TEAM_NEWEST, TEAM_FASTEST };

// The training that is asked about.
struct team_question {
    struct plan plan;  // its batch does not count; precision UNKNOWN: any
    struct str also;   // the name of the model's tape: either counts
    int64_t effective; // what every machine must keep; 0: the batch is free
    double margin;     // share of the card that must have been free; NaN: what the trials kept
    enum team_prefer prefer;
};

// What one machine measured on one card.
struct team_choice {
    const struct team_file *file;
    const struct team_record *record;  // NULL: nothing ran
    const struct team_record *stopped; // smallest batch that did not run; NULL: none was met
};
struct team_card {
    struct str key;
    struct team_choice *choices;
    ptrdiff_t count, capacity;
    ptrdiff_t taken;  // -1: nothing ran
    bool is_conflict; // the machines' batches or precisions differ
};
// A machine's part in it.
struct team_part {
    const struct team_file *file;
    ptrdiff_t used;    // records of the question
    int64_t effective; // of the newest of them; 0: there is none
    bool differs;      // from the effective batch that is asked for
    struct str reason; // used 0: how its newest record is another question
};
struct team_merged {
    struct team_card *cards; // in the order of their keys
    ptrdiff_t count, capacity;
    struct team_part *parts; // one a file
    ptrdiff_t part_count;
    ptrdiff_t differing; // parts that differ: their records are not used
};
void team_judge(struct arena *a, const struct team_folder *folder, const struct team_question *q,
                struct team_merged *ret_merged);

#endif
