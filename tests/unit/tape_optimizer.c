// SPDX-License-Identifier: Apache-2.0
// Other optimizers made of a tape with AdamW, against recordings of them (tests/tapes/optimizer).
#include "recorded.h"

#include "predict/tape/optimizer.h"

enum { BATCH = 4, WIDTH = 256 };

static struct tape tape_of(struct arena *a, const char *name) {
    return recorded_tape(a, str_format(a, "optimizer/%s", name).p);
}

// "a 512 optimizer", "f 512 temporary", "m backward 1": what the allocator is asked for, in order.
static struct str asked_of(struct arena *a, const struct tape *t) {
    struct buf b = buf_new(a);
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind == TAPE_MARK) buf_format(&b, "m %s %d\n", tape_phase_names[e->phase], e->index);
        if (e->kind != TAPE_ALLOC && e->kind != TAPE_FREE) continue;
        const struct tape_alloc *x = &t->allocs[e->index];
        buf_format(&b, "%s %lld %s\n", e->kind == TAPE_ALLOC ? "a" : "f",
                   (long long)tape_size(t, x, BATCH, 0), tape_tag_names[x->tag]);
    }
    return buf_str(&b);
}

// The same without the order: a tape does not say which side of a matrix comes first, so that the
// factors of Adafactor may change places.
static struct str counted_of(struct arena *a, const struct tape *t) {
    struct buf b = buf_new(a);
    int64_t now = 0, most = 0, asked = 0;
    for (int32_t i = 0; i <= t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (i == t->event_count || e->kind == TAPE_MARK) {
            buf_format(&b, "%lld blocks, at most %lld bytes\n", (long long)asked, (long long)most);
            most = now;
            continue;
        }
        if (e->kind != TAPE_ALLOC && e->kind != TAPE_FREE) continue;
        int64_t bytes = tape_size(t, &t->allocs[e->index], BATCH, 0);
        asked += e->kind == TAPE_ALLOC;
        now += e->kind == TAPE_ALLOC ? bytes : -bytes;
        if (now > most) most = now;
    }
    return buf_str(&b);
}

static void the_allocator_is_asked_for_the_same(void **state) {
    (void)state;
    static const struct {
        const char *adamw, *suffix;
        int64_t bytes;
    } of[] = {{"adamw", "", 2}, {"adamw-foreach", "", 2}, {"adamw-fp32", "-fp32", 4}};
    for (int i = 0; tape_optimizers[i]; i++) {
        struct str name = str_of(tape_optimizers[i]);
        bool is_exact = !str_is(name, "adafactor");
        if (str_is(name, TAPE_TRAINERS_8BIT) || str_starts(name, STR("adamw:"))) continue; // below
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
            ARENA_AUTO a = {0};
            struct tape from = tape_of(&a, of[k].adamw), made;
            struct tape recorded =
                tape_of(&a, str_format(&a, "%.*s%s", STR_ARG(name), of[k].suffix).p);
            assert_true(tape_optimizer(&a, &from, name, WIDTH, of[k].bytes, &made));
            assert_string_equal(str_z(&a, counted_of(&a, &made)),
                                str_z(&a, counted_of(&a, &recorded)));
            if (is_exact) assert_true(str_equal(asked_of(&a, &made), asked_of(&a, &recorded)));
            assert_true(str_equal(made.header.optimizer, name));
        }
    }
}

static void the_other_kernel_of_adamw_has_its_steps_and_no_temporaries(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct tape foreach = tape_of(&a, "adamw-foreach"), fused = tape_of(&a, "adamw");
    struct tape made;
    assert_true(tape_optimizer(&a, &foreach, STR(TAPE_FUSED_ADAMW), WIDTH, 2, &made));
    assert_true(str_equal(asked_of(&a, &made), asked_of(&a, &fused)));
    assert_true(str_is(made.header.optimizer, "adamw"));
    assert_true(tape_optimizer(&a, &fused, STR(TAPE_FOREACH_ADAMW), WIDTH, 2, &made));
    assert_string_equal(str_z(&a, asked_of(&a, &made)), str_z(&a, asked_of(&a, &foreach)));
    assert_true(str_is(made.header.optimizer, "adamw"));
}

static void an_adapter_s_states_are_in_8_bits_too(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape from = tape_of(&a, "adamw-lora"), recorded = tape_of(&a, "adamw8bit-lora"), made;
    assert_true(tape_optimizer(&a, &from, STR("adamw8bit"), WIDTH, 4, &made));
    assert_true(str_equal(asked_of(&a, &made), asked_of(&a, &recorded)));
}

static int64_t state_bytes(const struct tape *t) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < t->alloc_count; i++)
        if (t->allocs[i].tag == TAPE_OPTIMIZER_STATE) bytes += t->allocs[i].c;
    return bytes;
}

// 2 bytes of states and 2 factors of 4 bytes for 256 values become 8 bytes.
static void a_trainer_keeps_an_embedding_s_states_in_fp32(void **state) {
    (void)state;
    enum { VOCABULARY = 3000, VALUES = VOCABULARY * WIDTH };
    ARENA_AUTO a = {0};
    struct tape adamw = tape_of(&a, "adamw"), plain, trainers;
    assert_true(tape_optimizer(&a, &adamw, STR("adamw8bit"), WIDTH, 2, &plain));
    assert_true(tape_optimizer(&a, &adamw, STR(TAPE_TRAINERS_8BIT), WIDTH, 2, &trainers));
    assert_int_equal(state_bytes(&trainers) - state_bytes(&plain),
                     6 * VALUES - 2 * 4 * VALUES / 256);
}

static void another_tape_is_none(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape adamw = tape_of(&a, "adamw"), sgd = tape_of(&a, "sgd"), made;
    assert_false(tape_optimizer(&a, &adamw, STR("adamw"), WIDTH, 2, &made));
    assert_false(tape_optimizer(&a, &sgd, STR("lion"), WIDTH, 2, &made));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_allocator_is_asked_for_the_same),
        cmocka_unit_test(the_other_kernel_of_adamw_has_its_steps_and_no_temporaries),
        cmocka_unit_test(an_adapter_s_states_are_in_8_bits_too),
        cmocka_unit_test(a_trainer_keeps_an_embedding_s_states_in_fp32),
        cmocka_unit_test(another_tape_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
