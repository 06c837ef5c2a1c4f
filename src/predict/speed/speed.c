// SPDX-License-Identifier: Apache-2.0
// Time of a step = sum over its kernels of
//     max(flops x tiles x knee x odd / (f x peak), bytes / rate) + launch
// where f and the rate, b x bandwidth or min(bandwidth, l x cycles), are the kernel's class's. The
// form and what it is good for: doc/speed-model.md; bench/accuracy/speed_model.py is the same for
// fitting, and tools/speed_fit.py compares the two.
#include "predict/speed/speed_int.h"

#include <math.h>

// From here on the run's time is in doubt: a tenth of it is spent in kernels whose choice by cuDNN
// the model does not know (doc/speed-model.md).
static const double doubtful_from = 0.1;
// The host decides unless the GPU needs clearly longer than it.
static const double host_keeps_up = 2;
enum { LARGE_TAPS = 25 }; // depthwise kernels from 5 x 5 on are slower than their bytes say
// cuDNN computes a convolution as a matrix product in whole tiles: 64 x 64 are the smallest sides
// of a block's that its names of kernels speak of, and it reads 32 deep at once.
enum { TILE = 64, STEP = 32 };

enum kind {
    MM,
    BMM,
    DENSE,
    DENSE_WGRAD,
    GROUP,
    GROUP_FEW,
    DEPTHWISE,
    ELEM,
    HEAVY,
    NONCONTIG,
    NORM,
    BN,
    REDUCE
};

static const uint8_t kinds[TAPE_CLASS_COUNT] = {
    [TAPE_MM] = MM,
    [TAPE_BMM] = BMM,
    [TAPE_ATTENTION] = MM,
    [TAPE_CONV_FWD] = DENSE,
    [TAPE_CONV_DGRAD] = DENSE,
    [TAPE_CONV_WGRAD] = DENSE_WGRAD,
    [TAPE_ELEM] = ELEM,
    [TAPE_HEAVY] = HEAVY,
    [TAPE_OPT] = ELEM,
    [TAPE_NONCONTIG] = NONCONTIG,
    [TAPE_NORM] = NORM,
    [TAPE_BN_FWD] = BN,
    [TAPE_BN_BWD] = BN,
    [TAPE_REDUCE] = REDUCE,
};

// The constants of a kind, those of NHWC where they differ.
static const struct {
    int8_t f, b; // f -1: no arithmetic to speak of
    bool has_nhwc;
    bool is_by_cycle; // b is an L: bytes a cycle
} shares[] = {
    [MM] = {SPEED_F_MM, SPEED_L_MM, false, true},
    [BMM] = {SPEED_F_BMM, SPEED_L_BMM, false, true},
    [DENSE] = {SPEED_F_CONV, SPEED_L_CONV, true, true},
    [DENSE_WGRAD] = {SPEED_F_WGRAD, SPEED_L_WGRAD, true, true},
    [GROUP] = {SPEED_F_GROUP, SPEED_L_CONV, true, true},
    [GROUP_FEW] = {SPEED_F_GROUP_FEW, SPEED_L_CONV_NHWC, false, true}, // none in NCHW
    [DEPTHWISE] = {-1, SPEED_L_DEPTHWISE, true, true},
    [ELEM] = {-1, SPEED_B_ELEM, false, false},
    [HEAVY] = {-1, SPEED_B_HEAVY, false, false},
    [NONCONTIG] = {-1, SPEED_B_NONCONTIG, false, false},
    [NORM] = {-1, SPEED_B_NORM, false, false},
    [BN] = {-1, SPEED_B_BN, true, false},
    [REDUCE] = {-1, SPEED_B_REDUCE, false, false},
};

// One line of work, as the model sees it.
struct kernel {
    enum kind kind;
    bool is_nhwc, is_wgrad;
    struct str dtype;
    double flops, bytes, taps;
    double inputs, outputs; // channels or matrix sides; 0: none
    double tiles;           // what is computed over what is needed, for whole tiles
};

