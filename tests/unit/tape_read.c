// SPDX-License-Identifier: Apache-2.0
// Every way in which a tape can be malformed is named with its line; what is well-formed comes out
// again as it went in.
#include "unit.h"

#include "predict/tape/tape.h"

#include <math.h>
#include <zstd.h>

#define HEAD "{\"tape\":1,\"model\":\"m\",\"classes\":10,\"batches\":[2,4]}\n"

static int read(struct arena *a, const char *text, struct tape *t, struct fail *why) {
    return tape_read(a, STR("x.tape"), str_of(text), t, why);
}

static const char whole[] = HEAD
    "m init 0\n"
    "a 1001 18432 0 param - stem.0\n"
    "a 5 512 8192 activation convolution layers.2.blocks.0.conv\n"
    "a@1 6 0 602112 input\n"
    "a 4611686018427387903 -512 512 other\n"
    "a 7 40960 512 param - head n=4096,-3\n"
    "a 8 1 0 param addmm n=1,0\n"
    "a 9 1 0 gradient n=0,2\n"
    "f 5\n"
    "e\n"
    "w 1024 4096\n"
    "m backward 1\n"
    "o conv_fwd 0 231211008 9408 2408448 3 dtype=f16 layout=nhwc kernel=7 stride=2 m=0+12544B\n"
    "o elem 0 1 2 3 4\n";

static void a_whole_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    if (read(&a, whole, &t, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(t.event_count, 14);
    assert_int_equal(t.alloc_count, 7);
    assert_int_equal(t.stream_count, 2);
    assert_int_equal(t.allocs[0].free_event, -1);
    assert_int_equal(t.allocs[1].free_event, 8);
    assert_int_equal(t.allocs[1].tag, TAPE_ACTIVATION);
    assert_str(t.strings[t.allocs[1].op], "convolution");
    assert_str(t.strings[t.allocs[1].module], "layers.2.blocks.0.conv");
    assert_int_equal(t.allocs[0].op, 0);
    assert_int_equal(t.allocs[2].stream, 1);
    assert_int_equal(t.allocs[4].kn, -3);
    assert_str(t.strings[t.allocs[5].op], "addmm");
    assert_int_equal(t.events[11].phase, TAPE_BACKWARD);
    assert_int_equal(t.events[11].index, 1);
    assert_int_equal(t.works[0].count, 3);
    assert_str(tape_work_value(&t, &t.works[0], "stride"), "2");
    assert_str(tape_work_value(&t, &t.works[0], "m"), "0+12544B");
    assert_null(tape_work_value(&t, &t.works[0], "n").p);
    assert_null(tape_work_value(&t, &t.works[1], "m").p);
}

// Of 2^n tokens at a time: all of a few, and what is left for the second.
static void rows_of_chunks(void **state) {
    (void)state;
    static const struct {
        int64_t tokens, parts, batch, first, second;
    } cases[] = {{4096, 8, 4, 2048, 2048},
                 {4096, 8, 3, 2048, 2048},
                 {5, 2, 1, 4, 1},
                 {4096, 1, 2, 8192, 0},
                 {1, 63, 1, 1, 0},
                 {INT64_C(1) << 40, 3, 1 << 30, INT64_C(1) << 59, INT64_C(1) << 59}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tape_header h = tape_header_unknown();
        h.loss_tokens = cases[i].tokens;
        h.loss_parts = cases[i].parts;
        struct tape_rows rows = tape_rows(&h, cases[i].batch);
        assert_int_equal(rows.first, cases[i].first);
        assert_int_equal(rows.second, cases[i].second);
    }
}

// What is page-locked takes a power of two and is kept for others; the rest comes and goes.
static void the_hosts_memory_is_counted(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    static const char text[] = HEAD "m init 0\n"
                                    "a 1 1000 0 pinned - layer\n"
                                    "a 2 512 0 param\n"
                                    "a 3 600 0 host zeros_like\n"
                                    "m backward 0\n"
                                    "a 4 900 0 pinned\n"
                                    "f 3\n"
                                    "a 5 512 0 gradient\n"
                                    "f 4\n"
                                    "a 6 600 0 pinned\n"
                                    "a 7 100 0 host\n"
                                    "f 5\n"
                                    "f 1\n";
    if (read(&a, text, &t, &why) < 0) fail_msg("%s", why.message);
    assert_int_equal(t.header.host_bytes, 1024 + 600 + 1024);
    assert_int_equal(t.header.host_pinned_bytes, 2 * 1024); // 600 takes the block of 900
    assert_int_equal(t.event_count, 5);
    assert_int_equal(t.alloc_count, 2);
    assert_int_equal(t.allocs[0].free_event, -1);
    assert_int_equal(t.allocs[1].event, 3);
    assert_int_equal(t.allocs[1].free_event, 4);
    assert_int_equal(t.events[4].index, 1);
}

static void out_as_it_went_in(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    assert_int_equal(read(&a, whole, &t, NULL), 0);
    struct buf out = buf_new(&a);
    tape_write(&t, &out);
    assert_int_equal(out.count, (ptrdiff_t)sizeof whole - 1);
    assert_memory_equal(out.items, whole, sizeof whole - 1);
}

static void sizes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    assert_int_equal(read(&a, whole, &t, NULL), 0);
    int64_t all[7];
    tape_sizes(&t, 3, 12, all);
    static const int64_t expected[7] = {18432, 25088,    1806336, 1024, 42496 + 2 * (4096 - 9),
                                        3,     1 + 2 * 6};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(all[i], expected[i]);
        assert_int_equal(tape_size(&t, &t.allocs[i], 3, 12), expected[i]);
    }
    assert_int_equal(tape_size(&t, &t.allocs[4], 3, 0), 42496);
    assert_int_equal(tape_size(&t, &t.allocs[4], 3, TAPE_UNKNOWN), 42496);
    assert_int_equal(tape_size(&t, &t.allocs[2], INT64_MAX, 0), TAPE_SIZE_MAX);
    assert_int_equal(tape_size(&t, &t.allocs[4], INT64_MAX, INT64_MAX), 0);
    assert_int_equal(tape_scratch_size(&t.scratches[0], 2), 9216);
}

