// SPDX-License-Identifier: Apache-2.0
// Guards: settings that change what memory a training needs and that nothing here counts, such as
// LoRA, ZeRO or DPO. Which they are stands in data/dialects.tsv, in rows of two kinds: the
// dialect's own, which come first, and those of the dialect "*" for every file, which say nothing
// of a key that the dialect's own rows of the kind name. Some kinds are one choice ("choice" of
// "*"): a dialect that has rows of one is the only one to speak of it: in Axolotl "adapter"
// decides, and a lora_r that was left in the file says nothing. In files that are not parsed
// (Python, TOML, shell) lines that assign and options of commands are read.
#include "records/config/dialect_int.h"

#include "base/out.h"

#include <string.h>

enum {
    DEPTH = 3,     // of a map that is looked into: aliases may lead in a circle
    VALUE_MAX = 60 // bytes of a value that are shown
};

// --- Off -----------------------------------------------------------------------------------------

static bool is_off_word(struct str text) {
    static const char *const words[] = {"",        "none",     "null", "no", "off", "false",
                                        "disable", "disabled", "0",    "[]", "{}",  NULL};
    return str_is_one_of_nocase(str_trim(text), words);
}

static bool is_off(const struct config *c, struct config_node *node, int depth);

// A map says it by its switch; without one it is off when everything in it is, as the fsdp_config
// that Transformers writes into every record of its arguments.
static bool is_map_off(const struct config *c, struct config_node *map, int depth) {
    static const char *const switches[] = {"enabled", "enable", "use", NULL};
    for (int i = 0; switches[i]; i++) {
        struct config_node *value = config_map_find(map, str_of(switches[i]), true).value;
        if (value) return is_off(c, value, depth + 1);
    }
    for (ptrdiff_t i = 1; i < map->count; i += 2) {
        if (!is_off(c, map->items[i], depth + 1)) return false;
    }
    return true;
}

static bool is_off(const struct config *c, struct config_node *node, int depth) {
    struct config_node *n = config_node_follow(node);
    if (depth > DEPTH || config_node_is_template(n)) return false;
    if (n->kind == NODE_MAP) return is_map_off(c, n, depth);
    if (n->kind == NODE_LIST) {
        for (ptrdiff_t i = 0; i < n->count; i++) {
            if (!is_off(c, n->items[i], depth + 1)) return false;
        }
        return true;
    }
    const struct scalar s = config_scalar_read(c, n);
    if (s.type == CONFIG_INT || s.type == CONFIG_FLOAT) return s.number == 0;
    if (s.type == CONFIG_BOOL) return !s.boolean;
    return s.type == CONFIG_NULL || is_off_word(n->text);
}

// --- Names ---------------------------------------------------------------------------------------

static bool contains(struct arena *a, struct str text, struct str needle) {
    char *low = str_z(a, text);
    for (char *p = low; *p; p++) *p = str_lower(*p);
    return str_find(str_of(low), needle) >= 0;
}

// Whether a case of the table is the setting's: "*", "~part of KEY: VALUE", ">N", or the value.
static bool holds_case(struct arena *a, struct str when, struct str key, struct str text,
                       const struct scalar *s) {
    int64_t than;
    if (str_is(when, "*")) return true;
    if (str_starts(when, STR("~"))) {
        return contains(a, str_format(a, "%.*s: %.*s", STR_ARG(key), STR_ARG(text)),
                        str_slice(when, 1, when.len));
    }
    if (str_starts(when, STR(">")) && str_to_i64(str_slice(when, 1, when.len), &than))
        return (s->type == CONFIG_INT || s->type == CONFIG_FLOAT) && s->number > (double)than;
    return str_equal_nocase(when, text);
}

unsigned config_trait_find(struct str word) {
    static const struct {
        const char *word;
        enum config_trait trait;
    } words[] = {{"embeddings", CONFIG_EMBEDDINGS},
                 {"negatives", CONFIG_NEGATIVES},
                 {"masked", CONFIG_MASKED},
                 {"several-sizes", CONFIG_SEVERAL_SIZES},
                 {"around", CONFIG_AROUND},
                 {"of-name", CONFIG_OF_NAME},
                 {"few", CONFIG_FEW},
                 {"beside-adapter", CONFIG_BESIDE_ADAPTER},
                 {"wide", CONFIG_WIDE},
                 {"all-logits", CONFIG_ALL_LOGITS}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(word, words[i].word)) return words[i].trait;
    return 0;
}

