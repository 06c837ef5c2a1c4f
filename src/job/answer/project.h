// SPDX-License-Identifier: Apache-2.0
// Whether the code around a config reads a key: a key that nobody reads is worse than none.
#pragma once

#include "base/str.h"

enum answer_reads {
    ANSWER_READS_UNKNOWN, // no code is there, or too much to look through
    ANSWER_READS_NOT,     // and all of it was looked at
    ANSWER_READS,
};
struct answer_project {
    enum answer_reads reads;
    int files;        // Python files and notebooks that were looked at
    struct str other; // a name of the same kind that the code does have: "accumulation_steps"
};
// Looks for the last word of `key` in the Python files and notebooks of the config's project
// (question_project). `alike`: part of names of the same kind, in small letters. A section that is
// passed on whole (**cfg.trainer) is taken for read. Symbolic links are not followed; installed
// packages, hidden folders and files over 1 MiB are passed over; at most 2000 files are opened.
struct answer_project answer_project_look(struct arena *a, struct str config, struct str key,
                                          struct str alike);
