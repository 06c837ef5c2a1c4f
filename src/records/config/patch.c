// SPDX-License-Identifier: Apache-2.0
// The smallest edit: the bytes of the asked values are replaced or one line is inserted, nothing
// else. Whether that was right is not argued but checked: the result is parsed again and compared
// node by node with the original (verify.c), and thrown away when anything else has moved.
#include "records/config/patch_int.h"

#include "records/config/dialect_int.h"

#include <stdlib.h>
#include <string.h>

void config_edits_add(struct arena *a, struct config_edits *edits, struct config_edit edit) {
    *arena_push(a, &edits->items, &edits->count, &edits->capacity) = edit;
}

static void add_note(struct patch *p, struct str note) {
    str_list_add_new(p->arena, &p->result.notes, note);
}

// --- May this value be replaced? -----------------------------------------------------------------

static const char special_hint[] = "--force-special replaces it anyway";

// What the odd spellings need before an edit: nothing, consent, or there is no way.
enum need { NEED_NOTHING, NEED_CONSENT, NEED_IMPOSSIBLE };
static const enum need odd_needs[] = {
    [ODD_NONE] = NEED_NOTHING,       [ODD_QUOTED] = NEED_NOTHING,
    [ODD_UNDERSCORE] = NEED_NOTHING, [ODD_FLOAT] = NEED_NOTHING,
    [ODD_EXPONENT] = NEED_CONSENT,   [ODD_OCTAL] = NEED_CONSENT,
    [ODD_BASE] = NEED_CONSENT,       [ODD_OCTAL12] = NEED_CONSENT,
    [ODD_ZERO] = NEED_CONSENT,       [ODD_SIXTY] = NEED_CONSENT,
    [ODD_DATE] = NEED_IMPOSSIBLE,    [ODD_GLUED] = NEED_IMPOSSIBLE,
    [ODD_COMMA] = NEED_IMPOSSIBLE,   [ODD_WIDE] = NEED_IMPOSSIBLE,
    [ODD_BLOCK] = NEED_IMPOSSIBLE,   [ODD_TEMPLATE] = NEED_IMPOSSIBLE,
};

static const char *const type_names[] = {
    [CONFIG_ABSENT] = "absent",   [CONFIG_NULL] = "null",
    [CONFIG_INT] = "a number",    [CONFIG_FLOAT] = "a number",
    [CONFIG_BOOL] = "a boolean",  [CONFIG_TEXT] = "text",
    [CONFIG_SPECIAL] = "special", [CONFIG_NESTED] = "a list or a map",
};

static bool type_fits(struct scalar old, struct str text, struct scalar new) {
    switch (new.type) {
    case CONFIG_INT:
    case CONFIG_FLOAT:
        return old.type == CONFIG_INT || old.type == CONFIG_FLOAT || old.odd != ODD_NONE;
    case CONFIG_BOOL:
        return old.type == CONFIG_BOOL || config_scalar_plain(text).type == CONFIG_BOOL;
    default:
        return true;
    }
}

static int refuse_special(struct patch *p, const struct config_node *n, struct str path,
                          const char *what) {
    config_bytes_fail(p->config, n->begin, p->why, "%.*s is %s, expected a plain value",
                      STR_ARG(path), what);
    return fail_hint(p->why, "%s", special_hint);
}

