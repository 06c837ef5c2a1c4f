// SPDX-License-Identifier: Apache-2.0
// Open addressing over the places of a map's scalar keys. Small maps are searched from front to
// back.
#include "records/config/tree_int.h"

enum { SMALL_MAP = 16 }; // pairs

struct config_index {
    int32_t *slots; // place of the key, and 1; 0: free
    int32_t size;   // a power of two
};

bool config_node_is_merge(const struct config_node *key) {
    return key->kind == NODE_SCALAR && key->style == STYLE_PLAIN && str_is(key->text, "<<");
}

// The slot of the key, or the free one where it belongs.
static int32_t *slot_of(const struct config_index *x, const struct config_node *map,
                        struct str key) {
    uint64_t i = str_hash(key) & (uint64_t)(x->size - 1);
    while (x->slots[i] && !str_equal(map->items[x->slots[i] - 1]->text, key)) {
        i = (i + 1) & (uint64_t)(x->size - 1);
    }
    return &x->slots[i];
}

static ptrdiff_t search(const struct config_node *map, ptrdiff_t end, struct str key) {
    for (ptrdiff_t i = 0; i < end; i += 2) {
        if (map->items[i]->kind == NODE_SCALAR && str_equal(map->items[i]->text, key)) return i;
    }
    return -1;
}

static ptrdiff_t index_all(struct arena *a, struct config_node *map, ptrdiff_t *ret_first) {
    struct config_index *x = arena_new(a, struct config_index, 1);
    if (!map->rare) map->rare = arena_new(a, struct config_rare, 1);
    map->rare->index = x;
    x->size = 2 * SMALL_MAP;
    while (x->size < map->count) x->size *= 2; // at most half of them are taken
    x->slots = arena_new(a, int32_t, x->size);
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        if (map->items[i]->kind != NODE_SCALAR) continue;
        int32_t *slot = slot_of(x, map, map->items[i]->text);
        if (*slot) {
            *ret_first = *slot - 1;
            return i;
        }
        *slot = (int32_t)(i + 1);
    }
    return -1;
}

ptrdiff_t config_index_build(struct arena *a, struct config_node *map, ptrdiff_t *ret_first) {
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        map->merges = map->merges || config_node_is_merge(map->items[i]);
    }
    if (map->count > 2 * SMALL_MAP) return index_all(a, map, ret_first);
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        if (map->items[i]->kind != NODE_SCALAR) continue;
        *ret_first = search(map, i, map->items[i]->text);
        if (*ret_first >= 0) return i;
    }
    return -1;
}

ptrdiff_t config_index_find(const struct config_node *map, struct str key) {
    const struct config_index *x = map->rare ? map->rare->index : NULL;
    return x ? *slot_of(x, map, key) - 1 : search(map, map->count - 1, key);
}