static const struct {
    const char *text, *message;
} malformed[] = {
    {"", "x.tape:1: no line end"},
    {"{\"tape\":1}", "x.tape:1: no line end"},
    {"tape\n", "x.tape:1: not a JSON object"},
    {"[1]\n", "x.tape:1: not a JSON object"},
    {"{\"model\":\"m\"}\n", "x.tape:1: no \"tape\": 1"},
    {"{\"tape\":3,\"model\":\"m\",\"batches\":[1]}\n", "x.tape:1: tape version 3"},
    {"{\"tape\":2,\"model\":\"m\"}\n", "x.tape:1: a template (tape version 2)"},
    {"{\"tape\":1,\"batches\":[1]}\n", "x.tape:1: \"model\" is not there"},
    {"{\"tape\":1,\"model\":\"m\"}\n", "x.tape:1: \"batches\" is not a list"},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[]}\n", "x.tape:1: \"batches\""},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[0]}\n", "x.tape:1: \"batches\""},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[\"2\"]}\n", "x.tape:1: \"batches\""},
    {"{\"tape\":1,\"model\":7,\"batches\":[1]}\n", "x.tape:1: \"model\" is not a string"},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[1],\"classes\":-1}\n",
     "x.tape:1: \"classes\" is not a whole number"},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[1],\"ema\":1}\n",
     "x.tape:1: \"ema\" is not true or false"},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[1],\"seconds\":\"1\"}\n",
     "x.tape:1: \"seconds\" is not a number"},
    {HEAD "x 1\n", "x.tape:2: expected one of the keywords a f m e w o, not 'x'"},
    {HEAD "alloc 1\n", "x.tape:2: expected one of the keywords"},
    {HEAD "\n", "x.tape:2: expected one of the keywords"},
    {HEAD "e\n\ne\n", "x.tape:3: expected one of the keywords"},
    {HEAD "# note\n", "x.tape:2: expected one of the keywords"},
    {HEAD "e\r\n", "x.tape:2: expected one of the keywords"},
    {HEAD "e\ne", "x.tape:3: expected a line end"},
    {HEAD "e 1\n", "x.tape:2: expected \"e\", but the line has 2 fields"},
    {HEAD "m init\n", "x.tape:2: expected \"m PHASE STEP\", but the line has 2 fields"},
    {HEAD "m start 0\n", "x.tape:2: expected a phase (init input forward"},
    {HEAD "m init x\n", "x.tape:2: expected the number of a step, not 'x'"},
    {HEAD "m init -1\n", "x.tape:2: expected the number of a step, not '-1'"},
    {HEAD "a 1 2 3\n", "x.tape:2: expected \"a ID C K TAG"},
    {HEAD "a 1 2 3 other op mod n=1,1 more\n", "x.tape:2: expected \"a ID C K TAG"},
    {HEAD "a 1 2 3 other op mod more\n", "x.tape:2: expected n=CN,KN or nothing"},
    {HEAD "a  1 2 3 other\n", "x.tape:2: expected an id, not ''"},
    {HEAD "a 1 2 3 other \n", "x.tape:2: expected a name between two blanks"},
    {HEAD "a x 2 3 other\n", "x.tape:2: expected an id, not 'x'"},
    {HEAD "a -1 2 3 other\n", "x.tape:2: expected an id from 0 to 2^62, not '-1'"},
    {HEAD "a 4611686018427387904 2 3 other\n", "x.tape:2: expected an id"},
    {HEAD "a 1 2.5 3 other\n", "x.tape:2: expected C, a whole number, not '2.5'"},
    {HEAD "a 1 2 0x3 other\n", "x.tape:2: expected K, a whole number, not '0x3'"},
    {HEAD "a 1 +2 3 other\n", "x.tape:2: expected C"},
    {HEAD "a 1 99999999999999999999 3 other\n", "x.tape:2: expected C"},
    {HEAD "a 1 2 3 weight\n", "x.tape:2: expected a tag (param buffer input"},
    {HEAD "a 1 2 3 pinned\n", "x.tape:2: expected K 0: of the host nothing depends on the batch"},
    {HEAD "a 1 2 -1 other\n", "x.tape:2: expected a size that is never negative"},
    {HEAD "a 1 -3 2 other\n", "x.tape:2: expected a size that is never negative"},
    {HEAD "a 1 1152921504606846977 0 other\n", "x.tape:2: expected a size of at most 2^60"},
    {HEAD "a 1 1152921504606846976 1 other\n", "x.tape:2: expected a size of at most 2^60"},
    {HEAD "a 1 0 576460752303423489 other\n",
     "x.tape:2: expected a size of at most 2^60 bytes at batch 2"},
    {HEAD "e\na 1 2 3 other\na 1 2 3 other\n", "x.tape:4: expected a new id; 1 was used on line 3"},
    {HEAD "a 1 2 3 other\nf 1\na 1 2 3 other\n", "x.tape:4: expected a new id"},
    {HEAD "f 1\n", "x.tape:2: expected a live id; 1 is unknown"},
    {HEAD "a 1 2 3 other\nf 1\nf 1\n", "x.tape:4: expected a live id; 1 was freed on line 3"},
    {HEAD "f\n", "x.tape:2: expected \"f ID\", but the line has 1 field"},
    {HEAD "a@0 1 2 3 other\n", "x.tape:2: expected a@STREAM"},
    {HEAD "a@ 1 2 3 other\n", "x.tape:2: expected a@STREAM"},
    {HEAD "a@64 1 2 3 other\n", "x.tape:2: expected a@STREAM"},
    {HEAD "f@1 1\n", "x.tape:2: expected one of the keywords"},
    {HEAD "a 1 2 3 other op n=1\n", "x.tape:2: expected n=CN,KN"},
    {HEAD "a 1 2 3 other op n=1,x\n", "x.tape:2: expected n=CN,KN"},
    {"{\"tape\":1,\"model\":\"m\",\"loss\":\"liger\",\"loss_tokens\":0,\"loss_parts\":2,"
     "\"batches\":[1]}\n"
     "a 1 2 3 other n=1,1\n",
     "x.tape:2: expected no n="},
    {"{\"tape\":1,\"model\":\"m\",\"batches\":[1]}\na 1 2 3 other n=1,1\n",
     "x.tape:2: expected no n="},
    {HEAD "a 1 2 3 other op\001\n", "x.tape:2: expected a name in printable UTF-8"},
    {HEAD "a 1 2 3 other \xc3\x28\n", "x.tape:2: expected a name in printable UTF-8"},
    {HEAD "w 1\n", "x.tape:2: expected \"w C K\""},
    {HEAD "w 1 -1\n", "x.tape:2: expected a size that is never negative"},
    {HEAD "o mm 1 2 3 4\n", "x.tape:2: expected \"o CLASS"},
    {HEAD "o conv 1 2 3 4 5\n", "x.tape:2: expected a class (mm bmm"},
    {HEAD "o mm 1 2 3 x 5\n", "x.tape:2: expected BYTES_K, not 'x'"},
    {HEAD "o mm 1 2 3 4 0\n", "x.tape:2: expected N, a number of kernels of at least 1"},
    {HEAD "o mm 1 2 3 4 5 m\n", "x.tape:2: expected key=value, not 'm'"},
    {HEAD "o mm 1 2 3 4 5 m=1 n=2 k=3 count=4 =5\n", "x.tape:2: expected key=value"},
    {HEAD "o mm 1 2 3 4 5 m=1  n=2\n", "x.tape:2: expected key=value, not ''"},
};

