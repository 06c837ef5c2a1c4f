// SPDX-License-Identifier: Apache-2.0
// Python's expressions, worked out while they are read: literals, names, items, sums. What is none
// of these is passed over as a whole and is unknown.
#include "records/datum/python_int.h"

enum { TEMPLATE_MAX = 200 }; // bytes of {{_base_.x}}

static ptrdiff_t begin_of(const struct module *m) {
    return now(m)->text.p - m->lex.text.p;
}

// --- Names and brackets --------------------------------------------------------------------------

// "{{_base_.model.depth}}" in a text, or behind two braces.
static struct datum *base_value(struct module *m, struct str path, const struct token *at) {
    struct datum *v = m->base;
    while (v && path.len > 0) {
        const struct datum key = {.kind = DATUM_TEXT, .text = str_trim(str_cut(&path, '.'))};
        v = datum_python_item(v, &key);
    }
    if (!v) return NULL;
    struct datum *copy = datum_deep(&m->py->data, v, 0);
    copy->line = at->line;
    copy->column = at->column;
    copy->file = m->file;
    return copy;
}

static struct datum *template_text(struct module *m, struct str text, const struct token *at) {
    if (!str_starts(text, STR("{{")) || !str_ends(text, STR("}}"))) return NULL;
    struct str path = str_trim(str_slice(text, 2, text.len - 2));
    if (!str_starts(path, STR("_base_."))) return NULL;
    return base_value(m, str_slice(path, 7, path.len), at);
}

// "{{ _base_.x }}" between values: two sets for Python, a name of the base for mmengine.
static struct datum *template_braces(struct module *m) {
    const struct lexer before = m->lex;
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    const ptrdiff_t most =
        begin + TEMPLATE_MAX < m->lex.text.len ? begin + TEMPLATE_MAX : m->lex.text.len;
    struct str rest = str_slice(m->lex.text, begin, most);
    if (!str_starts(rest, STR("{{"))) return NULL;
    const ptrdiff_t end = str_find(rest, STR("}}"));
    if (end < 0) return NULL;
    struct str path = str_trim(str_slice(rest, 2, end));
    if (!str_starts(path, STR("_base_."))) return NULL;
    int depth = 0;
    do {
        depth += is(m, "{") - is(m, "}");
        datum_python_next(m);
    } while (depth > 0 && now(m)->kind != TOKEN_END);
    struct datum *v = base_value(m, str_slice(path, 7, path.len), &at);
    if (now(m)->kind == TOKEN_END && m->lex.fault) m->lex = before;
    return v ? v : datum_python_unknown(m, &at, begin);
}

static struct datum *texts(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct buf b = buf_new(m->py->data.arena);
    bool is_known = true;
    while (now(m)->kind == TOKEN_STRING) {
        struct str part = {0};
        is_known = datum_lexer_string(m->py->data.arena, now(m)->text, &part) && is_known;
        buf_add(&b, part);
        datum_python_next(m);
    }
    if (!is_known) return datum_python_unknown(m, &at, begin);
    struct datum *v = datum_python_make(m, DATUM_TEXT, &at);
    v->text = b.count ? buf_str(&b) : STR("");
    struct datum *of_base = template_text(m, v->text, &at);
    return of_base ? of_base : v;
}

// Of a list, a tuple or a set, behind its opening bracket and up to the closing one.
static void items(struct module *m, struct datum *list, const char *end, bool *ret_comma) {
    while (!is(m, end) && now(m)->kind != TOKEN_END) {
        const bool is_spread = is(m, "*");
        if (is_spread) datum_python_next(m);
        m->is_comprehension = false;
        struct datum *v = datum_python_expr(m);
        const bool is_list = v && v->kind == DATUM_LIST && !v->is_open;
        const bool is_known = !m->is_comprehension && (is_list || !is_spread);
        list->is_open = list->is_open || !is_known;
        if (is_known && is_spread)
            datum_python_extend(m, list, v);
        else if (is_known)
            datum_push(&m->py->data, list, v);
        m->is_comprehension = false;
        if (is(m, ",")) {
            *ret_comma = true;
            datum_python_next(m);
        } else if (!is(m, end) && now(m)->kind != TOKEN_END) {
            list->is_open = true; // no Python
            datum_python_next(m);
        }
    }
    if (is(m, end)) datum_python_next(m);
}

