// SPDX-License-Identifier: Apache-2.0
// Any text, any key of it, some value: either a refusal with a reason, or a text that parses, says
// what was asked, is stable under the same edit, and in which every other node is as it was.
//
// Input: format, flags, which pair, which value; then the text.
#include "fuzz.h"

#include "records/config/tree_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// libfyaml 0.7.12 loses a kilobyte on some broken quoted scalars: not ours to report.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfyaml";
}

static const struct {
    struct str text;
    bool is_text;
} values[] = {
    {STR("8"), false},   {STR("0.5"), false}, {STR("true"), false}, {STR("false"), false},
    {STR("bf16"), true}, {STR("no"), true},   {STR("16"), true},    {STR("128"), false},
};
enum { VALUES = sizeof values / sizeof *values };

struct pairs {
    struct arena *arena;
    struct {
        struct str path, key, map;
    } * items;
    ptrdiff_t count, capacity;
};

static void note_pair(void *self, struct str path, struct config_node *map, struct config_node *key,
                      struct config_node *value) {
    (void)map;
    (void)value;
    struct pairs *p = self;
    ptrdiff_t i = p->count;
    arena_push(p->arena, &p->items, &p->count, &p->capacity);
    p->items[i].path = config_path_join(p->arena, path, key->text);
    p->items[i].key = key->text;
    p->items[i].map = path;
}

static _Noreturn void broken(const char *what, struct str before, struct str after) {
    fprintf(stderr, "%s\n--- before\n%.*s\n--- after\n%.*s\n", what, STR_ARG(before),
            STR_ARG(after));
    abort();
}

// The nodes as lines of text; `skip` and what is below it is left out, and so is a pair called
// `key` of the map `skip_in`.
struct dump {
    struct buf *out;
    const struct config_node *skip, *skip_key;
};

static void dump(const struct dump *d, const struct config_node *n) {
    if (n == d->skip) {
        buf_format(d->out, "skipped &%.*s\n", STR_ARG(config_node_anchor(n)));
        return;
    }
    buf_format(d->out, "%d %d %d &%.*s !%.*s %zu:", (int)n->kind, (int)n->style, n->flow,
               STR_ARG(config_node_anchor(n)), STR_ARG(config_node_tag(n)), (size_t)n->text.len);
    buf_add(d->out, n->text);
    buf_byte(d->out, '\n');
    for (ptrdiff_t i = 0; n->kind != NODE_SCALAR && n->kind != NODE_ALIAS && i < n->count; i++) {
        if (n->kind == NODE_MAP && n->items[i] == d->skip_key)
            i++;
        else
            dump(d, n->items[i]);
    }
    buf_byte(d->out, ')');
}

static struct str dump_text(struct arena *a, const struct config *c, const struct config_node *skip,
                            const struct config_node *skip_key) {
    struct buf b = buf_new(a);
    const struct dump d = {&b, skip, skip_key};
    dump(&d, c->root);
    return buf_str(&b);
}

static struct place place_of(struct arena *a, const struct config *c, struct str path) {
    struct steps steps;
    struct fail why;
    if (config_path_parse(a, path, &steps, &why)) return (struct place){0};
    return config_place_find(c, &steps);
}

static void check(struct arena *a, const struct config *c, const struct config_edit *e,
                  unsigned flags, const struct config_patched *p) {
    struct config after;
    struct config_patched again;
    struct fail why = {0};
    if (!p->changed) {
        if (!str_equal(p->text, c->text)) broken("changed without saying so", c->text, p->text);
        return;
    }
    if (config_parse(a, c->name, p->text, &after, &why)) broken(why.message, c->text, p->text);
    const struct place old = place_of(a, c, e->path), new = place_of(a, &after, e->path);
    if (!new.value) broken("the key is gone", c->text, p->text);
    const struct config_node *said = config_node_follow(new.value);
    const struct scalar is = config_scalar_plain(said->text), want = config_scalar_plain(e->value);
    const bool number = want.type == CONFIG_INT || want.type == CONFIG_FLOAT;
    if (said->kind != NODE_SCALAR || is.type != want.type ? !(number && is.number == want.number)
        : number                                          ? is.number != want.number
        : want.type == CONFIG_BOOL                        ? is.boolean != want.boolean
                                                          : !str_equal(said->text, e->value)) {
        broken("the value is another one", c->text, p->text);
    }
    const bool inserted = !old.value || (old.inherited && !(flags & CONFIG_EDIT_ANCHOR));
    const struct config_node *skip = NULL;
    if (!inserted)
        skip = old.value->kind == NODE_ALIAS && (flags & CONFIG_EDIT_ANCHOR) ? old.value->target
                                                                             : old.value;
    const struct config_node *skip_new = inserted ? NULL : old.value == skip ? new.value : said;
    struct str x = dump_text(a, c, skip, NULL),
               y = dump_text(a, &after, skip_new, inserted ? new.key : NULL);
    if (!str_equal(x, y)) broken("something else has changed", c->text, p->text);
    if (config_patch(a, &after, e, 1, flags, &again, &why)) broken(why.message, c->text, p->text);
    if (again.changed) broken("the second run changes something", p->text, again.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    ARENA_AUTO a = {0};
    struct config c;
    struct fail why = {0};
    struct str name = data[0] & 1 ? STR("c.json") : STR("c.yaml");
    const unsigned flags = data[1] & 3u;
    if (config_parse(&a, name, (struct str){(const char *)data + 4, (ptrdiff_t)size - 4}, &c,
                     &why)) {
        if (!why.message[0] || why.code != FAIL_INPUT) abort();
        return 0;
    }
    struct pairs pairs = {.arena = &a};
    config_tree_walk(&a, &c, note_pair, &pairs);
    struct config_edit e = {.value = values[data[3] % VALUES].text,
                            .is_text = values[data[3] % VALUES].is_text};
    e.path = STR("batch_size");
    const bool insert = (data[1] & 4) != 0;
    if (pairs.count) {
        const ptrdiff_t i = data[2] % pairs.count;
        e.path = insert ? config_path_join(&a, pairs.items[i].map, STR("accumulate_new"))
                        : pairs.items[i].path;
        e.after = pairs.items[i].key;
    }
    e.insert = insert;
    struct config_patched p;
    if (config_patch(&a, &c, &e, 1, flags, &p, &why)) {
        if (!why.message[0] || why.code == FAIL_BUG) abort();
        return 0;
    }
    check(&a, &c, &e, flags, &p);
    return 0;
}
