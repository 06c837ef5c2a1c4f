// SPDX-License-Identifier: Apache-2.0
// A model whose shape is known, trained in a way that a template covers: the template, filled with
// the shape's sizes, is its tape. A template covers what was recorded, and nothing beside it: every
// property of the plan has a row in the table below, and the one that stands in the way is named.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

struct wish {
    const struct plan *plan;
    const struct shape *shape;
    struct str family, linear; // whose templates it has; its layers
    struct str setting;        // that no template has; empty: there is none
    int64_t positions;         // rows of its table; 0: it has none
    bool is_single;
};

static struct str setting_text(struct str setting) {
    return setting.len > 0 ? setting : STR("the usual ones");
}
static struct str wanted_setting(const struct wish *w) {
    return setting_text(w->setting);
}
static struct str has_setting(const struct tape_shelf_entry *e) {
    (void)e;
    return setting_text((struct str){0});
}

static struct str heads_text(bool is_grouped) {
    return is_grouped ? STR("that share keys and values")
                      : STR("with keys and values of their own");
}
static struct str wanted_heads(const struct wish *w) {
    return heads_text(shape_kv_heads(w->shape) < w->shape->heads);
}
static struct str has_heads(const struct tape_shelf_entry *e) {
    return heads_text(e->is_grouped);
}

static struct str embedding_text(bool is_tied) {
    return is_tied ? STR("that is the head's, too") : STR("beside a head of its own");
}
static struct str wanted_embedding(const struct wish *w) {
    struct plan_preference how; // a reward model's head is another
    bool is_reward = plan_preference_read(w->plan->loss, &how) && how.step == PLAN_STEP_REWARD;
    return embedding_text(w->shape->tied && !is_reward);
}
static struct str has_embedding(const struct tape_shelf_entry *e) {
    return embedding_text(e->is_tied);
}

// Without its rank, which is a dimension.
static struct str adapter_text(struct str adapter) {
    struct str rest = plan_adapter_rest(adapter);
    if (adapter.len == 0) return STR("none");
    return rest.len > 0 ? rest : STR("all-linear");
}
static struct str wanted_adapter(const struct wish *w) {
    return adapter_text(w->plan->adapter);
}
static struct str has_adapter(const struct tape_shelf_entry *e) {
    return adapter_text(e->entry.header.adapter);
}

static int count_names(struct str names) {
    int count = 0;
    for (; names.p; count++) str_cut(&names, ',');
    return count;
}

static bool has_name(struct str names, struct str name) {
    while (names.p)
        if (str_equal(str_cut(&names, ','), name)) return true;
    return false;
}

// How much more than is asked an adapter has, in layers, and dropout as one of them: with each a
// training keeps more tensors, and never fewer. -1: it lacks something.
static int adapter_excess(const struct wish *w, struct str has, struct str wanted) {
    if (str_is(has, "none") || str_is(wanted, "none")) return -1;
    struct str on = str_cut(&has, ':'), asked = str_cut(&wanted, ':');
    bool has_dropout = str_starts(has, STR("dropout"));
    bool wants_dropout = str_starts(wanted, STR("dropout"));
    if (str_ends(has, STR("bf16")) != str_ends(wanted, STR("bf16"))) return -1;
    if (str_is(on, "all-linear")) on = w->linear;
    if (str_is(asked, "all-linear")) asked = w->linear;
    int excess = count_names(on) - count_names(asked) + has_dropout - wants_dropout;
    while (asked.p)
        if (!has_name(on, str_cut(&asked, ','))) return -1;
    return has_dropout || !wants_dropout ? excess : -1;
}

static struct str quant_text(struct str quant) {
    return quant.len > 0 ? quant : STR("none");
}
static struct str wanted_quant(const struct wish *w) {
    return quant_text(w->plan->quant);
}
static struct str has_quant(const struct tape_shelf_entry *e) {
    return quant_text(e->entry.header.quant);
}
// Double quantisation stores the same weights with smaller scales.
static int quant_excess(const struct wish *w, struct str has, struct str wanted) {
    (void)w;
    return str_is(has, "nf4") && str_is(wanted, "nf4-dq") ? 1 : -1;
}

