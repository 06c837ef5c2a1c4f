// SPDX-License-Identifier: Apache-2.0
// Lists and dicts become records: which key of which record goes where is a table.
#include "predict/snapshot/snapshot_int.h"

#include <stddef.h>
#include <string.h>

enum take_as {
    TAKE_NOT,
    TAKE_WHOLE,
    TAKE_INT,
    TAKE_TEXT,
    TAKE_SWITCH,
    TAKE_STACK,
    TAKE_LIST,
    TAKE_PAIR,
    TAKE_ACTION,
    TAKE_STATE
};
struct take {
    uint8_t as;
    uint8_t offset;
};
#define AT(as, type, member) \
    { as, offsetof(struct type, member) }

static const struct take takes[OBJECT_KINDS][KEY_COUNT] =
    {
        [OBJECT_FRAME] =
            {
                [KEY_FILENAME] = AT(TAKE_TEXT, snapshot_frame, file),
                [KEY_NAME] = AT(TAKE_TEXT, snapshot_frame, name),
                [KEY_LINE] = AT(TAKE_INT, snapshot_frame, line),
            },
        [OBJECT_EVENT] =
            {
                [KEY_ACTION] = AT(TAKE_ACTION, raw_event, action),
                [KEY_ADDR] = AT(TAKE_WHOLE, raw_event, address),
                [KEY_SIZE] = AT(TAKE_WHOLE, raw_event, size),
                [KEY_STREAM] = AT(TAKE_WHOLE, raw_event, stream),
                [KEY_DEVICE_FREE] = AT(TAKE_WHOLE, raw_event, device_free),
                [KEY_FRAMES] = AT(TAKE_STACK, raw_event, stack),
                [KEY_POOL_ID] = AT(TAKE_PAIR, raw_event, pool_high),
                [KEY_SEGMENT_POOL_ID] = AT(TAKE_PAIR, raw_event, pool_high),
            },
        [OBJECT_BLOCK] =
            {
                [KEY_ADDRESS] = AT(TAKE_WHOLE, snapshot_block, address),
                [KEY_ADDR] = AT(TAKE_WHOLE, snapshot_block, address),
                [KEY_SIZE] = AT(TAKE_WHOLE, snapshot_block, size),
                [KEY_REQUESTED_SIZE] = AT(TAKE_WHOLE, snapshot_block, requested),
                [KEY_REAL_SIZE] = AT(TAKE_WHOLE, snapshot_block, requested),
                [KEY_STATE] = AT(TAKE_STATE, snapshot_block, state),
                [KEY_FRAMES] = AT(TAKE_STACK, snapshot_block, stack),
                [KEY_HISTORY] = AT(TAKE_LIST, snapshot_block, history),
            },
        [OBJECT_SEGMENT] =
            {
                [KEY_ADDRESS] = AT(TAKE_WHOLE, raw_segment, address),
                [KEY_TOTAL_SIZE] = AT(TAKE_WHOLE, raw_segment, bytes),
                [KEY_STREAM] = AT(TAKE_WHOLE, raw_segment, stream),
                [KEY_DEVICE] = AT(TAKE_WHOLE, raw_segment, device),
                [KEY_SEGMENT_POOL_ID] = AT(TAKE_PAIR, raw_segment, pool_high),
                [KEY_IS_EXPANDABLE] = AT(TAKE_SWITCH, raw_segment, expandable),
                [KEY_BLOCKS] = AT(TAKE_LIST, raw_segment, blocks),
            },
};

// A dict with this key is such a record. (A block has a state or, in torch before 2.1, is an entry
// of its history; a frame's other keys are common words.)
static const uint8_t kind_by_key[KEY_COUNT] = {
    [KEY_ACTION] = OBJECT_EVENT,    [KEY_FILENAME] = OBJECT_FRAME,     [KEY_STATE] = OBJECT_BLOCK,
    [KEY_REAL_SIZE] = OBJECT_BLOCK, [KEY_TOTAL_SIZE] = OBJECT_SEGMENT,
};

static enum pickle_key key_of(uint64_t value) {
    bool known = value_tag(value) == VALUE_TEXT && value_payload(value) < KEY_COUNT;
    return known ? (enum pickle_key)value_payload(value) : KEY_NONE;
}