static void malformed_tapes_are_named_by_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        ARENA_AUTO a = {0};
        struct tape t = {0};
        struct fail why = {0};
        assert_int_equal(read(&a, malformed[i].text, &t, &why), FAIL_INPUT);
        if (strncmp(why.message, malformed[i].message, strlen(malformed[i].message)) != 0) {
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, why.message, malformed[i].message);
        }
        assert_null(t.events);
    }
}

static void unknown_is_not_zero(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    assert_int_equal(read(&a,
                          "{\"tape\":1,\"model\":\"m\",\"batches\":[1],\"ema\":null,\"new\":[1]}\n",
                          &t, NULL),
                     0);
    assert_int_equal(t.header.ema, TAPE_UNKNOWN);
    assert_int_equal(t.header.checkpointing, TAPE_UNKNOWN);
    assert_int_equal(t.header.image_size, TAPE_UNKNOWN);
    assert_int_equal(t.header.classes, TAPE_UNKNOWN);
    assert_int_equal(t.header.precision.len, 0);
    assert_true(isnan(t.header.seconds));
    assert_int_equal(t.event_count, 0);
}

static void headers_are_written_from_fields(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_header h = tape_header_unknown(), back;
    const int64_t batches[] = {2, 4};
    h.model = STR("timm:resnet50 \"x\"");
    h.image_size = 224;
    h.ema = 0;
    h.checkpointing = 1;
    h.batches = batches;
    h.batch_count = 2;
    h.seconds = 1.5;
    struct str text = tape_header_text(&a, &h);
    struct buf line = buf_new(&a);
    buf_add(&line, text);
    buf_byte(&line, '\n');
    assert_int_equal(tape_read_header(&a, STR("x"), buf_str(&line), &back, NULL), 0);
    assert_true(str_equal(back.model, h.model));
    assert_int_equal(back.image_size, 224);
    assert_int_equal(back.ema, 0);
    assert_int_equal(back.checkpointing, 1);
    assert_int_equal(back.prefetch, TAPE_UNKNOWN);
    assert_int_equal(back.batch_count, 2);
    assert_int_equal(back.batches[1], 4);
    assert_true(back.seconds == 1.5);
}

