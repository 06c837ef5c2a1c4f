// SPDX-License-Identifier: Apache-2.0
// A model whose shape is known, trained in a way that a template covers: the template, filled with
// the shape's sizes, is its tape. A template covers what was recorded, and nothing beside it: every
// property of the plan has a row in the table below, and the one that stands in the way is named.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// What decides whether a template serves, of a plan or of a template.
struct traits {
    struct str setting; // that no template has; empty: there is none
    struct str adapter, quant, shard, loss, optimizer, precision;
    bool is_grouped, is_tied, is_wide, is_checkpointed, is_accumulated;
};
// The same in words, in the order in which they are asked.
enum property {
    SETTING,
    HEADS,
    EMBEDDING,
    ADAPTER,
    QUANT,
    FROZEN,
    SHARD,
    LOSS,
    OPTIMIZER,
    PRECISION,
    CHECKPOINTING,
    ACCUMULATION,
    PROPERTIES
};
struct forecast_words {
    struct str of[PROPERTIES];
};

struct request {
    const struct plan *asked, *plan; // the latter is what a template is sought for
    const struct shape *shape;
    struct forecast_family *family; // whose templates it has
    struct str linear;              // its layers
    struct forecast_words words;
    int64_t positions; // rows of its table; 0: it has none
    int64_t cycle;     // layers that are one of the template's
    bool is_single;
};

// How much more than is asked an adapter has, in layers, and dropout as one of them: with each a
// training keeps more tensors, and never fewer. -1: it lacks something.
static int adapter_excess(const struct request *r, struct str has, struct str wanted) {
    if (str_is(has, "none") || str_is(wanted, "none")) return -1;
    struct str on = str_cut(&has, ':'), asked = str_cut(&wanted, ':');
    bool has_dropout = str_starts(has, STR("dropout"));
    bool wants_dropout = str_starts(wanted, STR("dropout"));
    if (str_ends(has, STR("bf16")) != str_ends(wanted, STR("bf16"))) return -1;
    if (str_is(on, "all-linear")) on = r->linear;
    if (str_is(asked, "all-linear")) asked = r->linear;
    int excess = str_count_names(on) - str_count_names(asked) + has_dropout - wants_dropout;
    while (asked.p)
        if (!str_has_name(on, str_cut(&asked, ','))) return -1;
    return has_dropout || !wants_dropout ? excess : -1;
}

static int quant_excess(const struct request *r, struct str has, struct str wanted) {
    (void)r;
    return plan_quant_excess(has, wanted);
}

// A pass of the reference more, where no second model makes it (of that there are templates
// without); a cross-entropy beside; all logits, before trl's kernels.
static int loss_excess(const struct request *r, struct str has, struct str wanted) {
    struct plan_preference asked, had;
    if (!plan_preference_read(wanted, &asked) || !plan_preference_read(has, &had)) return -1;
    bool is_pass_more = asked.is_precomputed && !had.is_precomputed && r->plan->adapter.len > 0;
    bool is_entropy_more = asked.step == PLAN_STEP_SIMPO && had.step == PLAN_STEP_ORPO;
    bool is_older = asked.scores == PLAN_SCORES_NEW && had.scores == PLAN_SCORES_WHOLE;
    if (asked.step != had.step && !is_entropy_more) return -1;
    if (asked.is_precomputed != had.is_precomputed && !is_pass_more) return -1;
    if (asked.scores != had.scores && !is_older) return -1;
    return is_pass_more + is_entropy_more + 2 * is_older;
}

static const struct {
    const char *name;
    // Of two that differ: how much more than is wanted a template has, so that it is an upper
    // bound; -1: it is none. NULL: only what is wanted serves.
    int (*excess)(const struct request *r, struct str has, struct str wanted);
} properties[PROPERTIES] = {
    [SETTING] = {"the setting", NULL},
    [HEADS] = {"attention heads", NULL},
    [EMBEDDING] = {"an embedding", NULL},
    [ADAPTER] = {"adapter", adapter_excess},
    [QUANT] = {"weights in four bits", quant_excess},
    [FROZEN] = {"frozen weights in", NULL},
    [SHARD] = {"sharding", NULL},
    [LOSS] = {"a loss", loss_excess},
    [OPTIMIZER] = {"optimizer", NULL},
    [PRECISION] = {"precision", NULL},
    [CHECKPOINTING] = {"gradient checkpointing", NULL},
    [ACCUMULATION] = {"an optimizer step of", NULL},
};

