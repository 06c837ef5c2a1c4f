// SPDX-License-Identifier: Apache-2.0
// The team's file: one map, team_gpu_settings, with an entry a GPU. Read, written fresh, or
// brought up to date with the same smallest edits as any other config.
#include "records/config/dialect_int.h"

static const char map_name[] = "team_gpu_settings";

static const char preamble[] =
    "# Recommended settings for every GPU of the team, written by `batchfit team`.\n"
    "# Effective batch = batch_size x gradient_accumulation_steps (x number of GPUs): the same on "
    "every GPU.\n"
    "# Figures may be edited by hand; the next run changes figures only and keeps comments.\n";

static int64_t count_of(const struct config *c, struct config_node *map, const char *key) {
    const struct place p = config_map_find(map, str_of(key), true);
    if (!p.value) return 0;
    const struct scalar s = config_scalar_read(c, config_node_follow(p.value));
    return (s.type == CONFIG_INT || s.type == CONFIG_FLOAT) && s.integer > 0 ? s.integer : 0;
}

static struct str text_of(struct config_node *map, const char *key) {
    const struct place p = config_map_find(map, str_of(key), true);
    const struct config_node *n = p.value ? config_node_follow(p.value) : NULL;
    return n && n->kind == NODE_SCALAR ? n->text : (struct str){0};
}

static int bool_of(const struct config *c, struct config_node *map, const char *key) {
    const struct place p = config_map_find(map, str_of(key), true);
    if (!p.value) return 0;
    const struct scalar s = config_scalar_read(c, config_node_follow(p.value));
    return s.type != CONFIG_BOOL ? 0 : s.boolean ? 1 : -1;
}

int config_team_read(struct arena *a, const struct config *c, struct config_card **ret_cards,
                     int *ret_count, struct fail *why) {
    *ret_cards = NULL;
    *ret_count = 0;
    if (!c->root) return 0;
    const struct place p = config_map_find(c->root, str_of(map_name), true);
    if (!p.value) return 0;
    struct config_node *map = config_node_follow(p.value);
    if (map->kind == NODE_SCALAR && config_scalar_read(c, map).type == CONFIG_NULL) return 0;
    if (map->kind != NODE_MAP) {
        return config_bytes_fail(c, map->begin, why, "%s is not a map of GPUs", map_name);
    }
    struct config_card *cards = arena_new(a, struct config_card, map->count / 2 + 1);
    int count = 0;
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        struct config_node *entry = config_node_follow(map->items[i + 1]);
        if (map->items[i]->kind != NODE_SCALAR || entry->kind != NODE_MAP ||
            config_node_is_merge(map->items[i]))
            continue;
        cards[count++] = (struct config_card){
            .card = map->items[i]->text,
            .batch = count_of(c, entry, "batch_size"),
            .accumulation = count_of(c, entry, "gradient_accumulation_steps"),
            .effective = count_of(c, entry, "effective_batch_size"),
            .image_size = count_of(c, entry, "image_size"),
            .mixed_precision = bool_of(c, entry, "mixed_precision"),
            .precision = text_of(entry, "precision"),
            .model = text_of(entry, "model"),
        };
    }
    *ret_cards = cards;
    *ret_count = count;
    return 0;
}

// The keys of one entry in the order in which they are written; absent ones are left out.
enum { ENTRY_KEYS = 7 };
static int entry_edits(struct arena *a, const struct config_card *card, struct config_edit *edits) {
    const struct {
        const char *key;
        int64_t number;
        struct str text;
    } keys[ENTRY_KEYS] = {
        {"batch_size", card->batch, {0}},
        {"gradient_accumulation_steps", card->accumulation, {0}},
        {"mixed_precision", 0,
         card->mixed_precision > 0   ? STR("true")
         : card->mixed_precision < 0 ? STR("false")
                                     : (struct str){0}},
        {"precision", 0, card->precision},
        {"effective_batch_size", card->effective, {0}},
        {"model", 0, card->model},
        {"image_size", card->image_size, {0}},
    };
    int count = 0;
    for (int i = 0; i < ENTRY_KEYS; i++) {
        struct str value =
            keys[i].number > 0 ? str_format(a, "%lld", (long long)keys[i].number) : keys[i].text;
        if (!value.len) continue;
        const bool is_text = i == 3 || i == 5;
        edits[count++] = (struct config_edit){
            .path = str_of(keys[i].key), .value = value, .is_text = is_text, .insert = true};
    }
    return count;
}

