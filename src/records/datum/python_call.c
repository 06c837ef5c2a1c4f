// SPDX-License-Identifier: Apache-2.0
// The few calls whose result can be known without running anything: dict(a=1), int(4e5), x.update(
// a=1), and detectron2's L(Class)(a=1).
#include "records/datum/python_int.h"

// What stands in the brackets of a call.
struct arguments {
    struct datum *list, *map; // either is_open: there are more
};

void datum_python_open(struct module *m, struct datum *v) {
    if (v->kind != DATUM_UNKNOWN || v->is_import) return;
    v->kind = DATUM_MAP;
    v->is_open = true;
    v->map = arena_new(m->py->data.arena, struct datum_map, 1);
}

static void add_all(struct module *m, struct datum *to, const struct datum *from) {
    if (from->kind != DATUM_MAP) {
        to->is_open = true;
        return;
    }
    to->is_open = to->is_open || from->is_open;
    m->py->data.count += (int)from->map->count;
    for (ptrdiff_t i = 0; i < from->map->count; i++) {
        const struct datum_pair *p = &from->map->pairs[i];
        if (p->value) datum_set(&m->py->data, to, p->key, p->value, p->line, p->column);
    }
}

static void argument(struct module *m, struct arguments *a) {
    const bool is_spread = is(m, "*");
    const struct token at = m->lex.token;
    if (is(m, "**")) {
        datum_python_next(m);
        add_all(m, a->map, m->expr(m));
        return;
    }
    if (is_spread) datum_python_next(m);
    m->is_comprehension = false;
    struct datum *v = m->expr(m);
    if (is(m, "=") && at.kind == TOKEN_NAME) {
        datum_python_next(m);
        v = m->expr(m);
        datum_set(&m->py->data, a->map, at.text, v, at.line, at.column);
        return;
    }
    if (is_spread || m->is_comprehension)
        a->list->is_open = true;
    else
        datum_push(&m->py->data, a->list, v);
}

static struct arguments arguments(struct module *m, const struct token *at) {
    struct arguments a = {datum_python_make(m, DATUM_LIST, at),
                          datum_python_make(m, DATUM_MAP, at)};
    datum_python_next(m);
    while (!is(m, ")") && m->lex.token.kind != TOKEN_END) {
        argument(m, &a);
        if (!is(m, ",") && !is(m, ")")) a.list->is_open = a.map->is_open = true; // no Python
        if (!is(m, ")")) datum_python_next(m);
    }
    m->is_comprehension = false;
    if (is(m, ")")) datum_python_next(m);
    return a;
}

struct datum *datum_python_arguments(struct module *m, const struct token *at,
                                     struct datum **ret_list) {
    const struct arguments a = arguments(m, at);
    *ret_list = a.list;
    return a.map;
}

// --- Functions -----------------------------------------------------------------------------------

typedef struct datum *function(struct module *m, const struct arguments *a);

static struct datum *only(const struct arguments *a) {
    const bool one = a->list->list->count == 1 && !a->list->is_open && a->map->map->count == 0;
    return one ? a->list->list->items[0] : NULL;
}

// A dict of pairs in a list is rare, and open.
static struct datum *make_dict(struct module *m, const struct arguments *a) {
    struct datum *v = datum_python_make(m, DATUM_MAP, &m->lex.token);
    v->line = a->map->line;
    v->column = a->map->column;
    v->is_open = a->list->is_open;
    for (ptrdiff_t i = 0; i < a->list->list->count; i++) add_all(m, v, a->list->list->items[i]);
    add_all(m, v, a->map);
    return v;
}

static struct datum *make_list(struct module *m, const struct arguments *a) {
    const struct datum *from = only(a);
    if (!from) return a->list->list->count == 0 && !a->list->is_open ? a->list : NULL;
    if (from->kind != DATUM_LIST || from->is_open) return NULL;
    struct datum *v = datum_copy(&m->py->data, from);
    v->is_tuple = false;
    return v;
}

static struct datum *make_tuple(struct module *m, const struct arguments *a) {
    struct datum *v = make_list(m, a);
    if (v) v->is_tuple = true;
    return v;
}

static struct datum *make_integer(struct module *m, const struct arguments *a) {
    const struct datum *from = only(a);
    if (!from) return NULL;
    if (from->kind == DATUM_INT) return datum_integer(&m->py->data, from->integer, from);
    const bool fits = from->kind == DATUM_FLOAT && from->number > -9e18 && from->number < 9e18;
    return fits ? datum_integer(&m->py->data, (int64_t)from->number, from) : NULL;
}

static struct datum *make_float(struct module *m, const struct arguments *a) {
    const struct datum *from = only(a);
    if (!from || (from->kind != DATUM_INT && from->kind != DATUM_FLOAT)) return NULL;
    return datum_float(&m->py->data, from->kind == DATUM_INT ? (double)from->integer : from->number,
                       from);
}

static struct datum *length(struct module *m, const struct arguments *a) {
    const struct datum *from = only(a);
    if (!from || from->kind != DATUM_LIST || from->is_open) return NULL;
    return datum_integer(&m->py->data, from->list->count, from);
}

static const struct {
    const char *name;
    function *make;
} functions[] = {{"dict", make_dict},   {"list", make_list},   {"tuple", make_tuple},
                 {"int", make_integer}, {"float", make_float}, {"len", length}};

// copy.deepcopy(x)
static struct datum *copied(struct module *m, const struct datum *callee,
                            const struct arguments *a) {
    struct datum *of = only(a);
    if (!callee->is_import || !of || of->is_import) return NULL;
    if (str_is(callee->text, "copy.deepcopy")) return datum_deep(&m->py->data, of, 0);
    return str_is(callee->text, "copy.copy") ? datum_copy(&m->py->data, of) : NULL;
}

