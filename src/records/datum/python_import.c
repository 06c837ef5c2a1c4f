// SPDX-License-Identifier: Apache-2.0
// The other files of a Python config: mmengine's _base_, and imports that begin with a dot
// (mmengine's read_base, detectron2). A file that is not there is named, and what it may set is
// unknown.
#include "records/datum/python_int.h"

#include <assert.h>

enum { FILES_MAX = 200, CHAIN_MAX = 40 };

static bool is_line_end(const struct module *m) {
    return m->lex.token.kind == TOKEN_LINE || m->lex.token.kind == TOKEN_END || is(m, ";");
}

static void note(struct module *m, struct str text) {
    str_list_add_new(m->py->data.arena, &m->py->source->notes, text);
}

static struct datum *missing(struct module *m, struct str path, const char *because) {
    note(m, str_format(m->py->data.arena, "%.*s: %s: what it sets is not known", STR_ARG(path),
                       because));
    return NULL;
}

static struct datum *read_file(struct module *m, struct str path, struct str text) {
    struct python *py = m->py;
    const struct datum_source source = {.name = path, .text = text};
    const ptrdiff_t place = py->file_count;
    py->status = datum_source_check(&source, py->why);
    if (py->status) {
        datum_python_stop(m, 0, "unreadable");
        return NULL;
    }
    *arena_push(py->data.arena, &py->files, &py->file_count, &py->file_capacity) =
        (struct python_file){.path = path};
    str_list_add(py->data.arena, &py->source->files, path);
    struct datum *globals =
        py->run(py, source, (unsigned char)py->source->files.count, m->depth + 1, NULL);
    py->files[place].globals = globals;
    if (py->status) datum_python_stop(m, 0, "unreadable");
    return globals;
}

// The names that a file sets; NULL: it cannot be read, and a note says so.
static struct datum *load(struct module *m, struct str path) {
    struct python *py = m->py;
    struct str text;
    struct fail why = {0};
    for (ptrdiff_t i = 0; i < py->file_count; i++) {
        if (!str_equal(py->files[i].path, path)) continue;
        if (!py->files[i].globals) {
            datum_python_stop(m, m->lex.end, "the config includes itself by way of %.*s",
                              STR_ARG(path));
        }
        return py->files[i].globals;
    }
    if (py->file_count >= FILES_MAX || m->depth > DATUM_DEPTH_MAX - CHAIN_MAX)
        return missing(m, path, "too many files for one config");
    if (!str_ends(path, STR(".py"))) return missing(m, path, "not a Python file, not read");
    if (!py->source->loader) return missing(m, path, "not read");
    if (py->source->loader->read(py->source->loader->self, py->data.arena, path, &text, &why))
        return missing(m, path, why.message);
    return read_file(m, path, text);
}

// --- _base_ --------------------------------------------------------------------------------------

void datum_python_merge(struct data *d, struct datum *base, const struct datum *child, int depth) {
    assert(base->kind == DATUM_MAP && child->kind == DATUM_MAP);
    base->is_open = base->is_open || child->is_open;
    if (depth > DATUM_DEPTH_MAX || d->count > DATUM_MAX) return; // told at the end
    for (ptrdiff_t i = 0; i < child->map->count; i++) {
        const struct datum_pair *p = &child->map->pairs[i];
        if (!p->value || str_is(p->key, "_delete_")) continue;
        const bool is_map = p->value->kind == DATUM_MAP;
        const struct datum_pair *deletes = is_map ? datum_find(p->value, STR("_delete_")) : NULL;
        const bool fresh = deletes && deletes->value->kind == DATUM_BOOL && deletes->value->boolean;
        const struct datum_pair *old = fresh ? NULL : datum_find(base, p->key);
        struct datum *v = p->value;
        if (is_map) {
            const bool merges = old && old->value->kind == DATUM_MAP;
            v = merges ? datum_copy(d, old->value) : datum_new(d, DATUM_MAP, v->line, v->column);
            if (!merges) v->file = p->value->file;
            datum_python_merge(d, v, p->value, depth + 1);
            v->is_open = v->is_open || (old && old->value->kind == DATUM_UNKNOWN);
        }
        datum_set(d, base, p->key, v, p->line, p->column);
    }
}

static void add_base(struct module *m, struct str name) {
    struct arena *a = m->py->data.arena;
    struct datum *from = NULL;
    if (str_find(name, STR("::")) >= 0 || str_find(name, STR("://")) >= 0)
        missing(m, name, "in another package, not read");
    else
        from = load(m, datum_source_beside(a, m->source.name, name));
    if (!from) {
        m->base->is_open = true;
        return;
    }
    for (ptrdiff_t i = 0; i < from->map->count; i++) {
        const struct datum_pair *p = &from->map->pairs[i];
        if (!p->value || str_is(p->key, "_base_") || !datum_find(m->base, p->key)) continue;
        datum_python_stop(m, m->lex.end,
                          "%.*s is set by two files of _base_, which MMEngine refuses",
                          STR_ARG(p->key));
        return;
    }
    datum_python_merge(&m->py->data, m->base, from, 0);
}

