// SPDX-License-Identifier: Apache-2.0
// What a verb is: a name, its options, and a function. The command line is read by its option
// table, and --help, the man page and shell completion come from it; nothing else is to be written.
//
// Recipe: to add a verb NAME
//   1. copy tools/recipes/null.c, a verb that works, to src/verbs/NAME/NAME.c: an option table
//   (rows
//      that other verbs have, too, are in src/cli/rows.h; with more than a dozen, the ten that
//      people use are its `common`), one `NAME_run` and last `const struct cli_verb NAME_verb`;
//   2. give the room a line in src/meson.build and one in tools/layers, before that of
//   verbs/record,
//      then run `tools/layers --write`: doc/house.md shows the house as it is;
//   3. declare the verb in src/verbs/verbs.h and give it a row in the table of src/verbs/verbs.c;
//   4. name it in man/meson.build, which installs its page;
//   5. copy tools/recipes/null.test to tests/cli/NAME.test: what it answers, and each bad input.
// tests/recipes/run does just this in a copy of the tree.
// A verb is short and knows no other verb: what two of them need belongs in a room below.
#pragma once

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

// How an option's value is read, and the type at the row's offset.
enum cli_kind {
    CLI_SWITCH,        // bool
    CLI_TEXT,          // const char *
    CLI_COUNT,         // int64_t, at least 1
    CLI_BYTES,         // int64_t: "6GiB"
    CLI_MEMORY,        // int64_t, of a GPU: as BYTES, but a bare 6 is 6 GiB and a bare 6144 is MiB
    CLI_SHARE,         // double in [0, 1): "0.15", "15%"; NaN when absent
    CLI_LIST,          // const char *: repeated values are joined with commas
    CLI_REPEAT,        // const char *: repeated values, joined with line ends: they may hold commas
    CLI_MANY,          // const char *: all words up to the next option, joined with commas: 4 8 12
    CLI_NUMBER,        // double from 0 on; NaN when absent
    CLI_BYTES_OR_NONE, // int64_t: as BYTES, but 0 is -1: none, which says more than nothing
};

// One option of a verb, always a long name; underscores are accepted for its dashes.
struct cli_row {
    const char *name;  // "batch-size"
    const char *value; // "N", "FILE"; NULL: a switch
    enum cli_kind kind;
    size_t offset; // of the member in the verb's struct of options
    const char *help;
    // What shell completion offers: "file", "gpus", "models", "a b c"; may be NULL.
    const char *words;
    char letter; // a short form; 0: none
};

struct cli_verb;

// What a verb gets: its own struct, whose first member is this one.
struct cli_options {
    char **arguments; // positional
    int argument_count;
    char **command; // what stands after "--", NULL-ended; NULL: there is no "--"
    // The verb and what follows, up to a "--", NULL-ended: the command as it was typed.
    char **words;
    bool json;
    const struct cli_verb *const *verbs; // all of them, for the verbs that speak of others
};

struct cli_verb {
    const char *name, *summary;    // summary: the question it answers
    const char *arguments;         // "TAPE"; NULL: none
    const char *description;       // paragraphs for --help and the man page
    const char *examples;          // command lines, one a line
    const struct cli_row *options; // ends with a row without a name
    const char *common;            // "config gpu": the options of --help; NULL: all of them
    size_t options_size;           // of the struct that the rows fill
    // 0: yes, FAIL_NO: the answer is no (already printed), other codes: an error to be printed.
    int (*run)(struct arena *a, const struct cli_options *options, struct fail *why);
    bool hidden;
    bool takes_command; // "-- COMMAND": everything after it is the user's
};

// Of a list that ends with NULL; NULL: there is none.
const struct cli_verb *cli_verb_find(const struct cli_verb *const *list, struct str name);
