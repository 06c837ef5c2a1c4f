// SPDX-License-Identifier: Apache-2.0
#include "predict/plan/plan.h"

const char *const plan_precisions[] = {
    [PLAN_FP32 - 1] = "fp32", [PLAN_AMP_FP16 - 1] = "amp-fp16", [PLAN_AMP_BF16 - 1] = "amp-bf16",
    [PLAN_BF16 - 1] = "bf16", [PLAN_FP16 - 1] = "fp16",         [PLAN_FP16] = NULL,
};
const char *const plan_optimizers[] = {"sgd",       "adam",       "adamw",     "adafactor", "lion",
                                       "adamw8bit", "adamw32bit", "lion32bit", "none",      NULL};

// Spellings as they stand in configs, folded to lower case without punctuation; the first row that
// is contained wins, so the longer names come first. No name: the states are others than those of
// the optimizer whose name is contained: fewer (projected, of a layer at a time, of 8 or 4 bits),
// more (a third average, a copy of the weights, what rounding lost), or in a type of its own.
static const struct {
    const char *contains, *name;
} optimizer_spellings[] = {
    {"galore", NULL},
    {"apollo", NULL},
    {"schedulefree", NULL},
    {"adopt", NULL},
    {"optimiadam", NULL},
    {"optimilion", NULL},
    {"optimisgd", NULL},
    {"stableadam", NULL},
    {"grokadam", NULL},
    {"anyprecision", NULL},
    {"adammini", NULL},
    {"dadapt", NULL},
    {"lookahead", NULL},
    {"onebit", NULL},
    {"zeroone", NULL},
    {"adamw8bit", "adamw8bit"},
    {"adamwbnb8bit", "adamw8bit"},
    {"adam8bit", "adamw8bit"},
    {"8bit", NULL},
    {"adamw32bit", "adamw32bit"},
    {"bitsandbytesoptimadamw", "adamw32bit"},
    {"bitsandbytesoptimpagedadamw", "adamw32bit"},
    {"lion32bit", "lion32bit"},
    {"bitsandbytesoptimlion", "lion32bit"},
    {"bitsandbytesoptimpagedlion", "lion32bit"},
    {"ademamix", NULL},
    {"lomo", NULL},
    {"4bit", NULL},
    {"fp8", NULL},
    {"adafactor", "adafactor"},
    {"adamw", "adamw"},
    {"lion", "lion"},
    {"radam", "adam"},
    {"nadam", "adam"},
    {"adam", "adam"},
    {"lamb", "adam"},
    {"sgd", "sgd"},
    {"momentum", "sgd"},
    {"none", "none"},
};

struct str plan_optimizer_plain(const struct plan *p) {
    const bool is_half = p->precision == PLAN_BF16 || p->precision == PLAN_FP16;
    if (is_half && p->adapter.len == 0 && p->shard.len == 0) return p->optimizer;
    if (str_is(p->optimizer, "adamw32bit")) return STR("adamw");
    return str_is(p->optimizer, "lion32bit") ? STR("lion") : p->optimizer;
}

const char *plan_precision_name(enum plan_precision precision) {
    return precision ? plan_precisions[precision - 1] : "unknown";
}

struct str plan_precision_text(enum plan_precision precision) {
    return precision ? str_of(plan_precision_name(precision)) : (struct str){0};
}

enum plan_precision plan_precision_find(struct str name) {
    int i = 0;
    while (plan_precisions[i] && !str_equal_nocase(name, str_of(plan_precisions[i]))) i++;
    return plan_precisions[i] ? (enum plan_precision)(i + 1) : PLAN_PRECISION_UNKNOWN;
}

bool plan_precision_is_amp(enum plan_precision precision) {
    return precision == PLAN_AMP_FP16 || precision == PLAN_AMP_BF16;
}

static struct str fold(struct str s, char *text, ptrdiff_t size) {
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < s.len && n < size; i++) {
        if (str_is_alnum(s.p[i])) text[n++] = str_lower(s.p[i]);
    }
    return (struct str){text, n};
}

const char *plan_optimizer_find(struct str spelled) {
    char text[64];
    struct str folded = fold(spelled, text, (ptrdiff_t)sizeof text);
    for (size_t i = 0; i < sizeof optimizer_spellings / sizeof *optimizer_spellings; i++) {
        if (str_find(folded, str_of(optimizer_spellings[i].contains)) >= 0) {
            return optimizer_spellings[i].name;
        }
    }
    return NULL;
}

bool plan_lacks(const struct plan *p, const struct plan *other) {
    struct plan_zero zero;
    const bool is_shared = !str_equal(p->shard, other->shard);
    const bool is_zero = is_shared && plan_zero_read(other->shard, &zero);
    unsigned more = 0;
    if (p->adapter.len == 0 && other->adapter.len > 0) more |= PLAN_LACKS_ADAPTERS;
    if (is_shared && plan_fsdp(other->shard) > 0) more |= PLAN_LACKS_FSDP;
    if (is_zero) more |= PLAN_LACKS_ZERO;
    if (p->loss.len == 0 && str_starts(other->loss, STR("liger"))) more |= PLAN_LACKS_LIGER;
    return (p->lacks & more) != 0;
}

int64_t plan_shard_ranks(const struct plan *p) {
    return p->shard_ranks > 0 ? p->shard_ranks : p->ranks;
}

int64_t plan_micro_steps(const struct plan *p) {
    return p->accumulation > 0 ? p->accumulation : 1;
}

int64_t plan_devices(const struct plan *p) {
    int64_t split = p->tensor_parallel > 1 ? p->tensor_parallel : 1;
    return split * (p->ranks > 1 ? p->ranks : 1);
}

int64_t plan_effective(const struct plan *p) {
    return p->batch * plan_micro_steps(p) * (p->ranks > 0 ? p->ranks : 1);
}

int64_t plan_accumulation(int64_t effective, int64_t batch, int64_t ranks) {
    int64_t step = batch * ranks;
    return effective > step ? (effective + step - 1) / step : 1;
}

struct plan_batches plan_every_batch(struct arena *a, const struct plan_range *range) {
    int64_t least = range->least > 0 ? range->least : 1;
    int64_t most = range->most > 0 ? range->most : PLAN_BATCH_MOST;
    int64_t multiple = range->multiple > 0 ? range->multiple : 4;
    struct plan_batches list = {0};
    if (most < least) return list;
    list.values = arena_new(a, int64_t, most / multiple + multiple + 3);
    if (range->most <= 0 && range->own > most) list.values[list.count++] = range->own;
    for (int64_t batch = most; batch >= least; batch--) {
        bool allowed = batch < multiple || batch % multiple == 0 || batch == range->own;
        if (allowed) list.values[list.count++] = batch;
    }
    return list;
}

struct plan_batches plan_keeping(struct arena *a, struct plan_batches every, int64_t effective,
                                 int64_t ranks) {
    struct plan_batches list = {arena_new(a, int64_t, every.count), 0};
    for (int i = 0; i < every.count; i++) {
        int64_t step = every.values[i] * (ranks > 0 ? ranks : 1);
        if (effective % step == 0) list.values[list.count++] = every.values[i];
    }
    return list;
}
