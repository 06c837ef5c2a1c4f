// SPDX-License-Identifier: Apache-2.0
// What an answer from a template says of the model itself: which attention, which experts, which
// lengths are counted, and which update.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

#include <math.h>

// Of all weights, the update's temporaries are as large as the weights.
void forecast_note_update(struct forecast *f, const struct plan *p, struct forecast_tape *t,
                          bool is_fused) {
    if (!is_fused && p->fused)
        str_list_format(f->arena, &t->notes,
                        "AdamW is counted as PyTorch's default (foreach): fused, as it runs here, "
                        "needs up to %.*s less",
                        STR_ARG(unit_bytes(f->arena, forecast_gradient_bytes(t->tape))));
    else if (!is_fused)
        str_list_add(f->arena, &t->notes,
                     STR("AdamW is counted as PyTorch's default (foreach): its step has "
                         "temporaries that fused=True avoids"));
    else if (!p->fused)
        str_list_format(f->arena, &t->notes,
                        "AdamW is counted as fused: without fused=True it needs up to %.*s more",
                        STR_ARG(unit_bytes(f->arena, forecast_gradient_bytes(t->tape))));
}

// On one GPU: the types of what is frozen and of what is trained.
void forecast_note_adapter(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    const bool is_bf16 = plan_adapter_is_bf16(p->adapter);
    const bool is_left = is_bf16 || str_is(p->loss, "cut") ||
                         plan_quant_is_left(t->tape->header.quant); // the template's
    if (p->quant.len > 0)
        str_list_format(f->arena, &t->notes,
                        "%.*s: frozen linear layers in four bits as %s; "
                        "embedding, norms and head in %s",
                        STR_ARG(p->quant),
                        str_is(p->quant, "nf4-torchao")
                            ? "torchao stores them, which dequantises each in 14 bytes an element"
                            : "bitsandbytes stores them",
                        is_left ? "bf16, as loaded" : "fp32, as peft prepares them");
    else if (plan_is_wide(p) && forecast_has_wide(t))
        str_list_add(f->arena, &t->notes,
                     STR("frozen weights are counted in fp32, and their copies that autocast makes "
                         "at each use; the adapter in fp32, too"));
    else if (!is_bf16 && !plan_is_wide(p))
        str_list_add(f->arena, &t->notes,
                     STR("frozen weights are counted in 2 bytes, the adapter in 4"));
    if (is_bf16)
        str_list_add(f->arena, &t->notes,
                     STR("the adapter is counted in bf16, its gradients and states too"));
    else if (p->precision == PLAN_BF16)
        str_list_add(f->arena, &t->notes,
                     STR("without autocast the layers of an adapter in fp32, as peft makes it, "
                         "keep their inputs in fp32, too"));
}

// Inductor fuses what eager PyTorch writes down and computes cheap things again; products,
// convolutions and attention keep their outputs.
void forecast_note_compile(struct forecast *f, struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    static const char open[] = "CUDA graphs (mode reduce-overhead, max-autotune) and autotuning "
                               "during compilation are not counted";
    if (!f->plan.compile) return;
    t->is_upper_bound |= h->compile.len == 0;
    if (h->compile.len > 0)
        str_list_format(f->arena, &t->notes,
                        "compiled (%.*s): buffers as Inductor of torch %.*s plans them, without "
                        "graph breaks, with a wider band; %s",
                        STR_ARG(h->compile), STR_ARG(h->torch), open);
    else
        str_list_format(f->arena, &t->notes,
                        "compiled: counted as eager PyTorch, whose operations store what Inductor "
                        "fuses, so every figure is an upper bound; %s",
                        open);
}

// Of a T5.
static void note_lengths(struct forecast *f, const struct plan *p, const struct shape *s,
                         struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    bool is_other =
        p->sequence_length % FORECAST_BIASED_BY != 0 || p->target_length % FORECAST_BIASED_BY != 0;
    if (str_is(s->kind, "seq2seq") && is_other)
        str_list_format(
            f->arena, &t->notes,
            "counted at %lld/%lld tokens: attention's kernel pads the bias to multiples "
            "of %d",
            (long long)h->sequence_length, (long long)h->target_length, FORECAST_BIASED_BY);
}

// gpt-oss's are none of what peft takes for linear layers.
static bool has_linear_experts(const struct forecast *f, const struct shape *s) {
    const struct str layers = shape_linear(f->cache->shapes, s);
    return str_has_name(layers, STR("down_proj")) || str_has_name(layers, STR("w2"));
}

