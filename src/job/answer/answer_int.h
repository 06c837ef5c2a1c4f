// SPDX-License-Identifier: Apache-2.0
// Between the files of the answer.
#pragma once

#include "job/answer/answer.h"
#include "view/html/html.h"
#include "view/show/bar.h"

// answer_choose without the ways to make it fit.
int answer_choose_alone(struct question *q, const struct forecast_card *card, struct answer *ret,
                        struct fail *why);

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
