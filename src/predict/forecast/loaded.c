// SPDX-License-Identifier: Apache-2.0
// Tapes in memory. A replay costs most of the time of an answer, and most of what is asked was
// answered by an earlier one: both kinds of answers are kept, the latest few of each.
#include "predict/forecast/forecast_int.h"

#include <string.h>

enum { KEPT = 16 };

// One replay's outcome holds for every capacity in between (struct sim_result).
struct outcome {
    int64_t batch, classes, from_bytes, below_bytes;
    bool oom;
};

struct forecast_loaded {
    const struct tape_entry *entry;        // of the store; NULL: of a template of a family
    const struct tape_catalogue_entry *of; // the template's, as it was read, and its dimensions
    struct tape_template *template;
    int64_t values[TAPE_DIM_COUNT];
    struct forecast_making how; // what is made of the template's tape
    bool has_scores;            // of attention, which `how` asks for
    bool is_bare;               // without modules
    bool is_expandable;         // the allocator's segments
    struct tape tape;
    struct sim *sim;
    struct sim *pessimist; // with the kernels' scratch; NULL when the tape has none
    struct outcome outcomes[KEPT];
    struct forecast_figures figures[KEPT];
    int next_outcome, next_figures;
};

void forecast_aside(struct forecast_aside *ret_aside, struct forecast_cache *cache) {
    *ret_aside = (struct forecast_aside){.tapes.escape = cache->arena->escape,
                                         .cache = cache,
                                         .before = cache->tapes,
                                         .count = cache->count};
    cache->tapes = &ret_aside->tapes;
}

void forecast_aside_end(struct forecast_aside *aside) {
    aside->cache->tapes = aside->before;
    aside->cache->count = aside->count;
    arena_clear(&aside->tapes);
}

static struct arena *tapes_of(const struct forecast_cache *cache) {
    return cache->tapes ? cache->tapes : cache->arena;
}

static struct forecast_loaded *keep(struct forecast_cache *cache, struct forecast_loaded *l) {
    struct sim_options options = cache->options, pessimistic;
    options.expandable_segments |= l->is_expandable;
    pessimistic = options;
    pessimistic.scratch = true;
    l->sim = sim_prepare(tapes_of(cache), &l->tape, &options);
    if (l->tape.scratch_count > 0)
        l->pessimist = sim_prepare(tapes_of(cache), &l->tape, &pessimistic);
    *arena_push(cache->arena, &cache->items, &cache->count, &cache->capacity) = l;
    return l;
}

// Where nothing of it is fused, it stays as it is.
static void put_scores(struct forecast_cache *cache, struct forecast_loaded *l) {
    const struct tape fused = l->tape;
    l->has_scores =
        l->how.scores.tokens > 0 && tape_scores(tapes_of(cache), &fused, &l->how.scores, &l->tape);
    if (!l->has_scores) l->tape = fused;
}

static void share(struct forecast_loaded *l, const struct forecast_loaded *same) {
    l->tape = same->tape;
    l->has_scores = same->has_scores;
}

static bool scores_so(const struct tape_scores *a, const struct tape_scores *b) {
    return a->tokens == b->tokens && a->head_size == b->head_size;
}

static int load_at_size(struct forecast_cache *cache, struct forecast_loaded *l, struct fail *why) {
    int rc = 0;
    if (!l->template)
        rc = tape_store_load_template(tapes_of(cache), cache->store, l->entry, &l->template, why);
    return rc < 0 ? rc : tape_instantiate(tapes_of(cache), l->template, l->values, &l->tape, why);
}

int forecast_load(struct forecast_cache *cache, const struct tape_entry *entry, int64_t image_size,
                  const struct tape_scores *scores, bool is_expandable,
                  struct forecast_loaded **ret_loaded, struct fail *why) {
    const bool is_template = entry->image.most > 0;
    const struct forecast_loaded *same = NULL;
    struct forecast_loaded *l = arena_new(tapes_of(cache), struct forecast_loaded, 1);
    *l = (struct forecast_loaded){
        .entry = entry, .how = {.scores = *scores}, .is_expandable = is_expandable};
    if (is_template) l->values[TAPE_DIM_IMAGE_SIZE] = image_size;
    for (ptrdiff_t i = 0; i < cache->count; i++) {
        struct forecast_loaded *known = cache->items[i];
        if (known->entry != entry) continue;
        *ret_loaded = known;
        l->template = known->template;
        if (memcmp(known->values, l->values, sizeof l->values) != 0) continue;
        if (!scores_so(&known->how.scores, scores)) continue;
        if (known->is_expandable == is_expandable) return 0;
        same = known;
    }
    int rc = 0;
    if (same)
        share(l, same);
    else
        rc = is_template ? load_at_size(cache, l, why)
                         : tape_store_load(tapes_of(cache), cache->store, entry, &l->tape, why);
    if (rc == 0 && !same) put_scores(cache, l);
    if (rc == 0) *ret_loaded = keep(cache, l);
    return rc;
}

