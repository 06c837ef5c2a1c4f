// SPDX-License-Identifier: Apache-2.0
// Between the files of the answer.
#pragma once

#include "base/str.h"
#include "job/answer/answer.h"
#include "view/html/html.h"
#include "view/show/show.h"

// answer_choose without the ways to make it fit.
int answer_choose_alone(struct question *q, const struct forecast_card *card, struct answer *ret,
                        struct fail *why);

// An inference engine on the same GPU: less of it for that, or none.
void answer_engine_ways(struct question *q, const struct answer *answer,
                        struct forecast_remedies *list);

// Names for people, by enum tape_tag, and the order from what stays to what comes and goes.
extern const char *const answer_tag_titles[TAPE_TAG_COUNT];
extern const enum tape_tag answer_area_order[TAPE_TAG_COUNT];

// What is expected on the GPU, by kind: the largest few and the rest, with their shares.
struct answer_parts {
    struct show_segment items[TAPE_TAG_COUNT + 5]; // and what no tape has
    int count;
};
struct answer_parts answer_parts(struct question *q, const struct answer *answer);
// "swin_base_384 at 384 px, adamw"
struct str answer_plan_text(struct arena *a, const struct plan *p);

// The part of explain's page that replays the tape at other batches, in the reader's browser
// (web/page/).
struct answer_live {
    const struct answer *answer;
    const struct forecast_tape *tape;
    struct html_script scripts[2];
    int script_count;   // 0: it cannot be live, and
    const char *silent; // why
};
struct answer_live answer_live_of(const struct answer *answer);
void answer_live_section(const struct answer_live *live, struct buf *page);
void answer_live_scripts(const struct answer_live *live, struct buf *page);

// Whether the code around a config reads a key: a key that nobody reads is worse than none.

enum answer_reads {
    ANSWER_READS_UNKNOWN, // no code is there, or too much to look through
    ANSWER_READS_NOT,     // and all of it was looked at
    ANSWER_READS,
};
struct answer_project {
    enum answer_reads reads;
    int files;        // Python files and notebooks that were looked at
    struct str other; // a name of the same kind that the code does have: "accumulation_steps"
};
// Looks for the last word of `key` in the Python files and notebooks of the config's project
// (question_project). `alike`: part of names of the same kind, in small letters. A section that is
// passed on whole (**cfg.trainer) is taken for read. Symbolic links are not followed; installed
// packages, hidden folders and files over 1 MiB are passed over; at most 2000 files are opened.
struct answer_project answer_project_look(struct arena *a, struct str config, struct str key,
                                          struct str alike);
