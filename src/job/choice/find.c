// SPDX-License-Identifier: Apache-2.0
// All are found on templates, so every value that is tried is the tape of that length, that number
// of GPUs and so on. The answer that is shown afterwards is the ordinary one, for what was found.
#include "job/choice/choice.h"

#include <string.h>

enum {
    TOKENS_STEP = 8, // lengths are multiples of it, as tensor cores like them
    TOKENS_MOST = 1 << 20,
    NODE = 8, // GPUs: one by one up to a node, then whole nodes
    GPUS_MOST = 1024,
    RANK_MOST = 256, // of LoRA: powers of two from it down
    RANK_LEAST = 4,
};
// What more GPUs share, and what sharing costs, grow from the first on.
static const char *const shards[] = {"zero1",
                                     "zero2",
                                     "fsdp2",
                                     "zero2:auto:overlap:optimizer=cpu",
                                     "zero3:auto:overlap:optimizer=cpu:param=cpu",
                                     NULL};

struct finding {
    struct question *q;
    const struct question_gpus *cards;
    void (*set)(struct arena *a, struct plan *p, int64_t value);
    int64_t batch;
    int64_t each; // samples of a GPU in a step, of --find gpus; 0: those of all GPUs are kept
};

static void set_tokens(struct arena *a, struct plan *p, int64_t value) {
    (void)a;
    p->sequence_length = value;
}
static void set_gpus(struct arena *a, struct plan *p, int64_t value) {
    (void)a;
    p->ranks = value;
}
// Where nobody says over how many GPUs a step's samples are, each has as many as before.
static int64_t effective(const struct finding *f, int64_t ranks) {
    return f->each > 0 ? f->each * ranks : f->q->effective;
}
static bool divides(const struct finding *f, int64_t ranks) {
    return effective(f, ranks) % (f->batch * ranks) == 0;
}
// On the layers that are asked for.
static void set_rank(struct arena *a, struct plan *p, int64_t value) {
    struct str rest = plan_adapter_rest(p->adapter);
    p->adapter =
        str_format(a, "lora:%lld%s%.*s", (long long)value, rest.len > 0 ? ":" : "", STR_ARG(rest));
}
static void set_shard(struct arena *a, struct plan *p, int64_t value) {
    (void)a;
    p->shard = str_of(shards[value]);
}

// The plan at that value; false: the effective batch cannot be split so.
static bool plan_at(const struct finding *f, int64_t value, struct plan *ret) {
    *ret = f->q->plan;
    f->set(f->q->arena, ret, value);
    if (!divides(f, ret->ranks)) return false;
    ret->batch = f->batch;
    ret->accumulation = plan_accumulation(effective(f, ret->ranks), f->batch, ret->ranks);
    return true;
}

// As the answer will be on that GPU.
static int open_on(const struct finding *f, struct plan *plan, const struct forecast_card *card,
                   struct forecast *ret, struct fail *why) {
    int rc = answer_open_on(f->q, &card->gpu, plan, ret, why);
    if (rc < 0 || ret->shape) return rc;
    fail_set(why, FAIL_INPUT,
             "%.*s: its tapes are only for the lengths at which they were recorded",
             STR_ARG(plan->model));
    return fail_hint(why, "--find is for models with a template: batchfit list models");
}

// Whether the question's batch fits every GPU at that value: 1, 0 or an error.
static int fits(const struct finding *f, int64_t value, struct fail *why) {
    struct plan asked;
    int rc = plan_at(f, value, &asked);
    for (ptrdiff_t i = 0; i < f->cards->count && rc > 0; i++) {
        const struct forecast_card *card = &f->cards->items[i];
        struct plan plan = asked;
        struct forecast forecast;
        rc = open_on(f, &plan, card, &forecast, why);
        if (rc == 0) rc = forecast_fits(&forecast, card, plan.batch, plan.accumulation, why);
    }
    return rc;
}

// What is needed at that value, and the worst verdict of the GPUs: 1, 0 or an error.
static int needed_at(const struct finding *f, int64_t value, struct forecast_peak *ret_worst,
                     struct fail *why) {
    struct plan asked;
    int rc = plan_at(f, value, &asked);
    *ret_worst = (struct forecast_peak){.verdict = FORECAST_FITS};
    for (ptrdiff_t i = 0; i < f->cards->count && rc > 0; i++) {
        const struct forecast_card *card = &f->cards->items[i];
        struct plan plan = asked;
        struct forecast forecast;
        struct forecast_peak peak;
        int code = open_on(f, &plan, card, &forecast, why);
        if (code == 0)
            code = forecast_at(&forecast, card, plan.batch, plan.accumulation, &peak, why);
        if (code < 0) return code;
        if (peak.verdict > ret_worst->verdict) ret_worst->verdict = peak.verdict;
        if (peak.needed_bytes > ret_worst->needed_bytes)
            ret_worst->needed_bytes = peak.needed_bytes;
    }
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
    if (rc == 0) question_say(q, "not even %d tokens fit with the margin free", TOKENS_STEP);
    if (rc <= 0) return rc;
    rc = fits(f, most, why);
    if (rc > 0) found = most;
    if (rc == 0) rc = bisect(f, TOKENS_STEP, &found, most, why);
    if (rc < 0) return rc;
    q->plan.sequence_length = found;
    question_say(q, "the longest sequence that fits at batch %lld: %lld tokens%s",
                 (long long)f->batch, (long long)found,
                 found == most ? ", the most positions that the model has" : "");
    return 0;
}

