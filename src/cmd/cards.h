// SPDX-License-Identifier: Apache-2.0
// Which cards a question is answered for.
#ifndef CMD_CARDS_H
#define CMD_CARDS_H

#include "cmd/question.h"

struct cards {
    struct forecast_card *items;
    ptrdiff_t count, capacity;
};

// "rtx4090,rtx3080"
int cards_named(struct question *q, const char *names, struct cards *ret_cards, struct fail *why);
// The cards of the config's team_gpu_settings, else four that span what teams have.
int cards_of_team(struct question *q, struct cards *ret_cards, struct fail *why);
// This machine's, all or those with the ids "0,2". None is no error: a note says why there is none.
int cards_here(struct question *q, const char *ids, const char *machine, struct cards *ret_cards,
               struct fail *why);

#endif
