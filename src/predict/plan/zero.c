// SPDX-License-Identifier: Apache-2.0
// Words of the recorder: how the ranks share weights, and DeepSpeed's numbers for it.
#include "predict/plan/plan.h"

const char plan_fsdp1_newer[] = "fsdp1@4.52", plan_fsdp2_older[] = "fsdp2@1.13";
const char *const plan_shards[] = {
    "fsdp1", plan_fsdp1_newer, "fsdp1:offload", "fsdp2", plan_fsdp2_older, "fsdp2:offload",
    "titan", "titan:op",       "torchtune",     "zero1", "zero2",          "zero3",
    NULL};

int plan_fsdp(struct str shard) {
    if (str_is(shard, plan_fsdp1_newer)) return 1;
    if (str_is(shard, plan_fsdp2_older)) return 2;
    struct str rest = shard, word = str_cut(&rest, ':');
    if (rest.p && !str_is(rest, "offload")) return 0;
    return str_is(word, "fsdp1") ? 1 : str_is(word, "fsdp2") ? 2 : 0;
}

bool plan_fsdp_offloads(struct str shard) {
    return plan_fsdp(shard) > 0 && str_ends(shard, STR(":offload"));
}

bool plan_fsdp1_retains(const struct plan *p) {
    return str_is(p->shard, "fsdp1") && p->adapter.len > 0 && p->checkpointing;
}

struct str plan_recorded_shard(const struct plan *p) {
    bool is_alike = p->adapter.len == 0 || !p->checkpointing;
    struct plan_zero zero;
    // What was gathered stays as long as the graph that multiplies by it, which only four bits do.
    const bool holds_bits = p->quant.len > 0 && p->checkpointing;
    if (plan_zero_read(p->shard, &zero) && zero.is_reentrant && !holds_bits) return STR("zero3");
    return str_is(p->shard, plan_fsdp1_newer) && is_alike ? STR("fsdp1") : p->shard;
}

bool plan_is_titan(struct str shard) {
    return str_is(shard, "titan") || str_is(shard, "titan:op");
}

bool plan_is_tune(struct str shard) {
    return str_is(shard, "torchtune");
}

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
    [PLAN_ZERO_OPTIMIZER_BUFFERS] = {"optimizer_buffers", 4, false},
    [PLAN_ZERO_PARAM_BUFFERS] = {"param_buffers", 5, false},
    [PLAN_ZERO_PARAM_BUFFER] = {"param_buffer", 100000000, false},
    [PLAN_ZERO_PARAM_MOST] = {"param_most", 1000000000, false},
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

const char *const plan_places[] = {"", "cpu", "nvme", NULL};
const char *const plan_offloads[] = {"optimizer", "param", NULL};

static bool read_place(struct plan_zero *z, struct str text) {
    struct str value = text, word = str_cut(&value, '=');
    for (int i = 0; i < PLAN_OFFLOADS; i++) {
        if (!str_is(word, plan_offloads[i])) continue;
        int place = 1;
        while (plan_places[place] && !str_is(value, plan_places[place])) place++;
        z->places[i] = (enum plan_place)place;
        // Nothing of stages 1 and 2 lies on disks (stage_1_and_2.py takes nvme for cpu), and their
        // parameters stay.
        return plan_places[place] &&
               (z->stage == 3 || (i == PLAN_OPTIMIZER && place == PLAN_ON_CPU));
    }
    return false;
}

static bool read_bucket(struct plan_zero *z, struct str text) {
    if (str_is(text, "auto")) return z->bucket = 0, true;
    return str_to_i64(text, &z->bucket) && z->bucket > 0 && z->bucket <= PLAN_BUCKET_MAX;
}

static bool read_word(struct plan_zero *z, struct str text) {
    if (str_is(text, "overlap")) return z->overlaps = true;
    if (str_is(text, "paged")) return z->is_paged = true;
    if (str_is(text, "reentrant") && z->stage == 3) return z->is_reentrant = true;
    return read_number(z, text) || read_place(z, text);
}

static bool is_option(struct str text) {
    static const char *const flags[] = {"overlap", "paged", "reentrant", NULL};
    return str_is_one_of(text, flags) || str_find(text, STR("=")) >= 0;
}

bool plan_zero_read(struct str shard, struct plan_zero *ret) {
    static const char *const stages[] = {"zero1", "zero2", "zero3", NULL};
    struct str rest = shard, word = str_cut(&rest, ':');
    *ret = (struct plan_zero){.bucket = PLAN_ZERO_BUCKET};
    for (int i = 0; stages[i]; i++)
        if (str_is(word, stages[i])) ret->stage = i + 1;
    if (ret->stage == 0) return false;
    struct str more = rest, first = str_cut(&more, ':');
    if (rest.p && !is_option(first)) {
        if (!read_bucket(ret, first)) return false;
        rest = more;
    }
    for (int i = 0; i < PLAN_ZERO_NUMBERS && ret->stage == 3; i++) {
        bool is_auto = ret->bucket == 0 && numbers[i].follows;
        ret->numbers[i] = is_auto ? PLAN_ZERO_AUTO : numbers[i].usual;
    }
    while (rest.p)
        if (!read_word(ret, str_cut(&rest, ':'))) return false;
    return true;
}

bool plan_zero_offloads(const struct plan_zero *z) {
    return z->places[PLAN_OPTIMIZER] != PLAN_ON_GPU || z->places[PLAN_PARAM] != PLAN_ON_GPU;
}

struct str plan_offload(struct arena *a, struct str shard, struct str what) {
    struct plan_zero zero;
    struct buf text = buf_new(a);
    if (plan_fsdp(shard) > 0 && !str_is(what, "optimizer"))
        return plan_fsdp(shard) == 1 ? STR("fsdp1:offload") : STR("fsdp2:offload");
    if (!plan_zero_read(shard, &zero)) return (struct str){0};
    buf_format(&text, "%.*s", STR_ARG(shard));
    for (int i = 0; i < PLAN_OFFLOADS; i++) {
        bool is_asked = str_is(what, "all") || str_is(what, plan_offloads[i]);
        if (is_asked && zero.places[i] == PLAN_ON_GPU)
            buf_format(&text, ":%s=%s", plan_offloads[i], plan_places[PLAN_ON_CPU]);
    }
    return plan_zero_read(buf_str(&text), &zero) ? buf_str(&text) : (struct str){0};
}

bool plan_zero_is_same(const struct plan_zero *a, const struct plan_zero *b) {
    bool is_same = a->stage == b->stage && a->bucket == b->bucket && a->overlaps == b->overlaps &&
                   a->is_paged == b->is_paged && a->is_reentrant == b->is_reentrant;
    for (int i = 0; i < PLAN_ZERO_NUMBERS; i++) is_same &= a->numbers[i] == b->numbers[i];
    for (int i = 0; i < PLAN_OFFLOADS; i++) is_same &= a->places[i] == b->places[i];
    return is_same;
}
