// SPDX-License-Identifier: Apache-2.0
// data/dialects.tsv: reading it, matching its patterns, finding the dialect of a file. A decisive
// key counts only as a real key of the tree, never in a comment, a block scalar or a text.
#include "records/config/dialect_int.h"

#include "base/data.h"

#include <string.h>

enum { DIALECTS_EXPECTED = 128 };

// --- The table -----------------------------------------------------------------------------------

static int take_role(struct dialect *d, const struct tsv *t, enum config_role role,
                     struct fail *why) {
    struct role_row *row = &d->roles[role];
    const struct str unit = tsv_cell(t, "unit"), insert = tsv_cell(t, "insert");
    row->places = tsv_cell(t, "value");
    row->assumed = tsv_cell(t, "default");
    if (unit.len > 1 || (unit.len == 1 && !strchr("DGT?", unit.p[0]))) {
        return fail_set(why, FAIL_INPUT, "data/dialects.tsv:%d: unit '%.*s', expected D, G, T or ?",
                        t->line, STR_ARG(unit));
    }
    row->unit = unit.len ? unit.p[0] : 0;
    row->insert = str_is(insert, "yes")    ? INSERT_YES
                  : str_is(insert, "warn") ? INSERT_WARN
                                           : INSERT_NO;
    return 0;
}

static void take_guard(struct arena *a, struct dialect *d, const struct tsv *t, struct str kind) {
    *arena_push(a, &d->guards, &d->guard_count, &d->guard_capacity) =
        (struct guard_row){kind, tsv_cell(t, "value"), tsv_cell(t, "default")};
}

static int take_row(struct arena *a, struct dialect *d, const struct tsv *t, struct fail *why) {
    const struct str item = tsv_cell(t, "item"), value = tsv_cell(t, "value");
    const struct {
        const char *name;
        struct str *to;
    } texts[] = {{"title", &d->title},     {"detect", &d->detect},   {"refuse", &d->refuse},
                 {"rule", &d->rule},       {"note", &d->note},       {"record", &d->record},
                 {"special", &d->special}, {"inherit", &d->inherit}, {"ranks_of", &d->ranks_of},
                 {"models", &d->models},   {"unnamed", &d->unnamed}, {"choice", &d->choice}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (str_is(item, texts[i].name)) {
            *texts[i].to = value;
            return 0;
        }
    }
    if (str_starts(item, STR("guard."))) {
        take_guard(a, d, t, str_slice(item, 6, item.len));
        return 0;
    }
    if (str_is(item, "inference")) {
        *arena_push(a, &d->inferences, &d->inference_count, &d->inference_capacity) =
            (struct inference_row){value, tsv_cell(t, "default")};
        return 0;
    }
    if (str_is(item, "backbone")) {
        d->backbone_when = value;
        d->backbone_with = tsv_cell(t, "default");
        return 0;
    }
    if (str_is(item, "several")) {
        d->several = value;
        d->several_where = tsv_cell(t, "default");
        return 0;
    }
    if (str_is(item, "from")) return 0; // for people: doc/dialects.md
    if (str_is(item, "edit")) {
        d->editable = str_is(value, "yes");
        d->stops = str_is(value, "never");
        return 0;
    }
    if (str_is(item, "strict")) {
        d->is_strict = str_is(value, "yes");
        return 0;
    }
    const bool option = str_starts(item, STR("flag.")), maybe = str_starts(item, STR("maybe.")),
               sum = str_starts(item, STR("sum."));
    const ptrdiff_t prefix = option ? 5 : maybe ? 6 : sum ? 4 : 0;
    const enum config_role role = config_role_find(str_slice(item, prefix, item.len));
    if (role == CONFIG_ROLES) {
        return fail_set(why, FAIL_INPUT, "data/dialects.tsv:%d: item '%.*s' is unknown", t->line,
                        STR_ARG(item));
    }
    if (prefix == 0) return take_role(d, t, role, why);
    *(option ? &d->options[role] : maybe ? &d->maybe[role] : &d->roles[role].sum) = value;
    return 0;
}

