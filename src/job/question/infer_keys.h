// SPDX-License-Identifier: Apache-2.0
// Where a config says how inference is to be.
#pragma once

#include "records/config/config.h"

// The first of these keys in a section for inference, below `prefix` (empty: the top).
bool question_infer_key(struct arena *a, const struct config *c, struct str prefix,
                        const char *const *keys, struct str *ret_path);
// config_read_roles for inference: the batch is that of inference, else of evaluation.
// *ret_is_trainings: it is the training's for want of one, or nowhere, and not to be written.
int question_infer_roles(struct arena *a, const struct config *c,
                         const struct config_options *asked, struct config_reading *ret_reading,
                         bool *ret_is_trainings, struct fail *why);
