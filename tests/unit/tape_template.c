// SPDX-License-Identifier: Apache-2.0
// Templates: expressions, blocks and instances by hand-made examples, and every way in which one
// can be malformed, named with its line.
#include "unit.h"

#include "predict/tape/template.h"

#define HEAD                                                                        \
    "{\"tape\":2,\"model\":\"m\",\"dims\":{\"batch\":[2,64],\"sequence\":[1,4096]," \
    "\"hidden\":[8,1024,8],\"layers\":[1,100]}}\n"

// Any size: halving rounds up.
#define OF_IMAGES                                                            \
    "{\"tape\":2,\"model\":\"m\",\"classes\":10,\"dims\":{\"batch\":[1,64]," \
    "\"image_size\":[32,1024]}}\n"

static int read(struct arena *a, const char *text, struct tape_template **t, struct fail *why) {
    return tape_template_read(a, STR("x.tape"), str_of(text), t, why);
}

static const char three_phases[] = HEAD "m init 0\n"
                                        "l i L\n"
                                        "a 1+i 2DD param - layers.{i}.up\n"
                                        "a 1000+i [DD/3] buffer - layers.{L-1-i}.{L}.up\n"
                                        "/l\n"
                                        "m forward 0\n"
                                        "a 2000 2BSD+8B activation embedding\n"
                                        "l i L-1\n"
                                        "a@2 2001+i 4BSD-4S[S/128]+16L activation mm layers.{i+1}\n"
                                        "w 3BS\n"
                                        "/l\n"
                                        "m backward 0\n"
                                        "l i L-1\n"
                                        "f 2000+L-1-i\n"
                                        "/l\n"
                                        "f 2000\n"
                                        "e\n";

static struct tape instance(struct arena *a, const char *text, const int64_t *values) {
    struct tape_template *t = NULL;
    struct tape tape = {0};
    struct fail why = {0};
    if (read(a, text, &t, &why) < 0) fail_msg("%s", why.message);
    if (tape_instantiate(a, t, values, &tape, &why) < 0) fail_msg("%s", why.message);
    return tape;
}

static void assert_events(struct arena *a, const struct tape *t, const char *expected) {
    struct buf out = buf_new(a);
    tape_write(t, &out);
    struct str text = buf_str(&out);
    text = str_slice(text, str_find(text, STR("\n")) + 1, text.len);
    if (!str_is(text, expected)) fail_msg("%.*s", STR_ARG(text));
}

static void blocks_are_run_through(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_SEQUENCE] = 129, [TAPE_DIM_HIDDEN] = 8, [TAPE_DIM_LAYERS] = 3};
    struct tape t = instance(&a, three_phases, values);
    assert_events(&a, &t,
                  "m init 0\n"
                  "a 1 128 0 param - layers.0.up\n"
                  "a 1000 22 0 buffer - layers.2.3.up\n"
                  "a 2 128 0 param - layers.1.up\n"
                  "a 1001 22 0 buffer - layers.1.3.up\n"
                  "a 3 128 0 param - layers.2.up\n"
                  "a 1002 22 0 buffer - layers.0.3.up\n"
                  "m forward 0\n"
                  "a 2000 0 2072 activation embedding\n"
                  "a@2 2001 -984 4128 activation mm layers.1\n"
                  "w 0 387\n"
                  "a@2 2002 -984 4128 activation mm layers.2\n"
                  "w 0 387\n"
                  "m backward 0\n"
                  "f 2002\n"
                  "f 2001\n"
                  "f 2000\n"
                  "e\n");
    assert_int_equal(t.stream_count, 3);
    assert_int_equal(t.header.sequence_length, 129);
    assert_int_equal(t.header.batches[0], 2);
    assert_int_equal(t.allocs[7].free_event, 15);
    assert_int_equal(t.allocs[0].free_event, -1);
}

