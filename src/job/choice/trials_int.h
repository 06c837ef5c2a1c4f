// SPDX-License-Identifier: Apache-2.0
// Between the files that find the batch by trials.
#pragma once

#include "job/choice/trials.h"

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
