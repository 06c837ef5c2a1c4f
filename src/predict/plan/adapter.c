// SPDX-License-Identifier: Apache-2.0
// Words of the recorder: an adapter in one text, four bits, shards.
#include "predict/plan/plan.h"

const char *const plan_shards[] = {"fsdp2", "zero1", "zero2", "zero3", NULL};

bool plan_zero_read(struct str shard, struct plan_zero *ret) {
    static const char *const stages[] = {"zero1", "zero2", "zero3", NULL};
    struct str rest = shard, word = str_cut(&rest, ':'), bucket = str_cut(&rest, ':');
    bool is_said = bucket.p != NULL, is_more = rest.p != NULL;
    *ret = (struct plan_zero){.bucket = PLAN_ZERO_BUCKET, .overlaps = is_more};
    for (int i = 0; stages[i]; i++)
        if (str_is(word, stages[i])) ret->stage = i + 1;
    if (ret->stage == 0 || (is_more && !str_is(rest, "overlap"))) return false;
    if (!is_said) return true;
    if (str_is(bucket, "auto")) return ret->bucket = 0, true;
    return str_to_i64(bucket, &ret->bucket) && ret->bucket > 0 && ret->bucket <= PLAN_BUCKET_MAX;
}
const char *const plan_quants[] = {"nf4", "nf4-dq", NULL};
const char *const plan_adapter_layers[] = {"q_proj",    "k_proj",  "v_proj",    "o_proj",
                                           "gate_proj", "up_proj", "down_proj", NULL};

static bool is_every(struct str targets) {
    static const char *const words[] = {"all", "all-linear", NULL};
    int named = 0;
    if (targets.len == 0 || str_is_one_of(targets, words)) return true;
    for (int i = 0; plan_adapter_layers[i]; i++) {
        for (struct str rest = targets; rest.p;) {
            if (!str_is(str_cut(&rest, ','), plan_adapter_layers[i])) continue;
            named++;
            break;
        }
        if (named <= i) return false;
    }
    for (struct str rest = targets; rest.p; str_cut(&rest, ',')) named--;
    return named == 0;
}

struct str plan_adapter(struct arena *a, int64_t rank, struct str targets, bool has_dropout) {
    struct buf text = buf_new(a), names = buf_new(a);
    if (rank < 1) return (struct str){0};
    if (targets.len == 0) targets = (struct str){0}; // no name, not an empty one
    for (struct str rest = targets; rest.p;) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (!str_is_made_of(name, "-_.")) return (struct str){0};
        buf_format(&names, "%s%.*s", names.count > 0 ? "," : "", STR_ARG(name));
    }
    bool is_all = is_every(buf_str(&names));
    buf_format(&text, "lora:%lld", (long long)rank);
    if (!is_all) buf_format(&text, ":%.*s", STR_ARG(buf_str(&names)));
    if (has_dropout) buf_format(&text, "%s:dropout", is_all ? ":all-linear" : "");
    return buf_str(&text);
}

int64_t plan_adapter_rank(struct str adapter) {
    struct str kind = str_cut(&adapter, ':');
    int64_t rank = 0;
    return str_is(kind, "lora") && str_to_i64(str_cut(&adapter, ':'), &rank) ? rank : 0;
}

struct str plan_adapter_rest(struct str adapter) {
    str_cut(&adapter, ':');
    str_cut(&adapter, ':');
    return adapter;
}

struct str plan_adapter_targets(struct str adapter) {
    struct str rest = plan_adapter_rest(adapter), targets = str_cut(&rest, ':');
    return str_is(targets, "all-linear") ? (struct str){0} : targets;
}