// Lists of which not all is known are unknown as a whole.
static struct datum *list(struct module *m, const char *end, bool is_tuple) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct datum *v = datum_python_make(m, DATUM_LIST, &at);
    bool has_comma = false;
    datum_python_next(m);
    items(m, v, end, &has_comma);
    v->is_tuple = is_tuple;
    if (v->is_open) return datum_python_unknown(m, &at, begin);
    return is_tuple && !has_comma && v->list->count == 1 ? v->list->items[0] : v;
}

static void map_pair(struct module *m, struct datum *map) {
    const struct token at = *now(m);
    m->is_comprehension = false;
    struct datum *key = datum_python_expr(m), *value = NULL;
    if (is(m, ":")) {
        datum_python_next(m);
        value = datum_python_expr(m);
    }
    if (m->is_comprehension || !value || key->kind == DATUM_UNKNOWN || key->kind >= DATUM_LIST) {
        map->is_open = true; // a set, a comprehension, a key that only the program knows
        return;
    }
    struct str text = key->text;
    if (key->kind == DATUM_INT)
        text = str_format(m->py->data.arena, "%lld", (long long)key->integer);
    if (key->kind == DATUM_TEXT || key->kind == DATUM_INT)
        datum_set(&m->py->data, map, text, value, at.line, at.column);
}

static struct datum *map(struct module *m) {
    struct datum *of_base = template_braces(m);
    if (of_base) return of_base;
    struct datum *v = datum_python_make(m, DATUM_MAP, now(m));
    datum_python_next(m);
    while (!is(m, "}") && now(m)->kind != TOKEN_END) {
        if (is(m, "**")) {
            datum_python_next(m);
            const struct datum *from = datum_python_expr(m);
            v->is_open = v->is_open || from->kind != DATUM_MAP || from->is_open;
            for (ptrdiff_t i = 0; from->kind == DATUM_MAP && i < from->map->count; i++) {
                const struct datum_pair *p = &from->map->pairs[i];
                if (p->value) datum_set(&m->py->data, v, p->key, p->value, p->line, p->column);
            }
        } else {
            map_pair(m, v);
        }
        if (is(m, ",")) {
            datum_python_next(m);
        } else if (!is(m, "}")) {
            v->is_open = true;
            datum_python_next(m);
        }
    }
    if (is(m, "}")) datum_python_next(m);
    m->is_comprehension = false;
    return v;
}

// --- Names ---------------------------------------------------------------------------------------

static bool is_class(struct str name) {
    name = str_last(name, '.');
    return name.len > 0 && name.p[0] >= 'A' && name.p[0] <= 'Z';
}

// "torch.optim.AdamW" is a class by its name, torch.bfloat16 a type; what else another program's
// name may be is its own.
static struct datum *imported(struct module *m, struct datum *v) {
    if (!v->is_import || v->is_lazy) return v;
    const bool is_type = str_starts(v->text, STR("torch."));
    if (!is_class(v->text) && !is_type) return v;
    struct datum *name = datum_at(&m->py->data, v, v->line, v->column);
    name->kind = DATUM_TEXT;
    name->is_import = false;
    name->text = is_type && !is_class(v->text) ? v->text : str_last(v->text, '.');
    return name;
}

// A known scalar stands where it is used; lists, maps and unknown values are shared.
static struct datum *used(struct module *m, struct datum *v, const struct token *at) {
    if (v->kind == DATUM_UNKNOWN || v->kind >= DATUM_LIST) return v;
    struct datum *here = datum_at(&m->py->data, v, at->line, at->column);
    here->file = m->file;
    return here;
}