static struct str loss_text(struct str loss) {
    return loss.len > 0 ? plan_loss_form(loss) : STR("of all logits");
}
static struct str wanted_loss(const struct wish *w) {
    struct plan_preference how = {.step = PLAN_STEP_DPO};
    (void)plan_preference_read(w->plan->loss, &how);
    if (how.step != PLAN_STEP_GRPO) return loss_text(w->plan->loss);
    how.refers = false; // what a reference needs is put in
    return plan_preference_word(how);
}
static struct str has_loss(const struct tape_shelf_entry *e) {
    return loss_text(e->entry.header.loss);
}
// A pass of the reference more, where no second model makes it (of that there are templates
// without); a cross-entropy beside; all logits, before trl's kernels.
static int loss_excess(const struct wish *w, struct str has, struct str wanted) {
    struct plan_preference asked, had;
    if (!plan_preference_read(wanted, &asked) || !plan_preference_read(has, &had)) return -1;
    bool is_pass_more = asked.is_precomputed && !had.is_precomputed && w->plan->adapter.len > 0;
    bool is_entropy_more = asked.step == PLAN_STEP_SIMPO && had.step == PLAN_STEP_ORPO;
    bool is_older = asked.scores == PLAN_SCORES_NEW && had.scores == PLAN_SCORES_WHOLE;
    if (asked.step != had.step && !is_entropy_more) return -1;
    if (asked.is_precomputed != had.is_precomputed && !is_pass_more) return -1;
    if (asked.scores != had.scores && !is_older) return -1;
    return is_pass_more + is_entropy_more + 2 * is_older;
}

// Templates of ZeRO are of the model as its engine has it, and of one that says where stage 3 asks
// for parameters: tape_zero makes the stages of them.
static bool is_zero(const struct plan *p) {
    struct plan_zero zero;
    return plan_zero_read(p->shard, &zero);
}
static struct str shard_text(struct str shard) {
    struct plan_zero zero;
    bool is_made = plan_zero_read(shard, &zero);
    if ((is_made && zero.stage == 3) || str_is(shard, "zero3:trace")) return STR("zero3");
    if (is_made || str_is(shard, "zero0")) return STR("zero1 or zero2");
    return shard.len > 0 ? shard : STR("none");
}
static struct str wanted_shard(const struct wish *w) {
    struct str split = forecast_split_shard(w->plan, w->shape);
    return split.len > 0 ? split : shard_text(w->plan->shard);
}
static struct str has_shard(const struct tape_shelf_entry *e) {
    return shard_text(e->entry.header.shard);
}

// Autocast to fp16 and to bf16 casts the same tensors to two bytes.
static struct str wanted_precision(const struct wish *w) {
    enum plan_precision p = w->plan->precision ? w->plan->precision : PLAN_FP32;
    if (is_zero(w->plan) && p != PLAN_FP32) p = PLAN_BF16; // DeepSpeed casts the weights
    return str_of(plan_precision_name(p == PLAN_AMP_FP16 ? PLAN_AMP_BF16 : p));
}
static struct str has_precision(const struct tape_shelf_entry *e) {
    return e->entry.header.precision;
}
// The optimizer that the tape is made over for; NULL: it stays AdamW's. What an adapter's keeps is
// little: that of another one is counted as AdamW's, which is the most.
static const char *other_optimizer(const struct plan *p) {
    if (p->adapter.len > 0 || p->shard.len > 0) return NULL;
    int i = 0;
    while (tape_optimizers[i] && !str_is(p->optimizer, tape_optimizers[i])) i++;
    return tape_optimizers[i];
}
static struct str wanted_optimizer(const struct wish *w) {
    struct str asked = w->plan->optimizer;
    bool is_adamw = asked.len == 0 || str_is(asked, "adam") || w->plan->adapter.len > 0;
    return is_adamw || other_optimizer(w->plan) ? STR("adamw") : asked;
}
static struct str has_optimizer(const struct tape_shelf_entry *e) {
    return e->entry.header.optimizer;
}

