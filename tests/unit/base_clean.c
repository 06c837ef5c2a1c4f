// SPDX-License-Identifier: Apache-2.0
// What is shown of a text that comes from outside, and that printf for what is shown is printf.
#include "unit.h"

#include "base/json.h"
#include "base/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void what_is_hidden_is_written_out(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"train.yaml, 메모리 ✅ 🏆", "train.yaml, 메모리 ✅ 🏆"},
        {"\x1b]0;pwn\x07", "\\x1b]0;pwn\\x07"},
        {"a\nb\tc\r", "a\\nb\\tc\\r"},
        {"\xc2\x85\xc2\x9b"
         "31m\x7f",
         "\\u0085\\u009b31m\\x7f"},
        {"\u202eevil\u202c \u2066\u2069\u200e\u200f\u061c",
         "\\u202eevil\\u202c \\u2066\\u2069\\u200e\\u200f\\u061c"},
        {"a\u200bb\u200d\u2060\ufeff\u00ad", "a\\u200bb\\u200d\\u2060\\ufeff\\u00ad"},
        {"\u2028\u2029\U000e0041", "\\u2028\\u2029\\U000e0041"},
        {"\xff\xc0\x80\xed\xa0\x80", "\\xff\\xc0\\x80\\xed\\xa0\\x80"},
        {"\xea\xb0", "\\xea\\xb0"},
        {"\ufffd e\u0301 ❤\ufe0f", "\ufffd e\u0301 ❤\ufe0f"}, // the sign itself; marks; emoji
        {"\\x1b", "\\x1b"},                                   // what is clean stays as it is
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str once = clean_text(&a, str_of(cases[i].text));
        if (!str_is(once, cases[i].shown)) fail_msg("%.*s", STR_ARG(once));
        assert_true(str_equal(clean_text(&a, once), once));
    }
}

// No byte sequence gets through that a terminal would obey.
static void whatever_comes_in(void **state) {
    (void)state;
    static const char *const bad[] = {"\x1b", "\x07",     "\r",          "\n",
                                      "\x7f", "\xc2\x9b", "\xe2\x80\xae"};
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        ARENA_AUTO a = {0};
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) {
            text[i] =
                (char)(rand_r(&seed) % 3 ? "\x1b\x9b\xc2\xe2\x80\xae\n a\xf0"[rand_r(&seed) % 10]
                                         : rand_r(&seed));
        }
        struct str shown = clean_text(&a, (struct str){text, sizeof text});
        for (struct str rest = shown; rest.len > 0;) {
            ptrdiff_t before = rest.len;
            uint32_t c = clean_next(&rest);
            assert_false(clean_is_hidden(c) || (c == CLEAN_BROKEN && before - rest.len == 1));
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(str_find(shown, str_of(bad[i])), -1);
        }
    }
}

__attribute__((format(printf, 1, 2))) static void same(const char *format, ...) {
    char ours[600], theirs[600];
    va_list args;
    va_start(args, format);
    ptrdiff_t n = clean_print(ours, sizeof ours, format, args);
    va_end(args);
    va_start(args, format);
    assert_int_equal(vsnprintf(theirs, sizeof theirs, format, args), n);
    va_end(args);
    assert_string_equal(ours, theirs);
}

static void what_needs_no_cleaning_is_printf(void **state) {
    (void)state;
    ptrdiff_t t = -3;
    same("plain, 100 %%\n\t\033[0m");
    same("%d %5d %-5d| %05d %+d %i %u %x %X %02X %o %c", 1, 22, -33, 44, 5, 6, 7u, 8, 255, 10, 8,
         'x');
    same("%lld %llu %ld %lu %zu %td %hd %hhu %llx %09ld", -1LL, 2ULL, 3L, 4UL, sizeof t, t,
         (short)6, (unsigned char)7, 255ULL, 9L);
    same("%f %.0f %.*f %g %.3g %e %.12g %+.1f %8.2f %f %g", 1.5, 2.5, 3, 3.14159, 1e100, 1e-7, 1.0,
         0.1, -0.05, 7.0, (double)INFINITY, (double)NAN);
    same("%.0f", 1.7e308);
    same("%s|%.*s|%.3s|%-9s|%9s|%s", "a", 2, "bcd", "efgh", "left", "right", "");
    same("%*d|%-*d", 6, 1, 6, 2);
    same("%p", (void *)&t);
}

__attribute__((format(printf, 3, 4))) static ptrdiff_t into(char *out, ptrdiff_t size,
                                                            const char *format, ...) {
    va_list args;
    va_start(args, format);
    ptrdiff_t n = clean_print(out, size, format, args);
    va_end(args);
    return n;
}