// Which product of experts is counted, and what the loop that transformers had before version 5 and
// has on GPUs without the other needs besides: torch makes the gradient of one expert's part of the
// weights in a tensor of all experts'.
static void note_experts(struct forecast *f, const struct plan *p, const struct shape *s,
                         struct forecast_tape *t) {
    int64_t inner = s->expert_intermediate > 0 ? s->expert_intermediate : s->intermediate;
    int64_t each = str_is(t->entry->header.weights, "bf16") ? 2 : 4;
    if (s->experts == 0) return;
    str_list_format(
        f->arena, &t->notes,
        "each token goes to %lld of %lld experts, whose products are counted as grouped "
        "ones (transformers 5, compute capability 8.0 on): no size depends on which",
        (long long)s->active, (long long)s->experts);
    if (p->adapter.len == 0)
        str_list_format(
            f->arena, &t->notes,
            "experts one after the other (experts_implementation=\"eager\") need up to "
            "%.*s more in the backward pass",
            STR_ARG(unit_bytes(f->arena, 2 * 2 * each * s->experts * inner * s->hidden)));
    else if (plan_adapter_targets(p->adapter).len == 0 && has_linear_experts(f, s))
        str_list_add(f->arena, &t->notes,
                     STR("LoRA is on the experts too, as with peft 0.21's all-linear: their "
                         "weights are rebuilt with it in every pass"));
}

// transformers/models/t5/modeling_t5.py: up to 5.14 scores are added to a bias, and a layer keeps
// their softmax in fp32, the dropout's mask and what it leaves in two bytes.
static void note_scores(struct forecast *f, const struct shape *s, struct forecast_tape *t) {
    enum { SCORE_BYTES = 4 + 1 + 2 };
    const double tokens = (double)t->entry->header.sequence_length;
    const double each = SCORE_BYTES * tokens * tokens * (double)s->heads;
    str_list_format(f->arena, &t->notes,
                    "attention is counted as SDPA, as transformers runs T5 from 5.15 on: an older "
                    "one keeps every layer's scores, about %.*s more for each sample and layer "
                    "(with checkpointing of one layer)",
                    STR_ARG(unit_bytes(f->arena, (int64_t)fmin(each, 9e18))));
}

static void note_attention(struct forecast *f, const struct shape *s, struct forecast_tape *t) {
    int64_t window = shape_window(s), tokens = t->entry->header.sequence_length;
    if (str_is(s->type, "t5") || str_is(s->type, "mt5")) note_scores(f, s, t);
    const bool is_gemma2 = str_is(s->type, "gemma2");
    if (is_gemma2 || str_is(s->type, "gpt_oss")) {
        window = 0; // its masks are counted, whatever they mask
        str_list_format(f->arena, &t->notes,
                        "attention is counted as plain products and a softmax (eager), the default "
                        "of transformers for %s: flash attention needs less",
                        is_gemma2 ? "Gemma 2" : "gpt-oss");
    }
    if (window > 0 && tokens > window)
        str_list_format(f->arena, &t->notes,
                        "not counted: the mask of the model's window of %lld tokens (sdpa; "
                        "flash attention has none)",
                        (long long)window);
}

static void note_tower(struct forecast *f, const struct plan *p, const struct shape *s,
                       struct forecast_tape *t) {
    const char *also = "";
    if (s->tower == 0) return;
    if (p->adapter.len > 0)
        also = plan_adapter_targets(p->adapter).len > 0
                   ? ", where LoRA is on the layers of these names, too"
                   : ", where LoRA is, too, as peft has all-linear";
    str_list_format(f->arena, &t->notes,
                    "not counted: images. The whole model is in memory and is trained on text: its "
                    "vision part (%.0f million parameters%s) does not run",
                    (double)s->tower / 1e6, also);
}

static void note_head(struct forecast *f, const struct shape *s, struct forecast_tape *t) {
    const int64_t classes = f->plan.classes > 0 ? f->plan.classes : t->entry->header.classes;
    if (!shape_is_encoder(s)) return;
    str_list_format(f->arena, &t->notes,
                    "counted with a head of %lld classes for each sequence "
                    "(AutoModelForSequenceClassification, --num-classes), every sequence as long "
                    "as --seq-len; a head for masked words needs more",
                    (long long)classes);
}

