// SPDX-License-Identifier: Apache-2.0
// What helps when a plan does not fit. Each remedy is a change of the plan, and its saving is
// predicted from a tape of the changed plan, never estimated.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// What a row changes in a plan for a GPU.
struct change {
    struct arena *arena;
    struct plan *plan;
    const struct gpu *gpu;
    const struct remedy {
        const char *what, *cost;
        bool (*apply)(const struct change *c); // false: makes no sense here
        const char *optimizer, *offload;       // that it takes; what goes to the host
        bool precomputes, scores_anew;         // of a preference loss
        int64_t image_size;
    } * row;
};

// Its recipes have neither autocast nor Liger's kernels, no DeepSpeed and no FSDP1.
static bool is_torchtunes(const struct plan *p) {
    return p->is_torchtunes || str_starts(p->loss, STR("linear"));
}

static bool use_amp(const struct change *c) {
    struct plan *p = c->plan;
    if (p->precision != PLAN_FP32 || p->inference) return false;
    if (is_torchtunes(p)) return false;
    p->precision = c->gpu->has_bf16 ? PLAN_AMP_BF16 : PLAN_AMP_FP16;
    return true;
}

// vLLM beside a training puts its memory to sleep, which its allocator cannot with them.
static bool use_expandable(const struct change *c) {
    struct plan *p = c->plan;
    if (p->expandable || str_starts(p->generator, STR("vllm"))) return false;
    p->expandable = true;
    return true;
}

static bool use_fused(const struct change *c) {
    struct plan *p = c->plan;
    if (p->fused || p->inference || !str_is(plan_optimizer_plain(p), "adamw")) return false;
    p->fused = true;
    return true;
}

static bool use_checkpointing(const struct change *c) {
    struct plan *p = c->plan;
    if (p->checkpointing || p->inference) return false;
    p->checkpointing = true;
    return true;
}

static bool use_optimizer(const struct change *c) {
    struct plan *p = c->plan;
    if (p->inference || str_is(p->optimizer, c->row->optimizer)) return false;
    p->optimizer = str_of(c->row->optimizer);
    return true;
}

static bool use_liger(const struct change *c) {
    struct plan *p = c->plan;
    if (p->loss.len > 0 || p->inference || !p->checkpointing || is_torchtunes(p)) return false;
    p->loss = STR("liger");
    return true;
}

static bool use_liger_and_checkpointing(const struct change *c) {
    return use_checkpointing(c) && use_liger(c);
}

static bool use_preference(const struct change *c) {
    struct plan *p = c->plan;
    struct plan_preference how;
    if (p->inference || !plan_preference_read(p->loss, &how)) return false;
    if (how.scores == PLAN_SCORES_LLAMAFACTORY) return false; // it has neither
    if (c->row->precomputes && (how.is_precomputed || !plan_has_reference(how))) return false;
    if (c->row->scores_anew && how.scores == PLAN_SCORES_NEW) return false;
    how.is_precomputed |= c->row->precomputes;
    if (c->row->scores_anew) how.scores = PLAN_SCORES_NEW;
    struct str word = plan_preference_word(how);
    if (word.len > 0) p->loss = word;
    return word.len > 0;
}

static bool use_bf16(const struct change *c) {
    struct plan *p = c->plan;
    if (p->precision == PLAN_BF16 || !c->gpu->has_bf16 || p->inference) return false;
    p->precision = PLAN_BF16;
    return true;
}

static bool use_bf16_frozen(const struct change *c) {
    bool is_wide = plan_is_wide(c->plan);
    if (is_wide) c->plan->frozen_fp32 = false;
    return is_wide;
}

// torchtune's is in bf16 as the weights are.
static bool use_lora(const struct change *c) {
    struct plan *p = c->plan;
    bool is_bf16 = is_torchtunes(p);
    if (p->adapter.len > 0 || p->inference) return false;
    p->adapter = is_bf16 ? STR("lora:16:all-linear:bf16") : STR("lora:16");
    if (!is_bf16) p->precision = c->gpu->has_bf16 ? PLAN_AMP_BF16 : PLAN_AMP_FP16;
    return true;
}

