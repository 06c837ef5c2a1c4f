// SPDX-License-Identifier: Apache-2.0
// Both are found on templates, so every value that is tried is the tape of that length or that
// number of GPUs. The answer that is shown afterwards is the ordinary one, for what was found.
#include "job/choice/find.h"

#include <string.h>

enum {
    TOKENS_STEP = 8, // lengths are multiples of it, as tensor cores like them
    TOKENS_MOST = 1 << 20,
    NODE = 8, // GPUs: one by one up to a node, then whole nodes
    GPUS_MOST = 1024,
};

struct finding {
    struct question *q;
    const struct question_gpus *cards;
    void (*set)(struct plan *p, int64_t value);
    int64_t batch;
};

static void set_tokens(struct plan *p, int64_t value) {
    p->sequence_length = value;
}
static void set_gpus(struct plan *p, int64_t value) {
    p->ranks = value;
}

// Whether the question's batch fits every GPU at that value: 1, 0 or an error.
static int fits(const struct finding *f, int64_t value, struct fail *why) {
    struct forecast forecast;
    struct plan plan = f->q->plan;
    f->set(&plan, value);
    if (f->q->effective % (f->batch * plan.ranks) != 0) return 0;
    plan.batch = f->batch;
    plan.accumulation = plan_accumulation(f->q->effective, f->batch, plan.ranks);
    int rc = forecast_open(&f->q->tape_cache, &plan, &forecast, why);
    if (rc < 0) return rc;
    if (!forecast.shape) {
        fail_set(why, FAIL_INPUT, "%.*s: its tapes are of the lengths they were recorded at",
                 STR_ARG(plan.model));
        return fail_hint(why, "--find is for models with a template: batchfit list models");
    }
    rc = 1;
    for (ptrdiff_t i = 0; i < f->cards->count && rc > 0; i++)
        rc = forecast_fits(&forecast, &f->cards->items[i], plan.batch, plan.accumulation, why);
    return rc;
}

// The longest of the multiples of the step from `fits_at` on (which does) that is below `not_at`
// (which does not).
static int bisect(const struct finding *f, int64_t step, int64_t *fits_at, int64_t not_at,
                  struct fail *why) {
    int rc = 0;
    while (rc >= 0 && not_at - *fits_at > step) {
        int64_t middle = (*fits_at + (not_at - *fits_at) / 2) / step * step;
        rc = fits(f, middle, why);
        if (rc > 0) *fits_at = middle;
        if (rc == 0) not_at = middle;
    }
    return rc < 0 ? rc : 0;
}

static int find_tokens(const struct finding *f, struct fail *why) {
    struct question *q = f->q;
    const struct shape *shape = NULL;
    int rc = forecast_shape(&q->tape_cache, q->plan.model, &shape, why);
    if (rc < 0) return rc;
    int64_t most = shape && shape->positions >= TOKENS_STEP ? shape->positions : TOKENS_MOST;
    int64_t found = TOKENS_STEP;
    most = most / TOKENS_STEP * TOKENS_STEP;
    rc = fits(f, found, why);
    if (rc == 0) question_say(q, "not even %d tokens fit", TOKENS_STEP);
    if (rc <= 0) return rc;
    rc = fits(f, most, why);
    if (rc > 0) found = most;
    if (rc == 0) rc = bisect(f, TOKENS_STEP, &found, most, why);
    if (rc < 0) return rc;
    q->plan.sequence_length = found;
    question_say(q, "the longest sequence that fits at batch %lld: %lld tokens%s",
                 (long long)f->batch, (long long)found,
                 found == most ? ", which is as long as the model's positions go" : "");
    return 0;
}

// A number of GPUs that does not divide the effective batch is none.
static int find_gpus(const struct finding *f, struct fail *why) {
    struct question *q = f->q;
    int rc = 0;
    for (int64_t n = 2; n <= GPUS_MOST; n += n < NODE ? 1 : NODE) {
        rc = fits(f, n, why);
        if (rc < 0) return rc;
        q->plan.ranks = n;
        if (rc == 0) continue;
        question_say(q, "the fewest GPUs on which batch %lld fits: %lld", (long long)f->batch,
                     (long long)n);
        return 0;
    }
    question_say(q, "batch %lld fits on no number of GPUs up to %d", (long long)f->batch,
                 GPUS_MOST);
    return 0;
}

static const struct {
    const char *word;
    void (*set)(struct plan *p, int64_t value);
    int (*find)(const struct finding *f, struct fail *why);
} finds[] = {{"seq-len", set_tokens, find_tokens}, {"gpus", set_gpus, find_gpus}};
enum { FINDS = sizeof finds / sizeof *finds };

static int which(const char *word) {
    int i = 0;
    while (i < FINDS && strcmp(finds[i].word, word) != 0) i++;
    return i;
}

int choice_find_check(struct choice_options *o, struct fail *why) {
    if (!o->find) return 0;
    const int found = which(o->find);
    if (found == FINDS) return fail_set(why, FAIL_USAGE, "--find %s: not seq-len or gpus", o->find);
    if (o->q.base.command)
        return fail_set(why, FAIL_USAGE, "--find %s: of predictions, not of trials", o->find);
    if (finds[found].set == set_tokens) {
        if (o->q.sequence_length > 0)
            return fail_set(why, FAIL_USAGE, "--find seq-len: beside --seq-len %lld",
                            (long long)o->q.sequence_length);
        o->q.sequence_length = TOKENS_STEP; // until it is found
        return 0;
    }
    if (o->q.ranks > 0)
        return fail_set(why, FAIL_USAGE, "--find gpus: beside %lld of them", (long long)o->q.ranks);
    if (!o->q.shard) {
        fail_set(why, FAIL_USAGE, "--find gpus: GPUs that share no weights need as much each");
        return fail_hint(why, "say how they share them: --shard fsdp2");
    }
    o->q.ranks = 2; // until it is found
    return 0;
}

int choice_find(struct question *q, const char *what, const struct question_gpus *cards,
                struct fail *why) {
    if (!what) return 0;
    const int found = which(what);
    int64_t least = q->range.least > 0 ? q->range.least : 1;
    struct finding f = {q, cards, finds[found].set, q->plan.batch > 0 ? q->plan.batch : least};
    q->range = (struct plan_range){f.batch, f.batch, 1, q->plan.batch};
    return finds[found].find(&f, why);
}
