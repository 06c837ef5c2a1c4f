// SPDX-License-Identifier: Apache-2.0
// The tape of one GPU becomes that of one of several under DeepSpeed's ZeRO, stage 1 or 2:
// what deepspeed/runtime/zero/stage_1_and_2.py (0.19.8) allocates and frees, in its order, scalars
// aside. Trained weights lie in one flat buffer a group, their master copy and AdamW's states are a
// rank's part of it in fp32, and gradients go through buckets. tests/unit/tape_zero.c holds
// it against recordings of DeepSpeed itself.
#include "predict/tape/zero_int.h"

#include <string.h>

enum { GROUPS = ZERO_GROUPS };

enum op { OP_WEIGHTS, OP_MASTER, OP_STATE, OP_BUCKET, OP_REDUCED, OP_PART, OP_FP32, OP_NORM, OPS };
static const char *const op_names[OPS] = {
    [OP_WEIGHTS] = "zero.weights",     [OP_MASTER] = "zero.master",   [OP_STATE] = "zero.state",
    [OP_BUCKET] = "zero.bucket",       [OP_REDUCED] = "zero.reduced", [OP_PART] = "zero.gradients",
    [OP_FP32] = "zero.gradients_fp32", [OP_NORM] = "zero.norm",
};

struct blocks {
    int32_t *items, count;
};

struct zero {
    const struct tape *from;
    const struct tape_zero *how;
    struct tape *to;
    int32_t first_op;
    int32_t *now;    // of every allocation of `from` its copy
    int32_t *weight; // of every allocation that is a gradient, whose
    int32_t *first;  // of a module its first weight, from 1
    struct zero_weight *weights;
    int32_t weight_count;
    struct zero_group groups[GROUPS];
    // The backward pass that runs.
    int32_t buckets[2], bucket_count;
    int64_t elements;           // in the bucket
    int32_t *inside, in_bucket; // weights
    int32_t oversize;           // the gradient that no bucket can take, as a copy
    struct blocks parts, older; // gradients of the rank: this pass's, and earlier ones'
    int64_t held;               // elements in parts
    struct blocks kept;         // whole gradients, stage 1: as copies
    int32_t hook;               // the gradient that is made, until its node ends; as it was read
    bool is_last, accumulates;  // the micro-step before the update; there are others
};

static bool is_offloaded(const struct zero *z) {
    return z->how->offload.optimizer != TAPE_ON_GPU;
}

static int32_t take(struct zero *z, enum op op, enum tape_tag tag, int64_t bytes) {
    return tape_put_alloc(
        z->to, (struct tape_alloc){.c = bytes, .op = z->first_op + op, .tag = (uint8_t)tag});
}

static void pass_by(struct zero *z, enum op op, int64_t bytes) {
    if (bytes > 0) tape_drop(z->to, take(z, op, TAPE_TEMPORARY, bytes));
}

// -- whose gradient --------------------------------------------------------------

static bool is_of(const struct zero *z, int32_t weight, const struct tape_alloc *gradient) {
    const struct zero_weight *w = &z->weights[weight];
    return !w->is_taken && z->from->allocs[w->alloc].c == gradient->c;
}

static int32_t weight_of(const struct zero *z, const struct tape_alloc *gradient) {
    const int32_t module = gradient->module, first = z->first[module] - 1, count = z->weight_count;
    for (int32_t i = first < 0 ? count : first; i < count; i++)
        if (z->from->allocs[z->weights[i].alloc].module == module && is_of(z, i, gradient))
            return i;
    for (int32_t i = 0; i < count; i++) // a shared weight's is added up elsewhere
        if (is_of(z, i, gradient)) return i;
    return NOT_THERE;
}

static void find_gradients(struct zero *z, int32_t begin, int32_t end) {
    memset(z->first, 0, sizeof *z->first * (size_t)z->from->string_count);
    for (int32_t i = z->weight_count - 1; i >= 0; i--) {
        z->weights[i].is_taken = false;
        z->first[z->from->allocs[z->weights[i].alloc].module] = i + 1;
    }
    for (int32_t i = begin; i < end; i++) {
        const struct tape_event *e = &z->from->events[i];
        if (e->kind != TAPE_ALLOC || z->from->allocs[e->index].tag != TAPE_GRADIENT) continue;
        const int32_t weight = weight_of(z, &z->from->allocs[e->index]);
        z->weight[e->index] = weight;
        if (weight != NOT_THERE) z->weights[weight].is_taken = true;
    }
}

