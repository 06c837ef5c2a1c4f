// SPDX-License-Identifier: Apache-2.0
#include "forecast/forecast_int.h"

// The share by which published device peaks lie above the prediction in the worst tenth of the rows
// (doc/accuracy.md says which rows, and by which command).
const double forecast_band = 0.08;
const char forecast_band_source[] =
    "nine in ten of 366 published A100 readings lie within 8 % (doc/accuracy.md)";

// Where the outcome is looked at below the capacity: fit is not monotone, and the prediction errs by
// some percent (facts in doc/accuracy.md).
static const double shortfalls[] = {0.03, 0.015, 0};
enum { SHORTFALLS = sizeof shortfalls / sizeof *shortfalls, NEED_REPLAYS = 300 };

int64_t forecast_capacity(const struct forecast_card *card) {
    return card->gpu.usable_bytes - card->overhead.bytes - card->tenants_bytes;
}

int64_t forecast_budget(const struct forecast_card *card) {
    double kept = (double)card->gpu.usable_bytes * (1 - card->margin);
    return (int64_t)kept - card->overhead.bytes - card->tenants_bytes;
}

const char *forecast_verdict_name(enum forecast_verdict verdict) {
    static const char *const names[] = {"FITS", "AT RISK", "OOM"};
    return names[verdict];
}

static struct str sizes_there(struct arena *a, const struct tape_store *store,
                              const struct forecast_model *m) {
    struct buf text = buf_new(a);
    int64_t image = 0, sequence = 0;
    for (ptrdiff_t i = 0; i < store->count; i++) {
        const struct tape_header *h = &store->entries[i].header;
        if (!tape_entry_is_model(&store->entries[i], m->name)) continue;
        if (h->image_size > 0 && h->image_size != image) {
            buf_format(&text, "%s%lld px", text.count ? ", " : "", (long long)h->image_size);
        } else if (h->sequence_length > 0 && h->sequence_length != sequence) {
            buf_format(&text, "%s%lld tokens", text.count ? ", " : "",
                       (long long)h->sequence_length);
        }
        image = h->image_size;
        sequence = h->sequence_length;
    }
    return buf_str(&text);
}

static struct str record_command(struct arena *a, const struct plan *p,
                                 const struct forecast_model *m) {
    struct buf text = buf_new(a);
    buf_format(&text, "batchfit record %.*s --precision %s", STR_ARG(m->name),
               plan_precision_name(p->precision ? p->precision : PLAN_FP32));
    if (p->optimizer.len > 0) buf_format(&text, " --optimizer %.*s", STR_ARG(p->optimizer));
    if (p->image_size > 0) buf_format(&text, " --img-size %lld", (long long)p->image_size);
    if (p->sequence_length > 0) buf_format(&text, " --seq-len %lld", (long long)p->sequence_length);
    if (p->target_length > 0) buf_format(&text, " --target-len %lld", (long long)p->target_length);
    if (p->accumulation > 1) buf_add(&text, STR(" --accumulation 2"));
    if (p->checkpointing) buf_add(&text, STR(" --checkpointing"));
    if (p->inference) buf_add(&text, STR(" --mode inference"));
    return buf_str(&text);
}

static int no_tape(struct forecast *f, const struct plan *p, const char *obstacle,
                   struct fail *why) {
    fail_set(why, FAIL_INPUT, "%.*s: no tape with that %s (there are tapes at %.*s)",
             STR_ARG(f->model.name), obstacle ? obstacle : "setting",
             STR_ARG(sizes_there(f->arena, f->store, &f->model)));
    return fail_hint(why, "this adds it: %.*s", STR_ARG(record_command(f->arena, p, &f->model)));
}

int forecast_tape(struct forecast *f, int64_t accumulation, struct forecast_tape **ret_tape,
                  struct fail *why) {
    struct forecast_tape **slot = &f->tapes[accumulation > 1];
    *ret_tape = *slot;
    if (*slot) return 0;
    struct plan plan = f->plan;
    plan.accumulation = accumulation;
    const char *obstacle;
    struct forecast_tape *t = arena_new(f->arena, struct forecast_tape, 1);
    t->entry = forecast_match(f->store, &plan, &f->model, &obstacle);
    if (!t->entry) return no_tape(f, &plan, obstacle, why);
    int rc = tape_store_load(f->arena, f->store, t->entry, &t->tape, why);
    if (rc < 0) return rc;
    forecast_match_notes(f->arena, &plan, t);
    t->sim = sim_prepare(f->arena, &t->tape, &f->options);
    struct sim_options pessimistic = f->options;
    pessimistic.scratch = true;
    if (t->tape.scratch_count > 0) t->pessimist = sim_prepare(f->arena, &t->tape, &pessimistic);
    *slot = *ret_tape = t;
    return 0;
}

// The usual size of a model is the one its alias names, else that of its first tape.
static void fill_sizes(struct forecast *f, const struct tape_header *h) {
    if (f->plan.image_size <= 0 && h->image_size > 0) f->plan.image_size = h->image_size;
    if (f->plan.sequence_length <= 0 && h->sequence_length > 0) {
        f->plan.sequence_length = h->sequence_length;
    }
    if (f->plan.target_length <= 0 && h->target_length > 0) {
        f->plan.target_length = h->target_length;
    }
}