// "7" or "0+64B" at a batch; 0 where the work has no such key.
static double size_at(const struct tape *t, const struct tape_work *w, const char *key,
                      int64_t batch) {
    struct str slope = tape_work_value(t, w, key), constant = str_cut(&slope, '+');
    int64_t c = 0, k = 0;
    (void)str_to_i64(constant, &c);
    if (slope.len > 1) (void)str_to_i64(str_slice(slope, 0, slope.len - 1), &k);
    return (double)c + (double)k * (double)batch;
}

static double padded(double size, int tile) {
    return ceil(size / tile) * tile / fmax(size, 1);
}

// The product's sides, but for the images' positions, of which there are many: outputs by inputs x
// taps; of the input's gradient inputs by outputs x taps; of the weight's gradient both in tiles.
static double tiles_of(enum tape_class class_, const struct kernel *k) {
    if (class_ == TAPE_CONV_DGRAD)
        return padded(k->inputs, TILE) * padded(k->outputs * k->taps, STEP);
    int deep = class_ == TAPE_CONV_WGRAD ? TILE : STEP;
    return padded(k->outputs, TILE) * padded(k->inputs * k->taps, deep);
}

// Channels_last: 4 to 32 channels a group, as many out as in, 32 groups or a multiple. Others fall
// back to direct kernels, an order of magnitude slower.
static bool is_few(const struct kernel *k, double groups) {
    double width = k->inputs / groups;
    bool has_width = width == 4 || width == 8 || width == 16 || width == 32;
    return k->is_nhwc && has_width && k->inputs == k->outputs && fmod(groups, 32) == 0;
}

static void read_convolution(const struct tape *t, const struct tape_work *w, struct kernel *k) {
    double groups = fmax(size_at(t, w, "groups", 1), 1);
    k->inputs = size_at(t, w, "cin", 1);
    k->outputs = size_at(t, w, "cout", 1);
    k->taps = size_at(t, w, "kernel", 1);
    if (groups > 1)
        k->kind = groups >= k->inputs ? DEPTHWISE : is_few(k, groups) ? GROUP_FEW : GROUP;
    if (groups <= 1) k->tiles = tiles_of(w->class_, k);
    k->inputs /= groups;
    k->outputs /= groups;
    k->is_wgrad = w->class_ == TAPE_CONV_WGRAD;
}

static struct kernel read_kernel(const struct tape *t, const struct tape_work *w, int64_t batch) {
    struct kernel k = {
        .kind = (enum kind)kinds[w->class_],
        .is_nhwc = str_is(tape_work_value(t, w, "layout"), "nhwc"),
        .dtype = tape_work_value(t, w, "dtype"),
        .flops = (double)w->flops_c + (double)w->flops_k * (double)batch,
        .bytes = (double)w->bytes_c + (double)w->bytes_k * (double)batch,
        .tiles = 1,
    };
    if (w->class_ == TAPE_MM || w->class_ == TAPE_BMM) {
        k.inputs = size_at(t, w, "k", batch);
        k.outputs = size_at(t, w, "n", batch);
    }
    if (k.kind == DENSE || k.kind == DENSE_WGRAD) read_convolution(t, w, &k);
    return k;
}

// What the GeForce GPUs that hold their boost clock have in watts for a dense TFLOPS of their
// tensor cores (fp32 accumulation), by compute capability, so by process: RTX 3090 (8 nm), RTX
// 4090, RTX 5090 (both 4N). Data sheets, as in data/gpus.tsv.
static const struct {
    int compute_capability;
    double watts, tflops;
} holding[] = {{86, 350, 71.2}, {89, 450, 165.2}, {120, 575, 209.5}};

// Share of the boost clock that the power limit leaves: 1 where the GPU has as many watts for what
// its tensor cores do as those above. Switching takes C V^2 f, and V goes about with f: P ~ f^3.
double speed_clock_share(const struct gpu *g) {
    for (size_t i = 0; g->has_tensor_cores && i < sizeof holding / sizeof *holding; i++) {
        if (holding[i].compute_capability != g->compute_capability) continue;
        double needed = holding[i].watts / holding[i].tflops * g->fp16 / 1e12;
        return g->tdp_watts > 0 ? fmin(1, cbrt(g->tdp_watts / needed)) : 1;
    }
    return 1;
}