// False: there is a gradient of something that is no parameter, or they are absurdly large.
static bool find_weights(struct zero *z) {
    const struct tape *t = z->from;
    bool is_first = true;
    for (int32_t i = 0; i < t->alloc_count && t->allocs[i].tag != TAPE_INPUT_DATA; i++) {
        if (t->allocs[i].tag != TAPE_PARAM) continue;
        z->weights[z->weight_count++] = (struct zero_weight){.count = t->allocs[i].c / 2,
                                                             .alloc = i,
                                                             .group = !tape_param_decays(t, i),
                                                             .norm = NOT_THERE};
    }
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind != TAPE_MARK || e->phase != TAPE_BACKWARD) continue;
        find_gradients(z, i + 1, tape_end_of_phase(t, i + 1));
        if (!is_first) continue;
        int32_t trained = 0; // those without a gradient are frozen
        for (int32_t j = 0; j < z->weight_count; j++)
            if (z->weights[j].is_taken) z->weights[trained++] = z->weights[j];
        z->weight_count = trained;
        is_first = false;
        i--; // numbers are those of trained ones from here on
    }
    for (int32_t i = 0; i < t->alloc_count; i++)
        if (t->allocs[i].tag == TAPE_GRADIENT && z->weight[i] == NOT_THERE) return false;
    int64_t elements = 0; // whose sizes are added up, times 16 bytes at most
    for (int32_t i = 0; i < z->weight_count && elements <= TAPE_SIZE_MAX / 16; i++)
        elements += z->weights[i].count;
    return z->weight_count > 0 && elements <= TAPE_SIZE_MAX / 16;
}

// -- the backward pass -----------------------------------------------------------

// What a reduction copies: the pieces of different ranks, which one message takes together.
struct pieces {
    int64_t elements, last_rank;
    int count, group;
};

static void reduce_pieces(struct zero *z, struct pieces *p) {
    if (p->count > 1) {
        int32_t copy = take(z, OP_REDUCED, TAPE_TEMPORARY, 2 * p->elements);
        z->to->allocs[copy].stream = z->how->overlaps;
        tape_drop(z->to, copy);
    }
    *p = (struct pieces){.last_rank = NOT_THERE};
}

// A message ends with the piece that goes beyond the bucket.
static void add_pieces(struct zero *z, struct pieces *p, const struct zero_weight *w) {
    const int64_t part = z->groups[w->group].part, end = w->at + w->count;
    for (int64_t at = w->at; at < end;) {
        int64_t rank = at / part, next = (rank + 1) * part < end ? (rank + 1) * part : end;
        bool is_next = p->count > 0 && p->last_rank != rank;
        if (is_next && p->elements > z->how->bucket) reduce_pieces(z, p);
        if (p->count == 0 || p->last_rank != rank) p->count++;
        p->last_rank = rank;
        p->elements += next - at;
        at = next;
    }
}

static void reduce_all(struct zero *z) {
    struct pieces p = {.last_rank = NOT_THERE};
    for (int32_t i = 0; i < z->in_bucket; i++) add_pieces(z, &p, &z->weights[z->inside[i]]);
    reduce_pieces(z, &p);
}

static void keep(struct blocks *b, int32_t copy) {
    b->items[b->count++] = copy;
}

static void drop_all(struct zero *z, struct blocks *b) {
    for (int32_t i = 0; i < b->count; i++) tape_drop(z->to, b->items[i]);
    b->count = 0;
}

// The rank's gradients are one block, which comes with the first of them; another rank may have
// more, later.
static void keep_part(struct zero *z, const struct zero_weight *w) {
    if (w->kept <= z->held) return;
    const int32_t part = take(z, OP_PART, TAPE_GRADIENT, 2 * (w->kept - z->held));
    z->to->allocs[part].stream = z->how->overlaps;
    keep(&z->parts, part);
    z->held = w->kept;
}

// The rank's part of a gradient goes to the host, in fp32 when the update comes; its norm is
// taken then. Earlier micro-steps are added up there, through a buffer that is made once.
static void send(struct zero *z, struct zero_weight *w) {
    static const struct {
        enum op op;
        int64_t bytes;
    } copies[] = {{OP_NORM, 8}, {OP_FP32, 4}};
    for (int i = 0; i < 2 && z->is_last; i++) {
        int32_t copy = take(z, copies[i].op, TAPE_TEMPORARY, copies[i].bytes * w->piece);
        z->to->allocs[copy].stream = z->how->overlaps;
        tape_drop(z->to, copy);
    }
    if (z->is_last && w->is_own && w->norm == NOT_THERE)
        w->norm = take(z, OP_NORM, TAPE_TEMPORARY, 8);
}

