// SPDX-License-Identifier: Apache-2.0
// team --collect: what this machine measured goes into its file, what all machines measured comes
// out as one row a GPU (doc/team.md).
#pragma once

#include "job/answer/answer.h"
#include "job/question/question.h"
#include "predict/gpu/gpu.h"
#include "records/survey/survey.h"

struct team_collect_options {
    const char *folder; // NULL: .batchfit/team
    const char *store;  // of the history; NULL: the user's own
    const char *name;   // of this machine; NULL: as before
    const char *prefer; // safest, newest, fastest; NULL: safest
    bool no_history;    // this machine's file is not touched
    bool test_only;     // no file is
};

// One GPU of the table.
struct team_collect_row {
    struct forecast_card card;
    struct answer predicted;
    bool is_predicted;
    bool is_refuted;  // measured: that batch or a smaller one did not run
    bool is_answered; // nothing measured is in force, and the prediction fits and is not refuted
    const struct survey_card *measured; // NULL: by nobody
};
struct team_collect {
    struct question *q;
    struct str folder;
    struct str machine; // empty: this one has no file
    struct str path;    // of its file
    bool is_written;
    struct survey_file own; // what is or would be in it
    struct survey_question asked;
    struct survey_folder files;
    struct survey_merged merged;
    struct team_collect_row *rows;
    ptrdiff_t row_count, row_capacity;
};

// `cards`: those that are to have a row in any case.
int team_collect(struct question *q, const struct team_collect_options *o,
                 const struct question_gpus *cards, struct team_collect *ret, struct fail *why);
// What is in force on the row's GPU; NULL: nobody measured it, or nothing ran.
const struct survey_choice *team_collect_taken(const struct team_collect_row *row);

// What this machine measured of the question, put into its file (own.c).
int team_collect_own(struct team_collect *c, const struct team_collect_options *o,
                     struct fail *why);
// Fills in which GPU the record is of and what precision suits it.
void team_collect_place(struct question *q, struct survey_record *record);

void team_collect_show(const struct team_collect *c, const struct buf *report);
int team_collect_print_json(const struct team_collect *c, const char *settings, struct fail *why);

// --- The settings file ---------------------------------------------------------------------------

struct config_card team_settings_of(struct str key, const struct plan *p);
// Writes the GPUs to `path`, new or by the smallest edit; lines for people go to *report.
int team_settings_write(struct question *q, const struct config_card *cards, int count,
                        const char *path, struct buf *report, struct fail *why);
// The GPUs of an existing settings file, added to *GPUs where they are not there yet.
int team_settings_cards(struct question *q, const char *path, struct question_gpus *cards,
                        struct fail *why);

// team --cost: what the training costs on each GPU, the cheapest first: predicted speed x price,
// with the speed's band; and whether it ends by a deadline.

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
    bool holds;                    // it fits there (answer_is_yes)
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