// The GPU's rate for a kernel's arithmetic. torch's defaults: TF32 for convolutions in fp32, not
// for matrix products (torch.backends.cuda.matmul.allow_tf32 from 1.12 on).
static double peak_of(const struct gpu *g, const struct kernel *k) {
    double half = str_is(k->dtype, "bf16") && !isnan(g->bf16) ? g->bf16 : g->fp16;
    double tensor = str_is(k->dtype, "f32") ? k->kind <= BMM ? NAN : g->tf32 : half;
    // Without tensor cores all is computed in fp32, at a clock that the limit does not hold back.
    return isnan(tensor) || !g->has_tensor_cores ? g->fp32 : tensor * speed_clock_share(g);
}

// Small matrices fill the GPU badly: flops count so many times.
static double knee_of(const struct kernel *k, const double *constants) {
    double knee = constants[SPEED_KNEE_CHANNELS], in = fmax(k->inputs, 1),
           out = fmax(k->outputs, 1);
    if (k->kind == GROUP || k->kind == GROUP_FEW)
        return 1 + constants[SPEED_KNEE_GROUP + k->is_nhwc] / in;
    if (!(k->inputs > 0)) return 1;
    double times = (1 + knee / in) * (1 + knee / out);
    // An image's three channels are not meant.
    bool is_odd = fmod(k->inputs, 8) > 0 || fmod(k->outputs, 8) > 0;
    bool is_dense = k->kind == DENSE || k->kind == DENSE_WGRAD;
    return is_dense && is_odd && in > 4 ? times * constants[SPEED_ODD_CHANNELS] : times;
}

// Multiprocessors x clock under the power limit: fp32 counts two operations a lane and cycle. Lanes
// of one: CUDA C Programming Guide 12.4, throughput of native arithmetic instructions.
static double cycles_of(const struct gpu *g) {
    int cc = g->compute_capability;
    bool is_narrow = cc == 60 || (cc >= 70 && cc <= 80);
    return g->fp32 / (2 * (is_narrow ? 64 : 128)) * speed_clock_share(g);
}

// Bytes a second. Where a kernel multiplies, its loads and stores keep the multiprocessors busy
// before they fill the memory's bandwidth, so that it is faster on a GPU with more of those.
static double rate_of(const struct kernel *k, const struct gpu *g, const double *constants) {
    double c = constants[shares[k->kind].b + (shares[k->kind].has_nhwc && k->is_nhwc)];
    if (!shares[k->kind].is_by_cycle) return c * g->bandwidth;
    double rate = fmin(g->bandwidth, c * cycles_of(g));
    return k->kind == DEPTHWISE && k->is_wgrad ? rate / constants[SPEED_DEPTHWISE_WGRAD] : rate;
}

static double seconds_of(const struct kernel *k, const struct gpu *g, const double *constants) {
    int shift = shares[k->kind].has_nhwc && k->is_nhwc;
    double arithmetic = 0;
    if (shares[k->kind].f >= 0) {
        arithmetic = k->flops * k->tiles * knee_of(k, constants) /
                     (constants[shares[k->kind].f + shift] * peak_of(g, k));
    }
    double launches = k->kind == BN ? 2 : 1; // statistics and the rest
    return fmax(arithmetic, k->bytes / rate_of(k, g, constants)) +
           launches * constants[SPEED_LAUNCH_US] * 1e-6;
}

static bool is_doubtful(const struct kernel *k) {
    return k->is_nhwc && (k->kind == GROUP || (k->kind == DEPTHWISE && k->taps >= LARGE_TAPS));
}

