// SPDX-License-Identifier: Apache-2.0
// The opcodes of pickle protocols 0 to 5 (Lib/pickletools.py of CPython 3.14) that make data. Those
// that look up or call something are refused: a snapshot has none, and whoever sends one may mean
// harm. Nothing here recurses: a hostile depth costs its bytes and no more.
#include "predict/snapshot/snapshot_int.h"

#include <string.h>

typedef int pickle_op(struct pickle *m);

static int cut_short(struct pickle *m) {
    if (m->in.error) return snapshot_pickle_refuse(m, "cannot read it: %s", strerror(m->in.error));
    snapshot_pickle_refuse(m, "the file is truncated");
    return fail_hint(m->why, "was it copied completely, and had the program finished writing it?");
}

static int push(struct pickle *m, uint64_t value) {
    uint64_t *place = pickle_push(m, &m->stack, &m->count, &m->capacity);
    if (!place) return FAIL_INPUT;
    *place = value;
    return 0;
}
static ptrdiff_t floor_of(const struct pickle *m) {
    return m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
}
// `count` values above the last mark.
static int need(struct pickle *m, ptrdiff_t count) {
    if (m->count - floor_of(m) >= count) return 0;
    return snapshot_pickle_refuse(m,
                                  "not a valid pickle: an opcode takes more items than there are");
}
static int to_mark(struct pickle *m, ptrdiff_t *ret_first) {
    if (m->mark_count == 0)
        return snapshot_pickle_refuse(m,
                                      "not a valid pickle: an opcode needs a mark that is missing");
    *ret_first = m->marks[--m->mark_count];
    return 0;
}

// Numbers, little end first.
static inline uint64_t peek(const struct pickle *m, int bytes) {
    uint64_t n = 0;
    memcpy(&n, m->in.p, (size_t)bytes);
    return n;
}
static inline __attribute__((always_inline)) int take(struct pickle *m, int bytes, uint64_t *ret) {
    if (!input_has(&m->in, bytes)) return cut_short(m);
    *ret = peek(m, bytes);
    m->in.p += bytes;
    return 0;
}

static int push_new(struct pickle *m, enum object_kind kind) {
    uint64_t object = snapshot_object_new(m, kind);
    return object == VALUE_NONE ? FAIL_INPUT : push(m, object);
}

static inline __attribute__((always_inline)) int whole(struct pickle *m, int bytes) {
    uint64_t n = 0;
    int rc = take(m, bytes, &n);
    return rc < 0 ? rc : push(m, value_whole((int64_t)n));
}
static int op_binint(struct pickle *m) {
    uint64_t n = 0;
    int rc = take(m, 4, &n);
    return rc < 0 ? rc : push(m, value_whole((int32_t)(uint32_t)n));
}
// A number of `bytes` bytes with its sign; one that is too large for us is none.
static int long_of(struct pickle *m, int64_t bytes) {
    uint64_t n = 0;
    if (bytes > 8) {
        // SIZE_MAX takes nine bytes; whatever is as large stands for "no limit".
        if (!snapshot_input_skip(&m->in, bytes)) return cut_short(m);
        return push(m, VALUE_NONE);
    }
    int rc = bytes > 0 ? take(m, (int)bytes, &n) : 0;
    if (rc < 0) return rc;
    int unused = 64 - 8 * (int)bytes;
    return push(m, value_whole(bytes > 0 ? (int64_t)(n << unused) >> unused : 0));
}
static int op_long1(struct pickle *m) {
    uint64_t bytes;
    int rc = take(m, 1, &bytes);
    return rc < 0 ? rc : long_of(m, (int64_t)bytes);
}
static int op_long4(struct pickle *m) {
    uint64_t bytes;
    int rc = take(m, 4, &bytes);
    if (rc == 0 && bytes > INT32_MAX)
        rc = snapshot_pickle_refuse(m, "a number with a negative length");
    return rc < 0 ? rc : long_of(m, (int64_t)bytes);
}
static int push_real(struct pickle *m, double value) {
    double *place = pickle_push(m, &m->reals, &m->real_count, &m->real_capacity);
    if (!place) return FAIL_INPUT;
    *place = value;
    return push(m, value_of(VALUE_REAL, m->real_count - 1));
}
static int op_binfloat(struct pickle *m) {
    uint64_t n = 0;
    double value;
    int rc = take(m, 8, &n);
    if (rc < 0) return rc;
    n = __builtin_bswap64(n);
    memcpy(&value, &n, sizeof value);
    return push_real(m, value);
}