// "embeddings of texts [embeddings]": the name, and what it means.
static void take_name(struct config_guard *g, struct str name) {
    const ptrdiff_t at = str_find(name, STR(" ["));
    struct str words = at < 0 ? (struct str){0} : str_slice(name, at + 2, name.len - 1);
    g->what = at < 0 ? name : str_slice(name, 0, at);
    while (words.len > 0) g->traits |= config_trait_find(str_cut(&words, ' '));
}

// "lora=LoRA | full= | *=an adapter ({})": by the name of the first case that holds; none: it says
// nothing. A first case "off" is of a setting that changes something by being off; others say
// nothing then.
static void name_guard(struct arena *a, struct str cases, struct str key, struct str text,
                       const struct scalar *s, bool is_off, struct config_guard *g) {
    const bool has_off = str_starts(cases, STR("off="));
    if (is_off && !has_off) return;
    if (has_off) {
        struct str name = str_trim(str_cut(&cases, '|'));
        if (is_off) {
            take_name(g, str_slice(name, 4, name.len));
            return;
        }
    }
    while (cases.len > 0) {
        struct str name = str_trim(str_cut(&cases, '|')), when = str_cut(&name, '=');
        if (!holds_case(a, when, key, text, s)) continue;
        take_name(g, name);
        const ptrdiff_t hole = str_find(g->what, STR("{}"));
        if (hole < 0) return;
        g->what = str_format(a, "%.*s%.*s%.*s", (int)hole, g->what.p, STR_ARG(text),
                             (int)(g->what.len - hole - 2), g->what.p + hole + 2);
        return;
    }
}

// --- Places --------------------------------------------------------------------------------------

// "a.b" from the top, or that of the section, "**.a.b" anywhere; the entry has the last key.
static bool is_at(const struct scope *s, const struct entry *e, struct str pattern) {
    const bool anywhere = str_starts(pattern, STR("**."));
    if (anywhere) pattern = str_slice(pattern, 3, pattern.len);
    const struct str above = str_before_last(pattern, '.');
    const bool is_below = s->prefix.len > 0 && str_starts(e->path, s->prefix);
    const struct str rest = str_slice(e->path, is_below ? s->prefix.len : 0, e->path.len);
    const struct str path =
        is_below && str_starts(rest, STR(".")) ? str_slice(rest, 1, rest.len) : e->path;
    if (!anywhere || str_equal(path, above)) return str_equal(path, above) || above.len == 0;
    return above.len == 0 ||
           (str_ends(e->path, above) && e->path.p[e->path.len - above.len - 1] == '.');
}

// What a section does not say may stand at the top for all of them.
static bool is_asked(const struct reader *r, const struct entry *e) {
    return (!e->evaluation || r->options->inference) &&
           (config_scope_holds(&r->scope, e) || e->path.len == 0);
}

// One line of a value, and not too much of it.
static struct str shown(struct str text) {
    ptrdiff_t end = 0;
    while (end < text.len && end < VALUE_MAX && (unsigned char)text.p[end] >= ' ') end++;
    return clean_cut(text, end);
}

// Of a kind, a setting is named once, and a map not beside what stands in it.
static bool is_named(const struct reader *r, const struct config_guard *g) {
    for (ptrdiff_t i = 0; i < r->reading->guard_count; i++) {
        const struct config_guard *other = &r->reading->guards[i];
        if (!str_equal(other->kind, g->kind)) continue;
        if (str_starts(other->what, g->what) ||
            (other->path.len > g->path.len && str_starts(other->path, g->path) &&
             other->path.p[g->path.len] == '.'))
            return true;
    }
    return false;
}

const struct config_guard *config_guard_of(const struct config_reading *r, const char *kind) {
    for (ptrdiff_t i = 0; i < r->guard_count; i++)
        if (str_is(r->guards[i].kind, kind)) return &r->guards[i];
    return NULL;
}

