// SPDX-License-Identifier: Apache-2.0
// What a training asks for and its GPU has not: the trainer stops there, whatever the memory.
#include "job/answer/answer.h"

static bool has_triton_loss(const struct plan *p) {
    return str_starts(p->loss, STR("liger")) || str_is(p->loss, "cut");
}

static bool is_compiled(const struct plan *p) {
    return p->compile;
}

// By a setting of the config's that is called so (guard.asks of data/dialects.tsv), or by the plan.
static const struct {
    const char *what;
    enum gpu_feature feature;
    bool (*is_asked)(const struct plan *p); // NULL: by a setting alone
} needs[] = {
    {"FlashAttention", GPU_FLASH, NULL},
    {"FlashAttention 4", GPU_FLASH_4, NULL},
    {"flex attention", GPU_TRITON, NULL},
    {"TF32", GPU_TF32, NULL},
    {"FP8", GPU_FP8, NULL},
    {"Triton (Liger kernels, cut cross-entropy)", GPU_TRITON, has_triton_loss},
    {"torch.compile", GPU_TRITON, is_compiled},
};
enum { NEEDS = sizeof needs / sizeof *needs };

bool answer_is_of_gpu(struct str note) {
    static const char *const notes[] = {ANSWER_LACKS, ANSWER_OVERFLOWS, ANSWER_EMULATED,
                                        FORECAST_SCORES, FORECAST_NO_SCORES};
    size_t i = 0;
    while (i < sizeof notes / sizeof *notes && !str_starts(note, str_of(notes[i]))) i++;
    return i < sizeof notes / sizeof *notes;
}

static const struct config_guard *setting_of(const struct question *q, const char *what) {
    for (ptrdiff_t i = 0; i < q->reading.ask_count; i++)
        if (str_is(q->reading.asks[i].what, what)) return &q->reading.asks[i];
    return NULL;
}

static bool is_asked(const struct config_guard *setting, const struct plan *p, int need) {
    return setting || (needs[need].is_asked && needs[need].is_asked(p));
}

int answer_capability(const struct question *q, const char **ret_what) {
    const struct plan *p = &q->plan;
    int most = 0;
    *ret_what = NULL;
    if (p->precision == PLAN_BF16 || p->precision == PLAN_AMP_BF16) {
        most = ANSWER_BF16;
        *ret_what = "bf16";
    }
    for (int i = 0; i < NEEDS; i++) {
        const int least = gpu_feature_needs(needs[i].feature);
        if (least <= most || !is_asked(setting_of(q, needs[i].what), p, i)) continue;
        most = least;
        *ret_what = needs[i].what;
    }
    return most;
}

struct str answer_lacking(const struct question *q, const struct answer *answer) {
    const struct str lacks = answer_lacks(q, answer, NULL);
    const struct str_list *notes = &answer->notes;
    ptrdiff_t i = 0;
    while (i < notes->count && !str_starts(notes->items[i], STR(FORECAST_NO_SCORES))) i++;
    return lacks.len > 0 ? lacks : i < notes->count ? notes->items[i] : (struct str){0};
}

static void add_place(const struct config_guard *g, struct buf *text) {
    if (!g) return;
    buf_format(text, " (%.*s%s%.*s)", STR_ARG(g->path), g->value.len > 0 ? ": " : "",
               STR_ARG(g->value));
}

struct str answer_lacks(const struct question *q, const struct answer *answer,
                        struct str *ret_without) {
    const struct gpu *gpu = &answer->card.gpu;
    struct buf text = buf_new(q->arena), without = buf_new(q->arena);
    for (int i = 0; i < NEEDS && !gpu->is_custom; i++) {
        const struct config_guard *g = setting_of(q, needs[i].what);
        if (!is_asked(g, &answer->plan, i) || gpu_has(gpu, needs[i].feature)) continue;
        buf_format(&text, "%s%s", text.count > 0 ? "; " : ANSWER_LACKS, needs[i].what);
        add_place(g, &text);
        const int least = gpu_feature_needs(needs[i].feature);
        buf_format(&text, " needs compute capability %d.%d", least / 10, least % 10);
        buf_join(&without, ", ", str_of(needs[i].what));
    }
    if (text.count > 0 && gpu->compute_capability > 0)
        buf_format(&text, "; it has %d.%d", gpu->compute_capability / 10,
                   gpu->compute_capability % 10);
    else if (text.count > 0)
        buf_format(&text, " of NVIDIA's");
    if (ret_without) *ret_without = buf_str(&without);
    return buf_str(&text);
}
