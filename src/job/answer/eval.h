// SPDX-License-Identifier: Apache-2.0
// The batch with which a training evaluates between its epochs: no activations are kept for a
// backward, but the optimizer's states (and gradients, where they are not dropped) stay on the
// GPU.
#pragma once

#include "job/answer/answer.h"

struct answer_eval {
    int64_t batch, now;     // now 0: the config does not say
    int64_t resident_bytes; // of the training, beside what evaluation itself needs
    int64_t cache_bytes;    // of generated text at that batch; 0: it generates none, or not known
    struct forecast_peak peak;
    bool fits;
    bool may_generate;    // and nobody knows the cache's size
    bool has_key;         // the config has a place for it
    struct answer answer; // as of inference, where others hold the training's states
};

// For the training's answer on its GPU. FAIL_INPUT: there is no tape of inference.
int answer_eval_choose(struct question *q, const struct answer *training, struct answer_eval **ret,
                       struct fail *why);
void answer_eval_show(struct arena *a, const struct answer_eval *e, struct show_style style,
                      struct buf *out);
json_t *answer_eval_json(const struct answer_eval *e);
