// SPDX-License-Identifier: Apache-2.0
// One GPU's tape as DeepSpeed's ZeRO has it: optimizer states (stage 1), gradients (stage 2) and
// parameters (stage 3) shared by several.
#pragma once

#include "predict/tape/tape.h"

// DeepSpeed's numbers of stage 3, elements: stage3_prefetch_bucket_size,
// stage3_param_persistence_threshold, stage3_max_live_parameters, stage3_max_reuse_distance,
// sub_group_size.
struct zero3 {
    int64_t prefetch, persist, live, reuse, group;
};

// Where DeepSpeed keeps something: offload_optimizer.device and offload_param.device.
enum tape_place { TAPE_ON_GPU, TAPE_ON_HOST, TAPE_ON_DISK };

// What leaves the GPU: the master copy and the states with the update (all stages), the parameters
// (stage 3). Both are pinned on the host unless is_paged. The rest is of what lies on disks.
struct tape_offload {
    enum tape_place optimizer, params;
    bool is_paged;
    int64_t optimizer_buffers;                       // offload_optimizer.buffer_count
    int64_t param_buffers, param_buffer, param_most; // offload_param's; the last two are elements
};

// Of stages 1 and 2, where ranks differ: what no rank has more of, and the one that has most.
enum { TAPE_RANK_OF_MOST = -1 };

struct tape_zero {
    int stage; // 1 to 3
    int64_t ranks;
    int64_t bucket; // reduce_bucket_size, elements
    bool overlaps;  // overlap_comm: two buckets, and a stream that reduces; of stage 3, one that
                    // gathers, too
    struct zero3 zero3;
    struct tape_offload offload;
    int64_t rank; // from 0, or TAPE_RANK_OF_MOST
};

// The tape of one of these GPUs, from one of a training whose weights and arithmetic are bf16
// and whose optimizer has no temporaries, with one micro-step an optimizer step or several. False:
// its gradients are not those of its parameters, and *ret is none.
bool tape_zero(struct arena *a, const struct tape *t, const struct tape_zero *how,
               struct tape *ret);