static bool use_four_bits(const struct change *c) {
    struct plan *p = c->plan;
    if (p->quant.len > 0) return false;
    p->quant = is_torchtunes(p) ? STR("nf4-torchao") : STR("nf4");
    return p->adapter.len > 0 || use_lora(c);
}

static bool use_fsdp1(const struct change *c) {
    struct plan *p = c->plan;
    if (p->ranks < 2 || p->shard.len > 0 || p->quant.len == 0 || p->inference) return false;
    if (is_torchtunes(p)) return false;
    if (p->checkpointing && c->gpu->has_bf16) return false; // then FSDP2's is known
    p->shard = STR("fsdp1");
    return true;
}

static bool use_fsdp2(const struct change *c) {
    struct plan *p = c->plan;
    bool is_ddp = p->ranks > 1 && p->shard.len == 0;
    if (!is_ddp || p->inference || !c->gpu->has_bf16) return false;
    if (p->quant.len > 0 && !p->checkpointing) return false;
    p->shard = STR("fsdp2");
    p->precision = PLAN_AMP_BF16;
    return true;
}

// With the same effective batch where the accumulation can be halved.
static bool use_twice_as_many(const struct change *c) {
    struct plan *p = c->plan;
    if (p->shard.len == 0 || p->inference) return false;
    p->ranks *= 2;
    if (p->accumulation % 2 == 0) p->accumulation /= 2;
    return true;
}

// As transformers' own example has it.
static bool use_zero3(const struct change *c) {
    struct plan *p = c->plan;
    struct plan_zero zero;
    bool is_zero = plan_zero_read(p->shard, &zero) && zero.stage < 3;
    if (p->ranks < 2 || p->inference || !(is_zero || p->shard.len == 0)) return false;
    if (is_torchtunes(p)) return false;
    p->shard = STR("zero3:auto:overlap");
    return true;
}

// The next smaller size that there is a tape of is found by asking for it.
static bool halve_sequence(const struct change *c) {
    struct plan *p = c->plan;
    if (p->sequence_length < 64) return false;
    p->sequence_length /= 2;
    p->target_length /= 2;
    return true;
}

static bool use_image_size(const struct change *c) {
    struct plan *p = c->plan;
    if (p->image_size <= c->row->image_size) return false;
    p->image_size = c->row->image_size;
    return true;
}

// Weights in four bits are offloaded by FSDP1 alone.
static bool use_fsdp1_offload(struct plan *p, bool is_all) {
    if (p->ranks < 2 || !is_all) return false;
    p->shard = STR("fsdp1:offload");
    p->checkpointing = true;
    return true;
}

// FSDP's, of what it shards; else ZeRO's: of stage 2 where nothing is shared yet, of stage 3 where
// parameters go.
static bool use_offload(const struct change *c) {
    struct plan *p = c->plan;
    struct plan_zero zero = {0};
    const struct str what = str_of(c->row->offload);
    const bool is_all = !str_is(what, "optimizer"), is_fsdp = plan_fsdp(p->shard) > 0;
    const bool is_zero = plan_zero_read(p->shard, &zero);
    struct str shard = p->shard;
    if (p->inference || (shard.len > 0 && !is_fsdp && !is_zero)) return false;
    if (shard.len == 0 && is_torchtunes(p)) return false;
    if (shard.len == 0 && p->quant.len > 0) return use_fsdp1_offload(p, is_all);
    if (is_all && is_zero && zero.places[PLAN_PARAM] != PLAN_ON_GPU) return false;
    if (shard.len == 0 || (is_all && is_zero && zero.stage < 3))
        shard = is_all ? STR("zero3:auto:overlap") : STR("zero2:auto:overlap");
    shard = plan_offload(c->arena, shard, what);
    if (shard.len == 0 || str_equal(shard, p->shard)) return false;
    p->shard = shard;
    p->checkpointing |= is_fsdp; // there is no template without, and who offloads recomputes
    return true;
}