// The rest of a line, for the opcodes of protocol 0.
static int take_line(struct pickle *m, struct str *ret) {
    ptrdiff_t length = 0;
    for (;; length++) {
        if (!input_has(&m->in, length + 1)) return cut_short(m);
        if (m->in.p[length] == '\n') break;
        if (length > SNAPSHOT_TEXT_MOST)
            return snapshot_pickle_refuse(m, "a line of text without an end");
    }
    *ret = (struct str){(const char *)m->in.p, length};
    m->in.p += length + 1;
    return 0;
}
static int op_int(struct pickle *m) {
    struct str line;
    int64_t n;
    int rc = take_line(m, &line);
    if (rc < 0) return rc;
    if (str_ends(line, STR("L"))) line.len--;
    return push(m, str_to_i64(line, &n) ? value_whole(n) : VALUE_NONE);
}
static int op_float(struct pickle *m) {
    struct str line;
    double value;
    int rc = take_line(m, &line);
    if (rc < 0) return rc;
    return str_to_double(line, &value) ? push_real(m, value) : push(m, VALUE_NONE);
}

static int text_of(struct pickle *m, uint64_t length) {
    ptrdiff_t kept = length > SNAPSHOT_TEXT_MOST ? SNAPSHOT_TEXT_MOST : (ptrdiff_t)length;
    if (length > INT64_MAX || !input_has(&m->in, kept)) return cut_short(m);
    int32_t number = snapshot_pickle_text(m, (struct str){(const char *)m->in.p, kept});
    if (number < 0) return FAIL_INPUT;
    if (!snapshot_input_skip(&m->in, (int64_t)length)) return cut_short(m);
    return push(m, value_of(VALUE_TEXT, number));
}
static inline __attribute__((always_inline)) int text(struct pickle *m, int bytes) {
    uint64_t length = 0;
    int rc = take(m, bytes, &length);
    return rc < 0 ? rc : text_of(m, length);
}
static int op_unicode(struct pickle *m) {
    struct str line;
    int rc = take_line(m, &line);
    if (rc < 0) return rc;
    int32_t number = snapshot_pickle_text(m, line);
    return number < 0 ? FAIL_INPUT : push(m, value_of(VALUE_TEXT, number));
}
// Bytes are nothing that a snapshot has; they are passed over.
static int bytes(struct pickle *m, int size) {
    uint64_t length = 0;
    int rc = take(m, size, &length);
    if (rc < 0) return rc;
    if (length > INT64_MAX || !snapshot_input_skip(&m->in, (int64_t)length)) return cut_short(m);
    return push_new(m, OBJECT_OPAQUE);
}
static int op_mark(struct pickle *m) {
    ptrdiff_t *place = pickle_push(m, &m->marks, &m->mark_count, &m->mark_capacity);
    if (!place) return FAIL_INPUT;
    *place = m->count;
    return 0;
}

