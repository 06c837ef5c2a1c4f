// SPDX-License-Identifier: Apache-2.0
// Text -> tree, from libfyaml's events (0.7.12), which carry byte offsets of the raw input, byte
// order mark, CRLF and Korean included. Aliases are noted, never expanded, so an alias bomb costs
// what its text costs. What libfyaml lets pass and a trainer would not (anchors defined twice,
// unknown aliases, a second document) is refused here.

#include "records/config/tree_int.h"

#include <jansson.h>
#include <libfyaml.h>
#include <string.h>

// PyYAML and OmegaConf recurse a few Python frames a level and stop at 1000 frames.
enum { DEPTH_MAX = 200 };

// Names -> nodes, open addressing.
struct names {
    struct arena *arena;
    struct {
        struct str name;
        struct config_node *node;
    } * slots;
    ptrdiff_t size, used;
};

static void names_put(struct names *t, struct str name, struct config_node *node);

static void names_grow(struct names *t) {
    struct names bigger = {.arena = t->arena, .size = t->size ? t->size * 2 : 16};
    bigger.slots =
        arena_alloc(t->arena, (ptrdiff_t)sizeof *bigger.slots, _Alignof(max_align_t), bigger.size);
    for (ptrdiff_t i = 0; i < t->size; i++) {
        if (t->slots[i].node) names_put(&bigger, t->slots[i].name, t->slots[i].node);
    }
    *t = bigger;
}

static ptrdiff_t names_slot(const struct names *t, struct str name) {
    ptrdiff_t i = (ptrdiff_t)(str_hash(name) & (uint64_t)(t->size - 1));
    while (t->slots[i].node && !str_equal(t->slots[i].name, name)) i = (i + 1) & (t->size - 1);
    return i;
}

static struct config_node *names_get(const struct names *t, struct str name) {
    return t->size ? t->slots[names_slot(t, name)].node : NULL;
}

static void names_put(struct names *t, struct str name, struct config_node *node) {
    if (t->used * 2 >= t->size) names_grow(t);
    ptrdiff_t i = names_slot(t, name);
    if (!t->slots[i].node) t->used++;
    t->slots[i].name = name;
    t->slots[i].node = node;
}

struct parse {
    struct arena *arena;
    struct config *config;
    struct fail *why;
    struct fy_parser *parser;
    struct names anchors;
    // Collections that have begun and not ended, and the nodes in them: one row, of which each
    // has what follows `first`.
    struct open {
        struct config_node *node;
        ptrdiff_t first;
    } open[DEPTH_MAX];
    int depth;
    struct arena scratch; // for the row
    struct config_node **row;
    ptrdiff_t row_count, row_capacity;
    struct config_node **scalars; // only where there is a tab to look for
    ptrdiff_t scalar_count, scalar_capacity;
    bool has_tab;
    int documents;
    node_visitor *each; // instead of a tree
    void *self;
};

static struct str token_text(struct arena *a, const struct config *c, struct fy_token *token) {
    size_t len = 0;
    const char *text = token ? fy_token_get_text(token, &len) : NULL;
    if (!text) return (struct str){0};
    struct str view = {text, (ptrdiff_t)len};
    // Most texts are the file's own bytes.
    bool is_ours = text >= c->text.p && text + len <= c->text.p + c->text.len;
    return is_ours ? view : str_copy(a, view);
}

static ptrdiff_t token_end(struct fy_token *token) {
    const struct fy_mark *mark = token ? fy_token_end_mark(token) : NULL;
    return mark ? (ptrdiff_t)mark->input_pos : -1;
}

static enum node_style style_of(struct fy_token *token) {
    if (!token) return STYLE_EMPTY;
    switch (fy_token_scalar_style(token)) {
    case FYSS_SINGLE_QUOTED:
        return STYLE_SINGLE;
    case FYSS_DOUBLE_QUOTED:
        return STYLE_DOUBLE;
    case FYSS_LITERAL:
        return STYLE_LITERAL;
    case FYSS_FOLDED:
        return STYLE_FOLDED;
    default:
        return STYLE_PLAIN;
    }
}

