// SPDX-License-Identifier: Apache-2.0
// The tape of a training with AdamW as another optimizer has it: its states and its temporaries, a
// weight after the other, as python/batchfit/optimizers.py records them.
#pragma once

#include "predict/tape/tape.h"

extern const char *const tape_optimizers[]; // NULL-ended: those that a tape can be made of
// adamw8bit as transformers' Trainer asks bitsandbytes for it: an embedding's states are fp32.
#define TAPE_TRAINERS_8BIT "adamw8bit:trainer"
#define TAPE_FUSED_ADAMW "adamw:fused"
#define TAPE_FOREACH_ADAMW "adamw:foreach"

// From a tape whose every weight is trained with AdamW, fused or not. `hidden` is a side of every
// matrix of it; weights have `bytes` an element. False: the optimizer is none of them, or the
// tape's has not AdamW's two states a weight, and *ret is none.
bool tape_optimizer(struct arena *a, const struct tape *t, struct str optimizer, int64_t hidden,
                    int64_t bytes, struct tape *ret);