// A new list of what stands from `first` on; two small numbers are a value without an object.
static int make_list(struct pickle *m, ptrdiff_t first) {
    ptrdiff_t count = m->count - first;
    if (count == 0) return push_new(m, OBJECT_LIST); // there may be no stack yet
    const uint64_t *items = m->stack + first;
    if (count == 2 && value_tag(items[0]) == VALUE_WHOLE && value_tag(items[1]) == VALUE_WHOLE) {
        int64_t high = value_payload(items[0]), low = value_payload(items[1]);
        if (high >= 0 && low >= 0 && high < 1 << 28 && low < 1 << 28) {
            m->count = first;
            return push(m, value_of(VALUE_PAIR, high << 28 | low));
        }
    }
    uint64_t list = snapshot_object_new(m, OBJECT_LIST);
    if (list == VALUE_NONE) return FAIL_INPUT;
    int rc = snapshot_object_append(m, list, m->stack + first, count);
    m->count = first;
    return rc < 0 ? rc : push(m, list);
}
static int op_list(struct pickle *m) { // and a tuple
    ptrdiff_t first = 0;
    int rc = to_mark(m, &first);
    return rc < 0 ? rc : make_list(m, first);
}
static int tuple(struct pickle *m, ptrdiff_t count) {
    int rc = need(m, count);
    return rc < 0 ? rc : make_list(m, m->count - count);
}
static int op_dict(struct pickle *m) {
    ptrdiff_t first = 0;
    int rc = to_mark(m, &first);
    if (rc < 0) return rc;
    uint64_t dict = snapshot_object_new(m, OBJECT_DICT);
    if (dict == VALUE_NONE) return FAIL_INPUT;
    if (m->count > first) rc = snapshot_object_set(m, dict, m->stack + first, m->count - first);
    m->count = first;
    return rc < 0 ? rc : push(m, dict);
}
static int op_frozenset(struct pickle *m) {
    ptrdiff_t first = 0;
    int rc = to_mark(m, &first);
    if (rc < 0) return rc;
    m->count = first;
    return push_new(m, OBJECT_OPAQUE);
}

typedef int filler(struct pickle *m, uint64_t object, const uint64_t *items, ptrdiff_t count);
// What stands above `first` goes into the object right below.
static int fill(struct pickle *m, ptrdiff_t first, filler *into) {
    ptrdiff_t count = m->count - first;
    m->count = first;
    int rc = need(m, 1);
    return rc < 0 ? rc : into(m, m->stack[first - 1], m->stack + first, count);
}
static int fill_marked(struct pickle *m, filler *into) {
    ptrdiff_t first = 0;
    int rc = to_mark(m, &first);
    return rc < 0 ? rc : fill(m, first, into);
}
static int into_set(struct pickle *m, uint64_t set, const uint64_t *items, ptrdiff_t count) {
    (void)m, (void)set, (void)items, (void)count;
    return 0;
}
static int op_append(struct pickle *m) {
    int rc = need(m, 2);
    return rc < 0 ? rc : fill(m, m->count - 1, snapshot_object_append);
}
static int op_setitem(struct pickle *m) {
    int rc = need(m, 3);
    return rc < 0 ? rc : fill(m, m->count - 2, snapshot_object_set);
}
static int op_pop(struct pickle *m) {
    if (m->count == floor_of(m) && m->mark_count > 0) {
        m->mark_count--;
        return 0;
    }
    int rc = need(m, 1);
    m->count -= rc == 0;
    return rc;
}
static int op_pop_mark(struct pickle *m) {
    ptrdiff_t first = 0;
    int rc = to_mark(m, &first);
    if (rc == 0) m->count = first;
    return rc;
}
static int op_dup(struct pickle *m) {
    int rc = need(m, 1);
    return rc < 0 ? rc : push(m, m->stack[m->count - 1]);
}

