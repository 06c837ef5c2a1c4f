// SPDX-License-Identifier: Apache-2.0
// Where the bytes go at the peak of an answer, and what would save some: as text, JSON and HTML.
#pragma once

#include "job/answer/answer.h"

// "configs/train.yaml (…): swin_base_384 at 384 px, adamw, amp-fp16, effective batch 48 (now 48 x
// 1)"
void answer_breakdown_headline(const struct question *q, const struct answer *answer,
                               struct show_style style, struct buf *out);
// The GPU's memory as a bar: the largest parts of what is expected, and the margin.
void answer_breakdown_bar(struct question *q, struct answer *answer, struct show_style style,
                          struct buf *out);
// The four figures of memory, and the speed: a line each.
void answer_breakdown_memory(struct question *q, const struct answer *answer,
                             struct show_style style, struct buf *out);
// The allocator's figures, for those who know its words.
void answer_breakdown_details(struct question *q, const struct answer *answer,
                              struct show_style style, struct buf *out);
// Batches in a row, with their verdicts and the cliff.
void answer_cells(struct question *q, const struct answer *answer, struct show_style style,
                  struct buf *out);
// By tag, by module, by operation, and the largest single tensors.
void answer_breakdown_tables(struct question *q, struct answer *answer, struct show_style style,
                             struct buf *out);
void answer_breakdown_remedies(struct question *q, struct answer *answer, struct show_style style,
                               struct buf *out);
json_t *answer_breakdown_json(struct question *q, struct answer *answer);
// One self-contained page with the course of the step as a picture.
struct str answer_breakdown_html(struct question *q, struct answer *answer);