static void ids_are_told_from_the_last_allocation(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_SEQUENCE] = 1, [TAPE_DIM_HIDDEN] = 8, [TAPE_DIM_LAYERS] = 2};
    struct tape t = instance(&a,
                             HEAD "a 7+L 1 param\n"
                                  "a@1 + 2 param\n"
                                  "f -1\n"
                                  "l i L\n"
                                  "a 20+2i 3 other\n"
                                  "a + 4 other\n"
                                  "l j 1\n"
                                  "f -0\n"
                                  "a 40+2i 5 other\n"
                                  "f -20\n"
                                  "/l\n"
                                  "/l\n",
                             values);
    assert_events(&a, &t,
                  "a 9 1 0 param\n"
                  "a@1 10 2 0 param\n"
                  "f 9\n"
                  "a 20 3 0 other\n"
                  "a 21 4 0 other\n"
                  "f 21\n"
                  "a 40 5 0 other\n"
                  "f 20\n"
                  "a 22 3 0 other\n"
                  "a 23 4 0 other\n"
                  "f 23\n"
                  "a 42 5 0 other\n"
                  "f 22\n");
}

static void what_comes_out_is_a_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_SEQUENCE] = 129, [TAPE_DIM_HIDDEN] = 8, [TAPE_DIM_LAYERS] = 3};
    struct tape t = instance(&a, three_phases, values), again;
    struct buf out = buf_new(&a), second = buf_new(&a);
    tape_write(&t, &out);
    assert_int_equal(tape_read(&a, STR("again"), buf_str(&out), &again, NULL), 0);
    tape_write(&again, &second);
    assert_true(str_equal(buf_str(&second), buf_str(&out)));
}

// Free or given, a batch gives the same sizes.
static void a_batch_that_is_given(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_SEQUENCE] = 1000, [TAPE_DIM_HIDDEN] = 16, [TAPE_DIM_LAYERS] = 1};
    struct tape open = instance(&a, three_phases, values);
    values[TAPE_DIM_BATCH] = 7;
    struct tape closed = instance(&a, three_phases, values);
    assert_int_equal(open.alloc_count, closed.alloc_count);
    for (int32_t i = 0; i < open.alloc_count; i++) {
        assert_int_equal(closed.allocs[i].k, 0);
        assert_int_equal(closed.allocs[i].c, tape_size(&open, &open.allocs[i], 7, 0));
    }
    assert_int_equal(closed.header.batches[0], 7);
}

#define IN_HEAD(dims, lines) "{\"tape\":2,\"model\":\"m\",\"dims\":{" dims "}}\n" lines

static void blocks_within_blocks(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] = IN_HEAD("\"layers\":[1,9]", "l i L\n"
                                                           "l j i\n"
                                                           "a 10i+j 1+i other\n"
                                                           "/l\n"
                                                           "l j 0\n"
                                                           "a 7 1 other\n"
                                                           "/l\n"
                                                           "/l\n");
    struct tape t = instance(&a, text, (int64_t[TAPE_DIM_COUNT]){[TAPE_DIM_LAYERS] = 3});
    assert_events(&a, &t, "a 10 2 0 other\na 20 3 0 other\na 21 3 0 other\n");
}

// A rank has ceil(rows / ranks) rows of a parameter; what is gathered of all is padded.
static void ranks_share_rows(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] = IN_HEAD("\"hidden\":[1,99],\"ranks\":[2,64],\"vocabulary\":[2,999]",
                                       "a 1 4D[V/N] param\n"
                                       "a@1 2 2DN[V/N] temporary\n"
                                       "a 3 [DV/2N] other\n"
                                       "f 2\n");
    const int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_HIDDEN] = 10, [TAPE_DIM_RANKS] = 8, [TAPE_DIM_VOCABULARY] = 101};
    struct tape t = instance(&a, text, values);
    assert_events(&a, &t, "a 1 520 0 param\na@1 2 2080 0 temporary\na 3 64 0 other\nf 2\n");
}