void datum_python_bases(struct module *m, const struct datum *value) {
    if (!m->base) m->base = datum_new(&m->py->data, DATUM_MAP, value->line, value->column);
    m->base->file = m->file;
    if (value->kind == DATUM_TEXT) add_base(m, value->text);
    for (ptrdiff_t i = 0; value->kind == DATUM_LIST && i < value->list->count; i++) {
        const struct datum *item = value->list->items[i];
        if (item->kind == DATUM_TEXT)
            add_base(m, item->text);
        else
            m->base->is_open = true;
        // The bases' own _base_ is no key of the config.
        struct datum_pair *own = datum_find(m->base, STR("_base_"));
        if (own) own->value = NULL;
    }
    if (value->kind == DATUM_LIST && !value->is_open) return;
    if (value->kind == DATUM_TEXT) return;
    m->base->is_open = true;
    note(m, str_format(m->py->data.arena,
                       "line %d: _base_ is not plain names of files: what they set is not known",
                       value->line));
}

struct datum *datum_python_merged(struct module *m) {
    if (!m->base) return m->globals;
    datum_python_merge(&m->py->data, m->base, m->globals, 0);
    return m->base;
}

// --- import --------------------------------------------------------------------------------------

// The file of "..a.b" seen from this one: dots say how many folders up.
static struct str module_path(struct module *m, int dots, struct str name) {
    struct buf b = buf_new(m->py->data.arena);
    for (int i = 1; i < dots; i++) buf_add(&b, STR("../"));
    while (name.len > 0) {
        buf_add(&b, str_cut(&name, '.'));
        buf_byte(&b, name.len > 0 ? '/' : '.');
    }
    buf_add(&b, STR("py"));
    return datum_source_beside(m->py->data.arena, m->source.name, buf_str(&b));
}

static struct str dotted(struct module *m) {
    struct buf b = buf_new(m->py->data.arena);
    while (m->lex.token.kind == TOKEN_NAME && !is(m, "import")) {
        buf_add(&b, m->lex.token.text);
        datum_python_next(m);
        if (!is(m, ".")) break;
        buf_byte(&b, '.');
        datum_python_next(m);
    }
    return buf_str(&b);
}

static void bring(struct module *m, struct str name, struct datum *value, const struct token *at) {
    if (m->is_uncertain) {
        value = datum_at(&m->py->data, value, at->line, at->column);
        value->kind = DATUM_UNKNOWN;
        value->is_open = false;
        value->text = name;
    }
    datum_set(&m->py->data, m->globals, name, value, at->line, at->column);
}

static void bring_all(struct module *m, const struct datum *from, const struct token *at) {
    m->globals->is_open = m->globals->is_open || from->is_open;
    for (ptrdiff_t i = 0; i < from->map->count; i++) {
        const struct datum_pair *p = &from->map->pairs[i];
        if (p->value && p->key.p[0] != '_') bring(m, p->key, p->value, at);
    }
}

static void import_other(struct module *m, struct str from, struct str name, struct str as) {
    struct datum *v = datum_new(&m->py->data, DATUM_UNKNOWN, m->lex.token.line, 1);
    v->is_import = true;
    v->file = m->file;
    v->text =
        from.len ? str_format(m->py->data.arena, "%.*s.%.*s", STR_ARG(from), STR_ARG(name)) : name;
    datum_set(&m->py->data, m->imports, as, v, v->line, 1);
}

// One name of "from X import a as b, c". from NULL: X is another program's, or was not found.
static void import_name(struct module *m, const struct datum *from, struct str package, int dots) {
    const struct token at = m->lex.token;
    struct str as = at.text;
    datum_python_next(m);
    if (is(m, "as")) {
        datum_python_next(m);
        as = m->lex.token.text;
        datum_python_next(m);
    }
    if (dots == 0) {
        import_other(m, package, at.text, as);
        return;
    }
    const struct datum_pair *p = from ? datum_find(from, at.text) : NULL;
    struct datum *v = p ? p->value : NULL;
    if (!v && package.len == 0) v = load(m, module_path(m, dots, at.text));
    if (!v) {
        v = datum_python_make(m, DATUM_UNKNOWN, &at);
        v->text = at.text;
    }
    bring(m, as, v, &at);
}

static void import_from(struct module *m) {
    int dots = 0;
    const struct datum *from = NULL;
    datum_python_next(m);
    for (; is(m, "."); dots++) datum_python_next(m);
    const struct str package = dotted(m);
    if (is(m, "import")) datum_python_next(m);
    const struct token at = m->lex.token;
    if (dots > 0 && dots < 20 && package.len > 0) from = load(m, module_path(m, dots, package));
    if (is(m, "*")) {
        if (from) bring_all(m, from, &at);
        m->globals->is_open = m->globals->is_open || !from;
        if (dots == 0)
            missing(m, str_format(m->py->data.arena, "from %.*s import *", STR_ARG(package)),
                    "another package, not read");
        datum_python_next(m);
        return;
    }
    while (!is_line_end(m)) {
        if (m->lex.token.kind == TOKEN_NAME)
            import_name(m, from, package, dots);
        else
            datum_python_next(m);
    }
}

void datum_python_import(struct module *m) {
    if (is(m, "from")) {
        import_from(m);
        return;
    }
    datum_python_next(m);
    while (!is_line_end(m)) {
        struct str name = dotted(m), rest = name, as = str_cut(&rest, '.');
        if (is(m, "as")) {
            datum_python_next(m);
            as = m->lex.token.text;
            datum_python_next(m);
            import_other(m, (struct str){0}, name, as);
        } else if (as.len > 0) {
            import_other(m, (struct str){0}, as, as);
        }
        if (!is_line_end(m)) datum_python_next(m);
    }
}
