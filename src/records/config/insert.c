// SPDX-License-Identifier: Apache-2.0
// A new pair in an existing map: the line that a person would have added. Behind the named sibling,
// else behind the last pair and so before blank lines, comments and "..." that follow; with the
// indentation, line ending, quotes and commas of its neighbours.
#include "records/config/patch_int.h"

#include <string.h>

static struct config_node **pair_after(struct config_node *map, struct str after) {
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        if (after.len && map->items[i]->kind == NODE_SCALAR && !map->items[i]->is_replaced &&
            str_equal(map->items[i]->text, after)) {
            return &map->items[i];
        }
    }
    return &map->items[map->count - 2];
}

static ptrdiff_t pair_end(const struct config *c, struct config_node *const *pair) {
    ptrdiff_t end = config_node_outer_end(c, pair[1]);
    return end >= 0 ? end : config_node_outer_end(c, pair[0]);
}

static int no_place(struct patch *p, const struct config_node *map, struct str key) {
    config_bytes_fail(p->config, map->begin, p->why, "cannot find a place for '%.*s' in this map",
                      STR_ARG(key));
    return fail_hint(p->why, "add the key by hand first");
}

// Columns before the keys of a block map; -1 when they cannot be counted.
static ptrdiff_t indentation(const struct config *c, const struct config_node *key) {
    ptrdiff_t begin = config_node_outer_begin(key), line = config_bytes_line_begin(c->text, begin);
    for (ptrdiff_t i = line; i < begin; i++) {
        if (c->text.p[i] != ' ' && c->text.p[i] != '-') return -1;
    }
    return begin - line;
}

static void blanks(struct buf *b, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) buf_byte(b, ' ');
}

static void add_key(struct buf *b, struct str key, bool quoted) {
    buf_format(b, quoted ? "\"%.*s\":" : "%.*s:", STR_ARG(key));
}

// "key: value", or a map in brackets for children.
static struct str flow_pair(struct patch *p, struct str key, const struct config_edit *e,
                            bool quoted, bool tight) {
    struct buf b = buf_new(p->arena);
    add_key(&b, key, quoted);
    if (!tight) buf_byte(&b, ' ');
    if (!e->children) {
        buf_add(&b, config_patch_quoted(p, e, e->value));
        return buf_str(&b);
    }
    buf_byte(&b, '{');
    for (int i = 0; i < e->child_count; i++) {
        if (i) buf_add(&b, STR(", "));
        buf_add(&b, flow_pair(p, e->children[i].path, &e->children[i], quoted, false));
    }
    buf_byte(&b, '}');
    return buf_str(&b);
}

// Blanks by which the file's maps step in; the first nested block map decides.
static ptrdiff_t indent_step(const struct config_node *map) {
    for (ptrdiff_t i = 0; i + 1 < map->count; i += 2) {
        const struct config_node *value = map->items[i + 1];
        if (value->kind == NODE_MAP && !value->flow && value->count &&
            value->items[0]->column > map->items[i]->column) {
            return value->items[0]->column - map->items[i]->column;
        }
    }
    return 2;
}

static void block_pair(struct patch *p, struct buf *b, struct str key, const struct config_edit *e,
                       ptrdiff_t indent, ptrdiff_t step, struct str ending, bool quoted) {
    blanks(b, indent);
    add_key(b, key, quoted);
    if (!e->children) {
        buf_byte(b, ' ');
        buf_add(b, config_patch_quoted(p, e, e->value));
        return;
    }
    for (int i = 0; i < e->child_count; i++) {
        buf_add(b, ending);
        blanks(b, indent + step);
        add_key(b, e->children[i].path, quoted);
        buf_byte(b, ' ');
        buf_add(b, config_patch_quoted(p, &e->children[i], e->children[i].value));
    }
}

// Whether the pairs of this map stand apart with blank lines between them.
static bool is_airy(const struct config *c, const struct config_node *map) {
    for (ptrdiff_t i = 2; i + 1 < map->count; i += 2) {
        ptrdiff_t end = pair_end(c, &map->items[i - 2]);
        ptrdiff_t line = config_bytes_line_end(c->text, end);
        struct str ending = config_bytes_ending(c->text, line);
        if (config_bytes_ending(c->text, line + ending.len).len == 0) return false;
    }
    return map->count > 2;
}

static bool ends_in_block_scalar(const struct config_node *n) {
    while ((n->kind == NODE_MAP || n->kind == NODE_LIST) && !n->flow && n->count > 0) {
        n = n->items[n->count - 1];
    }
    return n->kind == NODE_SCALAR && (n->style == STYLE_LITERAL || n->style == STYLE_FOLDED);
}