// What is one flat parameter is shared by its elements, and padded where the ranks do not divide
// them; with more ranks than elements the floor is 0, not less.
static void ranks_share_a_sum(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] =
        IN_HEAD("\"hidden\":[1,99999],\"ranks\":[2,64]",
                "a 1 4[2DD+D/N] param\n"
                "a@1 2 2N[2DD+D/N][2DD+D/N]-2N[2DD+D/N][1+2DD+D-N/N] other\n");
    const struct {
        int64_t hidden, ranks;
        const char *expected;
    } cases[] = {{10, 7, "a 1 120 0 param\na@1 2 0 0 other\n"},
                 {10, 8, "a 1 108 0 param\na@1 2 432 0 other\n"},
                 {2, 64, "a 1 4 0 param\na@1 2 128 0 other\n"},
                 // Of experts: 16 c c is beyond 2^62, and taken back but for one 16 c.
                 {60001, 8, "a 1 3600150004 0 param\na@1 2 14400600016 0 other\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t values[TAPE_DIM_COUNT] = {
            [TAPE_DIM_HIDDEN] = cases[i].hidden, [TAPE_DIM_RANKS] = cases[i].ranks};
        struct tape t = instance(&a, text, values);
        assert_events(&a, &t, cases[i].expected);
    }
}

