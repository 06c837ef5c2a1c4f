// SPDX-License-Identifier: Apache-2.0
// Which GPUs exist: the catalogue (data/gpus.tsv), the names people type for them, their tier, and
// what a training process costs on them outside of PyTorch's allocator (data/overheads.tsv). GPUs
// and overheads are facts in tables; nothing here names a GPU in code.
#pragma once

#include "base/data.h"
#include "base/fail.h"
#include "base/str.h"

// Bytes; rates in FLOP/s, dense, with fp32 accumulation; bandwidth in bytes/s. Unknown: NaN for a
// double, 0 for an int, empty for a text.
struct gpu {
    struct str name;        // as nvidia-smi prints it: "NVIDIA GeForce RTX 4090"
    struct str key;         // for files and options: "rtx_4090"
    struct str aliases;     // further names, separated by blanks, in small letters and digits
    bool is_usual;          // the variant that the bare name means
    struct str vendor;      // NVIDIA AMD Intel Apple
    struct str market;      // consumer, laptop, workstation, datacentre, …
    struct str arch;        // "Ampere (GA100)"
    int compute_capability; // 86 for 8.6, 120 for 12.0; 0: not NVIDIA
    int sms;
    int nominal_gb;         // as sold: "24 GB"
    int64_t total_bytes;    // nvidia-smi's memory.total; the nominal size where that is not known
    bool total_is_verified; // read from the output of a real GPU
    // What a CUDA process is told by cudaMemGetInfo: less than nvidia-smi's total by what the
    // driver keeps. Read from published out-of-memory messages for some GPUs, by a rule (gpu.c)
    // for others.
    int64_t usable_bytes;
    struct str usable_source; // where usable_bytes comes from
    double bandwidth;
    double fp32, tf32, fp16, bf16, fp8;
    double fp16_fast; // fp16 with fp16 accumulation: the vendor's figure for GeForce GPUs
    double tdp_watts;
    int pcie_gen;
    bool has_tensor_cores; // also AMD's matrix cores, Intel's XMX and the like
    bool has_bf16;         // in hardware, not emulated
    bool is_unified;       // memory shared with the CPU
    bool is_custom;        // only its memory is known
    struct str source, note;
};

// A row of data/overheads.tsv.
struct gpu_overhead_row;

struct gpu_catalogue {
    struct gpu *gpus;
    ptrdiff_t count, capacity;
    struct gpu_overhead_row *overheads;
    ptrdiff_t overhead_count, overhead_capacity;
};

// Reads both tables: the embedded ones, each replaced by the file of that name in the user's data
// folder if there is one; after them the user's gpus.local.tsv and overheads.local.tsv, whose rows
// add to the tables (a GPU of a known name is replaced). FAIL_INPUT names file and line.
int gpu_load(struct arena *a, struct gpu_catalogue *ret_catalogue, struct fail *why);

struct gpu_match {
    const struct gpu *gpu;
    struct str note; // what the user should know: "the 12 GB desktop GPU; …". Empty: nothing
    // Of the variants that are meant just as well, the one with the least memory: "a100" is the one
    // with 40 GB, but "rtx3060", which is a GPU's whole name, is that GPU.
    const struct gpu *least;
};

// The GPU that a person means by "rtx4090", "3080 Ti", "a100-80gb", "NVIDIA GeForce RTX 3090" or
// "3060 laptop". Of several variants the usual one, with a note. FAIL_INPUT with the nearest names.
int gpu_find(struct arena *a, const struct gpu_catalogue *c, struct str typed,
             struct gpu_match *ret_match, struct fail *why);
// The GPU of exactly the name that the driver prints (old drivers leave out "NVIDIA"), and, as two
// GPUs may share a name, with memory nearest to total_bytes (0: not known). NULL: not in the
// catalogue.
const struct gpu *gpu_of_name(const struct gpu_catalogue *c, struct str name, int64_t total_bytes);

// A GPU with that much usable memory (total and usable are both it). `like` gives everything else
// and may be NULL: a GPU of which only the memory is known.
struct gpu gpu_custom(const struct gpu *like, int64_t memory_bytes);

// What software asks of a GPU by its compute capability: one table with its sources (feature.c). Of
// others than NVIDIA's nothing is known to be lacking but on Apple's, which have none of the
// kernels.
enum gpu_feature { GPU_TRITON, GPU_FLASH, GPU_TF32, GPU_FP8, GPU_FLASH_4, GPU_FEATURES };
bool gpu_has(const struct gpu *g, enum gpu_feature feature);
int gpu_feature_needs(enum gpu_feature feature); // 89 of 8.9