uint64_t snapshot_object_new(struct pickle *m, enum object_kind kind) {
    struct object *o = pickle_push(m, &m->objects, &m->object_count, &m->object_capacity);
    if (!o) return VALUE_NONE;
    *o = (struct object){-1, (uint8_t)kind};
    return value_of(VALUE_OBJECT, m->object_count - 1);
}

static struct object *object_of(const struct pickle *m, uint64_t value) {
    return value_tag(value) == VALUE_OBJECT ? &m->objects[value_payload(value)] : NULL;
}

int32_t snapshot_object_index(const struct pickle *m, uint64_t value, enum object_kind kind) {
    const struct object *o = object_of(m, value);
    return o && o->kind == kind ? o->index : -1;
}

struct value_list snapshot_object_items(const struct pickle *m, uint64_t value,
                                        enum object_kind kind) {
    int32_t index = snapshot_object_index(m, value, kind);
    return index >= 0 ? m->lists[index] : (struct value_list){0};
}

uint64_t snapshot_object_at(const struct pickle *m, uint64_t dict, enum pickle_key key) {
    struct value_list pairs = snapshot_object_items(m, dict, OBJECT_DICT);
    uint64_t found = VALUE_NONE;
    for (ptrdiff_t i = 0; i + 1 < pairs.count; i += 2) {
        if (key_of(pairs.items[i]) == key) found = pairs.items[i + 1];
    }
    return found;
}

static int keep(struct pickle *m, struct object *o, const uint64_t *items, ptrdiff_t count) {
    if (count == 0) return 0;
    if (o->index < 0) {
        struct value_list *list = pickle_push(m, &m->lists, &m->list_count, &m->list_capacity);
        if (!list) return FAIL_INPUT;
        *list = (struct value_list){0};
        o->index = (int32_t)m->list_count - 1;
    }
    struct value_list *list = &m->lists[o->index];
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t *place = pickle_push(m, &list->items, &list->count, &list->capacity);
        if (!place) return FAIL_INPUT;
        *place = items[i];
    }
    return 0;
}

// Frames after those of a stack (writers append a thousand at a time): a longer stack. Those beyond
// SNAPSHOT_DEPTH, the outermost, are left out.
static int add_frames(struct pickle *m, struct object *o, const uint64_t *items, ptrdiff_t count) {
    ptrdiff_t have = 0;
    if (o->kind == OBJECT_STACK) {
        const struct snapshot_stack *s = &m->out->stacks[o->index];
        have = s->count;
        memcpy(m->ids, m->out->stack_frames + s->first, (size_t)have * sizeof *m->ids);
    }
    for (ptrdiff_t i = 0; i < count && have < SNAPSHOT_DEPTH; i++)
        m->ids[have++] = m->objects[value_payload(items[i])].index;
    int32_t stack = snapshot_pickle_stack(m, m->ids, have);
    if (stack < 0) return FAIL_INPUT;
    *o = (struct object){stack, OBJECT_STACK};
    return 0;
}

static bool are_frames(const struct pickle *m, const uint64_t *items, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct object *o = object_of(m, items[i]);
        if (!o || o->kind != OBJECT_FRAME) return false;
    }
    return count > 0;
}

int snapshot_object_append(struct pickle *m, uint64_t list, const uint64_t *items,
                           ptrdiff_t count) {
    struct object *o = object_of(m, list);
    bool empty = o && o->kind == OBJECT_LIST && o->index < 0;
    if (!o || (o->kind != OBJECT_LIST && o->kind != OBJECT_STACK))
        return snapshot_pickle_refuse(m, "items for something that is not a list");
    if ((empty || o->kind == OBJECT_STACK) && are_frames(m, items, count))
        return add_frames(m, o, items, count);
    if (o->kind == OBJECT_STACK)
        return snapshot_pickle_refuse(m, "a stack with an item that is not a frame");
    return keep(m, o, items, count);
}

#define WITH_WHOLE(v, fallback) (value_tag(v) == VALUE_WHOLE ? value_payload(v) : (fallback))