static const struct {
    const char *text, *message;
} faults[] = {
    {HEAD "a 1 2BQ other\n", "x.tape:2: expected terms joined by + or - in '2BQ'"},
    {HEAD "a 1 2BF other\n", "x.tape:2: expected only dimensions of the header and iterations "
                             "of blocks that are open in '2BF'"},
    {HEAD "a i 2 other\n", "x.tape:2: expected only dimensions of the header and iterations of "
                           "blocks that are open in 'i'"},
    {HEAD "a B 2 other\n", "x.tape:2: expected only dimensions of the header and iterations of "
                           "blocks that are open in 'B'"},
    {HEAD "a 1 2+ other\n", "x.tape:2: expected a number, a dimension or [sum/product] in '2+'"},
    {HEAD "a 1  other\n", "x.tape:2: expected a number, a dimension or [sum/product] in ''"},
    {HEAD "a 1 [S/0] other\n", "x.tape:2: expected a divisor of at least 1 in '[S/0]'"},
    {HEAD "a 1 [S other\n", "x.tape:2: expected [sum/product] in '[S'"},
    {HEAD "a 1 [S/] other\n", "x.tape:2: expected [sum/product] in '[S/]'"},
    {HEAD "a 1 [S/B] other\n", "x.tape:2: expected only dimensions of the header and iterations "
                               "of blocks that are open in '[S/B]'"},
    {HEAD "l i L\na 1 [S/i] other\n/l\n",
     "x.tape:3: expected only dimensions of the header and iterations of blocks that are open in "
     "'[S/i]'"},
    {HEAD "a 1 [S/4000000000000000000D] other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {HEAD "a 1 BBBBBBBBB other\n",
     "x.tape:2: expected a dimension at most 8 times in a product in 'BBBBBBBBB'"},
    {HEAD "a 1 9999999999999999999 other\n",
     "x.tape:2: expected a number below 2^62 in '9999999999999999999'"},
    {HEAD "a 1 BB other\n", "x.tape:2: a value cannot be used: it squares the batch"},
    {HEAD "a 1 [B/2] other\n", "x.tape:2: a value cannot be used: it rounds the batch"},
    {HEAD "a 1 4000000000000000000S+4000000000000000000S other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {HEAD "a 1 4000000000000000000D other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {HEAD "a 1 1000000000000000000B other\n", "x.tape:2: a size is above 2^60 bytes"},
    {HEAD "a 1 S-2 other\n", "x.tape:2: a size is negative"},
    {HEAD "a 1 5-B other\n", "x.tape:2: a size is negative"},
    {HEAD "a S-2 5 other\n", "x.tape:2: an id is not within 0 and 2^62"},
    {HEAD "a 1 5 other\na S 5 other\n", "x.tape:3: id 1 is used twice"},
    {HEAD "f 1\n", "x.tape:2: expected a live id; 1 is unknown"},
    {HEAD "a 1 5 other\nf 1\nf 1\n", "x.tape:4: expected a live id; 1 is freed"},
    {HEAD "f -1\n", "x.tape:2: expected an id: no allocation of an open block stands before"},
    {HEAD "a + 1 other\n",
     "x.tape:2: expected an id: no allocation of an open block stands before"},
    {HEAD "l i 1\na 1 5 other\n/l\nf -0\n",
     "x.tape:5: expected an id: no allocation of an open block stands before"},
    {HEAD "a 1 5 other\nf -2\n", "x.tape:3: an id is not within 0 and 2^62"},
    {HEAD "a 1 5 other\na + 5 other\na + 5 other\nf -3+L\n",
     "x.tape:5: an id is not within 0 and 2^62"},
    {HEAD "a 1 5 other\nf -\n", "x.tape:3: expected a number, a dimension or [sum/product] in '-'"},
    {HEAD "a 1 5 other\nf --1\n",
     "x.tape:3: expected a number, a dimension or [sum/product] in '--1'"},
    {HEAD "a 1 5 other\na +1 5 other\n",
     "x.tape:3: expected a number, a dimension or [sum/product] in '+1'"},
    {HEAD "a 1 5 other\na -1 5 other\n", "x.tape:3: an id is not within 0 and 2^62"},
    {HEAD "l i L-2\n/l\n", "x.tape:2: a block is repeated -1 times"},
    {HEAD "l j L\n/l\n", "x.tape:2: expected the variable i of this depth"},
    {HEAD "l i B\n/l\n", "x.tape:2: expected only dimensions of the header and iterations of "
                         "blocks that are open in 'B'"},
    {HEAD "l i L\n", "x.tape:3: expected /l: a block is open at the end"},
    {HEAD "/l\n", "x.tape:2: expected an open block for this /l"},
    {HEAD "l i 1\nl j 1\nl k 1\nl i 1\n", "x.tape:5: expected at most 3 blocks inside each other"},
    {HEAD "l i 4000000\nl j 4000000\n/l\n/l\n", "x.tape:4: expected at most 4194304 events"},
    {HEAD "a 1 5 none\n",
     "x.tape:2: expected a tag (param buffer input activation cast gradient optimizer "
     "temporary other reference host pinned), not 'none'"},
    {HEAD "a 1 B host\n", "x.tape:2: something of the host depends on the batch"},
    {HEAD "a 1 5 other - {i}\n", "x.tape:2: expected only dimensions of the header and "
                                 "iterations of blocks that are open in 'i'"},
    {HEAD "l i L\na 9+i 5 other - {i}\n/l\na 1 5 other - {i}\n",
     "x.tape:5: expected only dimensions of the header and iterations of blocks that are open in "
     "'i'"},
    {HEAD "a 1 5 other - a{L\n", "x.tape:2: expected '}' after '{'"},
    {HEAD "a 1 5 other - a}{L}\n", "x.tape:2: expected '{' before '}'"},
    {HEAD "a 1 5 other - \n", "x.tape:2: expected a name between two blanks"},
    {HEAD "a 1 5 other", "x.tape:2: expected a line end; the file ends in the middle of a line"},
    {HEAD "a 1 5 other n=1\n", "x.tape:2: expected no n=, since the header has no \"classes\""},
    {OF_IMAGES "a 1 5 other op n=1 n=1\n", "x.tape:2: expected a name, not n="},
    {OF_IMAGES "a 1 5 other n=1,2\n", "x.tape:2: expected n=SIZE"},
    {OF_IMAGES "a 1 5 other op a.module more\n",
     "x.tape:2: expected n=SIZE or nothing after MODULE, not 'more'"},
    {OF_IMAGES "a 1 5[I+] other\n", "x.tape:2: expected [sum/product] in '5[I+]'"},
    {OF_IMAGES "a 1 5[II+2++2/4] other\n", "x.tape:2: expected [sum/product] in '5[II+2++2/4]'"},
    {OF_IMAGES "a 1 [II+256 other\n", "x.tape:2: expected [sum/product] in '[II+256'"},
    {OF_IMAGES "a 1 [II+256/ other\n", "x.tape:2: expected [sum/product] in '[II+256/'"},
    {OF_IMAGES "a 1 [II+256/4 other\n", "x.tape:2: expected [sum/product] in '[II+256/4'"},
    {OF_IMAGES "a 1 [II+-1/4] other\n", "x.tape:2: expected [sum/product] in '[II+-1/4]'"},
    {OF_IMAGES "a 1 [II+[I/2]/4] other\n", "x.tape:2: expected [sum/product] in '[II+[I/2]/4]'"},
    {OF_IMAGES "a 1 [II+1/0] other\n", "x.tape:2: expected a divisor of at least 1 in '[II+1/0]'"},
    {OF_IMAGES "a 1 [II+1/0I] other\n",
     "x.tape:2: expected a divisor of at least 1 in '[II+1/0I]'"},
    {OF_IMAGES "a 1 [II+1/B] other\n", "x.tape:2: expected only dimensions of the header and "
                                       "iterations of blocks that are open in '[II+1/B]'"},
    {OF_IMAGES "a 1 [II+4611686018427387904/2] other\n",
     "x.tape:2: expected a number below 2^62 in '[II+4611686018427387904/2]'"},
    // The sum in the brackets is beyond 2^62, though neither part is.
    {OF_IMAGES "a 1 [4611686018427387903+4611686018427387903/1] other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {OF_IMAGES "a 1 [I+4611686018427387903/1][I+4611686018427387903/1] other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {OF_IMAGES "a 1 [IIIIIIII+1/1][IIIIIIII+1/1] other\n",
     "x.tape:2: a value cannot be used: it is beyond 2^62"},
    {OF_IMAGES "a 1 [I+1/2][I+1/2][I+1/2][I+1/2][I+1/2][I+1/2][I+1/2][I+1/2][I+1/2] other\n",
     "x.tape:2: expected at most 8 rounded factors in '[I+1/2][I+1/2][I+1/2][I+1/2][I+1/2][I+1/'"},
    {OF_IMAGES "o mm 1 1 B\n", "x.tape:2: expected only dimensions of the header and iterations "
                               "of blocks that are open in 'B'"},
    {OF_IMAGES "o mm 1 1 0\n", "x.tape:2: a number of kernels is below 1"},
    {OF_IMAGES "o mm 1 1 1 m\n", "x.tape:2: expected key=value, not 'm'"},
    {OF_IMAGES "o magic 1 1 1\n",
     "x.tape:2: expected a class (mm bmm conv_fwd conv_dgrad conv_wgrad attention elem noncontig "
     "norm bn_fwd bn_bwd reduce heavy opt), not 'magic'"},
    {OF_IMAGES "o mm 1 1\n", "x.tape:2: expected \"o CLASS FLOPS BYTES N [key=value …]\", but the "
                             "line has 4 fields"},
    {HEAD "q 1\n", "x.tape:2: expected one of the keywords a f m e w o l /l, not 'q'"},
    {HEAD "a 1 5\n",
     "x.tape:2: expected \"a ID SIZE TAG [OP [MODULE]] [n=SIZE]\", but the line has 3 fields"},
    {HEAD "m nap 0\n",
     "x.tape:2: expected a phase (init input forward backward optimizer zero_grad), not 'nap'"},
    {IN_HEAD("\"width\":[1,2]", ""), "x.tape:1: \"width\" is not a dimension"},
    {IN_HEAD("\"B\":[1,2]", ""), "x.tape:1: \"B\" is not a dimension"},
    {IN_HEAD("\"batch\":[2,1]", ""),
     "x.tape:1: \"batch\" is not a list of the least and the most, and perhaps the step"},
    {IN_HEAD("\"batch\":[1,4294967296]", ""),
     "x.tape:1: \"batch\" is not a list of the least and the most, and perhaps the step"},
    {"{\"tape\":2,\"model\":\"m\"}\n", "x.tape:1: \"dims\" is not an object of dimensions"},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[2]}\n",
     "x.tape:1: tape version 1; a template has version 2"},
    {"{\"tape\":2}", "x.tape:1: no line end within the first 1048576 bytes"},
};