// Templates of ZeRO are of the model as its engine has it, and of one that says where stage 3 asks
// for parameters: tape_zero makes the stages of them.
static bool is_zero(const struct plan *p) {
    struct plan_zero zero;
    return plan_zero_read(p->shard, &zero);
}
static struct str shard_text(struct str shard) {
    struct plan_zero zero;
    bool is_made = plan_zero_read(shard, &zero);
    if (zero.is_reentrant || str_is(shard, "zero3:trace:reentrant")) return STR("zero3 reentrant");
    if ((is_made && zero.stage == 3) || str_is(shard, "zero3:trace")) return STR("zero3");
    if (is_made || str_is(shard, "zero0")) return STR("zero1 or zero2");
    return shard.len > 0 ? shard : STR("none");
}

static struct forecast_words words_of(const struct traits *t) {
    struct str adapter = plan_adapter_rest(t->adapter); // its rank is a dimension
    return (struct forecast_words){{
        [SETTING] = t->setting.len > 0 ? t->setting : STR("the usual ones"),
        [HEADS] = t->is_grouped ? STR("that share keys and values")
                                : STR("with keys and values of their own"),
        [EMBEDDING] = t->is_tied ? STR("that is the head's, too") : STR("beside a head of its own"),
        [ADAPTER] = t->adapter.len == 0 ? STR("none")
                    : adapter.len > 0   ? adapter
                                        : STR("all-linear"),
        [QUANT] = t->quant.len > 0 ? t->quant : STR("none"),
        [FROZEN] = t->is_wide ? STR("fp32") : STR("two bytes or less"),
        [SHARD] = shard_text(t->shard),
        [LOSS] = t->loss.len > 0 ? plan_loss_form(t->loss) : STR("of all logits"),
        [OPTIMIZER] = t->optimizer,
        [PRECISION] = t->precision,
        [CHECKPOINTING] = t->is_checkpointed ? STR("on") : STR("off"),
        [ACCUMULATION] = t->is_accumulated ? STR("several micro-steps") : STR("one micro-step"),
    }};
}

static struct forecast_words words_of_template(const struct tape_catalogue_entry *e) {
    const struct tape_header *h = &e->entry.header;
    return words_of(&(struct traits){
        .adapter = h->adapter,
        .quant = h->quant,
        .shard = h->shard,
        .loss = h->loss,
        .optimizer = h->optimizer,
        .precision = str_of(plan_precision_name(forecast_precision(h))),
        .is_grouped = e->is_grouped,
        .is_tied = e->is_tied,
        .is_wide = h->adapter.len > 0 && str_is(h->weights, "fp32"),
        .is_checkpointed = h->checkpointing == 1,
        .is_accumulated = h->accumulation > 1,
    });
}

static const struct forecast_words *template_words(const struct forecast_family *f,
                                                   const struct tape_catalogue_entry *e) {
    return &f->words[e - f->catalogue.entries];
}

// All in fp16 is as large as all in bf16, but in models of two halves, whose layers are cut off at
// what fp16 holds (transformers 5.23, models/t5/modeling_t5.py).
static bool is_fp16_alone(const struct plan *p, const struct shape *s) {
    return p->precision == PLAN_FP16 && !p->inference && !str_is(s->kind, "seq2seq");
}

// Autocast to fp16 and to bf16 casts the same tensors to two bytes. DeepSpeed casts the weights.
static const char *wanted_precision(const struct plan *p, const struct shape *s) {
    enum plan_precision precision = p->precision ? p->precision : PLAN_FP32;
    if (is_fp16_alone(p, s)) precision = PLAN_BF16;
    if (is_zero(p) && precision != PLAN_FP32) precision = PLAN_BF16;
    return plan_precision_name(precision == PLAN_AMP_FP16 ? PLAN_AMP_BF16 : precision);
}

