// SPDX-License-Identifier: Apache-2.0
// One plan on one GPU: which tape matches it, what it needs, whether it fits, how sure that is,
// and what would help. fit, team, explain (and later check, run, serve) all ask here.
#pragma once

#include "predict/gpu/gpu.h"
#include "predict/plan/plan.h"
#include "predict/shape/shape.h"
#include "predict/sim/sim.h"
#include "predict/tape/catalogue.h"

// What measured runs say of the predictions here: factors of the allocator's figures
// (stats_find_correction). runs 0: none.
struct forecast_correction {
    int64_t runs, models; // models 1: runs of this very model
    double factor, fit_factor, upper_factor;
};

// Where the plan is to run. Bytes.
struct forecast_card {
    struct gpu gpu;
    struct gpu_overhead overhead;
    int64_t others_bytes; // taken by other processes
    struct str others;    // who they are: "python, pid 4242"; empty: not known
    double margin;        // share of the memory to leave free, 0 … 1
    int64_t host_bytes;   // of the machine that it is in; 0: not known
    int64_t host_gpus;    // of that machine, as far as they may train; 0: a node's, 8
    struct forecast_correction correction;
};
// What the allocator can get: usable − overhead − others. May be negative.
int64_t forecast_capacity(const struct forecast_card *card);
// The same with the margin kept free: usable × (1 − margin) − overhead − others.
int64_t forecast_budget(const struct forecast_card *card);

// A tape in memory, with what has been learned from it; shared by everyone who asks about it.
struct forecast_loaded;

// A model as people write it, and what it is in the store.
struct forecast_model {
    struct str name;    // "timm:swin_base_patch4_window12_384"
    int64_t image_size; // of the alias, 0: none
};

// The tapes that have been loaded so far: GPUs and remedies ask about the same ones again and
// again. One set of allocator options for all.
struct forecast_cache {
    struct arena *arena;
    const struct tape_store *store;
    struct sim_options options;
    // A model that is a file of the user's own: as the plan calls it, and its shape.
    struct str own_name;
    const struct shape *own_shape;
    struct str own_recorded;          // the model of the store that was recorded of it; empty: none
    const char *templates;            // the folder of templates; NULL: those shipped
    struct forecast_family *families; // both are made when first asked
    struct shape_table *shapes;
    // The name that was last looked up, what it is, and forecast_find_model's code.
    struct str asked;
    struct forecast_model model;
    int model_code;
    struct str unrecorded; // the model that was last found to have no tape
    struct arena *tapes;   // what is loaded and made from now on is there; NULL: in the arena
    struct forecast_loaded **items;
    ptrdiff_t count, capacity;
};

// While it lives, the cache loads aside: what only tries another plan leaves nothing behind. A
// forecast that was opened meanwhile has its plan, notes and figures afterwards, but no tape.
//
//     FORECAST_ASIDE aside;
//     forecast_aside(&aside, cache);
struct forecast_aside {
    struct arena tapes;
    struct forecast_cache *cache;
    struct arena *before;
    ptrdiff_t count;
};
void forecast_aside(struct forecast_aside *ret_aside, struct forecast_cache *cache);
void forecast_aside_end(struct forecast_aside *aside);
#define FORECAST_ASIDE __attribute__((cleanup(forecast_aside_end))) struct forecast_aside

// How the notes of scores.c begin: scores of attention are counted, or should be.
#define FORECAST_SCORES "attention: below compute capability 8.0 "
#define FORECAST_NO_SCORES "not counted: the scores of attention"

// What is known of a kind of plan: the tape that matches it. The batch is free.
struct forecast_tape {
    const struct tape_entry *entry;
    const struct tape *tape;
    struct sim *sim;
    struct forecast_loaded *loaded;
    int64_t extra_bytes;     // resident bytes that this tape lacks (see the notes), on any GPU
    int64_t workspace_bytes; // that it lacks besides where cuBLAS takes more (forecast_extra)
    int64_t server_bytes;    // weights and one sequence, where a server with a paged cache has them
                             // instead of transformers; 0: not known, or a training
    struct str_list notes;   // where the tape differs from the plan, and what that means
    bool is_upper_bound;     // one that needs more stands in
    bool is_larger;          // of a larger image or a longer sequence
    bool lacks_scores;       // attention holds scores on this GPU that nobody counts
    struct str template;     // that was filled with the model's sizes; empty: it is a recording
};

// Resident bytes that the tape lacks on this GPU: extra_bytes, what cuBLAS takes here more than
// where the tape was recorded, and what is kept on a host whose memory is the GPU's.
int64_t forecast_extra(const struct forecast_card *card, const struct forecast_tape *t);

struct forecast {
    struct arena *arena;
    struct forecast_cache *cache;
    struct plan plan;
    struct forecast_model model;
    const struct shape *shape;         // where templates of its family exist; NULL: there is none
    struct forecast_tape *tapes[2][2]; // [several micro-steps][batch 1]; opened when first asked
};

// A tape's as a plan says it: shards of weights in bf16 under autocast (plan_fsdp2_older) are what
// --precision bf16 means.
enum plan_precision forecast_precision(const struct tape_header *h);

