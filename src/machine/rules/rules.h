// SPDX-License-Identifier: Apache-2.0
// What is to be said about a machine on which somebody wants to train: one const table of rules
// (rules.c) over the facts below. A rule answers with a finding: how bad, what was seen, and what
// can be done. Rules read nothing and print nothing; who gathers the facts decides where they are
// from.
//
// Recipe: to add a finding
//   1. write its rule beside those of its kind (software.c, gpu.c, host.c): say nothing (return
//      false) where it does not apply, FINDING_UNKNOWN where the fact that it needs is not known;
//   2. give it a row in the table of rules.c; the id is for ever;
//   3. add it to tests/unit/rules.c: a machine on which it holds, one on which it does not;
//   4. add its row to doc/formats/check.md.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "machine/device/device.h"
#include "machine/finding/finding.h"
#include "machine/microbench/microbench.h"

// What needs what: CUDA a driver, PyTorch a CUDA and GPUs of certain compute capabilities. Facts
// of data/cuda.tsv and data/torch.tsv, whose heads name the sources.

// Versions of PyTorch and CUDA are 100 * major + minor, as in predict/gpu/gpu.h. Driver versions
// are numbers that compare as the versions do; 0 is unknown.
struct rules_cuda {
    int cuda, cc_min, cc_max;
    int64_t driver, runs_from;
    struct str driver_text, runs_from_text;
};
struct rules_build {
    int torch, cuda, cc_min, cc_max;
};
struct rules_needs {
    struct rules_cuda *cudas;
    ptrdiff_t cuda_count, cuda_capacity;
    struct rules_build *builds;
    ptrdiff_t build_count, build_capacity;
};

int rules_needs_load(struct arena *a, struct rules_needs *ret_needs, struct fail *why);

// "535.183.01" -> 535183001; 0 when it is not a version.
int64_t rules_driver_number(struct str version);
// "12.8" -> 1208, "2.13.0+cu130" -> 213; 0 when there is no version at the beginning.
int rules_version(struct str text);

// The row of a toolkit; NULL: not in the table.
const struct rules_cuda *rules_cuda_find(const struct rules_needs *n, int cuda);
// The newest toolkit that a driver of that number runs without restriction; NULL: none.
const struct rules_cuda *rules_cuda_of_driver(const struct rules_needs *n, int64_t driver);
// Whether a driver starts programs of that toolkit at all; 1, 0, or -1 when the toolkit is unknown.
int rules_cuda_runs(const struct rules_needs *n, int cuda, int64_t driver);
// The newest wheels of PyTorch that run on a GPU with that driver (either 0: whatever it is); of
// one release the newest CUDA. NULL: none.
const struct rules_build *rules_build_for(const struct rules_needs *n, int64_t driver,
                                          int compute_capability);

// What a GPU can do, from the catalogue: at the place of the GPU in the snapshot.
struct rules_support {
    bool is_known;          // in the catalogue; else the rest is by compute capability alone
    struct str tier;        // "high_end"; empty: unknown
    int compute_capability; // 86 for 8.6; 0: unknown
    bool has_tensor_cores, has_bf16, is_unified;
    bool is_server;      // made for machines without a desktop
    int pcie_generation; // of the catalogue; 0: unknown
};

enum rules_torch_state {
    RULES_TORCH_UNASKED, // nobody asked (a recorded machine)
    RULES_TORCH_NO_PYTHON,
    RULES_TORCH_MISSING, // Python runs, PyTorch cannot be imported: `error` says why
    RULES_TORCH_HANGS,   // no answer within the deadline
    RULES_TORCH_FOUND,
};
// The PyTorch of the user's Python, as it says itself.
struct rules_torch {
    enum rules_torch_state state;
    bool is_read;              // by its files: nobody asked, and nothing was imported
    struct str python;         // the program that was asked
    struct str python_version; // "3.11.2"
    struct str error;
    struct str version; // "2.13.0+cu130"
    struct str cuda;    // that it was built for; empty: a build for the CPU
    struct str hip;     // ROCm; empty: none
    struct str cudnn;
    struct str libraries; // folders of its CUDA libraries, by colons
    struct str archs;     // "sm_75 sm_80 compute_90"; empty: unknown
    int cuda_available;   // 1, 0, -1 unknown
    int cuda_devices;     // that it sees; -1: unknown
    struct str cuda_error;
    int has_triton, has_compiler; // what torch.compile needs; -1 unknown
};

struct rules_facts {
    struct device_snapshot devices;
    const struct rules_support *supports; // one a GPU
    bool is_recorded;      // of another machine: nothing is known beyond the recording
    int nvidia_cards;      // on the PCI bus, whether or not a driver knows them; -1: unknown
    bool driver_is_absent; // there is no library of the driver at all
    bool in_container;
    struct rules_torch torch;
    struct device_cpu cpu;             // total_bytes -1, cores 0: unknown
    int machine_cores;                 // that the machine has, more than we may use; 0: unknown
    int64_t shm_bytes, shm_free_bytes; // of /dev/shm; -1
    int64_t batch_bytes;               // of one batch as the loader hands it over; -1: unknown
    int workers;                       // of the config; -1: unknown
    int64_t own_pid;                   // whose memory on a GPU is not somebody else's; -1
};

// Loader workers for each process that feeds a GPU.
int rules_workers(const struct rules_facts *facts);

// Runs all rules; machine first, then GPU by GPU, in the order of the table.
void rules_judge(struct arena *a, const struct rules_facts *facts, const struct rules_needs *needs,
                 struct findings *ret_findings);

// What is to be said about a measured rate beside the range that it should lie in.

struct rules_microbench {
    int card; // index into the GPUs; -1: the CPU
    struct microbench_figure figure;
    struct microbench_range range;
    // Share of the GPU, or of the cores, that others kept busy just before; NaN: unknown.
    double busy;
};

// Adds one finding. Far below the range is a warning, a wrong result a problem; what others who
// compute on the GPU may have slowed down is not judged.
void rules_judge_microbench(struct arena *a, const struct rules_facts *facts,
                            const struct rules_microbench *rate, struct findings *findings);
