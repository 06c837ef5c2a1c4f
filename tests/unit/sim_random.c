// SPDX-License-Identifier: Apache-2.0
// Random operations on the allocator and on its slow twin: every block must be at the same place.
#include "unit.h"

#include "sim_reference.h"

#include <stdlib.h>

static uint32_t seed;

static uint8_t random_byte(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (uint8_t)(seed >> 11);
}

// What a training step does: mostly long runs of allocations, then frees in some order.
static void play_many(int conf, int runs, int ops) {
    uint8_t bytes[3 * 400 + 4];
    for (int run = 0; run < runs; run++) {
        ARENA_AUTO a = {0};
        size_t len = (size_t)(4 + 3 * ops);
        for (size_t i = 0; i < len; i++) bytes[i] = random_byte();
        bytes[0] = (uint8_t)conf;
        const char *wrong = ref_play(&a, bytes, len);
        if (wrong) fail_msg("options %d, run %d: %s", conf, run, wrong);
    }
}

static void equal_to_the_reference(void **state) {
    (void)state;
    seed = 2463534242;
    for (int conf = 0; conf < 10; conf++) play_many(conf, 150, 400);
}

static void equal_to_the_reference_in_short_runs(void **state) {
    (void)state;
    seed = 88172645;
    for (int conf = 0; conf < 10; conf++) play_many(conf, 400, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_the_reference),
        cmocka_unit_test(equal_to_the_reference_in_short_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