static void flush(struct zero *z) {
    reduce_all(z);
    for (int32_t i = 0; i < z->in_bucket; i++) {
        struct zero_weight *w = &z->weights[z->inside[i]];
        if (w->piece == 0) continue;
        if (is_offloaded(z))
            send(z, w);
        else
            keep_part(z, w);
    }
    bool stays =
        z->how->stage == 1 && z->in_bucket > 0 && !z->weights[z->inside[z->in_bucket - 1]].is_own;
    if (z->oversize != NOT_THERE && stays)
        keep(&z->kept, z->oversize);
    else
        tape_drop(z->to, z->oversize);
    z->oversize = NOT_THERE;
    z->in_bucket = 0;
    z->elements = 0;
}

static void take_buckets(struct zero *z) {
    if (z->bucket_count > 0) return;
    for (int i = 0; i < 1 + z->how->overlaps; i++)
        z->buckets[z->bucket_count++] = take(z, OP_BUCKET, TAPE_GRADIENT, 2 * z->how->bucket);
}

static void reduce_gradient(struct zero *z, int32_t weight, int32_t copy) {
    int64_t count = z->weights[weight].count;
    if (z->elements + count > z->how->bucket) flush(z);
    if (count > z->how->bucket) {
        // With offload it is copied, so that nobody else has it.
        z->oversize = is_offloaded(z) ? take(z, OP_REDUCED, TAPE_GRADIENT, 2 * count) : copy;
        if (is_offloaded(z)) tape_drop(z->to, copy);
    } else {
        tape_drop(z->to, copy);
    }
    z->elements += count;
    z->inside[z->in_bucket++] = weight;
}

static bool is_at_hooks(const struct zero *z) {
    return z->how->stage == 2 || (z->how->overlaps && z->is_last);
}

static void release(struct zero *z) {
    flush(z);
    drop_all(z, &z->kept);
    for (int32_t i = 0; i < z->bucket_count; i++) tape_drop(z->to, z->buckets[i]);
    z->bucket_count = 0;
    // What an earlier micro-step left is added to, and is what stays.
    if (z->older.count > 0)
        drop_all(z, &z->parts);
    else
        while (z->parts.count > 0) keep(&z->older, z->parts.items[--z->parts.count]);
    z->held = 0;
}

// Stage 1 without overlap reduces when all gradients are there, in the groups' order.
static void reduce_late(struct zero *z, const int32_t *whole) {
    for (int group = 0; group < GROUPS; group++) {
        for (int32_t i = 0; i < z->weight_count; i++)
            if (z->weights[i].group == group) reduce_gradient(z, i, whole[i]);
    }
}

// -- the whole -------------------------------------------------------------------

// They are flattened one group after the other, each time with an empty cache.
static void take_weights(struct zero *z, const struct zero_group *g) {
    tape_put_event(z->to, (struct tape_event){.kind = TAPE_EMPTY_CACHE});
    take(z, OP_WEIGHTS, TAPE_PARAM, 2 * g->part * z->how->ranks);
}

static int64_t largest_weight(const struct zero *z) {
    int64_t largest = 0;
    for (int32_t i = 0; i < z->weight_count; i++)
        if (z->weights[i].count > largest) largest = z->weights[i].count;
    return largest;
}

// What the host keeps: master copies, the weights they become, gradients, states.
static void count_host(const struct zero *z, struct tape *ret) {
    struct tape_host h = {.is_paged = z->how->offload.is_paged};
    for (int i = 0; i < GROUPS; i++) {
        tape_host_put(&h, 4 * z->groups[i].part);
        tape_host_put(&h, 2 * z->groups[i].part);
    }
    tape_host_put(&h, 2 * largest_weight(z));
    for (int i = 0; i < GROUPS; i++) tape_host_put(&h, 4 * z->groups[i].part);
    for (int32_t i = 0; i < z->weight_count && z->accumulates && z->how->stage == 2; i++)
        if (z->weights[i].is_own) tape_host_put(&h, 2 * z->weights[i].count);
    for (int i = 0; i < GROUPS; i++) tape_host_page(&h, 8 * z->groups[i].part);
    tape_host_tell(&h, ret);
}

