// SPDX-License-Identifier: Apache-2.0
// What stands around a step of GRPO, on a tape small enough to be read.
#include "unit.h"

#include "predict/tape/generate.h"

#define HEAD "{\"tape\":1,\"model\":\"x\",\"batches\":[2]}\n"
// Of two steps, of which the first has two passes, with a cast of 6 bytes at a time.
static const char step[] =
    HEAD "m init 0\na 1 32 0 param\na 2 4 0 buffer\n"
         "m input 0\na 3 0 8 input\nm forward 0\na 4 6 0 cast\nf 4\na 5 5 0 cast\nf 5\n"
         "m input 0\nm forward 0\nm optimizer 0\nm input 1\nf 3\nm forward 1\n";
static const struct tape_generation sizes = {.layers = 1,
                                             .hidden = 2,
                                             .ffn = 3,
                                             .vocabulary = 10,
                                             .cached = 4,
                                             .prompt = 5,
                                             .completion = 7,
                                             .bytes = 2,
                                             .held = 4,
                                             .is_autocast = true};

static void check(const struct tape_generation *how, const char *expected) {
    ARENA_AUTO a = {0};
    struct tape t, made;
    struct fail why = {0};
    if (tape_read(&a, STR("x.tape"), str_of(step), &t, &why) < 0) fail_msg("%s", why.message);
    tape_generate(&a, &t, how, &made);
    struct buf text = buf_new(&a);
    tape_write(&made, &text);
    struct str written = buf_str(&text);
    str_line(&written);
    if (!str_is(written, expected)) fail_msg("%.*s", STR_ARG(written));
}

#define GENERATED                                                                        \
    "a 2 6 0 cast empty\na 3 0 80 temporary cat\na 4 0 80 temporary cat\n"               \
    "a 5 0 30 temporary linear\na 6 0 30 temporary linear\na 7 0 30 temporary linear\n"  \
    "a 8 0 40 temporary linear\na 9 0 40 temporary linear\na 10 0 40 temporary linear\n" \
    "a 11 0 40 temporary linear\na 12 0 25 temporary linear\n"                           \
    "f 12\nf 11\nf 10\nf 9\nf 8\nf 7\nf 6\nf 5\na 13 0 120 temporary softmax\n"          \
    "a 14 0 192 temporary cat\nf 3\na 15 0 192 temporary cat\nf 4\n"                     \
    "a 16 0 192 temporary cat\nf 16\na 17 0 20 temporary softmax\nf 17\nf 2\n"           \
    "a 18 0 80 temporary softmax\nf 18\nf 13\nf 14\nf 15\ne\n"

// Before the first pass of each step: keys and values of the prompts, then of all tokens, one made
// longer after the other; and what samples.
static void completions_are_generated_before_a_step(void **state) {
    (void)state;
    struct tape_generation how = sizes;
    ARENA_AUTO a = {0};
    struct tape t, made;
    assert_int_equal(tape_read(&a, STR("x.tape"), str_of(step), &t, NULL), 0);
    tape_generate(&a, &t, &how, &made);
    struct buf text = buf_new(&a);
    tape_write(&made, &text);
    struct str written = buf_str(&text);
    ptrdiff_t first = str_find(written, STR("m input 0\n" GENERATED "a 19 0 8 input\n"));
    if (first < 0) fail_msg("%.*s", STR_ARG(written));
    struct str rest = str_slice(written, first + 10, written.len);
    ptrdiff_t passes = str_find(rest, STR("m input 0\nm forward 0\n"));
    assert_true(passes > 0 && passes < str_find(rest, STR("m input 1\na 22 6 0 cast empty\n")));
    how.sequences = 3; // on this device, whatever the batch
    tape_generate(&a, &t, &how, &made);
    assert_int_equal(made.allocs[4].c, 3 * 80);
    assert_int_equal(made.allocs[4].k, 0);
}

// Of 12 tokens a layer with a window of 6 keeps as many at the end, and the whole prompt before.
static void a_window_is_kept_of_what_is_generated(void **state) {
    (void)state;
    struct tape_generation how = sizes;
    ARENA_AUTO a = {0};
    struct tape t, made;
    assert_int_equal(tape_read(&a, STR("x.tape"), str_of(step), &t, NULL), 0);
    how.windowed = 1;
    how.window = 6;
    tape_generate(&a, &t, &how, &made);
    struct buf text = buf_new(&a);
    tape_write(&made, &text);
    assert_true(str_find(buf_str(&text), STR("a 3 0 80 temporary cat\n")) > 0);
    assert_true(str_find(buf_str(&text), STR("a 14 0 96 temporary cat\nf 3\n")) > 0);
    how.window = 13; // longer than all of them
    tape_generate(&a, &t, &how, &made);
    struct buf whole = buf_new(&a);
    tape_write(&made, &whole);
    assert_true(str_find(buf_str(&whole), STR("a 14 0 192 temporary cat\nf 3\n")) > 0);
}