// Where the value of a key without one would be written: behind the colon, or behind an anchor or
// tag that stands there.
static ptrdiff_t empty_place(const struct config *c, const struct config_node *key,
                             ptrdiff_t behind_properties) {
    if (behind_properties >= 0) return behind_properties;
    if (!key || key->kind != NODE_SCALAR || key->begin < 0) return -1;
    ptrdiff_t at = config_node_outer_end(c, key);
    while (at < c->text.len && (c->text.p[at] == ' ' || c->text.p[at] == '\t')) at++;
    return at < c->text.len && c->text.p[at] == ':' ? at + 1 : -1;
}

static struct config_node *key_waiting(const struct parse *p) {
    if (p->depth == 0 || p->open[p->depth - 1].node->kind != NODE_MAP) return NULL;
    const ptrdiff_t count = p->row_count - p->open[p->depth - 1].first;
    return count % 2 == 1 ? p->row[p->row_count - 1] : NULL;
}

static void place_node(struct parse *p, struct config_node *n, const struct fy_mark *begin,
                       const struct fy_mark *end, ptrdiff_t behind_properties) {
    if (begin && end) {
        n->begin = (int)begin->input_pos;
        n->end = (int)end->input_pos;
        n->line = begin->line + 1;
        n->column = begin->column + 1;
        return;
    }
    const struct config_node *key = key_waiting(p);
    n->begin = n->end = (int)empty_place(p->config, key, behind_properties);
    if (key) {
        n->line = key->line;
        n->column = key->column;
    }
}

// A plain scalar of one line says what its bytes say, which libfyaml would copy one by one.
static struct str scalar_text(struct parse *p, const struct config_node *n,
                              struct fy_token *token) {
    const struct str bytes =
        n->begin >= 0 ? str_slice(p->config->text, n->begin, n->end) : (struct str){0};
    bool is_plain = n->style == STYLE_PLAIN && bytes.len > 0;
    for (ptrdiff_t i = 0; i < bytes.len && is_plain; i++)
        is_plain = bytes.p[i] >= ' ' && bytes.p[i] <= '~';
    return is_plain ? bytes : token_text(p->arena, p->config, token);
}

static struct config_node *node_begin(struct parse *p, struct fy_event *event) {
    struct config_node *n = arena_new(p->arena, struct config_node, 1);
    struct fy_token *token = fy_event_get_token(event);
    struct fy_token *anchor = fy_event_get_anchor_token(event),
                    *tag = fy_event_get_tag_token(event);
    ptrdiff_t behind = token_end(anchor) > token_end(tag) ? token_end(anchor) : token_end(tag);
    if ((anchor && event->type != FYET_ALIAS) || tag) {
        n->rare = arena_new(p->arena, struct config_rare, 1);
        if (event->type != FYET_ALIAS) n->rare->anchor = token_text(p->arena, p->config, anchor);
        n->rare->tag = token_text(p->arena, p->config, tag);
    }
    place_node(p, n, token || event->type == FYET_ALIAS ? fy_event_start_mark(event) : NULL,
               fy_event_end_mark(event), behind);
    switch (event->type) {
    case FYET_MAPPING_START:
        n->kind = NODE_MAP;
        break;
    case FYET_SEQUENCE_START:
        n->kind = NODE_LIST;
        break;
    case FYET_ALIAS:
        n->kind = NODE_ALIAS;
        n->text = token_text(p->arena, p->config, token);
        break;
    default:
        n->kind = NODE_SCALAR;
        n->style = style_of(token);
        n->text = scalar_text(p, n, token);
    }
    n->flow = (n->kind == NODE_MAP || n->kind == NODE_LIST) &&
              fy_event_get_node_style(event) == FYNS_FLOW;
    return n;
}

static int register_anchor(struct parse *p, struct config_node *n) {
    if (n->kind == NODE_ALIAS) {
        n->target = names_get(&p->anchors, n->text);
        if (n->target) return 0;
        config_bytes_fail(p->config, n->begin, p->why, "undefined alias *%.*s", STR_ARG(n->text));
        return fail_hint(p->why, "define it above: key: &%.*s value", STR_ARG(n->text));
    }
    const struct str anchor = config_node_anchor(n);
    if (!anchor.p) return 0;
    const struct config_node *first = names_get(&p->anchors, anchor);
    if (first) {
        return config_bytes_fail(
            p->config, n->begin, p->why,
            "anchor &%.*s is defined twice, first in line %d; PyYAML rejects that", STR_ARG(anchor),
            first->line);
    }
    names_put(&p->anchors, anchor, n);
    return 0;
}