// Classes of GPUs for advice to a team. A rule over facts (gpu.c), not a list.
enum gpu_tier { GPU_LOW_END, GPU_BUDGET, GPU_MID_RANGE, GPU_HIGH_END, GPU_TIERS };
enum gpu_tier gpu_tier(const struct gpu *g);
const char *gpu_tier_name(enum gpu_tier tier); // "high_end"
// The share of the memory that a team keeps free on such a GPU: 0.20 for high_end.
double gpu_tier_margin(enum gpu_tier tier);

// When CUDA loads kernels: all at once, or each at its first use (CUDA_MODULE_LOADING).
enum gpu_loading { GPU_LOADING_BY_VERSION, GPU_LOADING_LAZY, GPU_LOADING_EAGER };

// The software of the run. Versions as 100 * major + minor: 1.13 is 113, 2.4 is 204, CUDA 11.3 is
// 1103. 0 is unknown: the other one decides; both unknown is a modern build (torch 2, CUDA 12).
struct gpu_software {
    int torch, cuda;
    enum gpu_loading loading;
    bool uses_cudnn;  // the network has a convolution (or a cuDNN recurrent layer)
    bool uses_nccl;   // several ranks
    bool has_display; // the GPU also drives a desktop
    bool is_wsl;      // Windows Subsystem for Linux
    // Rows whose `from` is this file are passed over, so that a table of truths is never judged
    // with a constant that came from it. Empty: use all rows.
    struct str not_from;
};
// "1.12.1+cu113" → torch 112, cuda 1103. False when there is no version in the text; parts that the
// text lacks are left alone.
bool gpu_software_parse(struct str version, struct gpu_software *ret_software);

enum { GPU_OVERHEAD_PARTS = 8 };
struct gpu_overhead_part {
    struct str what; // context, cudnn, nccl, display, wsl
    int64_t bytes, low_bytes, high_bytes;
    struct str from; // the data the row came from
};
// Bytes on the GPU outside of the allocator: best estimate, and the band in which published
// readings for such a GPU and software lie.
struct gpu_overhead {
    int64_t bytes, low_bytes, high_bytes;
    int64_t engine_bytes; // of each of them, an inference engine's on the same GPU
    struct gpu_overhead_part parts[GPU_OVERHEAD_PARTS];
    int part_count;
    struct str source; // one line for people, naming where the parts come from
};
// `g` may be NULL: any GPU. Lives in the arena and in the catalogue.
void gpu_overhead(struct arena *a, const struct gpu_catalogue *c, const struct gpu *g,
                  const struct gpu_software *software, struct gpu_overhead *ret_overhead);

// Inside the gpu room: reading data/overheads.tsv.

struct gpu_overhead_row {
    struct str what, vendor, gpu, from;
    int cc_min, cc_max, cuda_min, cuda_max; // 0: no bound
    enum gpu_loading loading;
    double mib, mib_per_sm, minus_mib, plus_mib;
};

// Adds the rows of a table to the catalogue.
int gpu_read_overheads(struct arena *a, struct gpu_catalogue *c, struct tsv *t, struct fail *why);

// The cell of a column as a number: empty leaves *ret alone; what is no number from 0 to 1e9 is
// FAIL_INPUT with file and line.
int gpu_number(const struct tsv *t, const char *column, struct str cell, double *ret,
               struct fail *why);

// What an hour of a GPU costs at a provider: data/prices.tsv, and before it the user's own
// prices.local.tsv.

struct gpu_price {
    struct str provider, card;                 // "aws"; the GPU's key in the catalogue: "t4"
    double usd_per_hour;                       // of one GPU
    struct str instance, region, date, source; // empty: not said
    bool is_own;                               // of the user's file
};
struct gpu_prices {
    struct gpu_price *items; // the user's own first
    ptrdiff_t count, capacity;
};

// FAIL_INPUT names file and line.
int gpu_prices_load(struct arena *a, struct gpu_prices *ret_prices, struct fail *why);

// The price of the GPU with this key. FAIL_USAGE: no such provider, with those there are;
// FAIL_INPUT: the provider has no price for the GPU, and the hint says for which ones it has.
int gpu_price_find(struct arena *a, const struct gpu_prices *prices, struct str provider,
                   struct str card, const struct gpu_price **ret_price, struct fail *why);

// The user's own price of what has this key, else the cheapest; of one provider, or NULL for all.
// NULL: there is none.
const struct gpu_price *gpu_price_least(const struct gpu_prices *prices, struct str card,
                                        const char *provider);

// What training at this speed costs. NaN where a figure is.
double gpu_cost_per_million(double usd_per_hour, double cards, double samples_per_s);
struct gpu_month {
    double hours, usd; // of the machine's time; of its GPUs
};
// `runs` of `samples` each in a month.
struct gpu_month gpu_cost_of_month(double usd_per_hour, double cards, double samples, double runs,
                                   double samples_per_s);
