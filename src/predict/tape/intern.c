// SPDX-License-Identifier: Apache-2.0
// Two hash tables with open addressing, used only while a tape is read: text → number, id → number.
#include "predict/tape/intern.h"

static ptrdiff_t table_size(ptrdiff_t items) {
    ptrdiff_t size = 64;
    while (size < items * 2) size *= 2;
    return size;
}

struct id_map tape_id_map_new(struct arena *a, ptrdiff_t items) {
    ptrdiff_t size = table_size(items);
    return (struct id_map){arena_new(a, struct id_slot, size), (uint64_t)size - 1};
}

struct id_slot *tape_id_map_at(struct id_map *m, int64_t id) {
    // Recorders count ids up from anywhere: the multiplication spreads runs and strides, and a few
    // neighbours stay neighbours, which are asked for one after the other.
    const uint64_t beside = 7;
    uint64_t spread = (((uint64_t)id & ~beside) * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    uint64_t at = (spread & ~beside) | ((uint64_t)id & beside);
    for (;; at++) {
        struct id_slot *slot = &m->slots[at & m->mask];
        if (slot->number == 0 || slot->id == id) return slot;
    }
}

struct text_map tape_text_map_new(struct arena *keep, struct arena *scratch) {
    struct text_map m = {.keep = keep, .scratch = scratch, .size = 256};
    m.numbers = arena_new(scratch, int32_t, m.size);
    *arena_push(keep, &m.texts, &m.count, &m.capacity) = (struct str){0};
    return m;
}

static int32_t *text_slot(struct text_map *m, struct str text) {
    for (uint64_t at = str_hash(text);; at++) {
        int32_t *slot = &m->numbers[at & (uint64_t)(m->size - 1)];
        if (*slot == 0 || str_equal(m->texts[*slot], text)) return slot;
    }
}

static void text_map_grow(struct text_map *m) {
    m->size *= 4;
    m->numbers = arena_new(m->scratch, int32_t, m->size);
    for (ptrdiff_t i = 1; i < m->count; i++) *text_slot(m, m->texts[i]) = (int32_t)i;
}

int32_t tape_text_map_number(struct text_map *m, struct str text, bool *ret_new) {
    int32_t *slot = text_slot(m, text);
    *ret_new = *slot == 0;
    if (!*ret_new) return *slot;
    int32_t number = *slot = (int32_t)m->count;
    *arena_push(m->keep, &m->texts, &m->count, &m->capacity) = text;
    if (m->count * 2 > m->size) text_map_grow(m);
    return number;
}
