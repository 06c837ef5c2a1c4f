// SPDX-License-Identifier: Apache-2.0
// Words of the recorder: how the ranks share weights, and DeepSpeed's numbers for it.
#include "predict/plan/plan.h"

const char *const plan_shards[] = {"fsdp2", "zero1", "zero2", "zero3", NULL};

// What stage 3 is told besides: its word, what it is where nobody says it (0.19.8), and whether
// transformers makes it of the hidden size where the bucket is "auto".
static const struct {
    const char *word;
    int64_t usual;
    bool follows;
} numbers[PLAN_ZERO_NUMBERS] = {
    [PLAN_ZERO_PREFETCH] = {"prefetch", 50000000, true},
    [PLAN_ZERO_PERSIST] = {"persist", 100000, true},
    [PLAN_ZERO_LIVE] = {"live", 1000000000, false},
    [PLAN_ZERO_REUSE] = {"reuse", 1000000000, false},
    [PLAN_ZERO_GROUP] = {"group", 1000000000, false},
};

const char *plan_zero_word(enum plan_zero_number number) {
    return numbers[number].word;
}

static bool read_number(struct plan_zero *z, struct str text) {
    struct str value = text, word = str_cut(&value, '=');
    int i = 0;
    while (i < PLAN_ZERO_NUMBERS && !str_is(word, numbers[i].word)) i++;
    if (i == PLAN_ZERO_NUMBERS || z->stage < 3) return false;
    if (numbers[i].follows && str_is(value, "auto")) return z->numbers[i] = PLAN_ZERO_AUTO, true;
    return str_to_i64(value, &z->numbers[i]) && z->numbers[i] >= 0 &&
           z->numbers[i] <= PLAN_BUCKET_MAX;
}

static bool read_bucket(struct plan_zero *z, struct str text) {
    if (str_is(text, "auto")) return z->bucket = 0, true;
    return str_to_i64(text, &z->bucket) && z->bucket > 0 && z->bucket <= PLAN_BUCKET_MAX;
}

bool plan_zero_read(struct str shard, struct plan_zero *ret) {
    static const char *const stages[] = {"zero1", "zero2", "zero3", NULL};
    struct str rest = shard, word = str_cut(&rest, ':');
    *ret = (struct plan_zero){.bucket = PLAN_ZERO_BUCKET};
    for (int i = 0; stages[i]; i++)
        if (str_is(word, stages[i])) ret->stage = i + 1;
    if (ret->stage == 0 || (rest.p && !read_bucket(ret, str_cut(&rest, ':')))) return false;
    for (int i = 0; i < PLAN_ZERO_NUMBERS && ret->stage == 3; i++) {
        bool is_auto = ret->bucket == 0 && numbers[i].follows;
        ret->numbers[i] = is_auto ? PLAN_ZERO_AUTO : numbers[i].usual;
    }
    struct str more = rest;
    ret->overlaps = rest.p && str_is(str_cut(&more, ':'), "overlap");
    if (ret->overlaps) rest = more;
    while (rest.p)
        if (!read_number(ret, str_cut(&rest, ':'))) return false;
    return true;
}

bool plan_zero_is_same(const struct plan_zero *a, const struct plan_zero *b) {
    bool is_same = a->stage == b->stage && a->bucket == b->bucket && a->overlaps == b->overlaps;
    for (int i = 0; i < PLAN_ZERO_NUMBERS; i++) is_same &= a->numbers[i] == b->numbers[i];
    return is_same;
}