// In the order of what they cost the training.
static const struct remedy remedies[] = {
    {"expandable segments", "none: expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF",
     use_expandable},
    {"fused AdamW", "none: adamw_torch_fused, or fused=True", use_fused},
    {"mixed precision", "almost none; faster on tensor cores", use_amp},
    {"Liger kernels", "needs liger-kernel; about as fast", use_liger},
    {"a newer trl", "needs trl 1.15, whose kernels score tokens; about as fast", use_preference,
     .scores_anew = true},
    {"the reference's scores beforehand",
     "precompute_ref_log_probs: one pass over the data before the training", use_preference,
     .precomputes = true},
    {"the reference's scores beforehand and a newer trl",
     "precompute_ref_log_probs and trl 1.15: one pass over the data before the training",
     use_preference, .precomputes = true, .scores_anew = true},
    {"ZeRO stage 3", "weights are gathered in each pass: slower over slow links", use_zero3},
    {"FSDP2", "weights are gathered in each pass: slower over slow links", use_fsdp2},
    {"FSDP1", "weights in four bits are gathered in each pass: slower over slow links", use_fsdp1},
    {"8-bit AdamW", "needs bitsandbytes; the same learning rate", use_optimizer,
     .optimizer = "adamw8bit"},
    {"gradient checkpointing", "a second forward pass: about a third slower", use_checkpointing},
    {"gradient checkpointing and Liger kernels",
     "needs liger-kernel; a second forward pass: about a third slower",
     use_liger_and_checkpointing},
    {"Adafactor", "another optimizer: learning rate and schedule change", use_optimizer,
     .optimizer = "adafactor"},
    {"SGD with momentum", "another optimizer: learning rate and schedule change", use_optimizer,
     .optimizer = "sgd"},
    {"frozen weights in bf16", "dtype: bfloat16; the adapter stays in fp32", use_bf16_frozen},
    {"weights in bf16", "loses precision in small updates", use_bf16},
    {"LoRA of rank 16", "trains an adapter, not the weights themselves", use_lora},
    {"QLoRA: frozen weights in four bits",
     "needs bitsandbytes; weights are dequantised in each pass", use_four_bits},
    {"optimizer offload", "the CPU updates, gradients cross PCIe: slower", use_offload,
     .offload = "optimizer"},
    {"parameter offload", "weights cross PCIe in each pass, too: slower", use_offload,
     .offload = "all"},
    {"twice as many GPUs",
     "the GPUs; the effective batch doubles where accumulation cannot be halved",
     use_twice_as_many},
    {"half the sequence length", "texts are truncated", halve_sequence},
    {"384 px images", "less detail", use_image_size, .image_size = 384},
    {"224 px images", "less detail", use_image_size, .image_size = 224},
};

static struct str cost_of(const struct forecast *changed, const struct forecast_card *card,
                          const struct forecast_tape *t, bool is_recomputed, const char *cost) {
    const struct forecast_host host = forecast_host(changed, card, t);
    return str_format(changed->arena, "%s%s; %s of host memory per machine",
                      is_recomputed ? "a second forward pass; " : "", cost,
                      unit_bytes(changed->arena, host.bytes).p);
}

// What of a remedy its row does not say: offload that takes FSDP1 or recomputation with it, another
// precision beside an adapter or shards.
static struct str name_of(struct arena *a, const struct plan *from, const struct plan *to,
                          const struct remedy *row) {
    const char *what = row->what;
    bool is_row_of_it = row->apply == use_amp || row->apply == use_bf16;
    if (!row->offload)
        return to->precision == from->precision || is_row_of_it
                   ? str_of(what)
                   : str_format(a, "%s (%s)", what, plan_precision_name(to->precision));
    bool is_sharded = plan_fsdp(to->shard) == 1 && from->shard.len == 0;
    bool is_recomputed = to->checkpointing && !from->checkpointing;
    return str_format(a, "%s%s%s", is_recomputed ? "gradient checkpointing and " : "",
                      is_sharded ? "FSDP1 with " : "", what);
}

// Four bits are torchao's to torchtune.
static struct str four_bits_cost(const struct plan *from, const struct plan *to, const char *cost) {
    bool is_torchao = str_is(to->quant, "nf4-torchao") && from->quant.len == 0;
    return is_torchao ? STR("needs torchao; weights are dequantised in each pass") : str_of(cost);
}

