// SPDX-License-Identifier: Apache-2.0
// The answer to a question on one GPU: the plan that was chosen and what it needs. fit, team and
// explain show it in their own ways.
#pragma once

#include "base/json.h"
#include "job/question/question.h"
#include "view/show/table.h"

struct answer_eval;
struct answer_tta;

struct answer {
    struct forecast_card card;
    struct forecast forecast;
    struct plan plan; // with batch and accumulation
    struct forecast_peak peak;
    struct speed speed; // row NULL: nothing can be said
    int64_t budget_bytes;
    bool fits;             // the chosen batch fits the budget
    int64_t largest_batch; // that would fit if the effective batch were free; 0: none
    bool effective_kept;
    struct str_list notes;             // about this GPU
    struct forecast_remedies remedies; // when it does not fit; what is enough first
    struct answer *empty;              // the same without what others hold; NULL: not asked
    struct answer_eval *eval;          // the batch of evaluation; NULL: not asked
    struct answer_tta *tta;            // test-time augmentation; NULL: not asked
    bool config_written;
    // Words of doc/formats/fit.md: what the verdict counts, and why the config was not changed
    // (NULL: it was, or nobody asked for it).
    const char *verdict_basis, *not_written;
};

// Chooses batch and accumulation: the largest batch in the budget that keeps the effective batch.
// When none does, the answer is the smallest batch with fits = false, and the remedies.
int answer_choose(struct question *q, const struct forecast_card *card, struct answer *ret,
                  struct fail *why);
// Fills answer->remedies, what is enough first: a smaller batch, each change of the plan, and where
// none of these is enough, combinations of changes. Where it fits, what each change would save.
int answer_ways(struct question *q, struct answer *answer, struct fail *why);
// The same for a given batch, for explain; without remedies.
int answer_at(struct question *q, const struct forecast_card *card, int64_t batch,
              int64_t accumulation, struct answer *ret, struct fail *why);
// Fills answer->empty: for the same batch, or the one that would be chosen. It is to be shown, not
// to be asked further.
int answer_empty(struct question *q, struct answer *answer, bool at_batch, struct fail *why);

// Whether the tape of a larger image or a longer sequence stands in.
bool answer_stands_in(const struct answer *answer);
// A size that nobody said, and the option that says it: nothing is written on it, and no gate
// passes it. NULL: there is none.
struct answer_open {
    const char *what, *option;
};
const struct answer_open *answer_open_size(const struct question *q, const struct answer *answer);

// One element of "results" (doc/formats/fit.md).
json_t *answer_json(const struct answer *answer);
json_t *answer_plan_json(const struct plan *p);
json_t *answer_notes_json(const struct str_list *notes);
// "not_modelled": the settings of the config that the answer does not count.
json_t *answer_not_modelled_json(const struct question *q);
// {"results": […], "not_modelled": […], "notes": […]}
json_t *answer_document(struct question *q, const struct answer *answers, int count);
// Prints it on stdout.
int answer_print_json(struct question *q, const struct answer *answers, int count,
                      struct fail *why);
// A table with a row an answer.
void answer_table(struct arena *a, const struct answer *answers, int count, struct show_style style,
                  struct buf *out);
// Notes as a bulleted list.
void answer_notes(const struct str_list *notes, struct show_style style, struct buf *out);
// What the answer does not count, to be said beside the verdict; and the others.
void answer_loud_notes(const struct str_list *notes, struct show_style style, struct buf *out);
void answer_quiet_notes(struct arena *a, const struct str_list *notes, struct show_style style,
                        struct buf *out);
