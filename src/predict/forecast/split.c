// SPDX-License-Identifier: Apache-2.0
// torchtitan's templates: FSDP2 as it wraps a Llama, and layers that GPUs split (tensor parallel).
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

static bool is_split(const struct plan *p) {
    return p->tensor_parallel > 1;
}

// Where each GPU has one head of keys and values, a copy vanishes.
struct str forecast_split_shard(const struct plan *p, const struct shape *s) {
    bool is_whole = str_is(p->shard, "titan");
    if (!is_split(p) || !plan_is_titan(p->shard)) return (struct str){0};
    if (s->kv_heads < s->heads && s->kv_heads <= p->tensor_parallel)
        return is_whole ? STR("titan:tp:single") : STR("titan:tp:single:op");
    return is_whole ? STR("titan:tp") : STR("titan:tp:op");
}

// For people.
struct str forecast_split_words(struct str shard) {
    static const struct {
        const char *shard, *words;
    } all[] = {{"titan:op", "titan, some operations recomputed"},
               {"titan:tp", "titan with tensor parallelism"},
               {"titan:tp:single", "titan with tensor parallelism"},
               {"titan:tp:op", "titan with tensor parallelism, some operations recomputed"},
               {"titan:tp:single:op", "titan with tensor parallelism, some operations recomputed"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (str_is(shard, all[i].shard)) return str_of(all[i].words);
    return shard;
}

// Layers are split by heads, feed-forward columns and words; the sequence outside of the products.
static int check(const struct plan *p, const struct shape *s, int64_t tokens, struct fail *why) {
    int64_t by = p->tensor_parallel;
    const struct {
        const char *what;
        int64_t size;
    } sides[] = {{"heads", s->heads},
                 {"heads of keys and values", s->kv_heads},
                 {"tokens of a sequence", tokens},
                 {"columns of the feed-forward part", s->intermediate},
                 {"words of the vocabulary", s->vocabulary}};
    if (by > s->kv_heads) {
        fail_set(why, FAIL_INPUT,
                 "%.*s: tensor parallel over %lld GPUs, but it has %lld heads of keys and values, "
                 "and each GPU needs one",
                 STR_ARG(p->model), (long long)by, (long long)s->kv_heads);
        return fail_hint(why, "--tp %lld, the rest of the GPUs as ranks", (long long)s->kv_heads);
    }
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        if (sides[i].size % by == 0) continue;
        return fail_set(why, FAIL_INPUT, "%.*s: %lld %s cannot be divided among %lld GPUs (--tp)",
                        STR_ARG(p->model), (long long)sides[i].size, sides[i].what, (long long)by);
    }
    return 0;
}

// Those that are split are one GPU's.
int forecast_split(const struct plan *p, const struct shape *s, int64_t values[TAPE_DIM_COUNT],
                   struct fail *why) {
    int64_t by = p->tensor_parallel;
    int rc = is_split(p) ? check(p, s, values[TAPE_DIM_SEQUENCE], why) : 0;
    if (rc < 0 || !is_split(p)) return rc;
    values[TAPE_DIM_TENSOR_PARALLEL] = by;
    values[TAPE_DIM_SEQUENCE] /= by;
    values[TAPE_DIM_FFN] /= by;
    values[TAPE_DIM_VOCABULARY] /= by;
    values[TAPE_DIM_KV_HEADS] /= by;
    return 0;
}

// Two norms a layer and the last one, in fp32: their inputs and these without their weights, which
// is what pow and mul keep (aten/src/ATen/native/layer_norm.cpp, rms_norm_composite).
static void note_norms(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    if (p->checkpointing || is_split(p) || !str_is(p->shard, "titan")) return;
    int64_t each = 2 * 4 * f->shape->hidden * p->sequence_length;
    str_list_format(f->arena, &t->notes,
                    "RMSNorm is one kernel, as from torch 2.9 on: before, its single operations "
                    "keep up to %s a sample more",
                    unit_bytes(f->arena, each * (2 * f->shape->layers + 1)).p);
}

void forecast_note_titan(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    const char *again =
        str_is(p->shard, "titan:op") ? ", some operations of a layer recomputed" : "";
    str_list_format(f->arena, &t->notes,
                    "FSDP2 over %lld ranks as torchtitan wraps its Llama: fp32 shards, bf16 when "
                    "gathered, fp32 when reduced%s; the first GPU is shown; none has more",
                    (long long)plan_shard_ranks(p), again);
    note_norms(f, p, t);
    if (p->shard_ranks > 0)
        str_list_format(
            f->arena, &t->notes,
            "HSDP: %lld groups of %lld ranks, each with all of the weights; what a rank "
            "has reduced is summed over the groups where it lies",
            (long long)(p->ranks / p->shard_ranks), (long long)p->shard_ranks);
    if (is_split(p))
        str_list_format(f->arena, &t->notes,
                        "tensor parallel: each rank is %lld GPUs that split the layers, their "
                        "sequences and the loss, %lld in all",
                        (long long)p->tensor_parallel, (long long)plan_devices(p));
}
