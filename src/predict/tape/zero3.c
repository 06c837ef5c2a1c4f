// SPDX-License-Identifier: Apache-2.0
// The tape of the first of several GPUs under DeepSpeed's ZeRO, stage 3: what
// deepspeed/runtime/zero/stage3.py (0.19.8) allocates and frees, scalars aside. It is made of a
// recording in which the engine ran and its parameters were left out: where they are asked for and
// given back stands in it as zero.fetch, zero.release, zero.refetch and zero.rerelease
// (python/batchfit/zero_trace.py). tests/unit/tape_zero.c holds it against recordings of DeepSpeed.
#include "predict/tape/zero_int.h"

#include <string.h>

enum op {
    OP_WHOLE,
    OP_SHARD,
    OP_MASTER,
    OP_STATE,
    OP_BUCKET,
    OP_PART,
    OP_FP32,
    OP_NORM,
    OP_REDUCED,
    OP_GATHERED,
    OP_MESSAGE,
    OPS
};
static const char *const op_names[OPS] = {
    [OP_WHOLE] = "zero.whole",     [OP_SHARD] = "zero.shard",        [OP_MASTER] = "zero.master",
    [OP_STATE] = "zero.state",     [OP_BUCKET] = "zero.bucket",      [OP_PART] = "zero.gradients",
    [OP_FP32] = "zero.fp32",       [OP_NORM] = "zero.norm",          [OP_REDUCED] = "zero.reduced",
    [OP_GATHERED] = "zero.gather", [OP_MESSAGE] = "zero.all_gather",
};
enum { LEAST_FOR_DISK = 1 << 20 }; // bytes of a sub-group (swap_tensor/utils.py, MIN_AIO_BYTES)
enum point { FETCH, RELEASE, REFETCH, RERELEASE, EXTERNAL, KEPT, POINTS };
static const char *const point_names[POINTS] = {
    [FETCH] = "zero.fetch",         [RELEASE] = "zero.release",   [REFETCH] = "zero.refetch",
    [RERELEASE] = "zero.rerelease", [EXTERNAL] = "zero.external", [KEPT] = "zero.kept",
};

struct zero3_walk {
    const struct tape *from;
    const struct tape_zero *how;
    struct tape *to;
    struct zero_coordinator c;
    int32_t first_op, points[POINTS]; // texts of the tape
    int32_t *only;                    // of a module its first parameter, from 1
    int32_t *now;                     // of every allocation of `from` its copy
    int32_t *gradient;                // of every allocation that is a gradient, whose
    struct zero_sub_group *subs;
    int32_t sub_count, trained;
    int64_t trained_parts; // elements of one rank
    // The backward pass that runs.
    uint8_t phase;
    bool has_begun;                         // a pass
    bool has_gradients, is_adding, is_last; // of an earlier micro-step; to them; before the update
    int64_t elements;
    int32_t *inside, in_bucket, reduced; // parameters; gradients so far
    int32_t *kept, kept_count;           // gradients that the bucket cannot take, as copies
    int32_t *on_way, on_way_count;       // gradients for disks, as copies
};

static bool is_update_on_gpu(const struct zero3_walk *z) {
    return z->how->offload.optimizer == TAPE_ON_GPU;
}

static int32_t take(struct zero3_walk *z, enum op op, enum tape_tag tag, int64_t bytes) {
    return tape_put_alloc(
        z->to, (struct tape_alloc){.c = bytes, .op = z->first_op + op, .tag = (uint8_t)tag});
}

static void pass_by(struct zero3_walk *z, enum op op, int64_t bytes) {
    if (bytes > 0) tape_drop(z->to, take(z, op, TAPE_TEMPORARY, bytes));
}

static enum point point_of(const struct zero3_walk *z, const struct tape_alloc *x) {
    int i = 0;
    while (i < POINTS && (z->points[i] == 0 || x->op != z->points[i])) i++;
    return (enum point)i;
}

// -- what there is ---------------------------------------------------------------

