// SPDX-License-Identifier: Apache-2.0
// Keys whose name sounds like a role that no key of the table says: they are named with the option
// that reads them, so that a default is never taken in silence where the file says otherwise. The
// words to look for are the "maybe" rows of data/dialects.tsv.
#include "records/config/dialect_int.h"

#include "base/near.h"
#include "base/shell.h"

enum { MOST = 2, SIZE_LEAST = 16, TEXT_MOST = 100 };

// "org/name", "resnet50": no sentence, no switch.
static bool is_name(struct str text) {
    static const char *const no_names[] = {"true", "false", "none", "null", "auto", "yes",
                                           "no",   "on",    "off",  "all",  NULL};
    bool has_letter = false;
    for (ptrdiff_t i = 0; i < text.len; i++)
        has_letter = has_letter || (str_is_alnum(text.p[i]) && !str_is_digit(text.p[i]));
    return !str_is_one_of_nocase(text, no_names) && has_letter && text.len < TEXT_MOST &&
           str_is_made_of(text, "-_./:") && text.p[0] != '.';
}

// A key that tells a folder, a kind or a place of a model, not which one it is.
static bool is_beside_model(struct str key) {
    static const char *const parts[] = {"dir",     "save", "output", "type",    "log",    "search",
                                        "archive", "hub_", "push",   "version", "format", NULL};
    return str_has_one_of(key, parts);
}

static bool says_precision(struct reader *r, const struct entry *e, const struct scalar *s) {
    const struct place p = {.map = e->map, .key = e->key, .value = e->value, .owner = e->map};
    const struct match m = {config_path_join(r->arena, e->path, e->key->text), p, 0};
    struct precision_keys keys = {0};
    if (s->type == CONFIG_BOOL) return s->boolean;
    config_precision_guess(&r->scope, &m, &keys);
    const struct str word = config_precision_read(&r->scope, &keys, (struct str){0}).word;
    return word.len > 0 && !str_is(word, "fp32");
}

// Whether the value is one that the role could have, and not the one that is assumed anyway.
static bool is_likely(struct reader *r, enum config_role role, const struct entry *e) {
    const struct config_node *n = config_node_follow(e->value);
    if (n->kind != NODE_SCALAR || n->style == STYLE_UNKNOWN) return false;
    const struct scalar s = config_scalar_read(r->config, n);
    switch (config_role_sort(role)) {
    case SORT_COUNT:
        return s.type == CONFIG_INT && s.integer > 1;
    case SORT_SIZE:
        return s.type == CONFIG_INT && s.integer >= SIZE_LEAST;
    case SORT_BOOL:
        return s.type == CONFIG_BOOL && s.boolean;
    case SORT_TEXT:
        return s.type == CONFIG_TEXT && is_name(n->text) && !is_beside_model(e->key->text);
    case SORT_PRECISION:
        return says_precision(r, e, &s);
    default:
        return false;
    }
}

// As a role, or as a setting that an answer names.
static bool is_read(const struct reader *r, const struct entry *e) {
    for (int i = 0; i < CONFIG_ROLES; i++) {
        const struct config_value *v = &r->reading->values[i];
        const bool is_same_file = (v->file.len > 0) == (e->value->file > 0);
        if (is_same_file && v->line == e->value->line && v->column == e->value->column) return true;
    }
    const struct str path = config_path_join(r->arena, e->path, e->key->text);
    for (ptrdiff_t i = 0; i < r->reading->guard_count; i++)
        if (str_equal(r->reading->guards[i].path, path)) return true;
    return false;
}

static void name(struct reader *r, enum config_role role, const struct entry *e) {
    const struct str path = config_path_join(r->arena, e->path, e->key->text);
    const struct str text = config_node_follow(e->value)->text;
    const struct str place = config_node_place(r->arena, r->config, e->key);
    struct str_list *likely = &r->reading->likely_models;
    if (role == CONFIG_MODEL) {
        str_list_add(r->arena, likely, path);
        return;
    }
    config_reader_warn(r, "%.*s: is %.*s = %.*s the %s? then use --key %s=%.*s", STR_ARG(place),
                       STR_ARG(path), STR_ARG(text), config_role_name(role), config_role_name(role),
                       STR_ARG(shell_word(r->arena, path)));
    if (role == CONFIG_SEQUENCE_LENGTH)
        config_add_guard(r->arena, r->reading,
                         (struct config_guard){.kind = STR("sizes"),
                                               .what = STR("texts of another length"),
                                               .path = path,
                                               .value = text,
                                               .traits = CONFIG_OTHER_LENGTH});
    struct config_value *batch = &r->reading->values[CONFIG_BATCH];
    if (role != CONFIG_ACCUMULATION || batch->refusal.len > 0) return;
    batch->refusal = str_format(
        r->arena,
        "%.*s: %.*s = %.*s may be the accumulation, which a new batch would not follow "
        "(--key accumulation=%.*s reads it; --force-special writes anyway)",
        STR_ARG(place), STR_ARG(path), STR_ARG(text), STR_ARG(shell_word(r->arena, path)));
}

// "=amp" is the whole name, another word a part of it.
static bool names_one(struct str key, struct str words) {
    while (words.len > 0) {
        const struct str word = str_cut(&words, ' ');
        const bool is_whole = str_starts(word, STR("="));
        if (is_whole ? str_equal(key, str_slice(word, 1, word.len)) : str_find(key, word) >= 0)
            return true;
    }
    return false;
}