// What is there already of the template: all of it; the same tape for another allocator; one with
// another number of micro-steps; or at least its text.
struct found {
    struct forecast_loaded *all, *tape, *alike, *text;
};

static bool is_offloaded_so(const struct tape_offload *a, const struct tape_offload *b) {
    return a->optimizer == b->optimizer && a->params == b->params && a->is_paged == b->is_paged &&
           a->optimizer_buffers == b->optimizer_buffers && a->param_buffers == b->param_buffers &&
           a->param_buffer == b->param_buffer && a->param_most == b->param_most;
}

static bool generates_so(const struct tape_generation *a, const struct tape_generation *b) {
    return a->layers == b->layers && a->sequences == b->sequences && a->scored == b->scored &&
           a->has_reference == b->has_reference &&
           a->has_reference_scores == b->has_reference_scores &&
           a->is_elsewhere == b->is_elsewhere && a->is_all == b->is_all &&
           a->completion == b->completion; // the rest is the model's and its dimensions'
}

static bool shares_so(const struct zero3 *a, const struct zero3 *b) {
    return a->prefetch == b->prefetch && a->persist == b->persist && a->live == b->live &&
           a->reuse == b->reuse && a->group == b->group;
}

static bool splits_so(const struct tape_zero *a, const struct tape_zero *b) {
    return a->stage == b->stage && a->ranks == b->ranks && a->rank == b->rank &&
           a->bucket == b->bucket && a->overlaps == b->overlaps &&
           shares_so(&a->zero3, &b->zero3) && is_offloaded_so(&a->offload, &b->offload);
}

static bool is_made_so(const struct forecast_loaded *l, const struct forecast_making *how) {
    return l->how.accumulates == how->accumulates && l->how.optimizer == how->optimizer &&
           scores_so(&l->how.scores, &how->scores) && splits_so(&l->how.zero, &how->zero) &&
           generates_so(&l->how.generation, &how->generation);
}

static struct found find(const struct forecast_cache *cache, const struct forecast_loaded *wanted) {
    struct found f = {NULL, NULL, NULL, NULL};
    for (ptrdiff_t i = 0; i < cache->count; i++) {
        struct forecast_loaded *l = cache->items[i];
        if (l->of != wanted->of) continue;
        bool is_alike = memcmp(l->values, wanted->values, sizeof l->values) == 0;
        f.text = l;
        const bool is_tape = is_alike && is_made_so(l, &wanted->how);
        if (is_tape && l->is_expandable == wanted->is_expandable)
            f.all = l;
        else if (is_tape && !l->is_bare)
            f.tape = l;
        else if (is_alike && !l->is_bare)
            f.alike = l;
    }
    return f;
}

// What an adapter's keeps is little: that of another one than the 8-bit is counted as AdamW's,
// which is the most.
const char *forecast_other_optimizer(const struct plan *p) {
    struct str name = plan_optimizer_plain(p);
    const bool is_8bit = str_is(name, "adamw8bit");
    if ((p->adapter.len > 0 && !is_8bit) || p->shard.len > 0) return NULL;
    if (is_8bit && p->adapter.len == 0) name = STR(TAPE_TRAINERS_8BIT);
    int i = 0;
    while (tape_optimizers[i] && !str_is(name, tape_optimizers[i])) i++;
    return tape_optimizers[i];
}

const char *forecast_optimizer_for(const struct plan *p, bool is_fused) {
    const char *other = forecast_other_optimizer(p);
    const struct str name = plan_optimizer_plain(p);
    const bool is_adamw = name.len == 0 || str_is(name, "adamw");
    const bool is_kernel =
        p->fused != is_fused && is_adamw && p->adapter.len == 0 && p->shard.len == 0;
    if (other || !is_kernel) return other;
    return p->fused ? TAPE_FUSED_ADAMW : TAPE_FOREACH_ADAMW;
}

