// SPDX-License-Identifier: Apache-2.0
// Values by reference: lists, maps, copies.
#include "records/datum/datum_int.h"

enum { SMALL_MAP = 12 }; // pairs

struct datum *datum_new(struct data *d, enum datum_kind kind, int line, int column) {
    struct datum *v = arena_new(d->arena, struct datum, 1);
    *v = (struct datum){.kind = kind, .line = line, .column = column};
    if (kind == DATUM_LIST) v->list = arena_new(d->arena, struct datum_list, 1);
    if (kind == DATUM_MAP) v->map = arena_new(d->arena, struct datum_map, 1);
    d->count++;
    return v;
}

struct datum *datum_integer(struct data *d, int64_t value, const struct datum *at) {
    struct datum *v = datum_new(d, DATUM_INT, at->line, at->column);
    v->file = at->file;
    v->integer = value;
    return v;
}

struct datum *datum_float(struct data *d, double value, const struct datum *at) {
    struct datum *v = datum_new(d, DATUM_FLOAT, at->line, at->column);
    v->file = at->file;
    v->number = value;
    return v;
}

struct datum *datum_at(struct data *d, const struct datum *v, int line, int column) {
    struct datum *at = arena_new(d->arena, struct datum, 1);
    *at = *v;
    at->line = line;
    at->column = column;
    d->count++;
    return at;
}

void datum_push(struct data *d, struct datum *list, struct datum *item) {
    struct datum_list *l = list->list;
    *arena_push(d->arena, &l->items, &l->count, &l->capacity) = item;
}

// --- Maps ----------------------------------------------------------------------------------------

static int32_t *slot_of(const struct datum_map *m, struct str key) {
    uint64_t i = str_hash(key) & (uint64_t)(m->slot_count - 1);
    while (m->slots[i] && !str_equal(m->pairs[m->slots[i] - 1].key, key)) {
        i = (i + 1) & (uint64_t)(m->slot_count - 1);
    }
    return &m->slots[i];
}

static struct datum_pair *pair_of(const struct datum_map *m, struct str key) {
    if (m->slots) {
        const int32_t at = *slot_of(m, key);
        return at ? &m->pairs[at - 1] : NULL;
    }
    for (ptrdiff_t i = 0; i < m->count; i++) {
        if (str_equal(m->pairs[i].key, key)) return &m->pairs[i];
    }
    return NULL;
}

static void index_pairs(struct data *d, struct datum_map *m) {
    m->slot_count = m->slot_count ? m->slot_count * 4 : 64;
    m->slots = arena_new(d->arena, int32_t, m->slot_count);
    for (ptrdiff_t i = 0; i < m->count; i++) *slot_of(m, m->pairs[i].key) = (int32_t)(i + 1);
}

struct datum_pair *datum_find(const struct datum *map, struct str key) {
    struct datum_pair *p = pair_of(map->map, key);
    return p && p->value ? p : NULL;
}

struct datum_pair *datum_set(struct data *d, struct datum *map, struct str key, struct datum *value,
                             int line, int column) {
    struct datum_map *m = map->map;
    struct datum_pair *p = pair_of(m, key);
    if (!p) {
        p = arena_push(d->arena, &m->pairs, &m->count, &m->capacity);
        *p = (struct datum_pair){.key = key};
        if (m->count > SMALL_MAP && m->count * 2 > m->slot_count)
            index_pairs(d, m);
        else if (m->slots)
            *slot_of(m, key) = (int32_t)m->count;
    }
    p->value = value;
    p->line = line;
    p->column = column;
    p->spelled = (struct str){0};
    return p;
}

// --- Copies --------------------------------------------------------------------------------------

struct datum *datum_copy(struct data *d, const struct datum *v) {
    struct datum *copy = datum_at(d, v, v->line, v->column);
    if (v->kind == DATUM_LIST) {
        copy->list = arena_new(d->arena, struct datum_list, 1);
        for (ptrdiff_t i = 0; i < v->list->count; i++) datum_push(d, copy, v->list->items[i]);
        d->count += (int)v->list->count;
    }
    if (v->kind != DATUM_MAP) return copy;
    copy->map = arena_new(d->arena, struct datum_map, 1);
    for (ptrdiff_t i = 0; i < v->map->count; i++) {
        const struct datum_pair *p = &v->map->pairs[i];
        if (p->value)
            datum_set(d, copy, p->key, p->value, p->line, p->column)->spelled = p->spelled;
        d->count++;
    }
    return copy;
}

struct datum *datum_deep(struct data *d, const struct datum *v, int depth) {
    struct datum *copy = datum_copy(d, v);
    if (depth > DATUM_DEPTH_MAX || d->count > DATUM_MAX) return copy; // told at the end
    for (ptrdiff_t i = 0; v->kind == DATUM_LIST && i < copy->list->count; i++)
        copy->list->items[i] = datum_deep(d, copy->list->items[i], depth + 1);
    for (ptrdiff_t i = 0; v->kind == DATUM_MAP && i < copy->map->count; i++)
        copy->map->pairs[i].value = datum_deep(d, copy->map->pairs[i].value, depth + 1);
    return copy;
}

int datum_too_many(const struct datum_source *s, struct fail *why) {
    return fail_set(why, FAIL_INPUT, "%.*s:1:1: more than %d values, expected a training config",
                    STR_ARG(s->name), DATUM_MAX);
}
