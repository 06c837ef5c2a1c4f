// SPDX-License-Identifier: Apache-2.0
// Operations from bytes on the allocator and on its slow twin: invariants hold after each one, and
// every block is at the same place.
#include "fuzz.h"

#include "../unit/sim_reference.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    const char *wrong = ref_play(&a, data, size);
    if (!wrong) return 0;
    fprintf(stderr, "%s\n", wrong);
    abort();
}