// How often a phase of the tape runs in a step: the tape has one micro-step or two.
static double repeats(const struct tape_header *h, enum tape_phase phase, int64_t accumulation) {
    bool is_micro = phase == TAPE_FORWARD || phase == TAPE_BACKWARD || phase == TAPE_INPUT;
    double micro = h->accumulation > 1 ? (double)h->accumulation : 1;
    return is_micro && accumulation > 0 ? (double)accumulation / micro : 1;
}

static bool add_up(const struct speed_run *run, struct speed *s) {
    enum tape_phase phase = TAPE_INIT;
    const struct tape *t = run->tape;
    double kernels = 0, doubtful = 0;
    s->step_s = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK) phase = (enum tape_phase)e->phase;
        if (e->kind != TAPE_WORK) continue;
        const struct tape_work *w = &t->works[e->index];
        double times = (double)w->count * repeats(&t->header, phase, run->accumulation);
        struct kernel k = read_kernel(t, w, run->batch);
        double seconds = times * seconds_of(&k, run->gpu, s->row->constants);
        s->step_s += seconds;
        kernels += times;
        if (is_doubtful(&k)) doubtful += seconds;
    }
    if (!(s->step_s > 0)) return false;
    s->host_s = kernels * s->row->host_us * 1e-6;
    s->doubtful_share = doubtful / s->step_s;
    return true;
}

bool speed_names_card(struct str list, struct str key) {
    return key.len > 0 && str_has_name(list, key);
}

// The GPU decides before the software, the first of equals.
static const struct speed_row *choose(const struct speed_table *t, const struct speed_run *run,
                                      int torch, bool *ret_is_card, bool *ret_is_fitted) {
    const struct tape_header *h = &run->tape->header;
    const struct speed_row *best = NULL;
    int most = -1;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct speed_row *r = &t->rows[i];
        if (!str_equal(r->mode, h->mode.len > 0 ? h->mode : STR("train"))) continue;
        bool is_card = speed_names_card(r->cards, run->gpu->key);
        bool is_era = torch > 0 && tsv_within(torch, r->torch_min, r->torch_max);
        int how = 4 * is_card + 2 * is_era +
                  tsv_within(run->gpu->compute_capability, r->cc_min, r->cc_max);
        if (how <= most) continue;
        most = how;
        best = r;
        *ret_is_card = is_card;
        *ret_is_fitted = is_card && is_era && str_is(h->precision, "amp-fp16");
    }
    return best;
}

bool speed_at(const struct speed_table *t, const struct speed_run *run, struct speed *ret) {
    *ret =
        (struct speed){.step_s = NAN, .host_s = NAN, .samples_per_s = NAN, .low = NAN, .high = NAN};
    struct gpu_software software = {.torch = run->torch};
    const struct gpu *g = run->gpu;
    if (run->batch < 1 || !g || !(g->bandwidth > 0) || !(g->fp32 > 0)) return false;
    if (!software.torch) (void)gpu_software_parse(run->tape->header.rules, &software);
    ret->row = choose(t, run, software.torch, &ret->is_card, &ret->is_fitted);
    if (!ret->row || !add_up(run, ret)) return false;
    ret->is_doubtful = ret->doubtful_share > doubtful_from;
    double range = ret->is_fitted ? ret->row->range : ret->row->range_other;
    if (ret->is_doubtful) range = fmax(range, ret->row->range_doubtful);
    ret->samples_per_s =
        (double)run->batch * (double)(run->accumulation > 1 ? run->accumulation : 1) / ret->step_s;
    ret->is_host_bound = ret->step_s < host_keeps_up * ret->host_s;
    ret->low = ret->is_host_bound ? NAN : ret->samples_per_s / range;
    ret->high = ret->samples_per_s * range;
    return true;
}

void speed_calibrate(struct speed *s, double factor, double range) {
    s->samples_per_s *= factor;
    s->mfu *= factor;
    s->step_s /= factor;
    s->low = s->is_host_bound || s->is_offloaded ? NAN : s->samples_per_s / range;
    s->high = s->samples_per_s * range;
}
