// SPDX-License-Identifier: Apache-2.0
// All that must be the same for the results of two calls to belong together, written as lines:
// bench goes on by it, fit answers from the history by it.
#ifndef CMD_IDENTITY_H
#define CMD_IDENTITY_H

#include "base/str.h"
#include "launch/launch.h"

void identity_line(struct buf *b, const char *name, struct str text);
// Name, size and time of change. Not a regular file, or NULL: nothing.
void identity_file(struct buf *b, const char *path);
// The program that PATH leads to, and the folder of its Python packages where it has one: what was
// installed since is another PyTorch.
void identity_program(struct arena *a, struct buf *b, struct str name);
// The command, its files, the Python, the environment and the options of its trials.
void identity_launch(struct arena *a, struct buf *b, char *const *command, const struct launch *l,
                     const struct launch_options *o);
// The Python files beside each file that the command names, and in the folder of the call.
void identity_sources(struct arena *a, struct buf *b, char *const *command);

#endif