static void find_points(struct zero3_walk *z) {
    for (int32_t i = 1; i < z->from->string_count; i++)
        for (int k = 0; k < POINTS; k++)
            if (str_is(z->from->strings[i], point_names[k])) z->points[k] = i;
}

static void find_params(struct zero3_walk *z) {
    const struct tape *t = z->from;
    const int64_t ranks = z->how->ranks;
    struct zero_coordinator *c = &z->c;
    for (int32_t i = 0; i < t->alloc_count && t->allocs[i].tag != TAPE_INPUT_DATA; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        if (x->tag != TAPE_PARAM) continue;
        struct zero_param *p = &c->params[c->param_count];
        *p = (struct zero_param){.count = x->c / 2, .module = x->module};
        p->part = (p->count + ranks - 1) / ranks;
        p->group = !tape_param_decays(t, i);
        p->persists = p->count <= z->how->zero3.persist;
        p->sub = p->norm = NOT_THERE;
        p->block = p->message = p->owner = p->first_use = NOT_THERE;
        if (z->only[x->module] == 0) z->only[x->module] = c->param_count + 1;
        c->param_count++;
    }
}

static ptrdiff_t find_memberships(const struct zero3_walk *z, struct zero_membership *ret) {
    const struct tape *t = z->from;
    ptrdiff_t count = 0;
    for (int32_t i = 0; i < z->c.param_count; i++)
        ret[count++] = (struct zero_membership){z->c.params[i].module, i};
    int32_t module = 0;
    for (int32_t i = 0; i < t->alloc_count; i++) {
        const struct tape_alloc *x = &t->allocs[i];
        enum point point = point_of(z, x);
        if (point == FETCH || point == REFETCH) module = x->module;
        int32_t param = z->only[x->module] - 1;
        if (point == EXTERNAL && param >= 0) ret[count++] = (struct zero_membership){module, param};
    }
    return count;
}

static void list_params(struct arena *scratch, struct zero3_walk *z) {
    struct zero_membership *all =
        arena_new(scratch, struct zero_membership, 2 * (ptrdiff_t)z->from->alloc_count + 1);
    ptrdiff_t count = find_memberships(z, all);
    z->c.listed = arena_new(scratch, int32_t, count);
    tape_zero_list(&z->c, all, count);
}

static bool is_of(const struct zero_param *p, const struct tape_alloc *gradient, int32_t pass) {
    return p->taken_count < pass && 2 * p->count == gradient->c;
}

static int32_t owner_of(struct zero3_walk *z, const struct tape_alloc *gradient, int32_t pass) {
    const struct zero_param *all = z->c.params;
    const int32_t first = z->only[gradient->module] - 1, count = z->c.param_count;
    for (int32_t i = first < 0 ? count : first; i < count; i++)
        if (all[i].module == gradient->module && is_of(&all[i], gradient, pass)) return i;
    int32_t i = 0; // a shared one's is added up elsewhere
    while (i < count && !is_of(&all[i], gradient, pass)) i++;
    return i < count ? i : NOT_THERE;
}

// False: there is a gradient of something that is no parameter.
static bool find_gradients(struct zero3_walk *z) {
    const struct tape *t = z->from;
    int32_t pass = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK && e->phase == TAPE_BACKWARD) pass++;
        if (e->kind != TAPE_ALLOC || t->allocs[e->index].tag != TAPE_GRADIENT) continue;
        int32_t owner = owner_of(z, &t->allocs[e->index], pass);
        if (owner == NOT_THERE) return false;
        z->gradient[e->index] = owner;
        z->c.params[owner].taken_count = pass;
        z->trained += !z->c.params[owner].is_trained;
        z->c.params[owner].is_trained = true;
    }
    return z->trained > 0;
}