int config_dialects_load(struct arena *a, struct dialects *ret_dialects, struct fail *why) {
    struct dialects all = {0};
    struct tsv *t = arena_new(a, struct tsv, 1);
    int status = tsv_find(a, "data/dialects.tsv", t, why);
    if (status) return status;
    arena_expect(a, &all.items, &all.count, &all.capacity, DIALECTS_EXPECTED);
    while ((status = tsv_next(t, why)) > 0) {
        const struct str id = tsv_cell(t, "dialect");
        if (all.count == 0 || !str_equal(all.items[all.count - 1].id, id)) {
            *arena_push(a, &all.items, &all.count, &all.capacity) = (struct dialect){.id = id};
        }
        int bad = take_row(a, &all.items[all.count - 1], t, why);
        if (bad) return bad;
    }
    *ret_dialects = all;
    return status;
}

int config_dialect_of(struct arena *a, const struct config_reading *r,
                      const struct dialect **ret_dialect, struct fail *why) {
    static const struct dialect nothing;
    struct dialects all;
    if (r->origin || str_is(r->dialect, "none")) {
        *ret_dialect = r->origin ? r->origin : &nothing;
        return 0;
    }
    int status = config_dialects_load(a, &all, why);
    if (status) return status;
    const struct dialect *items = all.items;
    *ret_dialect = &nothing;
    for (ptrdiff_t i = 0; i < all.count; i++) {
        if (str_equal(items[i].id, r->dialect)) *ret_dialect = &items[i];
    }
    return 0;
}