static bool is_lazy_call(const struct datum *v) {
    return v && v->is_import && str_ends(v->text, STR(".LazyCall"));
}

static struct datum *lazy(struct module *m, struct datum *callee, struct arguments *a) {
    struct data *d = &m->py->data;
    if (callee->is_lazy) {
        struct datum *v = make_dict(m, a), *target = datum_at(d, callee, v->line, v->column);
        target->is_import = target->is_lazy = false;
        target->kind = DATUM_TEXT;
        datum_set(d, v, STR("_target_"), target, v->line, v->column);
        return v;
    }
    struct datum *of = only(a), *v;
    if (!of || (of->kind != DATUM_TEXT && of->kind != DATUM_UNKNOWN)) return NULL;
    v = datum_at(d, of, of->line, of->column);
    v->kind = DATUM_UNKNOWN;
    v->is_import = v->is_lazy = true;
    return v;
}

struct datum *datum_python_call(struct module *m, struct datum *callee, struct str name,
                                const struct token *at, ptrdiff_t begin) {
    struct arguments a = arguments(m, at);
    struct datum *v = NULL;
    if (callee && (callee->is_lazy || is_lazy_call(callee))) v = lazy(m, callee, &a);
    if (callee && !v) v = copied(m, callee, &a);
    for (size_t i = 0; !callee && i < sizeof functions / sizeof *functions; i++) {
        if (str_is(name, functions[i].name)) v = functions[i].make(m, &a);
    }
    return v ? v : datum_python_unknown(m, at, begin);
}

// --- Methods -------------------------------------------------------------------------------------

// In a block that may not run, what it would change is unknown afterwards. Maps in maps of
// mmengine's ConfigDict are merged (mmengine 0.10.7, config/config.py, ConfigDict.update), others
// replaced.
static struct datum *update(struct module *m, struct datum *self, const struct arguments *a) {
    const struct datum *from = make_dict(m, a);
    datum_python_open(m, self);
    if (self->kind != DATUM_MAP) return NULL;
    if (m->is_uncertain) {
        for (ptrdiff_t i = 0; i < from->map->count; i++) {
            const struct datum_pair *p = &from->map->pairs[i];
            struct datum *v = datum_python_make(m, DATUM_UNKNOWN, &m->lex.token);
            v->line = p->line;
            v->column = p->column;
            v->text = p->key;
            if (p->value) datum_set(&m->py->data, self, p->key, v, p->line, p->column);
        }
        self->is_open = true;
    } else if (m->has_read_base && self->file != m->file) {
        datum_python_merge(&m->py->data, self, from, 0);
    } else {
        add_all(m, self, from);
    }
    return NULL;
}

// mmengine's x.merge(dict(a=1)); of anything else it is not known what it changes.
static void merge(struct module *m, struct datum *self, const struct arguments *a) {
    const struct datum *from = only(a);
    if (from && from->kind == DATUM_MAP && !m->is_uncertain)
        datum_python_merge(&m->py->data, self, from, 0);
    else
        self->is_open = true;
}

static void append(struct module *m, struct datum *self, const struct arguments *a, bool is_many) {
    struct datum *item = only(a);
    const bool is_list = item && item->kind == DATUM_LIST && !item->is_open;
    if (!item || m->is_uncertain || (is_many && !is_list)) {
        self->is_open = true;
        return;
    }
    if (is_many)
        datum_python_extend(m, self, item);
    else
        datum_push(&m->py->data, self, item);
}

static struct datum *pop(struct module *m, const struct datum *self, const struct arguments *a) {
    const struct datum *key = a->list->list->count ? a->list->list->items[0] : NULL;
    struct datum_pair *p = key && key->kind == DATUM_TEXT ? datum_find(self, key->text) : NULL;
    if (!p) return a->list->list->count == 2 && !self->is_open ? a->list->list->items[1] : NULL;
    struct datum *v = p->value;
    p->value = m->is_uncertain ? datum_python_make(m, DATUM_UNKNOWN, &m->lex.token) : NULL;
    if (p->value) p->value->text = p->key;
    return v;
}

static struct datum *get(const struct datum *self, const struct arguments *a) {
    if (a->list->list->count == 0 || a->list->is_open) return NULL;
    struct datum *v = datum_python_item(self, a->list->list->items[0]);
    if (v || self->is_open || a->list->list->count != 2) return v;
    return a->list->list->items[1];
}

struct datum *datum_python_method(struct module *m, struct datum *self, struct str name,
                                  const struct token *at, ptrdiff_t begin) {
    static const char *const harmless[] = {"keys", "values", "items", "index", "count", "get",
                                           "copy", "format", "join",  "split", NULL};
    const struct arguments a = arguments(m, at);
    const bool is_map = self->kind == DATUM_MAP, is_list = self->kind == DATUM_LIST;
    struct datum *v = NULL;
    if (str_is(name, "update") && (is_map || self->kind == DATUM_UNKNOWN)) {
        update(m, self, &a);
    } else if (str_is(name, "merge") && is_map) {
        merge(m, self, &a);
    } else if (str_is(name, "copy") && (is_map || is_list)) {
        v = datum_copy(&m->py->data, self);
    } else if (str_is(name, "get") && is_map) {
        v = get(self, &a);
    } else if (str_is(name, "pop") && is_map) {
        v = pop(m, self, &a);
    } else if ((str_is(name, "append") || str_is(name, "extend")) && is_list) {
        append(m, self, &a, name.p[0] == 'e');
    } else if ((is_map || is_list) && !str_is_one_of(name, harmless)) {
        self->is_open = true; // it may change anything
    }
    return v ? v : datum_python_unknown(m, at, begin);
}
