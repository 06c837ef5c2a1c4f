// SPDX-License-Identifier: Apache-2.0
// Which of a config's settings that change the memory are not in the plan.
#include "job/question/question.h"
#include "job/question/question_int.h"

// A few numbers a text, where the logits of every word are counted: of decoders, to which
// question_model_check leaves it, and as ms-swift's task_type has them.
static bool is_small_head(const struct config_guard *g) {
    return g->traits & CONFIG_FEW;
}

// What an option says in place of the config's word: the optimizer that it is like, the precision,
// the largest of several sizes, and of a whole model its tape, or its name instead of that of the
// backbone.
struct answered {
    const struct config_reading *reading;
    const struct question_options *options;
};

// "vit_base_patch16_224": of it a size of 16 says nothing, another is another model's. Of models
// whose names have none, the size may be that of pieces of an image.
static bool is_another_patch(struct str model, struct str size) {
    const struct str word = STR("patch");
    const ptrdiff_t at = str_find(model, word);
    if (at < 0) return false;
    ptrdiff_t begin = at + word.len, end = begin;
    while (end < model.len && str_is_digit(model.p[end])) end++;
    return end > begin && !str_equal(str_slice(model, begin, end), size);
}

static bool is_left(void *context, const struct config_guard *g) {
    const struct answered *by = context;
    const struct config_value *values = by->reading->values, *model = &values[CONFIG_MODEL];
    const struct question_options *o = by->options;
    const bool is_states = str_is(g->kind, "states");
    if (g->traits & CONFIG_OF_NAME)
        return is_another_patch(o->model ? str_of(o->model) : model->text, g->value);
    if (g->traits & CONFIG_SEVERAL_SIZES)
        return !((double)o->image_size > values[CONFIG_IMAGE_SIZE].number); // which may be NaN
    if (is_states || str_is(g->kind, "sizes")) {
        const enum config_role role = is_states ? CONFIG_OPTIMIZER : CONFIG_PRECISION;
        return !(is_states ? o->optimizer : o->precision) || !str_equal(g->path, values[role].path);
    }
    const bool is_other = o->model && model->text.len > 0 && !str_is(model->text, o->model);
    return !str_is(g->kind, "segmentation") || !(o->tape || is_other);
}

void question_answered(struct question *q, const struct question_options *o) {
    struct answered by = {&q->reading, o};
    config_keep_guards(&q->reading, is_left, &by);
}

bool question_has_guard(const struct question *q, const char *kind) {
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++)
        if (str_is(q->reading.guards[i].kind, kind)) return true;
    return false;
}

// An adapter or sharding matter to inference, too; by what loss it was trained does not.
bool question_counts_out(const struct question *q, const struct config_guard *g) {
    if (question_adapter_models(q, g) || question_shard_models(q, g) || question_loss_models(q, g))
        return false;
    if (str_is(g->kind, "compile")) return !q->plan.compile;
    if (str_is(g->kind, "average")) return !q->plan.ema;
    if (g->traits & CONFIG_UNREAD) return q->plan.model.len > 0 && !q->is_decided;
    const bool is_optimizer = str_is(g->kind, "optimizer") || str_is(g->kind, "states");
    if (is_optimizer && q->plan.adapter.len > 0) return false; // its states are few
    if (g->traits & CONFIG_OTHER_LENGTH) return q->plan.sequence_length <= 0;
    // Of LLaMA-Factory: who trains all weights trains these (model/adapter.py, _setup_lora_tuning).
    if (g->traits & CONFIG_BESIDE_ADAPTER) return q->plan.adapter.len > 0;
    // transformers' LabelSmoother (trainer_pt_utils.py) makes all logits once more; of few classes
    // that is nothing.
    if (g->traits & CONFIG_ALL_LOGITS)
        return q->plan.sequence_length > 0 && q->reading.values[CONFIG_CLASSES].line == 0 &&
               !q->plan.inference;
    const bool is_of_loss = str_is(g->kind, "objective") || str_is(g->kind, "preference");
    return !q->plan.inference || !is_of_loss;
}

struct str question_not_modelled(const struct question *q) {
    struct buf text = buf_new(q->arena);
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!question_counts_out(q, g)) continue;
        buf_format(&text, "%s%.*s (%.*s%s%.*s)", text.count > 0 ? ", " : "", STR_ARG(g->what),
                   STR_ARG(g->path), g->value.len > 0 ? ": " : "", STR_ARG(g->value));
    }
    return buf_str(&text);
}

