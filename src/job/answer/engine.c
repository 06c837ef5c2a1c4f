// SPDX-License-Identifier: Apache-2.0
// What helps where an inference engine has a share of the same GPU: GRPO's completions from vLLM.
#include "job/answer/answer_int.h"

enum { STEPS = 20 };             // shares are multiples of 5 %
static const double least = 0.1; // below it an engine has hardly a block of keys and values

static void add_way(struct question *q, struct forecast_remedies *list, const struct answer *answer,
                    struct str what, const char *cost, int64_t saved_bytes) {
    *arena_push(q->arena, &list->items, &list->count, &list->capacity) = (struct forecast_remedy){
        .what = what,
        .cost = str_of(cost),
        .plan = answer->plan,
        .needed_bytes = answer->peak.needed_bytes - saved_bytes,
        .saved_bytes = saved_bytes,
        .is_enough = true,
    };
}

static bool fits_with(const struct answer *answer, int64_t engine_bytes) {
    struct answer other = *answer;
    struct gpu_overhead *o = &other.card.overhead;
    const int64_t less = o->engine_bytes - engine_bytes;
    o->engine_bytes = engine_bytes;
    o->bytes -= less;
    o->low_bytes -= less;
    o->high_bytes -= less;
    return forecast_fits(&other.forecast, &other.card, other.plan.batch, other.plan.accumulation,
                         NULL) > 0;
}

// Its copy of the weights is in its share, in two bytes.
static bool holds_weights(const struct answer *answer, int64_t engine_bytes) {
    const struct shape *s = answer->forecast.shape;
    return !s || engine_bytes > 2 * s->parameters;
}

void answer_engine_ways(struct question *q, const struct answer *answer,
                        struct forecast_remedies *list) {
    const int64_t now = answer->card.overhead.engine_bytes;
    const double total = (double)answer->card.gpu.total_bytes;
    if (now <= 0 || answer->plan.inference || !fits_with(answer, 0)) return;
    for (int i = STEPS - 1; i > 0; i--) {
        const double share = (double)i / STEPS;
        const int64_t bytes = (int64_t)(total * share);
        if (bytes >= now || share < least || !holds_weights(answer, bytes)) continue;
        if (!fits_with(answer, bytes)) continue;
        add_way(q, list, answer, str_format(q->arena, "vllm_gpu_memory_utilization of %.2f", share),
                "fewer completions at a time, or a longer wait for them", now - bytes);
        break;
    }
    add_way(q, list, answer, STR("a vLLM server on other GPUs"), "vllm_mode: server; other GPUs",
            now);
}