static int memo_get(struct pickle *m, uint64_t at) {
    if (at >= (uint64_t)m->memo_count)
        return snapshot_pickle_refuse(m, "it refers to an object that it has not created");
    return push(m, m->memo[at]);
}
static int memo_put(struct pickle *m, uint64_t at) {
    int rc = need(m, 1);
    if (rc < 0) return rc;
    // Writers number one after the other; pickletools.optimize leaves numbers out, never many.
    if (at > (uint64_t)m->memo_count + (1 << 20))
        return snapshot_pickle_refuse(m, "the objects are not numbered consecutively");
    while ((uint64_t)m->memo_count <= at) {
        uint64_t *place = pickle_push(m, &m->memo, &m->memo_count, &m->memo_capacity);
        if (!place) return FAIL_INPUT;
        *place = VALUE_NONE;
    }
    m->memo[at] = m->stack[m->count - 1];
    return 0;
}
static inline __attribute__((always_inline)) int memo_by(struct pickle *m, int size,
                                                         int (*use)(struct pickle *m,
                                                                    uint64_t at)) {
    uint64_t at = 0;
    int rc = take(m, size, &at);
    return rc < 0 ? rc : use(m, at);
}
static int memo_by_line(struct pickle *m, int (*use)(struct pickle *m, uint64_t at)) {
    struct str line;
    int64_t at;
    int rc = take_line(m, &line);
    if (rc < 0) return rc;
    if (!str_to_i64(line, &at) || at < 0)
        return snapshot_pickle_refuse(m, "a missing object number");
    return use(m, (uint64_t)at);
}
static int op_proto(struct pickle *m) {
    uint64_t version;
    int rc = take(m, 1, &version);
    if (rc == 0 && version > 5)
        rc = snapshot_pickle_refuse(m, "pickle protocol %d is not supported; the highest is 5",
                                    (int)version);
    return rc;
}
static int op_frame(struct pickle *m) { // how long the next piece is: we need not know
    uint64_t length = 0;
    return take(m, 8, &length);
}
static int op_stop(struct pickle *m) {
    m->done = true;
    return m->mark_count > 0 ? snapshot_pickle_refuse(m, "it ends inside a list") : need(m, 1);
}

#define OP(name, does)                       \
    static int op_##name(struct pickle *m) { \
        return does;                         \
    }
OP(none, push(m, VALUE_NONE))
OP(true, push(m, value_whole(1)))
OP(false, push(m, value_whole(0)))
OP(binint1, whole(m, 1))
OP(binint2, whole(m, 2))
OP(text1, text(m, 1))
OP(text4, text(m, 4))
OP(text8, text(m, 8))
OP(bytes1, bytes(m, 1))
OP(bytes4, bytes(m, 4))
OP(bytes8, bytes(m, 8))
OP(empty_list, push_new(m, OBJECT_LIST)) // and an empty tuple
OP(empty_dict, push_new(m, OBJECT_DICT))
OP(empty_set, push_new(m, OBJECT_OPAQUE))
OP(tuple1, tuple(m, 1))
OP(tuple2, tuple(m, 2))
OP(tuple3, tuple(m, 3))
OP(appends, fill_marked(m, snapshot_object_append))
OP(setitems, fill_marked(m, snapshot_object_set))
OP(additems, fill_marked(m, into_set))
OP(get, memo_by_line(m, memo_get))
OP(binget, memo_by(m, 1, memo_get))
OP(long_binget, memo_by(m, 4, memo_get))
OP(put, memo_by_line(m, memo_put))
OP(binput, memo_by(m, 1, memo_put))
OP(long_binput, memo_by(m, 4, memo_put))
OP(memoize, memo_put(m, (uint64_t)m->memo_count))
#undef OP