static int no_shard(int code, struct fail *why) {
    fail_set(why, code, "--find gpus: without sharding, every GPU needs as much as one");
    return fail_hint(why, "say how they share the weights: --shard fsdp2");
}

// The next number of ranks, of which each may be several GPUs.
static int64_t after(int64_t ranks, int64_t split) {
    if (ranks * split < NODE) return ranks + 1;
    return ranks + (split < NODE ? NODE / split : 1);
}

// Where none fits with the margin free and the most run, what more of them share is next to nothing
// at last: by halves down to the fewest that need no more than `as_good` times what the most need.
static const double as_good = 1.05;

static int fewest_as_good(const struct finding *f, int64_t *ranks, struct fail *why) {
    struct forecast_peak most, half;
    int rc = needed_at(f, *ranks, &most, why);
    while (rc > 0 && most.verdict != FORECAST_OOM && *ranks % 2 == 0 && *ranks > 2) {
        rc = needed_at(f, *ranks / 2, &half, why);
        if (rc <= 0 || half.verdict > most.verdict) break;
        if ((double)half.needed_bytes > as_good * (double)most.needed_bytes) break;
        *ranks /= 2;
    }
    return rc < 0 ? rc : 0;
}

// A number of GPUs that does not divide the effective batch is none.
static int find_gpus(const struct finding *f, struct fail *why) {
    struct question *q = f->q;
    const int64_t split = q->plan.tensor_parallel > 1 ? q->plan.tensor_parallel : 1;
    int64_t tried = 0;
    int rc = 0;
    if (q->plan.shard.len == 0) return no_shard(FAIL_INPUT, why);
    for (int64_t n = 2; rc == 0 && n * split <= GPUS_MOST; n = after(n, split)) {
        if (!divides(f, n)) continue;
        rc = fits(f, n, why);
        if (rc < 0) return rc;
        tried = n;
    }
    if (tried == 0)
        return fail_set(why, FAIL_INPUT,
                        "--find gpus: no number of them divides the effective batch %lld at batch "
                        "%lld",
                        (long long)q->effective, (long long)f->batch);
    const bool is_found = rc > 0;
    const int64_t last = tried;
    rc = is_found ? 0 : fewest_as_good(f, &tried, why);
    if (rc < 0) return rc;
    q->effective = effective(f, tried);
    q->plan.ranks = tried;
    const int64_t devices = plan_devices(&q->plan);
    const bool is_less = tried < last;
    if (is_found)
        question_say(q, "the fewest GPUs on which batch %lld fits: %lld%s", (long long)f->batch,
                     (long long)devices,
                     devices > NODE && split < NODE
                         ? ", in whole nodes of 8: numbers in between were not tried"
                         : "");
    else
        question_say(
            q, "batch %lld fits with the margin free on no number of GPUs up to %d%s%s",
            (long long)f->batch, GPUS_MOST,
            f->each > 0 || q->effective == 0 ? "" : " that divides the effective batch",
            is_less ? str_format(q->arena, "; on %lld each needs hardly more", (long long)devices).p
                    : "");
    return 0;
}

static int find_rank(const struct finding *f, struct fail *why) {
    struct question *q = f->q;
    int rc = 0;
    for (int64_t rank = RANK_MOST; rank >= RANK_LEAST; rank /= 2) {
        rc = fits(f, rank, why);
        if (rc < 0) return rc;
        set_rank(q->arena, &q->plan, rank);
        if (rc == 0) continue;
        question_say(q, "the largest rank of LoRA that fits at batch %lld: %lld%s",
                     (long long)f->batch, (long long)rank,
                     rank == RANK_MOST ? ", the largest that is tried" : "");
        return 0;
    }
    question_say(q, "not even LoRA of rank %d fits at batch %lld with the margin free", RANK_LEAST,
                 (long long)f->batch);
    return 0;
}

// A way to share that no template has is passed over, and said.
static int find_shard(const struct finding *f, struct fail *why) {
    struct question *q = f->q;
    for (int i = 0; shards[i]; i++) {
        int rc = fits(f, i, why);
        if (rc == FAIL_INPUT && shards[i + 1]) {
            question_say(q, "--shard %s is skipped: %s", shards[i], why->message);
            *why = (struct fail){0};
            continue;
        }
        if (rc < 0) return rc;
        set_shard(q->arena, &q->plan, i);
        if (rc == 0) continue;
        question_say(q, "the least sharding with which batch %lld fits: --shard %s",
                     (long long)f->batch, shards[i]);
        return 0;
    }
    question_say(q, "batch %lld does not fit with the margin free under any kind of sharding",
                 (long long)f->batch);
    return 0;
}

static int found_anyway(const char *word, const char *option, struct fail *why) {
    return fail_hint(why, "leave out --%s: it is what --find %s finds", option, word);
}

