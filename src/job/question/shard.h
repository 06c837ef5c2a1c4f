// SPDX-License-Identifier: Apache-2.0
// Weights that several GPUs share: from the command line, or from what the config says of it.
#pragma once

#include "job/question/question.h"

// Puts it into the plan. Of a config that is FSDP2 as templates have it, and nothing beside it;
// what else a config says of sharding stays one of its guards.
int question_shard(struct question *q, const struct question_options *o, struct fail *why);
// Whether the plan has what the config says here.
bool question_shard_models(const struct question *q, const struct config_guard *g);
// When the model and the number of GPUs are known: sharding is over several. What the config alone
// asks for and cannot be predicted is one of its guards again.
int question_shard_check(struct question *q, const struct question_options *o, struct fail *why);
// "8xh100": 8, and `name` is "h100" from now on; 0: it is only a name.
int64_t question_shard_count(struct str *name);
// The same of --gpus: the name of the GPU, and 8 into the options' ranks.
int question_shard_gpus(struct question_options *o, const char **ret_gpu, struct arena *a,
                        struct fail *why);