static struct forecast_words wanted_words(const struct plan *p, const struct shape *s,
                                          struct str setting) {
    struct plan_preference how = {.step = PLAN_STEP_DPO};
    bool is_reward = plan_preference_read(p->loss, &how) && how.step == PLAN_STEP_REWARD;
    const struct str optimizer = plan_optimizer_plain(p);
    bool is_adamw = optimizer.len == 0 || str_is(optimizer, "adam") || p->adapter.len > 0;
    struct forecast_words words = words_of(&(struct traits){
        .setting = setting,
        .adapter = p->adapter,
        .quant = p->quant,
        .shard = plan_recorded_shard(p),
        .loss = p->loss,
        .optimizer = is_adamw || forecast_other_optimizer(p) ? STR("adamw") : optimizer,
        .precision = str_of(wanted_precision(p, s)),
        .is_grouped = shape_kv_heads(s) < s->heads,
        .is_tied = s->tied && !is_reward, // a reward model's head is another
        .is_wide = plan_is_wide(p),
        .is_checkpointed = p->checkpointing,
        // Of what is not sharded a second micro-step is made (tape_accumulate). Ranks that share
        // weights keep whole gradients until the last one, so that is recorded.
        .is_accumulated = plan_fsdp(p->shard) > 0 && p->accumulation > 1,
    });
    struct str split = forecast_split_shard(p, s);
    if (split.len > 0) words.of[SHARD] = split;
    how.refers = false; // what a reference needs is put in
    if (how.step == PLAN_STEP_GRPO) words.of[LOSS] = plan_preference_word(how);
    return words;
}

static int open_family(struct forecast_cache *cache, struct request *r, struct fail *why) {
    struct str name = shape_template(cache->shapes, r->shape);
    int rc = forecast_open_family(cache, name, &r->family, why);
    struct forecast_family *f = r->family;
    if (rc < 0 || f->words) return rc;
    f->words = arena_new(cache->arena, struct forecast_words, f->catalogue.count);
    for (ptrdiff_t i = 0; i < f->catalogue.count; i++)
        f->words[i] = words_of_template(&f->catalogue.entries[i]);
    return 0;
}

// 0: as wished.
static int excess_of(int property, const struct forecast_words *has, const struct request *r) {
    struct str wanted = r->words.of[property];
    if (str_equal(wanted, has->of[property])) return 0;
    if (!properties[property].excess) return -1;
    return properties[property].excess(r, has->of[property], wanted);
}

// The number of properties that serve, from the first on; what all of them have too much.
static int reach(const struct forecast_words *has, const struct request *r, int *ret_excess) {
    int i = 0, excess = 0;
    for (*ret_excess = 0; i < PROPERTIES; i++) {
        excess = excess_of(i, has, r);
        if (excess < 0) return i;
        *ret_excess += excess;
    }
    return i;
}

// One for batch 1 serves it alone, one for more serves it with copies that vanish there; another
// kernel of the optimizer is told (note).
static int nearness(const struct tape_catalogue_entry *e, const struct request *r) {
    return 2 * e->is_single + (e->is_fused == r->plan->fused);
}

static const struct tape_catalogue_entry *choose(const struct request *r, int *ret_farthest) {
    const struct tape_catalogue *catalogue = &r->family->catalogue;
    const struct tape_catalogue_entry *best = NULL;
    int excess, least = 0;
    *ret_farthest = 0;
    for (ptrdiff_t i = 0; i < catalogue->count; i++) {
        const struct tape_catalogue_entry *e = &catalogue->entries[i];
        if (e->is_single && !r->is_single) continue;
        int far = reach(template_words(r->family, e), r, &excess);
        if (far > *ret_farthest) *ret_farthest = far;
        if (far < PROPERTIES || (best && excess > least)) continue;
        if (best && excess == least && nearness(e, r) <= nearness(best, r)) continue;
        best = e;
        least = excess;
    }
    return best;
}

// "bf16, amp-bf16": what templates have that are as wished up to this property.
static struct str others(struct arena *a, const struct request *r, int property) {
    const struct forecast_family *f = r->family;
    struct str_list list = {0};
    int excess;
    for (ptrdiff_t i = 0; i < f->catalogue.count; i++) {
        const struct forecast_words *has = &f->words[i];
        if (reach(has, r, &excess) >= property)
            str_list_add_new(a, &list, forecast_split_words(has->of[property]));
    }
    return str_list_text(a, &list);
}

