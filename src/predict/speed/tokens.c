// SPDX-License-Identifier: Apache-2.0
// Time of an optimizer step = micro-steps x max(compute, what is exchanged meanwhile) + what
// nothing hides + the update, where
//     compute = linear flops x (1 + knee / hidden) / (f x peak) + attention flops / (f x peak)
//               + moved bytes / (b x bandwidth)
// All volumes below are those that the libraries' own code sends, its defaults named.
#include "predict/speed/speed.h"
#include "predict/speed/speed_int.h"

#include <math.h>

// A kernel that is not a product reads its inputs and writes its output: of a Llama's recorded work
// lines (doc/formats/tape.md) the bytes are 2.4 to 2.6 times those that it allocates. What is
// gathered and summed is copied once.
static const double moved_times = 2.5;
// In backward, attention computes five products where forward has two.
static const double attention_backward = 2.5;
// Adam's update in one kernel: weight, gradient and two states are read, all but the gradient
// written, in fp32.
static const double update_bytes = 28;
static const double host_keeps_up = 2;
static const double oldest_pcie = 12e9; // bytes/s of generation 3, where it is not known
static const double ddp_bucket = 25e6;  // DistributedDataParallel's bucket_cap_mb

// --- What the tape says --------------------------------------------------------------------------

enum op { OP_OTHER, OP_LINEAR, OP_ATTENTION, OP_SHARED, OP_NONE };

// Attention's backward operation is none of its forward's.
static enum op op_of(struct str name) {
    static const char *const linear[] = {"mm", "addmm", NULL};
    static const char *const none[] = {"bmm", "baddbmm", "cublas_workspace", NULL};
    if (str_is_one_of(name, linear)) return OP_LINEAR;
    if (str_starts(name, STR("fsdp.")) || str_starts(name, STR("zero."))) return OP_SHARED;
    if (str_starts(name, STR("_scaled_dot_product")))
        return str_ends(name, STR("_backward")) ? OP_NONE : OP_ATTENTION;
    return str_is_one_of(name, none) || str_starts(name, STR("flash.")) ? OP_NONE : OP_OTHER;
}

struct counts {
    double linear, attention;
};

struct speed_seen speed_seen_of(const struct tape *t, int64_t batch) {
    struct speed_seen seen = {0};
    struct counts forward = {0}, backward = {0};
    enum tape_phase phase = TAPE_INIT;
    bool is_last = false;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK) {
            phase = (enum tape_phase)e->phase;
            is_last = t->header.steps < 1 || e->index + 1 == t->header.steps;
        }
        if (e->kind != TAPE_ALLOC || !is_last) continue;
        if (phase != TAPE_FORWARD && phase != TAPE_BACKWARD) continue;
        const struct tape_alloc *alloc = &t->allocs[e->index];
        enum op op = op_of(t->strings[alloc->op]);
        struct counts *c = phase == TAPE_FORWARD ? &forward : &backward;
        double bytes = (double)tape_size(t, alloc, batch, 0);
        seen.kernels++;
        c->linear += op == OP_LINEAR;
        c->attention += op == OP_ATTENTION;
        seen.bytes += op == OP_OTHER ? moved_times * bytes : op == OP_SHARED ? bytes : 0;
    }
    double micro = t->header.accumulation > 1 ? (double)t->header.accumulation : 1;
    seen.bytes /= micro;
    seen.kernels /= micro;
    // Backward has two products for each of forward, of frozen weights one: an adapter's tape says
    // what is computed again by its attention.
    if (forward.attention > 0) seen.attention_again = backward.attention / forward.attention;
    bool is_frozen = t->header.adapter.len > 0;
    if (forward.linear > 0)
        seen.linear_again =
            is_frozen ? seen.attention_again : fmax(0, backward.linear / forward.linear - 2);
    return seen;
}

// --- Arithmetic ----------------------------------------------------------------------------------

static double table_of(const struct shape *s) {
    return (double)s->vocabulary * (double)s->hidden;
}

// Parameters that a token is multiplied by. An embedding of its own is only looked up, and an
// encoder's, which has a small head; a tower that sees does not run.
static double multiplied(const struct shape *s) {
    bool is_looked_up = !s->tied || shape_is_encoder(s);
    return (double)(s->parameters - s->tower) - (is_looked_up ? table_of(s) : 0);
}

