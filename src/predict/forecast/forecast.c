// SPDX-License-Identifier: Apache-2.0
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// The share by which a reading of the whole GPU may lie above the prediction: 97.5 % of the
// published A100 readings do not (doc/accuracy.md, timm_device_max_a100_40g.csv).
static const double band = 0.08;
// The same of a compiled tape: 28 published readings lie within 2 % of it, all of torch 2.6 to 2.8,
// and Inductor's plan differs from one version of torch to the next.
static const double compiled_band = 0.12;
const char forecast_band_source[] =
    "39 of 40 published readings (2,580, A100) lie below the prediction + 8 %";

// Where the outcome is looked at below the capacity: fit is not monotone, and the prediction errs
// by some percent (facts in doc/accuracy.md).
static const double shortfalls[] = {0.03, 0.015, 0};
enum { SHORTFALLS = sizeof shortfalls / sizeof *shortfalls };

int64_t forecast_capacity(const struct forecast_card *card) {
    return card->gpu.usable_bytes - card->overhead.bytes - card->others_bytes;
}

int64_t forecast_budget(const struct forecast_card *card) {
    double kept = (double)card->gpu.usable_bytes * (1 - card->margin);
    return (int64_t)kept - card->overhead.bytes - card->others_bytes;
}

const char *forecast_verdict_name(enum forecast_verdict verdict) {
    static const char *const names[] = {"FITS", "AT RISK", "OOM"};
    return names[verdict];
}

static struct str sizes_there(struct arena *a, const struct tape_store *store,
                              const struct forecast_model *m) {
    struct buf text = buf_new(a);
    const struct tape_entry *any = NULL; // a template
    int64_t image = 0, sequence = 0;
    ptrdiff_t at = 0;
    for (const struct tape_entry *e; (e = tape_store_next(store, m->name, &at));) {
        const struct tape_header *h = &e->header;
        if (e->image.most > 0) {
            any = e;
            continue;
        }
        if (h->image_size > 0 && h->image_size != image) {
            buf_format(&text, "%s%lld px", text.count ? ", " : "", (long long)h->image_size);
        } else if (h->sequence_length > 0 && h->sequence_length != sequence) {
            buf_format(&text, "%s%lld tokens", text.count ? ", " : "",
                       (long long)h->sequence_length);
        }
        image = h->image_size;
        sequence = h->sequence_length;
    }
    if (any)
        buf_format(&text, ", every %lld px from %lld to %lld", (long long)any->image.step,
                   (long long)any->image.least, (long long)any->image.most);
    return buf_str(&text);
}

static int no_tape(struct forecast *f, const struct plan *p, const char *obstacle,
                   struct fail *why) {
    if (!why) return FAIL_INPUT;
    struct str there = sizes_there(f->arena, f->cache->store, &f->model);
    if (there.len > 0) there = str_format(f->arena, " (there are tapes for %.*s)", STR_ARG(there));
    fail_set(why, FAIL_INPUT, "%.*s: no tape for that %s%.*s", STR_ARG(f->model.name),
             obstacle ? obstacle : "setting", STR_ARG(there));
    if (p->shard.len > 0) return forecast_shard_hint(f, p, (struct str){0}, why);
    if (p->precision == PLAN_FP16 && !p->inference)
        return fail_hint(why, "fp16 alone is for inference: training takes amp-fp16");
    return fail_hint(why, "add it with: %.*s",
                     STR_ARG(forecast_record_command(f->arena, p, &f->model)));
}

static int load_recording(struct forecast *f, const struct plan *p, struct forecast_tape *t,
                          struct fail *why) {
    int64_t size = forecast_size_of(t->entry, forecast_image_size(p, &f->model));
    struct tape_scores scores = forecast_scores(p, f->shape);
    if (scores.tokens > 0 && t->entry->header.sequence_length > 0)
        scores.tokens = t->entry->header.sequence_length;
    int rc = forecast_load(f->cache, t->entry, size, &scores, p->expandable, &t->loaded, why);
    if (rc < 0) return rc;
    if (t->entry->image.most > 0) {
        struct tape_entry *made = arena_new(f->arena, struct tape_entry, 1);
        *made = *t->entry;
        made->header.image_size = size;
        t->entry = made;
    }
    t->tape = forecast_loaded_tape(t->loaded);
    t->sim = forecast_loaded_sim(t->loaded);
    forecast_match_notes(f->arena, p, t);
    return 0;
}

