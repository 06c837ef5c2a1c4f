// SPDX-License-Identifier: Apache-2.0
// From one micro-step an optimizer step to several, on a tape small enough to be read.
#include "unit.h"

#include "predict/tape/tape.h"

#define HEAD "{\"tape\":1,\"model\":\"x\",\"batches\":[2]}\n"
#define STEP(n, before, input, act, grad)                                     \
    "m input " n "\n" before "a " input " 0 8 input\nm forward " n "\na " act \
    " 0 64 activation\nm backward " n "\na " grad " 32 0 gradient\nf " act "\nm optimizer " n "\n"

static const char one[] = HEAD "m init 0\na 1 32 0 param\n" STEP(
    "0", "", "2", "3", "4") "a 5 64 0 optimizer\nm zero_grad 0\nf 4\n" STEP("1", "f 2\n", "6", "7",
                                                                            "8") "m zero_grad 1\nf "
                                                                                 "8\n";

static struct tape read_tape(struct arena *a, const char *text) {
    struct tape t;
    struct fail why = {0};
    if (tape_read(a, STR("x.tape"), str_of(text), &t, &why) < 0) fail_msg("%s", why.message);
    return t;
}

static void a_second_pass_adds_to_the_gradients(void **state) {
    (void)state;
    static const char expected[] =
        "m init 0\na 0 32 0 param\n"
        "m input 0\na 1 0 8 input\nm forward 0\na 2 0 64 activation\nm backward 0\n"
        "a 3 32 0 gradient\nf 2\n"
        "m input 0\nf 1\na 4 0 8 input\nm forward 0\na 5 0 64 activation\nm backward 0\n"
        "a 6 32 0 gradient\nf 6\nf 5\n"
        "m optimizer 0\na 7 64 0 optimizer\nm zero_grad 0\nf 3\n"
        "m input 1\nf 4\na 8 0 8 input\nm forward 1\na 9 0 64 activation\nm backward 1\n"
        "a 10 32 0 gradient\nf 9\n"
        "m input 1\nf 8\na 11 0 8 input\nm forward 1\na 12 0 64 activation\nm backward 1\n"
        "a 13 32 0 gradient\nf 13\nf 12\n"
        "m optimizer 1\nm zero_grad 1\nf 10\n";
    ARENA_AUTO a = {0};
    struct tape t = read_tape(&a, one), several;
    struct buf text = buf_new(&a);
    assert_true(tape_accumulate(&a, &t, &several));
    assert_int_equal(several.header.accumulation, 2);
    tape_write(&several, &text);
    struct str written = buf_str(&text);
    str_line(&written);
    if (!str_is(written, expected)) fail_msg("%.*s", STR_ARG(written));
}

static void what_is_no_such_tape_is_left(void **state) {
    (void)state;
    static const char *const others[] = {
        HEAD "m init 0\na 1 32 0 param\nm forward 0\n",
        // a second step that frees what the first one's update made
        HEAD "m init 0\nm input 0\nm forward 0\nm optimizer 0\na 1 8 0 other\nm input 1\nf 1\n"
             "m optimizer 1\n",
    };
    ARENA_AUTO a = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct tape t = read_tape(&a, others[i]), several;
        assert_false(tape_accumulate(&a, &t, &several));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_pass_adds_to_the_gradients),
        cmocka_unit_test(what_is_no_such_tape_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
