// SPDX-License-Identifier: Apache-2.0
// bench --on slurm: the grid as a job on each GPU type of the cluster.
#pragma once

#include "job/cluster/cluster.h"
#include "job/grid/grid.h"

struct bench_options {
    struct grid_options grid;
    struct cluster_options cluster;
    int64_t array; // parts of the grid at once; 0: it is not split
};
// 0; FAIL_NO: no setting runs on any type; FAIL_MACHINE: nothing was measured.
int bench_cluster(struct arena *a, const struct bench_options *o, struct fail *why);