static struct str checkpointing_text(bool is_on) {
    return is_on ? STR("on") : STR("off");
}
static struct str wanted_checkpointing(const struct wish *w) {
    return checkpointing_text(w->plan->checkpointing);
}
static struct str has_checkpointing(const struct tape_shelf_entry *e) {
    return checkpointing_text(e->entry.header.checkpointing == 1);
}

// Of what is not sharded a second micro-step is made (tape_accumulate). Ranks that share weights
// keep whole gradients until the last one, so that is recorded.
static struct str accumulation_text(bool is_on) {
    return is_on ? STR("several micro-steps") : STR("one micro-step");
}
static struct str wanted_accumulation(const struct wish *w) {
    return accumulation_text(plan_fsdp(w->plan->shard) > 0 && w->plan->accumulation > 1);
}
static struct str has_accumulation(const struct tape_shelf_entry *e) {
    return accumulation_text(e->entry.header.accumulation > 1);
}

static const struct property {
    const char *name;
    struct str (*wanted)(const struct wish *w);
    struct str (*has)(const struct tape_shelf_entry *e);
    // Of two that differ: how much more than is wanted a template has, so that it is an upper
    // bound; -1: it is none. NULL: only what is wanted serves.
    int (*excess)(const struct wish *w, struct str has, struct str wanted);
} properties[] = {
    {"the setting", wanted_setting, has_setting, NULL},
    {"attention heads", wanted_heads, has_heads, NULL},
    {"an embedding", wanted_embedding, has_embedding, NULL},
    {"adapter", wanted_adapter, has_adapter, adapter_excess},
    {"weights in four bits", wanted_quant, has_quant, quant_excess},
    {"sharding", wanted_shard, has_shard, NULL},
    {"a loss", wanted_loss, has_loss, loss_excess},
    {"optimizer", wanted_optimizer, has_optimizer, NULL},
    {"precision", wanted_precision, has_precision, NULL},
    {"gradient checkpointing", wanted_checkpointing, has_checkpointing, NULL},
    {"an optimizer step of", wanted_accumulation, has_accumulation, NULL},
};
enum { PROPERTIES = sizeof properties / sizeof *properties };

static bool is_of_family(const struct tape_shelf_entry *e, struct str family) {
    return str_equal(e->family, family);
}

// 0: as wished.
static int excess_of(const struct property *p, const struct tape_shelf_entry *e,
                     const struct wish *w) {
    struct str wanted = p->wanted(w), has = p->has(e);
    if (str_equal(wanted, has)) return 0;
    return p->excess ? p->excess(w, has, wanted) : -1;
}

// The number of properties that serve, from the first on; what all of them have too much.
static int reach(const struct tape_shelf_entry *e, const struct wish *w, int *ret_excess) {
    int i = 0, excess = 0;
    for (*ret_excess = 0; i < PROPERTIES; i++) {
        excess = excess_of(&properties[i], e, w);
        if (excess < 0) return i;
        *ret_excess += excess;
    }
    return i;
}

// One for batch 1 serves it alone, one for more serves it with copies that vanish there; another
// kernel of the optimizer is told (note).
static int nearness(const struct tape_shelf_entry *e, const struct wish *w) {
    return 2 * e->is_single + (e->is_fused == w->plan->fused);
}

