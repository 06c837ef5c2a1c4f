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
        const struct config_node *k = map->items[i];
        if (k->kind == NODE_SCALAR && !k->is_replaced && str_equal(k->text, key)) return i;
    }
    return -1;
}

// The pair at `i` replaces an earlier one, as in PyYAML and json.
static void replace(struct config_node *map, ptrdiff_t earlier, ptrdiff_t i) {
    if (earlier < 0) return;
    map->items[earlier]->is_replaced = true;
    map->items[i]->replaces = true;
}

static void index_all(struct arena *a, struct config_node *map) {
    struct config_index *x = arena_new(a, struct config_index, 1);
    if (!map->rare) map->rare = arena_new(a, struct config_rare, 1);
    map->rare->index = x;
    x->size = 2 * SMALL_MAP;
    while (x->size < map->count) x->size *= 2; // at most half of them are taken
    x->slots = arena_new(a, int32_t, x->size);
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        if (map->items[i]->kind != NODE_SCALAR) continue;
        int32_t *slot = slot_of(x, map, map->items[i]->text);
        replace(map, *slot - 1, i);
        *slot = (int32_t)(i + 1);
    }
}

void config_index_build(struct arena *a, struct config_node *map) {
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        map->merges = map->merges || config_node_is_merge(map->items[i]);
    }
    if (map->count > 2 * SMALL_MAP) {
        index_all(a, map);
        return;
    }
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        if (map->items[i]->kind == NODE_SCALAR) {
            replace(map, search(map, i, map->items[i]->text), i);
        }
    }
}

ptrdiff_t config_index_find(const struct config_node *map, struct str key) {
    const struct config_index *x = map->rare ? map->rare->index : NULL;
    return x ? *slot_of(x, map, key) - 1 : search(map, map->count - 1, key);
}
