// SPDX-License-Identifier: Apache-2.0
// Whether a training opens the checkpoint that it was told to resume from. Whatever library reads
// it, the kernel tells of files that are opened (inotify(7)). A training that has made a step and
// opened none, but to write it, started over: it does not know its resume option, or looks
// elsewhere. Where that cannot be told (too many files, no more watches), nothing is said.
#include "verbs/run/run.h"

#include "base/os.h"

#include <fts.h>
#include <libgen.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { FILES_MAX = 1024 };
enum { WRITES = IN_MODIFY | IN_CLOSE_WRITE, EVENTS = IN_OPEN | IN_CLOSE_NOWRITE | WRITES };

// True: each file of the tree is watched, and there is one.
static bool watch_tree(int fd, char *path) {
    char *paths[] = {path, NULL};
    FTS *tree = fts_open(paths, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int files = 0;
    bool is_good = tree;
    for (FTSENT *e; is_good && (e = fts_read(tree));) {
        if (e->fts_info != FTS_F) continue;
        is_good = files++ < FILES_MAX && inotify_add_watch(fd, e->fts_path, EVENTS) >= 0;
    }
    if (tree) fts_close(tree);
    return is_good && files > 0;
}

int run_open_watch(const struct run *r, struct str checkpoint) {
    ARENA_AUTO scratch = {0};
    int fd = checkpoint.len > 0 ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
    if (fd < 0) return -1;
    char *path = str_z(&scratch, checkpoint);
    // One that finds its newest itself may take another one beside it.
    if (watch_tree(fd, r->rules.takes_newest ? dirname(path) : path)) return fd;
    os_close(&fd);
    return -1;
}

// A file that is opened to be written is emptied before the kernel tells that it was opened, or
// written before it is closed.
static bool was_read(int fd) {
    uint32_t seen[FILES_MAX + 1] = {0}; // by a file's watch: they count from 1
    struct inotify_event event;         // of a file: without a name
    while (read(fd, &event, sizeof event) > 0) {
        if (event.mask & IN_CLOSE_NOWRITE) return true;
        if (event.wd >= 1 && event.wd <= FILES_MAX) seen[event.wd] |= event.mask;
    }
    for (int i = 1; i <= FILES_MAX; i++) {
        if ((seen[i] & IN_OPEN) && !(seen[i] & WRITES)) return true;
    }
    return false;
}

static void say_starts_over(const struct run *r) {
    struct str words = run_resume_words(r->arena, r->o->base.command);
    run_say("the training starts over: it made a step without opening %.*s, and its next save may "
            "overwrite that checkpoint (Ctrl-C stops it)",
            STR_ARG(r->state.resumed.path));
    run_say("what {resume} puts into its command is not what it takes; %.*s", STR_ARG(words));
}

void run_open_look(struct run_watch *w, bool has_step) {
    if (w->opened_fd < 0) return;
    bool is_read = was_read(w->opened_fd);
    if (!is_read && !has_step) return;
    os_close(&w->opened_fd);
    w->opened_fd = -1;
    w->resumes = is_read ? RUN_RESUMED : RUN_STARTED_OVER;
    if (is_read || w->is_believed) return;
    w->base = 0;
    say_starts_over(w->run);
}