static int insert_block(struct patch *p, struct config_node *map, struct str key,
                        const struct config_edit *e) {
    const struct config *c = p->config;
    struct config_node **pair = pair_after(map, e->after);
    const struct config_node *model = pair[0];
    if (indentation(c, model) < 0) model = map->items[map->count > 2 ? 2 : 0];
    const ptrdiff_t indent = indentation(c, model);
    ptrdiff_t at = pair_end(c, pair);
    if (indent < 0 || at < 0) return no_place(p, map, key);
    // A block scalar ends behind its last line, everything else somewhere in it.
    const bool behind_line = at > 0 && (c->text.p[at - 1] == '\n' || c->text.p[at - 1] == '\r');
    if (!behind_line) at = config_bytes_line_end(c->text, at);
    struct str ending = behind_line ? (struct str){0} : config_bytes_ending(c->text, at);
    at += ending.len;
    struct str like = ending;
    if (!like.len)
        like = config_bytes_ending_before(c->text,
                                          behind_line ? at : config_bytes_line_begin(c->text, at));
    if (!like.len) like = STR("\n");
    struct buf b = buf_new(p->arena);
    const bool quoted = pair[0]->style == STYLE_DOUBLE;
    const bool open_end = !ending.len && !behind_line; // the file does not end with a line ending
    // A block scalar without a line end behind it has none in its text either, and would get one.
    if (open_end && ends_in_block_scalar(pair[1])) return no_place(p, map, key);
    if (open_end) buf_add(&b, like);
    if (e->children && is_airy(c, map)) buf_add(&b, like);
    block_pair(p, &b, key, e, indent, indent_step(map), like, quoted);
    if (!open_end) buf_add(&b, like);
    config_patch_splice(p, at, at, buf_str(&b));
    return 0;
}

static ptrdiff_t skip_blanks(struct str text, ptrdiff_t at) {
    while (at < text.len && (text.p[at] == ' ' || text.p[at] == '\t')) at++;
    return at;
}

// Blanks (and tabs, in JSON) in front of the key when it is the first of its line.
static bool starts_line(const struct config *c, const struct config_node *key,
                        struct str *ret_indent) {
    ptrdiff_t begin = config_node_outer_begin(key), line = config_bytes_line_begin(c->text, begin);
    if (skip_blanks(c->text, line) != begin || line == 0) return false;
    *ret_indent = str_slice(c->text, line, begin);
    return true;
}

static int insert_flow(struct patch *p, struct config_node *map, struct str key,
                       const struct config_edit *e) {
    const struct config *c = p->config;
    struct config_node **pair = pair_after(map, e->after);
    const ptrdiff_t at = pair_end(c, pair);
    if (at < 0) return no_place(p, map, key);
    const bool quoted = pair[0]->style == STYLE_DOUBLE;
    const ptrdiff_t key_end = config_node_outer_end(c, pair[0]);
    const bool tight = quoted && key_end + 1 == config_node_outer_begin(pair[1]);
    struct str text = flow_pair(p, key, e, quoted, tight), indent;
    if (!starts_line(c, pair[0], &indent)) {
        const ptrdiff_t comma = map->count > 2 ? config_node_outer_end(c, map->items[1]) : -1;
        const bool no_blank = tight && (comma < 0 || c->text.p[comma + 1] != ' ');
        config_patch_splice(p, at, at,
                            str_format(p->arena, ",%s%.*s", no_blank ? "" : " ", STR_ARG(text)));
        return 0;
    }
    const struct str ending = config_bytes_ending_before(
        c->text, config_bytes_line_begin(c->text, config_node_outer_begin(pair[0])));
    const ptrdiff_t comma = skip_blanks(c->text, at);
    const bool has_comma = comma < c->text.len && c->text.p[comma] == ',';
    const ptrdiff_t rest = skip_blanks(c->text, has_comma ? comma + 1 : at);
    const bool line_ends = rest >= c->text.len || strchr("\r\n#", c->text.p[rest]);
    const ptrdiff_t line_end = line_ends ? config_bytes_line_end(c->text, rest) : at;
    if (has_comma && line_ends) {
        config_patch_splice(
            p, line_end, line_end,
            str_format(p->arena, "%.*s%.*s%.*s,", STR_ARG(ending), STR_ARG(indent), STR_ARG(text)));
        return 0;
    }
    struct str line =
        str_format(p->arena, "%.*s%.*s%.*s", STR_ARG(ending), STR_ARG(indent), STR_ARG(text));
    config_patch_splice(p, at, at, STR(","));
    config_patch_splice(p, line_end, line_end, line);
    return 0;
}

int config_patch_insert(struct patch *p, struct config_node *map, struct str key,
                        const struct config_edit *e) {
    for (int i = 0; i < e->child_count; i++) {
        if (!config_scalar_is_key(e->children[i].path))
            return no_place(p, map, e->children[i].path);
    }
    if (map->kind != NODE_MAP || map->count == 0 || !config_scalar_is_key(key))
        return no_place(p, map, key);
    int status = map->flow ? insert_flow(p, map, key, e) : insert_block(p, map, key, e);
    if (status) return status;
    const struct insertion in = {map, key, e};
    *arena_push(p->arena, &p->insertions, &p->insertion_count, &p->insertion_capacity) = in;
    struct str text = e->children ? STR("{…}") : config_patch_quoted(p, e, e->value);
    config_patch_change(p, pair_after(map, e->after)[0]->line, e->path, STR("(new)"), text);
    return 0;
}
