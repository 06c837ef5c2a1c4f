// SPDX-License-Identifier: Apache-2.0
// A growing file, read with a buffer that does not grow. A line that is not whole yet is read again
// next time; one that does not fit the buffer is passed over.
#include "measure/observe/observe_int.h"

#include "base/os.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tail observe_tail_new(void) {
    return (struct tail){.fd = -1};
}

void observe_tail_close(struct tail *t) {
    os_close(&t->fd);
    *t = observe_tail_new();
}

// How many of the bytes were taken in. `is_wanting`: the reader does not want the next line yet.
static int64_t take_lines(struct tail *t, struct str bytes, const struct tail_reader *r,
                          bool *is_wanting) {
    int64_t taken = 0;
    for (const char *end; (end = memchr(bytes.p, '\n', (size_t)bytes.len));) {
        struct str line = {bytes.p, end - bytes.p};
        if (!t->is_skipping && line.len > 0 && !r->take(r->context, line)) {
            *is_wanting = true;
            return taken;
        }
        t->is_skipping = false;
        taken += line.len + 1;
        bytes = str_slice(bytes, line.len + 1, bytes.len);
    }
    return taken;
}

static void read_until(struct tail *t, int fd, int64_t until, const struct tail_reader *r) {
    bool is_wanting = false;
    while (t->at < until && !is_wanting) {
        ssize_t n = pread(fd, r->buffer, TAIL_LINE_MAX, t->at);
        if (n <= 0) return;
        int64_t taken = take_lines(t, (struct str){r->buffer, n}, r, &is_wanting);
        if (taken == 0 && n < TAIL_LINE_MAX) return; // a line is being written
        if (taken == 0 && !is_wanting) {
            t->is_skipping = true;
            taken = n;
        }
        t->at += taken;
    }
}

static void read_new(struct tail *t, int fd, int64_t size, const struct tail_reader *r) {
    bool is_first = t->at == 0 && !r->holds;
    if (is_first && size > TAIL_BACK + TAIL_LINE_MAX) {
        read_until(t, fd, 1, r); // who speaks
        t->at = size - TAIL_BACK;
        t->is_skipping = true; // we are in the middle of a line
    }
    read_until(t, fd, t->at + TAIL_BACK < size ? t->at + TAIL_BACK : size, r);
}

static int open_file(const char *path, struct stat *st) {
    // A pipe without a writer must not block us.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode)) return fd;
    os_close(&fd);
    return -1;
}

static void read_held_to_its_end(struct tail *t, const struct tail_reader *r) {
    struct stat st;
    if (t->fd >= 0 && fstat(t->fd, &st) == 0) read_new(t, t->fd, st.st_size, r);
}

bool observe_tail_read(struct tail *t, const char *path, const struct tail_reader *r) {
    struct stat st;
    bool is_same = t->is_open && stat(path, &st) == 0 && st.st_ino == t->inode &&
                   st.st_dev == t->device && st.st_size >= t->at;
    if (is_same && st.st_size == t->at) return false;
    read_held_to_its_end(t, r);
    if (is_same && t->fd >= 0) return false;
    int fd = open_file(path, &st);
    if (fd < 0) return false;
    bool was_open = t->is_open;
    bool is_new =
        !was_open || st.st_ino != t->inode || st.st_dev != t->device || st.st_size < t->at;
    if (is_new) {
        observe_tail_close(t);
        *t = (struct tail){.is_open = true, .device = st.st_dev, .inode = st.st_ino, .fd = -1};
    }
    read_new(t, fd, st.st_size, r);
    if (r->holds)
        t->fd = fd;
    else
        os_close(&fd);
    return is_new && was_open;
}