// A recording of just this comes first; a template is nearer than a recording that stands in.
static int find_tape(struct forecast *f, const struct plan *p, bool is_single,
                     struct forecast_tape *t, struct fail *why) {
    const char *obstacle = NULL;
    bool writes_on = p->generates && f->shape && str_is(f->shape->kind, "decoder");
    bool may_be_filled = f->shape && (!p->inference || writes_on);
    int rc = 0;
    bool has_tapes = !str_equal(f->model.name, f->cache->unrecorded);
    bool is_unrecorded = forecast_is_own(f->cache, p->model) && f->cache->own_recorded.len == 0;
    if (!is_unrecorded && has_tapes)
        t->entry = forecast_match(f->cache->store, p, &f->model, &obstacle);
    if (!t->entry && !obstacle) f->cache->unrecorded = f->model.name;
    if (t->entry) rc = load_recording(f, p, t, why);
    if (rc < 0 || (t->entry && !t->is_upper_bound)) return rc;
    if (may_be_filled && forecast_fill_template(f, p, is_single, t, t->entry ? NULL : why) == 0)
        return 0;
    if (t->entry) return 0;
    return may_be_filled ? FAIL_INPUT : no_tape(f, p, obstacle, why);
}

struct forecast_tape *forecast_tape_known(const struct forecast *f, int64_t batch,
                                          int64_t accumulation) {
    return f->tapes[accumulation > 1][batch == 1 && f->shape];
}

// DistributedDataParallel reduces the gradients in buckets, which are a second copy of them for as
// long as it lives (torch/csrc/distributed/c10d/reducer.cpp, initialize_buckets).
static void add_buckets(struct forecast *f, struct forecast_tape *t) {
    if (f->plan.ranks < 2 || f->plan.inference || f->plan.shard.len > 0) return;
    int64_t bytes = forecast_gradient_bytes(t->tape);
    t->extra_bytes += bytes;
    str_list_format(f->arena, &t->notes,
                    "DDP over %lld GPUs: its buckets hold a copy of the gradients, %.*s, which is "
                    "added; gradient_as_bucket_view=True saves it",
                    (long long)f->plan.ranks, STR_ARG(unit_bytes(f->arena, bytes)));
}

bool forecast_counts_frozen(struct forecast *f) {
    struct forecast_tape *t;
    return plan_is_wide(&f->plan) &&
           forecast_tape(f, f->plan.batch, f->plan.accumulation, &t, NULL) == 0 &&
           forecast_has_wide(t);
}

// To a tape that has frozen weights in two bytes; the adapter itself, whose gradients are as large
// as it is, is in fp32.
static void add_frozen(struct forecast *f, struct forecast_tape *t) {
    if (!plan_is_wide(&f->plan) || forecast_has_wide(t)) return;
    int64_t bytes = forecast_weight_bytes(t->tape) - forecast_gradient_bytes(t->tape);
    t->extra_bytes += bytes;
    str_list_format(f->arena, &t->notes,
                    "frozen weights in fp32: the other two bytes of each, %.*s, are added; their "
                    "copies in bf16 for autocast, and what is kept in fp32 between the layers, are "
                    "not counted",
                    STR_ARG(unit_bytes(f->arena, bytes)));
}

// A work space of cuBLAS is 8.1 MiB, as tapes that were recorded without a GPU have it, and 32 MiB
// from compute capability 9.0 on, where 10.0 and later have it in newer versions of torch only
// (aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize).
enum { LARGE_WORKSPACES_FROM = 90, LARGE_WORKSPACE = 32 << 20 };

int forecast_tape(struct forecast *f, int64_t batch, int64_t accumulation,
                  struct forecast_tape **ret_tape, struct fail *why) {
    *ret_tape = forecast_tape_known(f, batch, accumulation);
    if (*ret_tape) return 0;
    struct plan plan = f->plan;
    plan.accumulation = accumulation;
    struct forecast_tape *t = arena_new(f->arena, struct forecast_tape, 1);
    int rc = find_tape(f, &plan, batch == 1, t, why);
    if (rc == 0) add_buckets(f, t);
    if (rc == 0) add_frozen(f, t);
    if (rc == 0) forecast_note_compile(f, t);
    if (rc == 0) forecast_note_scores(f, t);
    if (rc == 0) t->workspace_bytes = forecast_workspace_bytes(t->tape, LARGE_WORKSPACE);
    if (rc == 0) f->tapes[accumulation > 1][batch == 1 && f->shape] = *ret_tape = t;
    return rc;
}

static void settle(int64_t *size, int64_t of_tape, bool is_other_known) {
    if (*size <= 0 && of_tape > 0) *size = of_tape;
    if (of_tape <= 0 && is_other_known) *size = 0;
}

// What the plan leaves open is what its tape says: the usual size of a model is the one its alias
// names, else that of its first tape. A size that the model does not have is none: where a tape
// says tokens and no pixels, it takes no images.
static void settle_sizes(struct forecast *f, const struct tape_header *h) {
    struct plan *p = &f->plan;
    settle(&p->image_size, h->image_size, h->sequence_length > 0);
    settle(&p->sequence_length, h->sequence_length, h->image_size > 0);
    settle(&p->target_length, h->target_length, h->sequence_length > 0 || h->image_size > 0);
    if (p->optimizer.len == 0 && !p->inference) p->optimizer = str_copy(f->arena, h->optimizer);
}

