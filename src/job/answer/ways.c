// SPDX-License-Identifier: Apache-2.0
// Ways to make it fit. What is enough comes first, and of that what changes the learning least: a
// smaller batch with more accumulation. Every figure is of a replay of the changed plan.
#include "job/answer/answer_int.h"

enum { COMBINED_MOST = 3, COMBINATIONS = 2 };

static void add(struct question *q, struct forecast_remedies *list,
                const struct forecast_remedy *way) {
    *arena_push(q->arena, &list->items, &list->count, &list->capacity) = *way;
}

// --- A smaller batch -----------------------------------------------------------------------------

// The same question with fewer samples at a time; below what the user allows where nothing else is
// left.
static struct question smaller_question(struct question *q, const struct answer *answer) {
    struct question smaller = *q;
    smaller.effective = answer->plan.inference ? 0 : plan_effective(&answer->plan);
    smaller.range.least = 0;
    smaller.range.most = answer->plan.batch - 1;
    smaller.notes = (struct str_list){0};
    smaller.plan.precision = answer->plan.precision;
    smaller.precision_fixed = true; // adapted to the GPU already
    return smaller;
}

static struct str batch_words(struct question *q, const struct answer *a, bool is_below) {
    struct arena *arena = q->arena;
    struct str batch = str_format(arena, "batch %lld", (long long)a->plan.batch);
    if (a->plan.accumulation > 1) {
        batch = str_format(arena, "%.*s x %lld", STR_ARG(batch), (long long)a->plan.accumulation);
    }
    const char *what = is_below            ? "below --min-batch-size"
                       : a->plan.inference ? "a smaller one"
                       : a->effective_kept ? "same effective batch"
                                           : "another effective batch";
    return str_format(arena, "%.*s (%s)", STR_ARG(batch), what);
}

static void add_smaller(struct question *q, const struct answer *answer,
                        struct forecast_remedies *list) {
    struct question smaller = smaller_question(q, answer);
    struct answer found;
    FORECAST_ASIDE aside;
    forecast_aside(&aside, &smaller.tape_cache);
    if (smaller.range.most < 1) return;
    int rc = answer_choose_alone(&smaller, &answer->card, &found, NULL);
    if (rc < 0 || !found.fits) return;
    const bool is_below = found.plan.batch < q->range.least;
    const struct forecast_remedy way = {
        .what = batch_words(q, &found, is_below),
        .cost = answer->plan.inference ? STR("fewer samples at a time")
                : found.effective_kept ? STR("none for learning; more and smaller passes")
                                       : STR("the learning rate may have to change with it"),
        .plan = found.plan,
        .needed_bytes = found.peak.needed_bytes,
        .saved_bytes = answer->peak.needed_bytes - found.peak.needed_bytes,
        .is_enough = true,
    };
    add(q, list, &way);
}

// --- Combinations --------------------------------------------------------------------------------

// What a way changes of the plan, as bits.
static unsigned changes(const struct plan *base, const struct plan *p) {
    return (unsigned)(p->precision != base->precision) |
           (unsigned)(p->checkpointing != base->checkpointing) << 1 |
           (unsigned)!str_equal(p->optimizer, base->optimizer) << 2 |
           (unsigned)(p->image_size != base->image_size) << 3 |
           (unsigned)(p->sequence_length != base->sequence_length ||
                      p->target_length != base->target_length)
               << 4 |
           (unsigned)!str_equal(p->adapter, base->adapter) << 5 |
           (unsigned)!str_equal(p->quant, base->quant) << 6 |
           (unsigned)!str_equal(p->shard, base->shard) << 7 |
           (unsigned)(p->ranks != base->ranks) << 8 |
           (unsigned)!str_equal(p->loss, base->loss) << 9 |
           (unsigned)(p->expandable != base->expandable) << 10 |
           (unsigned)(p->fused != base->fused) << 11;
}

