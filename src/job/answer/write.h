// SPDX-License-Identifier: Apache-2.0
// Putting an answer into the user's config: the smallest edit, a backup, an atomic replacement.
#pragma once

#include "job/answer/answer.h"

// Replaces the file, with a backup of what is there; the backup's name goes into *report. With a
// known stamp it fails when the file has changed since.
int answer_write_file(struct arena *a, const char *path, struct str text,
                      const struct os_stamp *stamp, struct buf *report, struct fail *why);

// Whether what is to be written rests on an answer that does not count all that the config says,
// and nobody forces it; then *report says so.
bool answer_write_is_refused(const struct question *q, bool force, struct buf *report);
// The same of an answer for a size that nobody said (answer_open_size).
bool answer_write_is_assumed(const struct question *q, const struct answer *answer, bool force,
                             struct buf *report);

struct answer_write_options {
    const char *save_config;  // another file to write to; NULL: the config itself
    unsigned flags;           // enum config_flags
    bool force;               // also when the answer does not count all that the config says
    bool is_measured;         // by trials of the config as it is
    bool add_accumulation;    // also a key that the code around the config never reads
    struct config_edits more; // beside what the answer changes
};
// Writes and sets answer->config_written; what was changed is added to *report as lines for people.
// FAIL_NO: answer_write_is_refused or _is_assumed, or a new key would be read by nobody
// (project.h). A file that cannot be edited is an error (FAIL_INPUT with the place), and *report
// says what to type.
int answer_write(struct question *q, struct answer *answer,
                 const struct answer_write_options *options, struct buf *report, struct fail *why);
