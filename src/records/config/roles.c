// SPDX-License-Identifier: Apache-2.0
// What the file says about the run: its dialect, and every role with its value, its place and
// whether it may be written. Where the file leaves a choice (two sections with a batch size) it is
// the user's, not ours.
#include "records/config/dialect_int.h"

#include "base/shell.h"

#include <math.h>

// --- Finding -------------------------------------------------------------------------------------

// HyperPyYAML's "opt_class: !name:torch.optim.AdamW" with its arguments below: the class; empty: it
// is none.
static struct str class_of_tag(const struct config_node *n) {
    struct str tag = config_node_tag(n), kind = str_cut(&tag, ':');
    const bool is_class = str_is(kind, "!name") || str_is(kind, "!new");
    return is_class ? tag : (struct str){0};
}

static bool usable(const struct config *c, const struct match *m, enum role_sort sort,
                   bool is_model) {
    const struct config_node *n = config_node_follow(m->place.value);
    if (sort == SORT_TEXT && class_of_tag(n).len > 0) return true;
    // restore_from_path: null names no model.
    if (is_model && config_scalar_read(c, n).type == CONFIG_NULL) return false;
    if (n->kind == NODE_MAP) return config_node_is_template(n);
    return n->kind == NODE_SCALAR || sort == SORT_SIZE || sort == SORT_COUNT || sort == SORT_LIST;
}

// All places of a role in the order of the table, without maps.
static void find_places(const struct reader *r, const struct role_row *row, enum role_sort sort,
                        struct matches *ret) {
    struct str places = row->places;
    const bool is_model = row == &r->dialect->roles[CONFIG_MODEL];
    while (places.p && places.len) {
        struct str pattern = str_cut(&places, ' ');
        char unit = row->unit;
        if (pattern.len > 2 && pattern.p[pattern.len - 2] == '!') {
            unit = pattern.p[pattern.len - 1];
            pattern.len -= 2;
        }
        if (str_starts(pattern, STR("!"))) pattern = str_slice(pattern, 1, pattern.len);
        struct str_list expanded = {0};
        config_braces_expand(r->arena, pattern, &expanded);
        for (ptrdiff_t i = 0; i < expanded.count; i++) {
            struct matches m = {0};
            config_scope_find(&r->scope, expanded.items[i], &m);
            // "Anywhere" means once: of several, nobody knows which.
            if (m.count > 1 && str_starts(expanded.items[i], STR("**.")) && sort != SORT_COUNT)
                continue;
            for (ptrdiff_t k = 0; k < m.count; k++) {
                m.items[k].unit = unit;
                if (usable(r->config, &m.items[k], sort, is_model))
                    *arena_push(r->arena, &ret->items, &ret->count, &ret->capacity) = m.items[k];
            }
        }
    }
}

// What a section does not say may stand at the top for all sections.
static void find_above(struct reader *r, const struct role_row *row, enum role_sort sort,
                       struct matches *ret) {
    const struct scope section = r->scope;
    r->scope.root = r->config->root;
    r->scope.prefix = (struct str){0};
    r->scope.above = true;
    find_places(r, row, sort, ret);
    r->scope = section;
}

static bool find_named(const struct reader *r, enum config_role role, struct match *ret_match,
                       int *ret_status) {
    const struct str path = r->options->keys[role];
    struct steps steps;
    *ret_status = 0;
    if (!path.len) return false;
    *ret_status = config_path_parse(r->arena, path, &steps, r->why);
    if (*ret_status) return false;
    *ret_match =
        (struct match){path, config_place_find(r->config, &steps), r->dialect->roles[role].unit};
    if (!ret_match->unit && role == CONFIG_BATCH) ret_match->unit = 'D';
    if (ret_match->place.value) return true;
    *ret_status = fail_set(r->why, FAIL_USAGE, "%.*s: no key '%.*s'", STR_ARG(r->config->name),
                           STR_ARG(path));
    return false;
}

// --- What was found ------------------------------------------------------------------------------

