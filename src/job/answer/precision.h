// SPDX-License-Identifier: Apache-2.0
// Which precision a training takes on a GPU: one place for fit, check, team and the matrix. What a
// GPU has is in the catalogue (data/gpus.tsv: tensor_cores, bf16).
#pragma once

#include "job/question/question.h"

// What should be set on the GPU: mixed precision in bf16 where the hardware has it, in fp16 with
// other tensor cores, fp32 without them; fp32, too, where the model overflows in fp16.
enum plan_precision answer_precision_best(const struct question *q, const struct gpu *gpu);
// That the training takes there: what was asked as far as it suits the GPU (no mixed precision
// without tensor cores, bf16 only in hardware), or the best where nobody said any. The user's own
// word stands.
enum plan_precision answer_precision(const struct question *q, const struct gpu *gpu);
// The same, but where fp32 was asked and mixed precision would be faster, that.
enum plan_precision answer_precision_advised(const struct question *q, const struct gpu *gpu);
// bf16 on a GPU that has none: it runs, without tensor cores, at a speed that nobody measured for us.
bool answer_precision_is_emulated(enum plan_precision taken, const struct gpu *gpu);
// Why it is not what was asked, or what to beware of; empty: nothing. One that begins with
// ANSWER_OVERFLOWS stands beside the verdict.
#define ANSWER_OVERFLOWS "overflows in fp16: "
struct str answer_precision_note(const struct question *q, const struct gpu *gpu,
                                 enum plan_precision taken);
