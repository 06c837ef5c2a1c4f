// SPDX-License-Identifier: Apache-2.0
// Placeholders in the user's command. In the rows words stand between '|'.
#include "unit.h"

#include "measure/trial/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static const struct trial_command_value values[] = {
    {STR("batch"), STR("32"), false},
    {STR("accumulate"), STR("4"), false},
    {STR("workers"), STR("0"), false},
    {STR("config"), STR("/tmp/run 1/구성.yaml"), false},
    {STR("amp"), STR("1"), false},
    {STR("compile"), STR("0"), true},
    {STR("resume"), STR(""), true},
    {STR("start"), STR("1"), false},
    {STR("checkpoint"), STR("a b.pt"), false},
    {STR("nothing"), STR(""), false},
    {STR("train.lr"), STR("0.1"), false},
    {STR("bucket-mb"), STR("25"), false},
};
enum { VALUES = sizeof values / sizeof *values };

static char **words_of(struct arena *a, const char *text) {
    char **argv = arena_new(a, char *, (ptrdiff_t)strlen(text) + 2);
    struct str rest = str_of(text);
    ptrdiff_t n = 0;
    do argv[n++] = str_z(a, str_cut(&rest, '|'));
    while (rest.p);
    return argv;
}

static const char *joined(struct arena *a, char *const *argv) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; argv[i]; i++) {
        if (i) buf_byte(&b, '|');
        buf_add(&b, str_of(argv[i]));
    }
    return buf_z(&b);
}

static void placeholders_are_replaced(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"python|train.py", "python|train.py"},
        {"t|--bs|{batch}", "t|--bs|32"},
        {"t|--bs={batch}x{accumulate}", "t|--bs=32x4"},
        {"t|{config}", "t|/tmp/run 1/구성.yaml"},
        {"t|--lr={train.lr}|{bucket-mb}", "t|--lr=0.1|25"},
        // {name:TEXT}
        {"t|{amp:--amp}|x", "t|--amp|x"},
        {"t|{compile:--compile}|x", "t|x"},
        {"t|{amp:--amp --level O{workers}}", "t|--amp|--level|O0"},
        {"t|{amp: --amp }|x", "t|--amp|x"},
        {"t|pre{compile:x}post", "t|prepost"},
        {"t|--flags={compile:a}", "t|--flags="},
        {"t|{start:--resume|{checkpoint}}|x", "t|--resume|a b.pt|x"},
        {"t|{start:--resume {checkpoint}}|x", "t|--resume|a b.pt|x"},
        {"t|{resume:--resume|{checkpoint}}|x", "t|x"},
        {"t|{resume:--resume {checkpoint}}|x", "t|x"},
        {"t|pre{resume:--resume|{checkpoint}}post", "t|pre|post"},
        {"t|{amp:a{compile:b}c{start:{batch}}}", "t|ac32"},
        {"t|{compile:a {amp:b}|c}|d", "t|d"},
        {"t|{amp:}|x", "t|x"},
        // empty words
        {"t||x", "t||x"},
        {"t|{nothing}|x", "t||x"},
        {"t|{amp:--name||x}", "t|--name||x"},
        {"t|{amp:|y}|", "t|y|"},
        {"t|", "t|"},
        // literal braces
        {"t|{{batch}}", "t|{batch}"},
        {"t|{{{batch}}}", "t|{32}"},
        {"t|{\"a\":{\"b\":1}}", "t|{\"a\":{\"b\":1}}"},
        {"t|{\"a\":{}}|}}", "t|{\"a\":{}}|}"},
        {"t|{\"bs\":{batch}}", "t|{\"bs\":32}"},
        {"t|{\"a\":{\"bs\":{batch},\"w\":[{}]}}", "t|{\"a\":{\"bs\":32,\"w\":[{}]}}"},
        {"t|{{\"a\":{{\"b\":{batch}}}}}", "t|{\"a\":{\"b\":32}}"},
        {"t|{amp:--json {\"a\":{\"b\":{batch}}}}|x", "t|--json|{\"a\":{\"b\":32}}|x"},
        {"t|{amp:{{x}}}|y", "t|{x}|y"},
        {"t|{|}|{}|{ batch }|{1}|{batch", "t|{|}|{}|{ batch }|{1}|{batch"},
        {"t|img_{0..9}.png|$HOME", "t|img_{0..9}.png|$HOME"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        char **argv;
        if (trial_command_expand(&a, words_of(&a, rows[i][0]), values, VALUES, &argv, &why))
            fail_msg("%s: %s", rows[i][0], why.message);
        assert_string_equal(joined(&a, argv), rows[i][1]);
    }
}

