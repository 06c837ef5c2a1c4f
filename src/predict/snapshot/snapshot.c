// SPDX-License-Identifier: Apache-2.0
// What the pickle left becomes a snapshot: segments with their blocks, a history for each GPU, the
// settings of the allocator.
#include "predict/snapshot/snapshot.h"

#include "base/os.h"
#include "predict/snapshot/snapshot_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define SIZE_MOST (INT64_C(1) << 50) // of a block or a segment

bool snapshot_is_pickle(struct str head) {
    return head.len >= 2 && (unsigned char)head.p[0] == 0x80 && head.p[1] >= 2 && head.p[1] <= 5;
}

static int no_snapshot(struct pickle *m, const char *what) {
    fail_set(m->why, FAIL_INPUT, "%.*s: a pickle, but not a memory snapshot: %s",
             STR_ARG(m->out->name), what);
    return fail_hint(m->why, "write one with torch.cuda.memory._dump_snapshot(FILE) after "
                             "torch.cuda.memory._record_memory_history()");
}

// torch before 2.1 says what was asked for and by whom in the block's history.
static void take_history(struct pickle *m, struct snapshot_block *b) {
    if (b->history < 0) return;
    struct value_list items = m->lists[b->history];
    int32_t entry = items.count > 0 ? snapshot_object_index(m, items.items[0], OBJECT_BLOCK) : -1;
    if (entry < 0) return;
    const struct snapshot_block *old = &m->blocks[entry];
    if (b->requested < 0) b->requested = old->requested;
    if (b->stack == 0) b->stack = old->stack;
}

// The blocks of a segment, one after the other; where the file has no addresses they follow from
// the sizes.
static int take_blocks(struct pickle *m, int32_t list, struct snapshot_segment *g,
                       ptrdiff_t *capacity) {
    struct snapshot *s = m->out;
    struct value_list items = list >= 0 ? m->lists[list] : (struct value_list){0};
    int64_t address = g->address;
    g->first = (int32_t)s->block_count;
    for (ptrdiff_t i = 0; i < items.count; i++) {
        int32_t at = snapshot_object_index(m, items.items[i], OBJECT_BLOCK);
        if (at < 0) return no_snapshot(m, "something in \"blocks\" is not a block");
        struct snapshot_block b = m->blocks[at];
        take_history(m, &b);
        if (b.size < 0 || b.size > SIZE_MOST) return no_snapshot(m, "a block without a size");
        if (b.address < 0) b.address = address;
        address = b.address + b.size;
        struct snapshot_block *place = pickle_keep(m, &s->blocks, &s->block_count, capacity);
        if (!place) return FAIL_INPUT;
        *place = b;
    }
    g->count = (int32_t)(s->block_count - g->first);
    return 0;
}

static int take_segments(struct pickle *m, struct value_list items) {
    struct snapshot *s = m->out;
    ptrdiff_t capacity = 0, block_capacity = 0;
    for (ptrdiff_t i = 0; i < items.count; i++) {
        int32_t at = snapshot_object_index(m, items.items[i], OBJECT_SEGMENT);
        if (at < 0) return no_snapshot(m, "something in \"segments\" is not a segment");
        const struct raw_segment *r = &m->segments[at];
        if (r->bytes < 0 || r->bytes > SIZE_MOST || r->address < 0)
            return no_snapshot(m, "a segment without an address or a size");
        if (r->device >= SNAPSHOT_GPUS) return no_snapshot(m, "a GPU number above 63");
        struct snapshot_segment g = {.address = r->address,
                                     .bytes = r->bytes,
                                     .device = r->device < 0 ? 0 : (int32_t)r->device,
                                     .pool = snapshot_object_pool(m, r)};
        int rc = take_blocks(m, r->blocks, &g, &block_capacity);
        if (rc < 0) return rc;
        struct snapshot_segment *place = pickle_keep(m, &s->segments, &s->segment_count, &capacity);
        if (!place) return FAIL_INPUT;
        *place = g;
    }
    return 0;
}

static int take_trace(struct pickle *m, struct value_list items, struct snapshot_trace *ret) {
    struct snapshot *s = m->out;
    *ret = (struct snapshot_trace){(int32_t)s->event_count, (int32_t)items.count};
    for (ptrdiff_t i = 0; i < items.count; i++) {
        int32_t at = snapshot_object_index(m, items.items[i], OBJECT_EVENT);
        if (at < 0) return no_snapshot(m, "something in \"device_traces\" is not a history entry");
        s->events[s->event_count++] = m->events[at];
    }
    return 0;
}

static int take_traces(struct pickle *m, struct value_list gpus) {
    ptrdiff_t count = 0;
    if (gpus.count > SNAPSHOT_GPUS) return no_snapshot(m, "histories of more than 64 GPUs");
    for (ptrdiff_t i = 0; i < gpus.count; i++)
        count += snapshot_object_items(m, gpus.items[i], OBJECT_LIST).count;
    if (!snapshot_pickle_room(m, count * (ptrdiff_t)sizeof *m->events)) return FAIL_INPUT;
    m->out->events = arena_new(m->keep, struct snapshot_event, count);
    for (ptrdiff_t i = 0; i < gpus.count; i++) {
        struct value_list items = snapshot_object_items(m, gpus.items[i], OBJECT_LIST);
        int rc = take_trace(m, items, &m->out->traces[i]);
        if (rc < 0) return rc;
        if (items.count > 0) m->out->trace_count = (int)i + 1;
    }
    return 0;
}

