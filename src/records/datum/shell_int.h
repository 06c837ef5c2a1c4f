// SPDX-License-Identifier: Apache-2.0
// Inside of the datum room: the commands of a shell script, variables put in (shell_word.c).
#pragma once

#include "records/datum/datum.h"

struct shell_word {
    struct str text; // not known: as it is written
    int line, column;
    bool is_known, is_quoted;
    bool is_flags; // "$ARGS", of which some case may make flags
};
struct shell_command {
    struct shell_word *words;
    ptrdiff_t count, capacity;
    const struct shell_word *environment; // NAME=value in front of it, which are its alone
    ptrdiff_t environment_count;
    int line;
};
struct shell_commands {
    struct shell_command *items;
    ptrdiff_t count, capacity;
};
int datum_shell_commands(struct arena *a, struct datum_source *source, struct shell_commands *ret,
                         struct fail *why);
