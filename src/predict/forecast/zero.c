// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's ZeRO in numbers, from a plan's words and a model's shape, and what an answer says of
// it.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// What transformers makes of "auto" (integrations/deepspeed.py).
static int64_t number_of(const struct plan_zero *zero, enum plan_zero_number number,
                         int64_t hidden) {
    if (zero->numbers[number] != PLAN_ZERO_AUTO) return zero->numbers[number];
    if (number == PLAN_ZERO_PERSIST) return 10 * hidden;
    return (int64_t)(0.9 * (double)hidden * (double)hidden);
}

struct tape_zero forecast_zero_of(const struct plan *p, const struct shape *s) {
    struct plan_zero zero;
    if (!plan_zero_read(p->shard, &zero)) return (struct tape_zero){0};
    return (struct tape_zero){
        .stage = zero.stage,
        .ranks = p->ranks > 1 ? p->ranks : 1,
        .rank = TAPE_RANK_OF_MOST,
        .bucket = zero.bucket > 0 ? zero.bucket : s->hidden * s->hidden,
        .overlaps = zero.overlaps,
        .zero3 = {.prefetch = number_of(&zero, PLAN_ZERO_PREFETCH, s->hidden),
                  .persist = number_of(&zero, PLAN_ZERO_PERSIST, s->hidden),
                  .live = number_of(&zero, PLAN_ZERO_LIVE, s->hidden),
                  .reuse = number_of(&zero, PLAN_ZERO_REUSE, s->hidden),
                  .group = number_of(&zero, PLAN_ZERO_GROUP, s->hidden)},
        .offload = {.optimizer = (enum tape_place)zero.places[PLAN_OPTIMIZER],
                    .params = (enum tape_place)zero.places[PLAN_PARAM],
                    .is_paged = zero.is_paged,
                    .optimizer_buffers = zero.numbers[PLAN_ZERO_OPTIMIZER_BUFFERS],
                    .param_buffers = zero.numbers[PLAN_ZERO_PARAM_BUFFERS],
                    .param_buffer = zero.numbers[PLAN_ZERO_PARAM_BUFFER],
                    .param_most = zero.numbers[PLAN_ZERO_PARAM_MOST]},
    };
}

// What an update that is not fused has besides: of one rank's part of a state, all of it or, where
// sub-groups are updated one by one, that of the largest.
static int64_t update_bytes(const struct tape *t, const struct tape_zero *how) {
    int64_t sum = 0, most = 0;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        int64_t bytes = t->allocs[i].tag == TAPE_OPTIMIZER_STATE ? t->allocs[i].c : 0;
        sum += bytes;
        if (bytes > most) most = bytes;
    }
    return how->stage == 3 ? most : sum / 3; // two states and the master copy
}

static struct str stage12_text(struct arena *a, const struct tape_zero *how) {
    const bool is_away = how->offload.optimizer != TAPE_ON_GPU;
    return str_format(
        a,
        "a master copy and AdamW's states in fp32, partitioned%s, %s reduced in %s of "
        "%lld elements; no GPU has more than what is shown",
        is_away ? " on the host" : "",
        how->stage == 1 ? "all gradients kept,"
        : is_away       ? "gradients sent there when they are"
                        : "gradients kept partitioned,",
        how->overlaps ? "two buckets" : "a bucket", (long long)how->bucket);
}

static const char *const place_names[] = {"on the GPU", "on the host", "on disks"};

// Where the rest is, in one sentence.
static void note_offload(struct arena *a, const struct tape_offload *o, struct forecast_tape *t) {
    struct str pinned = unit_bytes(a, t->tape->header.host_pinned_bytes);
    str_list_format(a, &t->notes,
                    "offload: the update is %s, parameters are %s; the host's memory is counted as "
                    "DeepSpeed asks for it, %.*s a rank page-locked in blocks of powers of two%s; "
                    "loading the model and the data loaders come on top",
                    o->optimizer == TAPE_ON_DISK   ? "the CPU's, its states on disks"
                    : o->optimizer == TAPE_ON_HOST ? "the CPU's (DeepSpeedCPUAdam)"
                                                   : "the GPU's",
                    place_names[o->params], STR_ARG(pinned),
                    o->optimizer == TAPE_ON_DISK || o->params == TAPE_ON_DISK
                        ? " and in buffers for the disks (by its source, not held against a run)"
                        : "");
}

static void note_bits(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    struct plan_zero zero;
    const bool stay = plan_zero_read(p->shard, &zero) && !zero.is_reentrant;
    str_list_format(
        a, &t->notes,
        "weights in four bits are packed as bf16 (bnb_4bit_quant_storage: bfloat16) and "
        "loaded whole on every GPU before they are partitioned, as transformers makes "
        "no zero.Init around them; their scales stay whole");
    if (stay && p->checkpointing)
        str_list_format(
            a, &t->notes,
            "once gathered they stay from forward to backward, as the graph holds them "
            "where layers are recomputed with use_reentrant=False (transformers' own "
            "from 5 on); with gradient_checkpointing_kwargs: use_reentrant: true (--shard "
            "zero3:auto:overlap:reentrant) a layer's go when it has run");
    else if (!p->checkpointing)
        str_list_format(a, &t->notes,
                        "once gathered they stay from forward to backward, held by the graph "
                        "without gradient checkpointing");
}

static struct str stage3_text(struct arena *a, const struct tape_zero *how) {
    const struct zero3 *z = &how->zero3;
    return str_format(
        a,
        "partitioned, as are gradients, their fp32 master copy and AdamW's states; gradients are "
        "reduced in a bucket of %lld elements; parameters of up to %lld elements stay whole, so do "
        "those needed again within %lld, and up to %lld are gathered early; blocks that wait for "
        "another stream count as freed; the first GPU is shown",
        (long long)how->bucket, (long long)z->persist, (long long)z->reuse,
        (long long)(z->prefetch < z->live ? z->prefetch : z->live));
}

void forecast_note_zero(struct forecast *f, const struct plan *p, const struct shape *s,
                        struct forecast_tape *t) {
    const struct tape_zero how = forecast_zero_of(p, s);
    struct arena *a = f->arena;
    str_list_format(a, &t->notes,
                    "ZeRO stage %d over %lld GPU%s as DeepSpeed 0.19.8 has it under transformers: "
                    "weights in bf16 without autocast, %.*s",
                    how.stage, (long long)how.ranks, how.ranks == 1 ? "" : "s",
                    STR_ARG(how.stage == 3 ? stage3_text(a, &how) : stage12_text(a, &how)));
    if (how.offload.optimizer != TAPE_ON_GPU || how.offload.params != TAPE_ON_GPU)
        note_offload(a, &how.offload, t);
    if (p->quant.len > 0 && how.stage == 3) note_bits(a, p, t);
    if (p->fused || how.offload.optimizer != TAPE_ON_GPU) return;
    str_list_format(a, &t->notes,
                    "AdamW is counted as fused, as DeepSpeed's own is: torch's needs up to %.*s "
                    "more without fused=True",
                    STR_ARG(unit_bytes(a, update_bytes(t->tape, &how))));
}