static int check_old(struct patch *p, const struct config_node *n, struct str path,
                     struct scalar old, struct scalar new) {
    const bool consent = (p->flags & CONFIG_REPLACE_SPECIAL) != 0;
    const int shown = (int)(n->text.len < 60 ? n->text.len : 60);
    if (old.type == CONFIG_NESTED && old.odd == ODD_NONE) {
        return config_bytes_fail(p->config, n->begin, p->why,
                                 "%.*s is a list or a map, expected one plain value",
                                 STR_ARG(path));
    }
    enum need need = odd_needs[old.odd];
    if (old.odd == ODD_EXPONENT && new.type == CONFIG_FLOAT) need = NEED_NOTHING;
    if (need == NEED_IMPOSSIBLE || (need == NEED_CONSENT && !consent)) {
        struct str what =
            config_scalar_meaning(p->arena, old, n->kind == NODE_SCALAR ? n->text : STR("it"));
        config_bytes_fail(p->config, n->begin, p->why, "%.*s: %.*s; expected a plain number",
                          STR_ARG(path), STR_ARG(what));
        return need == NEED_CONSENT ? fail_hint(p->why, "%s", special_hint)
                                    : fail_hint(p->why, "correct the line by hand first");
    }
    if (old.type == CONFIG_NULL)
        return consent ? 0 : refuse_special(p, n, path, "null, which may mean a default");
    const bool none =
        old.type == CONFIG_TEXT && (str_is(n->text, "None") || str_is(n->text, "none"));
    if ((old.type == CONFIG_SPECIAL || none) && new.type != CONFIG_TEXT) {
        return consent ? 0
                       : refuse_special(p, n, path,
                                        str_format(p->arena, "\"%.*s\", which the trainer fills in",
                                                   shown, n->text.p)
                                            .p);
    }
    if (old.type == CONFIG_SPECIAL && !consent) {
        return refuse_special(p, n, path, "filled in by the trainer");
    }
    if (!type_fits(old, n->text, new)) {
        return config_bytes_fail(p->config, n->begin, p->why, "%.*s: \"%.*s\" is %s, expected %s",
                                 STR_ARG(path), shown, n->text.p, type_names[old.type],
                                 type_names[new.type]);
    }
    if (new.type == CONFIG_INT && !consent &&
        (old.number < 0 || (old.type == CONFIG_FLOAT && old.number != (double)old.integer))) {
        return refuse_special(p, n, path,
                              str_format(p->arena,
                                         "%.*s, which makes the trainer find a value itself", shown,
                                         n->text.p)
                                  .p);
    }
    return 0;
}

// --- Replacing -----------------------------------------------------------------------------------

// A tag of somebody's own, or one that the new value does not fit: !!int "bf16" does not load.
static bool tag_forbids(const struct config_node *n, enum config_type type) {
    static const struct {
        const char *name;
        bool number, boolean, text;
    } known[] = {
        {"int", true, false, false},
        {"float", true, false, false},
        {"bool", false, true, false},
        {"str", true, true, true},
    };
    struct str name = config_node_tag(n);
    if (!name.p) return false;
    if (str_starts(name, STR("tag:yaml.org,2002:"))) name = str_slice(name, 18, name.len);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!str_is(name, known[i].name)) continue;
        const bool number = type == CONFIG_INT || type == CONFIG_FLOAT;
        return number ? !known[i].number : type == CONFIG_BOOL ? !known[i].boolean : !known[i].text;
    }
    return true;
}

static void remember(struct patch *p, const struct config_node *n, const struct config_edit *e) {
    struct target t = {n, e};
    *arena_push(p->arena, &p->targets, &p->target_count, &p->target_capacity) = t;
}

static int replace_value(struct patch *p, struct config_node *n, const struct config_edit *e) {
    const struct scalar old = config_scalar_read(p->config, n), new = config_patch_wanted(e);
    if (n->kind == NODE_SCALAR && old.odd != ODD_BLOCK && old.type != CONFIG_SPECIAL &&
        config_patch_same_value(old, n->text, new, e->value)) {
        return 0;
    }
    int status = check_old(p, n, e->path, old, new);
    if (status) return status;
    if (n->begin < 0 || n->is_key || tag_forbids(n, new.type)) {
        return config_bytes_fail(p->config, n->begin, p->why, "%.*s: no place for a plain value",
                                 STR_ARG(e->path));
    }
    const bool quoted = n->style == STYLE_SINGLE || n->style == STYLE_DOUBLE;
    struct str text = config_scalar_spell(p->arena, old, n->text, e->value);
    if (!quoted) text = config_patch_quoted(p, e, text);
    if (quoted && old.odd == ODD_QUOTED) {
        add_note(p, str_format(p->arena, "%.*s %s; the quotes stay", STR_ARG(e->path),
                               "is quoted, so the trainer reads text, not a number"));
    }
    struct str users = config_anchor_users(p->arena, p->config, n);
    if (users.len) {
        add_note(p, str_format(p->arena, "%.*s follow%s &%.*s", STR_ARG(users),
                               memchr(users.p, ',', (size_t)users.len) ? "" : "s",
                               STR_ARG(config_node_anchor(n))));
    }
    config_patch_change(p, n->line, e->path, n->style == STYLE_EMPTY ? STR("(nothing)") : n->text,
                        text);
    if (n->style == STYLE_EMPTY) text = str_format(p->arena, " %.*s", STR_ARG(text));
    config_patch_splice(p, n->begin, n->end, text);
    remember(p, n, e);
    return 0;
}

