// SPDX-License-Identifier: Apache-2.0
#include "job/question/question_int.h"

void question_weights(struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_WEIGHTS_DTYPE];
    bool is_half = str_find(v->text, STR("bfloat16")) >= 0 || str_is(v->text, "bf16");
    bool is_amp = q->plan.precision == PLAN_AMP_BF16 || q->plan.precision == PLAN_AMP_FP16;
    if (!is_half || q->plan.inference || q->plan.precision == PLAN_BF16) return;
    bool is_cut = str_is(q->plan.loss, "cut");
    if ((q->plan.adapter.len > 0 || q->plan.shard.len > 0 || is_cut) && is_amp)
        return; // its weights are counted so, and autocast with them
    if (v->assumed && q->plan.precision != PLAN_AMP_BF16) return; // then they are in another type
    q->plan.precision = PLAN_BF16;
    if (v->assumed)
        str_list_format(q->arena, &q->notes,
                        "%.*s loads the weights in bf16: they, their gradients and the optimizer "
                        "state are bf16",
                        STR_ARG(q->reading.title));
    else
        str_list_format(q->arena, &q->notes,
                        "%.*s: %.*s: the weights, their gradients and the optimizer state are bf16",
                        STR_ARG(v->path), STR_ARG(v->text));
}