// How the figure is asked for where GPUs share in another way: a name alone leaves open what stands
// behind it.
static struct str with_options(struct arena *a, const struct plan *from, const struct plan *to,
                               struct str cost) {
    if (str_equal(from->shard, to->shard)) return cost;
    return str_format(a, "%s; computed as --shard %s", str_z(a, cost), str_z(a, to->shard));
}

// Whether it runs in less than is needed now. One replay, where to find what it needs takes many.
static bool saves(const struct forecast *changed, const struct forecast_card *card,
                  const struct forecast_tape *t, int64_t batch, int64_t needed_now) {
    const double factor = card->correction.runs > 0 ? card->correction.factor : 1;
    const int64_t less = (int64_t)((double)needed_now / factor) - forecast_extra(card, t) - 1;
    return forecast_runs(t->loaded, batch, changed->plan.classes, less);
}

static int try_remedy(struct forecast *f, const struct forecast_card *card,
                      const struct remedy *row, int64_t batch, int64_t accumulation,
                      int64_t needed_now, struct forecast_remedies *list) {
    struct plan plan = f->plan;
    plan.accumulation = accumulation;
    FORECAST_ASIDE aside;
    forecast_aside(&aside, f->cache);
    if (!row->apply(&(struct change){f->arena, &plan, &card->gpu, row})) return 0;
    if (plan_lacks(&f->plan, &plan)) return 0;
    plan.batch = batch;
    accumulation = plan.accumulation;
    struct forecast changed;
    struct forecast_peak peak;
    struct forecast_tape *t;
    // No tape matches the changed plan: then nothing is said about it.
    if (forecast_open(f->cache, &plan, &changed, NULL) < 0) return 0;
    if (forecast_tape(&changed, batch, accumulation, &t, NULL) < 0 || t->is_larger) return 0;
    if (!saves(&changed, card, t, batch, needed_now)) return 0;
    int rc = forecast_at(&changed, card, batch, accumulation, &peak, NULL);
    if (rc < 0 || peak.needed_bytes >= needed_now) return rc < 0 ? rc : 0;
    const struct str cost =
        row->offload
            ? cost_of(&changed, card, t, plan.checkpointing && !f->plan.checkpointing, row->cost)
            : four_bits_cost(&f->plan, &plan, row->cost);
    *arena_push(f->arena, &list->items, &list->count, &list->capacity) = (struct forecast_remedy){
        .what = name_of(f->arena, &f->plan, &plan, row),
        .cost = with_options(f->arena, &f->plan, &changed.plan, cost),
        .plan = changed.plan,
        .needed_bytes = peak.needed_bytes,
        .saved_bytes = needed_now - peak.needed_bytes,
        .is_offload = row->offload != NULL,
        .is_enough = forecast_fits(&changed, card, batch, accumulation, NULL) > 0,
    };
    return 0;
}

int forecast_remedies(struct forecast *f, const struct forecast_card *card, int64_t batch,
                      int64_t accumulation, struct forecast_remedies *ret_remedies,
                      struct fail *why) {
    struct forecast_peak now;
    struct forecast_remedies list = {0};
    int rc = forecast_at(f, card, batch, accumulation, &now, why);
    for (size_t i = 0; rc == 0 && i < sizeof remedies / sizeof *remedies; i++) {
        rc = try_remedy(f, card, &remedies[i], batch, accumulation, now.needed_bytes, &list);
    }
    if (rc == 0) *ret_remedies = list;
    return rc;
}

// Where the peak is when states are made, or the host has them, recomputation saves nothing alone.
void forecast_remedies_beside(struct forecast *f, struct forecast_remedies *ret_remedies) {
    struct forecast_remedies list = {0};
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        const struct remedy *row = &remedies[i];
        struct plan plan = f->plan;
        bool recomputes =
            row->apply == use_checkpointing || row->apply == use_liger_and_checkpointing;
        if (!recomputes || !row->apply(&(struct change){f->arena, &plan, NULL, row})) continue;
        if (plan_lacks(&f->plan, &plan)) continue;
        *arena_push(f->arena, &list.items, &list.count, &list.capacity) = (struct forecast_remedy){
            .what = str_of(row->what), .cost = str_of(row->cost), .plan = plan};
    }
    *ret_remedies = list;
}
