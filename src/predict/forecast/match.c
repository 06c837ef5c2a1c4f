// SPDX-License-Identifier: Apache-2.0
// Which tape matches a plan. Exactly the plan's own, or the nearest one that may stand in; every
// substitution has a row in the table below, a penalty that ranks it and a note that says what it
// does to the figures. What no row allows is not guessed.
#include "predict/forecast/forecast_int.h"
#include "predict/shape/shape.h"

#include <math.h>

enum { NO = -1, FREE = 0 };

// How well an entry serves one property of the plan: FREE (equal), NO (cannot), else a penalty.
struct property {
    const char *name;
    int (*serves)(const struct plan *p, const struct forecast_model *m,
                  const struct tape_header *h);
    // NULL: nothing to be said.
    void (*note)(struct arena *a, const struct plan *p, struct forecast_tape *t);
};

static int serves_mode(const struct plan *p, const struct forecast_model *m,
                       const struct tape_header *h) {
    (void)m;
    return str_is(h->mode, p->inference ? "inference" : "train") ? FREE : NO;
}

// A larger image or longer sequence needs more: it may stand in as an upper bound.
static int serves_size(int64_t wanted, int64_t usual, int64_t has) {
    if (wanted <= 0) wanted = usual;
    if (wanted <= 0 || has == wanted) return FREE;
    if (has <= 0 || has < wanted) return NO;
    return 1000 + (int)((has - wanted) * 1000 / wanted);
}

int64_t forecast_image_size(const struct plan *p, const struct forecast_model *m) {
    return p->image_size > 0 ? p->image_size : m->image_size;
}

int64_t forecast_size_of(const struct tape_entry *e, int64_t wanted) {
    const struct tape_bound *b = &e->image;
    if (wanted <= 0 || b->most <= 0) return 0;
    int64_t size = wanted < b->least ? b->least : (wanted + b->step - 1) / b->step * b->step;
    return tape_bound_holds(b, size) ? size : 0;
}

static int serves_image(const struct plan *p, const struct forecast_model *m,
                        const struct tape_header *h) {
    if (h->image_size <= 0) return FREE;
    return serves_size(p->image_size, m->image_size, h->image_size);
}

static void note_image(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    if (p->image_size <= 0 || h->image_size <= 0 || h->image_size == p->image_size) return;
    t->is_upper_bound = t->is_larger = true;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) = str_format(
        a, "no tape at %lld px: using the one at %lld px, so every figure is an upper bound",
        (long long)p->image_size, (long long)h->image_size);
}

static int serves_sequence(const struct plan *p, const struct forecast_model *m,
                           const struct tape_header *h) {
    (void)m;
    if (h->sequence_length <= 0) return FREE;
    // Nobody said it: the longest, so that the answer is rather too careful.
    if (p->sequence_length <= 0) return 100 - 5 * (int)log2((double)h->sequence_length);
    int source = serves_size(p->sequence_length, 0, h->sequence_length);
    int target = h->target_length > 0 ? serves_size(p->target_length, 0, h->target_length) : FREE;
    return source < 0 || target < 0 ? NO : source + target;
}

static void note_sequence(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    bool source = h->sequence_length > 0 && p->sequence_length > 0 &&
                  h->sequence_length != p->sequence_length;
    bool target =
        h->target_length > 0 && p->target_length > 0 && h->target_length != p->target_length;
    if (!source && !target) return;
    t->is_upper_bound = t->is_larger = true;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) = str_format(
        a,
        "no tape at %lld tokens: using the one at %lld tokens, so every figure is an upper bound",
        (long long)(source ? p->sequence_length : p->target_length),
        (long long)(source ? h->sequence_length : h->target_length));
}

// Autocast to bf16 and to fp16 cast the same tensors to two bytes; only GradScaler's few scalars
// differ.
static int serves_precision(const struct plan *p, const struct forecast_model *m,
                            const struct tape_header *h) {
    (void)m;
    enum plan_precision has = forecast_precision(h);
    enum plan_precision wanted = p->precision ? p->precision : PLAN_FP32;
    if (has == wanted) return FREE;
    if (wanted == PLAN_AMP_BF16 && has == PLAN_AMP_FP16) return 1;
    if (wanted == PLAN_AMP_FP16 && has == PLAN_AMP_BF16) return 1;
    // Weights of half size run through the same kernels whichever half it is.
    if (p->inference && wanted == PLAN_FP16 && has == PLAN_BF16) return 1;
    if (p->inference && wanted == PLAN_BF16 && has == PLAN_FP16) return 1;
    // Autocast keeps fp32 weights and casts them: it needs more than weights of half size.
    bool is_half = wanted == PLAN_FP16 || wanted == PLAN_BF16;
    bool is_cast = plan_precision_is_amp(has);
    return p->inference && is_half && is_cast ? 50 : NO;
}

static void note_precision(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    enum plan_precision has = plan_precision_find(t->entry->header.precision);
    bool is_half = p->precision == PLAN_FP16 || p->precision == PLAN_BF16;
    if (!p->inference || !is_half || has == PLAN_FP16 || has == PLAN_BF16) return;
    t->is_upper_bound = true;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) = str_format(
        a, "no tape with weights in %s: using the one with %s, which needs more and is slower",
        plan_precision_name(p->precision), plan_precision_name(has));
}

