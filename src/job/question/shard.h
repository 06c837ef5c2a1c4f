// SPDX-License-Identifier: Apache-2.0
// Weights that several GPUs share: from the command line, or from what the config says of it.
#ifndef QUESTION_SHARD_H
#define QUESTION_SHARD_H

#include "job/question/question.h"

// Puts it into the plan. What the config says and no template covers stays one of its guards.
int question_shard(struct question *q, const struct question_options *o, struct fail *why);
// When the number of GPUs is known: sharding is over several.
int question_shard_check(struct question *q, const struct question_options *o, struct fail *why);
// "8xh100": the name of the GPU, and 8 into the options' ranks.
int question_shard_gpus(struct question_options *o, const char **ret_gpu, struct arena *a,
                        struct fail *why);

#endif
