// SPDX-License-Identifier: Apache-2.0
// The pickle of a memory snapshot: what is data is read, what would call something is refused, and
// nothing that is broken gets further.
#include "unit.h"

#include "predict/snapshot/snapshot.h"

#define HEAD "\x80\x02"
// {"segments": [{"address": 4096, "total_size": 2097152, "device": 0, "stream": 0, "blocks": [
//   {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": [F]}]}],
//  "device_traces": [[{"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames":
//  [F]}]]}
#define WORD(length, text) "X" length "\0\0\0" text
#define FRAME                                                                  \
    "}(" WORD("\x04", "name") WORD("\x07", "forward") WORD("\x08", "filename") \
        WORD("\x08", "model.py") WORD("\x04", "line") "K\x07u"
#define SEGMENT                                                                                 \
    "}(" WORD("\x07", "address") "J\0\x10\0\0" WORD("\x0a", "total_size") "J\0\0\x20\0" WORD(   \
        "\x06",                                                                                 \
        "blocks") "]}(" WORD("\x04",                                                            \
                             "size") "M\0\x04" WORD("\x0e",                                     \
                                                    "requested_size") "M\xe8\x03" WORD("\x05",  \
                                                                                       "state") \
        WORD("\x10", "active_allocated") WORD("\x06", "frames") "]" FRAME "a"                   \
                                                                "uau"
#define ENTRY                                                                                  \
    "}(" WORD("\x06", "action") WORD("\x05", "alloc") WORD("\x04", "addr") "J\0\x10\0\0" WORD( \
        "\x04", "size") "M\xe8\x03" WORD("\x06", "frames") "]" FRAME "a"                       \
                                                           "u"
static const char whole[] =
    HEAD "}(" WORD("\x08", "segments") "]" SEGMENT "a" WORD("\x0d", "device_traces") "]]" ENTRY "aa"
                                                                                     "u.";

static int read_of(struct arena *a, const char *bytes, ptrdiff_t len, struct snapshot *ret,
                   struct fail *why) {
    return snapshot_read_bytes(a, STR("t.pickle"), (struct str){bytes, len}, ret, why);
}

static void reads_a_snapshot(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct snapshot s;
    struct fail why = {0};
    assert_int_equal(read_of(&a, whole, sizeof whole - 1, &s, &why), 0);
    assert_int_equal(s.segment_count, 1);
    assert_int_equal(s.block_count, 1);
    assert_int_equal(s.event_count, 1);
    assert_int_equal(s.stack_count, 2); // one stack, seen twice
    assert_int_equal(s.blocks[0].address, 4096);
    assert_int_equal(s.blocks[0].requested, 1000);
    struct snapshot_history h;
    snapshot_look(&a, &s, 0, &h);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.allocated, 1024);
    assert_int_equal(h.reserved, 2097152);
    assert_int_equal(h.largest_hole, 2097152 - 1024);
    assert_int_equal(h.allocs[0].kind, SNAPSHOT_ACTIVATIONS);
    struct str place = snapshot_place_text(&a, &s, h.allocs[0].stack);
    assert_true(str_is(place, "model.py:7 forward"));
}

// Cut anywhere, it is refused; never read as a smaller one.
static void refuses_what_is_cut_short(void **state) {
    (void)state;
    for (ptrdiff_t len = 2; len < (ptrdiff_t)sizeof whole - 1; len++) {
        ARENA_AUTO a = {0};
        struct snapshot s;
        struct fail why = {0};
        assert_int_equal(read_of(&a, whole, len, &s, &why), FAIL_INPUT);
        assert_non_null(strstr(why.message, "truncated"));
    }
}

static const struct {
    const char *bytes;
    ptrdiff_t len;
    const char *says;
} hostile[] = {
#define CASE(bytes, says) \
    { bytes, sizeof(bytes) - 1, says }
    CASE(HEAD "cos\nsystem\n(X\x04\0\0\0true"
              "tR.",
         "GLOBAL"),
    CASE("\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
    CASE(HEAD "NNR.", "REDUCE"),
    CASE(HEAD "NNb.", "BUILD"),
    CASE(HEAD "(ios\nsystem\n.", "INST"),
    CASE(HEAD "(No.", "OBJ"),
    CASE(HEAD "NN\x81.", "NEWOBJ"),
    CASE(HEAD "NNN\x92.", "NEWOBJ_EX"),
    CASE(HEAD "Pid\n.", "PERSID"),
    CASE(HEAD "NQ.", "BINPERSID"),
    CASE(HEAD "\x82\x01.", "EXT1"),
    CASE(HEAD "\x83\x01\0.", "EXT2"),
    CASE(HEAD "\x84\x01\0\0\0.", "EXT4"),
    CASE("\x80\x05\x97.", "NEXT_BUFFER"),
    CASE("\x80\x05N\x98.", "READONLY_BUFFER"),
    CASE("\x80\x06N.", "protocol 6"),
    CASE(HEAD "\xff", "0xff is not"),
    CASE(HEAD ".", "more items than"),
    CASE(HEAD "(N.", "inside a list"),
    CASE(HEAD "e.", "mark"),
    CASE(HEAD "Na.", "more items than"),
    CASE(HEAD "NNa.", "not a list"),
    CASE(HEAD "N(NNu.", "not a dict"),
    CASE(HEAD "}(Nu.", "without a value"),
    CASE(HEAD "h\x05.", "not created"),
    CASE(HEAD "Nr\xff\xff\xff\xff.", "consecutively"),
    CASE(HEAD "\x8b\xff\xff\xff\xff.", "negative length"),
    CASE("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "truncated"),
    CASE("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "truncated"),
    CASE(HEAD "]" FRAME "aNa.", "not a frame"),
    CASE(HEAD "N.", "not a memory snapshot"),
    CASE(HEAD "}.", "neither"),
    CASE(HEAD "]q\0h\0a.", "not a segment"), // a list of itself
#undef CASE
};

static void refuses_what_is_hostile(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        ARENA_AUTO a = {0};
        struct snapshot s;
        struct fail why = {0};
        int rc = read_of(&a, hostile[i].bytes, hostile[i].len, &s, &why);
        if (rc != FAIL_INPUT || !strstr(why.message, hostile[i].says))
            fail_msg("case %zu (%s): %d, %s", i, hostile[i].says, rc, why.message);
    }
}

// A depth of a million costs its bytes and no stack.
static void bears_any_depth(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct snapshot s;
    struct fail why = {0};
    struct buf b = buf_new(&a);
    buf_add(&b, STR("\x80\x02"));
    for (int i = 0; i < 1000000; i++) buf_add(&b, STR("]"));
    for (int i = 1; i < 1000000; i++) buf_byte(&b, 'a');
    buf_byte(&b, '.');
    assert_int_equal(read_of(&a, b.items, b.count, &s, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "not a segment"));
}

// A few bytes that ask for much: numbers of objects that leave room for millions.
static void bounds_its_memory(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct snapshot s;
    struct fail why = {0};
    struct buf b = buf_new(&a);
    buf_add(&b, STR("\x80\x02N"));
    for (uint32_t i = 1; i < 4000; i++) {
        uint32_t at = i << 20;
        buf_byte(&b, 'r');
        buf_add(&b, (struct str){(const char *)&at, 4});
    }
    buf_byte(&b, '.');
    assert_int_equal(read_of(&a, b.items, b.count, &s, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "more memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_snapshot),        cmocka_unit_test(refuses_what_is_cut_short),
        cmocka_unit_test(refuses_what_is_hostile), cmocka_unit_test(bears_any_depth),
        cmocka_unit_test(bounds_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
