// SPDX-License-Identifier: Apache-2.0
// Which batches a run may use, and what accumulation and learning rate go with them. Where the
// command takes an accumulation a batch is allowed when it divides the effective batch of a rank,
// so that nothing changes for the learning; where it does not, any batch is, and the learning rate
// follows. The linear rule is of Goyal et al. 2017 (arXiv 1706.02677), the square root one of
// Krizhevsky 2014 (arXiv 1404.5997).
#include "measure/recover/recover.h"

#include <math.h>

// More is no training; divisors are found in its square root.
static const int64_t effective_max = INT64_C(1) << 40;

struct recover_rules recover_rules_default(void) {
    return (struct recover_rules){
        .batch = 1,
        .accumulation = 1,
        .ranks = 1,
        .least_batch = 1,
        .lr = NAN,
        .max_restarts = 5,
        .backoff_s = 1,
        .most_backoff_s = 60,
        .capacity_bytes = -1,
        .near_share = 0.97,
        .threshold = 0.9,
        .factor = 1.2,
    };
}

// What the learning of one rank sees.
static int64_t rank_effective(const struct recover_rules *rules) {
    return rules->batch * rules->accumulation;
}

static int64_t largest(const struct recover_rules *rules) {
    int64_t most =
        rules->can_accumulate ? rank_effective(rules) : effective_max / rules->accumulation;
    if (rules->adaptive && rules->most_batch > 0 && rules->most_batch < most)
        most = rules->most_batch;
    return most;
}

// The allowed batch nearest to `bound` from below or from above.
static int64_t nearest(const struct recover_rules *rules, int64_t bound, bool below) {
    int64_t least = rules->least_batch, most = largest(rules), best = 0;
    if (!rules->can_accumulate) {
        best = below ? (bound < most ? bound : most) : (bound > least ? bound : least);
        return best >= least && best <= most ? best : 0;
    }
    int64_t whole = rank_effective(rules);
    for (int64_t d = 1; d <= whole / d; d++) {
        if (whole % d != 0) continue;
        int64_t pair[] = {d, whole / d};
        for (int i = 0; i < 2; i++) {
            bool is_allowed = pair[i] >= least && pair[i] <= most;
            bool is_inside = below ? pair[i] <= bound : pair[i] >= bound;
            bool is_nearer = best == 0 || (below ? pair[i] > best : pair[i] < best);
            if (is_allowed && is_inside && is_nearer) best = pair[i];
        }
    }
    return best;
}

int64_t recover_batch_below(const struct recover_rules *rules, int64_t most) {
    return nearest(rules, most, true);
}

int64_t recover_batch_above(const struct recover_rules *rules, int64_t least) {
    return nearest(rules, least, false);
}

bool recover_size_fits(const struct recover_rules *rules, struct recover_size size) {
    int64_t whole = rank_effective(rules);
    if (size.batch < 1 || size.accumulation < 1) return false;
    if (!rules->can_accumulate)
        return size.accumulation == rules->accumulation &&
               size.batch <= effective_max / rules->accumulation;
    return whole % size.batch == 0 && size.accumulation == whole / size.batch;
}

struct recover_size recover_size_of(const struct recover_rules *rules, int64_t batch) {
    struct recover_size size = {batch, rules->accumulation, rules->lr};
    if (rules->can_accumulate) {
        size.accumulation = rank_effective(rules) / batch;
        return size;
    }
    double ratio = (double)batch / (double)rules->batch;
    if (rules->lr_rule == RECOVER_LR_LINEAR) size.lr *= ratio;
    if (rules->lr_rule == RECOVER_LR_SQRT) size.lr *= sqrt(ratio);
    return size;
}

// 0: no batch is allowed.
static int64_t first_batch(const struct recover_rules *rules) {
    if (!rules->adaptive) return rules->batch;
    int64_t wanted = rules->initial_batch > 0 ? rules->initial_batch : rules->batch;
    int64_t batch = recover_batch_below(rules, wanted);
    return batch > 0 ? batch : recover_batch_above(rules, wanted);
}

struct recover_size recover_size_first(const struct recover_rules *rules) {
    int64_t batch = first_batch(rules);
    return recover_size_of(rules, batch > 0 ? batch : rules->batch);
}

static bool is_share(double value) {
    return value > 0 && value <= 1;
}

