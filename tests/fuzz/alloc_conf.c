// SPDX-License-Identifier: Apache-2.0
// Any text as PYTORCH_CUDA_ALLOC_CONF; what is accepted must round every request up to blocks.
#include "fuzz.h"

#include "predict/sim/cache.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sim_options o = sim_options_default();
    const struct sim_options before = o;
    struct fail why = {0};
    struct str text = {(const char *)data, (ptrdiff_t)size};
    if (sim_options_parse(text, &o, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] != 0);
        check(memcmp(&o, &before, sizeof o) == 0);
        return 0;
    }
    for (int64_t n = 1; n < TAPE_SIZE_MAX; n = n * 3 / 2 + 1) {
        int64_t rounded = sim_cache_round_size(&o, n);
        check(rounded >= n && rounded % CACHE_MIN_BLOCK == 0 && rounded < 2 * n + CACHE_MIN_BLOCK);
        check(sim_cache_segment_size(&o, rounded) >= rounded);
    }
    return 0;
}
