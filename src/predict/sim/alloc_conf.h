// SPDX-License-Identifier: Apache-2.0
// The option --alloc-conf, which every verb that simulates takes.
#pragma once

#include "predict/sim/sim.h"

// The defaults and, unless `text` is NULL, the text of PYTORCH_CUDA_ALLOC_CONF on top of them;
// "env" reads PYTORCH_ALLOC_CONF (torch 2.9 on, it wins) or PYTORCH_CUDA_ALLOC_CONF.
int sim_alloc_conf_read(const char *text, struct sim_options *ret_options, struct fail *why);
