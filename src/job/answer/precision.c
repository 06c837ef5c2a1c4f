// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

// Families that were trained in bf16, and whose activations are beyond the largest number of fp16:
// the loss becomes NaN (huggingface/transformers issues 4586 and 9295).
static const char overflowing[] = "t5 mt5 umt5 byt5 longt5";

// Whether a word of "google/mt5-large", "hf:t5-base" or "flan_t5_xl" is a family's name.
static bool has_family(struct str name) {
    while (name.len > 0) {
        ptrdiff_t end = 0;
        while (end < name.len && str_is_alnum(name.p[end])) end++;
        if (str_has_word(str_of(overflowing), str_slice(name, 0, end))) return true;
        name = str_slice(name, end < name.len ? end + 1 : end, name.len);
    }
    return false;
}

static bool overflows(const struct question *q) {
    struct forecast_model found;
    if (has_family(q->plan.model)) return true;
    int rc = forecast_find_model(q->arena, &q->store, q->plan.model, &found, NULL);
    return rc == 0 && has_family(found.name);
}

static enum plan_precision mixed(const struct question *q, const struct gpu *gpu) {
    if (gpu->has_bf16) return PLAN_AMP_BF16;
    return overflows(q) ? PLAN_FP32 : PLAN_AMP_FP16;
}

// What should be set on the GPU: mixed precision in bf16 where the hardware has it, in fp16 with
// other tensor cores, fp32 without them; fp32, too, where the model overflows in fp16.
static enum plan_precision best_precision(const struct question *q, const struct gpu *gpu) {
    return gpu->has_tensor_cores ? mixed(q, gpu) : PLAN_FP32;
}

enum plan_precision answer_precision(const struct question *q, const struct gpu *gpu) {
    enum plan_precision asked = q->plan.precision;
    if (q->precision_fixed) return asked;
    if (q->precision_is_open) return best_precision(q, gpu);
    if (q->plan.generates && asked == PLAN_BF16 && !gpu->has_bf16 && !gpu->is_custom)
        return PLAN_FP16;
    // Another one in the config alone, and the trainer refuses the combination files.
    if (q->reading.values[CONFIG_PRECISION].bound.len > 0) return asked;
    if (gpu->is_custom || !plan_precision_is_amp(asked)) return asked;
    // Frozen weights have two bytes also where that is no faster.
    if (!gpu->has_tensor_cores && q->plan.adapter.len == 0) return PLAN_FP32;
    return asked == PLAN_AMP_BF16 ? mixed(q, gpu) : asked;
}

enum plan_precision answer_precision_advised(const struct question *q, const struct gpu *gpu) {
    bool is_asked = q->precision_fixed || q->plan.precision != PLAN_FP32;
    return is_asked ? answer_precision(q, gpu) : best_precision(q, gpu);
}

bool answer_precision_is_emulated(enum plan_precision taken, const struct gpu *gpu) {
    return (taken == PLAN_AMP_BF16 || taken == PLAN_BF16) && !gpu->has_bf16 && !gpu->is_custom;
}

static struct str note_of_open(const struct question *q, const struct gpu *gpu,
                               enum plan_precision taken) {
    const char *name = plan_precision_name(taken);
    if (taken != PLAN_FP32)
        return str_format(q->arena, "no precision is given: %s, which suits this GPU", name);
    return str_format(q->arena, "no precision is given: fp32 (%s)",
                      !gpu->has_tensor_cores            ? "no tensor cores"
                      : best_precision(q, gpu) == taken ? "the model overflows in fp16"
                                                        : "there is no tape in any other");
}

struct str answer_precision_note(const struct question *q, const struct gpu *gpu,
                                 enum plan_precision taken) {
    enum plan_precision asked = q->plan.precision;
    if (q->plan.inference && taken == asked) return (struct str){0};
    if (q->precision_is_open && !q->precision_fixed) return note_of_open(q, gpu, taken);
    if (taken == PLAN_AMP_FP16 && overflows(q)) {
        return str_format(q->arena, ANSWER_OVERFLOWS "%.*s's loss becomes NaN; use %s",
                          STR_ARG(q->plan.model), gpu->has_bf16 ? "bf16" : "fp32");
    }
    const struct str bound = q->reading.values[CONFIG_PRECISION].bound;
    if (answer_precision_is_emulated(taken, gpu) && bound.len > 0 && !q->precision_fixed) {
        return str_format(
            q->arena,
            "bf16 is emulated on this GPU, which is slow, but it stays: %.*s, and the trainer "
            "refuses another one in the config alone; set it to \"auto\" there",
            STR_ARG(bound));
    }
    if (answer_precision_is_emulated(taken, gpu)) {
        return str_format(q->arena,
                          "bf16 is emulated on this GPU, which is slow: %s suits it better",
                          plan_precision_name(best_precision(q, gpu)));
    }
    if (q->precision_fixed || gpu->is_custom) return (struct str){0};
    if (taken != asked && taken == PLAN_FP32 && gpu->has_tensor_cores) {
        return str_format(q->arena,
                          ANSWER_OVERFLOWS "%.*s, and bf16 is emulated on this GPU: using fp32",
                          STR_ARG(q->plan.model));
    }
    if (taken != asked && taken == PLAN_FP32) {
        // PyTorch's recipe for AMP: "On earlier architectures (Kepler, Maxwell, Pascal), you may
        // observe a modest speedup."
        return STR("no tensor cores: mixed precision is switched off, though it needs less memory "
                   "and may be somewhat faster (--precision amp-fp16 keeps it)");
    }
    if (taken != asked) return STR("bf16 is emulated on this GPU: using fp16");
    enum plan_precision best = best_precision(q, gpu);
    if (taken != PLAN_FP32 || best == PLAN_FP32) return (struct str){0};
    return str_format(
        q->arena,
        "the GPU has tensor cores: mixed precision (%s) would be faster and need less memory",
        plan_precision_name(best));
}
