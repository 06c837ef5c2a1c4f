// SPDX-License-Identifier: Apache-2.0
// Secrets in command lines. Wherever a command line is written down or shown, these stand as "***"
// (SECURITY.md has the rule); what is run, and what tells one command from another, is the command
// itself.
#pragma once

#include "base/str.h"

// A copy of the words (NULL-ended), as they may be shown.
char **secret_masked(struct arena *a, char *const *words);