static pickle_op *const ops[256] = {
    ['('] = op_mark,       ['.'] = op_stop,       ['0'] = op_pop,         ['1'] = op_pop_mark,
    ['2'] = op_dup,        ['F'] = op_float,      ['I'] = op_int,         ['J'] = op_binint,
    ['K'] = op_binint1,    ['L'] = op_int,        ['M'] = op_binint2,     ['N'] = op_none,
    ['S'] = op_unicode,    ['T'] = op_text4,      ['U'] = op_text1,       ['V'] = op_unicode,
    ['X'] = op_text4,      ['B'] = op_bytes4,     ['C'] = op_bytes1,      ['G'] = op_binfloat,
    ['a'] = op_append,     ['d'] = op_dict,       ['}'] = op_empty_dict,  ['e'] = op_appends,
    ['g'] = op_get,        ['h'] = op_binget,     ['j'] = op_long_binget, ['l'] = op_list,
    [']'] = op_empty_list, ['p'] = op_put,        ['q'] = op_binput,      ['r'] = op_long_binput,
    ['s'] = op_setitem,    ['t'] = op_list,       [')'] = op_empty_list,  ['u'] = op_setitems,
    [0x80] = op_proto,     [0x85] = op_tuple1,    [0x86] = op_tuple2,     [0x87] = op_tuple3,
    [0x88] = op_true,      [0x89] = op_false,     [0x8a] = op_long1,      [0x8b] = op_long4,
    [0x8c] = op_text1,     [0x8d] = op_text8,     [0x8e] = op_bytes8,     [0x8f] = op_empty_set,
    [0x90] = op_additems,  [0x91] = op_frozenset, [0x94] = op_memoize,    [0x95] = op_frame,
    [0x96] = op_bytes8,
};

// What a snapshot never has.
static const struct {
    unsigned char code;
    const char *name, *would;
} refused[] = {
    {'c', "GLOBAL", "look up a function or class by name"},
    {0x93, "STACK_GLOBAL", "look up a function or class by name"},
    {'R', "REDUCE", "call a function"},
    {'b', "BUILD", "set the state of an object by calling it"},
    {'i', "INST", "create an object by calling its class"},
    {'o', "OBJ", "create an object by calling its class"},
    {0x81, "NEWOBJ", "create an object by calling its class"},
    {0x92, "NEWOBJ_EX", "create an object by calling its class"},
    {'P', "PERSID", "ask the program for an object"},
    {'Q', "BINPERSID", "ask the program for an object"},
    {0x82, "EXT1", "look up a registered class"},
    {0x83, "EXT2", "look up a registered class"},
    {0x84, "EXT4", "look up a registered class"},
    {0x97, "NEXT_BUFFER", "take memory from outside the file"},
    {0x98, "READONLY_BUFFER", "take memory from outside the file"},
};

static int refuse_opcode(struct pickle *m, unsigned char code) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].code != code) continue;
        snapshot_pickle_refuse(m,
                               "the pickle would %s (opcode %s); a memory snapshot is plain data",
                               refused[i].would, refused[i].name);
        return fail_hint(m->why, "nothing was executed. Is it a checkpoint, or from someone you do "
                                 "not trust? Do not unpickle it with Python either");
    }
    return snapshot_pickle_refuse(m, "0x%02x is not a pickle opcode", code);
}

// Nine of ten opcodes of a snapshot name a frame again: as many as the window and the stack allow
// are done here. What is not sound is left to the opcode's own function.
static void get_many(struct pickle *m) {
    const unsigned char *p = m->in.p;
    while (m->in.end - p >= 5 && m->count < m->capacity) {
        uint32_t at = p[1];
        ptrdiff_t length = 2;
        if (*p == 'j') {
            memcpy(&at, p + 1, 4);
            length = 5;
        } else if (*p != 'h') {
            break;
        }
        if (at >= (uint64_t)m->memo_count) break;
        m->stack[m->count++] = m->memo[at];
        p += length;
    }
    m->in.p = p;
}

int snapshot_pickle_run(struct pickle *m, uint64_t *ret_value) {
    int rc = 0;
    while (!m->done && rc == 0) {
        get_many(m);
        if (!input_has(&m->in, 1)) return cut_short(m);
        unsigned char code = *m->in.p++;
        rc = ops[code] ? ops[code](m) : refuse_opcode(m, code);
    }
    if (rc == 0) *ret_value = m->stack[m->count - 1];
    return rc;
}
