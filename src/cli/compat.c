// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include "base/out.h"
#include "base/unit.h"

#include <stdio.h>
#include <string.h>

// One walk over the words of one verb.
struct walk {
    struct arena *arena;
    const struct cli_verb *const *verbs;
    const struct cli_verb *verb, *other; // other: who is to answer instead; NULL: the same
    int count;
    char **from;
    struct str_words to;
};

static bool is_own(const struct cli_verb *verb, struct str name) {
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (str_is(name, row->name)) return true;
    }
    return false;
}

static const struct cli_compat_row *row_of(struct walk *w, struct str name, bool *ret_takes_value) {
    if (is_own(w->verb, name)) return NULL;
    struct str with_value = str_format(w->arena, "%.*s=", STR_ARG(name));
    for (const struct cli_compat_row *row = cli_compat_table; row->verbs; row++) {
        if (!str_has_word(str_of(row->verbs), str_of(w->verb->name))) continue;
        *ret_takes_value = str_has_word(str_of(row->options), with_value);
        if (*ret_takes_value || str_has_word(str_of(row->options), name)) return row;
    }
    return NULL;
}

static struct str count_gpus(struct walk *w) {
    int count = 0;
    for (int i = 1; i < w->count; i++) {
        struct str value = str_of(w->from[i]), name = str_cut(&value, '=');
        if (!str_is(name, "--gpu-ids") && !str_is(name, "--gpu_ids")) continue;
        if (!value.p && i + 1 < w->count) value = str_of(w->from[i + 1]);
        while (value.p) count += str_cut(&value, ',').len > 0;
    }
    return count > 0 ? str_format(w->arena, "%d", count) : (struct str){0};
}

static struct str turned(struct walk *w, enum cli_compat_value how, struct str value) {
    double share;
    if (how == CLI_COMPAT_RANKS) return count_gpus(w);
    if (how == CLI_COMPAT_AS_IT_IS || !unit_parse_share(value, &share)) return value;
    return str_format(w->arena, "%.17g", 1 - share);
}

// "--bucket-cap-mb=" and 25 are the words "--bucket-cap-mb" and "25"; "--axis=a=" and 25 "--axis"
// and "a=25".
static void put(struct walk *w, const struct cli_compat_row *row, struct str name,
                struct str value) {
    struct str text = str_of(row->becomes), option = str_cut(&text, '=');
    if (option.len == 0) option = str_format(w->arena, "--%.*s", STR_ARG(name));
    value = turned(w, row->value, value);
    if (row->value == CLI_COMPAT_RANKS && !value.p) return;
    str_word_add(&w->to, option);
    if (!text.p || (text.len == 0 && !value.p)) return;
    str_word_add(&w->to, str_format(w->arena, "%.*s%.*s", STR_ARG(text), STR_ARG(value)));
}

static int two_verbs(const struct walk *w, const char *a, const char *b, struct fail *why) {
    fail_set(why, FAIL_USAGE, "%s: these options now belong to two verbs", w->verb->name);
    return fail_hint(why, "use batchfit %s and batchfit %s", a, b);
}

static int apply(struct walk *w, const struct cli_compat_row *row, struct str name,
                 struct str value, struct fail *why) {
    if (row->kind == CLI_COMPAT_REFUSED) {
        fail_set(why, FAIL_USAGE, "%s has no option --%.*s", w->verb->name, STR_ARG(name));
        return fail_hint(why, "%s", row->says);
    }
    if (row->kind == CLI_COMPAT_IGNORED) {
        out_say(stderr, "batchfit: --%.*s changes nothing: %s\n", STR_ARG(name), row->says);
    }
    if (row->verb) {
        const struct cli_verb *other = cli_verb_find(w->verbs, str_of(row->verb));
        if (w->other && w->other != other) return two_verbs(w, w->other->name, row->verb, why);
        w->other = other;
    }
    if (row->becomes) put(w, row, name, value);
    return 0;
}

static int walk(struct walk *w, struct fail *why) {
    int i = 1, rc = 0;
    str_word_add(&w->to, str_of(w->from[0]));
    for (; i < w->count && strcmp(w->from[i], "--") != 0 && rc == 0; i++) {
        struct str value = str_of(w->from[i]), name = str_cut(&value, '=');
        bool takes_value = false, is_long = str_starts(name, STR("--"));
        struct str spelled =
            str_of(str_z_swapped(w->arena, str_slice(name, is_long ? 2 : 0, name.len), '_', '-'));
        const struct cli_compat_row *row = is_long ? row_of(w, spelled, &takes_value) : NULL;
        if (!row) {
            str_word_add(&w->to, str_of(w->from[i]));
            continue;
        }
        bool is_next = takes_value && !value.p && i + 1 < w->count;
        if (is_next) value = str_of(w->from[++i]);
        rc = apply(w, row, spelled, value, why);
    }
    for (; i < w->count && rc == 0; i++) str_word_add(&w->to, str_of(w->from[i]));
    return rc;
}

// Twice at most: the verb that answers instead has older words of its own.
int cli_compat_read(struct arena *a, struct cli_compat_words *words, struct fail *why) {
    for (int turn = 0; turn < 2; turn++) {
        struct walk w = {a,           words->verbs, words->verb, NULL, words->count, words->items,
                         {.arena = a}};
        int rc = walk(&w, why);
        if (rc < 0) return rc;
        if (turn > 0 && w.other) return two_verbs(&w, words->verb->name, w.other->name, why);
        words->items = w.to.items;
        words->count = (int)w.to.count;
        if (!w.other) return 0;
        words->verb = w.other;
    }
    return 0;
}
