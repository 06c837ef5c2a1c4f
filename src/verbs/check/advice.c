// SPDX-License-Identifier: Apache-2.0
// What to set: by the GPU's abilities, the machine's cores, the PyTorch that is there, and, where
// a tape matches the model, the batch that fit would choose.
#include "job/answer/answer.h"
#include "verbs/check/check.h"

// Convolutions on tensor cores are faster in NHWC (PyTorch's channels_last tutorial); without
// tensor cores or without convolutions it brings nothing.
static bool wants_channels_last(const struct check *c, const struct rules_support *s) {
    return s->has_tensor_cores && c->question.plan.sequence_length <= 0;
}

// From PyTorch 2.0 and compute capability 7.0; of an unknown PyTorch the GPU decides.
static bool wants_compile(const struct check *c, int capability) {
    const struct rules_torch *t = &c->facts.torch;
    bool may = t->state == RULES_TORCH_FOUND ? rules_version(t->version) >= 200 : true;
    return may && t->has_compiler != 0 &&
           (capability < 0 || (capability >= 70 && t->has_triton != 0));
}

// As the catalogue and the driver know it; false: its memory is unknown.
static bool gpu_here(const struct check *c, int card, struct gpu *ret_gpu) {
    const struct device_card *d = &c->facts.devices.cards[card];
    const struct rules_support *s = &c->supports[card];
    struct gpu gpu = c->gpus[card] ? *c->gpus[card] : gpu_custom(NULL, d->now.total_bytes);
    if (c->gpus[card]) gpu.usable_bytes += d->now.total_bytes - gpu.total_bytes;
    gpu.total_bytes = d->now.total_bytes;
    gpu.name = str_of(d->facts.name);
    gpu.has_tensor_cores = s->has_tensor_cores;
    gpu.has_bf16 = s->has_bf16;
    gpu.is_custom = false; // what it can do is known
    *ret_gpu = gpu;
    return d->now.total_bytes > 0;
}

static int choose(struct check *c, const struct gpu *gpu, struct check_advice *advice,
                  struct fail *why) {
    struct question *q = &c->question;
    const struct device_card *d = &c->facts.devices.cards[advice->card];
    struct forecast_card place;
    struct plan asked = q->plan;
    const bool is_open = q->precision_is_open;
    struct fail unsaid = {0};
    if (asked.model.len == 0) {
        advice->why_no_answer = STR("no model is named (--config, --model)");
        return 0;
    }
    question_place(q, *gpu, &place);
    if (q->others_bytes == 0 && d->now.used_bytes > 0 && !d->is_unified) {
        place.others_bytes = d->now.used_bytes;
    }
    if (advice->precision != q->plan.precision) q->precision_is_open = false;
    q->plan.precision = advice->precision;
    int rc = answer_choose(q, &place, &advice->answer, &unsaid);
    q->plan = asked;
    q->precision_is_open = is_open;
    if (rc == FAIL_BUG) return fail_set(why, rc, "%s", unsaid.message);
    advice->has_answer = rc == 0;
    if (rc < 0) advice->why_no_answer = str_copy(c->arena, str_of(unsaid.message));
    return 0;
}

static int advise_card(struct check *c, int card, struct fail *why) {
    const struct rules_support *s = &c->supports[card];
    struct check_advice *advice = &c->advice[c->advice_count++];
    struct gpu gpu;
    const bool is_known = gpu_here(c, card, &gpu);
    *advice = (struct check_advice){
        .card = card,
        .precision = answer_precision_advised(&c->question, &gpu),
        .tf32 = s->has_tensor_cores && s->compute_capability >= 80,
        .pin_memory = !s->is_unified,
        .channels_last = wants_channels_last(c, s),
        .compile = wants_compile(c, s->compute_capability),
        .cudnn_benchmark = c->question.plan.sequence_length <= 0,
        .workers = rules_workers(&c->facts),
    };
    if (is_known) return choose(c, &gpu, advice, why);
    advice->why_no_answer = STR("the GPU's memory is unknown");
    return 0;
}

static void advise_processor(struct check *c) {
    c->advice[c->advice_count++] = (struct check_advice){
        .card = -1,
        .precision = PLAN_FP32,
        .compile = wants_compile(c, -1),
        .workers = rules_workers(&c->facts),
        .why_no_answer = STR("batches are predicted for GPUs: batchfit fit --gpu NAME"),
    };
}

int check_advise(struct check *c, struct fail *why) {
    int count = c->facts.devices.count, rc = 0;
    c->advice = arena_new(c->arena, struct check_advice, count + 1);
    for (int i = 0; i < count && rc == 0; i++) {
        enum device_state state = c->facts.devices.cards[i].state;
        if (state == DEVICE_ANSWERS || state == DEVICE_ASLEEP) rc = advise_card(c, i, why);
    }
    if (rc == 0 && c->advice_count == 0) advise_processor(c);
    return rc;
}

struct str check_precision_text(const struct check_advice *advice) {
    return plan_precision_text(advice->precision);
}
