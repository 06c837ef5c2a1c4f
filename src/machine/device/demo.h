// SPDX-License-Identifier: Apache-2.0
// --demo: the machine that is shipped inside the program, for a look at the views without a GPU.
// Its values are invented (tools/demo-machine); it says so itself, so every view does.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// What --machine and --demo say together, the latter's folder unpacked into the user's cache; NULL
// is this machine. FAIL_USAGE: both were given.
int device_demo_or_machine(struct arena *a, bool demo, const char *machine, const char **ret_folder,
                           struct fail *why);