static void apply(const struct plan *base, const struct plan *way, struct plan *ret) {
    unsigned bits = changes(base, way);
    if (bits & 1) ret->precision = way->precision;
    if (bits & 2) ret->checkpointing = way->checkpointing;
    if (bits & 4) ret->optimizer = way->optimizer;
    if (bits & 8) ret->image_size = way->image_size;
    if (bits & 16) {
        ret->sequence_length = way->sequence_length;
        ret->target_length = way->target_length;
    }
    if (bits & 32) ret->adapter = way->adapter;
    if (bits & 64) ret->quant = way->quant;
    if (bits & 128) ret->shard = way->shard;
    if (bits & 512) ret->loss = way->loss;
    if (bits & 1024) ret->expandable = way->expandable;
    if (bits & 2048) ret->fused = way->fused;
    if (bits & 256) {
        ret->ranks = way->ranks;
        ret->accumulation = way->accumulation;
    }
}

// Several ways at once; false: two of them change the same, or one is enough alone.
static bool combine(struct question *q, const struct plan *base,
                    const struct forecast_remedy *const *ways, int count,
                    struct forecast_remedy *ret) {
    struct buf what = buf_new(q->arena), cost = buf_new(q->arena);
    unsigned bits = 0;
    *ret = (struct forecast_remedy){.plan = *base};
    for (int i = 0; i < count; i++) {
        unsigned more = changes(base, &ways[i]->plan);
        if ((bits & more) || ways[i]->is_enough) return false;
        bits |= more;
        apply(base, &ways[i]->plan, &ret->plan);
        buf_join(&what, " + ", ways[i]->what);
        buf_join(&cost, "; ", ways[i]->cost);
    }
    ret->what = buf_str(&what);
    ret->cost = buf_str(&cost);
    return true;
}

// Whether a tape matches it, and it is enough.
static bool is_enough(struct question *q, const struct answer *answer,
                      struct forecast_remedy *way) {
    const struct plan *now = &answer->plan;
    struct forecast changed;
    struct forecast_tape *t;
    struct forecast_peak peak;
    struct plan plan = way->plan;
    plan.batch = now->batch;
    if (plan.ranks == answer->forecast.plan.ranks) plan.accumulation = now->accumulation;
    const int64_t steps = plan.accumulation;
    FORECAST_ASIDE aside;
    forecast_aside(&aside, &q->tape_cache);
    if (forecast_open(&q->tape_cache, &plan, &changed, NULL) < 0) return false;
    if (forecast_tape(&changed, now->batch, steps, &t, NULL) < 0 || t->is_larger) return false;
    if (forecast_fits(&changed, &answer->card, now->batch, steps, NULL) <= 0) return false;
    if (forecast_at(&changed, &answer->card, now->batch, steps, &peak, NULL) < 0) return false;
    way->plan = changed.plan;
    way->needed_bytes = peak.needed_bytes;
    way->saved_bytes = answer->peak.needed_bytes - peak.needed_bytes;
    way->is_enough = true;
    return true;
}

// The same with fewer samples at a time.
static bool is_enough_smaller(struct question *q, const struct answer *answer,
                              struct forecast_remedy *way) {
    struct question smaller = smaller_question(q, answer);
    struct answer found;
    FORECAST_ASIDE aside;
    forecast_aside(&aside, &smaller.tape_cache);
    apply(&answer->forecast.plan, &way->plan, &smaller.plan);
    if (smaller.range.most < 1) return false;
    if (answer_choose_alone(&smaller, &answer->card, &found, NULL) < 0 || !found.fits) return false;
    struct str batch = batch_words(q, &found, found.plan.batch < q->range.least);
    way->what = str_format(q->arena, "%.*s + %.*s", STR_ARG(batch), STR_ARG(way->what));
    way->plan = found.plan;
    way->needed_bytes = found.peak.needed_bytes;
    way->saved_bytes = answer->peak.needed_bytes - found.peak.needed_bytes;
    way->is_enough = true;
    return true;
}

// The next choice of `count` among `all`, in order; false: that was the last.
static bool next_choice(int *chosen, int count, int all) {
    int at = count - 1;
    while (at >= 0 && chosen[at] == all - count + at) at--;
    if (at < 0) return false;
    chosen[at]++;
    for (int i = at + 1; i < count; i++) chosen[i] = chosen[i - 1] + 1;
    return true;
}