int forecast_open(struct arena *a, const struct tape_store *store, const struct plan *plan,
                  const struct sim_options *options, struct forecast *ret_forecast,
                  struct fail *why) {
    struct forecast f = {.arena = a, .store = store, .plan = *plan, .options = *options};
    int rc = forecast_find_model(a, store, plan->model, &f.model, why);
    if (rc < 0) return rc;
    if (f.plan.image_size <= 0) f.plan.image_size = f.model.image_size;
    struct forecast_tape *t;
    rc = forecast_tape(&f, plan->accumulation, &t, why);
    if (rc < 0) return rc;
    fill_sizes(&f, &t->entry->header);
    *ret_forecast = f;
    return 0;
}

static void remember(struct forecast_tape *t, int64_t batch, const struct sim_result *r) {
    t->outcomes[t->next_outcome] =
        (struct forecast_outcome){batch, r->same_from_bytes, r->same_below_bytes, r->oom};
    t->next_outcome = (t->next_outcome + 1) % FORECAST_OUTCOMES;
}

// A replay costs most of the time here, and most capacities that are asked about were answered by
// an earlier one.
static bool runs(const struct forecast *f, struct forecast_tape *t, int64_t batch,
                 int64_t capacity) {
    if (capacity <= 0) return false;
    for (int i = 0; i < FORECAST_OUTCOMES; i++) {
        const struct forecast_outcome *o = &t->outcomes[i];
        bool known = o->batch == batch && capacity >= o->from_bytes && capacity < o->below_bytes;
        if (known) return !o->oom;
    }
    struct sim_result result;
    sim_replay(t->sim, batch, f->plan.classes, capacity, &result);
    remember(t, batch, &result);
    return !result.oom;
}

static enum forecast_verdict verdict_at(const struct forecast *f, struct forecast_tape *t,
                                        int64_t batch, int64_t capacity) {
    enum forecast_verdict verdict = FORECAST_FITS;
    for (int i = 0; i < SHORTFALLS; i++) {
        int64_t least = (int64_t)((double)capacity * (1 - shortfalls[i]));
        if (runs(f, t, batch, least)) continue;
        verdict = shortfalls[i] > 0 ? FORECAST_AT_RISK : FORECAST_OOM;
    }
    return verdict;
}

static int64_t upper(const struct forecast *f, const struct forecast_tape *t,
                     const struct forecast_card *card, int64_t batch, int64_t reserved) {
    if (t->pessimist) {
        struct sim_result result;
        sim_replay(t->pessimist, batch, f->plan.classes, SIM_UNLIMITED, &result);
        if (result.reserved_bytes > reserved) reserved = result.reserved_bytes;
    }
    double most = (double)(reserved + t->extra_bytes) * (1 + forecast_band);
    return (int64_t)most + card->overhead.high_bytes;
}

int forecast_at(struct forecast *f, const struct forecast_card *card, int64_t batch,
                int64_t accumulation, struct forecast_peak *ret_peak, struct fail *why) {
    struct forecast_tape *t;
    int rc = forecast_tape(f, accumulation, &t, why);
    if (rc < 0) return rc;
    struct sim_result free_run;
    struct sim_need need;
    sim_replay(t->sim, batch, f->plan.classes, SIM_UNLIMITED, &free_run);
    remember(t, batch, &free_run);
    sim_needed_least(t->sim, batch, f->plan.classes, NEED_REPLAYS, &need);
    *ret_peak = (struct forecast_peak){
        .allocated_bytes = free_run.allocated_bytes + t->extra_bytes,
        .reserved_bytes = free_run.reserved_bytes + t->extra_bytes,
        .needed_bytes = need.needed_bytes + t->extra_bytes,
        .needed_is_exact = need.needed_exact,
        .overhead_bytes = card->overhead.bytes,
        .upper_bytes = upper(f, t, card, batch, free_run.reserved_bytes),
        .verdict = verdict_at(f, t, batch, forecast_capacity(card) - t->extra_bytes),
    };
    return 0;
}

int forecast_fits(struct forecast *f, const struct forecast_card *card, int64_t batch,
                  int64_t accumulation, struct fail *why) {
    struct forecast_tape *t;
    int rc = forecast_tape(f, accumulation, &t, why);
    if (rc < 0) return rc;
    if (!runs(f, t, batch, forecast_budget(card) - t->extra_bytes)) return 0;
    int64_t capacity = forecast_capacity(card) - t->extra_bytes;
    return verdict_at(f, t, batch, capacity) == FORECAST_FITS;
}

bool forecast_may_fit(struct forecast *f, const struct forecast_card *card, int64_t batch,
                      int64_t accumulation) {
    struct forecast_tape *t;
    if (forecast_tape(f, accumulation, &t, NULL) < 0) return true; // forecast_fits says why
    return sim_live_peak(t->sim, batch, f->plan.classes) <= forecast_budget(card) - t->extra_bytes;
}
