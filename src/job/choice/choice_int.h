// SPDX-License-Identifier: Apache-2.0
// fit with a command: the batch is found by launching the user's training. The tape, where there is
// one, only says where to begin.
#pragma once

#include "job/answer/answer.h"
#include "job/history/history.h"
#include "measure/launch/launch.h"
#include "predict/search/search.h"

struct choice_trial {
    struct plan plan; // with the batch and accumulation that the training would have
    struct launch_result result;
    bool is_recalled; // not run: the history has it
};

// Samples of an optimizer step, of all ranks, of the command as it is without us and as it is
// answered; 0: not known.
enum choice_effective_from {
    CHOICE_EFFECTIVE_UNKNOWN,
    CHOICE_EFFECTIVE_ASKED, // the option or the config
    CHOICE_EFFECTIVE_DEFAULT,
};
struct choice_effective {
    int64_t before, after;
    enum choice_effective_from from;
};

struct choice_measured {
    struct question *q;
    struct launch launch;
    struct history *history;
    struct forecast_card card;
    double margin;          // share of the device that is kept free in the trials
    int64_t budget_bytes;   // what a trial may use
    int64_t cap;            // the largest batch that was to be tried; 0: none could be
    bool is_predicted;      // a tape matches the plan: predicted is filled
    bool is_refuted;        // it was, until a trial showed that it is wrong
    ptrdiff_t notes_before; // the question's, before the prediction's own
    struct choice_effective effective;
    bool is_free; // the effective batch need not be kept
    struct answer predicted;
    struct choice_trial *trials;
    ptrdiff_t trial_count, trial_capacity;
    struct search_trials_result found;
    struct answer chosen;               // plan: what goes into the config
    const struct choice_trial *best;    // the trial of the chosen batch; NULL: nothing fits
    int64_t knee_batch;                 // 0: unknown, or none that fits is so fast
    const struct choice_trial *fastest; // of all that ran, also beyond the margin; NULL: unknown
    bool knee_is_certain;
    bool confirmed; // the chosen batch itself ran, with a second optimizer step
};

struct choice_trials_options {
    struct launch_options l;
    bool prefers_knee; // chooses the knee instead of the largest
    bool is_free;      // the effective batch need not be kept
};

// Runs the trials. FAIL_INPUT: the command does not train (its last lines are in the hint or the
// log); FAIL_USAGE: it does not take {batch}. The question and the options must stay in place.
// Trials that the history has are not run again, and those that are run are stored.
int choice_by_trials(struct question *q, const struct choice_trials_options *o,
                     char *const *command, struct history *history, struct choice_measured *ret,
                     struct fail *why);

// The answer as text: a table of the trials, what was chosen and why, what was not covered.
void choice_show_trials(const struct choice_measured *m, struct show_style style, struct buf *out);
// The same as a document: that of fit, with trials.
json_t *choice_trials_json(const struct choice_measured *m);

// Between the files that find the batch by trials.

// --- What is predicted ---

int choice_open_card(struct choice_measured *m, struct fail *why);
// No tape is no error here: the trials find the batch without one, in a launch or two more.
void choice_predict(struct choice_measured *m);
double choice_predicted_bytes(void *context, int64_t batch);
// What others see of the trial that runs (launch.h).
void choice_about(void *context, int64_t batch, struct registry_run *run);
// A prediction that a trial refutes is said to be wrong and forgotten.
void choice_see_prediction(struct choice_measured *m, const struct choice_trial *t);

// --- The effective batch ---

// What the trials tell of the command as it is without us. True: there is an effective batch to
// keep now, and there was none before.
bool choice_learn_effective(struct choice_measured *m);
// What the answer changes for the learning, and how it would not.
void choice_note_effective(struct choice_measured *m);

// The largest batch that was to be tried fits: the search ended there, not the memory or the
// effective batch.
bool choice_is_capped(const struct choice_measured *m);

// What of a whole run the chosen trial did not see: bits of enum step_cover.
unsigned choice_not_covered(const struct choice_measured *m);
