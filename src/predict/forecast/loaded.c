// SPDX-License-Identifier: Apache-2.0
// Tapes in memory. A replay costs most of the time of an answer, and most of what is asked was
// answered by an earlier one: both kinds of answers are kept, the latest few of each.
#include "predict/forecast/forecast_int.h"

// The exact least capacity took 19 replays at the median and 133 at most (282 tapes and batches).
enum { KEPT = 16, NEED_REPLAYS = 20 };

// One replay's outcome holds for every capacity in between (struct sim_result).
struct outcome {
    int64_t batch, classes, from_bytes, below_bytes;
    bool oom;
};

struct forecast_loaded {
    const struct tape_entry *entry;
    struct tape tape;
    struct sim *sim;
    struct sim *pessimist; // with the kernels' scratch; NULL when the tape has none
    struct outcome outcomes[KEPT];
    struct forecast_figures figures[KEPT];
    int next_outcome, next_figures;
};

int forecast_load(struct forecast_cache *cache, const struct tape_entry *entry,
                  struct forecast_loaded **ret_loaded, struct fail *why) {
    for (ptrdiff_t i = 0; i < cache->count; i++) {
        if (cache->items[i]->entry != entry) continue;
        *ret_loaded = cache->items[i];
        return 0;
    }
    struct forecast_loaded *l = arena_new(cache->arena, struct forecast_loaded, 1);
    int rc = tape_store_load(cache->arena, cache->store, entry, &l->tape, why);
    if (rc < 0) return rc;
    struct sim_options pessimistic = cache->options;
    pessimistic.scratch = true;
    l->entry = entry;
    l->sim = sim_prepare(cache->arena, &l->tape, &cache->options);
    if (l->tape.scratch_count > 0) l->pessimist = sim_prepare(cache->arena, &l->tape, &pessimistic);
    *arena_push(cache->arena, &cache->items, &cache->count, &cache->capacity) = l;
    *ret_loaded = l;
    return 0;
}

const struct tape *forecast_loaded_tape(const struct forecast_loaded *loaded) {
    return &loaded->tape;
}
struct sim *forecast_loaded_sim(const struct forecast_loaded *loaded) {
    return loaded->sim;
}

static struct sim_result replay(struct forecast_loaded *l, int64_t batch, int64_t classes,
                                int64_t capacity) {
    struct sim_result r;
    sim_replay(l->sim, batch, classes, capacity, &r);
    l->outcomes[l->next_outcome] =
        (struct outcome){batch, classes, r.same_from_bytes, r.same_below_bytes, r.oom};
    l->next_outcome = (l->next_outcome + 1) % KEPT;
    return r;
}

bool forecast_runs(struct forecast_loaded *l, int64_t batch, int64_t classes, int64_t capacity) {
    if (capacity <= 0) return false;
    for (int i = 0; i < KEPT; i++) {
        const struct outcome *o = &l->outcomes[i];
        bool same = o->batch == batch && o->classes == classes;
        if (same && capacity >= o->from_bytes && capacity < o->below_bytes) return !o->oom;
    }
    return !replay(l, batch, classes, capacity).oom;
}

struct forecast_figures forecast_figures(struct forecast_loaded *l, int64_t batch,
                                         int64_t classes) {
    for (int i = 0; i < KEPT; i++) {
        const struct forecast_figures *f = &l->figures[i];
        if (f->batch == batch && f->classes == classes) return *f;
    }
    struct sim_need need;
    struct sim_result run = replay(l, batch, classes, SIM_UNLIMITED), scratch = run;
    sim_needed(l->sim, batch, classes, NEED_REPLAYS, &need);
    if (l->pessimist) sim_replay(l->pessimist, batch, classes, SIM_UNLIMITED, &scratch);
    const struct forecast_figures figures = {
        .batch = batch,
        .classes = classes,
        .allocated_bytes = run.allocated_bytes,
        .reserved_bytes = run.reserved_bytes,
        .needed_bytes = need.needed_bytes,
        .needed_is_exact = need.needed_exact,
        .scratch_bytes = scratch.reserved_bytes,
    };
    l->figures[l->next_figures] = figures;
    l->next_figures = (l->next_figures + 1) % KEPT;
    return figures;
}