// A plan is opened in many ways, of the same model.
static int find_model(struct forecast_cache *cache, struct str spelled,
                      struct forecast_model *ret_model) {
    if (!str_equal(spelled, cache->asked) || !cache->asked.p) {
        cache->asked = spelled;
        cache->model = (struct forecast_model){0};
        cache->model_code =
            forecast_find_model(cache->arena, cache->store, spelled, &cache->model, NULL);
    }
    *ret_model = cache->model;
    return cache->model_code;
}

int forecast_open(struct forecast_cache *cache, const struct plan *plan,
                  struct forecast *ret_forecast, struct fail *why) {
    struct forecast f = {.arena = cache->arena, .cache = cache, .plan = *plan};
    bool is_own = forecast_is_own(cache, plan->model);
    int found = FAIL_INPUT;
    if (!is_own) found = find_model(cache, plan->model, &f.model);
    int rc = forecast_shape(cache, plan->model, &f.shape, why);
    if (rc < 0) return rc;
    if (found < 0 && !f.shape) {
        if (is_own) return fail_set(why, FAIL_INPUT, "%.*s: no template", STR_ARG(plan->model));
        return forecast_find_model(f.arena, cache->store, plan->model, &f.model, why);
    }
    if (is_own && cache->own_recorded.len > 0) {
        f.model = (struct forecast_model){.name = cache->own_recorded};
    } else if (found < 0) {
        // A builder of torchtune's is recorded by the model whose shape it has.
        bool is_like = is_own && f.shape->ids.len > 0;
        struct str name = is_like ? shape_id(f.shape) : plan->model;
        bool has_library = str_starts(name, STR("hf:"));
        f.model = (struct forecast_model){
            .name = str_format(f.arena, "%s%.*s", has_library ? "" : "hf:", STR_ARG(name))};
    }
    if (f.plan.image_size <= 0) f.plan.image_size = f.model.image_size;
    struct forecast_tape *t;
    rc = forecast_tape(&f, plan->batch, plan->accumulation, &t, why);
    if (rc < 0) return rc;
    settle_sizes(&f, &t->entry->header);
    *ret_forecast = f;
    return 0;
}

struct forecast_rules forecast_rules(void) {
    struct forecast_rules rules = {.need_replays = FORECAST_NEED_REPLAYS};
    for (int i = 0; i < SHORTFALLS; i++) rules.shortfalls[i] = shortfalls[i];
    return rules;
}

// Of a large tape *needed is a capacity that does with one just below it that fails, and others
// farther below may do (sim_need): what is seen to run needs no more than where it runs.
// That it fails at the capacity while it does with less is no OOM: it would be one where a smaller
// GPU is none, and the prediction errs by more than such gaps are wide.
static enum forecast_verdict verdict_at(const struct forecast *f, struct forecast_tape *t,
                                        int64_t batch, int64_t capacity, int64_t *needed,
                                        bool *ret_is_in_gap) {
    enum forecast_verdict verdict = FORECAST_FITS;
    for (int i = 0; i < SHORTFALLS; i++) {
        const int64_t least = (int64_t)((double)capacity * (1 - shortfalls[i]));
        if (!forecast_runs(t->loaded, batch, f->plan.classes, least)) {
            verdict = shortfalls[i] > 0 ? FORECAST_AT_RISK : FORECAST_OOM;
            continue;
        }
        const int64_t from = forecast_runs_from(t->loaded, batch, f->plan.classes, least);
        if (from < *needed) *needed = from;
    }
    *ret_is_in_gap = verdict == FORECAST_OOM && *needed <= capacity;
    return *ret_is_in_gap ? FORECAST_AT_RISK : verdict;
}

// Does it run at the capacity, and with less, up to the share that is to be left free? Who leaves
// nothing free wants the largest batch that is expected to run.
static bool runs_with_less(const struct forecast *f, struct forecast_tape *t, int64_t batch,
                           int64_t capacity, double margin) {
    for (int i = 0; i < SHORTFALLS; i++) {
        int64_t least = (int64_t)((double)capacity * (1 - shortfalls[i]));
        if (shortfalls[i] <= margin && !forecast_runs(t->loaded, batch, f->plan.classes, least))
            return false;
    }
    return true;
}

enum { NODE = 8 }; // GPUs of a machine where nobody says it

