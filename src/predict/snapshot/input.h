// SPDX-License-Identifier: Apache-2.0
// Inside the room only: the bytes of a file, once from front to end through a window, so that the
// file takes no memory however long it is.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum { SNAPSHOT_WINDOW = 1 << 20 };

struct snapshot_input {
    int fd; // -1: all bytes are there
    const unsigned char *p, *end;
    unsigned char *window;
    int64_t offset; // in the file, of the window's beginning
    const unsigned char *begin;
    int error; // errno of a read that failed
};
struct snapshot_input snapshot_input_file(struct arena *a, int fd);
struct snapshot_input snapshot_input_bytes(struct str bytes);
// Reads on until `count` bytes are there (at most SNAPSHOT_WINDOW); false: the file ends before.
bool snapshot_input_more(struct snapshot_input *in, ptrdiff_t count);
// Passes over bytes; false: the file ends before.
bool snapshot_input_skip(struct snapshot_input *in, int64_t count);

static inline bool input_has(struct snapshot_input *in, ptrdiff_t count) {
    return in->end - in->p >= count || snapshot_input_more(in, count);
}
static inline int64_t input_at(const struct snapshot_input *in) {
    return in->offset + (in->p - in->begin);
}
