// SPDX-License-Identifier: Apache-2.0
#include "predict/sim/sim.h"

#include <stdlib.h>

int sim_alloc_conf_read(const char *text, struct sim_options *ret_options, struct fail *why) {
    struct sim_options options = sim_options_default();
    if (text && str_is(str_of(text), "env")) {
        text = getenv("PYTORCH_ALLOC_CONF");
        if (!text) text = getenv("PYTORCH_CUDA_ALLOC_CONF");
    }
    int rc = text ? sim_options_parse(str_of(text), &options, why) : 0;
    if (rc < 0) return fail_wrap(why, "--alloc-conf");
    *ret_options = options;
    return 0;
}
