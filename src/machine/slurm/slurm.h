// SPDX-License-Identifier: Apache-2.0
// The GPUs that a Slurm cluster lends: the types of its nodes' generic resources (GRES), as sinfo
// lists them. Nothing is asked of a GPU, and nothing is changed.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct slurm_node_count {
    struct str partition;
    int64_t gpus, nodes; // so many nodes of it with so many GPUs each
};
// A type of GPU. Nodes that are down, drained, reserved or do not answer are only counted.
struct slurm_type {
    struct str name;                 // "a100", "1g.10gb"; empty: the cluster names no type
    int64_t nodes, gpus, nodes_away; // that may run something, and those that may not
    struct slurm_node_count *counts;
    ptrdiff_t count_count, count_capacity;
    struct str_list partitions; // of those nodes, without the ones that are down
    struct str in_default;      // the one of them where a job goes that names none; empty: none is
};
struct slurm {
    struct slurm_type *types; // in the order in which sinfo names them
    ptrdiff_t count, capacity;
    int64_t nodes; // of all kinds
};

// What sinfo is to print of each node and partition, and how long it may take.
#define SLURM_FORMAT "%N|%R|%P|%a|%T|%G"
#define SLURM_DEADLINE_MS INT64_C(5000)

// Asks sinfo (of PATH); `partition` may be NULL: all that the user sees. FAIL_MACHINE: it is not
// there, does not answer in SLURM_DEADLINE_MS, fails, or no node has GPUs.
int slurm_read(struct arena *a, const char *partition, struct slurm *ret, struct fail *why);
// The same of what it printed (SLURM_FORMAT, a line a node and partition, those of a node in a
// row).
int slurm_parse(struct arena *a, struct str text, struct slurm *ret, struct fail *why);

// Whether a type is a slice of a GPU (MIG), such as "1g.10gb" or "a100_3g.20gb": its bytes, 0.95 of
// the size in its name (nvidia-smi mig -lgip of A100 and H100: 4864 MiB of "5gb", 9728 of "10gb",
// 19968 of "20gb", 40192 of "40gb"). 0: it is none.
int64_t slurm_slice_bytes(struct str type);

// What a job asks for.
struct slurm_place {
    int64_t gpus, nodes; // GPUs of each node
    // With commas, any of them has so many; empty: the default one has. A job lies in one alone.
    struct str partitions;
};
// The most GPUs of one node into which `ranks` divide, on nodes of one partition that have so many.
// False: no partition has so many of the type.
bool slurm_place(struct arena *a, const struct slurm_type *type, int64_t ranks,
                 struct slurm_place *ret);