static bool use_optimizer(struct forecast_cache *cache, const struct forecast_loaded *l,
                          const struct tape *adamw, struct tape *made) {
    const struct tape_header *h = &adamw->header; // weights that are trained: an adapter's or all
    bool is_half =
        h->adapter.len > 0 ? plan_adapter_is_bf16(h->adapter) : str_is(h->weights, "bf16");
    int64_t bytes = is_half ? 2 : 4;
    return tape_optimizer(tapes_of(cache), adamw, str_of(l->how.optimizer),
                          l->values[TAPE_DIM_HIDDEN], bytes, made);
}

static int64_t width_of_heads(const struct forecast_loaded *l) {
    int64_t width = l->values[TAPE_DIM_HEAD_SIZE];
    width *= l->values[TAPE_DIM_KV_HEADS] > 0 ? l->values[TAPE_DIM_KV_HEADS] : 1;
    return width * (l->values[TAPE_DIM_GROUP] > 0 ? l->values[TAPE_DIM_GROUP] : 1);
}

// Of a model's sizes a template has those that it depends on: no width beside those of the heads in
// a GPT-2's, no feed-forward part where all is experts.
// What is only tried is only replayed, where nothing is made of it that asks for modules.
static int fill(struct forecast_cache *cache, struct forecast_loaded *l, struct tape *made,
                struct fail *why) {
    static const enum tape_dim lacking[] = {TAPE_DIM_HIDDEN, TAPE_DIM_FFN};
    int64_t values[TAPE_DIM_COUNT];
    const int64_t hidden = l->values[TAPE_DIM_HIDDEN], heads = width_of_heads(l);
    bool is_narrow = tape_template_bound(l->template, TAPE_DIM_HIDDEN).most == 0;
    if (is_narrow && hidden > 0 && heads != hidden)
        return fail_set(why, FAIL_INPUT,
                        "no template for heads that are %lld wide together (head_dim %lld) in a "
                        "model that is %lld wide",
                        (long long)heads, (long long)l->values[TAPE_DIM_HEAD_SIZE],
                        (long long)hidden);
    memcpy(values, l->values, sizeof values);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (tape_template_bound(l->template, lacking[i]).most == 0) values[lacking[i]] = 0;
    l->is_bare = cache->tapes && !l->how.optimizer && l->how.zero.stage == 0;
    return (l->is_bare ? tape_instantiate_bare : tape_instantiate)(tapes_of(cache), l->template,
                                                                   values, made, why);
}

static int instantiate(struct forecast_cache *cache, struct forecast_loaded *l,
                       const struct forecast_loaded *alike, struct fail *why) {
    struct tape one;
    int rc = 0;
    struct tape *made = &l->tape;
    if (alike && is_made_so(alike, &(struct forecast_making){0}))
        one = alike->tape;
    else
        rc = fill(cache, l, &one, why);
    if (rc < 0) return rc;
    if (!(l->how.accumulates && tape_accumulate(tapes_of(cache), &one, made))) *made = one;
    put_scores(cache, l);
    one = *made;
    if (l->how.optimizer && !use_optimizer(cache, l, &one, made))
        return fail_set(why, FAIL_INPUT, "%s cannot be made of its template", l->how.optimizer);
    if (l->how.zero.stage > 0 && !tape_zero(tapes_of(cache), &one, &l->how.zero, made))
        return fail_set(why, FAIL_INPUT, "ZeRO cannot be made of its template");
    one = *made;
    if (l->how.generation.layers > 0)
        tape_generate(tapes_of(cache), &one, &l->how.generation, made);
    return 0;
}

int forecast_load_template(struct forecast_cache *cache, const struct tape_catalogue_entry *entry,
                           const int64_t values[TAPE_DIM_COUNT], const struct forecast_making *how,
                           bool is_expandable, struct forecast_loaded **ret_loaded,
                           struct fail *why) {
    struct forecast_loaded *l = arena_new(tapes_of(cache), struct forecast_loaded, 1);
    l->of = entry;
    l->how = *how;
    l->is_expandable = is_expandable;
    memcpy(l->values, values, sizeof l->values);
    const struct found known = find(cache, l);
    *ret_loaded = known.all;
    if (known.all) return 0;
    int rc = 0;
    if (known.text)
        l->template = known.text->template;
    else
        rc = tape_catalogue_load(tapes_of(cache), cache->templates, entry, &l->template, why);
    if (rc == 0 && known.tape)
        share(l, known.tape);
    else if (rc == 0)
        rc = instantiate(cache, l, known.alike, why);
    if (rc == 0) *ret_loaded = keep(cache, l);
    return rc;
}

