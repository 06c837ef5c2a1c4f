// SPDX-License-Identifier: Apache-2.0
// LoRA over frozen weights, in four bits or not: from the command line, or from what the config
// says of it.
#pragma once

#include "job/question/question.h"

// Puts it into the plan. What the config says only in part stays one of its guards.
int question_adapter(struct question *q, const struct question_options *o, struct fail *why);
// What it is trained in where nobody says it.
enum plan_precision question_adapter_precision(const struct plan *p);
// After the precision is known: an adapter of a trainer whose adapters are in the weights' type.
void question_adapter_type(struct question *q);
// After all else of the plan is known: a config's adapter that no tape or template covers becomes
// one of its guards again, and the reason a note.
void question_adapter_check(struct question *q, const struct question_options *o);
// Whether a guard of the config is in the plan.
bool question_adapter_models(const struct question *q, const struct config_guard *g);
// "LoRA", "QLoRA" or "full fine-tuning"
const char *question_adapter_name(const struct plan *p);
