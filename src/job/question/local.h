// SPDX-License-Identifier: Apache-2.0
// A model that is a folder of the user's own, as transformers reads it, its config.json, one of the
// Hugging Face cache, or a copy of a known one under another owner: what counts is its shape.
#pragma once

#include "job/question/question.h"

// Where the plan's model is a folder or a config.json (also behind hf:), or a name of the hub that
// neither tapes nor tables have: the template of its shape, or the model of the same shape that
// there are tapes of; or none, and why, as a note. Weights that it has in few bits go into the plan
// or become a guard. FAIL_INPUT: there is none, and it is needed.
int question_local(struct question *q, bool is_optional, struct fail *why);
