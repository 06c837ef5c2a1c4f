// SPDX-License-Identifier: Apache-2.0
// Inside the room only: the bytes of a file, once from front to end through a window, so that the
// file takes no memory however long it is.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "predict/snapshot/snapshot.h"

enum { SNAPSHOT_WINDOW = 1 << 20 };

struct snapshot_input {
    int fd; // -1: all bytes are there
    const unsigned char *p, *end;
    unsigned char *window;
    int64_t offset; // in the file, of the window's beginning
    const unsigned char *begin;
    int error; // errno of a read that failed
};
struct snapshot_input snapshot_input_file(struct arena *a, int fd);
struct snapshot_input snapshot_input_bytes(struct str bytes);
// Reads on until `count` bytes are there (at most SNAPSHOT_WINDOW); false: the file ends before.
bool snapshot_input_more(struct snapshot_input *in, ptrdiff_t count);
// Passes over bytes; false: the file ends before.
bool snapshot_input_skip(struct snapshot_input *in, int64_t count);

static inline bool input_has(struct snapshot_input *in, ptrdiff_t count) {
    return in->end - in->p >= count || snapshot_input_more(in, count);
}
static inline int64_t input_at(const struct snapshot_input *in) {
    return in->offset + (in->p - in->begin);
}

// Inside the room only: the machine that a pickle drives, without its calls. A value is 64 bits. A
// list or a dict is an object; as soon as it is seen to be a frame, a stack, an entry of the
// history, a block or a segment, it becomes one record of that kind and its parts are forgotten: a
// file of 500 MB is then some 200 MB of records.

enum value_tag { VALUE_OTHER, VALUE_WHOLE, VALUE_TEXT, VALUE_OBJECT, VALUE_REAL, VALUE_PAIR };
#define VALUE_NONE ((uint64_t)VALUE_OTHER)
#define VALUE_WHOLE_MOST (INT64_C(1) << 60) // what is larger is not kept as a number

static inline uint64_t value_of(enum value_tag tag, int64_t payload) {
    return (uint64_t)payload << 3 | (uint64_t)tag;
}
static inline enum value_tag value_tag(uint64_t v) {
    return (enum value_tag)(v & 7);
}
static inline int64_t value_payload(uint64_t v) {
    return (int64_t)v >> 3;
}
static inline uint64_t value_whole(int64_t n) {
    bool fits = n < VALUE_WHOLE_MOST && n > -VALUE_WHOLE_MOST;
    return fits ? value_of(VALUE_WHOLE, n) : VALUE_NONE;
}

enum object_kind { // of what `index` is the number
    OBJECT_LIST,   // lists; -1: an empty list
    OBJECT_DICT,   // lists, of keys and values in turn; -1: empty
    OBJECT_STACK,
    OBJECT_FRAME,
    OBJECT_EVENT,
    OBJECT_BLOCK,
    OBJECT_SEGMENT,
    OBJECT_OPAQUE, // bytes, a set: nothing that a snapshot has
    OBJECT_KINDS
};
struct object {
    int32_t index;
    uint8_t kind;
};
// An entry of the history and a segment while their keys come.
struct raw_event {
    int64_t address, size, stream, device_free;
    int32_t stack, pool_high, pool_low;
    uint8_t action;
};
struct raw_segment {
    int64_t address, bytes, stream, device;
    int32_t pool_high, pool_low;
    int32_t blocks; // lists; -1
    bool expandable;
};
struct value_list {
    uint64_t *items;
    ptrdiff_t count, capacity;
};

// Texts that mean something to us have the first numbers.
enum pickle_key {
    KEY_NONE,
    KEY_FILENAME,
    KEY_NAME,
    KEY_LINE,
    KEY_ACTION,
    KEY_ADDR,
    KEY_ADDRESS,
    KEY_SIZE,
    KEY_STREAM,
    KEY_FRAMES,
    KEY_DEVICE_FREE,
    KEY_POOL_ID,
    KEY_SEGMENT_POOL_ID,
    KEY_REQUESTED_SIZE,
    KEY_REAL_SIZE,
    KEY_STATE,
    KEY_HISTORY,
    KEY_TOTAL_SIZE,
    KEY_DEVICE,
    KEY_BLOCKS,
    KEY_IS_EXPANDABLE,
    KEY_SEGMENTS,
    KEY_DEVICE_TRACES,
    KEY_ALLOCATOR_SETTINGS,
    KEY_CUDA_CONF,
    KEY_CONF,
    KEY_MAX_SPLIT_SIZE,
    KEY_GC_THRESHOLD,
    KEY_EXPANDABLE_SEGMENTS,
    KEY_ROUNDUP,
    KEY_ACTIONS, // the words of enum snapshot_action from here on, SNAPSHOT_OTHER's empty
    KEY_STATES = KEY_ACTIONS + SNAPSHOT_ACTION_COUNT,
    KEY_COUNT = KEY_STATES + 4
};

