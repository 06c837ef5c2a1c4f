// SPDX-License-Identifier: Apache-2.0
// Attention on GPUs below compute capability 8.0. PyTorch has no flash attention there, and its
// memory-efficient kernel takes neither bf16 (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
// less_than_sm80_mem_efficient_dtypes) nor, up to torch 2.13, heads that share keys and values
// (can_use_mem_efficient_attention, check_batch_size_and_num_heads_dense<false>), which
// transformers passes as they are where there is no mask (5.23, integrations/sdpa_attention.py,
// use_gqa_in_sdpa). What is left holds all scores. On a T4: transformers issue 48633, PR 45776.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

#include <math.h>

static bool is_bf16(const struct plan *p) {
    return p->precision == PLAN_BF16 || p->precision == PLAN_AMP_BF16;
}

static bool is_half(const struct plan *p) {
    return is_bf16(p) || p->precision == PLAN_FP16 || p->precision == PLAN_AMP_FP16;
}

static bool shares_heads(const struct shape *s) {
    return str_is(s->kind, "decoder") && shape_kv_heads(s) < s->heads;
}

struct tape_scores forecast_scores(const struct plan *p, const struct shape *s) {
    int64_t values[TAPE_DIM_COUNT] = {0};
    const bool is_plain = p->lacks_flash && s && is_half(p) && (is_bf16(p) || shares_heads(s));
    if (!is_plain) return (struct tape_scores){.tokens = 0};
    forecast_set_tokens(p, s, values);
    const int64_t source = values[TAPE_DIM_SEQUENCE], target = values[TAPE_DIM_TARGET_SEQUENCE];
    return (struct tape_scores){.tokens = source > target ? source : target,
                                .head_size = s->head_dim};
}

static void note_unknown(struct forecast *f, struct forecast_tape *t) {
    t->lacks_scores = true;
    str_list_add(
        f->arena, &t->notes,
        STR("not counted: the scores of attention, which PyTorch holds whole in bf16 below "
            "compute capability 8.0: fp16 has a kernel that does not"));
}

void forecast_note_scores(struct forecast *f, struct forecast_tape *t) {
    const struct plan *p = &f->plan;
    const struct shape *s = f->shape;
    if (p->lacks_flash && !s && is_bf16(p) && tape_is_fused(t->tape)) note_unknown(f, t);
    const struct tape_scores how = forecast_loaded_scores(t->loaded);
    if (how.tokens <= 0 || !s) return;
    const double tokens = (double)how.tokens;
    const double each = TAPE_SCORE_BYTES * tokens * tokens * (double)s->heads;
    str_list_format(f->arena, &t->notes,
                    "attention: below compute capability 8.0 PyTorch (2.13) has no fused kernel "
                    "for %s, so the scores are counted, %.*s in "
                    "fp32 for each sample and layer (with "
                    "checkpointing of one layer); the speed is that of fused kernels%s",
                    is_bf16(p) ? "bf16" : "heads that share keys and values without a mask",
                    STR_ARG(unit_bytes(f->arena, (int64_t)fmin(each, 9e18))),
                    is_bf16(p) ? "" : "; a batch that is padded has a mask, and needs less");
}