// `count` ways at once, those that are enough; true: there are some.
static bool add_combinations_of(struct question *q, const struct answer *answer, int count,
                                bool is_smaller, const struct forecast_remedies *single,
                                struct forecast_remedies *list) {
    const struct forecast_remedy *ways[COMBINED_MOST];
    int chosen[COMBINED_MOST], found = 0;
    if (count > single->count) return false;
    for (int i = 0; i < count; i++) chosen[i] = i;
    do {
        struct forecast_remedy way;
        for (int i = 0; i < count; i++) ways[i] = &single->items[chosen[i]];
        if (!combine(q, &answer->forecast.plan, ways, count, &way)) continue;
        bool is_found =
            is_smaller ? is_enough_smaller(q, answer, &way) : is_enough(q, answer, &way);
        if (!is_found) continue;
        add(q, list, &way);
        found++;
    } while (found < COMBINATIONS && next_choice(chosen, count, (int)single->count));
    return found > 0;
}

// From what changes the training least on.
static bool add_combinations(struct question *q, const struct answer *answer,
                             const struct forecast_remedies *single,
                             struct forecast_remedies *list) {
    static const struct {
        int count;
        bool is_smaller;
    } steps[] = {{1, true}, {2, false}, {2, true}, {3, false}, {3, true}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (add_combinations_of(q, answer, steps[i].count, steps[i].is_smaller, single, list))
            return true;
    }
    return false;
}

static bool has_way(const struct forecast_remedies *list, struct str what) {
    ptrdiff_t i = 0;
    while (i < list->count && !str_equal(list->items[i].what, what)) i++;
    return i < list->count;
}

// With what saves nothing alone, where all that does is not enough.
static void combine_more(struct question *q, struct answer *answer,
                         const struct forecast_remedies *single, struct forecast_remedies *list) {
    struct forecast_remedies beside, more = {0};
    forecast_remedies_beside(&answer->forecast, &beside);
    for (ptrdiff_t i = 0; i < beside.count; i++)
        if (!has_way(single, beside.items[i].what)) add(q, &more, &beside.items[i]);
    if (more.count == 0) return;
    for (ptrdiff_t i = 0; i < single->count; i++) add(q, &more, &single->items[i]);
    add_combinations(q, answer, &more, list);
}

// The host's memory is asked for where nothing else is enough.
static void combine_ways(struct question *q, struct answer *answer,
                         const struct forecast_remedies *single, struct forecast_remedies *list) {
    struct forecast_remedies here = {0};
    for (ptrdiff_t i = 0; i < single->count; i++)
        if (!single->items[i].is_offload) add(q, &here, &single->items[i]);
    if (add_combinations(q, answer, &here, list)) return;
    if (here.count < single->count && add_combinations(q, answer, single, list)) return;
    combine_more(q, answer, single, list);
}

// --- More GPUs -----------------------------------------------------------------------------------

enum { GPUS_MOST = 256 };

// Of the ways to share that templates have, what a plan that shares nothing would take.
static const struct {
    const char *name, *shard;
} sharings[] = {{"FSDP2", "fsdp2"}, {"FSDP1", "fsdp1"}, {"ZeRO stage 3", "zero3:auto:overlap"}};
enum { SHARINGS = sizeof sharings / sizeof *sharings };

// The plan over n GPUs, of which each holds a part of the weights.
static struct question shared_question(struct question *q, const struct answer *answer, int which,
                                       bool recomputes, int64_t n) {
    struct question more = smaller_question(q, answer);
    struct plan *p = &more.plan;
    const struct plan *base = &answer->plan;
    more.effective = q->effective > 0 && q->effective % n == 0 ? q->effective : 0;
    more.range.least = 1;
    more.range.most = q->plan.batch > base->batch ? q->plan.batch : base->batch;
    p->ranks = n;
    p->checkpointing |= recomputes;
    if (base->shard.len > 0) return more;
    p->shard = str_of(sharings[which].shard);
    if (plan_fsdp(p->shard) == 2) p->precision = PLAN_AMP_BF16;
    return more;
}