// The order of the first pass, which is that of all others.
static bool find_places(struct zero3_walk *z) {
    const struct tape *t = z->from;
    struct zero_coordinator *c = &z->c;
    int passes = 0;
    for (int32_t i = 0; i < t->event_count && passes < 2; i++) {
        const struct tape_event *e = &t->events[i];
        passes += e->kind == TAPE_MARK && e->phase == TAPE_FORWARD;
        if (e->kind != TAPE_ALLOC || passes != 1) continue;
        enum point point = point_of(z, &t->allocs[e->index]);
        if (point == FETCH || point == REFETCH) tape_zero_add_uses(c, t->allocs[e->index].module);
    }
    tape_zero_link_uses(c);
    return c->place_count > 0;
}

static void find_sub_groups(struct zero3_walk *z) {
    for (int group = 0; group < ZERO_GROUPS; group++) {
        struct zero_sub_group *sub = NULL;
        for (int32_t i = 0; i < z->c.param_count; i++) {
            const struct zero_param *p = &z->c.params[i];
            if (!p->is_trained || p->group != group) continue;
            if (!sub) {
                sub = &z->subs[z->sub_count++];
                *sub = (struct zero_sub_group){.states = {NOT_THERE, NOT_THERE}};
            }
            sub->elements += p->part;
            sub->count++;
            z->c.params[i].sub = z->sub_count - 1;
            z->trained_parts += p->part;
            if (sub->elements >= z->how->zero3.group) sub = NULL;
        }
    }
}

// -- init ------------------------------------------------------------------------

// A copy to the host that also casts does so here (ATen/native/cuda/Copy.cu); one of what is on
// the host does not.
static void send_masters(struct zero3_walk *z) {
    if (z->how->offload.params != TAPE_ON_GPU) return;
    for (int32_t i = 0; i < z->sub_count; i++) pass_by(z, OP_MASTER, 4 * z->subs[i].elements);
}

static void put_masters(struct zero3_walk *z) {
    int32_t cast = NOT_THERE;
    int64_t most = 0;
    if (!is_update_on_gpu(z)) {
        send_masters(z);
        return;
    }
    for (int32_t i = 0; i < z->sub_count; i++) {
        int64_t bytes = 4 * z->subs[i].elements;
        int32_t next = take(z, OP_MASTER, TAPE_TEMPORARY, bytes);
        tape_drop(z->to, cast); // of the one before
        cast = next;
        take(z, OP_MASTER, TAPE_OPTIMIZER_STATE, bytes);
        if (bytes > most) most = bytes;
    }
    tape_drop(z->to, cast);
    pass_by(z, OP_FP32, most);
}

static bool is_away(const struct zero3_walk *z) {
    return z->how->offload.params != TAPE_ON_GPU;
}

// Each parameter comes to the GPU and is cut; what is trained is brought together then. Around
// weights in four bits transformers makes no zero.Init: all are there before the first is cut.
static void put_init(struct zero3_walk *z) {
    struct zero_coordinator *c = &z->c;
    const bool is_loaded = z->from->header.quant.len > 0;
    for (int32_t i = 0; is_loaded && i < c->param_count; i++)
        c->params[i].block = take(z, OP_WHOLE, TAPE_TEMPORARY, 2 * c->params[i].count);
    for (int32_t i = 0; i < c->param_count; i++) {
        struct zero_param *p = &c->params[i];
        int32_t whole = is_loaded ? p->block : take(z, OP_WHOLE, TAPE_TEMPORARY, 2 * p->count);
        if (!is_away(z)) p->block = take(z, OP_SHARD, TAPE_PARAM, 2 * p->part);
        tape_drop(z->to, whole);
    }
    for (int32_t i = 0; i < c->param_count; i++) {
        if (c->params[i].is_trained) tape_drop(z->to, c->params[i].block);
        c->params[i].block = NOT_THERE;
    }
    if (!is_away(z)) {
        tape_put_event(z->to, (struct tape_event){.kind = TAPE_EMPTY_CACHE});
        take(z, OP_SHARD, TAPE_PARAM, 2 * z->trained_parts);
    }
    put_masters(z);
    take(z, OP_BUCKET, TAPE_GRADIENT, 2 * z->how->bucket);
    if (is_update_on_gpu(z)) take(z, OP_PART, TAPE_GRADIENT, 2 * z->trained_parts);
    for (int32_t i = 0; i < c->param_count; i++) {
        const struct zero_param *p = &c->params[i];
        if (!p->is_trained) continue;
        int32_t whole = take(z, OP_GATHERED, TAPE_TEMPORARY, 2 * p->part * z->how->ranks);
        if (is_away(z)) pass_by(z, OP_SHARD, 2 * p->part);
        tape_drop(z->to, whole);
    }
}

