// SPDX-License-Identifier: Apache-2.0
// The command as it was typed, for those who type it again.
#include "cli/cli.h"

#include <string.h>

// The option that a word is, as argp takes it: the whole name, or the beginning of one only.
static const struct cli_row *row_of(struct arena *a, const struct cli_verb *verb,
                                    const char *word) {
    struct str rest = str_of(word), name = str_cut(&rest, '=');
    const struct cli_row *found = NULL;
    int count = 0;
    if (!verb || !str_starts(name, STR("--")) || name.len < 3) return NULL;
    const char *text = str_z_swapped(a, str_slice(name, 2, name.len), '_', '-');
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (strcmp(row->name, text) == 0) return row;
        if (strncmp(row->name, text, strlen(text)) != 0) continue;
        found = row;
        count++;
    }
    return count == 1 ? found : NULL;
}

static bool is_named(const char *names, const char *name) {
    return names && str_has_word(str_of(names), str_of(name));
}

// The words of a value that stand behind the option.
static char **skip_value(const struct cli_row *row, char **word) {
    if (!row->value || strchr(*word, '=')) return word;
    if (row->kind != CLI_MANY) return word[1] ? word + 1 : word;
    while (word[1] && word[1][0] != '-') word++;
    return word;
}

struct str_words cli_words_without(struct arena *a, const struct cli_options *base,
                                   const char *names, const char *more) {
    struct str_words kept = {.arena = a};
    const struct cli_verb *verb =
        base->words[0] ? cli_verb_find(base->verbs, str_of(base->words[0])) : NULL;
    for (char **word = base->words; *word; word++) {
        const struct cli_row *row = row_of(a, verb, *word);
        if (strcmp(*word, "--json") == 0 && is_named(names, "json")) continue; // of every verb
        if (row && (is_named(names, row->name) || is_named(more, row->name)))
            word = skip_value(row, word);
        else
            str_word_add(&kept, str_of(*word));
    }
    return kept;
}