static void a_reference_is_a_second_model(void **state) {
    (void)state;
    struct tape_generation how = sizes;
    how.is_elsewhere = true;
    check(&how, "m init 0\na 0 32 0 param\na 1 4 0 buffer\n"
                "m input 0\na 2 0 8 input\nm forward 0\na 3 6 0 cast\nf 3\na 4 5 0 cast\nf 4\n"
                "m input 0\nm forward 0\nm optimizer 0\nm input 1\nf 2\nm forward 1\n");
    how.has_reference = how.has_reference_scores = true;
    check(&how, "m init 0\na 0 32 0 param\na 1 4 0 buffer\na 2 32 0 reference\n"
                "a 3 4 0 reference\na 4 0 112 input empty\n"
                "m input 0\na 5 0 8 input\nm forward 0\na 6 6 0 cast\nf 6\na 7 5 0 cast\nf 7\n"
                "m input 0\nm forward 0\nm optimizer 0\nm input 1\nf 5\nm forward 1\n");
}

static void who_generates_alone_has_its_weights_and_no_step(void **state) {
    (void)state;
    struct tape_generation how = sizes;
    how.is_all = true;
    check(&how, "m init 0\na 0 32 0 param\na 1 4 0 buffer\nm input 0\n" GENERATED);
}

static int64_t most_live(const struct tape *t) {
    int64_t now = 0, most = 0;
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *e = &t->events[i];
        if (e->kind != TAPE_ALLOC && e->kind != TAPE_FREE) continue;
        now += e->kind == TAPE_ALLOC ? t->allocs[e->index].c : -t->allocs[e->index].c;
        if (now > most) most = now;
    }
    return most;
}

// bench/accuracy/generate.py prints them: torch 2.13.0, transformers 5.23.0, four layers of 256 by
// 688. Casts are there under autocast alone.
static const struct {
    int64_t words, cached, sequences, prompt, completion, casts, most;
} measured[] = {
    {2000, 64, 8, 64, 192, 0, 3794944},     {2000, 64, 8, 64, 192, 6561792, 11033088},
    {2000, 64, 4, 400, 40, 0, 12392448},    {2000, 64, 4, 400, 40, 6561792, 23142400},
    {2000, 64, 16, 16, 300, 0, 6359040},    {2000, 64, 16, 16, 300, 6561792, 17483264},
    {32000, 256, 8, 64, 192, 0, 13037056},  {32000, 256, 8, 64, 192, 22708224, 43073024},
    {32000, 256, 4, 400, 40, 0, 17307648},  {32000, 256, 4, 400, 40, 22708224, 38950912},
    {32000, 256, 16, 16, 300, 0, 30027264}, {32000, 256, 16, 16, 300, 22708224, 71315456},
    {32000, 128, 8, 64, 192, 0, 8859136},   {32000, 128, 8, 64, 192, 22183936, 34192896},
    {32000, 128, 4, 400, 40, 0, 14030848},  {32000, 128, 4, 400, 40, 22183936, 31234048},
    {32000, 128, 16, 16, 300, 0, 19705344}, {32000, 128, 16, 16, 300, 22183936, 50147328},
};

static void what_it_holds_is_what_generate_holds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        ARENA_AUTO a = {0};
        struct tape t, made;
        const bool is_autocast = measured[i].casts > 0;
        struct str text = str_format(&a, HEAD "m input 0\nm forward 0\na 1 %lld 0 cast\nf 1\n",
                                     (long long)measured[i].casts);
        assert_int_equal(tape_read(&a, STR("x.tape"), text, &t, NULL), 0);
        const struct tape_generation how = {.sequences = measured[i].sequences,
                                            .layers = 4,
                                            .hidden = 256,
                                            .ffn = 688,
                                            .vocabulary = measured[i].words,
                                            .cached = measured[i].cached,
                                            .prompt = measured[i].prompt,
                                            .completion = measured[i].completion,
                                            .bytes = 2,
                                            .held = is_autocast ? 4 : 2,
                                            .is_autocast = is_autocast};
        tape_generate(&a, &t, &how, &made);
        double off = (double)most_live(&made) / (double)measured[i].most - 1;
        if (off < -0.03 || off > 0.01) fail_msg("row %zu: %+.1f %%", i, 100 * off);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_generated_before_a_step),
        cmocka_unit_test(a_window_is_kept_of_what_is_generated),
        cmocka_unit_test(a_reference_is_a_second_model),
        cmocka_unit_test(who_generates_alone_has_its_weights_and_no_step),
        cmocka_unit_test(what_it_holds_is_what_generate_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