// The sides, inputs and outputs, of the linear layers of a name, as multiples of the model's sizes.
// Where several layers of one have the name, both: GPT-2's c_proj.
static const struct side {
    const char *const *names;
    int hidden, query, value, inner; // the heads of queries, of keys, or of values; feed-forward
} sides[] = {
    {(const char *const[]){"q_proj", "o_proj", "out_proj", "q", "o", "query", "q_lin", "out_lin",
                           "dense", NULL},
     1, 1, 0, 0},
    {(const char *const[]){"k_proj", "v_proj", "k", "v", "key", "value", "k_lin", "v_lin", NULL}, 1,
     0, 1, 0},
    {(const char *const[]){"qkv_proj", "query_key_value", "c_attn", "Wqkv", NULL}, 1, 1, 2, 0},
    {(const char *const[]){"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "fc1", "fc2",
                           "c_fc", "dense_h_to_4h", "dense_4h_to_h", "wi", "wi_0", "wi_1", "wo",
                           "lin1", "lin2", NULL},
     1, 0, 0, 1},
    {(const char *const[]){"gate_up_proj", NULL}, 1, 0, 0, 2},
    {(const char *const[]){"c_proj", NULL}, 2, 1, 0, 1},
};

static double sides_of(const struct shape *s, struct str name) {
    static const struct side square = {NULL, 2, 0, 0, 0}; // of a name that is not known
    const struct side *of = &square;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (str_is_one_of(str_last(name, '.'), sides[i].names)) of = &sides[i];
    return (double)(of->hidden * s->hidden + of->query * s->heads * s->head_dim +
                    of->value * shape_kv_heads(s) * s->head_dim + of->inner * s->intermediate);
}

