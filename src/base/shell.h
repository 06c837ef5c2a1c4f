// SPDX-License-Identifier: Apache-2.0
// Commands as one would type them.
#pragma once

#include "base/str.h"

// A word of a command that we propose: quoted where a shell would look at it; what is hidden
// (out.h) stands as $'\x1b'.
struct str shell_word(struct arena *a, struct str word);
// A command as it is shown or written down: its secrets (out.h) are hidden.
struct str shell_command(struct arena *a, char *const *words);