static void copy_init(struct zero *z) {
    int32_t masters[GROUPS] = {0};
    for (int i = 0; i < GROUPS; i++) {
        const struct zero_group *g = &z->groups[i];
        if (g->count == 0) continue;
        take_weights(z, g);
        int32_t clone = take(z, OP_MASTER, TAPE_TEMPORARY, 2 * g->part);
        if (is_offloaded(z))
            pass_by(z, OP_MASTER, 4 * g->part); // cast here, then copied to the host
        else
            take(z, OP_MASTER, TAPE_OPTIMIZER_STATE, 4 * g->part);
        tape_drop(z->to, clone);
    }
    if (is_offloaded(z)) {
        take(z, OP_BUCKET, TAPE_GRADIENT, 2 * largest_weight(z));
        return;
    }
    for (int i = 0; i < GROUPS; i++)
        masters[i] = z->groups[i].count == 0
                         ? NOT_THERE
                         : take(z, OP_FP32, TAPE_TEMPORARY, 4 * z->groups[i].part);
    for (int i = 0; i < GROUPS; i++) tape_drop(z->to, masters[i]);
}

// Norms are of 8 bytes an element (deepspeed/runtime/zero/utils.py, get_norm_dtype).
static void pass_norms(struct zero *z) {
    for (int group = 0; group < GROUPS; group++) {
        for (int32_t i = 0; i < z->weight_count; i++) {
            const struct zero_weight *w = &z->weights[i];
            if (w->group == group) pass_by(z, OP_NORM, 8 * w->piece);
        }
    }
}

static void update(struct zero *z) {
    for (int32_t i = 0; i < z->weight_count; i++) {
        tape_drop(z->to, z->weights[i].norm);
        z->weights[i].norm = NOT_THERE;
    }
    if (is_offloaded(z)) return;
    pass_norms(z);
    for (int i = 0; i < GROUPS; i++) {
        struct zero_group *g = &z->groups[i];
        if (g->count > 0) {
            int32_t flat =
                g->averaged != 1 ? take(z, OP_PART, TAPE_TEMPORARY, 2 * g->part) : NOT_THERE;
            int32_t fp32 = take(z, OP_FP32, TAPE_TEMPORARY, 4 * g->part);
            tape_drop(z->to, flat);
            if (i == GROUPS - 1 || z->groups[i + 1].count == 0) drop_all(z, &z->older);
            for (int s = 0; s < 2; s++)
                if (g->states[s] == NOT_THERE)
                    g->states[s] = take(z, OP_STATE, TAPE_OPTIMIZER_STATE, 4 * g->part);
            tape_drop(z->to, fp32);
        }
    }
    drop_all(z, &z->older);
}

struct walk {
    uint8_t phase;
    int32_t *gradient; // of every weight, its whole gradient as a copy
};

// The node that made a gradient is done. In stage 1 it is added to what is there.
static void run_hook(struct zero *z, struct walk *w) {
    int32_t alloc = z->hook;
    if (alloc == NOT_THERE) return;
    int32_t *whole = &w->gradient[z->weight[alloc]];
    z->hook = NOT_THERE;
    take_buckets(z);
    if (z->how->stage == 1 && *whole != NOT_THERE)
        tape_drop(z->to, z->now[alloc]);
    else
        *whole = z->now[alloc];
    if (is_at_hooks(z)) reduce_gradient(z, z->weight[alloc], *whole);
}

// Whether the pass that begins at an event is followed by the update.
static bool is_before_update(const struct tape *t, int32_t event) {
    int32_t next = tape_end_of_phase(t, event + 1);
    return next < t->event_count && t->events[next].phase == TAPE_OPTIMIZER;
}

static void end_backward(struct zero *z, struct walk *w) {
    run_hook(z, w);
    if (z->how->stage == 1 && !z->is_last) return;
    if (!is_at_hooks(z)) reduce_late(z, w->gradient);
    release(z);
}

static bool is_trained(const struct zero *z, int32_t alloc) {
    for (int32_t i = 0; i < z->weight_count; i++)
        if (z->weights[i].alloc == alloc) return true;
    return false;
}

static void copy_alloc(struct zero *z, struct walk *w, int32_t alloc) {
    const struct tape_alloc *x = &z->from->allocs[alloc];
    if (w->phase == TAPE_OPTIMIZER || (x->tag == TAPE_PARAM && is_trained(z, alloc))) return;
    const struct tape_alloc *hook = z->hook == NOT_THERE ? NULL : &z->from->allocs[z->hook];
    bool is_same = hook && hook->op == x->op && hook->module == x->module &&
                   z->to->events[z->to->event_count - 1].kind == TAPE_ALLOC;
    if (hook && !is_same) run_hook(z, w);
    z->now[alloc] = tape_put_alloc(z->to, *x);
    if (x->tag != TAPE_GRADIENT) return;
    run_hook(z, w); // of one that came just before
    z->hook = alloc;
}