const struct tape *forecast_loaded_tape(const struct forecast_loaded *loaded) {
    return &loaded->tape;
}
struct tape_scores forecast_loaded_scores(const struct forecast_loaded *l) {
    return l->has_scores ? l->how.scores : (struct tape_scores){.tokens = 0};
}
struct sim *forecast_loaded_sim(const struct forecast_loaded *loaded) {
    return loaded->sim;
}

int64_t forecast_gradient_bytes(const struct tape *t) {
    int64_t sum = 0;
    int32_t end = 0;
    while (end < t->event_count &&
           !(t->events[end].kind == TAPE_MARK && t->events[end].phase == TAPE_OPTIMIZER))
        end++;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        bool is_left = x->event < end && (x->free_event < 0 || x->free_event > end);
        if (x->tag == TAPE_GRADIENT && is_left) sum += x->c;
    }
    return sum;
}

int64_t forecast_workspace_bytes(const struct tape *t, int64_t size) {
    int64_t sum = 0;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        if (x->tag == TAPE_OTHER && x->c < size && str_is(t->strings[x->op], "cublas_workspace"))
            sum += size - x->c;
    }
    return sum;
}

int64_t forecast_weight_bytes(const struct tape *t) {
    int64_t sum = 0;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        if (x->tag == TAPE_PARAM && x->free_event < 0) sum += x->c;
    }
    return sum;
}

// Recorded under autocast, weights are in fp32 unless something else is said.
bool forecast_has_wide(const struct forecast_tape *t) {
    return !str_is(t->entry->header.weights, "bf16");
}

static void keep_outcome(struct forecast_loaded *l, int64_t batch, int64_t classes,
                         const struct sim_result *r) {
    l->outcomes[l->next_outcome] =
        (struct outcome){batch, classes, r->same_from_bytes, r->same_below_bytes, r->oom};
    l->next_outcome = (l->next_outcome + 1) % KEPT;
}

bool forecast_runs(struct forecast_loaded *l, int64_t batch, int64_t classes, int64_t capacity) {
    if (capacity <= 0) return false;
    for (int i = 0; i < KEPT; i++) {
        const struct outcome *o = &l->outcomes[i];
        bool same = o->batch == batch && o->classes == classes;
        if (same && capacity >= o->from_bytes && capacity < o->below_bytes) return !o->oom;
    }
    struct sim_result r;
    sim_replay(l->sim, batch, classes, capacity, &r);
    keep_outcome(l, batch, classes, &r);
    return !r.oom;
}

int64_t forecast_runs_from(const struct forecast_loaded *l, int64_t batch, int64_t classes,
                           int64_t capacity) {
    for (int i = 0; i < KEPT; i++) {
        const struct outcome *o = &l->outcomes[i];
        bool same = o->batch == batch && o->classes == classes && !o->oom;
        if (same && capacity >= o->from_bytes && capacity < o->below_bytes) return o->from_bytes;
    }
    return capacity;
}

struct forecast_figures forecast_figures(struct forecast_loaded *l, int64_t batch,
                                         int64_t classes) {
    for (int i = 0; i < KEPT; i++) {
        const struct forecast_figures *f = &l->figures[i];
        if (f->batch == batch && f->classes == classes) return *f;
    }
    struct sim_need need;
    sim_needed(l->sim, batch, classes, FORECAST_NEED_REPLAYS, &need);
    keep_outcome(l, batch, classes, &need.free);
    struct sim_result run = need.free, scratch = run;
    if (l->pessimist) sim_replay(l->pessimist, batch, classes, SIM_UNLIMITED, &scratch);
    const struct forecast_figures figures = {
        .batch = batch,
        .classes = classes,
        .allocated_bytes = run.allocated_bytes,
        .reserved_bytes = run.reserved_bytes,
        .needed_bytes = need.needed_bytes,
        .needed_is_exact = need.needed_exact,
        .is_beyond = run.oom,
        .scratch_bytes = scratch.reserved_bytes,
    };
    l->figures[l->next_figures] = figures;
    l->next_figures = (l->next_figures + 1) % KEPT;
    return figures;
}