static int check_counts(const struct recover_rules *r, struct fail *why) {
    if (r->batch < 1 || r->accumulation < 1 || r->ranks < 1)
        return fail_set(why, FAIL_USAGE, "batch, accumulation and ranks must be at least 1");
    if (r->batch > effective_max || r->accumulation > effective_max / r->batch ||
        r->ranks > effective_max / (r->batch * r->accumulation))
        return fail_set(why, FAIL_USAGE, "the effective batch is far too large: %lld x %lld x %lld",
                        (long long)r->batch, (long long)r->accumulation, (long long)r->ranks);
    if (r->least_batch < 1 || r->least_batch > r->batch)
        return fail_set(why, FAIL_USAGE, "the smallest batch must be between 1 and the batch, %lld",
                        (long long)r->batch);
    if (r->max_restarts < 0 || !(r->backoff_s >= 0) || !(r->most_backoff_s >= r->backoff_s) ||
        isinf(r->most_backoff_s))
        return fail_set(why, FAIL_USAGE, "restarts and their delay must not be negative");
    return 0;
}

static int check_lr(const struct recover_rules *r, struct fail *why) {
    bool is_changing = r->recover || r->adaptive;
    if (!is_changing || r->can_accumulate) return 0;
    if (r->lr_rule == RECOVER_LR_KEEP) {
        fail_set(why, FAIL_USAGE,
                 "the command takes no accumulation: with a smaller batch the effective batch "
                 "would change");
        return fail_hint(why, "put {accumulate} into the command, or scale the learning rate with "
                              "--auto-scale-lr and {lr}");
    }
    if (r->lr > 0 && !isinf(r->lr)) return 0;
    fail_set(why, FAIL_USAGE, "--auto-scale-lr needs a learning rate, and none is given");
    return fail_hint(why, "give --lr, or a config with a learning rate");
}

static int check_adaptive(const struct recover_rules *r, struct fail *why) {
    if (!is_share(r->near_share))
        return fail_set(why, FAIL_USAGE, "the share of memory must be above 0 and at most 1");
    if (!r->adaptive) return 0;
    if (!is_share(r->threshold))
        return fail_set(why, FAIL_USAGE, "--memory-threshold must be above 0 and at most 1");
    if (!(r->factor > 1) || isinf(r->factor))
        return fail_set(why, FAIL_USAGE, "--adjustment-factor must be above 1");
    if (r->initial_batch < 0 || r->most_batch < 0)
        return fail_set(why, FAIL_USAGE, "a batch must be at least 1");
    if (r->most_batch > 0 && r->initial_batch > r->most_batch)
        return fail_set(why, FAIL_USAGE, "--initial-batch-size %lld exceeds --max-batch-size %lld",
                        (long long)r->initial_batch, (long long)r->most_batch);
    if (first_batch(r) == 0)
        return fail_set(why, FAIL_USAGE, "no batch from %lld to %lld divides the effective batch",
                        (long long)r->least_batch, (long long)largest(r));
    return 0;
}

int recover_check(const struct recover_rules *rules, struct fail *why) {
    int rc = check_counts(rules, why);
    if (rc == 0) rc = check_lr(rules, why);
    return rc < 0 ? rc : check_adaptive(rules, why);
}

int recover_agree(const struct recover_rules *begun, const struct recover_rules *now,
                  struct fail *why) {
    const struct {
        const char *what;
        int64_t begun, now;
    } rows[] = {
        {"the effective batch of a rank", rank_effective(begun), rank_effective(now)},
        {"the batch", begun->batch, now->batch},
        {"the number of ranks", begun->ranks, now->ranks},
        {"the use of accumulation", begun->can_accumulate, now->can_accumulate},
        {"the learning rate rule", begun->lr_rule, now->lr_rule},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].begun == rows[i].now) continue;
        return fail_set(why, FAIL_INPUT, "%s was %lld when the run began and is %lld now",
                        rows[i].what, (long long)rows[i].begun, (long long)rows[i].now);
    }
    bool is_same = begun->lr == now->lr || (isnan(begun->lr) && isnan(now->lr));
    if (is_same) return 0;
    return fail_set(why, FAIL_INPUT, "the learning rate was %g when the run began and is %g now",
                    begun->lr, now->lr);
}