static int32_t word_of(uint64_t v, int first, int count, int32_t fallback) {
    int32_t at = (int32_t)key_of(v) - first;
    return at >= 0 && at < count ? at : fallback;
}
static int32_t stack_of(const struct pickle *m, uint64_t v) {
    int32_t index = snapshot_object_index(m, v, OBJECT_STACK);
    return index > 0 ? index : 0;
}

static void take_value(const struct pickle *m, char *record, struct take t, uint64_t v) {
    void *at = record + t.offset;
    int64_t number = WITH_WHOLE(v, -1);
    int32_t states = SNAPSHOT_AWAITS_FREE + 2;
    switch ((enum take_as)t.as) {
    case TAKE_NOT:
        break;
    case TAKE_WHOLE:
        *(int64_t *)at = number;
        break;
    case TAKE_INT:
        *(int32_t *)at = number > INT32_MAX || number < 0 ? 0 : (int32_t)number;
        break;
    case TAKE_TEXT:
        *(int32_t *)at = value_tag(v) == VALUE_TEXT ? (int32_t)value_payload(v) : 0;
        break;
    case TAKE_SWITCH:
        *(bool *)at = number > 0;
        break;
    case TAKE_STACK:
        *(int32_t *)at = stack_of(m, v);
        break;
    case TAKE_LIST:
        *(int32_t *)at = snapshot_object_index(m, v, OBJECT_LIST);
        break;
    case TAKE_ACTION:
        *(uint8_t *)at = (uint8_t)word_of(v, KEY_ACTIONS, SNAPSHOT_ACTION_COUNT, SNAPSHOT_OTHER);
        break;
    case TAKE_STATE: {
        int32_t state = word_of(v, KEY_STATES, states, SNAPSHOT_INACTIVE);
        *(uint8_t *)at = (uint8_t)(state > SNAPSHOT_AWAITS_FREE ? SNAPSHOT_AWAITS_FREE : state);
        break;
    }
    case TAKE_PAIR:
        if (value_tag(v) != VALUE_PAIR) break;
        ((int32_t *)at)[0] = (int32_t)(value_payload(v) >> 28);
        ((int32_t *)at)[1] = (int32_t)(value_payload(v) & ((1 << 28) - 1));
        break;
    }
}

static void take_pairs(const struct pickle *m, enum object_kind kind, void *record,
                       const uint64_t *pairs, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i + 1 < count; i += 2) {
        enum pickle_key key = key_of(pairs[i]);
        if (key != KEY_NONE) take_value(m, record, takes[kind][key], pairs[i + 1]);
    }
}

static uint8_t pool_of(struct snapshot *s, struct snapshot_pool p) {
    for (int i = 0; i < s->pool_count; i++) {
        const struct snapshot_pool *q = &s->pools[i];
        if (q->stream == p.stream && q->high == p.high && q->low == p.low) return (uint8_t)i;
    }
    if (s->pool_count == SNAPSHOT_POOLS) return SNAPSHOT_POOLS - 1;
    s->pools[s->pool_count] = p;
    return (uint8_t)s->pool_count++;
}
uint8_t snapshot_object_pool(struct pickle *m, const struct raw_segment *g) {
    return pool_of(m->out, (struct snapshot_pool){g->stream, g->pool_high, g->pool_low});
}

static struct snapshot_event pack(struct pickle *m, const struct raw_event *r) {
    struct snapshot_pool pool = {r->stream < 0 ? 0 : r->stream, r->pool_high, r->pool_low};
    return (struct snapshot_event){.address =
                                       r->action == SNAPSHOT_OOM ? r->device_free : r->address,
                                   .size = r->size,
                                   .stack = r->stack,
                                   .action = r->action,
                                   .pool = pool_of(m->out, pool)};
}
static struct raw_event unpack(const struct pickle *m, const struct snapshot_event *e) {
    const struct snapshot_pool *p = &m->out->pools[e->pool];
    return (struct raw_event){.address = e->address,
                              .device_free = e->address,
                              .size = e->size,
                              .stream = p->stream,
                              .pool_high = p->high,
                              .pool_low = p->low,
                              .stack = e->stack,
                              .action = e->action};
}

