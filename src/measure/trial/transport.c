// SPDX-License-Identifier: Apache-2.0
// How the lines of the steps protocol travel from the command to us (doc/formats/steps.md): one row
// of a table each. All of them are offered to the command, which takes the first that works for it.
//
// Recipe: for another way (a cluster's launcher, a socket), one row: what is opened before the
// start, which variables tell the command of it, and how what is new is read.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// In one go, so that one that writes without end does not keep us from the rest.
enum { READ_AT_MOST = 4 << 20, PIPE_WANTED_BYTES = 1 << 20, FILES_AT_MOST = 4096 };
#define LOOK_EVERY_NS INT64_C(20000000)

int trial_pipe_open(const char *of, int *ret_read_fd, int *ret_write_fd, struct fail *why) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return fail_set(why, FAIL_MACHINE, "cannot create a pipe for the trial's %s: %s", of,
                        strerror(errno));
    }
    *ret_read_fd = ends[0];
    *ret_write_fd = ends[1];
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_WANTED_BYTES); // more room; not everybody may
    return 0;
}

static int open_steps_pipe(struct transport *t, struct fail *why) {
    return trial_pipe_open("steps", &t->read_fd, &t->write_fd, why);
}

static void describe_pipe(const struct transport *t, struct arena *a, char **variables,
                          int *count) {
    struct stat st;
    if (t->write_fd < 0 || fstat(t->write_fd, &st) < 0) return;
    variables[(*count)++] = (char *)str_format(a, "BATCHFIT_FD=%d", GUARD_STEPS_FD).p;
    variables[(*count)++] =
        (char *)str_format(a, "BATCHFIT_FD_ID=%llu:%llu", (unsigned long long)st.st_dev,
                           (unsigned long long)st.st_ino)
            .p;
}

static void read_pipe(struct transport *t, struct steps *steps) {
    char bytes[1 << 16];
    for (ptrdiff_t total = 0; t->read_fd >= 0 && total < READ_AT_MOST;) {
        ssize_t n = read(t->read_fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return; // nothing there now
        if (n == 0) {      // nobody holds it any more
            os_close(&t->read_fd);
            t->read_fd = -1;
            return;
        }
        if (steps) steps_feed(steps, &t->source, (struct str){bytes, n});
        total += n;
    }
}

static int open_nothing(struct transport *t, struct fail *why) {
    (void)t;
    (void)why;
    return 0;
}

static void describe_folder(const struct transport *t, struct arena *a, char **variables,
                            int *count) {
    variables[(*count)++] = (char *)str_format(a, "BATCHFIT_STEPS_DIR=%.*s", STR_ARG(t->folder)).p;
}

static struct transport_file *find_file(struct transport *t, const char *name) {
    for (ptrdiff_t i = 0; i < t->file_count; i++) {
        if (str_is(t->files[i].name, name)) return &t->files[i];
    }
    if (t->file_count >= FILES_AT_MOST) return NULL;
    struct transport_file *file =
        arena_push(t->arena, &t->files, &t->file_count, &t->file_capacity);
    *file = (struct transport_file){.name = str_copy(t->arena, str_of(name)),
                                    .source.partial = buf_new(t->arena)};
    return file;
}

static void read_file(int folder_fd, struct transport_file *file, struct steps *steps) {
    struct stat st;
    char bytes[1 << 16];
    if (fstatat(folder_fd, file->name.p, &st, AT_SYMLINK_NOFOLLOW) < 0) return;
    if (!S_ISREG(st.st_mode) || st.st_size <= file->offset) return;
    OS_FD fd = openat(folder_fd, file->name.p, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    for (ptrdiff_t total = 0; fd >= 0 && total < READ_AT_MOST;) {
        ssize_t n = pread(fd, bytes, sizeof bytes, file->offset);
        if (n <= 0) return;
        if (steps) steps_feed(steps, &file->source, (struct str){bytes, n});
        file->offset += n;
        total += n;
    }
}

static void read_folder(struct transport *t, struct steps *steps) {
    int64_t now_ns = os_now_ns();
    if (!t->folder.len || now_ns < t->next_look_ns) return;
    t->next_look_ns = now_ns + LOOK_EVERY_NS;
    DIR *folder = opendir(t->folder.p);
    for (const struct dirent *d; folder && (d = readdir(folder));) {
        if (!str_ends(str_of(d->d_name), STR(".jsonl"))) continue;
        struct transport_file *file = find_file(t, d->d_name);
        if (file) read_file(dirfd(folder), file, steps);
    }
    if (folder) closedir(folder);
}

static const struct transport_row transports[] = {
    {"inherited descriptor", open_steps_pipe, describe_pipe, read_pipe},
    {"files in a folder", open_nothing, describe_folder, read_folder},
    {0},
};

int trial_transport_open(struct arena *a, struct transport *t, struct fail *why) {
    *t =
        (struct transport){.arena = a, .read_fd = -1, .write_fd = -1, .source.partial = buf_new(a)};
    for (const struct transport_row *row = transports; row->name; row++) {
        int code = row->open(t, why);
        if (code < 0) return code;
    }
    return 0;
}

void trial_transport_describe(const struct transport *t, struct arena *a, char **variables) {
    int count = 0;
    for (const struct transport_row *row = transports; row->name; row++) {
        row->describe(t, a, variables, &count);
    }
    variables[count] = NULL;
}

void trial_transport_read(struct transport *t, struct steps *steps, bool is_last) {
    if (is_last) t->next_look_ns = 0;
    for (const struct transport_row *row = transports; row->name; row++) row->read(t, steps);
}

void trial_transport_close(struct transport *t) {
    os_close(&t->read_fd);
    os_close(&t->write_fd);
    t->read_fd = t->write_fd = -1;
}