static double real_of(const struct pickle *m, uint64_t v) {
    if (value_tag(v) == VALUE_REAL) return m->reals[value_payload(v)];
    return value_tag(v) == VALUE_WHOLE ? (double)value_payload(v) : NAN;
}
static int64_t whole_of(uint64_t v) {
    return value_tag(v) == VALUE_WHOLE ? value_payload(v) : -1;
}

// {"1": 0, "2": 0, …, "32768": 0}: MiB from which on so many divisions hold.
static void take_roundup(const struct pickle *m, uint64_t dict, int64_t *roundup) {
    struct value_list pairs = snapshot_object_items(m, dict, OBJECT_DICT);
    for (ptrdiff_t i = 0; i + 1 < pairs.count; i += 2) {
        int64_t mib, at;
        if (value_tag(pairs.items[i]) != VALUE_TEXT) continue;
        if (!str_to_i64(m->out->texts[value_payload(pairs.items[i])], &mib) || mib < 1) continue;
        at = 63 - __builtin_clzll((uint64_t)mib);
        if (at < 16 && whole_of(pairs.items[i + 1]) > 0) roundup[at] = whole_of(pairs.items[i + 1]);
    }
}

static void take_settings(struct pickle *m, uint64_t dict) {
    struct snapshot_settings *o = &m->out->settings;
    *o = (struct snapshot_settings){.expandable = -1, .max_split_bytes = -1, .gc_threshold = NAN};
    if (snapshot_object_items(m, dict, OBJECT_DICT).count == 0) return;
    uint64_t conf = snapshot_object_at(m, dict, KEY_CUDA_CONF);
    if (value_tag(conf) != VALUE_TEXT) conf = snapshot_object_at(m, dict, KEY_CONF);
    o->known = true;
    if (value_tag(conf) == VALUE_TEXT) o->conf = m->out->texts[value_payload(conf)];
    o->expandable = (int)whole_of(snapshot_object_at(m, dict, KEY_EXPANDABLE_SEGMENTS));
    o->max_split_bytes = whole_of(snapshot_object_at(m, dict, KEY_MAX_SPLIT_SIZE));
    o->gc_threshold = real_of(m, snapshot_object_at(m, dict, KEY_GC_THRESHOLD));
    take_roundup(m, snapshot_object_at(m, dict, KEY_ROUNDUP), o->roundup);
}

static int take_root(struct pickle *m, uint64_t root) {
    struct value_list segments = snapshot_object_items(m, root, OBJECT_LIST);
    uint64_t listed = snapshot_object_at(m, root, KEY_SEGMENTS);
    // torch.cuda.memory_snapshot() gives the segments alone.
    if (segments.count == 0) segments = snapshot_object_items(m, listed, OBJECT_LIST);
    uint64_t traces = snapshot_object_at(m, root, KEY_DEVICE_TRACES);
    if (segments.count == 0 && value_tag(listed) == VALUE_OTHER && value_tag(traces) == VALUE_OTHER)
        return no_snapshot(m, "it has neither \"segments\" nor \"device_traces\"");
    int rc = take_segments(m, segments);
    if (rc == 0) rc = take_traces(m, snapshot_object_items(m, traces, OBJECT_LIST));
    if (rc == 0) take_settings(m, snapshot_object_at(m, root, KEY_ALLOCATOR_SETTINGS));
    return rc;
}

static int read_input(struct arena *a, struct arena *scratch, struct str name,
                      struct snapshot_input in, struct snapshot *ret, struct fail *why) {
    struct pickle *m = arena_new(scratch, struct pickle, 1);
    uint64_t root;
    *ret = (struct snapshot){.name = name, .pool_count = 1};
    *m = (struct pickle){.keep = a, .scratch = scratch, .in = in, .out = ret, .why = why};
    int rc = snapshot_pickle_init(m);
    if (rc == 0) rc = snapshot_pickle_run(m, &root);
    if (rc == 0) ret->bytes = input_at(&m->in);
    if (rc == 0) rc = take_root(m, root);
    snapshot_pickle_end(m);
    return rc;
}

int snapshot_read_bytes(struct arena *a, struct str name, struct str bytes, struct snapshot *ret,
                        struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    return read_input(a, &scratch, name, snapshot_input_bytes(bytes), ret, why);
}

int snapshot_read(struct arena *a, const char *path, struct snapshot *ret, struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_set(why, FAIL_INPUT, "%s: %s", path, strerror(errno));
    return read_input(a, &scratch, str_copy(a, str_of(path)), snapshot_input_file(&scratch, fd),
                      ret, why);
}
