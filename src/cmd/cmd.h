// SPDX-License-Identifier: Apache-2.0
// The verbs of the program. This is the only room where the others meet.
//
// Recipe: to add a verb NAME
//   1. copy tools/recipes/null.c, a verb that works, to src/cmd/NAME.c (of several files:
//      src/cmd/NAME/): an option table (rows that other verbs have, too, are in src/cmd/rows.h;
//      with more than a dozen, the ten that people use are its `common`),
//      one `NAME_run` and last `const struct verb verb_NAME`; name it in src/cmd/meson.build;
//   2. declare it below and give it a row in the table of src/cmd/verbs.c;
//   3. name it in man/meson.build, which installs its page;
//   4. copy tools/recipes/null.test to tests/cli/NAME.test: what it answers, and each bad input.
// Help, man page and shell completion come from the option table; nothing else is to be written.
// tests/recipes/run does just this in a copy of the tree.
// A verb is short: what two verbs need belongs in a room below.
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

// How an option's value is read, and the type at the row's offset.
enum option_kind {
    OPTION_SWITCH, // bool
    OPTION_TEXT,   // const char *
    OPTION_COUNT,  // int64_t, at least 1
    OPTION_BYTES,  // int64_t: "6GiB"
    OPTION_MEMORY, // int64_t, of a card: as BYTES, but a bare 6 is 6 GiB and a bare 6144 is MiB
    OPTION_SHARE,  // double in [0, 1): "0.15", "15%"; NaN when absent
    OPTION_LIST,   // const char *: repeated values are joined with commas
    OPTION_REPEAT, // const char *: repeated values, joined with line ends: they may hold commas
    OPTION_MANY,   // const char *: all words up to the next option, joined with commas: 4 8 12
    OPTION_NUMBER, // double from 0 on; NaN when absent
};

// One option of a verb, always a long name; underscores are accepted for its dashes.
struct option_row {
    const char *name;  // "batch-size"
    const char *value; // "N", "FILE"; NULL: a switch
    enum option_kind kind;
    size_t offset; // of the member in the verb's struct of options
    const char *help;
    const char
        *words;  // what shell completion offers: "file", "gpus", "models", "a b c"; may be NULL
    char letter; // a short form; 0: none
};

struct verb;

// What a verb gets: its own struct, whose first member is this one.
struct options {
    char **arguments; // positional
    int argument_count;
    char **command; // what stands after "--", NULL-ended; NULL: there is no "--"
    bool json;
    const struct verb *const *verbs; // all of them, for the verbs that speak of others
};

struct verb {
    const char *name, *summary;       // summary: the question it answers
    const char *arguments;            // "TAPE"; NULL: none
    const char *description;          // paragraphs for --help and the man page
    const char *examples;             // command lines, one a line
    const struct option_row *options; // ends with a row without a name
    const char *common;               // "config gpu": the options of --help; NULL: all of them
    size_t options_size;              // of the struct that the rows fill
    // 0: yes, FAIL_NO: the answer is no (already printed), other codes: an error to be printed.
    int (*run)(struct arena *a, const struct options *options, struct fail *why);
    bool hidden;
    bool takes_command; // "-- COMMAND": everything after it is the user's
};

// Of a list that ends with NULL; NULL: there is none.
const struct verb *verb_find(const struct verb *const *list, struct str name);

#endif