static int check_names(const struct config_card *cards, int count, struct fail *why) {
    for (int i = 0; i < count; i++) {
        const struct str model = cards[i].model;
        if (model.len > 0 && !config_scalar_is_text(model))
            return fail_set(why, FAIL_USAGE, "'%.*s' is not a value that can be written",
                            STR_ARG(model));
        if (config_scalar_is_key(cards[i].card)) continue;
        return fail_set(why, FAIL_USAGE, "'%.*s' is not a valid name for an entry of %s",
                        STR_ARG(cards[i].card), map_name);
    }
    return 0;
}

static struct str plain_or_quoted(struct arena *a, const struct config_edit *e) {
    if (!e->is_text || !config_scalar_needs_quotes(e->value)) return e->value;
    return str_format(a, "\"%.*s\"", STR_ARG(e->value));
}

static void add_entry(struct arena *a, struct buf *b, const struct config_card *card) {
    struct config_edit edits[ENTRY_KEYS];
    const int count = entry_edits(a, card, edits);
    buf_format(b, "  %.*s:\n", STR_ARG(card->card));
    for (int i = 0; i < count; i++) {
        struct str value = plain_or_quoted(a, &edits[i]);
        buf_format(b, "    %.*s: %.*s\n", STR_ARG(edits[i].path), STR_ARG(value));
    }
}

static int write_fresh(struct arena *a, const struct config_card *cards, int count,
                       struct config_patched *ret, struct fail *why) {
    struct buf b = buf_new(a);
    buf_format(&b, "%s%s:\n", preamble, map_name);
    for (int i = 0; i < count; i++) {
        if (i) buf_byte(&b, '\n');
        add_entry(a, &b, &cards[i]);
    }
    struct config check;
    int status = config_parse(a, STR("team_settings.yaml"), buf_str(&b), &check, why);
    if (!status) *ret = (struct config_patched){.text = buf_str(&b), .changed = true};
    return status;
}

static struct config_node *entry_of(const struct config *c, struct str card) {
    const struct place map = config_map_find(c->root, str_of(map_name), true);
    const struct place entry = config_map_find(config_node_follow(map.value), card, true);
    return entry.value && config_node_follow(entry.value)->kind == NODE_MAP
               ? config_node_follow(entry.value)
               : NULL;
}

// What the team's template lacks beyond the three figures is not pressed upon it.
static bool is_figure(struct str key) {
    return str_is(key, "batch_size") || str_is(key, "gradient_accumulation_steps") ||
           str_is(key, "mixed_precision");
}

// Whether any GPU of the file has that key.
static bool is_used(const struct config *c, struct str key) {
    const struct place p = config_map_find(c->root, str_of(map_name), true);
    const struct config_node *map = config_node_follow(p.value);
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        struct config_node *entry = config_node_follow(map->items[i + 1]);
        if (entry->kind == NODE_MAP && config_map_find(entry, key, true).value) return true;
    }
    return false;
}

// A GPU that has no entry yet gets the keys of the others.
static void update_card(struct arena *a, const struct config *before,
                        const struct config_card *card, struct config_edits *edits) {
    struct config_node *entry = entry_of(before, card->card);
    struct config_edit *keys = arena_new(a, struct config_edit, ENTRY_KEYS);
    const int known = entry_edits(a, card, keys);
    int count = 0;
    for (int i = 0; i < known; i++) {
        if (entry || is_figure(keys[i].path) || is_used(before, keys[i].path))
            keys[count++] = keys[i];
    }
    struct str path = config_path_join(a, str_of(map_name), card->card);
    if (!entry) {
        config_edits_add(a, edits,
                         (struct config_edit){
                             .path = path, .insert = true, .children = keys, .child_count = count});
        return;
    }
    struct str after = {0};
    for (int i = 0; i < count; i++) {
        struct config_edit e = keys[i];
        if (!is_figure(e.path) && !config_map_find(entry, e.path, true).value) continue;
        e.after = after;
        after = e.path;
        e.path = config_path_join(a, path, e.path);
        config_edits_add(a, edits, e);
    }
}

int config_team_write(struct arena *a, const struct config *before, const struct config_card *cards,
                      int count, struct config_patched *ret_patched, struct fail *why) {
    struct fail unheard;
    struct config_card *old;
    int old_count;
    if (!why) why = &unheard;
    int status = check_names(cards, count, why);
    if (status) return status;
    if (!before) return write_fresh(a, cards, count, ret_patched, why);
    status = config_team_read(a, before, &old, &old_count, why);
    if (status) return status;
    if (old_count == 0) {
        fail_set(why, FAIL_INPUT, "%.*s: no %s with a GPU in it", STR_ARG(before->name), map_name);
        return fail_hint(why, "write to a new file, or add the first GPU by hand");
    }
    struct config_edits edits = {0};
    for (int i = 0; i < count; i++) update_card(a, before, &cards[i], &edits);
    return config_patch(a, before, edits.items, edits.count, 0, ret_patched, why);
}
