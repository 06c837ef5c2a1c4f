// SPDX-License-Identifier: Apache-2.0
// The scratch folder of a trial. Allocates nothing and does not recurse: the guardian calls it, and
// a program may have made folders deeper than there are descriptors. What is in a sub-folder is
// removed, its own sub-folders are moved up beside it, until nothing is left. Symlinks are removed,
// never followed; what is mounted inside is left alone, and said.
#include "measure/trial/trial_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int trial_scratch_make(int parent_fd, const char *name) {
    if (mkdirat(parent_fd, name, 0700) < 0) return -errno;
    int error = 0;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "steps", 0700) < 0 || mkdirat(fd, "out", 0700) < 0 ||
        mkdirat(fd, "tmp", 0700) < 0) {
        error = errno;
    }
    if (fd >= 0) close(fd);
    if (error) trial_scratch_remove(parent_fd, name);
    return -error;
}

static int open_folder(int parent_fd, const char *name) {
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent_fd, name, flags);
    if (fd < 0 && errno == EACCES) {
        struct stat st; // fchmodat follows symlinks
        if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            return -1;
        if (fchmodat(parent_fd, name, 0700, 0) < 0) return -1;
        fd = openat(parent_fd, name, flags);
    }
    if (fd >= 0) (void)fchmod(fd, 0700); // to be allowed to unlink in it, and to move it
    return fd;
}

static bool drop(int fd, const char *name) {
    return unlinkat(fd, name, 0) == 0 || unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

static void number_name(char name[24], unsigned number) {
    size_t at = 23;
    name[at] = 0;
    do name[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    name[--at] = '-';
    name[--at] = '.';
    memmove(name, name + at, 24 - at);
}

// Moves a folder that is not empty from `fd` to `top_fd`, under a name that is not taken.
static bool lift(int fd, const char *name, int top_fd, unsigned *serial) {
    int folder = open_folder(fd, name);
    if (folder < 0) return false;
    close(folder);
    for (;;) {
        char free_name[24];
        number_name(free_name, ++*serial);
        if (renameat(fd, name, top_fd, free_name) == 0) return true;
        if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return false;
    }
}

// One pass over a folder. Inside the top folder (fd == top_fd) sub-folders are emptied, elsewhere
// they are lifted. Says how many entries there were and whether any is gone.
static int sweep(int fd, int top_fd, unsigned *serial, bool *is_changed) {
    _Alignas(struct folder_entry) char names[1 << 13];
    int seen = 0;
    long bytes;
    if (lseek(fd, 0, SEEK_SET) < 0) return -1;
    while ((bytes = syscall(SYS_getdents64, fd, names, sizeof names)) > 0) {
        for (long at = 0; at < bytes;) {
            const struct folder_entry *e = (const struct folder_entry *)(names + at);
            at += e->length;
            if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0) continue;
            seen++;
            if (drop(fd, e->name)) {
                *is_changed = true;
            } else if (fd != top_fd) {
                if (lift(fd, e->name, top_fd, serial)) *is_changed = true;
            } else {
                int folder = open_folder(fd, e->name);
                if (folder < 0) continue;
                sweep(folder, top_fd, serial, is_changed); // once: it lifts
                close(folder);
            }
        }
    }
    return bytes < 0 ? -1 : seen;
}

bool trial_scratch_remove(int parent_fd, const char *name) {
    int top = open_folder(parent_fd, name);
    if (top < 0) return errno == ENOENT;
    unsigned serial = 0;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        if (sweep(top, top, &serial, &is_changed) <= 0) break;
    }
    close(top);
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0;
}
