// SPDX-License-Identifier: Apache-2.0
// Logs of a watched machine: CSV with dmon's column names, one row a GPU and reading
// (doc/formats/watch-log.md), and JSON Lines, one document a reading (doc/formats/watch.md). What
// is in the file are whole lines, whatever happens.
#pragma once

#include "measure/observe/observe.h"

struct watch_log; // private

// `files`: their names, one a line. An existing file is gone on with when it is a log of ours, else
// FAIL_INPUT. FAIL_USAGE: a name that does not end in .csv, .jsonl or .json.
int watch_logs_open(struct arena *a, const char *files, struct watch_log **ret_logs,
                    struct fail *why);
// Adds what the view has of new readings to all of them. FAIL_MACHINE: a full disk, a reader that
// has gone, a file that was removed; the last line is whole.
int watch_logs_add(struct watch_log *logs, const struct observe_view *view, struct arena *scratch,
                   struct fail *why);
// One that writes documents to this descriptor, in front of `others` (NULL: none).
struct watch_log *watch_log_on(struct arena *a, int fd, const char *name, struct watch_log *others);
void watch_logs_close(struct watch_log *logs);
