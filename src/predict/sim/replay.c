// SPDX-License-Identifier: Apache-2.0
// A tape through the allocator. All that does not depend on the batch is prepared once: what each
// event does and, in place of ids, slots that are used again so that few of them stay in the cache.
#include "predict/sim/sim_int.h"

static uint32_t todo_of(const struct tape *t, const struct tape_event *e, int32_t slot) {
    enum sim_do what = SIM_DO_OTHER;
    if (e->kind == TAPE_FREE) what = SIM_DO_FREE;
    if (e->kind == TAPE_ALLOC) {
        what = t->allocs[e->index].stream > 0 ? SIM_DO_ALLOC_SIDE : SIM_DO_ALLOC;
    }
    return (uint32_t)slot << 2 | what;
}

static void assign_slots(struct sim *s, struct arena *scratch) {
    const struct tape *t = s->tape;
    int32_t *slots = arena_new_raw(scratch, int32_t, t->alloc_count);
    int32_t *spare = arena_new_raw(scratch, int32_t, t->alloc_count), spare_count = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        int32_t slot = 0;
        if (e->kind == TAPE_ALLOC) {
            slot = spare_count > 0 ? spare[--spare_count] : s->slot_count++;
            slots[e->index] = slot;
        } else if (e->kind == TAPE_FREE) {
            slot = spare[spare_count++] = slots[e->index];
        }
        s->todo[i] = todo_of(t, e, slot);
    }
}

static void copy_sizes(struct sim *s) {
    for (int32_t i = 0; i < s->tape->alloc_count; i++) {
        const struct tape_alloc *x = &s->tape->allocs[i];
        s->c[i] = x->c;
        s->k[i] = x->k;
        if (x->c > s->c_most) s->c_most = x->c;
        if (x->k > s->k_most) s->k_most = x->k;
        if ((x->cn | x->kn) != 0) s->sloped[s->sloped_count++] = i;
    }
}

struct sim *sim_prepare(struct arena *a, const struct tape *t, const struct sim_options *options) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct sim *s = arena_new(a, struct sim, 1);
    s->arena = a;
    s->tape = t;
    s->batch = INT64_MIN; // no sizes yet
    s->todo = arena_new_raw(a, uint32_t, t->event_count);
    s->sizes = arena_new_raw(a, int64_t, t->alloc_count);
    s->c = arena_new_raw(a, int64_t, t->alloc_count);
    s->k = arena_new_raw(a, int64_t, t->alloc_count);
    s->sloped = arena_new_raw(a, int32_t, t->alloc_count);
    copy_sizes(s);
    assign_slots(s, &scratch);
    s->blocks = arena_new(a, int32_t, s->slot_count);
    int32_t marks = 1; // and what comes before the first mark
    for (int32_t i = 0; i < t->event_count; i++) marks += t->events[i].kind == TAPE_MARK;
    s->phase_most = marks;
    s->phases = arena_new(a, struct sim_phase, marks);
    sim_cache_init(&s->cache, a, options, t->stream_count);
    return s;
}

bool sim_rounds_to_512(const struct sim_options *o) {
    for (int i = 0; i < 16; i++) {
        if (o->roundup_divisions[i] > 1) return false;
    }
    return true;
}

bool sim_sizes_are_affine(const struct sim *s, int64_t batch) {
    return (__int128)s->k_most * batch + s->c_most < TAPE_SIZE_MAX && batch >= 1;
}

static void affine_sizes(struct sim *s, int64_t batch, int64_t classes) {
    const struct tape *t = s->tape;
    int64_t *sizes = s->sizes;
    const int64_t *c = s->c, *k = s->k;
    if (!sim_sizes_are_affine(s, batch)) {
        tape_sizes(t, batch, classes, sizes);
        return;
    }
    const int32_t count = t->alloc_count;
    for (int32_t i = 0; i < count; i++) sizes[i] = c[i] + k[i] * batch;
    for (int32_t j = 0; j < s->sloped_count; j++) {
        int32_t i = s->sloped[j];
        sizes[i] = tape_size(t, &t->allocs[i], batch, classes);
    }
}

void sim_size_for(struct sim *s, int64_t batch, int64_t classes) {
    if (s->batch == batch && s->classes == classes) return;
    affine_sizes(s, batch, classes);
    const struct sim_options *o = &s->cache.options;
    const int32_t count = s->tape->alloc_count;
    int64_t *sizes = s->sizes;
    if (sim_rounds_to_512(o)) {
        for (int32_t i = 0; i < count; i++) sizes[i] = (sizes[i] + 511) & ~INT64_C(511);
    } else {
        for (int32_t i = 0; i < count; i++) sizes[i] = sim_cache_round_size(o, sizes[i]);
    }
    s->batch = batch;
    s->classes = classes;
    s->last.events = 0;
}

static void end_phase(struct sim_course *r) {
    struct sim_result *x = r->result;
    if (r->phase->allocated_bytes > x->allocated_bytes) {
        x->allocated_bytes = r->phase->allocated_bytes;
        x->allocated_event = r->allocated_event;
    }
    if (r->phase->reserved_bytes > x->reserved_bytes) {
        x->reserved_bytes = r->phase->reserved_bytes;
        x->reserved_event = r->reserved_event;
    }
}