#define SIMPO_ALONE "without a cross-entropy of the preferred answers (cpo_alpha: 0)"
static const char *const scores[][3] = {
    [PLAN_STEP_DPO] =
        {[PLAN_SCORES_WHOLE] =
             "all logits are counted several times, as in trl 0.12 to 1.13: 1.14 needs less, from "
             "1.15 on much less (--loss dpo@1.15), before 0.12 more",
         [PLAN_SCORES_NEW] = "tokens are scored by tiles of logits, as trl does from 1.15 on: "
                             "earlier versions need more (--loss dpo)",
         [PLAN_SCORES_LLAMAFACTORY] =
             "all logits and a softmax of them are counted, for both models, as in LLaMA-Factory"},
    [PLAN_STEP_ORPO] =
        {[PLAN_SCORES_WHOLE] =
             "all logits are counted several times, and a cross-entropy of the preferred half, as "
             "in trl 0.15 to 1.13: from 1.14 on it needs less (--loss orpo@1.14), before 0.15 more",
         [PLAN_SCORES_NEW] = "a cross-entropy of the preferred half is counted beside all logits, "
                             "which are scored by trl's kernel from 1.14 on: earlier versions need "
                             "more (--loss orpo)",
         [PLAN_SCORES_LLAMAFACTORY] =
             "all logits and a softmax of them are counted, as in LLaMA-Factory"},
    [PLAN_STEP_SIMPO] =
        {[PLAN_SCORES_WHOLE] =
             "all logits are counted several times, as in trl 0.15 to 1.13, " SIMPO_ALONE
             ": from 1.14 on it needs less (--loss "
             "simpo@1.14)",
         [PLAN_SCORES_NEW] = "all logits are scored by trl's kernel from 1.14 on, " SIMPO_ALONE
                             ": earlier versions need more (--loss simpo)"},
    [PLAN_STEP_KTO] = {[PLAN_SCORES_WHOLE] =
                           "all logits are counted several times, as in trl 1.0 to 1.13: 1.14 "
                           "needs less, from 1.15 on much less (--loss kto@1.15)",
                       [PLAN_SCORES_NEW] =
                           "tokens are scored by tiles of logits, as trl does from 1.15 on: "
                           "earlier versions need more (--loss kto)"},
    [PLAN_STEP_REWARD] = {[PLAN_SCORES_WHOLE] =
                              "a head with one output replaces that of the words, as in trl's "
                              "RewardTrainer (both halves in one pass, from 0.24 on)"}};

static void note_preference(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    struct plan_preference how;
    if (!plan_preference_read(p->loss, &how)) return;
    const char *reference = "a second model is the reference, in the type of the weights";
    if (!plan_has_reference(how))
        reference = "there is no reference";
    else if (how.is_precomputed)
        reference = "the reference's scores come with the data (precompute_ref_log_probs)";
    else if (p->adapter.len > 0)
        reference = "the reference is the model with its adapter switched off";
    const char *batch =
        how.step == PLAN_STEP_KTO
            ? "a batch is of samples, beside which as many others are scored"
            : "a batch is of pairs, so twice as many sequences go through the model";
    str_list_format(f->arena, &t->notes, "%s; %s; dropout is off, as disable_dropout has it", batch,
                    reference);
    str_list_add(f->arena, &t->notes, str_of(scores[how.step][how.scores]));
}

void forecast_note_shape(struct forecast *f, const struct plan *p, const struct shape *s,
                         struct forecast_tape *t) {
    note_lengths(f, p, s, t);
    note_experts(f, p, s, t);
    note_attention(f, s, t);
    note_tower(f, p, s, t);
    note_head(f, s, t);
}

void forecast_note_loss(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    if (plan_is_of_completions(p->loss))
        forecast_note_completions(f, p, t);
    else if (plan_is_preference(p->loss))
        note_preference(f, p, t);
    else if (str_starts(p->loss, STR("linear")))
        str_list_add(
            f->arena, &t->notes,
            STR("the loss by eight chunks of tokens, as in torchtune's "
                "LinearCrossEntropyLoss, with no token masked: a masked prompt needs less"));
    else if (str_is(p->loss, "cut"))
        str_list_add(f->arena, &t->notes,
                     STR("the loss by cut cross-entropy, as Axolotl's plugin applies it: no logits "
                         "are kept; weights, embedding and head are in bf16, as its kernels need"));
    else if (p->loss.len > 0)
        str_list_add(f->arena, &t->notes,
                     STR("liger-kernel 0.8 as use_liger_kernel applies it: the loss by chunks of "
                         "tokens, RMSNorm, gated units and rotary embedding in its kernels"));
}