int config_dialects(struct arena *a, struct config_dialect_row **ret_rows, int *ret_count,
                    struct fail *why) {
    struct dialects all;
    int status = config_dialects_load(a, &all, why), count = 0;
    if (status) return status;
    struct config_dialect_row *rows = arena_new(a, struct config_dialect_row, all.count);
    for (ptrdiff_t i = 0; i < all.count; i++) {
        const struct dialect *d = &all.items[i];
        if (!d->editable && !d->options[CONFIG_BATCH].len) continue; // the refuse list
        rows[count++] = (struct config_dialect_row){
            d->id, d->title, d->editable ? d->roles[CONFIG_BATCH].places : d->options[CONFIG_BATCH],
            d->editable ? STR("yes") : STR("advice")};
    }
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

// --- Patterns ------------------------------------------------------------------------------------

// The brace that closes the first one of the text; -1: none.
static ptrdiff_t closing_brace(struct str s, ptrdiff_t open) {
    int depth = 0;
    for (ptrdiff_t i = open; i < s.len; i++) {
        depth += (s.p[i] == '{') - (s.p[i] == '}');
        if (depth == 0) return i;
    }
    return -1;
}

// Cuts at the first comma that is in no brace.
static struct str cut_comma(struct str *s) {
    int depth = 0;
    for (ptrdiff_t i = 0; i < s->len; i++) {
        depth += (s->p[i] == '{') - (s->p[i] == '}');
        if (depth == 0 && s->p[i] == ',') {
            struct str head = str_slice(*s, 0, i);
            *s = str_slice(*s, i + 1, s->len);
            return head;
        }
    }
    struct str all = *s;
    *s = (struct str){0};
    return all;
}

void config_braces_expand(struct arena *a, struct str text, struct str_list *ret_texts) {
    const char *open = text.len ? memchr(text.p, '{', (size_t)text.len) : NULL;
    const ptrdiff_t at = open ? open - text.p : -1, close = open ? closing_brace(text, at) : -1;
    if (close < 0) {
        str_list_add(a, ret_texts, text);
        return;
    }
    struct str inside = str_slice(text, at + 1, close);
    while (inside.p) {
        const struct str choice = cut_comma(&inside);
        const ptrdiff_t rest = text.len - close - 1;
        char *spelled = arena_new(a, char, at + choice.len + rest);
        memcpy(spelled, text.p, (size_t)at);
        if (choice.len > 0) memcpy(spelled + at, choice.p, (size_t)choice.len);
        memcpy(spelled + at + choice.len, text.p + close + 1, (size_t)rest);
        config_braces_expand(a, (struct str){spelled, at + choice.len + rest}, ret_texts);
    }
}

static bool is_evaluation(struct str section) {
    static const char *const starts[] = {"val",    "test", "eval", "infer", "pred", "bench", "tta",
                                         "search", "Val",  "Test", "Eval",  "VAL",  "TEST",  NULL};
    return str_starts_one_of(section, starts);
}

static bool path_evaluates(struct str path) {
    while (path.p) {
        if (is_evaluation(str_cut(&path, '.'))) return true;
    }
    return false;
}

static void add_entry(void *self, struct str path, struct config_node *map, struct config_node *key,
                      struct config_node *value) {
    struct scope *s = self;
    // Pairs of one map come one after the other unless a nested map stands between.
    if (map != s->last_map) s->last_evaluates = path_evaluates(path);
    s->last_map = map;
    const struct entry e = {path, map, key, value, s->last_evaluates, 0};
    *arena_push(s->arena, &s->entries, &s->count, &s->capacity) = e;
}

static ptrdiff_t count_pairs(const struct config_node *n) {
    ptrdiff_t count = n->kind == NODE_MAP ? n->count / 2 : 0;
    for (int i = 0; n->kind != NODE_ALIAS && i < n->count; i++) count += count_pairs(n->items[i]);
    return count;
}

void config_scope_open(struct arena *a, const struct config *c, struct scope *ret_scope) {
    *ret_scope = (struct scope){.arena = a, .config = c, .root = c->root};
    if (c->root) { // not by doubling: there may be a million
        ret_scope->capacity = count_pairs(c->root);
        ret_scope->entries = arena_new(a, struct entry, ret_scope->capacity);
    }
    config_tree_walk(a, c, add_entry, ret_scope);
    config_scope_index(ret_scope);
}

static int32_t *slot_of(const struct scope *s, struct str key) {
    ptrdiff_t i = (ptrdiff_t)(str_hash(key) & (uint64_t)(s->slot_count - 1));
    while (s->slots[i] && !str_equal(s->entries[s->slots[i] - 1].key->text, key)) {
        i = (i + 1) & (s->slot_count - 1);
    }
    return &s->slots[i];
}

void config_scope_index(struct scope *s) {
    s->slot_count = 16;
    while (s->slot_count < 2 * s->count) s->slot_count *= 2;
    s->slots = arena_new(s->arena, int32_t, s->slot_count);
    for (ptrdiff_t i = s->count - 1; i >= 0; i--) {
        int32_t *slot = slot_of(s, s->entries[i].key->text);
        s->entries[i].next = *slot;
        *slot = (int32_t)(i + 1);
    }
    for (ptrdiff_t i = 0; i < s->slot_count; i++) {
        if (s->slots[i]) s->entries[s->slots[i] - 1].is_first = true;
    }
}

const struct entry *config_scope_first(const struct scope *s, struct str key) {
    const int32_t at = s->count > 0 ? *slot_of(s, key) : 0;
    return at ? &s->entries[at - 1] : NULL;
}

const struct entry *config_scope_next(const struct scope *s, const struct entry *e) {
    return e->next ? &s->entries[e->next - 1] : NULL;
}

// Once each. A place bears the number of the matches that hold it, which the root counts: there may
// be a hundred thousand.
static void add_match(const struct scope *s, struct matches *m, struct str path,
                      struct place place) {
    if (m->count == 0) m->number = ++s->config->root->number;
    if (place.value->number == m->number) return;
    place.value->number = m->number;
    *arena_push(s->arena, &m->items, &m->count, &m->capacity) = (struct match){path, place, 0};
}

// Most places of the table are in no file: their first key tells.
static bool may_hold(const struct scope *s, struct str path) {
    ptrdiff_t end = 0;
    while (end < path.len && path.p[end] != '.' && path.p[end] != '[') {
        if (path.p[end] == '"') return true;
        end++;
    }
    return s->slot_count == 0 || config_scope_first(s, str_slice(path, 0, end));
}

static void find_path(const struct scope *s, struct str path, struct matches *m) {
    if (!may_hold(s, path)) return;
    const struct arena_mark mark = arena_mark(s->arena);
    struct steps steps;
    struct place p = {0};
    if (!config_path_parse(s->arena, path, &steps, NULL)) p = config_place_find(s->config, &steps);
    // Most places of the table are not in a file: their steps need not stay.
    if (p.value)
        add_match(s, m, path, p);
    else
        arena_rewind(s->arena, mark);
}

bool config_scope_holds(const struct scope *s, const struct entry *e) {
    if (s->prefix.len == 0 || str_equal(e->path, s->prefix)) return true;
    return str_starts(e->path, s->prefix) && strchr(".[", e->path.p[s->prefix.len]);
}

static void take_entry(const struct scope *s, const struct entry *e, struct matches *m) {
    if (e->evaluation || !config_scope_holds(s, e)) return;
    const struct place p = {.map = e->map, .key = e->key, .value = e->value, .owner = e->map};
    add_match(s, m, config_path_join(s->arena, e->path, e->key->text), p);
}

// "below" of "a.b.below.key"
static bool ends_in(struct str path, struct str section) {
    if (section.len == 0 || str_equal(path, section)) return true;
    return str_ends(path, section) && path.p[path.len - section.len - 1] == '.';
}

// "~word": the key has it somewhere in its name. "section.key": in a section of that name.
static void find_anywhere(const struct scope *s, struct str key, struct matches *m) {
    if (!str_starts(key, STR("~"))) {
        const struct str section = str_before_last(key, '.');
        const struct entry *e = config_scope_first(s, str_last(key, '.'));
        for (; e; e = config_scope_next(s, e))
            if (ends_in(e->path, section)) take_entry(s, e, m);
        return;
    }
    key = str_slice(key, 1, key.len);
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct entry *e = &s->entries[i];
        if (!e->is_first || str_find(e->key->text, key) < 0) continue;
        for (; e; e = config_scope_next(s, e)) take_entry(s, e, m);
    }
}