static int beside(const char *word, const char *option, const char *value, struct fail *why) {
    fail_set(why, FAIL_USAGE, "--find %s cannot be combined with --%s %s", word, option, value);
    return found_anyway(word, option, why);
}

// What is asked for stands in the options, at its least, until it is found.
static int check_tokens(struct question_options *q, struct fail *why) {
    if (q->sequence_length > 0) {
        fail_set(why, FAIL_USAGE, "--find seq-len cannot be combined with --seq-len %lld",
                 (long long)q->sequence_length);
        return found_anyway("seq-len", "seq-len", why);
    }
    q->sequence_length = TOKENS_STEP;
    return 0;
}

static int check_gpus(struct question_options *q, struct fail *why) {
    if (q->ranks > 0) {
        fail_set(why, FAIL_USAGE, "--find gpus cannot be combined with a number of GPUs (%lld)",
                 (long long)q->ranks);
        return fail_hint(why, "leave out the number: name the GPU with --gpu");
    }
    if (!q->shard && !q->config) return no_shard(FAIL_USAGE, why);
    q->ranks = 2; // until they are found
    q->ranks_are_open = true;
    return 0;
}

static int check_rank(struct question_options *q, struct fail *why) {
    if (q->lora) return beside("lora", "lora", q->lora, why);
    if (!q->config) q->lora = "4"; // else the config's own, on its layers
    return 0;
}

static int check_shard(struct question_options *q, struct fail *why) {
    if (q->shard) return beside("shard", "shard", q->shard, why);
    if (!q->config && q->ranks < 2) {
        fail_set(why, FAIL_USAGE, "--find shard needs several GPUs");
        return fail_hint(why, "for example --gpus 8xh100");
    }
    q->shard = shards[0];
    return 0;
}

static const struct {
    const char *word;
    int (*check)(struct question_options *q, struct fail *why);
    void (*set)(struct arena *a, struct plan *p, int64_t value);
    int (*find)(const struct finding *f, struct fail *why);
} finds[] = {{"seq-len", check_tokens, set_tokens, find_tokens},
             {"gpus", check_gpus, set_gpus, find_gpus},
             {"lora", check_rank, set_rank, find_rank},
             {"shard", check_shard, set_shard, find_shard}};
enum { FINDS = sizeof finds / sizeof *finds };

static int which(const char *word) {
    int i = 0;
    while (i < FINDS && strcmp(finds[i].word, word) != 0) i++;
    return i;
}

int choice_find_check(struct choice_options *o, struct fail *why) {
    if (!o->find) return 0;
    const int found = which(o->find);
    if (found == FINDS)
        return fail_set(why, FAIL_USAGE, "--find %s: not seq-len, gpus, lora or shard", o->find);
    return finds[found].check(&o->q, why);
}

// What a step has of a config's samples while the GPUs change: as many in all, where it says their
// number or that of the GPUs that it is for, else as many a GPU.
static void keep_effective(struct finding *f) {
    struct question *q = f->q;
    struct config_batches own, twice;
    if (!q->has_config || q->effective <= 0 || q->effective != q->batches.effective) return;
    if (config_batches(q->arena, &q->reading, 0, &own, NULL) < 0) return;
    if (config_batches(q->arena, &q->reading, 2 * own.ranks, &twice, NULL) < 0) return;
    if (q->reading.values[CONFIG_RANKS].type == CONFIG_INT || own.effective == twice.effective)
        q->effective = own.effective;
    else
        f->each = own.effective / own.ranks;
}

// Nothing that is looked for changes that, whatever the memory.
static int no_split(const struct finding *f, const char *what, struct fail *why) {
    const struct question *q = f->q;
    struct str over = {0};
    if (q->plan.ranks > 1) over = str_format(q->arena, " x %lld", (long long)q->plan.ranks);
    fail_set(why, FAIL_INPUT, "--find %s: batch %lld%.*s does not divide the effective batch %lld",
             what, (long long)f->batch, STR_ARG(over), (long long)q->effective);
    return fail_hint(why, "--effective-batch-size N says another one, --free-batch keeps none");
}

int choice_find(struct question *q, const char *what, const struct question_gpus *cards,
                struct fail *why) {
    if (!what) return 0;
    const int found = which(what);
    int64_t least = q->range.least > 0 ? q->range.least : 1;
    if (finds[found].set == set_rank && q->plan.adapter.len == 0)
        return fail_set(why, FAIL_INPUT, "--find lora: %.*s trains no LoRA", STR_ARG(q->path));
    struct finding f = {q, cards, finds[found].set, q->plan.batch > 0 ? q->plan.batch : least};
    q->range = (struct plan_range){f.batch, f.batch, 1, q->plan.batch};
    if (finds[found].set == set_gpus)
        keep_effective(&f);
    else if (!divides(&f, q->plan.ranks))
        return no_split(&f, what, why);
    int rc = finds[found].find(&f, why);
    if (rc == 0 && q->has_config)
        question_say(q,
                     "set what --find found yourself: in %.*s only batch, accumulation and "
                     "precision are written",
                     STR_ARG(q->path));
    return rc;
}
