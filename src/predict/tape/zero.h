// SPDX-License-Identifier: Apache-2.0
// One GPU's tape as DeepSpeed's ZeRO has it: optimizer states (stage 1), gradients (stage 2) and
// parameters (stage 3) shared by several.
#ifndef TAPE_ZERO_H
#define TAPE_ZERO_H

#include "predict/tape/tape.h"

enum { TAPE_RANKS_MAX = 65536 };

// DeepSpeed's numbers of stage 3, elements: stage3_prefetch_bucket_size,
// stage3_param_persistence_threshold, stage3_max_live_parameters, stage3_max_reuse_distance,
// sub_group_size.
struct zero3 {
    int64_t prefetch, persist, live, reuse, group;
};

struct tape_zero {
    int stage; // 1 to 3
    int64_t ranks;
    int64_t bucket; // reduce_bucket_size, elements
    bool overlaps;  // overlap_comm: two buckets, and a stream that reduces; of stage 3, one that
                    // gathers, too
    struct zero3 zero3;
};

// The tape of the first of these GPUs, from one of a training whose weights and arithmetic are bf16
// and whose optimizer has no temporaries, with one micro-step an optimizer step or several. False:
// its gradients are not those of its parameters, and *ret is none.
bool tape_zero(struct arena *a, const struct tape *t, const struct tape_zero *how,
               struct tape *ret);

#endif