// Whether LoRA is on a layer that the model has.
static bool has_target(struct str targets, struct str layers) {
    for (struct str rest = targets; rest.p;)
        if (str_has_name(layers, str_cut(&rest, ','))) return true;
    return targets.len == 0;
}

// The ways to train it that templates of its shape have under a sharding.
static struct str ways_of(struct arena *a, const struct request *r) {
    const struct forecast_family *f = r->family;
    struct str_list ways = {0};
    int excess;
    for (ptrdiff_t i = 0; i < f->catalogue.count; i++) {
        const struct tape_header *h = &f->catalogue.entries[i].entry.header;
        if (str_equal(shard_text(h->shard), shard_text(r->plan->shard)) &&
            reach(&f->words[i], r, &excess) >= ADAPTER)
            str_list_add_new(a, &ways, str_of(plan_training_name(h->adapter, h->quant)));
    }
    return str_list_text(a, &ways);
}

int forecast_shard_hint(struct forecast *f, const struct plan *p, struct str ways,
                        struct fail *why) {
    struct str shard = shard_text(p->shard);
    struct str_list families = {0};
    struct forecast_family *all;
    if (ways.len > 0)
        return fail_hint(why, "%.*s of it is modelled for %.*s", STR_ARG(shard), STR_ARG(ways));
    int code = forecast_open_family(f->cache, (struct str){0}, &all, why);
    if (code < 0) return code;
    for (ptrdiff_t i = 0; i < all->catalogue.count; i++) {
        const struct tape_catalogue_entry *e = &all->catalogue.entries[i];
        if (str_equal(shard_text(e->entry.header.shard), shard))
            str_list_add_new(f->arena, &families, e->family);
    }
    return families.count > 0 ? fail_hint(why, "%.*s is modelled for %.*s", STR_ARG(shard),
                                          STR_ARG(str_list_text(f->arena, &families)))
                              : fail_hint(why, "no template has %.*s", STR_ARG(shard));
}

static int not_covered(struct forecast *f, const struct request *r, int property,
                       struct fail *why) {
    if (!why) return FAIL_INPUT; // of a way that might help nobody asks why it does not
    struct arena *a = f->arena;
    struct str targets = plan_adapter_targets(r->plan->adapter);
    if (!has_target(targets, r->linear)) {
        fail_set(why, FAIL_INPUT, "%.*s: LoRA on %.*s: a %.*s has no such layer",
                 STR_ARG(r->plan->model), STR_ARG(targets), STR_ARG(r->shape->type));
        return fail_hint(why, "its linear layers: %.*s", STR_ARG(r->linear));
    }
    fail_set(why, FAIL_INPUT, "%.*s: no template of a %.*s for %s %.*s (available: %.*s)",
             STR_ARG(r->plan->model), STR_ARG(r->shape->type), properties[property].name,
             STR_ARG(forecast_split_words(r->words.of[property])), STR_ARG(others(a, r, property)));
    // The recorder has no four bits over FSDP2 either.
    bool is_recorded = plan_fsdp_offloads(r->plan->shard) &&
                       (plan_fsdp(r->plan->shard) == 1 || r->plan->quant.len == 0);
    if (r->plan->shard.len > 0 && !is_recorded)
        return forecast_shard_hint(f, r->plan, ways_of(a, r), why);
    return fail_hint(why, "record it: %.*s",
                     STR_ARG(forecast_record_command(a, r->asked, &f->model)));
}

// A product with one row is another operation: templates are of two and more.
enum { RANK_LEAST = 2 };

