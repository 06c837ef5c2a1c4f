// SPDX-License-Identifier: Apache-2.0
// What an answer says of torch's FSDP, as libraries apply it.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// Who shares by FSDP1 may have a transformers whose loss shifts the logits, in fp32, instead of the
// labels (4.48.1, loss/loss_utils.py).
static struct str shifted_bytes(struct arena *a, const struct plan *p, const struct shape *s) {
    return unit_bytes(a, 4 * p->sequence_length * s->vocabulary);
}

// Before 4.52 a unit of FSDP1 was recomputed, not the layer inside of it, reentrantly where nobody
// said otherwise; its hook then keeps the gradient of what it was recomputed from.
static void note_retained(struct forecast *f, const struct plan *p, const struct shape *s,
                          struct forecast_tape *t) {
    if (p->adapter.len == 0 || !p->checkpointing) return;
    struct str more = unit_bytes(f->arena, 2 * p->sequence_length * s->hidden * s->layers);
    if (plan_fsdp1_retains(p))
        str_list_format(f->arena, &t->notes,
                        "checkpointing as of transformers before 4.52, under which FSDP1 keeps the "
                        "gradients of all layers' inputs to the end of the backward pass, %.*s a "
                        "sequence; not so from 4.52 on, or with use_reentrant: false: --shard "
                        "fsdp1@4.52",
                        STR_ARG(more));
    else
        str_list_format(f->arena, &t->notes,
                        "checkpointing as of transformers 4.52 or newer, or with use_reentrant: "
                        "false; before, FSDP1 keeps up to %.*s a sequence more",
                        STR_ARG(more));
}

static void note_fsdp1(struct forecast *f, const struct plan *p, const struct shape *s,
                       struct forecast_tape *t) {
    static const char *const units[] = {
        "each layer and the rest a flat parameter, fp32 shards",
        "each layer and each matrix of the adapter a flat parameter, bf16 shards of frozen ones",
        ("each layer and each matrix of the adapter a flat parameter, shards of frozen ones in "
         "four bits packed as bf16 (bnb_4bit_quant_storage; their scales are whole on every GPU)")};
    str_list_format(f->arena, &t->notes,
                    "fsdp1 over %lld GPUs as accelerate wraps a model: %s, bf16 when gathered and "
                    "reduced, the layer before gathered early in backward (BACKWARD_PRE); blocks "
                    "that wait for another stream count as freed; the first GPU is shown; none has "
                    "more; in new trainings FSDP2 takes its place",
                    (long long)p->ranks, units[p->quant.len > 0 ? 2 : p->adapter.len > 0]);
    note_retained(f, p, s, t);
    str_list_format(f->arena, &t->notes,
                    "transformers 4.48 and before copy the logits once more in the loss: %.*s a "
                    "sequence",
                    STR_ARG(shifted_bytes(f->arena, p, s)));
}

static void note_offload(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    struct str pinned = unit_bytes(f->arena, t->tape->header.host_pinned_bytes);
    str_list_format(f->arena, &t->notes,
                    "offload: shards and their gradients%s are the host's, %.*s a rank page-locked "
                    "in blocks of powers of two, and the update is the CPU's, fused; loading the "
                    "model and the data loaders come on top",
                    plan_fsdp(p->shard) == 1 && p->adapter.len > 0
                        ? " (FSDP1 has room for those of frozen weights, too)"
                        : "",
                    STR_ARG(pinned));
}

void forecast_note_tune(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    str_list_format(f->arena, &t->notes,
                    "FSDP2 over %lld GPUs as torchtune's recipes apply it: each layer a group, "
                    "embedding and head gathered from forward to backward, gradients reduced in "
                    "every micro-step, all in bf16; the first GPU is shown; none has more",
                    (long long)p->ranks);
}

// Embedding and head in bf16: the root's own group. accelerate asks for all to be freed after
// forward, and torch before 2.8 did not do so with the root (_fsdp_state.py, _lazy_init).
static struct str root_bytes(struct arena *a, const struct shape *s) {
    const int64_t matrices = s->tied ? 1 : 2;
    return unit_bytes(a, 2 * matrices * s->vocabulary * s->hidden);
}

enum plan_precision forecast_precision(const struct tape_header *h) {
    bool keeps_bf16 = str_is(h->shard, plan_fsdp2_older) && str_is(h->weights, "bf16");
    return keeps_bf16 && h->adapter.len == 0 ? PLAN_BF16 : plan_precision_find(h->precision);
}

// What is said of "fsdp2" and a plan's model: the types of shards, and of which version it is.
static void note_fsdp2(struct forecast *f, const struct plan *p, const struct shape *s,
                       struct forecast_tape *t) {
    static const char *const trained[] = {"fp32 shards", "bf16 shards, gradients and states"};
    static const char *const frozen[] = {
        "bf16 shards of the frozen weights, each layer a group with its part of the adapter, whose "
        "shards are fp32",
        "shards of the frozen weights in four bits packed as bf16 (bnb_4bit_quant_storage; their "
        "scales are whole on every GPU), each layer a group with its part of the adapter, whose "
        "shards are fp32"};
    bool is_older = str_is(p->shard, plan_fsdp2_older), is_adapter = p->adapter.len > 0;
    str_list_format(f->arena, &t->notes,
                    "fsdp2 over %lld GPUs as %s: %s, bf16 when gathered and reduced; the first GPU "
                    "is shown; none has more",
                    (long long)p->ranks,
                    is_older     ? "accelerate up to 1.13, and Axolotl, wrap a model"
                    : is_adapter ? "transformers' Trainer has it with an adapter"
                                 : "accelerate wraps a model",
                    is_adapter ? frozen[p->quant.len > 0] : trained[p->precision == PLAN_BF16]);
    if (is_older)
        str_list_format(f->arena, &t->notes,
                        "embedding, last norm and head are one group, gathered together: from 1.14 "
                        "on accelerate has them apart, up to %.*s less (--shard fsdp2)",
                        STR_ARG(root_bytes(f->arena, s)));
    else
        str_list_format(f->arena, &t->notes,
                        "accelerate before 1.14 gathers embedding and head together (--shard "
                        "fsdp2@1.13), and torch before 2.8 keeps them so from forward to backward: "
                        "up to %.*s more%s",
                        STR_ARG(root_bytes(f->arena, s)),
                        is_adapter && p->quant.len == 0
                            ? "; accelerate before 1.13 has frozen weights in fp32"
                            : "");
}

void forecast_note_fsdp(struct forecast *f, const struct plan *p, const struct shape *s,
                        struct forecast_tape *t) {
    if (plan_fsdp(p->shard) == 1)
        note_fsdp1(f, p, s, t);
    else
        note_fsdp2(f, p, s, t);
    if (plan_fsdp_offloads(p->shard)) note_offload(f, p, t);
}