struct forecast_host forecast_host(const struct forecast *f, const struct forecast_card *card,
                                   const struct forecast_tape *t) {
    const struct tape_header *h = &t->tape->header;
    const int64_t most = card->host_gpus > 0 ? card->host_gpus : NODE;
    struct forecast_host host = {.rank_bytes = h->host_bytes, .pinned_bytes = h->host_pinned_bytes};
    if (h->host_bytes <= 0) return (struct forecast_host){0};
    host.ranks = f->plan.ranks < 1 ? 1 : f->plan.ranks < most ? f->plan.ranks : most;
    host.bytes = host.ranks * host.rank_bytes;
    return host;
}

static bool host_has_room(const struct forecast *f, const struct forecast_card *card,
                          const struct forecast_tape *t) {
    return card->host_bytes <= 0 || forecast_host(f, card, t).bytes <= card->host_bytes;
}

int64_t forecast_extra(const struct forecast_card *card, const struct forecast_tape *t) {
    const int64_t shared = card->gpu.is_unified ? t->tape->header.host_bytes : 0;
    if (card->gpu.compute_capability < LARGE_WORKSPACES_FROM) return t->extra_bytes + shared;
    return t->extra_bytes + t->workspace_bytes + shared;
}

// So much of the allocator's memory as the tape would take if it were right: what a correction says
// that is needed more is not there for the replay.
static int64_t room(const struct forecast_card *card, int64_t bytes,
                    const struct forecast_tape *t) {
    double factor = card->correction.runs > 0 ? card->correction.fit_factor : 1;
    return (int64_t)((double)bytes / factor) - forecast_extra(card, t);
}

// The point, and the end of the band with it.
static void correct(const struct forecast_card *card, struct forecast_peak *peak) {
    const struct forecast_correction *c = &card->correction;
    if (c->runs <= 0) return;
    peak->upper_bytes =
        (int64_t)((double)peak->reserved_bytes * c->upper_factor) + card->overhead.high_bytes;
    peak->allocated_bytes = (int64_t)((double)peak->allocated_bytes * c->factor);
    peak->reserved_bytes = (int64_t)((double)peak->reserved_bytes * c->factor);
    peak->needed_bytes = (int64_t)((double)peak->needed_bytes * c->factor);
}

int forecast_at(struct forecast *f, const struct forecast_card *card, int64_t batch,
                int64_t accumulation, struct forecast_peak *ret_peak, struct fail *why) {
    struct forecast_tape *t;
    int rc = forecast_tape(f, batch, accumulation, &t, why);
    if (rc < 0) return rc;
    struct forecast_figures figures = forecast_figures(t->loaded, batch, f->plan.classes);
    if (figures.is_beyond)
        return fail_set(why, FAIL_INPUT, "batch %lld needs more than 4 EiB, which is not counted",
                        (long long)batch);
    const double errs = t->tape->header.compile.len > 0 ? compiled_band : band;
    const int64_t extra = forecast_extra(card, t);
    int64_t most = figures.scratch_bytes > figures.reserved_bytes ? figures.scratch_bytes
                                                                  : figures.reserved_bytes;
    bool is_in_gap;
    const enum forecast_verdict verdict = verdict_at(
        f, t, batch, room(card, forecast_capacity(card), t), &figures.needed_bytes, &is_in_gap);
    *ret_peak = (struct forecast_peak){
        .allocated_bytes = figures.allocated_bytes + extra,
        .reserved_bytes = figures.reserved_bytes + extra,
        .needed_bytes = figures.needed_bytes + extra,
        .needed_is_exact = figures.needed_is_exact,
        .overhead_bytes = card->overhead.bytes,
        .upper_bytes = (int64_t)((double)(most + extra) * (1 + errs)) + card->overhead.high_bytes,
        .verdict = verdict,
        .is_in_gap = is_in_gap,
    };
    if (!host_has_room(f, card, t)) {
        ret_peak->verdict = FORECAST_OOM;
        ret_peak->is_in_gap = false;
    }
    correct(card, ret_peak);
    return 0;
}

int forecast_fits(struct forecast *f, const struct forecast_card *card, int64_t batch,
                  int64_t accumulation, struct fail *why) {
    struct forecast_tape *t;
    int rc = forecast_tape(f, batch, accumulation, &t, why);
    if (rc < 0) return rc;
    int64_t budget = room(card, forecast_budget(card), t);
    if (!host_has_room(f, card, t)) return 0;
    if (!forecast_runs(t->loaded, batch, f->plan.classes, budget)) return 0;
    return runs_with_less(f, t, batch, room(card, forecast_capacity(card), t), card->margin);
}

bool forecast_may_fit(struct forecast *f, const struct forecast_card *card, int64_t batch,
                      int64_t accumulation) {
    struct forecast_tape *t;
    if (forecast_tape(f, batch, accumulation, &t, NULL) < 0) return true; // forecast_fits says why
    return sim_live_within(t->sim, batch, f->plan.classes, room(card, forecast_budget(card), t));
}