static void mistakes_are_told(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"t|{bach}", "{bach}: unknown placeholder", "nearest: batch;"},
        {"t|{acumulate:x}", "{acumulate}: unknown", "accumulate"},
        {"t|{compile:{wrokers}}", "{wrokers}: unknown", "workers"},
        {"t|{qqqqqqqqqqqq}", "{qqqqqqqqqqqq}: unknown", "literal braces are written {{ and }}"},
        {"t|{amp:--amp|x", "{amp: no closing }", ""},
        {"t|{amp:{\"a\":1}", "{amp: no closing }", ""},
        {"t|{amp:{start:x}", "{amp: no closing }", ""},
        {"{compile:t}", "the command is empty", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        char **argv = NULL;
        int rc = trial_command_expand(&a, words_of(&a, rows[i][0]), values, VALUES, &argv, &why);
        assert_int_equal(rc, FAIL_USAGE);
        assert_null(argv);
        if (!strstr(why.message, rows[i][1])) fail_msg("%s", why.message);
        if (!strstr(why.hint, rows[i][2])) fail_msg("%s", why.hint);
    }
}

static void nesting_has_an_end(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct buf deep = buf_new(&a);
    for (int i = 0; i < 100000; i++) buf_add(&deep, STR("{amp:"));
    char *argv[] = {buf_z(&deep), NULL}, **out;
    assert_int_equal(trial_command_expand(&a, argv, values, VALUES, &out, &why), FAIL_USAGE);
}

static void a_text_stays_one_word(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{batch}", "32"}, {"a {amp:b  c} d", "a b  c d"},    {"{compile:x y}", ""},
        {"", ""},          {"{\"a\":{batch}}", "{\"a\":32}"}, {"{checkpoint} ", "a b.pt "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct fail why = {0};
        struct str text;
        int rc = trial_command_expand_text(&a, str_of(rows[i][0]), values, VALUES, &text, &why);
        assert_int_equal(rc, 0);
        assert_string_equal(str_z(&a, text), rows[i][1]);
    }
}

static void mentions_are_found(void **state) {
    (void)state;
    static const struct {
        const char *words;
        bool mentions;
    } rows[] = {
        {"t|{batch}", true},         {"t|--bs={batch}", true}, {"t|{batch:--bs|{batch}}", true},
        {"t|{batches}", false},      {"t|{{batch}}", false},   {"t|{{{batch}}}", true},
        {"t|batch", false},          {"t|{batch", false},      {"t|{amp:x {batch}}", true},
        {"t|{\"a\":{batch}}", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        assert_int_equal(trial_command_mentions(words_of(&a, rows[i].words), STR("batch")),
                         rows[i].mentions);
    }
}

static void commands_are_quoted(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"python|train.py|--lr=1e-4|a/b_c.d:e,f@g%h+i",
         "python train.py --lr=1e-4 a/b_c.d:e,f@g%h+i"},
        {"t||x", "t '' x"},
        {"t|a b|*|$HOME|`x`|~|#|{a}|a;b|\\|\"",
         "t 'a b' '*' '$HOME' '`x`' '~' '#' '{a}' 'a;b' '\\' '\"'"},
        {"t|it's|'", "t 'it'\\''s' ''\\'''"},
        {"t|데이터/학습.h5|학습 데이터", "t 데이터/학습.h5 '학습 데이터'"},
        {"A=b|A=b", "'A=b' A=b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO a = {0};
        struct str text = trial_command_text(&a, words_of(&a, rows[i][0]));
        assert_string_equal(str_z(&a, text), rows[i][1]);
    }
}

// What is printed, a shell reads as the same words.
static void a_shell_reads_them_back(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char **argv =
        words_of(&a, "printf|%s/|it's|a  b||데이터 'x'|$HOME \\n|*|\"|!|~|#x|tab\there|new\nline");
    char *command = str_z(&a, trial_command_text(&a, argv)), out[200] = "";
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof out - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    out[n] = 0;
    assert_string_equal(out, "it's/a  b//데이터 'x'/$HOME \\n/*/\"/!/~/#x/tab\there/new\nline/");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_are_replaced), cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(nesting_has_an_end),        cmocka_unit_test(a_text_stays_one_word),
        cmocka_unit_test(mentions_are_found),        cmocka_unit_test(commands_are_quoted),
        cmocka_unit_test(a_shell_reads_them_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