// How they share: NULL: as the plan has it already.
static void add_shared(struct question *q, const struct answer *answer, const char *how,
                       const struct answer *found, struct forecast_remedies *list) {
    struct arena *a = q->arena;
    const struct plan *base = &answer->plan, *p = &found->plan;
    struct buf what = buf_new(a), cost = buf_new(a);
    if (p->batch != base->batch || p->accumulation != base->accumulation)
        buf_format(&what, "%.*s + ", STR_ARG(batch_words(q, found, false)));
    if (how)
        buf_format(&what, "%lld GPUs with %s", (long long)plan_devices(p), how);
    else
        buf_format(&what, "%lld GPUs", (long long)plan_devices(p));
    if (p->checkpointing && !base->checkpointing) buf_format(&what, " + gradient checkpointing");
    if (plan_effective(p) == plan_effective(base))
        buf_format(&cost, "the GPUs; weights are gathered in each pass: slower over slow links");
    else
        buf_format(&cost,
                   "the GPUs; weights are gathered in each pass: slower over slow links; the "
                   "effective batch becomes %lld",
                   (long long)plan_effective(p));
    const int64_t beside = found->card.overhead.bytes - answer->card.overhead.bytes,
                  needed = found->peak.needed_bytes + beside; // where `answer` has its own
    const struct forecast_remedy way = {
        .what = buf_str(&what),
        .cost = buf_str(&cost),
        .plan = *p,
        .needed_bytes = needed,
        .saved_bytes = answer->peak.needed_bytes - needed,
        .is_enough = true,
    };
    add(q, list, &way);
}

static bool fits_shared(struct question *q, const struct answer *answer, int which, bool recomputes,
                        int64_t n, struct answer *ret) {
    struct question more = shared_question(q, answer, which, recomputes, n);
    if (plan_lacks(&answer->plan, &more.plan)) return false;
    FORECAST_ASIDE aside;
    struct forecast_card card;
    forecast_aside(&aside, &more.tape_cache);
    question_place(&more, answer->card.gpu, &card); // with what collectives take
    return answer_choose_alone(&more, &card, ret, NULL) == 0 && ret->fits;
}

// The fewest GPUs, a power of two, that share it and on which it fits; false: it fits on none.
static bool add_fewest(struct question *q, const struct answer *answer, int which, bool recomputes,
                       struct forecast_remedies *list) {
    struct answer found;
    if (!fits_shared(q, answer, which, recomputes, GPUS_MOST, &found)) return false;
    for (int64_t n = 2; n <= GPUS_MOST; n *= 2) {
        if (n <= answer->plan.ranks) continue;
        if (!fits_shared(q, answer, which, recomputes, n, &found)) continue;
        add_shared(q, answer, answer->plan.shard.len == 0 ? sharings[which].name : NULL, &found,
                   list);
        return true;
    }
    return false;
}

// Layers that GPUs of one machine split, as torchtitan does: only it, or who has no trainer yet.
static bool may_split(const struct question *q, const struct plan *p) {
    const bool is_its = !q->has_config || str_starts(q->reading.dialect, STR("torchtitan"));
    const bool is_shared = p->shard.len > 0 && plan_fsdp(p->shard) != 2 && !plan_is_titan(p->shard);
    return is_its && !is_shared && p->adapter.len == 0 && p->loss.len == 0;
}

static bool add_split(struct question *q, const struct answer *answer,
                      struct forecast_remedies *list) {
    enum { SPLIT = 8 };
    for (int64_t n = 2; n * SPLIT <= GPUS_MOST; n *= 2) {
        struct question more = shared_question(q, answer, 0, true, n);
        struct plan *p = &more.plan;
        struct answer found;
        FORECAST_ASIDE aside;
        forecast_aside(&aside, &more.tape_cache);
        p->shard = STR("titan");
        p->tensor_parallel = SPLIT;
        p->fused = true;
        p->precision = PLAN_AMP_BF16;
        if (answer_choose_alone(&more, &answer->card, &found, NULL) < 0) return false;
        if (!found.fits) continue;
        add_shared(q, answer, "FSDP2 and --tp 8", &found, list);
        return true;
    }
    return false;
}