// How a dict of a kind becomes a record; o->index >= 0 where it is one and more pairs come.
typedef int recorder(struct pickle *m, struct object *o, const uint64_t *pairs, ptrdiff_t count);

static int record_frame(struct pickle *m, struct object *o, const uint64_t *pairs,
                        ptrdiff_t count) {
    struct snapshot_frame frame = {0};
    if (o->kind == OBJECT_FRAME) frame = m->out->frames[o->index];
    take_pairs(m, OBJECT_FRAME, &frame, pairs, count);
    int32_t index = snapshot_pickle_frame(m, frame);
    if (index < 0) return FAIL_INPUT;
    o->index = index;
    return 0;
}
static int record_event(struct pickle *m, struct object *o, const uint64_t *pairs,
                        ptrdiff_t count) {
    struct raw_event raw = {.address = -1, .size = -1, .device_free = -1};
    struct snapshot_event *e;
    if (o->kind == OBJECT_EVENT) raw = unpack(m, &m->events[o->index]);
    take_pairs(m, OBJECT_EVENT, &raw, pairs, count);
    e = o->kind == OBJECT_EVENT ? &m->events[o->index]
                                : pickle_push(m, &m->events, &m->event_count, &m->event_capacity);
    if (!e) return FAIL_INPUT;
    *e = pack(m, &raw);
    o->index = (int32_t)(e - m->events);
    return 0;
}
static int record_block(struct pickle *m, struct object *o, const uint64_t *pairs,
                        ptrdiff_t count) {
    if (o->kind != OBJECT_BLOCK) {
        struct snapshot_block *b = pickle_push(m, &m->blocks, &m->block_count, &m->block_capacity);
        if (!b) return FAIL_INPUT;
        *b = (struct snapshot_block){.address = -1, .size = -1, .requested = -1, .history = -1};
        o->index = (int32_t)m->block_count - 1;
    }
    take_pairs(m, OBJECT_BLOCK, &m->blocks[o->index], pairs, count);
    return 0;
}
static int record_segment(struct pickle *m, struct object *o, const uint64_t *pairs,
                          ptrdiff_t count) {
    if (o->kind != OBJECT_SEGMENT) {
        struct raw_segment *g =
            pickle_push(m, &m->segments, &m->segment_count, &m->segment_capacity);
        if (!g) return FAIL_INPUT;
        *g = (struct raw_segment){.address = -1, .bytes = -1, .device = -1, .blocks = -1};
        o->index = (int32_t)m->segment_count - 1;
    }
    take_pairs(m, OBJECT_SEGMENT, &m->segments[o->index], pairs, count);
    return 0;
}
static recorder *const recorders[OBJECT_KINDS] = {
    [OBJECT_FRAME] = record_frame,
    [OBJECT_EVENT] = record_event,
    [OBJECT_BLOCK] = record_block,
    [OBJECT_SEGMENT] = record_segment,
};

static enum object_kind kind_of(const uint64_t *pairs, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i + 1 < count; i += 2) {
        uint8_t kind = kind_by_key[key_of(pairs[i])];
        if (kind) return (enum object_kind)kind;
    }
    return OBJECT_DICT;
}

int snapshot_object_set(struct pickle *m, uint64_t dict, const uint64_t *pairs, ptrdiff_t count) {
    struct object *o = object_of(m, dict);
    if (count % 2) return snapshot_pickle_refuse(m, "a key without a value");
    if (!o || o->kind == OBJECT_LIST || o->kind == OBJECT_STACK || o->kind == OBJECT_OPAQUE)
        return snapshot_pickle_refuse(m, "keys for something that is not a dict");
    enum object_kind kind =
        o->kind == OBJECT_DICT ? kind_of(pairs, count) : (enum object_kind)o->kind;
    if (kind == OBJECT_DICT) return keep(m, o, pairs, count);
    struct value_list before = snapshot_object_items(m, dict, OBJECT_DICT);
    int rc = recorders[kind](m, o, pairs, count);
    o->kind = (uint8_t)kind;
    // Pairs that came before the one that says what it is.
    if (rc == 0 && before.count > 0) rc = recorders[kind](m, o, before.items, before.count);
    return rc;
}