// Finds the model ("swin_base_384", "google/mt5-large", "yolo11l.pt") in data/models.tsv and in the
// store. FAIL_INPUT: the nearest names and the command that records it, where there is a `why`.
int forecast_find_model(struct arena *a, const struct tape_store *store, struct str spelled,
                        struct forecast_model *ret_model, struct fail *why);
// timm's own name today of what is spelled: an old name of timm's, a team's ("efficientnet_v2_b3"),
// with a tag. 1: found, 0: timm has no such model.
int forecast_timm_model(struct arena *a, struct str spelled, struct forecast_model *ret_model,
                        struct fail *why);
// What to do for a tape of a model that has none: the command, or how to come to one. `bare`: the
// name without folders and endings of files.
int forecast_record_advice(struct arena *a, struct str spelled, struct str bare,
                           struct str *ret_advice, struct fail *why);
// Fills what the plan leaves open (image size, sequence) from the model's alias or its usual tape,
// and sees to it that a tape for it exists. FAIL_INPUT says which ones there are and how to record
// another.
int forecast_open(struct forecast_cache *cache, const struct plan *plan,
                  struct forecast *ret_forecast, struct fail *why);
// The tape for that batch and so many micro-steps per optimizer step. A recording is of any batch.
int forecast_tape(struct forecast *f, int64_t batch, int64_t accumulation,
                  struct forecast_tape **ret_tape, struct fail *why);
// The same where it has been opened; NULL: it has not.
struct forecast_tape *forecast_tape_known(const struct forecast *f, int64_t batch,
                                          int64_t accumulation);
// Whether frozen weights in fp32, which the plan has, are a tape's, and not only added to one.
bool forecast_counts_frozen(struct forecast *f);
// Whether the name is that of the user's own files, whatever else is called so.
bool forecast_is_own(const struct forecast_cache *cache, struct str model);
// The shape of a model that some template is of; NULL: there is no such template, or nobody knows
// the shape.
int forecast_shape(struct forecast_cache *cache, struct str model, const struct shape **ret_shape,
                   struct fail *why);

// FITS: also with 3 % less capacity. AT RISK: it runs at the capacity, but not at 1.5 or 3 % less;
// or with less, but in a gap not at the capacity. OOM: nor with any that is less, so that a larger
// GPU is not one where a smaller is none.
enum forecast_verdict { FORECAST_FITS, FORECAST_AT_RISK, FORECAST_OOM };
const char *forecast_verdict_name(enum forecast_verdict verdict); // "FITS", "AT RISK", "OOM"

struct forecast_peak {
    int64_t allocated_bytes, reserved_bytes, needed_bytes; // of the allocator
    int64_t overhead_bytes;
    // The most that the whole GPU should show: reserved with the kernels' scratch, the method's
    // own error (band) and the overhead's high end.
    int64_t upper_bytes;
    bool needed_is_exact;
    enum forecast_verdict verdict;
    bool is_in_gap; // AT RISK: it runs with less than the capacity, but not with just that
};
// What upper_bytes was measured on.
extern const char forecast_band_source[];

// How the figures below are found, for somebody else who replays the tape: the shares of the
// capacity that are taken off to see whether it still runs, and the replays that `needed` may take.
struct forecast_rules {
    double shortfalls[3];
    int32_t need_replays;
};
struct forecast_rules forecast_rules(void);

int forecast_at(struct forecast *f, const struct forecast_card *card, int64_t batch,
                int64_t accumulation, struct forecast_peak *ret_peak, struct fail *why);
// Does it run in the budget, and at the full capacity with 0, 1.5 and 3 % taken off, as far as the
// margin goes? 1, 0, or an error. Much cheaper than forecast_at.
int forecast_fits(struct forecast *f, const struct forecast_card *card, int64_t batch,
                  int64_t accumulation, struct fail *why);
// Cheap and monotone in the batch: false when it cannot fit the budget.
bool forecast_may_fit(struct forecast *f, const struct forecast_card *card, int64_t batch,
                      int64_t accumulation);

// The host's memory under offload: a rank's, how much of it is page-locked, and that of the ranks
// of one machine. All 0: nothing is kept there.
struct forecast_host {
    int64_t rank_bytes, pinned_bytes, ranks, bytes;
};
struct forecast_host forecast_host(const struct forecast *f, const struct forecast_card *card,
                                   const struct forecast_tape *t);

// A change that lowers the need, with what it saves at that batch.
struct forecast_remedy {
    struct str what;  // "gradient checkpointing"
    struct str cost;  // what one pays: "about 30 % slower"
    struct plan plan; // the plan with the change
    int64_t needed_bytes, saved_bytes;
    bool is_enough;  // fits the GPU's budget then
    bool is_offload; // by memory of the host, of which not every machine has enough
};
struct forecast_remedies {
    struct forecast_remedy *items;
    ptrdiff_t count, capacity;
};
// Every remedy that a tape matches, the one that costs the training least first. `batch` is
// the batch that should fit.
int forecast_remedies(struct forecast *f, const struct forecast_card *card, int64_t batch,
                      int64_t accumulation, struct forecast_remedies *ret_remedies,
                      struct fail *why);
// What a plan can be changed in besides: it need not save anything alone, and has no figures.
void forecast_remedies_beside(struct forecast *f, struct forecast_remedies *ret_remedies);