static void messages_are_cut_between_characters(void **state) {
    (void)state;
    char out[8];
    assert_int_equal(into(out, sizeof out, "%s", "메모리"), 9);
    assert_string_equal(out, "메모");
    assert_int_equal(into(out, sizeof out, "ab%s", "\n\x1b["), 9);
    assert_string_equal(out, "ab\\n");
    assert_int_equal(into(out, sizeof out, "\033[%sm", "\033"), 7);
    assert_string_equal(out, "\033[\\x1bm");
    assert_int_equal(into(NULL, 0, "%d", 12), 2);
    ARENA_AUTO a = {0};
    assert_str(clean_cut(STR("a메모"), 6), "a메");
    assert_str(clean_cut(STR("a메모"), 7), "a메모");
    assert_str(clean_cut(STR("메"), 2), "");
    clean_keep(out, sizeof out, STR("메모리"));
    assert_string_equal(out, "메모");
    assert_str(clean_short(&a, STR("a\x1b\n\tb\u202e메모"), 9), "a?\n b?메");
}

static void every_message_of_an_error(void **state) {
    (void)state;
    struct fail why = {0};
    fail_set(&why, FAIL_INPUT, "%s: no key '%.*s'\nsecond", "a\x1b[2J.yaml", 4, "k\ney");
    fail_hint(&why, "try %s", "\u202e");
    fail_wrap(&why, "in %s", "\xc2\x85");
    assert_string_equal(why.message, "in \\u0085: a\\x1b[2J.yaml: no key 'k\\ney'\nsecond");
    assert_string_equal(why.hint, "try \\u202e");
    char big[700];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    memcpy(big + 590, "\ub4f1\ub4f1\ub4f1\ub4f1", 12);
    fail_set(&why, FAIL_INPUT, "%s", big);
    for (int i = 0; i < 9; i++) {
        fail_wrap(&why, "%d", i);
        for (struct str rest = str_of(why.message); rest.len > 0;) {
            ptrdiff_t before = rest.len;
            assert_false(clean_next(&rest) == CLEAN_BROKEN && before - rest.len == 1);
        }
    }
}

// What a buffer for people takes: our format as it is, texts in a line each, others with their
// lines.
static void an_error_that_nobody_reads_keeps_its_code(void **state) {
    (void)state;
    struct fail why = {0};
    fail_set(NULL, FAIL_INPUT, "no key");
    assert_int_equal(fail_hint(NULL, "name one"), FAIL_INPUT);
    assert_int_equal(fail_wrap(NULL, "a.yaml"), FAIL_INPUT);
    assert_int_equal(fail_hint_lines(NULL, STR("one\ntwo")), FAIL_INPUT);
    fail_set(&why, FAIL_MACHINE, "no disk"); // who reads it, and who does not, in one call
    assert_int_equal(fail_wrap(NULL, "a.yaml"), FAIL_MACHINE);
}

static void a_buffer_for_people(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_shown(&a);
    buf_format(&b, "\033[31m%s\033[0m\n", "x\n\033[1m");
    buf_add(&b, STR("one\ntwo\x1b\n"));
    assert_str(buf_str(&b), "\033[31mx\\n\\x1b[1m\033[0m\none\ntwo\\x1b\n");
    struct buf raw = buf_new(&a);
    buf_format(&raw, "%s", "\033");
    assert_str(buf_str(&raw), "\033");
}

static void cells_of_csv(void **state) {
    (void)state;
    static const struct {
        const char *text, *cell;
    } cases[] = {
        {"plain", "plain"},
        {"a,b", "\"a,b\""},
        {"say \"x\"", "\"say \"\"x\"\"\""},
        {"=1+1", "\"'=1+1\""},
        {"@SUM(A1)", "\"'@SUM(A1)\""},
        {"+x", "\"'+x\""},
        {"-cmd|' /C x'!A", "\"'-cmd|' /C x'!A\""},
        {"-5.5", "-5.5"},
        {"+3", "+3"},
        {"\xe2\x80\x93", "\xe2\x80\x93"},
        {"a\nb\x1b", "a\\nb\\x1b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct buf b = buf_new(&a);
        clean_csv(&b, str_of(cases[i].text));
        if (!str_is(buf_str(&b), cases[i].cell)) fail_msg("%s", buf_z(&b));
    }
}

static void documents_escape_what_is_hidden(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    json_t *object = json_pack("{s:s, s:s}", "a", "\x1b\xc2\x85\u202e\x7f\U000e0041 메모리 \ufffd",
                               "k\u2066", "");
    struct str text = json_bytes(&a, object, JSON_COMPACT | JSON_SORT_KEYS);
    assert_str(
        text,
        "{\"a\":\"\\u001B\\u0085\\u202e\\u007f\\udb40\\udc41 메모리 \ufffd\",\"k\\u2066\":\"\"}");
    json_t *again = json_loadb(text.p, (size_t)text.len, 0, NULL);
    assert_true(json_equal(object, again));
    json_decref(again);
    json_decref(object);
    object = json_text(STR("메\xff모\xea"));
    assert_string_equal(json_string_value(object), "메?모?");
    json_decref(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_hidden_is_written_out),
        cmocka_unit_test(whatever_comes_in),
        cmocka_unit_test(what_needs_no_cleaning_is_printf),
        cmocka_unit_test(messages_are_cut_between_characters),
        cmocka_unit_test(every_message_of_an_error),
        cmocka_unit_test(an_error_that_nobody_reads_keeps_its_code),
        cmocka_unit_test(a_buffer_for_people),
        cmocka_unit_test(cells_of_csv),
        cmocka_unit_test(documents_escape_what_is_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