// Sharding, offload, fused kernels and heads without logits of words only take bytes off a GPU,
// other optimizers than AdamW mostly; of the others a training of the same size may need more in
// one place and less in another. Beside what the plan has of the kind the rest of it adds: layers
// gathered early, trained in full beside an adapter, frozen in fp32.
static bool lowers(const struct plan *p, const struct config_guard *g, bool surely) {
    bool is_adapter = str_is(g->kind, "adapter") || str_is(g->kind, "frozen");
    if (str_is(g->kind, "sharding")) return p->shard.len == 0;
    if (str_is(g->kind, "offload") || str_is(g->kind, "fused")) return true;
    if (str_is(g->kind, "flash") || is_small_head(g)) return true; // templates have the eager one
    if (surely) return false;
    if (g->traits & CONFIG_MASKED) return true; // fewer patches, but a decoder, too
    if (g->traits & CONFIG_EMBEDDINGS) return p->sequence_length > 0;
    if (str_is(g->kind, "quantisation")) return p->quant.len == 0 && !(g->traits & CONFIG_WIDE);
    bool is_of_states =
        str_is(g->kind, "parallel") || str_is(g->kind, "optimizer") || str_is(g->kind, "settings");
    return is_of_states || (is_adapter && p->adapter.len == 0);
}

static bool has_word(struct str text, const char *word) {
    const struct str wanted = str_of(word);
    for (ptrdiff_t i = 0; i + wanted.len <= text.len; i++)
        if (str_equal_nocase(str_slice(text, i, i + wanted.len), wanted)) return true;
    return false;
}

// Frozen weights in few bits are fewer bytes, but peft casts all that is not quantised to fp32, so
// that activations are fp32, too (utils/other.py, prepare_model_for_kbit_training): which of the
// two is more is not known. It leaves what these methods quantise as it is.
static bool is_cast_beside(const struct plan *p, const struct config_guard *g) {
    static const char *const left[] = {"gptq", "aqlm", "eetq", "hqq", "torchao"};
    if (!str_is(g->kind, "quantisation") || p->adapter.len == 0 || p->quant.len > 0) return false;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (has_word(g->what, left[i]) || has_word(g->value, left[i])) return false;
    return true;
}

// Models beside the one that is trained, states that AdamW has not, pairs of texts, all scores of
// attention at once, more of a sample or of larger ones, and what comes on top of what the plan
// has.
static bool raises(const struct plan *p, const struct config_guard *g) {
    static const char *const kinds[] = {"objective", "preference",   "attention",     "images",
                                        "video",     "segmentation", "batching",      "sizes",
                                        "states",    "settings",     "recomputation", NULL};
    bool is_adapter = str_is(g->kind, "adapter") || str_is(g->kind, "frozen");
    if (str_is(g->kind, "sharding")) return p->shard.len > 0;
    if (is_cast_beside(p, g)) return true;
    if (is_small_head(g)) return false;
    return is_adapter ? p->adapter.len > 0 : str_is_one_of(g->kind, kinds);
}

// bitsandbytes keeps the states of its paged optimizers in managed memory, which the driver moves
// to the host where the GPU is full; an adapter's are few.
static bool pages_states(const struct question *q) {
    const struct str spelled = q->reading.values[CONFIG_OPTIMIZER].text;
    const char *name = plan_optimizer_find(spelled); // unless --optimizer says another
    if (q->plan.adapter.len > 0 || q->plan.inference || !name) return false;
    return str_is(q->plan.optimizer, name) &&
           (str_find(spelled, STR("paged")) >= 0 || str_find(spelled, STR("Paged")) >= 0);
}

void question_say_paged(struct question *q) {
    if (pages_states(q))
        str_list_add(q->arena, &q->notes,
                     STR("paged optimizer states are counted on the GPU; where it is full, the "
                         "driver moves pages of them to the host, and a step takes longer"));
}

enum question_whose question_whose(const struct question *q, bool fits, struct str *ret_without) {
    struct buf text = buf_new(q->arena);
    bool is_another = !fits && pages_states(q), is_lower = false, is_bound = true;
    if (is_another) buf_add(&text, STR("paged optimizer states"));
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!question_counts_out(q, g)) continue;
        is_lower |= lowers(&q->plan, g, false);
        is_another |= fits ? raises(&q->plan, g) : lowers(&q->plan, g, false);
        is_bound &= lowers(&q->plan, g, true);
        if (str_find(buf_str(&text), g->what) < 0) buf_join(&text, ", ", g->what);
    }
    if (ret_without) *ret_without = buf_str(&text);
    if (is_another) return is_bound ? QUESTION_OF_MORE : QUESTION_OF_ANOTHER;
    return is_lower && is_bound ? QUESTION_OF_IT_AT_MOST : QUESTION_OF_IT;
}

bool question_says_fused(const struct question *q) {
    const struct config_value *optimizer = &q->reading.values[CONFIG_OPTIMIZER];
    struct config_value v = {0};
    const struct str last = str_last(optimizer->path, '.');
    if (last.len == 0 || last.len == optimizer->path.len) return false;
    const struct str section = str_slice(optimizer->path, 0, optimizer->path.len - last.len);
    (void)config_get(q->arena, &q->config, str_format(q->arena, "%.*sfused", STR_ARG(section)), &v,
                     NULL);
    return v.boolean;
}