// The path in "${a.b}", in HyperPyYAML's !ref <a[b]>, in MONAI's "@a#b"; empty: it is no reference.
static struct str referenced(struct arena *a, const struct config_node *n) {
    if (n->kind != NODE_SCALAR || n->text.len == 0) return (struct str){0};
    const struct str text = n->text;
    const bool is_tagged = str_is(config_node_tag(n), "!ref") && str_starts(text, STR("<"));
    struct buf path = buf_new(a);
    if (str_starts(text, STR("${")) && str_ends(text, STR("}")))
        return str_slice(text, 2, text.len - 1);
    if (!str_starts(text, STR("@")) && (!is_tagged || !str_ends(text, STR(">"))))
        return (struct str){0};
    for (ptrdiff_t i = 1; i < text.len - is_tagged; i++) {
        const bool is_step = text.p[i] == '#' || (is_tagged && text.p[i] == '[');
        if (!is_tagged || text.p[i] != ']') buf_byte(&path, is_step ? '.' : text.p[i]);
    }
    return buf_str(&path);
}

struct config_node *config_node_referenced(struct arena *a, const struct config *c,
                                           struct config_node *n) {
    const struct str path = referenced(a, config_node_follow(n));
    struct steps steps;
    if (path.len == 0 || config_path_parse(a, path, &steps, NULL)) return n;
    struct config_node *value = config_place_find(c, &steps).value;
    return value ? value : n;
}

// ${data.batch_size} whose target is a literal of this file: the target is what is read and
// written.
static void follow_reference(struct reader *r, struct match *m, enum role_sort sort) {
    const struct str path = referenced(r->arena, config_node_follow(m->place.value));
    if (path.len == 0) return;
    struct steps steps;
    if (config_path_parse(r->arena, path, &steps, NULL)) return;
    struct place p = config_place_find(r->config, &steps);
    if (!p.value) return;
    const enum node_kind kind = config_node_follow(p.value)->kind;
    if (kind != NODE_SCALAR && !(kind == NODE_LIST && sort == SORT_SIZE)) return;
    if (config_scalar_read(r->config, config_node_follow(p.value)).type == CONFIG_SPECIAL) return;
    config_reader_warn(r, "%.*s takes its value from %.*s", STR_ARG(m->path), STR_ARG(path));
    m->path = path;
    m->place = p;
}

static struct str refusal_text(struct arena *a, const struct fail *f) {
    return f->hint[0] ? str_format(a, "%s (%s)", f->message, f->hint)
                      : str_copy(a, str_of(f->message));
}

// Asks the patcher itself, with a value that is certainly another one.
static void ask_patcher(struct reader *r, struct config_value *v, enum role_sort sort) {
    struct config_edit e = {.path = v->path};
    struct fail f = {0};
    if (sort == SORT_BOOL)
        e.value = v->boolean ? STR("false") : STR("true");
    else
        e.value = str_format(r->arena, "%lld",
                             (long long)(v->integer < 1           ? 1
                                         : v->integer < INT64_MAX ? v->integer + 1
                                                                  : 1));
    if (config_layer_edit(r->arena, r->config, &e, &f) ||
        config_patch_check(r->arena, r->config, &e, 0, &f))
        v->refusal = refusal_text(r->arena, &f);
    if (v->type == CONFIG_SPECIAL && r->dialect->special.len) {
        v->refusal =
            str_format(r->arena, "%.*s; %.*s", STR_ARG(v->refusal), STR_ARG(r->dialect->special));
    }
}

static void take_number(struct reader *r, enum config_role role, struct config_value *v,
                        const struct config_node *n) {
    const struct scalar s = config_scalar_read(r->config, n);
    const bool is_list = role == CONFIG_RANKS && s.odd == ODD_COMMA; // "0,": of one GPU
    if (s.odd != ODD_NONE && s.odd != ODD_FLOAT && !is_list) {
        const struct str what = config_scalar_meaning(r->arena, s, v->text);
        const struct str place = config_node_place(r->arena, r->config, n);
        config_reader_warn(r, "%.*s: %.*s: %.*s", STR_ARG(place), STR_ARG(v->path), STR_ARG(what));
    }
    config_reader_number(r, v, role, n);
}