void config_add_guard(struct arena *a, struct config_reading *r, struct config_guard g) {
    *arena_push(a, &r->guards, &r->guard_count, &r->guard_capacity) = g;
}

void config_keep_guards(struct config_reading *r, config_guard_rule *keeps, void *context) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < r->guard_count; i++)
        if (keeps(context, &r->guards[i])) r->guards[kept++] = r->guards[i];
    r->guard_count = kept;
}

static void add_guard(struct reader *r, const struct guard_row *row, const struct entry *e) {
    struct config_node *n =
        config_node_follow(config_node_referenced(r->arena, r->config, e->value));
    const struct scalar s = config_scalar_read(r->config, n);
    const struct str text = config_node_text(r->arena, n, ' ');
    struct config_guard g = {.kind = row->kind,
                             .path = config_path_join(r->arena, e->path, e->key->text),
                             .value = shown(n->kind == NODE_SCALAR ? text : (struct str){0}),
                             .line = e->key->line};
    name_guard(r->arena, row->cases, e->key->text, text, &s, is_off(r->config, n, 0), &g);
    if (e->value->file > 0) g.file = r->config->files.items[e->value->file - 1];
    if (g.what.len > 0 && !is_named(r, &g)) config_add_guard(r->arena, r->reading, g);
}

static struct str_list patterns_of(struct arena *a, const struct guard_row *row) {
    struct str places = row->places;
    struct str_list patterns = {0};
    while (places.len > 0) config_braces_expand(a, str_cut(&places, ' '), &patterns);
    return patterns;
}

static bool has_place(const struct reader *r, const struct guard_row *row, const struct entry *e) {
    const struct str_list patterns = patterns_of(r->arena, row);
    for (ptrdiff_t i = 0; i < patterns.count; i++)
        if (str_equal(str_last(patterns.items[i], '.'), e->key->text) &&
            is_at(&r->scope, e, patterns.items[i]))
            return true;
    return false;
}

// Do the dialect's own rows of the kind speak of this key?
static bool is_own(const struct reader *r, const struct guard_row *row, const struct entry *e) {
    const struct dialect *own = r->dialect;
    for (ptrdiff_t i = 0; i < own->guard_count; i++) {
        const struct guard_row *other = &own->guards[i];
        if (str_equal(other->kind, row->kind) && has_place(r, other, e)) return true;
    }
    return false;
}

// The places in their order: the first whose key is in the file decides, wherever it stands, also
// when it says off.
static void read_row(struct reader *r, const struct scope *s, const struct guard_row *row,
                     bool is_every) {
    const struct str_list patterns = patterns_of(r->arena, row);
    bool found = false;
    for (ptrdiff_t i = 0; i < patterns.count && !found; i++) {
        const struct entry *e = config_scope_first(s, str_last(patterns.items[i], '.'));
        for (; e; e = config_scope_next(s, e)) {
            if (!is_at(s, e, patterns.items[i]) || !is_asked(r, e)) continue;
            found = true;
            if (!is_every || !is_own(r, row, e)) add_guard(r, row, e);
        }
    }
}

// --- Files that are not parsed -------------------------------------------------------------------

static bool is_word(char c) {
    return str_is_alnum(c) || c == '_' || c == '-';
}

static void add_entry(struct scope *s, struct str section, struct str key, struct str value,
                      int line) {
    struct config_node *nodes = arena_new(s->arena, struct config_node, 2);
    nodes[0] = (struct config_node){.line = line, .text = key, .begin = -1};
    nodes[1] = (struct config_node){.line = line, .text = value, .begin = -1};
    *arena_push(s->arena, &s->entries, &s->count, &s->capacity) =
        (struct entry){.path = section, .key = &nodes[0], .value = &nodes[1]};
}

// Up to a blank, a comma, a comment or the end of a call, without quotes. A word that begins in an
// earlier one of the line, without quotes, ends where that ends: `stop`, which is kept for the
// next.
static struct str value_word(struct str text, const char **stop) {
    text = str_trim(text);
    const char quote = text.len > 0 && strchr("\"'", text.p[0]) ? text.p[0] : 0;
    ptrdiff_t end = quote ? 1 : *stop && text.p < *stop ? *stop - text.p : 0;
    while (end < text.len && (quote ? text.p[end] != quote : !strchr(" \t,;#)", text.p[end])))
        end++;
    if (!quote) *stop = text.p + end;
    return str_slice(text, quote ? 1 : 0, end);
}