static struct datum *name(struct module *m) {
    static const struct {
        const char *name;
        enum datum_kind kind;
        bool boolean;
    } words[] = {{"True", DATUM_BOOL, true}, {"False", DATUM_BOOL, false}, {"None", DATUM_NULL, 0}};
    static const char *const operators[] = {"lambda", "not", "await", "yield", NULL};
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    if (str_is_one_of(at.text, operators)) return datum_python_unknown(m, &at, begin);
    datum_python_next(m);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_is(at.text, words[i].name)) continue;
        struct datum *v = datum_python_make(m, words[i].kind, &at);
        v->boolean = words[i].boolean;
        return v;
    }
    if (str_is(at.text, "_base_") && is(m, ".") && m->base) return m->base;
    const struct datum_pair *p = datum_find(m->globals, at.text);
    if (!p) p = datum_find(m->imports, at.text);
    if (!p && is(m, "(")) return datum_python_call(m, NULL, at.text, &at, begin);
    return p ? used(m, p->value, &at) : datum_python_unknown(m, &at, begin);
}

static struct datum *atom(struct module *m) {
    if (now(m)->kind == TOKEN_NAME) return name(m);
    if (now(m)->kind == TOKEN_NUMBER) return datum_python_number(m);
    if (now(m)->kind == TOKEN_STRING) return texts(m);
    if (is(m, "(")) return list(m, ")", true);
    if (is(m, "[")) return list(m, "]", false);
    if (is(m, "{")) return map(m);
    return datum_python_unknown(m, now(m), begin_of(m));
}

static struct datum *attribute(struct module *m, struct datum *v, const struct token *at,
                               ptrdiff_t begin) {
    datum_python_next(m);
    const struct datum key = {.kind = DATUM_TEXT, .text = now(m)->text};
    if (now(m)->kind != TOKEN_NAME) return datum_python_unknown(m, at, begin);
    datum_python_next(m);
    if (v->is_import) {
        struct datum *longer = datum_at(&m->py->data, v, at->line, at->column);
        longer->text =
            str_format(m->py->data.arena, "%.*s.%.*s", STR_ARG(v->text), STR_ARG(key.text));
        return longer;
    }
    if (is(m, "(")) return datum_python_method(m, v, key.text, at, begin);
    struct datum *item = datum_python_item(v, &key);
    return item ? used(m, item, at) : datum_python_unknown(m, at, begin);
}

// "x[a:b:c]" of a list, with Python's rules for what lies outside. NULL: not known.
static struct datum *slice(struct module *m, const struct datum *v, struct datum *const parts[3]) {
    int64_t given[3] = {0};
    if (v->kind != DATUM_LIST || v->is_open) return NULL;
    for (int i = 0; i < 3; i++) {
        if (parts[i] && parts[i]->kind != DATUM_INT) return NULL;
        if (parts[i]) given[i] = parts[i]->integer;
    }
    const int64_t count = v->list->count, step = parts[2] ? given[2] : 1;
    if (step == 0 || step > DATUM_MAX || step < -DATUM_MAX) return NULL;
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? count - 1 : count;
    int64_t ends[2] = {step < 0 ? most : least, step < 0 ? least : most};
    for (int i = 0; i < 2; i++) {
        if (!parts[i]) continue;
        if (given[i] < -DATUM_MAX || given[i] > DATUM_MAX) return NULL;
        ends[i] = given[i] < 0 ? given[i] + count : given[i];
        ends[i] = ends[i] < least ? least : ends[i] > most ? most : ends[i];
    }
    struct datum *cut = datum_at(&m->py->data, v, v->line, v->column);
    cut->list = arena_new(m->py->data.arena, struct datum_list, 1);
    for (int64_t i = ends[0]; step > 0 ? i < ends[1] : i > ends[1]; i += step)
        datum_push(&m->py->data, cut, v->list->items[i]);
    m->py->data.count += (int)cut->list->count;
    return cut;
}

static struct datum *subscript(struct module *m, const struct datum *v, const struct token *at,
                               ptrdiff_t begin) {
    struct datum *parts[3] = {0};
    int count = 0;
    datum_python_next(m);
    while (!is(m, "]") && now(m)->kind != TOKEN_END) {
        if (is(m, ":")) {
            count++;
            datum_python_next(m);
            continue;
        }
        struct datum *part = datum_python_expr(m);
        if (count < 3) parts[count] = part;
        if (is(m, "]") || is(m, ":")) continue;
        count = 9; // more than a slice
        datum_python_next(m);
        datum_python_skip(m);
    }
    if (is(m, "]")) datum_python_next(m);
    struct datum *item = count == 0  ? datum_python_item(v, parts[0])
                         : count < 3 ? slice(m, v, parts)
                                     : NULL;
    return item ? used(m, item, at) : datum_python_unknown(m, at, begin);
}

