// SPDX-License-Identifier: Apache-2.0
// A GPU's history as a tape (doc/formats/tape.md), for the simulator and for record.
#include "predict/snapshot/snapshot.h"

static const uint8_t tags[SNAPSHOT_KIND_COUNT] = {
    [SNAPSHOT_WEIGHTS] = TAPE_PARAM,
    [SNAPSHOT_GRADIENTS] = TAPE_GRADIENT,
    [SNAPSHOT_OPTIMIZER] = TAPE_OPTIMIZER_STATE,
    [SNAPSHOT_ACTIVATIONS] = TAPE_ACTIVATION,
    [SNAPSHOT_PASSING] = TAPE_TEMPORARY,
    [SNAPSHOT_INPUTS] = TAPE_INPUT_DATA,
    [SNAPSHOT_KEPT] = TAPE_OTHER,
    [SNAPSHOT_CACHES] = TAPE_OTHER,
    [SNAPSHOT_WORKSPACES] = TAPE_OTHER,
    [SNAPSHOT_BUCKETS] = TAPE_OTHER,
    [SNAPSHOT_UNKNOWN] = TAPE_OTHER,
};
static const uint8_t tape_phases[SNAPSHOT_PLACE_COUNT] = {
    [SNAPSHOT_LOADING] = TAPE_INIT,       [SNAPSHOT_FEEDING] = TAPE_INPUT,
    [SNAPSHOT_FORWARD] = TAPE_FORWARD,    [SNAPSHOT_BACKWARD] = TAPE_BACKWARD,
    [SNAPSHOT_STEPPING] = TAPE_OPTIMIZER,
};

static bool scales(enum snapshot_kind kind, enum snapshot_place place) {
    if (kind == SNAPSHOT_PASSING) return place == SNAPSHOT_BACKWARD;
    return kind == SNAPSHOT_ACTIVATIONS || kind == SNAPSHOT_INPUTS || kind == SNAPSHOT_KEPT;
}

struct maker {
    struct arena *a;
    const struct snapshot_history *h;
    const struct snapshot_tape_options *o;
    struct tape *t;
    int64_t *fixed_bytes;
    int32_t *strings_of; // by stack: its number in strings; 0: not yet
    ptrdiff_t strings, strings_capacity;
};

static void add_event(struct maker *m, enum tape_kind kind, enum tape_phase phase, int32_t index) {
    m->t->events[m->t->event_count++] =
        (struct tape_event){.kind = (uint8_t)kind, .phase = (uint8_t)phase, .index = index};
}

// "train.py:57:forward": where the tape's `a` line has a module.
static int32_t module_of(struct maker *m, int32_t stack) {
    if (stack <= 0) return 0;
    if (m->strings_of[stack]) return m->strings_of[stack];
    struct str text = snapshot_place_text(m->a, m->h->of, stack);
    char *p = str_z(m->a, text);
    for (ptrdiff_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c <= ' ' || c >= 127) p[i] = c == ' ' ? ':' : '?';
    }
    if (text.len == 0) return 0;
    *arena_push(m->a, &m->t->strings, &m->strings, &m->strings_capacity) =
        (struct str){p, text.len};
    return m->strings_of[stack] = (int32_t)m->strings - 1;
}

static void add_alloc(struct maker *m, const struct snapshot_alloc *x) {
    struct tape *t = m->t;
    struct tape_alloc y = {.id = t->alloc_count + 1,
                           .c = x->requested,
                           .free_event = -1,
                           .event = t->event_count,
                           .stream = x->pool,
                           .tag = tags[x->kind],
                           .module = module_of(m, x->stack)};
    bool is_live = snapshot_lives(x, m->h->moment);
    int64_t batch = m->o->batch;
    if (batch > 0 && scales((enum snapshot_kind)x->kind, (enum snapshot_place)x->place)) {
        if (x->requested % batch == 0) y.k = x->requested / batch, y.c = 0;
        if (is_live && y.k == 0) *m->fixed_bytes += x->requested;
    }
    add_event(m, TAPE_ALLOC, TAPE_INIT, t->alloc_count);
    if (x->pool >= t->stream_count) t->stream_count = x->pool + 1;
    t->allocs[t->alloc_count++] = y;
}