static int replace_alias(struct patch *p, struct config_node *n, const struct config_edit *e) {
    if (p->flags & CONFIG_EDIT_ANCHOR) return replace_value(p, n->target, e);
    const struct scalar old = config_scalar_read(p->config, n->target);
    if (old.type != CONFIG_NESTED &&
        config_patch_same_value(old, n->target->text, config_patch_wanted(e), e->value))
        return 0;
    if (!(p->flags & CONFIG_REPLACE_SPECIAL)) {
        struct str users = config_anchor_users(p->arena, p->config, n->target);
        config_bytes_fail(p->config, n->begin, p->why,
                          "%.*s is the alias *%.*s of line %d, expected a plain value",
                          STR_ARG(e->path), STR_ARG(n->text), n->target->line);
        return fail_hint(p->why,
                         "--force-anchor changes line %d for everything that uses it (%.*s); "
                         "--force-special replaces the alias here by the value",
                         n->target->line, STR_ARG(users));
    }
    if (old.type == CONFIG_NESTED) {
        return config_bytes_fail(p->config, n->begin, p->why, "%.*s is an alias of a list or a map",
                                 STR_ARG(e->path));
    }
    struct str text = config_patch_quoted(p, e, e->value);
    config_patch_change(p, n->line, e->path, str_format(p->arena, "*%.*s", STR_ARG(n->text)), text);
    config_patch_splice(p, n->begin - 1, n->end, text);
    remember(p, n, e);
    return 0;
}

// --- One edit ------------------------------------------------------------------------------------

static int absent(struct patch *p, const struct config_edit *e, const struct place *at,
                  const struct steps *s) {
    const struct step *missing = &s->items[at->missing];
    fail_set(p->why, FAIL_INPUT, "%.*s: no key '%.*s'", STR_ARG(p->config->name), STR_ARG(e->path));
    struct str hint =
        config_bytes_hint(p->arena, p->config->text, missing->key.p ? missing->key : STR("["));
    if (hint.len) return fail_hint(p->why, "%.*s", STR_ARG(hint));
    if (!at->owner && at->missing > 0)
        missing--;
    else if (at->missing + 1 == s->count) {
        return fail_hint(p->why, "add the line yourself, or name another key");
    }
    return fail_hint(p->why,
                     "the section '%.*s' is missing or empty; add it with the line  %.*s: %.*s",
                     STR_ARG(missing->key), STR_ARG(s->items[s->count - 1].key), STR_ARG(e->value));
}

static bool says_already(const struct patch *p, const struct config_node *n,
                         const struct config_edit *e) {
    return config_patch_same_value(config_scalar_read(p->config, n), n->text,
                                   config_patch_wanted(e), e->value);
}

static int refuse_shared(struct patch *p, const struct config_edit *e,
                         const struct config_node *n) {
    config_bytes_fail(p->config, n->begin, p->why,
                      "%.*s is shared through an anchor: other values would change with it",
                      STR_ARG(e->path));
    return fail_hint(p->why, "--force-anchor changes it for all of them");
}