// "!key", "!section.key": a name that sounds so and is none.
static bool is_left_out(struct arena *a, const struct entry *e, struct str words) {
    const struct str path = str_format(a, ".%.*s.%.*s", STR_ARG(e->path), STR_ARG(e->key->text));
    while (words.len > 0) {
        const struct str word = str_cut(&words, ' ');
        if (str_starts(word, STR("!")) &&
            str_ends(path, str_format(a, ".%.*s", STR_ARG(str_slice(word, 1, word.len)))))
            return true;
    }
    return false;
}

static bool is_switch(struct str key) {
    static const char *const switches[] = {"enabled", "enable", "use", NULL};
    return str_is_one_of(key, switches);
}

// Of "amp: {enabled: true}" the section has the name.
static struct str name_of(const struct entry *e) {
    return is_switch(e->key->text) ? str_last(e->path, '.') : e->key->text;
}

// A batch beside one of another name may be the batch of all micro-steps.
static bool is_said(const struct reader *r, int role, struct str words) {
    const struct config_value *v = &r->reading->values[role];
    return v->line > 0 && (role != CONFIG_BATCH || names_one(v->path, words));
}

static int name_all(struct reader *r, enum config_role role, struct str words,
                    const struct entry *e, int count) {
    const struct config_value *said = &r->reading->values[role];
    for (; e && count < MOST; e = config_scope_next(&r->scope, e)) {
        if (!names_one(name_of(e), words) || is_left_out(r->arena, e, words)) continue;
        if (e->evaluation || !config_scope_holds(&r->scope, e)) continue;
        if (str_find(e->path, STR("deepspeed")) >= 0) continue; // compared with the trainer's
        if (is_read(r, e) || !is_likely(r, role, e)) continue;
        // What a file beside it says of the same is compared elsewhere.
        if (said->line > 0 && (said->file.len > 0) != (e->value->file > 0)) continue;
        name(r, role, e);
        count++;
    }
    return count;
}

// --- Slips of the pen ----------------------------------------------------------------------------

enum { SLIPS_MOST = 2 };

// A slip is a letter, of a long name two: more of them are another name.
static bool is_slip(struct str typed, struct str name) {
    enum { LEAST = 7, LONG = 16 };
    const ptrdiff_t more = typed.len > name.len ? typed.len - name.len : name.len - typed.len;
    const int most = typed.len < LONG ? 1 : SLIPS_MOST;
    return typed.len >= LEAST && more <= most && near_distance(typed, name) <= most;
}

// Which letters and digits a name has, as bits: each letter of difference changes two of them at
// most, so that of a million keys few are compared letter by letter.
static uint64_t letters_of(struct str name) {
    uint64_t letters = 0;
    for (ptrdiff_t i = 0; i < name.len; i++) {
        const unsigned char c = (unsigned char)name.p[i];
        if (c != ' ' && c != '-' && c != '_')
            letters |= UINT64_C(1) << (c & 31) << (c < '@' ? 32 : 0);
    }
    return letters;
}

struct wanted {
    struct str name;
    uint64_t letters;
};
struct wanted_list {
    struct wanted *items;
    ptrdiff_t count, capacity;
};

static void want(struct reader *r, struct wanted_list *all, struct str name) {
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (str_equal(all->items[i].name, name)) return;
    }
    *arena_push(r->arena, &all->items, &all->count, &all->capacity) =
        (struct wanted){name, letters_of(name)};
}

// The keys of the roles that are taken by default.
static struct wanted_list all_wanted(struct reader *r) {
    struct wanted_list all = {0};
    for (int role = 0; role < CONFIG_ROLES; role++) {
        const struct config_value *v = &r->reading->values[role];
        struct str places = r->dialect->roles[role].places;
        struct str_list every = {0};
        while (v->line <= 0 && role != CONFIG_PRECISION && places.len > 0)
            config_braces_expand(r->arena, str_cut(&places, ' '), &every);
        for (ptrdiff_t i = 0; i < every.count; i++) want(r, &all, str_last(every.items[i], '.'));
    }
    return all;
}

static bool may_be_slip(uint64_t typed, uint64_t name) {
    return __builtin_popcountll(typed ^ name) <= 2 * SLIPS_MOST;
}

// Keys that are nearly one of those.
static void name_slips(struct reader *r) {
    const struct wanted_list wanted = all_wanted(r);
    for (ptrdiff_t i = 0; i < r->scope.count; i++) {
        const struct entry *e = &r->scope.entries[i];
        const uint64_t letters = letters_of(e->key->text);
        for (ptrdiff_t j = 0; j < wanted.count; j++) {
            const struct str name = wanted.items[j].name;
            if (!may_be_slip(letters, wanted.items[j].letters)) continue;
            if (str_equal(e->key->text, name) || !is_slip(e->key->text, name)) continue;
            if (e->evaluation || !config_scope_holds(&r->scope, e) || is_read(r, e)) continue;
            config_reader_warn(r, "%.*s: %.*s is not read: is %.*s meant?",
                               STR_ARG(config_node_place(r->arena, r->config, e->key)),
                               STR_ARG(config_path_join(r->arena, e->path, e->key->text)),
                               STR_ARG(name));
        }
    }
}

void config_reader_maybe(struct reader *r, const struct dialect *every) {
    name_slips(r);
    for (int role = 0; every && role < CONFIG_ROLES; role++) {
        const struct str words = every->maybe[role];
        int count = is_said(r, role, words) ? MOST : 0;
        for (ptrdiff_t i = 0; words.len > 0 && i < r->scope.count && count < MOST; i++) {
            const struct entry *e = &r->scope.entries[i];
            if (e->is_first && (is_switch(e->key->text) || names_one(e->key->text, words)))
                count = name_all(r, (enum config_role)role, words, e, count);
        }
    }
}
