// SPDX-License-Identifier: Apache-2.0
// team --cost: what the training costs on each GPU, the cheapest first: predicted speed x price,
// with the speed's band; and whether it ends by a deadline.
#pragma once

#include "job/answer/answer.h"
#include "job/question/gpus.h"
#include "predict/gpu/price.h"

struct team_cost_options {
    bool is_asked;
    const char *provider; // NULL: whoever is cheapest
    const char *deadline; // "12h"; NULL: none
    const char *spot;     // "0.35,0.1,15m"; NULL: on demand
    int64_t samples;      // of the whole training; 0: a million
    double electricity;   // USD a kWh, for GPUs without a price; NaN: they cost nothing known
};

enum team_cost_end { TEAM_COST_LATE, TEAM_COST_UNSURE, TEAM_COST_IN_TIME };
// NaN where a figure is not known: no price, no speed, or the host is the limit.
struct team_cost_figure {
    double expected, low, high;
};
struct team_cost_row {
    struct answer answer;
    const struct gpu_price *price; // NULL: none
    bool is_electricity;           // the price is that of its power
    struct team_cost_figure hours, usd;
    double kwh; // at most: at the GPU's power limit all the time; NaN: not known
    enum team_cost_end end;
};
struct team_cost {
    struct question *q;
    double samples, deadline_hours;           // deadline infinite: none
    double spot_share, interruptions, lost_h; // 1, 0, 0: on demand; an hour; hours
    struct gpu_prices prices;
    struct team_cost_row *rows; // cheapest first, then what costs nothing known, then what does not
    ptrdiff_t count;            // fit
    const struct team_cost_row *best; // NULL: none that fits and may end in time
};

// Loads the prices and reads the options. FAIL_USAGE, FAIL_INPUT.
int team_cost_open(struct question *q, const struct team_cost_options *o, struct team_cost *ret,
                   struct fail *why);
// Every GPU that has a price, by `provider` where one is named.
int team_cost_cards(struct team_cost *c, const struct team_cost_options *o,
                    struct question_gpus *ret_cards, struct fail *why);
// One row a GPU, in order, and the best.
int team_cost_judge(struct team_cost *c, const struct team_cost_options *o,
                    const struct question_gpus *cards, struct fail *why);
void team_cost_show(const struct team_cost *c, const struct team_cost_options *o);
int team_cost_json(const struct team_cost *c, struct fail *why);
