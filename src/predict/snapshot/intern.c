// SPDX-License-Identifier: Apache-2.0
// Equal texts, frames and stacks have one number.
#include "predict/snapshot/snapshot_int.h"

#include <string.h>

static const char *const words[KEY_COUNT] = {
    [KEY_NONE] = "",
    [KEY_FILENAME] = "filename",
    [KEY_NAME] = "name",
    [KEY_LINE] = "line",
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_ADDRESS] = "address",
    [KEY_SIZE] = "size",
    [KEY_STREAM] = "stream",
    [KEY_FRAMES] = "frames",
    [KEY_DEVICE_FREE] = "device_free",
    [KEY_POOL_ID] = "pool_id",
    [KEY_SEGMENT_POOL_ID] = "segment_pool_id",
    [KEY_REQUESTED_SIZE] = "requested_size",
    [KEY_REAL_SIZE] = "real_size",
    [KEY_STATE] = "state",
    [KEY_HISTORY] = "history",
    [KEY_TOTAL_SIZE] = "total_size",
    [KEY_DEVICE] = "device",
    [KEY_BLOCKS] = "blocks",
    [KEY_IS_EXPANDABLE] = "is_expandable",
    [KEY_SEGMENTS] = "segments",
    [KEY_DEVICE_TRACES] = "device_traces",
    [KEY_ALLOCATOR_SETTINGS] = "allocator_settings",
    [KEY_CUDA_CONF] = "PYTORCH_CUDA_ALLOC_CONF",
    [KEY_CONF] = "PYTORCH_ALLOC_CONF",
    [KEY_MAX_SPLIT_SIZE] = "max_split_size",
    [KEY_GC_THRESHOLD] = "garbage_collection_threshold",
    [KEY_EXPANDABLE_SEGMENTS] = "expandable_segments",
    [KEY_ROUNDUP] = "roundup_power2_divisions",
    [KEY_ACTIONS + SNAPSHOT_ALLOC] = "alloc",
    [KEY_ACTIONS + SNAPSHOT_FREE_REQUESTED] = "free_requested",
    [KEY_ACTIONS + SNAPSHOT_FREE_COMPLETED] = "free_completed",
    [KEY_ACTIONS + SNAPSHOT_SEGMENT_ALLOC] = "segment_alloc",
    [KEY_ACTIONS + SNAPSHOT_SEGMENT_FREE] = "segment_free",
    [KEY_ACTIONS + SNAPSHOT_SEGMENT_MAP] = "segment_map",
    [KEY_ACTIONS + SNAPSHOT_SEGMENT_UNMAP] = "segment_unmap",
    [KEY_ACTIONS + SNAPSHOT_OOM] = "oom",
    [KEY_ACTIONS + SNAPSHOT_TAKEN] = "snapshot",
    [KEY_STATES + SNAPSHOT_INACTIVE] = "inactive",
    [KEY_STATES + SNAPSHOT_ACTIVE] = "active_allocated",
    [KEY_STATES + SNAPSHOT_AWAITS_FREE] = "active_awaiting_free",
    [KEY_STATES + SNAPSHOT_AWAITS_FREE + 1] = "active_pending_free",
};
#define TEXT_BYTES_MOST (INT64_C(128) << 20) // of all texts

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ (hash >> 29);
}
static uint64_t scatter(uint64_t hash) {
    return hash ^ hash >> 32;
}

static uint64_t text_hash(struct str s) {
    uint64_t hash = (uint64_t)s.len, word;
    for (; s.len >= 8; s.p += 8, s.len -= 8) {
        memcpy(&word, s.p, 8);
        hash = mix(hash, word);
    }
    word = 0;
    if (s.len > 0) memcpy(&word, s.p, (size_t)s.len);
    return scatter(mix(hash, word));
}
static uint64_t frame_hash(struct snapshot_frame f) {
    uint64_t names = (uint64_t)(uint32_t)f.file << 32 | (uint32_t)f.name;
    return scatter(mix(mix(1, names), (uint32_t)f.line));
}
static uint64_t stack_hash(const int32_t *frames, ptrdiff_t count) {
    uint64_t hash = (uint64_t)count;
    for (ptrdiff_t i = 0; i < count; i++) hash = mix(hash, (uint32_t)frames[i]);
    return scatter(hash);
}

static int32_t *slot_at(const struct pickle_table *t, uint64_t hash) {
    return &t->slots[hash & (uint64_t)(t->places - 1)];
}
static void put(const struct pickle_table *t, uint64_t hash, ptrdiff_t number) {
    while (*slot_at(t, hash)) hash++;
    *slot_at(t, hash) = (int32_t)number;
}

