// SPDX-License-Identifier: Apache-2.0
// Reading a verb's command line by its option table, with argp.
#pragma once

#include "cli/verb.h"

// Fills a struct of verb->options_size bytes. 0, or FAIL_USAGE with the nearest option in the hint;
// --help and a missing value end the program here (argp).
int cli_options_read(struct arena *a, const struct cli_verb *verb, int argc, char **argv,
                     struct cli_options **ret_options, struct fail *why);

// The command as it was typed, up to a "--", without the options of these two lists of names (NULL:
// none) and their values. Abbreviations are what argp takes them for.
struct str_words cli_words_without(struct arena *a, const struct cli_options *base,
                                   const char *names, const char *more);