static void set_dimensions(const struct request *r, const struct tape_catalogue_entry *e,
                           int64_t values[TAPE_DIM_COUNT]) {
    const struct shape *s = r->shape;
    forecast_set_tokens(r->asked, s, values);
    values[TAPE_DIM_HIDDEN] = s->hidden;
    values[TAPE_DIM_FFN] = s->intermediate;
    values[TAPE_DIM_VOCABULARY] = s->vocabulary;
    values[TAPE_DIM_HEAD_SIZE] = s->head_dim;
    values[TAPE_DIM_KV_HEADS] = shape_kv_heads(s);
    if (e->is_grouped) values[TAPE_DIM_GROUP] = s->heads / s->kv_heads;
    values[TAPE_DIM_POSITIONS] = r->positions;
    values[TAPE_DIM_EXPERTS] = s->experts;
    values[TAPE_DIM_ACTIVE_EXPERTS] = s->active;
    values[TAPE_DIM_EXPERT_FFN] = s->expert_intermediate;
    const int64_t rank = plan_adapter_rank(r->plan->adapter);
    values[TAPE_DIM_ADAPTER_RANK] = rank == 1 ? RANK_LEAST : rank;
    values[TAPE_DIM_LAYERS] = s->layers / r->cycle;
    if (r->plan->shard.len > 0 && !is_zero(r->plan))
        values[TAPE_DIM_RANKS] = plan_shard_ranks(r->plan);
}

// What an answer says of the tape that it is from: the training's, where the template's header has
// the family's.
static void set_entry(struct forecast *f, const struct request *r,
                      const struct tape_catalogue_entry *e, struct forecast_tape *t) {
    struct tape_entry *made = arena_new(f->arena, struct tape_entry, 1);
    *made = e->entry;
    made->header = t->tape->header;
    made->header.model = f->model.name;
    made->header.parameters = r->shape->parameters;
    made->header.adapter = r->plan->adapter;
    made->header.quant = r->plan->quant;
    made->header.loss = r->plan->loss;
    made->header.shard = r->plan->shard;
    t->entry = made;
    t->template = e->name;
}

static void note_bounds(struct forecast *f, const struct request *r,
                        const struct tape_catalogue_entry *e, struct forecast_tape *t) {
    const struct forecast_words *has = template_words(r->family, e);
    for (int i = 0; i < PROPERTIES; i++) {
        if (excess_of(i, has, r) == 0) continue;
        t->is_upper_bound = true;
        str_list_format(f->arena, &t->notes,
                        "no template has %s %.*s: counted as %.*s, which allocates no less",
                        properties[i].name, STR_ARG(r->words.of[i]), STR_ARG(has->of[i]));
    }
}

static void note(struct forecast *f, const struct request *r, struct forecast_tape *t,
                 bool is_fused) {
    struct arena *a = f->arena;
    const struct plan *p = r->plan;
    const struct tape_header *h = &t->entry->header;
    if (plan_adapter_rank(p->adapter) == 1)
        str_list_add(a, &t->notes, STR("LoRA of rank 1 is counted as of rank 2, which needs more"));
    str_list_format(a, &t->notes, "predicted by the template %.*s (%.*s, torch %.*s)",
                    STR_ARG(t->template), STR_ARG(h->library), STR_ARG(h->torch));
    if (is_zero(p))
        forecast_note_zero(f, p, r->shape, t);
    else if (plan_is_titan(p->shard))
        forecast_note_titan(f, p, t);
    else if (plan_is_tune(p->shard))
        forecast_note_tune(f, p, t);
    else if (p->shard.len > 0)
        forecast_note_fsdp(f, p, r->shape, t);
    else if (p->adapter.len > 0)
        forecast_note_adapter(f, p, t);
    else if (str_is(h->weights, "fp32") && (!p->lacks_flash || str_is(h->precision, "fp32")))
        str_list_add(a, &t->notes,
                     str_is(h->precision, "fp32")
                         ? p->lacks_flash ? STR("all is counted in fp32: in fp16 (--precision "
                                                "amp-fp16) a training needs less")
                                          : STR("all is counted in fp32: in bf16 (--precision bf16 "
                                                "or amp-bf16) a training needs less")
                         : STR("weights are counted in fp32 under autocast: loaded in bf16 "
                               "(--precision bf16) a training needs less"));
    if (is_fp16_alone(p, r->shape) && !is_zero(p))
        str_list_add(a, &t->notes,
                     STR("all in fp16 is counted by a template in bf16, whose every tensor is as "
                         "large; without autocast small gradients vanish in fp16"));
    forecast_note_loss(f, p, t);
    const struct str optimizer = plan_optimizer_plain(p);
    const bool is_other = forecast_other_optimizer(p);
    if (p->adapter.len > 0 && optimizer.len > 0 && !is_other && !str_is(optimizer, "adamw"))
        str_list_format(a, &t->notes, "%.*s: the adapter's states are counted as AdamW's",
                        STR_ARG(p->optimizer));
    if (is_other)
        str_list_format(a, &t->notes,
                        "%.*s: its states and temporaries are made by rule, as a recording has "
                        "them, where the template has AdamW's%s",
                        STR_ARG(p->optimizer),
                        str_is(p->optimizer, "adamw8bit") && p->adapter.len == 0
                            ? "; an embedding's states are fp32, as transformers' Trainer asks "
                              "bitsandbytes for (torchtune's are in 8 bits, too: less)"
                            : "");
    else if (p->adapter.len == 0 && !is_zero(p) && !plan_fsdp_offloads(p->shard))
        forecast_note_update(f, p, t, is_fused);
    if (p->accumulation > 1 && t->tape->header.accumulation < 2) {
        const int64_t gradients = forecast_gradient_bytes(t->tape);
        t->extra_bytes += gradients;
        str_list_format(a, &t->notes,
                        "accumulation: the gradients (%.*s) stay from one micro-step to the next "
                        "and are added, so every figure is an upper bound",
                        STR_ARG(unit_bytes(a, gradients)));
    }
    forecast_note_shape(f, p, r->shape, t);
}