static const struct tape_shelf_entry *choose(const struct tape_shelf *shelf, const struct wish *w,
                                             int *ret_farthest) {
    const struct tape_shelf_entry *best = NULL;
    int excess, least = 0;
    *ret_farthest = 0;
    for (ptrdiff_t i = 0; i < shelf->count; i++) {
        const struct tape_shelf_entry *e = &shelf->entries[i];
        if (!is_of_family(e, w->family) || (e->is_single && !w->is_single)) continue;
        int far = reach(e, w, &excess);
        if (far > *ret_farthest) *ret_farthest = far;
        if (far < PROPERTIES || (best && excess > least)) continue;
        if (best && excess == least && nearness(e, w) <= nearness(best, w)) continue;
        best = e;
        least = excess;
    }
    return best;
}

// "bf16, amp-bf16": what templates have that are as wished up to this property.
static struct str others(struct arena *a, const struct tape_shelf *shelf, const struct wish *w,
                         int property) {
    struct str_list list = {0};
    struct buf text = buf_new(a);
    int excess;
    for (ptrdiff_t i = 0; i < shelf->count; i++) {
        const struct tape_shelf_entry *e = &shelf->entries[i];
        if (!is_of_family(e, w->family) || reach(e, w, &excess) < property) continue;
        struct str has = properties[property].has(e);
        if (str_list_has(&list, has)) continue;
        str_list_add(a, &list, has);
        buf_format(&text, "%s%.*s", list.count > 1 ? ", " : "", STR_ARG(has));
    }
    return buf_str(&text);
}

// Whether LoRA is on a layer that the model has.
static bool has_target(struct str targets, struct str layers) {
    for (struct str rest = targets; rest.p;)
        if (has_name(layers, str_cut(&rest, ','))) return true;
    return targets.len == 0;
}

static struct str listed(struct arena *a, struct str words) {
    struct buf text = buf_new(a);
    for (int i = 0; words.p; i++) {
        struct str word = str_cut(&words, ',');
        buf_format(&text, "%s%.*s", i > 0 ? ", " : "", STR_ARG(word));
    }
    return buf_str(&text);
}

int forecast_shard_hint(struct forecast *f, const struct plan *p, struct fail *why) {
    struct str shard = shard_text(p->shard);
    struct str_list families = {0};
    struct buf text = buf_new(f->arena);
    int code = forecast_open_shelf(f->cache, why); // of a model without templates nobody has
    if (code < 0) return code;
    for (ptrdiff_t i = 0; i < f->cache->shelf->count; i++) {
        const struct tape_shelf_entry *e = &f->cache->shelf->entries[i];
        if (!str_equal(has_shard(e), shard) || str_list_has(&families, e->family)) continue;
        str_list_add(f->arena, &families, e->family);
        buf_format(&text, "%s%.*s", families.count > 1 ? ", " : "", STR_ARG(e->family));
    }
    return families.count > 0 ? fail_hint(why, "%.*s is modelled for %.*s", STR_ARG(shard),
                                          STR_ARG(buf_str(&text)))
                              : fail_hint(why, "no template has %.*s", STR_ARG(shard));
}

static int not_covered(struct forecast *f, const struct wish *w, int property, struct fail *why) {
    struct arena *a = f->arena;
    const struct property *p = &properties[property];
    struct str targets = plan_adapter_targets(w->plan->adapter);
    if (!has_target(targets, w->linear)) {
        fail_set(why, FAIL_INPUT, "%.*s: LoRA on %.*s: a %.*s has no such layer",
                 STR_ARG(w->plan->model), STR_ARG(targets), STR_ARG(w->shape->type));
        return fail_hint(why, "its linear layers: %.*s", STR_ARG(listed(a, w->linear)));
    }
    fail_set(why, FAIL_INPUT, "%.*s: no template of a %.*s for %s %.*s (there are some for %.*s)",
             STR_ARG(w->plan->model), STR_ARG(w->shape->type), p->name, STR_ARG(p->wanted(w)),
             STR_ARG(others(a, f->cache->shelf, w, property)));
    // The recorder has no four bits over FSDP2 either.
    bool is_recorded = plan_fsdp_offloads(w->plan->shard) &&
                       (plan_fsdp(w->plan->shard) == 1 || w->plan->quant.len == 0);
    if (w->plan->shard.len > 0 && !is_recorded) return forecast_shard_hint(f, w->plan, why);
    return fail_hint(why, "record it: %.*s",
                     STR_ARG(forecast_record_command(a, w->plan, &f->model)));
}