// Where one GPU has nothing that is enough.
static void add_more_gpus(struct question *q, struct answer *answer,
                          struct forecast_remedies *list) {
    const struct plan *p = &answer->plan;
    const int ways = p->shard.len > 0 ? 1 : SHARINGS;
    if (p->inference || !answer->forecast.shape || p->tensor_parallel > 1) return;
    answer->gpus_tried = p->ranks > GPUS_MOST ? p->ranks : GPUS_MOST;
    for (int which = 0; which < ways; which++)
        if (add_fewest(q, answer, which, false, list) ||
            (!p->checkpointing && add_fewest(q, answer, which, true, list)))
            return;
    if (may_split(q, p)) (void)add_split(q, answer, list);
}

// Whether short sequences would be enough: --find seq-len finds how long they may be, of the same
// plan, or of one that many GPUs share.
static enum answer_shorter shorter(struct question *q, const struct answer *answer) {
    enum { SHORT = 256 };
    const struct plan *p = &answer->plan;
    struct question other = *q;
    struct forecast changed;
    struct answer found;
    FORECAST_ASIDE aside;
    forecast_aside(&aside, &q->tape_cache);
    other.plan = *p;
    other.plan.sequence_length = SHORT;
    if (p->sequence_length < 4 * SHORT || p->target_length > 0) return ANSWER_SHORTER_NOT;
    if (forecast_open(&q->tape_cache, &other.plan, &changed, NULL) == 0 &&
        forecast_fits(&changed, &answer->card, p->batch, p->accumulation, NULL) > 0)
        return ANSWER_SHORTER_FITS;
    return answer->gpus_tried > 0 && fits_shared(&other, answer, 0, true, GPUS_MOST, &found)
               ? ANSWER_SHORTER_SHARED
               : ANSWER_SHORTER_NOT;
}

// --- All of them ---------------------------------------------------------------------------------

// Without those that ask for another machine's memory.
static ptrdiff_t count_enough(const struct forecast_remedies *list) {
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < list->count; i++)
        count += list->items[i].is_enough && !list->items[i].is_offload;
    return count;
}

static bool has_enough(const struct forecast_remedies *list) {
    ptrdiff_t i = 0;
    while (i < list->count && !list->items[i].is_enough) i++;
    return i < list->count;
}

int answer_ways(struct question *q, struct answer *answer, struct fail *why) {
    struct forecast_remedies single = {0}, all = {0}, sorted = {0};
    const struct plan *p = &answer->plan;
    if (!answer->fits) add_smaller(q, answer, &all);
    int rc = forecast_remedies(&answer->forecast, &answer->card, p->batch, p->accumulation, &single,
                               why);
    if (rc < 0) return rc;
    if (!answer->fits) answer_engine_ways(q, answer, &all);
    for (ptrdiff_t i = 0; i < single.count; i++) add(q, &all, &single.items[i]);
    if (!answer->fits && count_enough(&all) == 0) combine_ways(q, answer, &single, &all);
    if (!answer->fits && !has_enough(&all)) add_more_gpus(q, answer, &all);
    if (!answer->fits && !has_enough(&all)) answer->shorter = shorter(q, answer);
    for (int enough = 1; enough >= 0; enough--) {
        for (ptrdiff_t i = 0; i < all.count; i++) {
            if (all.items[i].is_enough == enough) add(q, &sorted, &all.items[i]);
        }
    }
    answer->remedies = sorted;
    return 0;
}

int answer_choose(struct question *q, const struct forecast_card *card, struct answer *ret,
                  struct fail *why) {
    int rc = answer_choose_alone(q, card, ret, why);
    return rc < 0 || ret->fits ? rc : answer_ways(q, ret, why);
}

int answer_empty(struct question *q, struct answer *answer, bool at_batch, struct fail *why) {
    struct question other = *q; // what it has to say is said already
    const struct plan *p = &answer->plan;
    struct forecast_card card = answer->card;
    struct answer *empty = arena_new(q->arena, struct answer, 1);
    other.notes = (struct str_list){0};
    card.others_bytes = 0;
    int rc = at_batch ? answer_at(&other, &card, p->batch, p->accumulation, empty, why)
                      : answer_choose_alone(&other, &card, empty, why);
    if (rc == 0) answer->empty = empty;
    return rc;
}
