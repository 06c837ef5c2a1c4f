// SPDX-License-Identifier: Apache-2.0
// An answer in a sentence, and the words of it: one definition for text, tables, matrix and page.
#pragma once

#include "job/answer/answer.h"

// FITS: with the margin kept free, and the worst case is within the GPU's memory. FITS TIGHTLY: it
// runs, but one of the two is not so, or not with 3 % less memory. DOES NOT FIT: more is expected
// than the GPU has. (JSON's "verdict" leaves margin and worst case out: doc/formats/fit.md.)
enum answer_verdict { ANSWER_FITS, ANSWER_TIGHT, ANSWER_NOT };
enum answer_verdict answer_verdict(const struct answer *answer);
const char *answer_verdict_name(enum answer_verdict verdict); // "FITS TIGHTLY"
enum show_tone answer_verdict_tone(enum answer_verdict verdict);

// Of the whole GPU, with what others hold.
struct answer_memory {
    int64_t expected_bytes; // in which the step runs, and what is outside the allocator
    int64_t worst_bytes;    // the same where the prediction errs by all of its band
    int64_t usable_bytes;   // what CUDA gives to programs
    int64_t headroom_bytes; // usable less expected; 0: none
};
struct answer_memory answer_memory(const struct answer *answer);
// What ZeRO keeps in the host's memory; all 0: nothing.
struct forecast_host answer_host(const struct answer *answer);
// More than the machine has, as far as it is known.
bool answer_host_is_short(const struct answer *answer);
// "host: 93.1 GiB a rank, 64 GiB of it page-locked; …"; empty: nothing is kept there.
struct str answer_host_text(struct arena *a, const struct answer *answer);
json_t *answer_host_json(const struct answer *answer);
// "8.6 of 11.8 GiB"
struct str answer_memory_text(struct arena *a, const struct answer_memory *m);
// Others hold so much of the GPU that it is to be said first.
bool answer_is_busy(const struct answer *answer);
bool answer_margin_kept(const struct answer *answer);
// "12", "12 x 4 = 48", "12 x 4 x 2 GPUs = 96"
struct str answer_batch_text(struct arena *a, const struct plan *p);

// "FITS  batch 12 x 4 = 48 on RTX 3060: 8.6 of 11.8 GiB (worst case 9.6)"
struct str answer_verdict_text(struct question *q, const struct answer *answer);
// Its parts, without the word: the sentence, what changes in the config, why it is tight or what
// would fit; empty: nothing.
struct answer_said {
    struct str sentence, change, advice;
};
struct answer_said answer_said(struct question *q, const struct answer *answer, bool changes);
// A remedy as it is called, in the reader's language.
struct str answer_way_text(struct arena *a, struct str way);
// The first lines: the verdict with the figures that decide, what changes in the config (when the
// answer `changes` it), and what to do where it does not fit.
void answer_verdict_show(struct question *q, const struct answer *answer, bool changes,
                         struct show_style style, struct buf *out);
// The same for several GPUs, in a line.
void answer_verdict_show_all(struct question *q, const struct answer *answers, int count,
                             struct show_style style, struct buf *out);
