// SPDX-License-Identifier: Apache-2.0
// How long a step takes and how many samples a second that is, from the tape's work events, without
// a GPU. The constants are fitted to published runs (data/speed.tsv, doc/speed-model.md) and hold
// for the GPU they were fitted on; for others the GPU's peak rate and bandwidth are put in, and
// the range is wider. Input pipeline, copies to the GPU and collectives are not in it.
#pragma once

#include "predict/gpu/gpu.h"
#include "predict/plan/plan.h"
#include "predict/shape/shape.h"
#include "predict/tape/tape.h"

// How long GPUs take to exchange bytes, by NCCL's own model: a ring, or for sums a tree where that
// is faster, over the links of a machine and the network between machines (data/links.tsv). Facts
// of hardware and NCCL's constants; nothing here is fitted.

// A row of data/links.tsv, or made of the GPU's PCIe generation.
struct speed_link {
    struct str cards, link, network;
    bool is_nvlink;
    int machine;     // GPUs of one machine
    double bus, net; // bytes/s one way: of a GPU, and of all adapters of a machine
};
struct speed_links {
    struct speed_link *rows;
    ptrdiff_t count, capacity;
};
int speed_links_load(struct arena *a, struct speed_links *ret, struct fail *why);
// False: nothing is known of how such GPUs are connected.
bool speed_link_of(const struct speed_links *links, const struct gpu *gpu, struct speed_link *ret);

// Between a GPU and its host, bytes/s one way; 0: not known.
double speed_pcie(const struct gpu *gpu);

enum speed_collective { SPEED_ALL_GATHER, SPEED_REDUCE_SCATTER, SPEED_ALL_REDUCE };
// So many GPUs, each `apart` from the next: 1 are neighbours; 8 are one of each machine, and the
// other seven of it wait for the network in groups of their own.
struct speed_group {
    const struct speed_link *link;
    int64_t ranks, apart;
};
// `bytes`: of the whole of what is gathered or summed, in `calls` equal calls.
double speed_collective_s(const struct speed_group *g, enum speed_collective what, double bytes,
                          int64_t calls);

// F: share of the GPU's peak, B: of its bandwidth. With NHWC the next one is that of
// channels_last.
enum speed_constant {
    SPEED_F_MM,
    SPEED_F_BMM,
    SPEED_F_CONV,
    SPEED_F_CONV_NHWC,
    SPEED_F_WGRAD,
    SPEED_F_WGRAD_NHWC,
    SPEED_F_GROUP,
    SPEED_F_GROUP_NHWC,
    SPEED_F_GROUP_FEW, // grouped convolutions that cuDNN has kernels of their own for
    SPEED_B_ELEM,
    SPEED_B_NONCONTIG,
    SPEED_B_NORM,
    SPEED_B_REDUCE,
    SPEED_B_BN,
    SPEED_B_BN_NHWC,
    SPEED_B_HEAVY,
    SPEED_L_MM, // from here on bytes that a multiprocessor loads and stores in a cycle
    SPEED_L_BMM,
    SPEED_L_CONV,
    SPEED_L_CONV_NHWC,
    SPEED_L_WGRAD,
    SPEED_L_WGRAD_NHWC,
    SPEED_L_DEPTHWISE,
    SPEED_L_DEPTHWISE_NHWC,
    SPEED_DEPTHWISE_WGRAD, // time of a depthwise weight gradient over that of the same bytes
    SPEED_KNEE_CHANNELS,   // flops count (1 + knee/cin) (1 + knee/cout) times
    SPEED_KNEE_GROUP,      // those of grouped convolutions (1 + knee/cin) times, cin of one group
    SPEED_KNEE_GROUP_NHWC,
    SPEED_ODD_CHANNELS, // and this many times where channels are no multiple of 8
    SPEED_LAUNCH_US,    // of each kernel
    SPEED_CONSTANTS
};

