// SPDX-License-Identifier: Apache-2.0
// Between the files of the verb record.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// from_snapshot.c: a tape of one memory snapshot (it holds for that batch alone), or of two at two
// batches. `files` has line ends between, `batches` commas; it and name may
// be NULL.
struct record_snapshots {
    const char *files, *batches, *name;
};
int record_from_snapshot(struct arena *a, const struct record_snapshots *o, const char *output,
                         struct fail *why);