// "batch (line 3: f(x))"; not of a folder's name, and of what is nothing of the memory.
void config_reader_unknown(struct reader *r, enum config_role role, const struct config_value *v) {
    if (role == CONFIG_PREFERENCE || role == CONFIG_GENERATION_GROUP) return;
    str_list_add(r->arena, &r->unknown,
                 str_format(r->arena, "%s (%.*s%sline %d: %.*s)", config_role_name(role),
                            STR_ARG(v->file), v->file.len ? ", " : "", v->line, STR_ARG(v->text)));
}

static void take_names(struct reader *r, struct config_value *v, const struct config_node *n) {
    v->type = CONFIG_TEXT;
    v->text = config_node_text(r->arena, n, ',');
}

// Python, TOML, a shell script: nothing is written there.
static void take_foreign(struct reader *r, enum config_role role, struct config_value *v,
                         const struct config_node *n) {
    const enum role_sort sort = config_role_sort(role);
    const bool counts = sort == SORT_COUNT || sort == SORT_SIZE || sort == SORT_WORKERS;
    if (counts)
        take_number(r, role, v, n);
    else if (sort == SORT_BOOL)
        config_reader_bool(v);
    else if (sort == SORT_LIST && n->kind == NODE_LIST)
        take_names(r, v, n);
    if (n->style != STYLE_UNKNOWN) return;
    config_reader_unknown(r, role, v);
    const struct str said = str_format(r->arena, "line %d: %.*s", v->line, STR_ARG(v->text));
    if (role == CONFIG_MODEL)
        r->reading->unnamed = str_format(r->arena, "not a plain value (%.*s)", STR_ARG(said));
    v->type = CONFIG_SPECIAL;
    v->integer = 0;
    if (!counts) v->text = (struct str){0}; // it is no name
}

static struct config_value take(struct reader *r, enum config_role role, struct match *m) {
    const enum role_sort sort = config_role_sort(role);
    follow_reference(r, m, sort);
    const struct config_node *n = config_node_follow(m->place.value);
    struct config_value v = config_value_of(r->arena, r->config, &m->place, m->path);
    v.unit = m->unit;
    if (r->config->format > CONFIG_JSON) {
        take_foreign(r, role, &v, n);
    } else if (sort == SORT_COUNT || sort == SORT_SIZE || sort == SORT_WORKERS) {
        take_number(r, role, &v, n);
        ask_patcher(r, &v, sort);
        if (v.type == CONFIG_SPECIAL && !v.refusal.len) {
            v.refusal = str_format(
                r->arena,
                "%.*s:%d:%d: %.*s is %.*s: the trainer decides (--force-special replaces it)%s%.*s",
                STR_ARG(r->config->name), v.line, v.column, STR_ARG(v.path), STR_ARG(v.text),
                r->dialect->special.len ? "; " : "", STR_ARG(r->dialect->special));
        }
        // -1 may be the model's own length; no picture has so many pixels.
        if (v.type == CONFIG_SPECIAL && role == CONFIG_IMAGE_SIZE)
            config_reader_warn(r, "line %d: %.*s = %.*s is not a number of pixels: not used",
                               v.line, STR_ARG(v.path), STR_ARG(v.text));
    } else if (sort == SORT_BOOL) {
        config_reader_bool(&v);
        ask_patcher(r, &v, sort);
    } else if (sort == SORT_LIST && n->kind == NODE_LIST) {
        take_names(r, &v, n);
    } else if (sort == SORT_TEXT && class_of_tag(n).len > 0) {
        v.type = CONFIG_TEXT;
        v.text = class_of_tag(n);
    }
    return v;
}

// Keys beside _target_ are arguments of a class, and one that it does not take stops the program;
// Lightning's trainer takes its own.
static bool is_argument_list(const struct config_node *map, struct str key) {
    const struct config_node *target =
        config_map_find((struct config_node *)map, STR("_target_"), true).value;
    if (!target) return false;
    return !str_ends(target->text, STR(".Trainer")) || !str_is(key, "accumulate_grad_batches");
}

