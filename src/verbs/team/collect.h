// SPDX-License-Identifier: Apache-2.0
// team --collect: what this machine measured goes into its file, what all machines measured comes
// out as one row a GPU (doc/team.md).
#pragma once

#include "job/answer/answer.h"
#include "job/question/gpus.h"
#include "records/survey/survey.h"

struct team_collect_options {
    const char *folder; // NULL: .batchfit/team
    const char *store;  // of the history; NULL: the user's own
    const char *name;   // of this machine; NULL: as before
    const char *prefer; // safest, newest, fastest; NULL: safest
    bool no_history;    // this machine's file is not touched
    bool test_only;     // no file is
};

// One GPU of the table.
struct team_collect_row {
    struct forecast_card card;
    struct answer predicted;
    bool is_predicted;
    bool is_refuted;  // measured: that batch or a smaller one did not run
    bool is_answered; // nothing measured is in force, and the prediction fits and is not refuted
    const struct survey_card *measured; // NULL: by nobody
};
struct team_collect {
    struct question *q;
    struct str folder;
    struct str machine; // empty: this one has no file
    struct str path;    // of its file
    bool is_written;
    struct survey_file own; // what is or would be in it
    struct survey_question asked;
    struct survey_folder files;
    struct survey_merged merged;
    struct team_collect_row *rows;
    ptrdiff_t row_count, row_capacity;
};

// `cards`: those that are to have a row in any case.
int team_collect(struct question *q, const struct team_collect_options *o,
                 const struct question_gpus *cards, struct team_collect *ret, struct fail *why);
// What is in force on the row's GPU; NULL: nobody measured it, or nothing ran.
const struct survey_choice *team_collect_taken(const struct team_collect_row *row);

// What this machine measured of the question, put into its file (own.c).
int team_collect_own(struct team_collect *c, const struct team_collect_options *o,
                     struct fail *why);
// Fills in which GPU the record is of and what precision suits it.
void team_collect_place(struct question *q, struct survey_record *record);

void team_collect_show(const struct team_collect *c, const struct buf *report);
int team_collect_print_json(const struct team_collect *c, const char *settings, struct fail *why);

// --- The settings file ---------------------------------------------------------------------------

struct config_card team_settings_of(struct str key, const struct plan *p);
// Writes the GPUs to `path`, new or by the smallest edit; lines for people go to *report.
int team_settings_write(struct question *q, const struct config_card *cards, int count,
                        const char *path, struct buf *report, struct fail *why);
// The GPUs of an existing settings file, added to *GPUs where they are not there yet.
int team_settings_cards(struct question *q, const char *path, struct question_gpus *cards,
                        struct fail *why);
