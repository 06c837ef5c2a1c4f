// SPDX-License-Identifier: Apache-2.0
// Attention without a fused kernel, on a tape small enough to be read. What is kept and what comes
// and goes was printed by a dispatch mode of torch 2.13 around _scaled_dot_product_attention_math
// on the CPU, in fp16 and bf16, forward and backward.
#include "unit.h"

#include "predict/tape/scores.h"

#define HEAD "{\"tape\":1,\"model\":\"x\",\"batches\":[2]}\n"

static struct str made_of(struct arena *a, const char *text, bool *ret_is_made) {
    const struct tape_scores how = {.tokens = 5, .head_size = 2};
    struct tape t, made;
    struct fail why = {0};
    struct buf written = buf_new(a);
    if (tape_read(a, STR("x.tape"), str_of(text), &t, &why) < 0) fail_msg("%s", why.message);
    *ret_is_made = tape_scores(a, &t, &how, &made);
    tape_write(&made, &written);
    struct str rest = buf_str(&written);
    str_line(&rest);
    return rest;
}

// Of 3 heads and 5 tokens: a result of 60 bytes a sample is 15 queries, whose scores are 75.
#define FLASH "_scaled_dot_product_flash_attention"
static void scores_stand_in_for_the_kernel(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    bool is_made;
    struct str written = made_of(&a,
                                 HEAD "m forward 0\na 1 0 60 activation " FLASH
                                      "\na 2 0 60 activation " FLASH "\na 3 8 0 activation " FLASH
                                      "\na 4 0 60 activation clone\nf 3\nm backward 0\n"
                                      "a 5 0 60 temporary " FLASH "_backward\nf 5\nf 2\nf 1\nf 4\n",
                                 &is_made);
    assert_true(is_made);
    if (!str_is(written,
                "m forward 0\na 0 0 300 temporary bmm\na 1 0 300 temporary _safe_softmax\n"
                "a 2 0 75 temporary eq\na 3 0 660 activation _safe_softmax\nf 2\nf 1\nf 0\n"
                "a 4 0 60 activation " FLASH "\na 5 0 60 activation " FLASH
                "\na 6 8 0 activation " FLASH "\na 7 0 60 activation clone\nf 6\nm backward 0\n"
                "a 8 0 300 temporary _softmax_backward_data\n"
                "a 9 0 300 temporary _softmax_backward_data\nf 9\nf 8\n"
                "a 10 0 60 temporary " FLASH "_backward\nf 10\nf 5\nf 3\nf 4\nf 7\n"))
        fail_msg("%.*s", STR_ARG(written));
}

static void what_is_not_fused_stays(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    bool is_made;
    made_of(&a, HEAD "m forward 0\na 1 0 60 activation _softmax\nf 1\n", &is_made);
    assert_false(is_made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_stand_in_for_the_kernel),
        cmocka_unit_test(what_is_not_fused_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