static struct str joined_home(const struct reader *r, struct str key) {
    const struct str home = r->scope.home;
    return home.len ? str_format(r->arena, "%.*s.%.*s", STR_ARG(home), STR_ARG(key)) : key;
}

// The place at which an absent key would be put: the first of the table whose section is there.
static struct str place_to_insert(const struct reader *r, struct str places) {
    while (places.p && places.len) {
        struct str pattern = str_cut(&places, ' ');
        if (str_starts(pattern, STR("!"))) pattern = str_slice(pattern, 1, pattern.len);
        struct str_list expanded = {0};
        config_braces_expand(r->arena, pattern, &expanded);
        for (ptrdiff_t i = 0; i < expanded.count; i++) {
            struct str path = expanded.items[i];
            if (str_find(path, STR("*")) >= 0) continue;
            const struct str base = str_starts(path, STR("@.")) ? r->scope.home : r->scope.prefix;
            if (str_starts(path, STR("@."))) path = str_slice(path, 2, path.len);
            if (base.len) path = str_format(r->arena, "%.*s.%.*s", STR_ARG(base), STR_ARG(path));
            struct steps steps;
            if (config_path_parse(r->arena, path, &steps, NULL)) continue;
            struct place p = config_place_find(r->config, &steps);
            if (p.value || !p.owner || p.missing + 1 != steps.count) continue;
            if (!is_argument_list(p.owner, steps.items[steps.count - 1].key)) return path;
        }
    }
    return (struct str){0};
}

// The node on the way to a place below which only the program knows what there is. NULL: none.
static const struct config_node *beyond(const struct reader *r, struct str pattern) {
    struct steps steps;
    struct config_node *n = r->config->root;
    if (n->style == STYLE_UNKNOWN) return n;
    if (str_starts(pattern, STR("*")) || config_path_parse(r->arena, pattern, &steps, NULL))
        return NULL;
    for (ptrdiff_t i = 0; i < steps.count; i++) {
        const ptrdiff_t at = n->kind == NODE_MAP ? config_index_find(n, steps.items[i].key) : -1;
        if (n->style == STYLE_UNKNOWN && at < 0) return n;
        if (at < 0) return NULL;
        n = n->items[at + 1];
    }
    return NULL;
}

// A default is none where the value may stand in what was not read.
static bool is_beyond(struct reader *r, enum config_role role, struct config_value *v) {
    struct str places = r->dialect->roles[role].places;
    while (r->config->root && r->config->format > CONFIG_JSON && places.len > 0) {
        struct str pattern = str_cut(&places, ' ');
        const ptrdiff_t equals = str_find(pattern, STR("="));
        if (equals >= 0) pattern.len = equals;
        if (str_starts(pattern, STR("@.")))
            pattern = joined_home(r, str_slice(pattern, 2, pattern.len));
        struct str_list expanded = {0};
        config_braces_expand(r->arena, pattern, &expanded);
        for (ptrdiff_t i = 0; i < expanded.count; i++) {
            const struct config_node *n = beyond(r, expanded.items[i]);
            if (!n) continue;
            *v = (struct config_value){.type = CONFIG_SPECIAL,
                                       .path = expanded.items[i],
                                       .text = STR("not in the file"),
                                       .line = n->line,
                                       .column = n->column,
                                       .number = NAN,
                                       .unit = r->dialect->roles[role].unit};
            if (n->file) v->file = r->config->files.items[n->file - 1];
            if (config_role_is_told(role))
                str_list_add(r->arena, &r->unread, str_of(config_role_name(role)));
            if (config_role_sort(role) == SORT_TEXT) v->text = (struct str){0};
            return true;
        }
    }
    return false;
}

static struct config_value absent(struct reader *r, enum config_role role,
                                  const struct role_row *row) {
    struct config_value v = {.number = NAN, .unit = row->unit};
    const struct scalar s = config_scalar_plain(row->assumed);
    if (row->insert != INSERT_NO) v.path = place_to_insert(r, row->places);
    if (row->assumed.len && r->inherits && r->config->is_layered && config_role_is_told(role))
        str_list_add(r->arena, &r->unread, str_of(config_role_name(role)));
    if (!row->assumed.len || r->inherits) return v;
    v.assumed = true;
    v.text = row->assumed;
    v.integer = s.integer;
    v.number = s.number;
    v.boolean = s.boolean;
    return v;
}