static int node_open(struct parse *p, struct config_node *n) {
    if (p->depth == DEPTH_MAX) {
        return config_bytes_fail(p->config, n->begin, p->why, "nested deeper than %d levels",
                                 DEPTH_MAX);
    }
    p->open[p->depth++] = (struct open){n, p->row_count};
    return 0;
}

static int node_add(struct parse *p, struct config_node *n) {
    n->is_key = p->depth > 0 && p->open[p->depth - 1].node->kind == NODE_MAP && !key_waiting(p);
    if (p->depth == 0)
        p->config->root = n;
    else
        *arena_push(&p->scratch, &p->row, &p->row_count, &p->row_capacity) = n;
    int status = register_anchor(p, n);
    if (status) return status;
    if (p->has_tab && n->kind == NODE_SCALAR && n->begin >= 0) {
        *arena_push(p->arena, &p->scalars, &p->scalar_count, &p->scalar_capacity) = n;
    }
    return n->kind == NODE_SCALAR || n->kind == NODE_ALIAS ? 0 : node_open(p, n);
}

static int check_merge(struct parse *p, const struct config_node *value) {
    const struct config_node *base = config_node_follow((struct config_node *)value);
    bool good = base->kind == NODE_MAP;
    if (base->kind == NODE_LIST) {
        good = true;
        for (ptrdiff_t i = 0; i < base->count; i++) {
            good = good && config_node_follow(base->items[i])->kind == NODE_MAP;
        }
    }
    if (good) return 0;
    return config_bytes_fail(p->config, value->begin, p->why,
                             "a merge (<<) of something other than a map");
}

// The first key that is there twice, to speak of.
static struct config_repeated *note_repeated(struct parse *p, const struct config_node *map,
                                             ptrdiff_t at) {
    struct config_repeated *r = arena_new(p->arena, struct config_repeated, 1);
    const struct config_node *key = map->items[at];
    *r = (struct config_repeated){.key = key->text, .line = key->line, .column = key->column};
    for (ptrdiff_t i = 0; i < at && r->first == 0; i += 2) {
        const struct config_node *earlier = map->items[i];
        if (earlier->is_replaced && str_equal(earlier->text, key->text)) r->first = earlier->line;
    }
    return r;
}

static int check_map(struct parse *p, struct config_node *map) {
    config_index_build(p->arena, map);
    for (ptrdiff_t i = 0; i + 1 < map->count && !p->config->repeated; i += 2) {
        if (map->items[i]->replaces) p->config->repeated = note_repeated(p, map, i);
    }
    const struct config_repeated *twice = p->config->repeated;
    if (twice && str_is(twice->key, "<<")) return config_refuse_repeated(p->config, p->why);
    if (!map->merges || p->config->format != CONFIG_YAML) return 0;
    int status = 0;
    for (ptrdiff_t i = 0; i + 1 < map->count && !status; i += 2) {
        if (config_node_is_merge(map->items[i])) status = check_merge(p, map->items[i + 1]);
    }
    return status;
}

static int node_end(struct parse *p, struct fy_event *event) {
    if (p->depth == 0) return 0; // libfyaml ends only what it has begun
    const struct open *top = &p->open[--p->depth];
    struct config_node *n = top->node;
    const struct fy_mark *end = fy_event_end_mark(event);
    if (n->flow && end) n->end = (int)end->input_pos;
    n->count = (int)(p->row_count - top->first);
    n->items = arena_new(p->arena, struct config_node *, n->count);
    if (n->count > 0) memcpy(n->items, p->row + top->first, (size_t)n->count * sizeof *n->items);
    p->row_count = top->first;
    return n->kind == NODE_MAP ? check_map(p, n) : 0;
}

static int visit(struct parse *p, struct fy_event *event) {
    const bool ends = event->type == FYET_MAPPING_END || event->type == FYET_SEQUENCE_END;
    const struct arena_mark mark = arena_mark(p->arena);
    const int status = p->each(p->self, ends ? NULL : node_begin(p, event), ends);
    arena_rewind(p->arena, mark);
    return status;
}

