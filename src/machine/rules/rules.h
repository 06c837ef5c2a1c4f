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

#include "machine/device/cpu.h"
#include "machine/device/gauges.h"
#include "machine/finding/finding.h"
#include "machine/rules/needs.h"

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