// What could not be served, rounded by the allocator already.
static void add_asked(struct maker *m) {
    const struct snapshot_history *h = m->h;
    struct snapshot_alloc x = {.requested = h->asked,
                               .stack = h->oom_stack,
                               .born = h->moment,
                               .died = SNAPSHOT_NEVER,
                               .place = h->places[h->oom_stack],
                               .kind = SNAPSHOT_ACTIVATIONS};
    if (x.stack == 0) x.place = SNAPSHOT_BACKWARD;
    if (x.place == SNAPSHOT_STEPPING || x.place == SNAPSHOT_STATE) x.kind = SNAPSHOT_OPTIMIZER;
    if (x.place == SNAPSHOT_LOADING) x.kind = SNAPSHOT_WEIGHTS;
    add_alloc(m, &x);
}

// Cache given back that no out-of-memory asked for: the program called empty_cache.
static bool is_empty_cache(const struct snapshot_history *h, int32_t i) {
    if (h->events[i].action != SNAPSHOT_SEGMENT_FREE) return false;
    if (i > 0 && h->events[i - 1].action == SNAPSHOT_SEGMENT_FREE) return false;
    while (i < h->event_count && h->events[i].action == SNAPSHOT_SEGMENT_FREE) i++;
    return i < h->event_count && h->events[i].action != SNAPSHOT_SEGMENT_ALLOC &&
           h->events[i].action != SNAPSHOT_OOM;
}

static void add_events(struct maker *m, int32_t end, int32_t *number_of) {
    const struct snapshot_history *h = m->h;
    struct tape *t = m->t;
    ptrdiff_t phase = 0;
    for (int32_t i = 0; i < end; i++) {
        for (; phase < h->phase_count && h->phases[phase].first == i; phase++) {
            // The tape has begun with `m init 0`.
            if (h->phases[phase].phase == SNAPSHOT_LOADING && t->event_count == 1) continue;
            add_event(m, TAPE_MARK, (enum tape_phase)tape_phases[h->phases[phase].phase],
                      h->phases[phase].step);
        }
        if (is_empty_cache(h, i)) add_event(m, TAPE_EMPTY_CACHE, TAPE_INIT, 0);
        int32_t x = h->alloc_of[i];
        if (x < 0) continue;
        if (h->allocs[x].born == i) {
            number_of[x] = t->alloc_count;
            add_alloc(m, &h->allocs[x]);
        } else {
            t->allocs[number_of[x]].free_event = t->event_count;
            add_event(m, TAPE_FREE, TAPE_INIT, number_of[x]);
        }
    }
}

int snapshot_tape(struct arena *a, const struct snapshot_history *h,
                  const struct snapshot_tape_options *o, struct tape *ret, int64_t *ret_fixed_bytes,
                  struct fail *why) {
    int32_t end = o->whole ? h->event_count : h->moment + 1;
    int64_t most = (int64_t)h->before_count + 2 * (int64_t)end + h->phase_count + 2;
    if (h->event_count == 0)
        return fail_set(why, FAIL_INPUT, "%.*s: it has no history of GPU %d, only its final state",
                        STR_ARG(h->of->name), h->gpu);
    if (most > TAPE_EVENTS_MAX)
        return fail_set(why, FAIL_INPUT, "%.*s: its history has more events than a tape can hold",
                        STR_ARG(h->of->name));
    *ret = (struct tape){.name = h->of->name, .header = tape_header_unknown(), .stream_count = 1};
    *ret_fixed_bytes = 0;
    struct maker *m = arena_new(a, struct maker, 1);
    *m = (struct maker){.a = a, .h = h, .o = o, .t = ret, .fixed_bytes = ret_fixed_bytes};
    m->strings_of = arena_new(a, int32_t, h->of->stack_count);
    ret->events = arena_new(a, struct tape_event, (ptrdiff_t)most);
    ret->allocs = arena_new(a, struct tape_alloc, h->count + 1);
    *arena_push(a, &ret->strings, &m->strings, &m->strings_capacity) = (struct str){0};
    int32_t *number_of = arena_new(a, int32_t, h->count);
    add_event(m, TAPE_MARK, TAPE_INIT, 0);
    for (ptrdiff_t i = 0; i < h->before_count; i++) {
        number_of[i] = ret->alloc_count;
        add_alloc(m, &h->allocs[i]);
    }
    add_events(m, end, number_of);
    if (h->is_oom && !o->whole) add_asked(m);
    ret->string_count = (int32_t)m->strings;
    return 0;
}
