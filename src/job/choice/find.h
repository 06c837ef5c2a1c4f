// SPDX-License-Identifier: Apache-2.0
// What fits, asked the other way round: not the largest batch, but at the config's batch the longest
// sequence, the fewest GPUs that share the weights, the largest rank of LoRA or the least sharing.
#pragma once

#include "job/choice/choice.h"
#include "job/question/gpus.h"

// Before the question is read: the word is known, and what it finds is not said beside it.
int choice_find_check(struct choice_options *o, struct fail *why);
// Puts what was found into the question, at its batch; where nothing fits, the least.
int choice_find(struct question *q, const char *what, const struct question_gpus *cards,
                struct fail *why);
