// SPDX-License-Identifier: Apache-2.0
// The parts of the verb doctor: what is read, what is said.
#pragma once

#include "base/json.h"
#include "job/history/history.h"
#include "job/question/question.h"
#include "machine/cause/cause.h"
#include "view/show/style.h"

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