static void set_dimensions(const struct wish *w, const struct tape_shelf_entry *e,
                           int64_t values[TAPE_DIM_COUNT]) {
    const struct shape *s = w->shape;
    forecast_set_tokens(w->plan, s, values);
    values[TAPE_DIM_HIDDEN] = s->hidden;
    values[TAPE_DIM_FFN] = s->intermediate;
    values[TAPE_DIM_VOCABULARY] = s->vocabulary;
    values[TAPE_DIM_HEAD_SIZE] = s->head_dim;
    values[TAPE_DIM_KV_HEADS] = shape_kv_heads(s);
    if (e->is_grouped) values[TAPE_DIM_GROUP] = s->heads / s->kv_heads;
    values[TAPE_DIM_POSITIONS] = w->positions;
    values[TAPE_DIM_EXPERTS] = s->experts;
    values[TAPE_DIM_ACTIVE_EXPERTS] = s->active;
    values[TAPE_DIM_EXPERT_FFN] = s->expert_intermediate;
    values[TAPE_DIM_ADAPTER_RANK] = plan_adapter_rank(w->plan->adapter);
    values[TAPE_DIM_LAYERS] = s->layers;
    if (w->plan->shard.len > 0 && !is_zero(w->plan)) values[TAPE_DIM_RANKS] = w->plan->ranks;
}

// What an answer says of the tape that it is from: the training's, where the template's header has
// the family's.
static void set_entry(struct forecast *f, const struct wish *w, const struct tape_shelf_entry *e,
                      struct forecast_tape *t) {
    struct tape_entry *made = arena_new(f->arena, struct tape_entry, 1);
    *made = e->entry;
    made->header = t->tape->header;
    made->header.model = f->model.name;
    made->header.parameters = w->shape->parameters;
    made->header.adapter = w->plan->adapter;
    made->header.quant = w->plan->quant;
    made->header.loss = w->plan->loss;
    made->header.shard = w->plan->shard;
    t->entry = made;
    t->template = e->name;
}

static void note_bounds(struct forecast *f, const struct wish *w, const struct tape_shelf_entry *e,
                        struct forecast_tape *t) {
    for (int i = 0; i < PROPERTIES; i++) {
        const struct property *p = &properties[i];
        if (excess_of(p, e, w) == 0) continue;
        t->is_upper_bound = true;
        str_list_format(f->arena, &t->notes,
                        "no template has %s %.*s: counted as %.*s, which allocates no less",
                        p->name, STR_ARG(p->wanted(w)), STR_ARG(p->has(e)));
    }
}

static void note_loss(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    if (plan_is_of_completions(p->loss))
        forecast_note_completions(f, p, t);
    else if (plan_is_preference(p->loss))
        forecast_note_preference(f, p, t);
    else if (str_starts(p->loss, STR("linear")))
        str_list_add(f->arena, &t->notes,
                     STR("the loss by eight chunks of tokens, as torchtune's "
                         "LinearCrossEntropyLoss has it, where no token is masked: a prompt that "
                         "is needs less"));
    else if (p->loss.len > 0)
        str_list_add(f->arena, &t->notes,
                     STR("liger-kernel 0.8 as use_liger_kernel applies it: the loss by chunks of "
                         "tokens, RMSNorm, gated units and rotary embedding in its kernels"));
}