static struct str packed(struct arena *a, struct str text) {
    size_t room = ZSTD_compressBound((size_t)text.len);
    char *bytes = arena_new(a, char, (ptrdiff_t)room);
    size_t size = ZSTD_compress(bytes, room, text.p, (size_t)text.len, 9);
    assert_false(ZSTD_isError(size));
    return (struct str){bytes, (ptrdiff_t)size};
}

static void compressed_tapes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct tape_header h;
    struct fail why = {0};
    struct str bytes = packed(&a, str_of(whole));
    assert_int_equal(tape_read(&a, STR("x"), bytes, &t, &why), 0);
    assert_int_equal(t.event_count, 14);
    assert_int_equal(tape_read_header(&a, STR("x"), bytes, &h, &why), 0);
    assert_str(h.model, "m");
    for (ptrdiff_t len = 0; len < bytes.len; len++) { // cut anywhere
        struct str cut = {bytes.p, len};
        assert_int_equal(tape_read(&a, STR("x"), cut, &t, &why), FAIL_INPUT);
    }
}

// An empty frame that names the dictionary 7 (RFC 8878, 3.1.1.1): another's, and none can be had.
static void another_dictionary_is_named(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    static const char frame[] = "\x28\xb5\x2f\xfd\x23\x07\0\0\0\0\x01\0";
    const struct str bytes = {frame, sizeof frame};
    assert_int_equal(tape_read(&a, STR("x"), bytes, &t, &why), FAIL_INPUT);
    assert_str(str_of(why.message),
               "x: zstd cannot decompress it: its dictionary, 7, is not batchfit's");
    assert_non_null(strstr(why.hint, "without a dictionary"));
}

// A header whose line never ends, and a bomb: 192 MiB of one character in some 20 KiB.
static void bombs_are_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    ptrdiff_t size = 64 << 20;
    char *text = arena_new(&a, char, size);
    memset(text, 'e', (size_t)size);
    struct str one = packed(&a, (struct str){text, size});
    struct buf many = buf_new(&a);
    for (int i = 0; i < 3; i++) buf_add(&many, one);
    struct tape_header h;
    assert_int_equal(tape_read_header(&a, STR("x"), one, &h, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "no line end"));
    assert_int_equal(tape_read(&a, STR("x"), buf_str(&many), &t, &why), FAIL_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_tape),
        cmocka_unit_test(rows_of_chunks),
        cmocka_unit_test(the_hosts_memory_is_counted),
        cmocka_unit_test(out_as_it_went_in),
        cmocka_unit_test(sizes),
        cmocka_unit_test(malformed_tapes_are_named_by_line),
        cmocka_unit_test(unknown_is_not_zero),
        cmocka_unit_test(headers_are_written_from_fields),
        cmocka_unit_test(compressed_tapes),
        cmocka_unit_test(another_dictionary_is_named),
        cmocka_unit_test(bombs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