static int take_event(struct parse *p, struct fy_event *event) {
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (p->documents++ == 0) return 0;
        const struct fy_mark *mark = fy_event_start_mark(event);
        config_bytes_fail(p->config, mark ? (ptrdiff_t)mark->input_pos : p->config->text.len,
                          p->why, "a second document (after --- or ...), expected one");
        return fail_hint(p->why, "trainers load one document per file: split it");
    case FYET_SCALAR:
    case FYET_ALIAS:
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        return p->each ? visit(p, event) : node_add(p, node_begin(p, event));
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return p->each ? visit(p, event) : node_end(p, event);
    default:
        return 0;
    }
}

// libfyaml's own complaint, with the place, and what the line may have meant.
static int syntax_error(struct parse *p, struct fy_diag *diag) {
    void *iterator = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &iterator);
    const struct config *c = p->config;
    if (error) {
        fail_set(p->why, FAIL_INPUT, "%.*s:%d:%d: not YAML: %.300s", STR_ARG(c->name), error->line,
                 error->column, error->msg);
    } else {
        fail_set(p->why, FAIL_INPUT, "%.*s:1:1: not YAML", STR_ARG(c->name));
    }
    struct str hint = config_bytes_hint(p->arena, c->text, (struct str){0});
    if (error && strstr(error->msg, "tab")) hint = STR("replace the tab with spaces");
    if (str_find(c->text, STR("{%")) >= 0 || str_find(c->text, STR("{{")) >= 0) {
        hint = STR("this is a template: give the file made from it");
    }
    return hint.len ? fail_hint(p->why, "%.*s", STR_ARG(hint)) : FAIL_INPUT;
}

static int parse_events(struct parse *p, struct fy_diag *diag) {
    struct fy_event *event;
    while ((event = fy_parser_parse(p->parser))) {
        int status = take_event(p, event);
        fy_parser_event_free(p->parser, event);
        if (status) return status;
    }
    if (fy_parser_get_stream_error(p->parser)) return syntax_error(p, diag);
    return 0;
}

static int parse_yaml(struct parse *p) {
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    quiet.colorize = false;
    struct fy_diag *diag = fy_diag_create(&quiet);
    // Sloppy flow: PyYAML accepts a closing bracket in column 0. Duplicate keys are ours to report,
    // with both lines.
    const struct fy_parse_cfg settings = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_SLOPPY_FLOW_INDENTATION |
                 FYPCF_ALLOW_DUPLICATE_KEYS | FYPCF_JSON_NONE,
        .diag = diag,
    };
    fy_diag_set_collect_errors(diag, true);
    p->parser = fy_parser_create(&settings);
    const struct config *c = p->config;
    int status = fy_parser_set_string(p->parser, c->text.p, (size_t)c->text.len);
    status =
        status ? fail_set(p->why, FAIL_BUG, "cannot start the YAML parser") : parse_events(p, diag);
    fy_parser_destroy(p->parser);
    fy_diag_destroy(diag);
    return status;
}

static int check_json(const struct config *c, struct fail *why) {
    json_error_t error;
    if (config_json_is_plain(c->text)) return 0;
    json_t *value = json_loadb(c->text.p, (size_t)c->text.len, JSON_DECODE_ANY, &error);
    if (value) {
        json_decref(value);
        return 0;
    }
    fail_set(why, FAIL_INPUT, "%.*s:%d:%d: not JSON: %s", STR_ARG(c->name), error.line,
             error.column, error.text);
    if (str_starts(c->text, STR("\xef\xbb\xbf")))
        return fail_hint(why, "it begins with a byte order mark: save it as UTF-8 without one");
    return fail_hint(why, "JSON allows no comments and no comma before a closing bracket");
}

static int check_root(const struct config *c, struct arena *a, struct fail *why) {
    if (!c->root || (c->root->kind == NODE_SCALAR && c->root->begin < 0)) {
        return fail_set(why, FAIL_INPUT, "%.*s:1:1: only comments, expected a training config",
                        STR_ARG(c->name));
    }
    if (c->root->kind == NODE_MAP || (c->is_group && c->root->kind == NODE_LIST)) return 0;
    config_bytes_fail(c, c->root->begin, why, "expected keys with values (key: value), not one %s",
                      c->root->kind == NODE_LIST ? "list" : "text");
    struct str hint = config_bytes_hint(a, c->text, (struct str){0});
    return hint.len ? fail_hint(why, "%.*s", STR_ARG(hint)) : FAIL_INPUT;
}

