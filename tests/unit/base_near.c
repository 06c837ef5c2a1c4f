// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/near.h"

static void spelling_mistakes_are_near(void **state) {
    (void)state;
    assert_int_equal(near_distance(STR("RTX 3060"), STR("rtx3060")), 0);
    assert_int_equal(near_distance(STR("--bacth-size"), STR("--batch-size")), 1);
    assert_int_equal(near_distance(STR("resnet"), STR("resnet50")), 1);
    assert_true(near_distance(STR("vit"), STR("convnext_base")) > 5);
}

static void the_nearest_come_first_and_no_more_than_five(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct near n = {.typed = STR("rtx4091")};
    const char *names[] = {"rtx3060", "rtx4090", "rtx4080", "gtx1080", "rtx4070",
                           "rtx4060", "a100",    "rtx3090", "rtx5090"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) near_offer(&n, str_of(names[i]));
    assert_int_equal(n.count, NEAR_MAX);
    assert_true(str_starts(near_text(&a, &n), STR("rtx4090")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spelling_mistakes_are_near),
        cmocka_unit_test(the_nearest_come_first_and_no_more_than_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