static struct str joined(const struct scope *s, struct str prefix, struct str path) {
    return prefix.len ? str_format(s->arena, "%.*s.%.*s", STR_ARG(prefix), STR_ARG(path)) : path;
}

static void find_in_sections(const struct scope *s, struct str key, struct matches *m) {
    for (ptrdiff_t i = 0; s->root && s->root->kind == NODE_MAP && i + 1 < s->root->count; i += 2) {
        const struct config_node *name = s->root->items[i];
        if (name->kind != NODE_SCALAR || is_evaluation(name->text)) continue;
        if (config_node_follow(s->root->items[i + 1])->kind != NODE_MAP) continue;
        const struct arena_mark mark = arena_mark(s->arena);
        const ptrdiff_t before = m->count;
        find_path(s, joined(s, config_path_join(s->arena, s->prefix, name->text), key), m);
        if (m->count == before) arena_rewind(s->arena, mark);
    }
}

void config_scope_find(const struct scope *s, struct str pattern, struct matches *matches) {
    if (!s->root || (s->above && str_starts(pattern, STR("*")))) return;
    if (str_starts(pattern, STR("**."))) {
        find_anywhere(s, str_slice(pattern, 3, pattern.len), matches);
    } else if (str_starts(pattern, STR("*."))) {
        find_in_sections(s, str_slice(pattern, 2, pattern.len), matches);
    } else if (str_starts(pattern, STR("@."))) {
        find_path(s, joined(s, s->home, str_slice(pattern, 2, pattern.len)), matches);
    } else {
        find_path(s, joined(s, s->prefix, pattern), matches);
    }
}