static void begin_phase(struct sim_course *r, int32_t event, int32_t step, uint8_t phase) {
    const struct cache *c = &r->sim->cache;
    r->phase = &r->sim->phases[r->result->phase_count++];
    *r->phase = (struct sim_phase){.event = event,
                                   .step = step,
                                   .phase = phase,
                                   .allocated_bytes = c->allocated,
                                   .reserved_bytes = c->reserved};
}

static void note_peak(struct sim_course *r, int32_t event) {
    const struct cache *c = &r->sim->cache;
    if (c->allocated > r->phase->allocated_bytes) {
        r->phase->allocated_bytes = c->allocated;
        r->allocated_event = event;
    }
    if (c->reserved > r->phase->reserved_bytes) {
        r->phase->reserved_bytes = c->reserved;
        r->reserved_event = event;
    }
}

static bool allocate(struct sim_course *r, int32_t event, int64_t size, int32_t stream,
                     int32_t *ret) {
    int64_t same_below = r->sim->cache.same_below;
    *ret = size > 0 ? sim_cache_malloc(&r->sim->cache, size, stream) : 0;
    if (r->sim->cache.same_below != same_below) {
        r->turn = event;
        if (r->first < 0) r->first = event;
    }
    if (size > 0 && !*ret) {
        r->result->oom = true;
        r->result->oom_event = event;
        return false;
    }
    note_peak(r, event);
    return true;
}

// Everything that is rare.
static bool do_other(struct sim_course *r, int32_t event) {
    struct sim *s = r->sim;
    const struct tape_event *e = &s->tape->events[event];
    int32_t block;
    switch ((enum tape_kind)e->kind) {
    case TAPE_MARK:
        end_phase(r);
        if (event == 0) r->result->phase_count = 0; // nothing came before it
        begin_phase(r, event, e->index, e->phase);
        return true;
    case TAPE_EMPTY_CACHE:
        sim_cache_empty(&s->cache);
        return true;
    case TAPE_SCRATCH: {
        if (!s->cache.options.scratch) return true;
        int64_t bytes = tape_scratch_size(&s->tape->scratches[e->index], s->batch);
        int64_t size = sim_cache_round_size(&s->cache.options, bytes);
        if (!allocate(r, event, size, 0, &block)) return false;
        if (block) sim_cache_free(&s->cache, block);
        return true;
    }
    default:
        return true;
    }
}

// One event; *next_size is the size of the next allocation in order of the tape.
static inline bool run_event(struct sim_course *r, int32_t event, const int64_t **next_size) {
    struct sim *s = r->sim;
    uint32_t todo = s->todo[event];
    int32_t *block = &s->blocks[todo >> 2];
    switch ((enum sim_do)(todo & 3)) {
    case SIM_DO_ALLOC:
        return allocate(r, event, *(*next_size)++, 0, block);
    case SIM_DO_ALLOC_SIDE: {
        int32_t stream = s->tape->allocs[s->tape->events[event].index].stream;
        return allocate(r, event, *(*next_size)++, stream, block);
    }
    case SIM_DO_FREE:
        if (*block) sim_cache_free(&s->cache, *block);
        return true;
    case SIM_DO_OTHER:
        return do_other(r, event);
    }
    return true;
}

void sim_course_begin(struct sim_course *r, struct sim *s, int64_t capacity) {
    *r = (struct sim_course){.sim = s, .result = r->result, .turn = -1, .first = -1};
    *r->result = (struct sim_result){.oom_event = -1, .allocated_event = -1, .reserved_event = -1};
    sim_cache_reset(&s->cache, capacity);
    begin_phase(r, -1, 0, TAPE_INIT);
}

bool sim_course_run(struct sim_course *r, int32_t stop) {
    const int64_t *size = r->sim->sizes + r->allocs;
    int32_t i = r->event;
    while (i < stop && run_event(r, i, &size)) i++;
    r->event = i;
    r->allocs = size - r->sim->sizes;
    return i >= stop;
}

static void run_watched(struct sim_course *r, int32_t stop, sim_watcher *each, void *context) {
    const int64_t *size = r->sim->sizes;
    for (; r->event < stop && run_event(r, r->event, &size); r->event++) each(context, r->event);
}

void sim_course_end(struct sim_course *r) {
    struct sim *s = r->sim;
    struct sim_result *ret = r->result;
    ret->events = r->event;
    end_phase(r);
    ret->end_bytes = s->cache.allocated;
    if (ret->oom) ret->oom_bytes = s->cache.failed_bytes;
    ret->retries = s->cache.retries;
    ret->segments = s->cache.segments;
    ret->same_from_bytes = s->cache.same_from;
    ret->same_below_bytes = s->cache.same_below;
    ret->phases = s->phases;
}

void sim_run(struct sim *s, int64_t capacity, int32_t stop, sim_watcher *each, void *context,
             struct sim_result *ret) {
    struct sim_course r = {.result = ret};
    sim_course_begin(&r, s, capacity);
    if (each)
        run_watched(&r, stop, each, context);
    else
        sim_course_run(&r, stop);
    sim_course_end(&r);
}

void sim_replay(struct sim *s, int64_t batch, int64_t classes, int64_t capacity_bytes,
                struct sim_result *ret) {
    sim_size_for(s, batch, classes);
    sim_run(s, capacity_bytes, s->tape->event_count, NULL, NULL, ret);
    if (ret->same_below_bytes < INT64_MAX) return;
    s->last = *ret; // no limit was met, so that without any it is the same
    s->last.phases = NULL;
}
