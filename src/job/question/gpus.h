// SPDX-License-Identifier: Apache-2.0
// Which GPUs a question is answered for.
#pragma once

#include "job/question/question.h"
#include "measure/launch/launch.h"

struct question_gpus {
    struct forecast_card *items;
    ptrdiff_t count, capacity;
};

// "rtx4090,rtx3080"
int question_gpus_named(struct question *q, const char *names, struct question_gpus *ret_cards,
                        struct fail *why);
// The GPUs of the config's team_gpu_settings, else four that span what teams have.
int question_gpus_of_team(struct question *q, struct question_gpus *ret_cards, struct fail *why);
// This machine's, all or those with the ids "0,2". None is no error: a note says why there is none.
int question_gpus_here(struct question *q, const char *ids, const char *machine,
                       struct question_gpus *ret_cards, struct fail *why);
// The GPU that a command is launched on; where it is limited to a part of it, or on the CPU,
// one of that size.
int question_gpu_of_place(struct question *q, const struct launch_place *place, const char *machine,
                          struct forecast_card *ret_card, struct fail *why);
