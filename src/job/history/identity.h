// SPDX-License-Identifier: Apache-2.0
// All that must be the same for the results of two calls to belong together, written as lines:
// bench goes on by it, fit answers from the history by it.
#pragma once

#include "base/str.h"
#include "measure/launch/launch.h"

void history_identity_line(struct buf *b, const char *name, struct str text);
// Name, size and time of change. Not a regular file, or NULL: nothing.
void history_identity_file(struct buf *b, const char *path);
// The command, its files, the Python, the environment and the options of its trials.
void history_identity_launch(struct arena *a, struct buf *b, char *const *command,
                             const struct launch *l, const struct launch_options *o);
// The Python files beside each file that the command names, and in the folder of the call.
void history_identity_sources(struct arena *a, struct buf *b, char *const *command);
