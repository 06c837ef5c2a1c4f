// SPDX-License-Identifier: Apache-2.0
// One answer over several GPUs. Where one of them is to be chosen (a team's, a cluster's) the best
// answer is the answer, and yes is yes of any; where all take the same batch (those of one machine)
// the worst is, and yes is yes of all. Headline, exit status and what is written follow this.
#include "job/answer/answer.h"

#include "base/say.h"
#include "view/show/show.h"

// The better answer first. One that is not counted may fit.
enum rank { YES, YES_TIGHTLY, WITHOUT_MARGIN, NOT_COUNTED, NO };

static enum rank rank_of(const struct question *q, const struct answer *answer) {
    const enum answer_verdict verdict = answer_verdict(answer);
    if (!answer_is_counted(q, answer)) return NOT_COUNTED;
    if (verdict == ANSWER_NOT) return NO;
    if (!answer->fits) return WITHOUT_MARGIN;
    return verdict == ANSWER_FITS ? YES : YES_TIGHTLY;
}

// The best, of equal ones the first; or the worst, of equal ones that of the smallest batch.
static ptrdiff_t find_leading(const struct question *q, const struct answer *answers,
                              ptrdiff_t count, bool is_worst) {
    ptrdiff_t lead = 0;
    for (ptrdiff_t i = 1; i < count; i++) {
        const enum rank now = rank_of(q, &answers[i]), before = rank_of(q, &answers[lead]);
        const bool is_equal = now == before || (now <= YES_TIGHTLY && before <= YES_TIGHTLY);
        const bool is_smaller = answers[i].plan.batch < answers[lead].plan.batch;
        if (is_worst ? (is_equal ? is_smaller : now > before) : now < before) lead = i;
    }
    return lead;
}

struct answer *answer_leading(const struct question *q, struct answer *answers, ptrdiff_t count,
                              bool is_together) {
    return &answers[find_leading(q, answers, count, is_together)];
}

// Those on which it is as on the leading one, and their smallest and largest batch.
struct alike {
    int count;
    const struct answer *least, *most;
    enum rank best, worst; // of all
};

static struct alike find_alike(const struct question *q, const struct answer *answers, int count,
                               enum rank lead) {
    struct alike found = {.best = NO, .worst = YES};
    for (int i = 0; i < count; i++) {
        const struct answer *x = &answers[i];
        const enum rank rank = rank_of(q, x);
        if (rank < found.best) found.best = rank;
        if (rank > found.worst) found.worst = rank;
        if (lead <= YES_TIGHTLY ? rank > YES_TIGHTLY : rank != lead) continue;
        found.count++;
        if (!found.least || x->plan.batch < found.least->plan.batch) found.least = x;
        if (!found.most || x->plan.batch > found.most->plan.batch) found.most = x;
    }
    return found;
}

static void add_batches(const struct alike *alike, struct buf *text) {
    const struct answer *least = alike->least, *most = alike->most;
    if (!least) return; // never: the leading one is among them
    buf_format(text, _(": batch %lld (%.*s)"), (long long)least->plan.batch,
               STR_ARG(show_gpu_name(least->card.gpu.name)));
    if (most == least) return;
    buf_format(text, _(" to %lld (%.*s)"), (long long)most->plan.batch,
               STR_ARG(show_gpu_name(most->card.gpu.name)));
}

void answer_verdict_show_all(struct question *q, const struct answer *answers, int count,
                             bool is_together, struct show_style style, struct buf *out) {
    const struct answer *lead = &answers[find_leading(q, answers, count, is_together)];
    const enum rank rank = rank_of(q, lead);
    const struct alike alike = find_alike(q, answers, count, rank);
    struct answer_word word = answer_word(q, lead);
    if (rank <= YES_TIGHTLY) {
        word.name = answer_verdict_name(alike.best == YES ? ANSWER_FITS : ANSWER_TIGHT);
        word.tone = alike.worst == YES ? SHOW_GOOD : SHOW_WARN;
    }
    struct buf text = buf_new(q->arena);
    if (rank == NO && !is_together)
        buf_format(&text, _("on any of %d GPUs"), count);
    else
        buf_format(&text, _("on %d of %d GPUs"), alike.count, count);
    if (rank != NO || is_together) add_batches(&alike, &text);
    if (q->effective > 0) buf_format(&text, _(", effective batch %lld"), (long long)q->effective);
    if (is_together && rank > YES_TIGHTLY && alike.count < count)
        buf_add(&text, str_of(_("; all take the same batch, so this decides (--gpu-ids chooses "
                                "among them)")));
    struct str name = str_of(say(word.name));
    show_text(out, style, word.tone, name);
    buf_add(out, STR("  "));
    show_prose(out, style, SHOW_PLAIN, buf_str(&text), show_width(name) + 2, 2);
}