static void malformed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ARENA_AUTO a = {0};
        struct tape_template *t;
        struct fail why = {0};
        assert_int_equal(read(&a, faults[i].text, &t, &why), FAIL_INPUT);
        assert_string_equal(why.message, faults[i].message);
    }
}

static void values_out_of_bounds(void **state) {
    (void)state;
    static const struct {
        enum tape_dim dim;
        int64_t value;
        const char *message;
    } cases[] = {
        {TAPE_DIM_SEQUENCE, 0, "x.tape: this template needs sequence"},
        {TAPE_DIM_SEQUENCE, 4097, "x.tape: sequence 4097 is not within 1 and 4096"},
        {TAPE_DIM_HIDDEN, 12, "x.tape: hidden 12 is not a multiple of 8"},
        {TAPE_DIM_BATCH, 1, "x.tape: batch 1 is not within 2 and 64"},
        {TAPE_DIM_LAYERS, -1, "x.tape: layers -1 is not within 1 and 100"},
        {TAPE_DIM_GROUP, 4, "x.tape: this template has no group but 1"},
    };
    ARENA_AUTO a = {0};
    struct tape_template *t;
    assert_int_equal(read(&a, three_phases, &t, NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t values[TAPE_DIM_COUNT] = {[TAPE_DIM_SEQUENCE] = 1,
                                          [TAPE_DIM_HIDDEN] = 8,
                                          [TAPE_DIM_LAYERS] = 2,
                                          [TAPE_DIM_GROUP] = 1};
        struct tape tape;
        struct fail why = {0};
        values[cases[i].dim] = cases[i].value;
        assert_int_equal(tape_instantiate(&a, t, values, &tape, &why), FAIL_INPUT);
        assert_string_equal(why.message, cases[i].message);
    }
}

static void a_template_is_no_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape tape;
    struct fail why = {0};
    assert_int_equal(tape_read(&a, STR("x.tape"), str_of(three_phases), &tape, &why), FAIL_INPUT);
    assert_string_equal(why.message, "x.tape:1: a template (tape version 2) has no sizes yet");
}