// Of LoRA on all layers, which are a Llama's, or on those that are named: rank x (inputs +
// outputs). Small beside the model, so that the layers' usual sides do.
static double adapter_parameters(const struct plan *p, const struct shape *s) {
    struct str names = plan_adapter_targets(p->adapter);
    double sum = 0;
    if (names.len == 0) names = STR("q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
    while (names.len > 0) sum += sides_of(s, str_cut(&names, ','));
    return (double)plan_adapter_rank(p->adapter) * (double)s->layers * sum;
}

// What one token costs, in operations, forward and backward, on all GPUs that compute it together.
struct work {
    double linear, attention; // that are computed
    double useful;            // that the model needs: what the utilisation (MFU) counts
};

static struct work work_of(const struct speed_tokens_run *run) {
    const struct plan *p = run->plan;
    const struct shape *s = run->shape;
    double weights = multiplied(s), head = shape_is_encoder(s) ? 0 : table_of(s);
    // Products of queries and keys, and of their shares and values; half of them where no token
    // looks at those behind it.
    double attention =
        4 * (double)p->sequence_length * (double)(s->heads * s->head_dim) * (double)s->layers;
    double looked_at = shape_is_encoder(s) ? 1 : 0.5;
    double adapter = p->adapter.len > 0 ? adapter_parameters(p, s) : 0;
    // Frozen weights have no gradient of their own.
    double passes = p->adapter.len > 0 ? 2 : 3;
    return (struct work){
        .linear = 2 * (passes * weights + run->seen.linear_again * (weights - head) + 3 * adapter),
        .attention = looked_at * attention * (1 + attention_backward + run->seen.attention_again),
        .useful = 2 * (passes * weights + 3 * adapter) + 3 * attention,
    };
}

// --- What GPUs exchange --------------------------------------------------------------------------

struct traffic {
    double micro;     // while a micro-step computes
    double last;      // while the last one computes, besides
    double alone;     // with nothing to compute meanwhile, of a whole step
    double copies;    // of all that, what goes between GPU and host in a step
    bool is_by_layer; // the layers' weights come and go
};

static bool is_wide(const struct plan *p) {
    return p->precision == PLAN_FP32 || p->precision == PLAN_PRECISION_UNKNOWN;
}

struct bytes {
    double weights, gradients; // of one exchange of all
};
static double split_of(const struct plan *p) {
    return p->tensor_parallel > 1 ? (double)p->tensor_parallel : 1;
}
static double trained_of(const struct plan *p, const struct shape *s) {
    return p->adapter.len > 0 ? adapter_parameters(p, s) : (double)s->parameters;
}

// What an adapter leaves as it is: `each` bytes a parameter, in four bits half of one but for the
// embedding and the head.
static double frozen_bytes(const struct plan *p, const struct shape *s, double each) {
    const double tables = (s->tied ? 1 : 2) * table_of(s), all = (double)s->parameters;
    if (p->adapter.len == 0) return 0;
    return p->quant.len > 0 ? each * tables + 0.5 * (all - tables) : each * all;
}

static struct bytes bytes_of(const struct plan *p, const struct shape *s) {
    double trained = trained_of(p, s), each = is_wide(p) ? 4 : 2;
    double reduced = plan_is_titan(p->shard) ? 2 * each : each; // in fp32
    return (struct bytes){(each * trained + frozen_bytes(p, s, each)) / split_of(p),
                          reduced * trained / split_of(p)};
}

// DistributedDataParallel: buckets of the gradients as they are kept, from the last layer on.
static void add_ddp(const struct plan *p, const struct bytes *b, const struct speed_group *g,
                    struct traffic *t) {
    // Weights, and so gradients, are in fp32 under autocast, beside products in two bytes.
    double gradients = plan_precision_is_amp(p->precision) ? 2 * b->gradients : b->gradients;
    double buckets = fmax(1, ceil(gradients / ddp_bucket));
    t->last = speed_collective_s(g, SPEED_ALL_REDUCE, gradients, (int64_t)buckets);
    t->alone = t->last / buckets;
}

// Every layer is gathered for forward and again for backward. A sum of gradients is needed once a
// step where whole gradients are kept meanwhile (fsdp2), in each micro-step otherwise.
static void add_gathered(const struct bytes *b, const struct speed_group *g, int64_t layers,
                         bool is_each_step, struct traffic *t) {
    double sum = speed_collective_s(g, SPEED_REDUCE_SCATTER, b->gradients, layers);
    t->micro = 2 * speed_collective_s(g, SPEED_ALL_GATHER, b->weights, layers);
    *(is_each_step ? &t->micro : &t->last) += sum;
    t->is_by_layer = true;
    // The first layer's weights and the last one's gradients have nothing to hide behind.
    t->alone = (t->micro + t->last) / (double)layers;
}

// Hybrid sharding: every rank's part of the summed gradients is summed once more over the groups
// that have whole models (torch's _fsdp_collectives.py, foreach_reduce).
static void add_replicas(const struct bytes *b, const struct speed_group *g, double sharers,
                         int64_t layers, struct traffic *t) {
    t->last += speed_collective_s(g, SPEED_ALL_REDUCE, b->gradients / sharers, layers);
}

// DeepSpeed 0.19.8: stage 1 sums at the end, stage 2 in every backward pass, both by all-reduce of
// buckets (use_multi_rank_bucket_allreduce); the updated weights are gathered after the update.
static void add_zero(const struct plan_zero *zero, const struct plan *p, const struct shape *s,
                     const struct speed_group *g, struct traffic *t) {
    const double trained = trained_of(p, s), usual = (double)PLAN_ZERO_BUCKET;
    const double bucket = (double)(zero->bucket > 0 ? zero->bucket : s->hidden * s->hidden);
    const int64_t micro_steps = plan_micro_steps(p);
    // Seven matrices and two norms a layer; one that is larger than the bucket goes by itself. Both
    // are of two bytes an element; allgather_bucket_size is not among a plan's words.
    const double gradients = (p->adapter.len > 0 ? 14 : 9) * (double)s->layers + 3;
    const double messages = ceil(fmax(1, fmin(trained / bucket, gradients)));
    double sum = speed_collective_s(g, SPEED_ALL_REDUCE, 2 * trained, (int64_t)messages);
    if (zero->stage == 2 && zero->overlaps) t->micro = sum;
    if (zero->stage == 2 && !zero->overlaps) t->alone = sum * (double)micro_steps;
    if (zero->stage == 1) t->alone = sum;
    t->alone += speed_collective_s(g, SPEED_ALL_GATHER, 2 * trained,
                                   (int64_t)ceil(fmax(1, trained / usual)));
}

// A rank's part of the weights comes from the host for each pass, its gradients go there, and of
// ZeRO, which keeps weights beside the update's, new ones come back. FSDP's parts are fp32 where
// they are trained (the update is made of them), and are cast on the GPU.
static void add_copies(const struct plan *p, const struct shape *s, const struct gpu *gpu,
                       struct traffic *t) {
    struct plan_zero zero = {0};
    const double link = speed_pcie(gpu) > 0 ? speed_pcie(gpu) : oldest_pcie;
    const double among = (double)(p->ranks > 1 ? p->ranks : 1) * link;
    const double trained = trained_of(p, s), frozen = frozen_bytes(p, s, 2);
    double each = 0, gradients = 0, micro = 0;
    if (plan_fsdp_offloads(p->shard)) {
        each = (4 * trained + frozen) / among;
        gradients = 4 * trained / among;
        t->last += gradients;
    } else if (plan_zero_read(p->shard, &zero)) {
        bool is_update = zero.places[PLAN_OPTIMIZER] != PLAN_ON_GPU;
        if (zero.places[PLAN_PARAM] != PLAN_ON_GPU) each = (2 * trained + frozen) / among;
        if (is_update) micro = 2 * trained / among;
        if (is_update && each == 0) gradients = 2 * trained / among;
        t->alone += gradients;
    }
    micro += 2 * each;
    t->micro += micro;
    t->copies = (double)plan_micro_steps(p) * micro + gradients;
}

// Does the CPU update?
static bool is_offloaded(const struct plan *p) {
    struct plan_zero zero;
    return plan_fsdp_offloads(p->shard) ||
           (plan_zero_read(p->shard, &zero) && zero.places[PLAN_OPTIMIZER] != PLAN_ON_GPU);
}

// Tensor and sequence parallel: each layer gathers the sequence twice and sums it into parts twice,
// in two bytes, and so does backward, as what was gathered is kept. Nothing is computed meanwhile.
static double split_s(const struct speed_tokens_run *run, const struct speed_link *link) {
    const struct plan *p = run->plan;
    struct speed_group g = {link, p->tensor_parallel, 1};
    double bytes = 2 * (double)p->batch * (double)p->sequence_length * (double)run->shape->hidden;
    double times = 2 * (2 + run->seen.attention_again);
    double pair = speed_collective_s(&g, SPEED_ALL_GATHER, bytes, 1) +
                  speed_collective_s(&g, SPEED_REDUCE_SCATTER, bytes, 1);
    return p->tensor_parallel > 1 ? (double)run->shape->layers * times * pair : 0;
}

static void add_exchange(const struct plan *p, const struct shape *s, const struct speed_link *link,
                         struct traffic *t) {
    const int64_t split = (int64_t)split_of(p), sharers = plan_shard_ranks(p);
    struct bytes b = bytes_of(p, s);
    struct speed_group g = {link, p->shard.len > 0 ? sharers : p->ranks, split};
    struct plan_zero zero;
    bool is_zero = plan_zero_read(p->shard, &zero);
    if (is_zero && zero.stage < 3)
        add_zero(&zero, p, s, &g, t);
    else if (p->shard.len > 0)
        add_gathered(&b, &g, s->layers,
                     is_zero || plan_is_tune(p->shard) || plan_micro_steps(p) == 1, t);
    else
        add_ddp(p, &b, &g, t);
    if (p->shard.len > 0 && sharers < p->ranks)
        add_replicas(&b, &(struct speed_group){link, p->ranks / sharers, sharers * split},
                     (double)sharers, s->layers, t);
}

static struct traffic traffic_of(const struct plan *p, const struct shape *s,
                                 const struct speed_link *link, const struct gpu *gpu) {
    struct traffic t = {0};
    if (p->ranks > 1) add_exchange(p, s, link, &t);
    add_copies(p, s, gpu, &t);
    return t;
}

// --- Time ----------------------------------------------------------------------------------------

// The data sheet's. Of products in fp32 TF32 is not torch's default.
static double peak_of(const struct gpu *g, const struct plan *p) {
    double half = isnan(g->bf16) ? g->fp16 : g->bf16;
    return is_wide(p) || isnan(half) || !g->has_tensor_cores ? g->fp32 : half;
}

// Seconds that a micro-step computes.
static double compute_s(const struct speed_tokens_run *run, const double *constants,
                        const struct work *w) {
    const struct plan *p = run->plan;
    double tokens = (double)p->batch * (double)p->sequence_length;
    double peak = peak_of(run->gpu, p) * (is_wide(p) ? 1 : speed_clock_share(run->gpu));
    double knee = 1 + constants[SPEED_TOKENS_KNEE] / (double)run->shape->hidden;
    tokens /= split_of(p);
    return tokens * w->linear * knee / (constants[SPEED_TOKENS_LINEAR] * peak) +
           tokens * w->attention / (constants[SPEED_TOKENS_ATTENTION] * peak) +
           run->seen.bytes / (constants[SPEED_TOKENS_MOVED] * run->gpu->bandwidth);
}

static double update_s(const struct speed_tokens_run *run, const double *constants) {
    const struct plan *p = run->plan;
    struct plan_zero zero;
    if (is_offloaded(p)) return 0;
    bool is_shared = p->shard.len > 0 || plan_zero_read(p->shard, &zero);
    double trained = trained_of(p, run->shape);
    double part = is_shared && p->ranks > 1 ? trained / (double)plan_shard_ranks(p) : trained;
    part /= split_of(p);
    return update_bytes * part / (constants[SPEED_TOKENS_MOVED] * run->gpu->bandwidth);
}

static void add_up(const struct speed_tokens_run *run, const double *constants,
                   const struct traffic *t, double split, struct speed *s) {
    struct work w = work_of(run);
    double micro = (double)plan_micro_steps(run->plan);
    double compute = compute_s(run, constants, &w);
    if (t->is_by_layer)
        compute += constants[SPEED_TOKENS_LAYER_MS] * 1e-3 * (double)run->shape->layers;
    double hidden = (micro - 1) * fmax(compute, t->micro) + fmax(compute, t->micro + t->last);
    s->waits_s = hidden - micro * compute + t->alone + micro * split;
    s->step_s = micro * compute + s->waits_s + update_s(run, constants);
}

static const struct speed_tokens_row *choose(const struct speed_tokens_table *t,
                                             const struct gpu *gpu, bool *ret_is_card) {
    const struct speed_tokens_row *best = NULL;
    *ret_is_card = false;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct speed_tokens_row *r = &t->rows[i];
        if (speed_names_card(r->row.cards, gpu->key)) {
            *ret_is_card = true;
            return r;
        }
        if (!best || tsv_within(gpu->compute_capability, r->row.cc_min, r->row.cc_max)) best = r;
    }
    return best;
}

