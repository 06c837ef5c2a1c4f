// SPDX-License-Identifier: Apache-2.0
// A model that is a folder of the user's own, as transformers reads it, or its config.json: what
// counts is the shape in it, not what it is called.
#ifndef QUESTION_LOCAL_H
#define QUESTION_LOCAL_H

#include "job/question/question.h"

// Where the plan's model is a folder or a config.json (also behind hf:): the model of the same
// shape that there are tapes of; or none, and why, as a note. FAIL_INPUT: there is none, and it is
// needed.
int question_local(struct question *q, bool is_optional, struct fail *why);

#endif
