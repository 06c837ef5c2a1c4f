// SPDX-License-Identifier: Apache-2.0
// A packed tape is the same tape; one that is cut or changed is refused or another good tape.
#include "unit.h"

#include "predict/tape/tape.h"

#include <string.h>

#define HEAD "{\"tape\":1,\"model\":\"m\",\"classes\":10,\"batches\":[2,4]}\n"

static const char whole[] = HEAD
    "m init 0\n"
    "a 1001 18432 0 param - stem.0\n"
    "a 5 512 8192 activation convolution layers.2.blocks.0.conv\n"
    "a@1 6 0 602112 input\n"
    "a@63 4611686018427387903 -512 512 other\n"
    "a 7 40960 512 param - head n=4096,-3\n"
    "a 8 4611686018427387 0 param addmm n=1,0\n"
    "a 9 1 0 gradient n=0,2\n"
    "f 1001\n"
    "f 9\n"
    "e\n"
    "w 1024 4096\n"
    "m backward 1\n"
    "a 10 1 0 gradient n=0,2\n"
    "f 5\n"
    "o conv_fwd 0 231211008 9408 2408448 3 dtype=f16 layout=nhwc kernel=7 stride=2 m=0+12544B\n"
    "o elem 0 1 2 3 4\n"
    "m zero_grad 2147483647\n";

static struct str text_of(struct arena *a, const struct tape *t) {
    struct buf out = buf_new(a);
    tape_write(t, &out);
    return buf_str(&out);
}

static struct str packed(struct arena *a, const char *text) {
    struct tape t;
    struct fail why = {0};
    struct buf out = buf_new(a);
    if (tape_read(a, STR("text"), str_of(text), &t, &why) < 0) fail_msg("%s", why.message);
    assert_true(tape_pack(&t, &out));
    return buf_str(&out);
}

static void comes_out_as_it_went_in(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    struct str bytes = packed(&a, whole);
    assert_true(bytes.len < (ptrdiff_t)sizeof whole);
    if (tape_read(&a, STR("packed"), bytes, &t, &why) < 0) fail_msg("%s", why.message);
    struct str text = text_of(&a, &t);
    assert_int_equal(text.len, (ptrdiff_t)sizeof whole - 1);
    assert_memory_equal(text.p, whole, sizeof whole - 1);
    assert_int_equal(t.stream_count, 64);
    assert_int_equal(t.allocs[0].free_event, 8);
    struct str empty = packed(&a, HEAD);
    assert_int_equal(tape_read(&a, STR("packed"), empty, &t, &why), 0);
    assert_int_equal(t.event_count, 0);
}

static void cut_anywhere_it_is_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str bytes = packed(&a, whole);
    struct tape t;
    for (ptrdiff_t len = (ptrdiff_t)sizeof HEAD; len < bytes.len; len++) {
        struct fail why = {0};
        assert_true(tape_read(&a, STR("cut"), str_slice(bytes, 0, len), &t, &why) < 0);
        assert_int_equal(why.code, FAIL_INPUT);
        assert_non_null(strstr(why.message, "the packed tape is damaged"));
    }
    struct buf more = buf_new(&a);
    buf_add(&more, bytes);
    buf_byte(&more, 0);
    assert_true(tape_read(&a, STR("longer"), buf_str(&more), &t, NULL) < 0);
}

// What is read in spite of a change reads as text, too.
static void changed_anywhere_it_breaks_no_rule(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str bytes = packed(&a, whole);
    int read = 0;
    for (ptrdiff_t at = (ptrdiff_t)sizeof HEAD; at < bytes.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            ARENA_AUTO scratch = {0};
            struct tape t, again;
            struct fail why = {0};
            char *copy = arena_new(&scratch, char, bytes.len);
            memcpy(copy, bytes.p, (size_t)bytes.len);
            copy[at] = (char)(copy[at] ^ 1 << bit);
            struct str changed = {copy, bytes.len};
            if (tape_read(&scratch, STR("changed"), changed, &t, &why) < 0) continue;
            if (tape_read(&scratch, STR("again"), text_of(&scratch, &t), &again, &why) < 0)
                fail_msg("byte %td, bit %d: %s", at, bit, why.message);
            read++;
        }
    }
    assert_true(read > 100); // other sizes, names, steps
}

static void odd_names_stay_text(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char *const lines[] = {"a 1 1 0 param op -\n", "a 1 1 0 param n=1 module\n",
                                        "a 1 1 0 param op n=1 n=2,3\n"};
    for (int i = 0; i < 3; i++) {
        struct tape t;
        struct buf out = buf_new(&a);
        struct str text = str_format(&a, HEAD "%s", lines[i]);
        assert_int_equal(tape_read(&a, STR("text"), text, &t, NULL), 0);
        assert_false(tape_pack(&t, &out));
    }
}

static void too_many_at_once_stay_text(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf text = buf_new(&a), out = buf_new(&a);
    struct tape t;
    buf_add(&text, STR(HEAD));
    for (int i = 0; i <= 1 << 14; i++) buf_format(&text, "a %d 1 0 other\n", i);
    assert_int_equal(tape_read(&a, STR("text"), buf_str(&text), &t, NULL), 0);
    assert_false(tape_pack(&t, &out));
    assert_int_equal(out.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_out_as_it_went_in),
        cmocka_unit_test(cut_anywhere_it_is_refused),
        cmocka_unit_test(changed_anywhere_it_breaks_no_rule),
        cmocka_unit_test(odd_names_stay_text),
        cmocka_unit_test(too_many_at_once_stay_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
