// SPDX-License-Identifier: Apache-2.0
// Reading a verb's command line by its option table, with argp.
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include "cmd/cmd.h"

// Fills a struct of verb->options_size bytes. 0, or FAIL_USAGE with the nearest option in the hint;
// --help and a missing value end the program here (argp).
int options_read(struct arena *a, const struct verb *verb, int argc, char **argv,
                 struct options **ret_options, struct fail *why);

#endif
