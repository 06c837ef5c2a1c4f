// SPDX-License-Identifier: Apache-2.0
// What a command prints: all of it is counted, the tail is kept in a ring, and everything goes to a
// file where one was asked for. Memory stays the same however much is printed.
#include "measure/trial/trial_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int trial_log_open(struct arena *a, const char *path, struct log *l, struct fail *why) {
    *l = (struct log){.ring = arena_new(a, char, LOG_TAIL_BYTES), .file_fd = -1};
    if (!path) return 0;
    l->file_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (l->file_fd >= 0) return 0;
    fail_set(why, FAIL_INPUT, "%s: cannot keep the trial's output there: %s", path,
             strerror(errno));
    return fail_hint(why, "name a file in an existing folder that you can write to");
}

static void add_to_file(struct log *l, struct str text) {
    while (l->file_fd >= 0 && text.len > 0) {
        ssize_t n = write(l->file_fd, text.p, (size_t)text.len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) { // a full disk must not stop the trial
            l->error = n < 0 ? errno : EIO;
            trial_log_close(l);
            return;
        }
        text = str_slice(text, n, text.len);
    }
}

void trial_log_add(struct log *l, struct str text) {
    add_to_file(l, text);
    int64_t total = l->total_bytes + text.len;
    if (text.len > LOG_TAIL_BYTES) text = str_slice(text, text.len - LOG_TAIL_BYTES, text.len);
    ptrdiff_t at = (ptrdiff_t)((total - text.len) % LOG_TAIL_BYTES);
    ptrdiff_t first = text.len < LOG_TAIL_BYTES - at ? text.len : LOG_TAIL_BYTES - at;
    if (first > 0) memcpy(l->ring + at, text.p, (size_t)first);
    if (text.len > first) memcpy(l->ring, text.p + first, (size_t)(text.len - first));
    l->total_bytes = total;
}

struct str trial_log_tail(struct arena *a, const struct log *l) {
    ptrdiff_t length = l->total_bytes < LOG_TAIL_BYTES ? (ptrdiff_t)l->total_bytes : LOG_TAIL_BYTES;
    ptrdiff_t begin = (ptrdiff_t)((l->total_bytes - length) % LOG_TAIL_BYTES);
    char *text = arena_new(a, char, length + 1);
    ptrdiff_t first = length < LOG_TAIL_BYTES - begin ? length : LOG_TAIL_BYTES - begin;
    memcpy(text, l->ring + begin, (size_t)first);
    memcpy(text + first, l->ring, (size_t)(length - first));
    return (struct str){text, length};
}

void trial_log_close(struct log *l) {
    // A network file system may write only now.
    if (l->file_fd >= 0 && close(l->file_fd) < 0 && l->error == 0) l->error = errno;
    l->file_fd = -1;
}
