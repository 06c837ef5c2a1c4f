// SPDX-License-Identifier: Apache-2.0
// A fused loss of a language model: from the command line, or from what the config says of it.
#pragma once

#include "job/question/question.h"

// Puts it into the plan. What the config says only in part stays one of its guards.
int question_loss(struct question *q, const struct question_options *o, struct fail *why);
// After all else of the plan is known: a config's loss that no tape or template covers becomes one
// of its guards again.
void question_loss_check(struct question *q, const struct question_options *o);
// Whether a guard of the config is in the plan.
bool question_loss_models(const struct question *q, const struct config_guard *g);