// Nodes of the tree with every alias written out, as a trainer that resolves them would see it.
static double expanded(struct config_node *n) {
    const bool is_anchor = n->rare && n->rare->anchor.p;
    if (is_anchor && n->rare->expanded > 0) return n->rare->expanded;
    if (is_anchor) n->rare->expanded = 1; // also stops at an anchor that contains itself
    double sum = 1;
    if (n->kind == NODE_ALIAS) return n->target ? sum + expanded(n->target) : sum;
    for (int i = 0; i < n->count; i++) sum += expanded(n->items[i]);
    if (is_anchor) n->rare->expanded = sum;
    return sum;
}

// Ten lists of ten aliases each are a gigabyte to whoever expands them.
static int check_bomb(const struct config *c, struct fail *why) {
    if (!c->root) return 0;
    const double values = expanded(c->root);
    if (values <= CONFIG_MAX_BYTES) return 0;
    return config_bytes_fail(c, c->root->begin < 0 ? 0 : c->root->begin, why,
                             "the aliases expand to %.0f values, expected fewer than %d", values,
                             CONFIG_MAX_BYTES);
}

static int parse_own(struct arena *a, struct config *c, struct fail *why) {
    int status = c->format == CONFIG_JSON ? check_json(c, why) : 0;
    struct parse p = {.arena = a, .config = c, .why = why, .anchors = {.arena = a}};
    p.has_tab = memchr(c->text.p, '\t', (size_t)c->text.len);
    p.scratch.escape = a->escape;
    if (!status) status = parse_yaml(&p);
    arena_clear(&p.scratch);
    if (!status) status = check_root(c, a, why);
    if (!status) status = check_bomb(c, why);
    if (!status) c->unwritable = config_bytes_unwritable(a, c, p.scalars, p.scalar_count);
    return status;
}

static int parse_data(struct arena *a, datum_reader *read, const struct datum_loader *loader,
                      struct config *c, struct fail *why) {
    struct datum_source source = {.name = c->name, .text = c->text, .loader = loader};
    const struct datum *root = NULL;
    int status = read(a, &source, &root, why);
    c->files = source.files;
    c->notes = source.notes;
    return !status && root ? config_data_tree(a, root, c, why) : status;
}

int config_parse_with(struct arena *a, struct str name, struct str text,
                      const struct datum_loader *loader, struct config *ret_config,
                      struct fail *why) {
    static datum_reader *const readers[] = {[CONFIG_PYTHON] = datum_python_read,
                                            [CONFIG_TOML] = datum_toml_read,
                                            [CONFIG_SHELL] = datum_shell_read,
                                            [CONFIG_FOREIGN] = NULL};
    struct config c = {.name = name, .text = text, .format = config_bytes_format(name, text)};
    struct fail unheard;
    if (!why) why = &unheard;
    int status = config_bytes_check(&c, why);
    if (!status && readers[c.format])
        status = parse_data(a, readers[c.format], loader, &c, why);
    else if (!status && c.format != CONFIG_FOREIGN)
        status = parse_own(a, &c, why);
    if (!status && c.format != CONFIG_FOREIGN)
        status = config_layers_read(a, loader, parse_own, &c, why);
    if (!status) *ret_config = c;
    return status;
}

int config_parse(struct arena *a, struct str name, struct str text, struct config *ret_config,
                 struct fail *why) {
    return config_parse_with(a, name, text, NULL, ret_config, why);
}

int config_refuse_repeated(const struct config *c, struct fail *why) {
    const struct config_repeated *r = c->repeated;
    if (!r) return 0;
    fail_set(why, FAIL_INPUT, "%.*s:%d:%d: key '%.*s' is duplicated, first in line %d",
             STR_ARG(c->name), r->line, r->column, (int)(r->key.len < 100 ? r->key.len : 100),
             r->key.p, r->first);
    if (r->first == r->line) return fail_hint(why, "delete one of the two");
    return fail_hint(why, "delete line %d or %d", r->first, r->line);
}

int config_nodes_visit(struct arena *a, struct config *config, node_visitor *each, void *self,
                       struct fail *why) {
    struct parse p = {.arena = a, .config = config, .why = why, .each = each, .self = self};
    int status = config_bytes_check(config, why);
    if (!status && config->format == CONFIG_JSON) status = check_json(config, why);
    return status ? status : parse_yaml(&p);
}
