// SPDX-License-Identifier: Apache-2.0
// The words of older scripts, for all verbs in one table (compat_table.c). They stand in no
// --help, no man page and no completion, and an option that a verb has itself is never looked up
// here.
#pragma once

#include "cli/verb.h"

enum cli_compat_kind {
    CLI_COMPAT_BECOMES,  // another option, or another verb
    CLI_COMPAT_NEEDLESS, // what the verb does anyway: accepted without a word
    CLI_COMPAT_IGNORED,  // changes nothing here, which stderr says with what to use instead
    CLI_COMPAT_REFUSED,  // not done here: an error that says who does it
};

// What becomes of the value on the way.
enum cli_compat_value {
    CLI_COMPAT_AS_IT_IS,
    CLI_COMPAT_REST,  // a share that may be used: what it leaves free
    CLI_COMPAT_RANKS, // there is none: as many as --gpu-ids names
};

struct cli_compat_row {
    const char *verbs;   // "fit infer"
    const char *options; // their spellings, with dashes; "mode=": it takes a value
    const char *becomes; // "--gpu=" with the value, "--amp=on" without, "=": itself; NULL: nothing
    const char *verb;    // that answers in the place of the one that was typed; NULL: the same
    enum cli_compat_kind kind;
    const char *says; // why, and what to use instead; NULL where becomes says it
    enum cli_compat_value value;
};
extern const struct cli_compat_row cli_compat_table[]; // ends with a row without verbs

// A command line: its verb, and its words with the verb's name first.
struct cli_compat_words {
    const struct cli_verb *const *verbs; // among which another one is found
    const struct cli_verb *verb;
    int count;
    char **items;
};
// Puts today's words in the place of older ones, up to a lone "--"; verb and words may be others
// afterwards. FAIL_USAGE with the replacement in the hint for what is refused.
int cli_compat_read(struct arena *a, struct cli_compat_words *words, struct fail *why);
