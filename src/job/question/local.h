// SPDX-License-Identifier: Apache-2.0
// A model that is a folder of the user's own, as transformers reads it: what counts is the shape in
// its config.json, not what the folder is called.
#ifndef QUESTION_LOCAL_H
#define QUESTION_LOCAL_H

#include "job/question/question.h"

// Where the plan's model is a folder with a config.json: the model of the same shape that there are
// tapes of; or none, and why, as a note. FAIL_INPUT: there is none, and it is needed.
int question_local(struct question *q, bool is_optional, struct fail *why);

#endif