static struct datum *primary(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct datum *v = atom(m);
    for (;;) {
        if (is(m, "."))
            v = attribute(m, v, &at, begin);
        else if (is(m, "["))
            v = subscript(m, v, &at, begin);
        else if (is(m, "("))
            v = datum_python_call(m, v, (struct str){0}, &at, begin);
        else
            return imported(m, v);
    }
}

// --- Sums ----------------------------------------------------------------------------------------

static struct datum *unary(struct module *m);

static struct datum *combined(struct module *m, struct datum *a, struct str sign,
                              const struct datum *b, const struct token *at, ptrdiff_t begin) {
    struct datum *v = datum_python_binary(m, sign, a, b);
    return v ? v : datum_python_unknown(m, at, begin);
}

static struct datum *raised(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct datum *v = primary(m);
    if (!is(m, "**")) return v;
    if (++m->depth > DATUM_DEPTH_MAX)
        datum_python_stop(m, begin, "nested deeper than %d levels", DATUM_DEPTH_MAX);
    datum_python_next(m);
    v = combined(m, v, STR("**"), unary(m), &at, begin);
    m->depth--;
    return v;
}

static struct datum *unary(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    if (!is(m, "-") && !is(m, "+")) return raised(m);
    if (++m->depth > DATUM_DEPTH_MAX) {
        datum_python_stop(m, begin, "nested deeper than %d levels", DATUM_DEPTH_MAX);
        return datum_python_unknown(m, &at, begin);
    }
    const bool is_minus = is(m, "-");
    struct datum zero = {.kind = DATUM_INT, .line = at.line, .column = at.column, .file = m->file};
    datum_python_next(m);
    const struct datum *v = unary(m);
    m->depth--;
    struct datum *minus_zero = NULL;
    if (v->kind == DATUM_FLOAT && is_minus)
        minus_zero = datum_float(&m->py->data, -v->number, &zero);
    return minus_zero ? minus_zero
                      : combined(m, &zero, is_minus ? STR("-") : STR("+"), v, &at, begin);
}

static struct datum *product(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct datum *v = unary(m);
    while (is(m, "*") || is(m, "/") || is(m, "//") || is(m, "%")) {
        const struct str sign = now(m)->text;
        datum_python_next(m);
        v = combined(m, v, sign, unary(m), &at, begin);
    }
    return v;
}

static struct datum *sum(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    struct datum *v = product(m);
    while (is(m, "+") || is(m, "-")) {
        const struct str sign = now(m)->text;
        datum_python_next(m);
        v = combined(m, v, sign, product(m), &at, begin);
    }
    return v;
}

struct datum *datum_python_expr(struct module *m) {
    const struct token at = *now(m);
    const ptrdiff_t begin = begin_of(m);
    if (++m->depth > DATUM_DEPTH_MAX)
        datum_python_stop(m, begin, "nested deeper than %d levels", DATUM_DEPTH_MAX);
    struct datum *v = sum(m);
    if (!datum_python_at_end(m)) {
        datum_python_skip(m);
        v = datum_python_unknown(m, &at, begin);
    }
    m->depth--;
    return v;
}

struct datum *datum_python_exprs(struct module *m) {
    struct datum *v = datum_python_expr(m);
    if (!is(m, ",")) return v;
    struct datum *tuple = datum_new(&m->py->data, DATUM_LIST, v->line, v->column);
    tuple->is_tuple = true;
    tuple->file = m->file;
    datum_push(&m->py->data, tuple, v);
    while (is(m, ",")) {
        datum_python_next(m);
        if (datum_python_at_end(m)) break;
        datum_push(&m->py->data, tuple, datum_python_expr(m));
    }
    return tuple;
}