static int patch_one(struct patch *p, const struct config_edit *e) {
    struct steps steps;
    int status = config_path_parse(p->arena, e->path, &steps, p->why);
    if (status) return status;
    const enum config_type type = config_patch_wanted(e).type;
    const bool may_be = e->is_text ? config_scalar_is_text(e->value)
                                   : str_is_made_of(e->value, "_.+-/") && type != CONFIG_NULL &&
                                         type != CONFIG_SPECIAL;
    if (!e->children && !may_be) {
        return fail_set(p->why, FAIL_USAGE, "'%.*s' is not a value that can be written",
                        STR_ARG(e->value));
    }
    struct place at = config_place_find(p->config, &steps);
    const bool last = at.missing + 1 >= steps.count;
    if (!at.value) {
        if (!e->insert || !last || !at.owner) return absent(p, e, &at, &steps);
        struct str hint =
            config_bytes_hint(p->arena, p->config->text, steps.items[steps.count - 1].key);
        if (hint.len) return absent(p, e, &at, &steps);
        if (at.shared && !(p->flags & CONFIG_EDIT_ANCHOR)) return refuse_shared(p, e, at.shared);
        return config_patch_insert(p, at.owner, steps.items[steps.count - 1].key, e);
    }
    if (e->children) {
        return config_bytes_fail(p->config, at.value->begin, p->why, "%.*s already exists",
                                 STR_ARG(e->path));
    }
    if (at.shared && !(p->flags & CONFIG_EDIT_ANCHOR)) {
        if (says_already(p, config_node_follow(at.value), e)) return 0;
        return refuse_shared(p, e, at.shared);
    }
    if (at.inherited && !(p->flags & CONFIG_EDIT_ANCHOR)) {
        if (says_already(p, config_node_follow(at.value), e)) return 0;
        add_note(p, str_format(p->arena,
                               "%.*s came from the merged map in line %d and now has its own line",
                               STR_ARG(e->path), at.value->line));
        return config_patch_insert(p, at.owner, steps.items[steps.count - 1].key, e);
    }
    if (at.value->kind == NODE_ALIAS) return replace_alias(p, at.value, e);
    return replace_value(p, at.value, e);
}

static int in_order(const void *a, const void *b) {
    const struct splice *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int assemble(struct patch *p) {
    qsort(p->splices, (size_t)p->splice_count, sizeof *p->splices, in_order);
    struct buf b = buf_new(p->arena);
    const struct str text = p->config->text;
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; i < p->splice_count; i++) {
        const struct splice *s = &p->splices[i];
        if (s->begin < at) {
            return fail_set(p->why, FAIL_INPUT, "%.*s: edited twice", STR_ARG(p->config->name));
        }
        buf_add(&b, str_slice(text, at, s->begin));
        buf_add(&b, s->bytes);
        at = s->end;
    }
    buf_add(&b, str_slice(text, at, text.len));
    p->result.text = buf_str(&b);
    p->result.changed = true;
    return 0;
}

int config_patch_check(struct arena *a, const struct config *c, const struct config_edit *edit,
                       unsigned flags, struct fail *why) {
    const struct config own = config_own(c);
    struct patch p = {.arena = a, .config = &own, .why = why, .flags = flags};
    return patch_one(&p, edit);
}

int config_patch(struct arena *a, const struct config *c, const struct config_edit *edits,
                 ptrdiff_t count, unsigned flags, struct config_patched *ret_patched,
                 struct fail *why) {
    struct fail unheard;
    if (!why) why = &unheard;
    if (c->format > CONFIG_JSON) {
        return fail_set(why, FAIL_INPUT, "%.*s: not YAML or JSON, so it is not edited",
                        STR_ARG(c->name));
    }
    if (c->unwritable.len) {
        fail_set(why, FAIL_INPUT, "%.*s", STR_ARG(c->unwritable));
        return fail_hint(why, "correct it first; nothing was written");
    }
    const struct config own = config_own(c);
    struct patch p = {.arena = a, .config = &own, .why = why, .flags = flags};
    for (ptrdiff_t i = 0; i < count; i++) {
        const ptrdiff_t before = p.splice_count;
        int status = patch_one(&p, &edits[i]);
        if (status) return status;
        if (edits[i].note.len && p.splice_count > before) add_note(&p, edits[i].note);
    }
    p.result.text = c->text;
    if (p.splice_count > 0) {
        int status = assemble(&p);
        if (!status) status = config_patch_verify(&p);
        if (status) return status;
    }
    *ret_patched = p.result;
    return 0;
}