// Optimizers whose state and temporaries have the same sizes.
static const struct {
    const char *wanted, *has;
} equal_states[] = {{"adam", "adamw"}, {"adamw", "adam"}, {"lion", "sgd"}, {"sgd", "lion"}};

static int serves_optimizer(const struct plan *p, const struct forecast_model *m,
                            const struct tape_header *h) {
    (void)m;
    const struct str wanted = plan_optimizer_plain(p);
    if (p->inference || wanted.len == 0 || str_equal(wanted, h->optimizer)) return FREE;
    for (size_t i = 0; i < sizeof equal_states / sizeof *equal_states; i++) {
        if (str_is(wanted, equal_states[i].wanted) && str_is(h->optimizer, equal_states[i].has)) {
            return 1;
        }
    }
    return NO;
}

static void note_optimizer(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    struct str has = t->entry->header.optimizer;
    if (p->inference || p->optimizer.len == 0 || str_equal(plan_optimizer_plain(p), has)) return;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) = str_format(
        a, "%.*s is sized as %.*s: the same states", STR_ARG(p->optimizer), STR_ARG(has));
}

static int64_t micro_steps(int64_t accumulation) {
    return accumulation > 1 ? 2 : 1;
}

static int serves_accumulation(const struct plan *p, const struct forecast_model *m,
                               const struct tape_header *h) {
    (void)m;
    if (p->inference) return FREE;
    int64_t wanted = micro_steps(p->accumulation), has = micro_steps(h->accumulation);
    return wanted == has ? FREE : wanted > has ? 200 : 100;
}

// From the second micro-step on the gradients are there during the forward pass.
static void note_accumulation(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    if (p->inference || micro_steps(p->accumulation) == micro_steps(h->accumulation)) return;
    bool lacks = p->accumulation > 1 && !str_is(h->zero_grad, "zero") && h->parameters > 0;
    if (lacks && h->adapter.len > 0)
        t->extra_bytes += forecast_gradient_bytes(t->tape);
    else if (lacks)
        t->extra_bytes += h->parameters * (p->precision == PLAN_BF16 ? 2 : 4);
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) =
        lacks ? STR("no tape with accumulation: the gradients' bytes are added, so every figure is "
                    "an upper bound")
              : STR("using the tape with accumulation for a single step: an upper bound");
}

static int serves_checkpointing(const struct plan *p, const struct forecast_model *m,
                                const struct tape_header *h) {
    (void)m;
    return p->checkpointing == (h->checkpointing == 1) ? FREE : NO;
}

// Weights that follow the trained ones: one more fp32 copy of the parameters, resident.
static int serves_ema(const struct plan *p, const struct forecast_model *m,
                      const struct tape_header *h) {
    (void)m;
    return p->ema == (h->ema == 1) ? FREE : p->ema ? 20 : 40;
}

static void note_ema(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    const struct tape_header *h = &t->entry->header;
    if (!p->ema || h->ema == 1 || h->parameters <= 0) return;
    t->extra_bytes += h->parameters * 4;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) =
        STR("EMA: 4 bytes per parameter are added");
}

static int serves_layout(const struct plan *p, const struct forecast_model *m,
                         const struct tape_header *h) {
    (void)m;
    bool wants_nhwc = str_is(p->layout, "nhwc");
    return wants_nhwc == str_is(h->layout, "nhwc") ? FREE : 5;
}

static void note_layout(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    if (p->layout.len == 0 || str_equal(p->layout, t->entry->header.layout)) return;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) = str_format(
        a, "recorded as %.*s: the same bytes, other kernels", STR_ARG(t->entry->header.layout));
}

// Two spellings of one ZeRO.
static bool is_same_zero(struct str a, struct str b) {
    struct plan_zero x, y;
    return plan_zero_read(a, &x) && plan_zero_read(b, &y) && plan_zero_is_same(&x, &y);
}

// One rank's part of a model is of nothing else either.
static int serves_shard(const struct plan *p, const struct forecast_model *m,
                        const struct tape_header *h) {
    (void)m;
    struct str shard = plan_recorded_shard(p);
    bool is_alike = str_equal(shard, h->shard) || is_same_zero(shard, h->shard);
    int64_t asked = p->tensor_parallel > 1 ? p->tensor_parallel : 1, has = h->tp > 1 ? h->tp : 1;
    return is_alike && asked == has && (h->shard.len == 0 || p->ranks == h->ranks) ? FREE : NO;
}

// A tape of an adapter over frozen weights is of nothing else.
static int serves_adapter(const struct plan *p, const struct forecast_model *m,
                          const struct tape_header *h) {
    (void)m;
    return str_equal(p->adapter, h->adapter) && str_equal(p->quant, h->quant) ? FREE : NO;
}

