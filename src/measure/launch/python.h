// SPDX-License-Identifier: Apache-2.0
// The Python files that travel inside the program: laid into the cache folder, one folder for each
// version of them, and run by the user's own Python. What we start for ourselves runs nothing of
// the current folder: not by -m or -c, but by start.py, and with the path of
// launch_python_own_path.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// Lays the files out unless they are there already. The folder holds batchfit/ (the package),
// start.py (which runs a module of it) and hook/ (sitecustomize, which puts the step emitter into a
// training).
int launch_python_lay_out(struct arena *a, struct str *ret_folder, struct fail *why);
// The option's value, $BATCHFIT_PYTHON, or python3.
const char *launch_python_program(const char *option);
// `folders` (joined with colons) in front of $PYTHONPATH.
struct str launch_python_path(struct arena *a, struct str folders);
// The same without the empty entries of $PYTHONPATH ("/lib:"), which are the current folder.
struct str launch_python_own_path(struct arena *a, struct str folders);
