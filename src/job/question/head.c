// SPDX-License-Identifier: Apache-2.0
// What a model's shape makes of a config: which head it is trained with, its attention, and whether
// source and target are one text.
//
// Tapes and templates of decoders have a head for the next word, those of encoders one for classes
// of sequences; another one is named, never counted silently as theirs. A config says it by its
// script, its class or its settings (guard.head of data/dialects.tsv); where it does not, a
// config.json says which one the checkpoint has.
#include "job/question/question_int.h"

static const struct {
    const char *kind, *head, *what; // of the shape; the end of a class's name (transformers 5.23)
    unsigned traits;
} heads[] = {
    {"encoder", "MaskedLM", QUESTION_MASKED, 0},
    {"encoder", "PreTraining", QUESTION_MASKED, 0},
    {"encoder", "CausalLM", "a head for the next word", 0},
    {"encoder", "MultipleChoice", "a head for multiple choice", 0},
    {"decoder", "SequenceClassification", "a head for classes", CONFIG_FEW},
    {"decoder", "TokenClassification", "a head for classes", CONFIG_FEW},
    {"decoder", "QuestionAnswering", "a head for the places of answers", 0},
};

const struct config_guard *question_head(const struct question *q) {
    return config_guard_of(&q->reading, "head");
}

static void take_checkpoint(struct question *q, const struct shape *s) {
    // A checkpoint of masked words is mostly trained to classify: the number of classes says so.
    if (str_is(s->kind, "encoder") && q->plan.classes > 0) return;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (!str_is(s->kind, heads[i].kind) || !str_is(s->head, heads[i].head)) continue;
        config_add_guard(q->arena, &q->reading,
                         (struct config_guard){.kind = STR("head"),
                                               .what = str_of(heads[i].what),
                                               .path = STR("architectures"),
                                               .value = s->head,
                                               .traits = heads[i].traits});
    }
}

static bool is_no_small_head(void *context, const struct config_guard *g) {
    (void)context;
    return !str_is(g->kind, "head") || !(g->traits & CONFIG_FEW);
}

static bool is_not_eager(void *context, const struct config_guard *g) {
    (void)context;
    return !str_is(g->what, "eager attention");
}

static void check_head(struct question *q, const struct shape *s) {
    const struct config_guard *head = question_head(q);
    const bool is_decoder = s && str_is(s->kind, "decoder");
    if (head) {
        if ((head->traits & CONFIG_FEW) && !is_decoder)
            config_keep_guards(&q->reading, is_no_small_head, NULL);
    } else if (s && !str_starts(q->plan.loss, STR("reward"))) { // whose head is for one number
        take_checkpoint(q, s);
    }
}

// Families that transformers 5.23 gives no other attention than the eager one where a config asks
// for none of flash attention's (_supports_sdpa), so that their templates have it.
static void check_attention(struct question *q, const struct shape *s) {
    static const char *const types[] = {"gemma2", "gpt_oss", NULL};
    if (!s || !str_is_one_of(s->type, types)) return;
    config_keep_guards(&q->reading, is_not_eager, NULL);
    if (q->reading.flash.what.len > 0 && !q->plan.inference)
        config_add_guard(q->arena, &q->reading, q->reading.flash);
}

// A decoder has source and target in one text.
static void join_target(struct question *q, const struct shape *s) {
    const struct config_value *source = &q->reading.values[CONFIG_SEQUENCE_LENGTH];
    struct plan *p = &q->plan;
    if (!s || !str_is(s->kind, "decoder") || p->target_length <= 0) return;
    if (p->sequence_length != source->integer || str_find(source->path, STR("source")) < 0) return;
    const int64_t length = p->sequence_length + p->target_length;
    str_list_format(q->arena, &q->notes,
                    "texts of %lld tokens: %lld of the source and %lld of the target, which a %.*s "
                    "has in one",
                    (long long)length, (long long)p->sequence_length, (long long)p->target_length,
                    STR_ARG(s->type));
    p->sequence_length = length;
    p->target_length = 0;
}

void question_model_check(struct question *q) {
    const struct shape *s = q->shape.type.len > 0 ? &q->shape : NULL;
    if (q->plan.model.len == 0) return;
    if (q->plan.inference && !config_guard_of(&q->reading, "attention")) return;
    if (!s && forecast_shape(&q->tape_cache, q->plan.model, &s, NULL) < 0) return;
    check_attention(q, s);
    if (q->plan.inference) return;
    join_target(q, s);
    check_head(q, s);
}