// What a user recorded with one version of liger's is of liger's.
static int serves_loss(const struct plan *p, const struct forecast_model *m,
                       const struct tape_header *h) {
    (void)m;
    if (p->inference || str_equal(plan_loss_form(p->loss), plan_loss_form(h->loss))) return FREE;
    return str_is(p->loss, "liger") && str_starts(h->loss, STR("liger@")) ? 1 : NO;
}

// A compiled tape may need less than the same training without a compiler.
static int serves_compile(const struct plan *p, const struct forecast_model *m,
                          const struct tape_header *h) {
    (void)m;
    bool is_compiled = h->compile.len > 0;
    return p->compile == is_compiled ? FREE : p->compile ? 30 : NO;
}

static int serves_name(const struct plan *p, const struct forecast_model *m,
                       const struct tape_header *h) {
    (void)p;
    (void)m;
    (void)h;
    return FREE; // found by its name
}

// What of a name says whose it is: "anyone" of "anyone/gpt2", "hf:anyone/gpt2". Weight files are
// nobody's: runs/yolo11l.pt.
static struct str owner_of(struct str name) {
    struct str rest = name, library = str_cut(&rest, ':');
    if (rest.p && str_is(library, "hf")) name = rest;
    if (!shape_is_id(name) || str_ends(name, STR(".pt")) || str_ends(name, STR(".pth")))
        return (struct str){0};
    return str_cut(&name, '/');
}

// Of two names of the hub, whether they are one model: google-bert/bert-base-uncased is
// bert-base-uncased, anyone/bert-base-uncased need not be.
static bool is_same_model(struct arena *a, struct str typed, struct str model) {
    struct shape_table shapes;
    struct str rest = model, library = str_cut(&rest, ':');
    if (!rest.p || str_starts(typed, STR("timm/"))) return true;
    if (str_starts(typed, STR("hf:"))) typed = str_slice(typed, 3, typed.len);
    if (str_equal_nocase(owner_of(typed), owner_of(rest))) return true;
    if (!str_is(library, "hf") || shape_load(a, &shapes, NULL) < 0) return false;
    const struct shape *x = shape_find(&shapes, typed), *y = shape_find(&shapes, rest);
    return x && y && (x == y || shape_is_alike(x, y));
}

static void note_name(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    const struct str model = t->entry->header.model;
    if (owner_of(p->model).len == 0 || is_same_model(a, p->model, model)) return;
    *arena_push(a, &t->notes.items, &t->notes.count, &t->notes.capacity) =
        str_format(a, "%.*s is taken as %.*s, by its name: its own config.json was not read",
                   STR_ARG(p->model), STR_ARG(model));
}

enum { IMAGE_SIZE = 6 };
static const struct property properties[] = {
    {"name", serves_name, note_name},
    {"mode", serves_mode, NULL},
    {"adapter", serves_adapter, NULL},
    {"loss", serves_loss, NULL},
    {"compiler", serves_compile, NULL},
    {"sharding", serves_shard, NULL},
    [IMAGE_SIZE] = {"image size", serves_image, note_image},
    {"sequence length", serves_sequence, note_sequence},
    {"precision", serves_precision, note_precision},
    {"optimizer", serves_optimizer, note_optimizer},
    {"checkpointing", serves_checkpointing, NULL},
    {"accumulation", serves_accumulation, note_accumulation},
    {"EMA", serves_ema, note_ema},
    {"layout", serves_layout, note_layout},
};
enum { PROPERTIES = sizeof properties / sizeof *properties };

// Penalty, or NO with the first property that stands in the way.
static int entry_penalty(const struct plan *p, const struct forecast_model *m,
                         const struct tape_entry *e, int *ret_property) {
    struct tape_header header = e->header;
    const bool is_template = e->image.most > 0;
    int sum = is_template; // a recording of just that size comes first
    if (is_template) header.image_size = forecast_size_of(e, forecast_image_size(p, m));
    if (is_template && header.image_size == 0) {
        *ret_property = IMAGE_SIZE;
        return NO;
    }
    for (int i = 0; i < PROPERTIES; i++) {
        int penalty = properties[i].serves(p, m, &header);
        if (penalty == NO) {
            *ret_property = i;
            return NO;
        }
        sum += penalty;
    }
    return sum;
}

const struct tape_entry *forecast_match(const struct tape_store *store, const struct plan *p,
                                        const struct forecast_model *m, const char **ret_obstacle) {
    const struct tape_entry *best = NULL;
    int best_penalty = 0, farthest = -1;
    ptrdiff_t at = 0;
    for (const struct tape_entry *e; (e = tape_store_next(store, m->name, &at));) {
        int obstacle = 0, penalty = entry_penalty(p, m, e, &obstacle);
        if (penalty == NO && obstacle > farthest) farthest = obstacle;
        if (penalty == NO || (best && penalty >= best_penalty)) continue;
        best = e;
        best_penalty = penalty;
    }
    *ret_obstacle = best || farthest < 0 ? NULL : properties[farthest].name;
    return best;
}

void forecast_match_notes(struct arena *a, const struct plan *p, struct forecast_tape *t) {
    for (int i = 0; i < PROPERTIES; i++) {
        if (properties[i].note) properties[i].note(a, p, t);
    }
}
