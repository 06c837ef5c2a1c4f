// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/unit.h"

static void bytes_are_read_as_written(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"4096", 4096},
        {"22GiB", 22 * UNIT_GIB},
        {"22 gib", 22 * UNIT_GIB},
        {"1.5g", 3 * UNIT_GIB / 2},
        {"24 GB", 24000000000},
        {"512MiB", 512 * UNIT_MIB},
        {"0", 0},
        {"1b", 1},
        {"1e0", -1},
        {"-1", -1},
        {"GiB", -1},
        {"1 XB", -1},
        {"", -1},
        {"9999999TiB", -1},
        {"1.2.3g", -1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t bytes = -1;
        bool ok = unit_parse_bytes(str_of(good[i].text), &bytes);
        assert_int_equal(ok, good[i].bytes >= 0);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void shares(void **state) {
    (void)state;
    double share = -1;
    assert_true(unit_parse_share(STR("15%"), &share) && share == 0.15);
    assert_true(unit_parse_share(STR("0.2"), &share) && share == 0.2);
    assert_false(unit_parse_share(STR("1"), &share));
    assert_false(unit_parse_share(STR("nan"), &share));
}

static void numbers_have_no_exponent(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    assert_str(unit_number(&a, 27.9312), "27.93");
    assert_str(unit_number(&a, 9999.4), "9999");
    assert_str(unit_number(&a, 9999.6), "10000");
    assert_str(unit_number(&a, 23563.7), "23564");
    assert_str(unit_number(&a, 0.1), "0.1");
}

static void bytes_are_shown_with_three_digits(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    assert_str(unit_bytes(&a, 0), "0 B");
    assert_str(unit_bytes(&a, 24564 * UNIT_MIB), "24.0 GiB");
    assert_str(unit_bytes(&a, 512 * UNIT_MIB), "512 MiB");
    assert_str(unit_bytes(&a, 1536), "1.50 KiB");
    assert_str(unit_count(&a, 87900000), "87.9 M");
}

static void times_as_people_write_them(void **state) {
    static const struct {
        const char *text;
        double seconds; // 0: none
    } cases[] = {{"20m", 1200},  {"20", 1200}, {"1h30m", 5400}, {"90s", 90}, {"1.5h", 5400},
                 {"2h5s", 7205}, {"1d12h", 129600}, {"0", 0},     {"0m", 0},       {"-5m", 0},  {"m", 0},
                 {"20min", 0},   {"5m1h", 0},  {"", 0},         {"nan", 0},  {"infm", 0},
                 {"1h30", 0},    {"20m ", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double seconds = 0;
        bool is_time = unit_parse_time(str_of(cases[i].text), &seconds);
        if (is_time != (cases[i].seconds > 0)) fail_msg("'%s'", cases[i].text);
        if (is_time) assert_float_equal(seconds, cases[i].seconds, 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read_as_written),
        cmocka_unit_test(shares),
        cmocka_unit_test(numbers_have_no_exponent),
        cmocka_unit_test(bytes_are_shown_with_three_digits),
        cmocka_unit_test(times_as_people_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