bool config_is_models_own(const struct config_value *v) {
    return v->assumed && str_is(v->text, "model");
}

// Two places with different figures: the first of the table is read, and the other named.
static void note_conflict(struct reader *r, const struct match *read, const struct match *other) {
    const struct config_node *a = config_node_follow(read->place.value);
    const struct config_node *b = config_node_follow(other->place.value);
    const struct scalar x = config_scalar_read(r->config, a), y = config_scalar_read(r->config, b);
    if (a == b || x.type != CONFIG_INT || y.type != CONFIG_INT || x.integer == y.integer) return;
    const struct str here = config_node_place(r->arena, r->config, a),
                     there = config_node_place(r->arena, r->config, b);
    config_reader_warn(r, "%.*s: %.*s = %.*s is read, and %.*s = %.*s in %.*s says otherwise",
                       STR_ARG(here), STR_ARG(read->path), STR_ARG(a->text), STR_ARG(other->path),
                       STR_ARG(b->text), STR_ARG(there));
}

int config_reader_role(struct reader *r, enum config_role role) {
    const struct role_row *row = &r->dialect->roles[role];
    struct match m;
    int status;
    if (find_named(r, role, &m, &status)) {
        r->reading->values[role] = take(r, role, &m);
        if (config_role_sort(role) != SORT_PRECISION) return 0;
        struct precision_keys named = {0};
        config_precision_guess(&r->scope, &m, &named);
        r->reading->values[role] = config_precision_read(&r->scope, &named, (struct str){0});
        return 0;
    }
    if (status) return status;
    if (config_role_sort(role) == SORT_PRECISION) {
        struct precision_keys keys = {0};
        config_precision_find(&r->scope, row->places, &keys);
        for (ptrdiff_t i = 0; i < keys.count; i++)
            follow_reference(r, &keys.items[i].match, SORT_PRECISION);
        const struct str assumed = r->inherits ? (struct str){0} : row->assumed;
        struct config_value *p = &r->reading->values[role];
        *p = config_precision_read(&r->scope, &keys, assumed);
        if (p->type == CONFIG_SPECIAL && r->config->format > CONFIG_JSON && !p->word.len)
            config_reader_unknown(r, role, p);
        if (p->line == 0) is_beyond(r, role, p);
        return 0;
    }
    struct matches all = {0};
    find_places(r, row, config_role_sort(role), &all);
    if (all.count == 0 && r->scope.prefix.len) find_above(r, row, config_role_sort(role), &all);
    struct config_value *v = &r->reading->values[role];
    const ptrdiff_t first = config_reader_first(r, role, &all);
    struct match *read = all.items ? &all.items[first] : NULL;
    if (read)
        *v = take(r, role, read);
    else if (config_role_sort(role) == SORT_LIST ? config_reader_names(r, row->sum, v)
                                                 : config_reader_sum(r, row->sum, v))
        return 0;
    else if (!is_beyond(r, role, v))
        *v = absent(r, role, row);
    // A list that is null or empty leaves the choice to the trainer, as a size of the model's does.
    bool is_open =
        config_role_sort(role) == SORT_LIST && (v->text.len == 0 || v->type == CONFIG_NULL);
    if (is_open || (v->type == CONFIG_NULL && str_is(row->assumed, "model")))
        *v = absent(r, role, row);
    for (ptrdiff_t i = first + 1; read && i < all.count; i++) note_conflict(r, read, &all.items[i]);
    // disable_gradient_checkpointing: the key says the opposite.
    if (all.count && str_starts(row->places, STR("!"))) v->boolean = !v->boolean;
    return 0;
}

// --- The batch -----------------------------------------------------------------------------------

