// SPDX-License-Identifier: Apache-2.0
// What PyYAML 6.0.3 refuses is told where it is known. Every row was given to yaml.safe_load.
#include "unit.h"

#include "records/config/tree_int.h"

#include <time.h>

static const struct {
    const char *text, *told; // NULL: it loads
} rows[] = {
    {"a: 1\n", NULL},
    {"[a, b]: 1\n", ":1:1: a list or a map as a key"},
    {"a: 1\n? {b: 1}\n: 2\n", ":2:3: a list or a map as a key"},
    {"k: &k [1]\n*k : 2\n", ":2:2: a list or a map as a key"},
    {"a: !local 1\n", "a tag that its safe loader does not know"},
    {"a: !!python/tuple [1]\n", "a tag that its safe loader does not know"},
    {"a: !!str 1\nb: !!binary aGk=\nc: ! x\n", NULL},
    {"a: &x.y 1\nb: *x.y\n", "an anchor with other characters"},
    {"a: &x-y_1 1\nb: *x-y_1\n", NULL},
    {": 1\n", "a colon without a key"},
    {"a: {b: 1, ? }\n", NULL},
    {"a: {b\n  : 1}\n", "whose colon is in another line"},
    {"a: {\"b\" # why\n  : 1}\n", "whose colon is in another line"},
    {"a: {? b\n  : 1}\n", NULL},
    {"a: {b:\n  1}\n", NULL},
    {"a: {b: :c}\n", "a colon that begins a value"},
    {"a: :c\n", NULL},
    {"a: =\n", "a plain ="},
    {"a: '='\n", NULL},
    {"a: <<\n", "a plain << that is no key"},
    {"a: [b, <<]\n", "a plain << that is no key"},
    {"a: &a\n- b: 1\n  <<: *a\n- c\n", ":3:8: a merge (<<) of something other"},
    {"a: &a\n- b: 1\n  <<: *a\n- c: 1\n", NULL},
    {"a: &a {b: '<<'}\nc:\n  <<: *a\n", NULL},
    {"a: 2026-02-30\n", "a date that no calendar has"},
    {"a: 2024-02-29\nb: '2026-02-30'\n", NULL},
    {"a: 2026-13-01\n", "a date that no calendar has"},
    {"? a\n: 1\n: 2\n", ":3:3: a colon without a key"},
    {"? &a a\n: &b b\n: *a\n", "a colon without a key"},
    {"? a # ?\n: 1 # ?\n: 2\n", "a colon without a key"},
    {"a: {? foo :, : bar}\n", "a colon without a key"},
    {"?\n- : 1\n", "a list or a map as a key"},
    {"k:\n  - {b: 1}\n? a\n: 1\n?\n: 2\n", NULL},
    {"? \n# why\n: 2\nb: 1\n", NULL},
    {"a: {b: 1, ? : 2}\n", NULL},
    {"a: [b, c?d]\n", ":1:8: a question mark within"},
    {"a: {k?: v}\n", "a question mark within"},
    {"a: {k: v? }\n", "a question mark within"},
    {"a: b?c\nd: ['e?f', \"?\"]\n", NULL},
    {"%YAML 1.1\na: 1\n", ":2:1: a directive (%) without"},
    {"\n%YAML 1.1\n# why\n---\na: 1\n", NULL},
    {"# why\n...\na: 1\n", ":2:1: an end of a document"},
    {"---\na: 1\n...\n", NULL},
};

static void what_pyyaml_refuses_is_told(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct config c;
        struct config_reading reading;
        struct fail why = {0};
        if (config_parse(&a, STR("c.yaml"), str_of(rows[i].text), &c, &why)) {
            fail_msg("row %zu: %s", i, why.message);
        }
        assert_int_equal(config_read_roles(&a, &c, NULL, &reading, &why), 0);
        bool is_told = false;
        for (ptrdiff_t k = 0; k < reading.warnings.count; k++) {
            struct str w = reading.warnings.items[k];
            if (str_find(w, STR("PyYAML, with which")) < 0) continue;
            is_told = true;
            if (!rows[i].told || str_find(w, str_of(rows[i].told)) < 0) {
                fail_msg("row %zu: %.*s", i, STR_ARG(w));
            }
        }
        if (is_told != (rows[i].told != NULL)) fail_msg("row %zu: told: %d", i, is_told);
    }
}

static double seconds_to_read(const char *front, const char *end) {
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading reading;
    struct buf b = buf_new(&a);
    buf_format(&b, "%slist:\n", front);
    for (int i = 0; i < 200000; i++) buf_add(&b, STR("  - : a\n"));
    buf_format(&b, "%s", end);
    assert_int_equal(config_parse(&a, STR("c.yaml"), buf_str(&b), &c, NULL), 0);
    const clock_t begin = clock();
    assert_int_equal(config_read_roles(&a, &c, NULL, &reading, NULL), 0);
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

// Whether a question mark makes an empty key one that loads is asked of the text once, not once a
// key: wherever the mark stands, it takes as long.
static void many_empty_keys_take_no_longer(void **state) {
    (void)state;
    const double front = seconds_to_read("# ?\n", ""), end = seconds_to_read("", "# ?\n");
    print_message("# 200000 empty keys: %.3f s, mark at the end: %.3f s\n", front, end);
    assert_true(end < 6 * front);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_pyyaml_refuses_is_told),
                                       cmocka_unit_test(many_empty_keys_take_no_longer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