static void copy_mark(struct zero *z, struct walk *w, int32_t event) {
    const struct tape_event *e = &z->from->events[event];
    if (w->phase == TAPE_BACKWARD) end_backward(z, w);
    if (w->phase == TAPE_INIT && event > 0) copy_init(z);
    tape_put_event(z->to, *e);
    w->phase = e->phase;
    if (e->phase == TAPE_BACKWARD) {
        z->is_last = is_before_update(z->from, event);
        z->accumulates |= !z->is_last;
    }
    if (e->phase != TAPE_OPTIMIZER) return;
    update(z);
    for (int32_t i = 0; i < z->weight_count; i++) w->gradient[i] = NOT_THERE;
}

static void copy_free(struct zero *z, int32_t alloc) {
    if (z->from->allocs[alloc].tag != TAPE_GRADIENT) tape_drop(z->to, z->now[alloc]);
}

static void copy_all(struct zero *z, struct walk *w) {
    for (int32_t i = 0; i < z->from->event_count; i++) {
        const struct tape_event *e = &z->from->events[i];
        if (e->kind == TAPE_MARK)
            copy_mark(z, w, i);
        else if (e->kind == TAPE_ALLOC)
            copy_alloc(z, w, e->index);
        else if (e->kind == TAPE_FREE)
            copy_free(z, e->index);
        else if (w->phase != TAPE_OPTIMIZER)
            tape_put_event(z->to, *e);
    }
}

static ptrdiff_t count_marks(const struct tape *t, enum tape_phase phase) {
    ptrdiff_t count = 0;
    for (int32_t i = 0; i < t->event_count; i++)
        count += t->events[i].kind == TAPE_MARK && t->events[i].phase == phase;
    return count;
}

// Events at most. Each gradient of each pass and each weight of each update come with a few, and so
// does each message: it is longer than the bucket, and has pieces of several ranks.
static ptrdiff_t count_more(const struct zero *z) {
    const ptrdiff_t passes = count_marks(z->from, TAPE_BACKWARD),
                    updates = count_marks(z->from, TAPE_OPTIMIZER);
    int64_t elements = 0, messages = z->how->ranks + z->weight_count;
    for (int i = 0; i < GROUPS; i++) elements += z->groups[i].count;
    if (elements / z->how->bucket < messages) messages = elements / z->how->bucket;
    return 8 * (passes + updates) * z->weight_count + 2 * passes * (ptrdiff_t)messages +
           64 * (updates + 1);
}

bool tape_zero(struct arena *a, const struct tape *t, const struct tape_zero *how,
               struct tape *ret) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct zero z = {.from = t, .how = how, .to = ret, .hook = NOT_THERE, .oversize = NOT_THERE};
    z.now = arena_new(&scratch, int32_t, t->alloc_count);
    z.weight = arena_new(&scratch, int32_t, t->alloc_count);
    z.weights = arena_new(&scratch, struct zero_weight, t->alloc_count);
    z.first = arena_new(&scratch, int32_t, t->string_count);
    memset(z.now, 0xff, sizeof *z.now * (size_t)t->alloc_count);
    memset(z.weight, 0xff, sizeof *z.weight * (size_t)t->alloc_count);
    if (how->stage == 3) return tape_zero3(a, t, how, ret);
    *ret = *t;
    if (!find_weights(&z)) return false;
    tape_zero_lay_out(&scratch, how, z.weights, z.weight_count, z.groups);
    z.inside = arena_new(&scratch, int32_t, z.weight_count);
    struct blocks *lists[] = {&z.parts, &z.older, &z.kept};
    for (int i = 0; i < 3; i++) lists[i]->items = arena_new(&scratch, int32_t, z.weight_count);
    struct walk w = {.gradient = arena_new(&scratch, int32_t, z.weight_count)};
    memset(w.gradient, 0xff, sizeof *w.gradient * (size_t)z.weight_count);
    const ptrdiff_t more = count_more(&z);
    ret->events = arena_new(a, struct tape_event, 2 * t->event_count + more);
    ret->allocs = arena_new(a, struct tape_alloc, t->alloc_count + more);
    ret->event_count = ret->alloc_count = 0;
    z.first_op = tape_add_ops(a, t, ret, op_names, OPS);
    copy_all(&z, &w);
    if (how->overlaps && ret->stream_count < 2) ret->stream_count = 2;
    ret->header.ranks = how->ranks;
    if (is_offloaded(&z)) count_host(&z, ret);
    return true;
}
