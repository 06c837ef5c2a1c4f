// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/data.h"

static void rows_by_column_name(void **state) {
    (void)state;
    struct tsv t;
    struct fail why = {0};
    assert_int_equal(tsv_open(&t, STR("t"), STR("# c\na\tb\n1\t2\n\n# x\n3\n"), &why), 0);
    assert_int_equal(tsv_next(&t, &why), 1);
    assert_str(tsv_cell(&t, "b"), "2");
    assert_int_equal(tsv_next(&t, &why), 1);
    assert_str(tsv_cell(&t, "a"), "3");
    assert_int_equal(tsv_cell(&t, "b").len, 0);
    assert_int_equal(tsv_next(&t, &why), 0);
}

static void surplus_cells_are_named_by_line(void **state) {
    (void)state;
    struct tsv t;
    struct fail why = {0};
    assert_int_equal(tsv_open(&t, STR("t.tsv"), STR("a\tb\n1\t2\t3\n"), &why), 0);
    assert_int_equal(tsv_next(&t, &why), FAIL_INPUT);
    assert_string_equal(why.message, "t.tsv:2: 3 cells for 2 columns");
    assert_int_equal(tsv_open(&t, STR("t.tsv"), STR("# only\n"), &why), FAIL_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_by_column_name),
        cmocka_unit_test(surplus_cells_are_named_by_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