static void note(struct forecast *f, const struct wish *w, struct forecast_tape *t, bool is_fused) {
    struct arena *a = f->arena;
    const struct plan *p = w->plan;
    const struct tape_header *h = &t->entry->header;
    str_list_format(a, &t->notes, "predicted by the template %.*s (%.*s, torch %.*s)",
                    STR_ARG(t->template), STR_ARG(h->library), STR_ARG(h->torch));
    if (is_zero(p))
        forecast_note_zero(f, p, w->shape, t);
    else if (plan_is_titan(p->shard))
        forecast_note_titan(f, p, t);
    else if (p->shard.len > 0)
        forecast_note_fsdp(f, p, t);
    else if (p->adapter.len > 0)
        forecast_note_adapter(f, p, t);
    else if (str_is(h->weights, "fp32"))
        str_list_add(a, &t->notes,
                     STR("weights are counted in fp32 under autocast: loaded in bf16 (--precision "
                         "bf16) a training needs less"));
    note_loss(f, p, t);
    if (p->adapter.len > 0 && p->optimizer.len > 0 && !str_is(p->optimizer, "adamw"))
        str_list_format(a, &t->notes, "%.*s: the adapter's states are counted as AdamW's",
                        STR_ARG(p->optimizer));
    if (other_optimizer(p))
        str_list_format(a, &t->notes,
                        "%.*s: its states and temporaries are made by rule, as a recording has "
                        "them, where the template has AdamW's",
                        STR_ARG(p->optimizer));
    else if (p->adapter.len == 0 && !is_zero(p) && !plan_fsdp_offloads(p->shard))
        forecast_note_update(f, p, t, is_fused);
    if (p->accumulation > 1 && t->tape->header.accumulation < 2) {
        t->extra_bytes = forecast_gradient_bytes(t->tape);
        str_list_format(a, &t->notes,
                        "accumulation: the gradients (%.*s) stay from one micro-step to the next "
                        "and are added, so every figure is an upper bound",
                        STR_ARG(unit_bytes(a, t->extra_bytes)));
    }
    forecast_note_shape(f, p, w->shape, t);
}

int forecast_fill_template(struct forecast *f, const struct plan *p, bool is_single,
                           struct forecast_tape *ret_tape, struct fail *why) {
    const struct shape_table *shapes = f->cache->shapes;
    const struct wish w = {.plan = p,
                           .shape = f->shape,
                           .family = shape_template(shapes, f->shape),
                           .linear = shape_linear(shapes, f->shape),
                           .setting = shape_setting(shapes, f->shape),
                           .positions = shape_table_rows(shapes, f->shape),
                           .is_single = is_single};
    int64_t values[TAPE_DIM_COUNT] = {0};
    struct forecast_tape t = {0};
    int farthest;
    if (w.positions > 0 && p->sequence_length > w.positions)
        return fail_set(why, FAIL_INPUT, "%.*s: %lld tokens, of %lld positions that it learned",
                        STR_ARG(p->model), (long long)p->sequence_length, (long long)w.positions);
    const struct tape_shelf_entry *e = choose(f->cache->shelf, &w, &farthest);
    if (!e) return not_covered(f, &w, farthest, why);
    int64_t lengths[2];
    int rc = forecast_completion(p, &lengths[0], &lengths[1], why);
    if (rc < 0) return rc;
    set_dimensions(&w, e, values);
    rc = forecast_split(p, w.shape, values, why);
    if (rc < 0) return rc;
    struct forecast_making how = {.zero = forecast_zero_of(p, w.shape),
                                  .optimizer = other_optimizer(p),
                                  .generation = forecast_generation(p, w.shape)};
    how.accumulates = p->accumulation > 1 && plan_fsdp(p->shard) == 0;
    rc = forecast_load_template(f->cache, e, values, &how, &t.loaded, why);
    if (rc < 0) return fail_wrap(why, "%.*s", STR_ARG(p->model));
    t.tape = forecast_loaded_tape(t.loaded);
    t.sim = forecast_loaded_sim(t.loaded);
    set_entry(f, &w, e, &t);
    note_bounds(f, &w, e, &t); // first: a gate says it
    note(f, &w, &t, e->is_fused);
    *ret_tape = t;
    return 0;
}
