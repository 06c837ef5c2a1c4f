// SPDX-License-Identifier: Apache-2.0
#include "predict/snapshot/snapshot_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct snapshot_input snapshot_input_file(struct arena *a, int fd) {
    unsigned char *window = arena_new(a, unsigned char, SNAPSHOT_WINDOW);
    return (struct snapshot_input){
        .fd = fd, .p = window, .end = window, .window = window, .begin = window};
}

struct snapshot_input snapshot_input_bytes(struct str bytes) {
    const unsigned char *p = (const unsigned char *)bytes.p;
    return (struct snapshot_input){.fd = -1, .p = p, .end = p + bytes.len, .begin = p};
}

bool snapshot_input_more(struct snapshot_input *in, ptrdiff_t count) {
    if (in->fd < 0 || in->error || count > SNAPSHOT_WINDOW) return false;
    ptrdiff_t rest = in->end - in->p;
    in->offset += in->p - in->begin;
    if (rest > 0) memmove(in->window, in->p, (size_t)rest);
    in->p = in->begin = in->window;
    in->end = in->window + rest;
    while (rest < count) {
        ssize_t n = read(in->fd, in->window + rest, (size_t)(SNAPSHOT_WINDOW - rest));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) in->error = errno;
        if (n <= 0) return false;
        rest += n;
        in->end = in->window + rest;
    }
    return true;
}

bool snapshot_input_skip(struct snapshot_input *in, int64_t count) {
    while (count > in->end - in->p) {
        count -= in->end - in->p;
        in->p = in->end;
        if (!snapshot_input_more(in, 1)) return false;
    }
    in->p += count;
    return true;
}