// -- the backward pass -----------------------------------------------------------

static int32_t take_beside(struct zero3_walk *z, enum op op, int64_t bytes) {
    int32_t copy = take(z, op, TAPE_TEMPORARY, bytes);
    z->to->allocs[copy].stream = 2 * z->how->overlaps;
    return copy;
}

// With the last micro-step the gradient goes over in fp32, and its norm is taken.
static void send_last(struct zero3_walk *z, struct zero_param *p) {
    tape_drop(z->to, take_beside(z, OP_NORM, 8 * p->part));
    if (p->norm == NOT_THERE) p->norm = take_beside(z, OP_NORM, 8);
    int32_t fp32 = take_beside(z, OP_FP32, 4 * p->part);
    bool is_for_disk =
        z->how->offload.optimizer == TAPE_ON_DISK && 4 * z->subs[p->sub].elements >= LEAST_FOR_DISK;
    if (is_for_disk)
        z->on_way[z->on_way_count++] = fp32;
    else
        tape_drop(z->to, fp32);
}

// The host's part of each gradient comes back for as long as it is worked on
// (partition_grads). What is for disks goes when all have been.
static void send_parts(struct zero3_walk *z) {
    int32_t before = NOT_THERE;
    for (int32_t i = 0; i < z->in_bucket; i++) {
        struct zero_param *p = &z->c.params[z->inside[i]];
        if (!z->is_adding) tape_drop(z->to, before);
        int32_t part = take_beside(z, OP_PART, 2 * p->part);
        tape_drop(z->to, before);
        if (z->is_last) send_last(z, p);
        before = part;
    }
    tape_drop(z->to, before);
    for (int32_t i = 0; i < z->on_way_count; i++) tape_drop(z->to, z->on_way[i]);
    z->on_way_count = 0;
}

// One gradient that the ranks can share without a rest is reduced where it is.
static void flush(struct zero3_walk *z) {
    int64_t sum = 0;
    for (int32_t i = 0; i < z->in_bucket; i++) sum += z->c.params[z->inside[i]].part;
    bool is_in_place = z->in_bucket == 1 && z->c.params[z->inside[0]].count % z->how->ranks == 0;
    int32_t copy = NOT_THERE;
    if (z->in_bucket > 0 && !is_in_place)
        copy = take_beside(z, OP_REDUCED, 2 * sum * z->how->ranks);
    if (!is_update_on_gpu(z)) send_parts(z);
    for (int32_t i = 0; i < z->kept_count; i++) tape_drop(z->to, z->kept[i]);
    tape_drop(z->to, copy);
    z->in_bucket = z->kept_count = 0;
    z->elements = 0;
}

// A gradient is there: the engine takes it.
static void reduce(struct zero3_walk *z, int32_t param, int32_t copy) {
    int64_t count = z->c.params[param].count;
    if (z->elements + count > z->how->bucket) flush(z);
    if (count > z->how->bucket)
        z->kept[z->kept_count++] = copy;
    else
        tape_drop(z->to, copy);
    z->elements += count;
    z->inside[z->in_bucket++] = param;
    if (++z->reduced == z->trained) flush(z);
}