int forecast_fill_template(struct forecast *f, const struct plan *p, bool is_single,
                           struct forecast_tape *ret_tape, struct fail *why) {
    const struct shape_table *shapes = f->cache->shapes;
    const struct plan trained = forecast_trained(p);
    struct request r = {.asked = p,
                        .plan = &trained,
                        .shape = f->shape,
                        .linear = shape_linear(shapes, f->shape),
                        .words = wanted_words(&trained, f->shape, shape_setting(shapes, f->shape)),
                        .positions = shape_table_rows(shapes, f->shape),
                        .cycle = shape_cycle(shapes, f->shape),
                        .is_single = is_single};
    int64_t values[TAPE_DIM_COUNT] = {0};
    struct forecast_tape t = {0};
    int farthest, rc;
    const int64_t longest = r.positions > 0 ? shape_longest(f->shape) : INT64_MAX;
    if (p->sequence_length > longest)
        return fail_set(why, FAIL_INPUT,
                        "%.*s: %lld tokens, but it has only %lld learned positions",
                        STR_ARG(p->model), (long long)p->sequence_length, (long long)longest);
    rc = open_family(f->cache, &r, why);
    if (rc < 0) return rc;
    const struct tape_catalogue_entry *e = choose(&r, &farthest);
    if (!e && plan_is_wide(&trained)) { // the other bytes are added then
        r.words.of[FROZEN] = words_of(&(struct traits){0}).of[FROZEN];
        e = choose(&r, &farthest);
    }
    if (!e) return not_covered(f, &r, farthest, why);
    int64_t lengths[2];
    rc = forecast_completion(p, &lengths[0], &lengths[1], why);
    if (rc < 0) return rc;
    set_dimensions(&r, e, values);
    rc = forecast_split(p, r.shape, values, why);
    if (rc < 0) return rc;
    struct forecast_making how = {.scores = forecast_scores(p, r.shape),
                                  .zero = forecast_zero_of(p, r.shape),
                                  .optimizer = forecast_optimizer_for(&trained, e->is_fused),
                                  .generation = forecast_generation(p, r.shape)};
    if (how.scores.tokens > 0) how.generation.scored = r.shape->heads;
    how.accumulates = p->accumulation > 1 && plan_fsdp(p->shard) == 0;
    rc = forecast_load_template(f->cache, e, values, &how, p->expandable, &t.loaded, why);
    if (rc < 0) return fail_wrap(why, "%.*s", STR_ARG(p->model));
    t.tape = forecast_loaded_tape(t.loaded);
    t.sim = forecast_loaded_sim(t.loaded);
    set_entry(f, &r, e, &t);
    note_bounds(f, &r, e, &t); // first: a gate says it
    if (p->generates)
        forecast_note_generator(f, p, f->shape, &t);
    else
        note(f, &r, &t,
             how.optimizer ? !str_is(str_of(how.optimizer), TAPE_FOREACH_ADAMW) : e->is_fused);
    *ret_tape = t;
    return 0;
}