static void a_loss_by_rows(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_template *t;
    struct tape made;
    struct fail why = {0};
    struct buf text = buf_new(&a);
    const int64_t values[TAPE_DIM_COUNT] = {
        [TAPE_DIM_SEQUENCE] = 100, [TAPE_DIM_HIDDEN] = 64, [TAPE_DIM_VOCABULARY] = 1000};
    const struct str source =
        STR("{\"tape\":2,\"model\":\"m\",\"loss\":\"liger\",\"dims\":{\"batch\":[1,64],"
            "\"sequence\":[1,1000],\"hidden\":[1,1000],\"vocabulary\":[1,9999]}}\n"
            "m forward 0\na 1 0 temporary mm n=2V,0\na 2 0 temporary mm n=0,2D\n");
    if (tape_template_read(&a, STR("x.tape"), source, &t, &why) < 0) fail_msg("%s", why.message);
    if (tape_instantiate(&a, t, values, &made, &why) < 0) fail_msg("%s", why.message);
    tape_write(&made, &text);
    assert_true(str_find(buf_str(&text), STR("\"loss_tokens\":100,\"loss_parts\":16")) > 0);
    assert_true(str_find(buf_str(&text), STR("\na 1 0 0 temporary mm n=2000,0\n"
                                             "a 2 0 0 temporary mm n=0,128\n")) > 0);
    // 300 tokens in chunks of 32, for 19 of them are a sixteenth
    assert_int_equal(tape_size(&made, &made.allocs[0], 3, 0), 2000 * 32);
    assert_int_equal(tape_size(&made, &made.allocs[1], 3, 0), 128 * 32);
}