static void update_here(struct zero3_walk *z) {
    for (int group = 0; group < ZERO_GROUPS; group++)
        for (int32_t i = 0; i < z->c.param_count; i++) {
            const struct zero_param *p = &z->c.params[i];
            if (p->is_trained && p->group == group) pass_by(z, OP_NORM, 8 * p->part);
        }
    for (int32_t i = 0; i < z->sub_count; i++) {
        struct zero_sub_group *sub = &z->subs[i];
        int32_t flat =
            sub->count > 1 ? take(z, OP_PART, TAPE_TEMPORARY, 2 * sub->elements) : NOT_THERE;
        int32_t fp32 = take(z, OP_FP32, TAPE_TEMPORARY, 4 * sub->elements);
        tape_drop(z->to, flat);
        for (int s = 0; s < 2; s++)
            if (sub->states[s] == NOT_THERE)
                sub->states[s] = take(z, OP_STATE, TAPE_OPTIMIZER_STATE, 4 * sub->elements);
        // New weights that go to the host are cast here.
        if (is_away(z)) pass_by(z, OP_SHARD, 2 * sub->elements);
        tape_drop(z->to, fp32);
    }
}

static void update(struct zero3_walk *z) {
    tape_zero_release_all(&z->c);
    for (int32_t i = 0; i < z->c.param_count; i++) {
        tape_drop(z->to, z->c.params[i].norm);
        z->c.params[i].norm = NOT_THERE;
    }
    if (is_update_on_gpu(z)) update_here(z);
    tape_zero_gather_persistent(&z->c);
}

// Whether the pass that begins at an event is followed by the update.
static bool is_before_update(const struct tape *t, int32_t event) {
    int32_t i = tape_end_of_phase(t, event + 1);
    return i < t->event_count && t->events[i].phase == TAPE_OPTIMIZER;
}

// -- the whole -------------------------------------------------------------------

static void copy_mark(struct zero3_walk *z, int32_t event) {
    const struct tape_event *e = &z->from->events[event];
    if (z->phase == TAPE_BACKWARD) tape_zero_release_left(&z->c);
    if (z->phase == TAPE_INIT && event > 0) put_init(z);
    tape_put_event(z->to, *e);
    z->phase = e->phase;
    if (e->phase == TAPE_BACKWARD) {
        z->reduced = 0;
        z->is_adding = z->has_gradients;
        z->is_last = is_before_update(z->from, event);
        z->has_gradients = !z->is_last;
    }
    if (e->phase == TAPE_OPTIMIZER) update(z);
    if (e->phase != TAPE_FORWARD) return;
    z->c.is_traced = z->has_begun;
    z->has_begun = true;
    tape_zero_begin_pass(&z->c);
}

static void copy_alloc(struct zero3_walk *z, int32_t alloc) {
    const struct tape_alloc *x = &z->from->allocs[alloc];
    const bool is_backward = z->phase == TAPE_BACKWARD;
    enum point point = point_of(z, x);
    if (point == FETCH || point == REFETCH)
        tape_zero_fetch(&z->c, x->module, point == FETCH, is_backward);
    else if (point == RELEASE || point == RERELEASE)
        tape_zero_release(&z->c, x->module, point == RELEASE);
    else if (point == KEPT)
        z->now[alloc] = tape_zero_hold(&z->c, z->only[x->module] - 1);
    else if (point != EXTERNAL && x->tag != TAPE_PARAM)
        z->now[alloc] = tape_put_alloc(z->to, *x);
}

static void copy_free(struct zero3_walk *z, int32_t alloc) {
    if (z->from->allocs[alloc].tag == TAPE_GRADIENT)
        reduce(z, z->gradient[alloc], z->now[alloc]);
    else if (point_of(z, &z->from->allocs[alloc]) == KEPT)
        tape_zero_let_go(&z->c, z->now[alloc]);
    else
        tape_drop(z->to, z->now[alloc]);
}

static void copy_all(struct zero3_walk *z) {
    for (int32_t i = 0; i < z->from->event_count; i++) {
        const struct tape_event *e = &z->from->events[i];
        if (e->kind == TAPE_MARK)
            copy_mark(z, i);
        else if (e->kind == TAPE_ALLOC)
            copy_alloc(z, e->index);
        else if (e->kind == TAPE_FREE)
            copy_free(z, e->index);
        else
            tape_put_event(z->to, *e);
    }
}