// --- Detection -----------------------------------------------------------------------------------

static bool is_set(const struct config *c, const struct config_node *n) {
    const struct scalar s = config_scalar_read(c, n);
    if (s.type == CONFIG_NESTED) return n->count > 0;
    return s.type != CONFIG_NULL && s.type != CONFIG_ABSENT && n->text.len > 0 &&
           (s.type != CONFIG_BOOL || s.boolean);
}

// "true" and "false" mean the boolean, however it is spelled.
static bool has_word(const struct config *c, const struct config_node *n, struct str word) {
    const struct scalar s = config_scalar_read(c, n);
    if (s.type == CONFIG_BOOL) return str_is(word, s.boolean ? "true" : "false");
    return str_equal(n->text, word);
}

static bool holds_key(const struct scope *s, struct str term) {
    struct str kind = {0}, word = {0};
    const ptrdiff_t colon = str_find(term, STR(":")), equals = str_find(term, STR("="));
    if (colon >= 0) {
        kind = str_slice(term, colon + 1, term.len);
        term = str_slice(term, 0, colon);
    } else if (equals >= 0) {
        word = str_slice(term, equals + 1, term.len);
        term = str_slice(term, 0, equals);
    }
    struct matches m = {0};
    config_scope_find(s, term, &m);
    for (ptrdiff_t i = 0; i < m.count; i++) {
        const struct config_node *n = config_node_follow(m.items[i].place.value);
        const bool right = str_is(kind, "any")    ? true
                           : str_is(kind, "map")  ? n->kind == NODE_MAP
                           : str_is(kind, "list") ? n->kind == NODE_LIST
                           : str_is(kind, "set")
                               ? is_set(s->config, n)
                               : n->kind == NODE_SCALAR || config_node_is_template(n);
        if (right && (!word.p || has_word(s->config, n, word))) return true;
    }
    return false;
}

static bool holds_term(const struct scope *s, struct str term);

// "2of{a,b,c}"
static bool holds_some(const struct scope *s, struct str term) {
    struct str_list expanded = {0};
    struct str inside = str_slice(term, 4, term.len - 1);
    int found = 0;
    const int needed = term.p[0] - '0';
    while (inside.p) config_braces_expand(s->arena, cut_comma(&inside), &expanded);
    for (ptrdiff_t i = 0; i < expanded.count && found < needed; i++)
        found += holds_term(s, expanded.items[i]);
    return found >= needed;
}

static bool holds_term(const struct scope *s, struct str term) {
    if (str_starts(term, STR("!"))) return !holds_term(s, str_slice(term, 1, term.len));
    if (term.len > 5 && str_starts(str_slice(term, 1, term.len), STR("of{")))
        return holds_some(s, term);
    if (str_starts(term, STR("ext:")))
        return str_ends(s->config->name, str_slice(term, 4, term.len));
    if (str_starts(term, STR("has:")))
        return str_find(s->config->text, str_slice(term, 4, term.len)) >= 0;
    return holds_key(s, term);
}

static bool holds_all(const struct scope *s, struct str terms) {
    while (terms.p) {
        if (!holds_term(s, str_trim(str_cut(&terms, '&')))) return false;
    }
    return true;
}

bool config_scope_is(const struct scope *s, struct str alternatives, struct str *ret_terms) {
    while (alternatives.len > 0) {
        *ret_terms = str_trim(str_cut(&alternatives, '|'));
        if (holds_all(s, *ret_terms)) return true;
    }
    return false;
}

const struct dialect *config_dialect_detect(const struct scope *s, const struct dialects *all,
                                            struct str *ret_because) {
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (config_scope_is(s, all->items[i].detect, ret_because)) return &all->items[i];
    }
    return NULL;
}