// Numbers of things that were seen, 0: free; 2^n places, at most half of them taken.
struct pickle_table {
    int32_t *slots;
    ptrdiff_t places;
};
struct pickle {
    struct arena *keep, *scratch;
    struct snapshot_input in;
    struct snapshot *out;
    struct fail *why;
    int64_t room; // taken so far
    uint64_t *stack, *memo, *slots;
    ptrdiff_t count, capacity, memo_count, memo_capacity;
    ptrdiff_t *marks;
    ptrdiff_t mark_count, mark_capacity;
    struct object *objects;
    ptrdiff_t object_count, object_capacity;
    struct value_list *lists;
    ptrdiff_t list_count, list_capacity;
    double *reals;
    ptrdiff_t real_count, real_capacity;
    struct pickle_table texts, frames, stacks; // by which equal ones are found
    ptrdiff_t text_capacity, frame_capacity, stack_capacity, stack_frame_capacity;
    struct snapshot_event *events;
    struct snapshot_block *blocks;
    struct raw_segment *segments;
    ptrdiff_t event_count, block_count, segment_count;
    ptrdiff_t event_capacity, block_capacity, segment_capacity;
    int64_t text_bytes;
    int32_t ids[SNAPSHOT_DEPTH];
    bool done;
};

// One more item of an array, counted; NULL: there is no room left, said in why. What the machine
// itself works with grows in place where the system can (realloc), and is given back at the end.
#define pickle_push(m, items, count, capacity)                                                    \
    (*(count) < *(capacity) ||                                                                    \
             snapshot_pickle_grow((m), (void **)(items), (ptrdiff_t)sizeof **(items), (capacity)) \
         ? &(*(items))[(*(count))++]                                                              \
         : NULL)
bool snapshot_pickle_grow(struct pickle *m, void **items, ptrdiff_t size, ptrdiff_t *capacity);
// What goes into the snapshot.
#define pickle_keep(m, items, count, capacity)                                     \
    (*(count) < *(capacity) ||                                                     \
             snapshot_pickle_room((m), (int64_t)sizeof **(items) *                 \
                                           (*(capacity) > 0 ? *(capacity)*2 : 16)) \
         ? arena_push((m)->keep, items, count, capacity)                           \
         : NULL)
// room.c
bool snapshot_pickle_room(struct pickle *m, int64_t bytes);
__attribute__((format(printf, 2, 3))) int snapshot_pickle_refuse(struct pickle *m,
                                                                 const char *format, ...);

void snapshot_pickle_end(struct pickle *m); // gives all but the snapshot back
// pickle.c: runs the file to its end; the value that it leaves.
int snapshot_pickle_run(struct pickle *m, uint64_t *ret_value);
// intern.c: numbers of equal things; negative: no room.
int snapshot_pickle_init(struct pickle *m);
int32_t snapshot_pickle_text(struct pickle *m, struct str text);
int32_t snapshot_pickle_frame(struct pickle *m, struct snapshot_frame frame);
int32_t snapshot_pickle_stack(struct pickle *m, const int32_t *frames, ptrdiff_t count);
// object.c: items into a list, pairs into a dict.
uint64_t snapshot_object_new(struct pickle *m, enum object_kind kind); // VALUE_NONE: no room
int snapshot_object_append(struct pickle *m, uint64_t list, const uint64_t *items, ptrdiff_t count);
int snapshot_object_set(struct pickle *m, uint64_t dict, const uint64_t *pairs, ptrdiff_t count);
// The items of a list or the pairs of a dict; of anything else none.
struct value_list snapshot_object_items(const struct pickle *m, uint64_t value,
                                        enum object_kind kind);
uint64_t snapshot_object_at(const struct pickle *m, uint64_t dict, enum pickle_key key);
uint8_t snapshot_object_pool(struct pickle *m, const struct raw_segment *g);
int32_t snapshot_object_index(const struct pickle *m, uint64_t value, enum object_kind kind);

// Inside the room only: what a stack says.

// By stack, in the arena.
uint8_t *snapshot_places(struct arena *a, const struct snapshot *s);
// kinds.c: whose each allocation is that lives at the moment.
void snapshot_tell_kinds(struct arena *a, struct snapshot_history *h);

// Inside the room only: what was reserved at the moment, and what of it was free.

void snapshot_find_holes(struct arena *a, struct snapshot_history *h);