// "deepspeed = 'ds.json'  # comment"
static void read_assignment(struct scope *s, struct str section, struct str text, int line) {
    ptrdiff_t end = 0;
    while (end < text.len && is_word(text.p[end])) end++;
    struct str key = str_slice(text, 0, end), rest = str_trim(str_slice(text, end, text.len));
    if (key.len == 0 || !str_starts(rest, STR("=")) || str_starts(rest, STR("=="))) return;
    const char *stop = NULL;
    add_entry(s, section, key, value_word(str_slice(rest, 1, rest.len), &stop), line);
}

// "--deepspeed ds.json --use-peft \": an option without a value is a switch.
static void read_flags(struct scope *s, struct str text, int line) {
    const char *stop = NULL;
    ptrdiff_t at;
    while ((at = str_find(text, STR("--"))) >= 0) {
        text = str_slice(text, at + 2, text.len);
        ptrdiff_t end = 0;
        while (end < text.len && is_word(text.p[end])) end++;
        const char *key = str_z_swapped(s->arena, str_slice(text, 0, end), '-', '_');
        text = str_slice(text, end, text.len);
        if (end == 0 || (text.len > 0 && !strchr(" \t=\\", text.p[0]))) continue;
        text = str_trim(str_slice(text, text.len > 0, text.len));
        struct str value = value_word(text, &stop);
        const bool is_switch = text.len == 0 || str_starts(value, STR("-")) || str_is(value, "\\");
        add_entry(s, (struct str){0}, str_of(key), is_switch ? STR("true") : value, line);
    }
}

static void read_lines(struct scope *s) {
    struct str rest = s->config->text, section = {0};
    for (int line = 1; rest.p && rest.len > 0; line++) {
        struct str text = str_trim(str_line(&rest));
        if (text.len == 0 || strchr("#;", text.p[0])) continue;
        if (text.p[0] == '[' && text.p[text.len - 1] == ']')
            section = str_slice(text, 1, text.len - 1);
        else
            read_assignment(s, section, text, line);
        read_flags(s, text, line);
    }
}

// --- What is counted, but not everywhere --------------------------------------------------------

// Flash attention is counted of most models as what they are trained with; which have another
// attention, the model says. What a GPU may lack is the GPU's matter.
static bool is_of_all(void *context, const struct config_guard *g) {
    const struct reader *r = context;
    struct config_reading *to = r->reading;
    const bool is_flash = str_is(g->kind, "flash"), is_asked = str_is(g->kind, "asks");
    if (is_asked) *arena_push(r->arena, &to->asks, &to->ask_count, &to->ask_capacity) = *g;
    if (is_flash && to->flash.what.len == 0) to->flash = *g;
    return !is_flash && !is_asked;
}

// --- All -----------------------------------------------------------------------------------------

// Is the kind one choice that the dialect makes itself?
static bool is_chosen(const struct dialect *own, struct str choices, struct str kind) {
    bool is_choice = false;
    while (choices.len > 0 && !is_choice) is_choice = str_equal(str_cut(&choices, ' '), kind);
    for (ptrdiff_t i = 0; i < own->guard_count && is_choice; i++) {
        if (str_equal(own->guards[i].kind, kind)) return true;
    }
    return false;
}

void config_reader_guards(struct reader *r, const struct dialect *every) {
    struct scope lines = r->scope;
    const struct dialect *own = r->dialect;
    if (own->stops) return; // nothing is counted, so nothing is missing
    if (!r->config->root) {
        read_lines(&lines);
        config_scope_index(&lines);
    }
    for (ptrdiff_t i = 0; i < own->guard_count; i++) read_row(r, &lines, &own->guards[i], false);
    for (ptrdiff_t i = 0; every && i < every->guard_count; i++) {
        const struct guard_row *row = &every->guards[i];
        if (!is_chosen(own, every->choice, row->kind)) read_row(r, &lines, row, true);
    }
    config_keep_guards(r->reading, is_of_all, r);
}