bool speed_tokens_at(const struct speed_tokens_table *t, const struct speed_tokens_run *run,
                     struct speed *ret) {
    const struct plan *p = run->plan;
    struct speed_link link = {0};
    *ret =
        (struct speed){.step_s = NAN, .host_s = NAN, .samples_per_s = NAN, .low = NAN, .high = NAN};
    // Of experts a token takes a few, an encoder's tokens are not a decoder's, and a reference's
    // pass has no backward one.
    if (run->shape->experts > 0 || str_is(run->shape->kind, "seq2seq")) return false;
    if (plan_is_preference(p->loss)) return false;
    bool is_known = p->batch > 0 && p->sequence_length > 0 && run->shape->parameters > 0 &&
                    run->gpu->bandwidth > 0 && run->gpu->fp32 > 0;
    if (!is_known || run->seen.bytes <= 0) return false;
    if (plan_devices(p) > 1 && !speed_link_of(&t->links, run->gpu, &link)) return false;
    const struct speed_tokens_row *row = choose(t, run->gpu, &ret->is_card);
    if (!row) return false;
    struct traffic traffic = traffic_of(p, run->shape, &link, run->gpu);
    add_up(run, row->constants, &traffic, split_s(run, &link), ret);
    ret->row = &row->row;
    ret->is_fitted = ret->is_card && !shape_is_encoder(run->shape); // the rows are of decoders
    ret->gpus = plan_devices(p);
    ret->link = link;
    double micro = (double)plan_micro_steps(p);
    ret->host_s = micro * run->seen.kernels * row->row.host_us * 1e-6;
    ret->is_host_bound = ret->step_s < host_keeps_up * ret->host_s;
    ret->samples_per_s = (double)p->batch * micro / ret->step_s;
    double range = ret->is_fitted ? row->row.range : row->row.range_other;
    ret->is_offloaded = is_offloaded(p);
    ret->copies_s = traffic.copies;
    ret->low = ret->is_host_bound || ret->is_offloaded ? NAN : ret->samples_per_s / range;
    ret->high = ret->samples_per_s * range;
    ret->tokens = (double)p->sequence_length / split_of(p); // of one GPU
    struct work w = work_of(run);
    ret->mfu = w.useful * ret->samples_per_s * ret->tokens / peak_of(run->gpu, p);
    return true;
}
