// SPDX-License-Identifier: Apache-2.0
// The config and the files that it is made of.
#pragma once

#include "records/config/config.h"

// The project that a config is in: the nearest folder above it that holds .git, pyproject.toml or
// setup.py; without one, the working folder if the config is below it, else the config's own.
struct str question_project(struct arena *a, const char *path);

// Where configs are read from, if not from the file system: a commit of git. By the path that the
// user typed, or one that a config names relative to that.
struct question_source {
    int (*read)(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why);
    void *self;
};

// config_parse with the other files of the config at hand: regular files of at most 16 MiB inside
// of its project, wherever a link leads.
int question_parse(struct arena *a, const char *path, struct str text, struct config *ret_config,
                   struct fail *why);
// The same with the other files from where this one came from.
int question_parse_from(struct arena *a, const char *path, struct str text,
                        const struct question_source *source, struct config *ret_config,
                        struct fail *why);