static void images_have_classes_and_work(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] = OF_IMAGES "m forward 0\n"
                                         "a 1 64B[I/2][I/2] activation conv stem\n"
                                         "a 2 40B+8 other addmm head n=4B\n"
                                         "a 3 5120 other - head n=512\n"
                                         "a 4 4B[II+256/32768] other n=-2\n"
                                         "o mm 2BII+7 3II 2 dtype=f16 m={[II/4]}+0B k=3\n"
                                         "o elem 0 BII 1\n";
    struct tape t = instance(&a, text, (int64_t[TAPE_DIM_COUNT]){[TAPE_DIM_IMAGE_SIZE] = 33});
    assert_events(&a, &t,
                  "m forward 0\n"
                  "a 1 0 18496 activation conv stem\n"
                  "a 2 8 40 other addmm head n=0,4\n"
                  "a 3 5120 0 other - head n=512,0\n"
                  "a 4 0 4 other n=-2,0\n"
                  "o mm 7 2178 3267 0 2 dtype=f16 m=273+0B k=3\n"
                  "o elem 0 0 0 1089 1\n");
    assert_int_equal(t.header.image_size, 33);
    assert_int_equal(tape_size(&t, &t.allocs[1], 2, 12), 8 + 2 * 48);
    t = instance(&a, text, (int64_t[TAPE_DIM_COUNT]){[TAPE_DIM_IMAGE_SIZE] = 182});
    assert_int_equal(t.allocs[3].k, 8); // 182² + 256 is above 32768
}

// What is added counts before the division; a product of nothing is 1.
static void sums_are_divided(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] = OF_IMAGES "a 1 [+1/2] other\n"
                                         "a 2 [/2] other\n"
                                         "a 3 [I+1/32] other\n"
                                         "a 4 [II+4611686018427387903/4611686018427387903] other\n"
                                         "a 5 3[I+0/32][I+31/32]B other\n";
    struct tape t = instance(&a, text, (int64_t[TAPE_DIM_COUNT]){[TAPE_DIM_IMAGE_SIZE] = 64});
    assert_events(&a, &t,
                  "a 1 1 0 other\na 2 1 0 other\na 3 3 0 other\na 4 2 0 other\n"
                  "a 5 0 18 other\n");
}

// A thousand layers: ids in the tens of thousands, found by hashing.
static void many_layers(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const char text[] = IN_HEAD("\"layers\":[1,10000]", "l i L\n"
                                                               "a 2i 512 other op m.{i}\n"
                                                               "a 2i+1 512 other\n"
                                                               "f 2i\n"
                                                               "/l\n"
                                                               "l i L\n"
                                                               "f 2L-1-2i\n"
                                                               "/l\n");
    struct tape t = instance(&a, text, (int64_t[TAPE_DIM_COUNT]){[TAPE_DIM_LAYERS] = 10000});
    assert_int_equal(t.alloc_count, 20000);
    assert_int_equal(t.event_count, 40000);
    assert_int_equal(t.string_count, 10002);
    for (int32_t i = 0; i < t.alloc_count; i++) assert_true(t.allocs[i].free_event > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_run_through),
        cmocka_unit_test(ids_are_told_from_the_last_allocation),
        cmocka_unit_test(what_comes_out_is_a_tape),
        cmocka_unit_test(a_batch_that_is_given),
        cmocka_unit_test(ranks_share_rows),
        cmocka_unit_test(blocks_within_blocks),
        cmocka_unit_test(malformed),
        cmocka_unit_test(values_out_of_bounds),
        cmocka_unit_test(a_template_is_no_tape),
        cmocka_unit_test(a_loss_by_rows),
        cmocka_unit_test(images_have_classes_and_work),
        cmocka_unit_test(sums_are_divided),
        cmocka_unit_test(many_layers),
        cmocka_unit_test(ranks_share_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
