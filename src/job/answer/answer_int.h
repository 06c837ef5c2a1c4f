// SPDX-License-Identifier: Apache-2.0
// Between the files of the answer.
#ifndef ANSWER_ANSWER_INT_H
#define ANSWER_ANSWER_INT_H

#include "job/answer/answer.h"

// answer_choose without the ways to make it fit.
int answer_choose_alone(struct question *q, const struct forecast_card *card, struct answer *ret,
                        struct fail *why);

#endif
