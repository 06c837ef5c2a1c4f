// SPDX-License-Identifier: Apache-2.0
// A config of an ensemble: several models, trained one after another with the same settings.
#pragma once

#include "job/question/question.h"

// Puts into the plan that one of the config's models which needs the most memory, and names all.
// FAIL_INPUT: one of them has no tape, so nobody knows.
int question_several(struct question *q, struct fail *why);
