// SPDX-License-Identifier: Apache-2.0
#include "job/question/question_int.h"

bool question_is_of_bf16(struct question *q) {
    const struct shape *s = NULL;
    if (forecast_shape(&q->tape_cache, q->plan.model, &s, NULL) < 0 || !s) return false;
    return !str_is(s->kind, "seq2seq") && !shape_is_encoder(s) && !str_is(s->type, "gpt2");
}

// What the checkpoint has: its config.json, where it says it, or else what such models are
// published in.
static bool is_half_on_disk(struct question *q) {
    const struct str said = q->shape.dtype;
    if (said.len > 0) return str_is(said, "bfloat16") || str_is(said, "float16");
    return question_is_of_bf16(q);
}

void question_weights(struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_WEIGHTS_DTYPE];
    bool is_auto = str_is(v->text, "auto") && q->tape_cache.store; // else it is not yet known
    bool is_half = str_find(v->text, STR("bfloat16")) >= 0 || str_is(v->text, "bf16") ||
                   (is_auto && is_half_on_disk(q));
    bool is_amp = plan_precision_is_amp(q->plan.precision);
    if (!is_half || q->plan.inference || q->precision_fixed || q->plan.precision == PLAN_BF16)
        return;
    bool is_cut = str_is(q->plan.loss, "cut");
    bool is_kept = str_is(q->plan.shard, plan_fsdp2_older); // in shards, whatever it is
    if ((q->plan.adapter.len > 0 || (q->plan.shard.len > 0 && !is_kept) || is_cut) && is_amp)
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
                        "%.*s: %.*s: %sthe weights, their gradients and the optimizer state are "
                        "bf16",
                        STR_ARG(v->path), STR_ARG(v->text),
                        !is_auto ? ""
                        : q->shape.dtype.len > 0
                            ? "as the checkpoint has them: "
                            : "as the checkpoint has them, taken to be bf16: ");
}

static struct str path_of(const struct config_value *v) {
    return v->assumed ? STR("dtype") : v->path;
}

static bool is_trls(const struct question *q) {
    return str_is(q->reading.dialect, "trl");
}

static struct str said_of(struct question *q, const struct config_value *v) {
    if (!v->assumed) return v->text;
    if (!is_trls(q)) return str_format(q->arena, "not given: %.*s", STR_ARG(v->text));
    return str_format(q->arena, "not given: %.*s, the default from trl 0.27 on", STR_ARG(v->text));
}

// Who has embedding, norms and head in bf16 beside four bits, where peft casts them to fp32.
// Axolotl's loaders/model.py, should_convert, casts them back, but where FSDP shards four bits;
// LLaMA-Factory's model/model_utils/checkpointing.py, prepare_model_for_training, stands in for
// peft's and casts norms alone, and only where upcast_layernorm says so.
static const struct {
    const char *dialect, *note;
} left[] = {
    {"axolotl", "Axolotl casts embedding, norms and head, which peft has in fp32, back to bf16"},
    {"llamafactory",
     "LLaMA-Factory leaves embedding, norms and head in bf16, which peft casts to fp32"},
};

// Templates of cut cross-entropy have it so without saying it.
static void leave_in_bf16(struct question *q) {
    struct plan *p = &q->plan;
    if (p->quant.len == 0 || !plan_precision_is_amp(p->precision) || p->shard.len > 0 ||
        str_is(p->loss, "cut") || plan_quant_is_left(p->quant))
        return;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (!str_is(q->reading.dialect, left[i].dialect)) continue;
        p->quant = str_format(q->arena, "%.*s-left", STR_ARG(p->quant));
        str_list_add(q->arena, &q->notes, str_of(left[i].note));
    }
}

// trl loads in float32 where nobody says it, from 0.27 on (trainer/model_config.py, dtype); before,
// in the checkpoint's own type. Four bits are its compute type, too (trainer/utils.py,
// get_quantization_config). Engines that cast the weights leave nothing in fp32.
void question_frozen(struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_WEIGHTS_DTYPE];
    const struct plan *p = &q->plan;
    bool is_full = str_find(v->text, STR("float32")) >= 0 || str_is(v->text, "fp32");
    leave_in_bf16(q);
    if (!is_full || !plan_precision_is_amp(p->precision) || str_starts(p->shard, STR("zero")) ||
        p->inference || p->adapter.len == 0)
        return;
    if (p->quant.len > 0) {
        str_list_format(
            q->arena, &q->notes,
            "%.*s (%.*s): four-bit layers are computed in fp32 before autocast applies: "
            "dequantised weights and inputs of layers have more bytes than counted",
            STR_ARG(path_of(v)), STR_ARG(said_of(q, v)));
        return;
    }
    q->plan.frozen_fp32 = true;
}

void question_frozen_check(struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_WEIGHTS_DTYPE];
    struct forecast f;
    if (!q->plan.frozen_fp32 || q->plan.adapter.len == 0) return;
    if (forecast_open(&q->tape_cache, &q->plan, &f, NULL) == 0 && forecast_counts_frozen(&f)) {
        if (v->assumed && is_trls(q))
            str_list_format(q->arena, &q->notes,
                            "dtype is not in the config: %.*s, the default of trl from 0.27 on "
                            "(before, the checkpoint's own)",
                            STR_ARG(v->text));
        else if (v->assumed)
            str_list_format(q->arena, &q->notes,
                            "%.*s loads the weights in fp32 where it trains under autocast",
                            STR_ARG(q->reading.title));
        return;
    }
    config_add_guard(q->arena, &q->reading,
                     (struct config_guard){.kind = STR("weights"),
                                           .what = STR("frozen weights in fp32"),
                                           .path = path_of(v),
                                           .value = said_of(q, v)});
}
