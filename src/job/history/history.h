// SPDX-License-Identifier: Apache-2.0
// The history for the verbs: what they did goes in, earlier trials and residuals come out
// (doc/history.md). A courtesy: whatever goes wrong here is a note, and the verb goes on.
#pragma once

#include "base/str.h"
#include "cli/cli.h"
#include "job/answer/answer.h"
#include "measure/launch/launch.h"
#include "records/store/store.h"

struct history_options {
    const char *store; // NULL: the user's own
    bool is_off;       // neither read nor written
    bool fresh;        // written, and not answered from
};

// The rows of these options, for a verb whose struct is `type` with the member `h`.
#define HISTORY_ROWS(type)                                                \
    CLI_ROW_STORE(offsetof(type, h.store)),                               \
        CLI_ROW("no-history", NULL, CLI_SWITCH, offsetof(type, h.is_off), \
                "neither read nor write the history", .about = CLI_OF_HISTORY)

struct history {
    struct arena *arena;
    bool fresh;
    struct store *store;   // NULL: there is none
    struct store_run base; // what the rows of this call share
    struct str_list notes; // for the user, once
    bool failed, unread;   // one note about each is enough
    int64_t recalled;      // trials that were answered from it
    int64_t recalled_ms;   // when the newest of them was made
};

// Never fails. Opened late: nothing is made when nothing is asked.
void history_open(struct arena *a, const struct history_options *o, struct history *ret_history);
void history_close(struct history *h);
// The run of that number. FAIL_INPUT: there is none; the hint says where to look, or that the
// history was damaged and a new one begun.
int history_run(struct arena *a, struct store *store, int64_t id, struct store_run *ret_run,
                struct fail *why);

// The device of the trials, for all rows that follow. `machine`: a recorded one, which makes them
// rows of a fake.
void history_place(struct history *h, const struct launch *l, const char *machine);
// What must be the same for an earlier trial to answer: of the command, its files, the config less
// its batch, the plan less its batch, the device, the driver.
void history_question(struct history *h, const struct question *q, char *const *command,
                      const struct launch *l, const struct launch_options *o);

// The command alone, where nothing is answered from earlier rows.
void history_command(struct history *h, char *const *command);

// A row with what this call's rows share and the plan.
struct store_run history_row(const struct history *h, const char *kind, const struct plan *p);
void history_result(struct history *h, const struct launch_result *r, struct store_run *run);
void history_predicted(const struct forecast_peak *peak, struct store_run *run);
void history_add(struct history *h, struct store_run *run); // with the time of now

// An earlier trial of the question with this batch, when it says what would happen within
// `budget_bytes` now. Its result is as the trial's was.
bool history_recall(struct history *h, const struct plan *p, int64_t budget_bytes,
                    struct launch_result *ret_result);
void history_note_recalled(struct history *h, ptrdiff_t trials);

// What measured runs of this GPU say of predictions: fills card->correction and returns a line
// that says so, or an empty text.
struct str history_correct(struct history *h, const struct tape_store *tapes, struct str model,
                           struct forecast_card *card);
// The answers of a fit without trials.
void history_answers(struct history *h, const struct answer *answers, ptrdiff_t count);

// "2026-11-22 01:10" of a time in ms, UTC.
struct str history_date(struct arena *a, int64_t at_ms);

// All that must be the same for the results of two calls to belong together, written as lines:
// bench goes on by it, fit answers from the history by it.

void history_identity_line(struct buf *b, const char *name, struct str text);
// Name, size and time of change. Not a regular file, or NULL: nothing.
void history_identity_file(struct buf *b, const char *path);
// The files that a config is made of, beside its own text, by what they hold.
void history_identity_files(struct arena *a, struct buf *b, const struct config *config);
// The command, its files, the Python, the environment and the options of its trials.
void history_identity_launch(struct arena *a, struct buf *b, char *const *command,
                             const struct launch *l, const struct launch_options *o);
// The Python files beside each file that the command names, and in the folder of the call.
void history_identity_sources(struct arena *a, struct buf *b, char *const *command);