// A row of data/speed.tsv. The range factors: runs lie between prediction / factor and
// prediction x factor; which share of the published ones does is in doc/speed-model.md.
struct speed_row {
    struct str name, cards, mode, from, note; // GPUs: keys of data/gpus.tsv, commas between
    int cc_min, cc_max, torch_min, torch_max; // 86 for 8.6, 112 for 1.12; 0: no bound
    double constants[SPEED_CONSTANTS];
    double range, range_doubtful; // on the GPUs it was fitted on
    double range_other;           // elsewhere: another GPU, software or precision
    double range_measured;        // elsewhere, after some models were measured there
    double host_us;               // what the host needs to start a kernel, for "host-bound"
};
struct speed_table {
    struct speed_row *rows;
    ptrdiff_t count, capacity;
};
// The embedded table, or the user's file of that name. FAIL_INPUT names file, line and column.
int speed_load(struct arena *a, struct speed_table *ret, struct fail *why);

// What is timed: one optimizer step on one GPU.
struct speed_run {
    const struct tape *tape;
    int64_t batch;        // of one micro-step
    int64_t accumulation; // micro-steps; below 1: 1
    const struct gpu *gpu;
    int torch; // 100 * major + minor; 0: that of the tape's rules
};
struct speed {
    const struct speed_row *row;     // whose constants
    double step_s;                   // on the GPU, the host kept up
    double host_s;                   // that the host needs for it, by row->host_us
    double samples_per_s, low, high; // low is NaN where the host decides or updates
    double doubtful_share;           // of the time, in kernels that the model is bad at
    bool is_doubtful;
    bool is_host_bound; // below the knee: at most `high`
    bool is_offloaded;  // the CPU updates, for which no time is counted: at most `high`
    bool is_card;       // the GPU is the row's
    bool is_fitted;     // GPU, software and precision are those of the row
    // Of a language model (speed_tokens_at), else 0. samples_per_s is then of one GPU among `gpus`,
    // collectives counted.
    double tokens;          // of a sample, one GPU's part where layers are split
    double mfu;             // share of the peak rate that goes into what the model needs
    double waits_s;         // of step_s: for what other GPUs and the host send
    double copies_s;        // what goes to the host and comes from it, in a step
    int64_t gpus;           // that work together
    struct speed_link link; // between them; empty: one GPU
};
// False when nothing can be said: a tape without work events, a GPU without facts, no row.
bool speed_at(const struct speed_table *t, const struct speed_run *run, struct speed *ret);
// The same with a factor learned from measurements: `range` is what is left of the error.
void speed_calibrate(struct speed *s, double factor, double range);

// How many tokens a second a decoder trains at, on one GPU or many. The arithmetic is known from
// the model's shape, what else its kernels move from the sizes on its tape, and what GPUs exchange
// from how they share the weights: so a template, which has no work lines, has a time, too
// (doc/speed-model.md, "Language models").

enum speed_tokens_constant {
    SPEED_TOKENS_LINEAR,    // share of the peak rate in products with weights
    SPEED_TOKENS_ATTENTION, // and in fused causal attention, whose masked half is not counted
    SPEED_TOKENS_KNEE,      // narrow products: flops count (1 + knee / hidden) times
    SPEED_TOKENS_MOVED,     // share of the bandwidth, of everything else
    SPEED_TOKENS_LAYER_MS,  // that a sharded layer waits in a micro-step, beyond what is computed
    SPEED_TOKENS_CONSTANTS
};
// A row of data/tokens.tsv. Of `row` the constants and what is doubtful are not used.
struct speed_tokens_row {
    struct speed_row row;
    double constants[SPEED_TOKENS_CONSTANTS];
};
struct speed_tokens_table {
    struct speed_tokens_row *rows;
    ptrdiff_t count, capacity;
    struct speed_links links;
};
// data/tokens.tsv and data/links.tsv. FAIL_INPUT names file, line and column.
int speed_tokens_load(struct arena *a, struct speed_tokens_table *ret, struct fail *why);

// What a tape says of a micro-step: the bytes that its kernels move, but those that multiply; how
// many kernels there are, roughly; and how much of the forward pass is computed again in backward,
// of products with weights and of attention.
struct speed_seen {
    double bytes, kernels, linear_again, attention_again;
};
struct speed_seen speed_seen_of(const struct tape *t, int64_t batch);

struct speed_tokens_run {
    const struct plan *plan; // with batch, accumulation and a sequence length
    const struct shape *shape;
    const struct gpu *gpu;
    struct speed_seen seen;
};

// *ret also has tokens_per_s, mfu, waits_s. False: nothing can be said.
bool speed_tokens_at(const struct speed_tokens_table *t, const struct speed_tokens_run *run,
                     struct speed *ret);
