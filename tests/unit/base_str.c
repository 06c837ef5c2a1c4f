// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static void cut_takes_the_text_apart(void **state) {
    (void)state;
    struct str s = STR("a,,b");
    assert_str(str_cut(&s, ','), "a");
    assert_str(str_cut(&s, ','), "");
    assert_str(str_cut(&s, ','), "b");
    assert_null(s.p);
}

static void lines_end_in_lf_or_crlf(void **state) {
    (void)state;
    struct str s = STR("one\r\ntwo\nthree");
    assert_str(str_line(&s), "one");
    assert_str(str_line(&s), "two");
    assert_str(str_line(&s), "three");
    assert_null(s.p);
}

static void numbers_must_be_whole(void **state) {
    (void)state;
    int64_t i = 7;
    double d = 7;
    assert_true(str_to_i64(STR("-9223372036854775807"), &i) && i == -INT64_MAX);
    assert_false(str_to_i64(STR("9223372036854775808"), &i));
    assert_false(str_to_i64(STR("12x"), &i));
    assert_false(str_to_i64(STR("-"), &i));
    assert_false(str_to_i64(STR(""), &i));
    assert_true(str_to_double(STR("1e-4"), &d) && d == 1e-4);
    assert_false(str_to_double(STR("1e-4 "), &d));
    assert_false(str_to_double(STR(" 1"), &d));
}

// What has a way of its own is what strtod makes of it, to the last bit.
static void decimals_are_strtods(void **state) {
    (void)state;
    uint64_t seed = 1;
    char text[32];
    for (int i = 0; i < 100000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        int digits = 1 + (int)(seed >> 60), point = (int)(seed >> 32 & 15);
        snprintf(text, sizeof text, "%0*lld", digits, (long long)(seed >> 14) % 1000000000000000);
        double d = -1, wanted;
        ptrdiff_t length = (ptrdiff_t)strlen(text);
        if (point > 0 && point < length) {
            memmove(text + point + 1, text + point, (size_t)(length - point) + 1);
            text[point] = '.';
        }
        wanted = strtod(text, NULL);
        assert_true(str_to_double(str_of(text), &d));
        if (memcmp(&d, &wanted, sizeof d) != 0) fail_msg("%s: %.17g, not %.17g", text, d, wanted);
    }
    double d;
    assert_false(str_to_double(STR("1.2.3"), &d));
    assert_false(str_to_double(STR("1x"), &d));
    assert_true(str_to_double(STR("7."), &d) && d == 7);
}

static void buffers_grow(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    for (int i = 0; i < 1000; i++) buf_format(&b, "%d,", i);
    assert_int_equal(buf_str(&b).len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_true(str_ends(buf_str(&b), STR("998,999,")));
}

static void arenas_rewind(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char *first = arena_new(&a, char, 10);
    struct arena_mark mark = arena_mark(&a);
    memset(arena_new(&a, char, 1 << 20), 1, 1 << 20);
    arena_rewind(&a, mark);
    char *second = arena_new(&a, char, 1 << 20);
    assert_int_equal(second[0] | second[(1 << 20) - 1] | first[9], 0);
}

static void searches(void **state) {
    (void)state;
    assert_int_equal(str_find(STR("batch_size: 16"), STR("size")), 6);
    assert_int_equal(str_find(STR("batch"), STR("batches")), -1);
    assert_true(str_starts(STR("timm:x"), STR("timm:")));
    assert_true(str_equal_nocase(STR("RTX"), STR("rtx")));
    assert_str(str_trim(STR(" \t x y\r\n")), "x y");
}

// Short texts are looked through in another way than long ones: every place in texts of both kinds.
static void finds_at_every_place(void **state) {
    (void)state;
    char text[130];
    for (ptrdiff_t len = 3; len < (ptrdiff_t)sizeof text; len++) {
        memset(text, 'a', sizeof text);
        assert_int_equal(str_find((struct str){text, len}, STR("ab")), -1);
        for (ptrdiff_t at = 0; at + 2 <= len; at++) {
            text[at + 1] = 'b';
            assert_int_equal(str_find((struct str){text, len}, STR("ab")), at);
            assert_int_equal(str_find((struct str){text, at + 1}, STR("ab")), -1);
            text[at + 1] = 'a';
        }
    }
}

static void digits_are_of_their_base(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int base;
        int64_t value; // -1: none
    } rows[] = {{"16", 10, 16},
                {"1_000", 10, 1000},
                {"16@", 10, -1},
                {"16`", 10, -1},
                {"1@", 16, -1},
                {"fF", 16, 255},
                {"fg", 16, -1},
                {"17", 8, 15},
                {"18", 8, -1},
                {"102", 2, -1},
                {"_", 10, -1},
                {"", 10, -1},
                {"1a", 10, -1},
                {"9223372036854775807", 10, INT64_MAX},
                {"9223372036854775808", 10, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value = -1;
        assert_int_equal(str_to_digits(str_of(rows[i].text), rows[i].base, &value),
                         rows[i].value >= 0);
        assert_int_equal(value, rows[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_of_their_base),
        cmocka_unit_test(finds_at_every_place),
        cmocka_unit_test(cut_takes_the_text_apart),
        cmocka_unit_test(lines_end_in_lf_or_crlf),
        cmocka_unit_test(numbers_must_be_whole),
        cmocka_unit_test(decimals_are_strtods),
        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(arenas_rewind),
        cmocka_unit_test(searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
