// SPDX-License-Identifier: Apache-2.0
// A config of torchtitan: its FSDP2, its selective checkpointing and its tensor parallelism, which
// templates have as that program applies them.
#pragma once

#include "job/question/question.h"

// Takes what the config and --tp say into the plan; with --tp FSDP2 is torchtitan's. FAIL_USAGE.
int question_titan(struct question *q, const struct question_options *o, struct fail *why);
// Of so many GPUs in all, those that are data-parallel. FAIL_INPUT: they cannot be divided.
int question_titan_ranks(const struct question *q, const struct question_options *o,
                         int64_t *ret_ranks, struct fail *why);
// Whether the plan has what the guard names.
bool question_titan_models(const struct question *q, const struct config_guard *g);
