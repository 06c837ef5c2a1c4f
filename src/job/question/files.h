// SPDX-License-Identifier: Apache-2.0
// The config and the files that it is made of.
#ifndef QUESTION_FILES_H
#define QUESTION_FILES_H

#include "records/config/config.h"

// The project that a config is in: the nearest folder above it that holds .git, pyproject.toml or
// setup.py; without one, the working folder if the config is below it, else the config's own.
struct str question_project(struct arena *a, const char *path);

// config_parse with the other files of the config at hand: regular files of at most 16 MiB inside
// of its project, wherever a link leads.
int question_parse(struct arena *a, const char *path, struct str text, struct config *ret_config,
                   struct fail *why);

#endif