static struct str parent_of(struct str path) {
    ptrdiff_t end = path.len;
    if (end > 0 && path.p[end - 1] == '"') {
        end--;
        while (end > 0 && path.p[end - 1] != '"') end--;
        return str_slice(path, 0, end > 1 ? end - 2 : 0);
    }
    return str_before_last(path, '.');
}

// A section that somebody trains from has these beside its batch.
static bool has_siblings(const struct match *m) {
    static const char *const siblings[] = {
        "epochs",         "num_epochs", "max_epochs",       "n_epochs",  "epoch",      "lr",
        "learning_rate",  "img_size",   "image_size",       "imgsz",     "max_length", "max_len",
        "max_seq_length", "optimizer",  "num_train_epochs", "max_steps", NULL};
    if (!m->place.map) return false;
    for (int i = 0; siblings[i]; i++) {
        if (config_map_find(m->place.map, str_of(siblings[i]), true).value) return true;
    }
    return false;
}

static int ask_user(struct reader *r, const struct matches *all) {
    struct buf places = buf_new(r->arena), sections = buf_new(r->arena);
    for (ptrdiff_t i = 0; i < all->count && i < 6; i++) {
        struct str path = all->items[i].path, parent = parent_of(path), top = parent;
        top = str_cut(&top, '.');
        buf_format(&places, "%s%.*s (line %d)", i ? ", " : "", STR_ARG(path),
                   all->items[i].place.value->line);
        if (i < 2)
            buf_format(&sections, "%s--section %.*s", i ? " or " : "",
                       STR_ARG(shell_word(r->arena, top.len ? top : parent)));
    }
    fail_set(r->why, FAIL_INPUT, "%.*s: %td keys could be the batch size: %.*s",
             STR_ARG(r->config->name), all->count, STR_ARG(buf_str(&places)));
    return fail_hint(r->why, "choose one with --key batch=%.*s, or %.*s",
                     STR_ARG(shell_word(r->arena, all->items[0].path)),
                     STR_ARG(buf_str(&sections)));
}

// Of several places the one beside epochs, rates or sizes; the others are named as possibly dead.
static int choose(struct reader *r, const struct matches *all, ptrdiff_t *ret_chosen) {
    ptrdiff_t chosen = -1, with = 0;
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (!has_siblings(&all->items[i])) continue;
        with++;
        if (chosen < 0) chosen = i;
    }
    if (with != 1) return ask_user(r, all);
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (i == chosen) continue;
        config_reader_warn(r,
                           "%.*s in line %d stays unchanged: %.*s in line %d stands with epochs, "
                           "rate or size, so the other may be unused",
                           STR_ARG(all->items[i].path), all->items[i].place.value->line,
                           STR_ARG(all->items[chosen].path), all->items[chosen].place.value->line);
    }
    *ret_chosen = chosen;
    return 0;
}

int config_reader_batch(struct reader *r) {
    const struct role_row *row = &r->dialect->roles[CONFIG_BATCH];
    struct match m;
    int status;
    if (!find_named(r, CONFIG_BATCH, &m, &status)) {
        if (status) return status;
        struct matches all = {0};
        ptrdiff_t chosen = 0;
        find_places(r, row, SORT_COUNT, &all);
        // Links make one value feed data and model of a Lightning CLI: of two, neither is the dead
        // one.
        const bool linked = str_is(r->dialect->rule, "lightning");
        const bool rivals = str_find(row->places, STR("*.")) >= 0;
        if (all.count > 1 && linked)
            status = ask_user(r, &all);
        else if (all.count > 1 && rivals)
            status = choose(r, &all, &chosen);
        if (status) return status;
        if (all.count == 0) {
            r->scope.home = r->scope.prefix;
            if (!is_beyond(r, CONFIG_BATCH, &r->reading->values[CONFIG_BATCH]))
                r->reading->values[CONFIG_BATCH] = absent(r, CONFIG_BATCH, row);
            return 0;
        }
        m = all.items[chosen];
    }
    r->scope.home = parent_of(m.path);
    r->reading->section = r->scope.home;
    r->reading->values[CONFIG_BATCH] = take(r, CONFIG_BATCH, &m);
    return 0;
}