// Four times as large; all that is in it goes in again.
typedef uint64_t hasher(const struct snapshot *s, ptrdiff_t number);
static bool grow(struct pickle *m, struct pickle_table *t, ptrdiff_t count, hasher *hash) {
    ptrdiff_t places = t->places > 0 ? t->places * 4 : 256;
    if (!snapshot_pickle_room(m, places * (ptrdiff_t)sizeof *t->slots)) return false;
    *t = (struct pickle_table){arena_new(m->scratch, int32_t, places), places};
    for (ptrdiff_t i = 1; i < count; i++) put(t, hash(m->out, i), i);
    return true;
}

static uint64_t hash_of_text(const struct snapshot *s, ptrdiff_t number) {
    return text_hash(s->texts[number]);
}

int32_t snapshot_pickle_text(struct pickle *m, struct str text) {
    struct snapshot *s = m->out;
    struct pickle_table *t = &m->texts;
    if (s->text_count * 2 >= t->places && !grow(m, t, s->text_count, hash_of_text)) return -1;
    if (text.len == 0) return 0;
    uint64_t at = text_hash(text);
    int32_t *slot;
    for (; *(slot = slot_at(t, at)); at++) {
        if (str_equal(s->texts[*slot], text)) return *slot;
    }
    m->text_bytes += text.len;
    if (m->text_bytes > TEXT_BYTES_MOST)
        return snapshot_pickle_refuse(m, "not a snapshot: more than 128 MiB of different texts");
    if (!snapshot_pickle_room(m, text.len)) return -1;
    struct str *place = pickle_keep(m, &s->texts, &s->text_count, &m->text_capacity);
    if (!place) return -1;
    *place = str_copy(m->keep, text);
    return *slot = (int32_t)s->text_count - 1;
}

static uint64_t hash_of_frame(const struct snapshot *s, ptrdiff_t number) {
    return frame_hash(s->frames[number]);
}

int32_t snapshot_pickle_frame(struct pickle *m, struct snapshot_frame f) {
    struct snapshot *s = m->out;
    struct pickle_table *t = &m->frames;
    if (s->frame_count * 2 >= t->places && !grow(m, t, s->frame_count, hash_of_frame)) return -1;
    uint64_t at = frame_hash(f);
    int32_t *slot;
    for (; *(slot = slot_at(t, at)); at++) {
        const struct snapshot_frame *old = &s->frames[*slot];
        if (old->file == f.file && old->name == f.name && old->line == f.line) return *slot;
    }
    struct snapshot_frame *place = pickle_keep(m, &s->frames, &s->frame_count, &m->frame_capacity);
    if (!place) return -1;
    *place = f;
    return *slot = (int32_t)s->frame_count - 1;
}

static uint64_t hash_of_stack(const struct snapshot *s, ptrdiff_t number) {
    const struct snapshot_stack *stack = &s->stacks[number];
    return stack_hash(s->stack_frames + stack->first, stack->count);
}

int32_t snapshot_pickle_stack(struct pickle *m, const int32_t *frames, ptrdiff_t count) {
    struct snapshot *s = m->out;
    struct pickle_table *t = &m->stacks;
    if (count == 0) return 0;
    if (s->stack_count * 2 >= t->places && !grow(m, t, s->stack_count, hash_of_stack)) return -1;
    uint64_t at = stack_hash(frames, count);
    int32_t *slot;
    for (; *(slot = slot_at(t, at)); at++) {
        const struct snapshot_stack *old = &s->stacks[*slot];
        if (old->count == count &&
            memcmp(s->stack_frames + old->first, frames, (size_t)count * sizeof *frames) == 0)
            return *slot;
    }
    int32_t first = (int32_t)s->stack_frame_count;
    for (ptrdiff_t i = 0; i < count; i++) {
        int32_t *place =
            pickle_keep(m, &s->stack_frames, &s->stack_frame_count, &m->stack_frame_capacity);
        if (!place) return -1;
        *place = frames[i];
    }
    struct snapshot_stack *place = pickle_keep(m, &s->stacks, &s->stack_count, &m->stack_capacity);
    if (!place) return -1;
    *place = (struct snapshot_stack){first, (int32_t)count};
    return *slot = (int32_t)s->stack_count - 1;
}

int snapshot_pickle_init(struct pickle *m) {
    struct snapshot *s = m->out;
    if (!pickle_keep(m, &s->frames, &s->frame_count, &m->frame_capacity)) return -1;
    if (!pickle_keep(m, &s->stacks, &s->stack_count, &m->stack_capacity)) return -1;
    for (int i = 0; i < KEY_COUNT; i++) {
        struct str *place = pickle_keep(m, &s->texts, &s->text_count, &m->text_capacity);
        if (!place) return -1;
        *place = str_of(words[i]);
    }
    return 0;
}