// What the tape asks for in all: parameters, places; its passes and updates.
struct extent {
    ptrdiff_t uses, places, passes, updates;
};
static struct extent measure(const struct zero3_walk *z) {
    const struct tape *t = z->from;
    struct extent e = {0};
    for (int32_t i = 0; i < t->alloc_count; i++) {
        enum point point = point_of(z, &t->allocs[i]);
        if (point != FETCH && point != REFETCH) continue;
        e.uses += z->c.params_of[t->allocs[i].module];
        e.places++;
    }
    for (int32_t i = 0; i < t->event_count; i++) {
        e.passes += t->events[i].kind == TAPE_MARK && t->events[i].phase == TAPE_FORWARD;
        e.updates += t->events[i].kind == TAPE_MARK && t->events[i].phase == TAPE_OPTIMIZER;
    }
    return e;
}

static void make_room(struct arena *scratch, struct zero3_walk *z) {
    const struct tape *t = z->from;
    struct zero_coordinator *c = &z->c;
    c->params = arena_new(scratch, struct zero_param, t->alloc_count);
    c->first = arena_new(scratch, int32_t, t->string_count);
    c->params_of = arena_new(scratch, int32_t, t->string_count);
    c->running = arena_new(scratch, int32_t, t->string_count);
    z->only = arena_new(scratch, int32_t, t->string_count);
    z->now = arena_new(scratch, int32_t, t->alloc_count);
    z->gradient = arena_new(scratch, int32_t, t->alloc_count);
    z->inside = arena_new(scratch, int32_t, t->alloc_count);
    z->kept = arena_new(scratch, int32_t, t->alloc_count);
    z->on_way = arena_new(scratch, int32_t, t->alloc_count);
    memset(z->now, 0xff, sizeof *z->now * (size_t)t->alloc_count);
}

// A use brings a parameter by itself or out of a message, when its module runs or early; a
// gradient has a copy; the first tape's own blocks come besides.
static void make_more_room(struct arena *a, struct arena *scratch, struct zero3_walk *z) {
    const struct extent e = measure(z);
    struct zero_coordinator *c = &z->c;
    const ptrdiff_t asked = e.uses * (1 + e.passes), params = c->param_count;
    c->places = arena_new(scratch, struct zero_place, e.places);
    c->uses = arena_new(scratch, struct zero_use, e.uses);
    c->messages = arena_new(scratch, struct zero_message, asked + 1);
    c->sent = arena_new(scratch, int32_t, asked + 1);
    c->brought = arena_new(scratch, int32_t, asked + params + 1);
    z->subs = arena_new(scratch, struct zero_sub_group, params);
    ptrdiff_t more =
        3 * asked + 2 * z->from->alloc_count + params * (8 * (e.updates + 2) + 3 * e.passes) + 64;
    z->to->events = arena_new(a, struct tape_event, z->from->event_count + 2 * more);
    z->to->allocs = arena_new(a, struct tape_alloc, z->from->alloc_count + more);
    c->holds = arena_new(scratch, struct zero_hold, z->from->alloc_count + more);
    z->to->event_count = z->to->alloc_count = 0;
}

bool tape_zero3(struct arena *a, const struct tape *t, const struct tape_zero *how,
                struct tape *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct zero3_walk z = {.from = t, .how = how, .to = ret, .c = {.how = how, .to = ret}};
    *ret = *t;
    make_room(&scratch, &z);
    find_points(&z);
    find_params(&z);
    list_params(&scratch, &z);
    if (!find_gradients(&z)) return false;
    make_more_room(a, &scratch, &z);
    if (!find_places(&z)) return false;
    find_sub_groups(&z);
    z.first_op = tape_add_ops(a, t, ret, op_names, OPS);
    z.c.op_gathered = z.first_op + OP_GATHERED;
    z.c.op_message = z.first_op + OP_MESSAGE;
    copy_all(&z);
    if (how->overlaps && ret->stream_count < 3) ret->stream_count = 3;
    ret->header.ranks = how->ranks;
    tape_host_stage3(how, &z.c, z.subs, z.sub_count, ret);
    return true;
}
