// SPDX-License-Identifier: Apache-2.0
// Strict JSON without a tree: yes to all that is usual, and only where jansson says yes.
#include "unit.h"

#include "records/config/tree_int.h"

#include <jansson.h>
#include <string.h>

static const struct {
    const char *text;
    bool is_plain;
} rows[] = {
    {"{}", true},
    {" [ ] ", true},
    {"{\"a\": 1, \"b\": [true, false, null, -0, 0.5, 1e-4, 12E+3]}\n", true},
    {"{\"a\": {\"b\": [[], {}, [{}]]}, \"\\u00e9\\ud83d\\ude00\\n\\/\": \"e\"}", true},
    {"999999999999999999", true},
    {"-1", true},
    {"\"\"", true},
    {"", false},
    {" ", false},
    {"{", false},
    {"[1", false},
    {"[1,]", false},
    {"[,1]", false},
    {"[1 2]", false},
    {"{\"a\"}", false},
    {"{\"a\": }", false},
    {"{\"a\": 1,}", false},
    {"{a: 1}", false},
    {"{\"a\" 1}", false},
    {"[}", false},
    {"{]", false},
    {"{1: 2}", false},
    {"[1]]", false},
    {"{} {}", false},
    {"01", false},
    {"-", false},
    {"+1", false},
    {".5", false},
    {"1.", false},
    {"1e", false},
    {"NaN", false},
    {"tru", false},
    {"nulll", false},
    {"\"", false},
    {"\"\t\"", false},
    {"\"\\x\"", false},
    {"\"\\u12\"", false},
    {"\"\\u0000\"", false},
    {"\"\\ud800\"", false},
    {"\"\\udc00\"", false},
    {"\"\\ud800\\u0041\"", false},
    {"// why\n1", false},
    {"\xEF\xBB\xBF{}", false},
    {"1e999", false},
    {"99999999999999999999", false},
};

static bool jansson_takes(const char *text, size_t bytes) {
    json_t *value = json_loadb(text, bytes, JSON_DECODE_ANY, NULL);
    json_decref(value);
    return value != NULL;
}

static void what_is_plain(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (config_json_is_plain(str_of(rows[i].text)) != rows[i].is_plain)
            fail_msg("%s", rows[i].text);
        if (rows[i].is_plain) assert_true(jansson_takes(rows[i].text, strlen(rows[i].text)));
    }
}

// Deeper than it looks, deeper than jansson does.
static void depth(void **state) {
    (void)state;
    char text[6000];
    for (size_t levels = 1; levels <= 3000; levels += levels < 300 ? 1 : 300) {
        memset(text, '[', levels);
        memset(text + levels, ']', levels);
        const bool is_plain = config_json_is_plain((struct str){text, 2 * (ptrdiff_t)levels});
        assert_int_equal(is_plain, levels <= 256);
    }
}

// Each row with each of its bytes replaced, left out or doubled.
static void never_more_than_jansson(void **state) {
    (void)state;
    static const char bytes[] = "{}[]\",:\\ue0123.-+tfn \n\t\x01zE/";
    int said_yes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t length = strlen(rows[i].text);
        for (size_t at = 0; at < length; at++) {
            for (size_t b = 0; b < sizeof bytes + 1; b++) {
                char text[200] = "";
                const bool replaced = b < sizeof bytes - 1, left_out = b == sizeof bytes - 1;
                const char *rest = rows[i].text + at + (replaced || left_out);
                memcpy(text, rows[i].text, at);
                if (replaced) text[at] = bytes[b];
                if (!replaced && !left_out) text[at] = rows[i].text[at];
                memcpy(text + at + !left_out, rest, strlen(rest) + 1);
                const bool yes = config_json_is_plain(str_of(text));
                said_yes += yes;
                if (yes && !jansson_takes(text, strlen(text))) fail_msg("%s", text);
            }
        }
    }
    assert_true(said_yes > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_plain),
        cmocka_unit_test(depth),
        cmocka_unit_test(never_more_than_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
