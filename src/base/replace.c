// SPDX-License-Identifier: Apache-2.0
// Replacing a file so that neither a crash nor somebody else's save loses a text.
//
//     lock       flock on the folder: two of us never write at once. The kernel drops the lock of a
//                process that dies, so none is ever stale. Where it cannot be had, the rest holds
//     compare    the file is what was read, or nothing happens
//     write      the new text under a name of its own, with the old file's rights, synced; likewise
//                the backup
//     compare    again, as late as can be
//     exchange   renameat2(RENAME_EXCHANGE): what was really replaced is there to be looked at
//     look       if it is not what was read, somebody saved in the last microseconds: exchanged
//                back. If it is, this very inode becomes the backup, so that what an editor still
//                writes into the file that it holds open is found there
//
// Names, which nobody types: .batchfit~XXXXXX is a text that is not whole yet;
// .batchfit~XXXXXX.NAME may be one that was replaced. Those of killed writes are removed by the
// next write, the second kind only when the text is there elsewhere.
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 10000, LOCK_POLL_MS = 2, LINKS_MAX = 40, BACKUPS_MAX = 1000, NAME_LEN = 200 };
static const int64_t whole_file = INT64_C(1) << 30;
static const struct str prefix = {".batchfit~", 10};
enum { PREFIX_AND_DIGITS = 16 };

struct replacing {
    struct arena *arena;
    const char *path; // as the user gave it
    char *target;     // what that stands for
    char *folder;     // of the target
    struct str text;
    bool is_locked, exists, keeps_backup;
    bool backup_is_new; // made by this write
    struct stat st;     // of what is to be replaced
    struct str before;  // its text
    struct str what;    // that could not be kept
    struct os_updated *done;
    struct fail *why;
};

// --- Saying why not ------------------------------------------------------------------------------

static int failed(const struct replacing *r, int error) {
    fail_set(r->why, FAIL_MACHINE, "%s: cannot write: %s", r->path, strerror(error));
    return fail_hint(r->why, error == ENOSPC || error == EDQUOT
                                 ? "free some space; the old file is untouched"
                                 : "check the permissions of the file and its folder; the old file "
                                   "is untouched");
}

static int failed_access(const struct replacing *r, int error) {
    if (r->what.len == 0) return failed(r, error);
    fail_set(r->why, FAIL_MACHINE, "%s: not written: its %.*s cannot be kept: %s", r->path,
             STR_ARG(r->what), strerror(error));
    return fail_hint(r->why, "edit it by hand; the old file is untouched");
}

static int failed_race(const struct replacing *r) {
    fail_set(r->why, FAIL_INPUT, "%s: changed by someone else since it was read", r->path);
    return fail_hint(r->why, "run the command again on the new file");
}

// --- Where, and alone ----------------------------------------------------------------------------

// Through symlinks, also to a file that does not exist yet.
static int resolve(struct replacing *r) {
    struct arena *a = r->arena;
    char *resolved = realpath(r->path, NULL);
    r->target = str_z(a, str_of(resolved ? resolved : r->path));
    free(resolved);
    char link[PATH_MAX];
    for (int i = 0; i <= LINKS_MAX; i++) {
        ssize_t n = readlink(r->target, link, sizeof link);
        if (n < 0 || n == sizeof link) break;
        if (i == LINKS_MAX) return failed(r, ELOOP);
        const char *beside = link[0] == '/' ? NULL : dirname(str_z(a, str_of(r->target)));
        r->target = str_z(
            a, str_format(a, "%s%s%.*s", beside ? beside : "", beside ? "/" : "", (int)n, link));
    }
    r->folder = dirname(str_z(a, str_of(r->target)));
    struct stat st;
    if (lstat(r->path, &st) == 0 && S_ISLNK(st.st_mode) && !os_exists(r->target)) {
        str_list_format(a, &r->done->notes,
                        "%s is a symlink to %s, which did not exist: it was made", r->path,
                        r->target);
    }
    return 0;
}

// The folder's descriptor; -1: it has no such lock; -EWOULDBLOCK: somebody holds it all the time.
static int lock_folder(const char *folder, int64_t wait_ms) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    for (int64_t left_ms = wait_ms; flock(fd, LOCK_EX | LOCK_NB) < 0; left_ms -= LOCK_POLL_MS) {
        int error = errno;
        if (error == EWOULDBLOCK && left_ms > 0) {
            nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_MS * 1000000L}, NULL);
            continue;
        }
        if (error == EINTR) continue;
        close(fd);
        return error == EWOULDBLOCK ? -EWOULDBLOCK : -1;
    }
    return fd;
}

static int failed_lock(const struct replacing *r) {
    fail_set(r->why, FAIL_MACHINE,
             "%s: not written: another program has held the lock of %s for "
             "10 s",
             r->path, r->folder);
    return fail_hint(r->why, "lsof %s names it; the old file is untouched", r->folder);
}

// --- The file as it is ---------------------------------------------------------------------------

static bool is_plain(const char *name) {
    struct stat st;
    return lstat(name, &st) == 0 && S_ISREG(st.st_mode);
}

// 0 where the file's text is this one; else why not.
static int compare(struct replacing *r, const char *name, struct str text) {
    struct arena_mark mark = arena_mark(r->arena);
    struct str now;
    if (!is_plain(name)) return failed_race(r);
    int rc = os_read(r->arena, name, whole_file, &now, NULL, r->why);
    if (rc == 0 && !str_equal(now, text)) rc = failed_race(r);
    arena_rewind(r->arena, mark);
    return rc;
}

static bool is_in(const struct replacing *r, const char *name, struct str text) {
    struct replacing quiet = *r;
    quiet.why = NULL;
    return compare(&quiet, name, text) == 0;
}

static int look(struct replacing *r, const struct os_stamp *stamp) {
    r->exists = stat(r->target, &r->st) == 0;
    if (!r->exists && errno != ENOENT) return failed(r, errno);
    if (stamp && stamp->known != r->exists) return failed_race(r);
    if (!r->exists) return 0;
    if (!S_ISREG(r->st.st_mode)) { // /dev/null stays a device
        return fail_set(r->why, FAIL_INPUT, "%s: not a regular file", r->path);
    }
    if (access(r->target, W_OK) < 0) return failed(r, errno);
    if (!stamp && !r->keeps_backup) return 0;
    if (stamp) {
        r->before = stamp->text;
        return compare(r, r->target, stamp->text);
    }
    return os_read(r->arena, r->target, whole_file, &r->before, NULL, r->why);
}

// --- New files -----------------------------------------------------------------------------------

// What a file system says that cannot do a call (FAT, FUSE, network mounts), or not with its flags.
static bool is_unsupported(int error) {
    return error == EPERM || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

// The text, whole and synced, under a name in the folder that nobody looks at. The rights come
// last: until then it is ours alone.
static int write_whole(struct replacing *r, int fd, struct str text, struct str_list *notes) {
    int rc = os_write(fd, text);
    if (rc < 0) return rc;
    mode_t mask = umask(0);
    umask(mask);
    if (r->exists)
        rc = os_copy_access(r->arena, r->target, &r->st, fd, notes, &r->what);
    else
        rc = os_set_mode(fd, 0666 & ~mask);
    if (rc < 0) return rc;
    r->what = (struct str){0};
    return fsync(fd) < 0 && !is_unsupported(errno) ? -errno : 0;
}

static int write_beside(struct replacing *r, const char *folder, struct str text,
                        struct str_list *notes, char **ret_name) {
    char *name = str_z(r->arena, str_format(r->arena, "%s/%.*sXXXXXX", folder, STR_ARG(prefix)));
    OS_FD fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = write_whole(r, fd, text, notes);
    if (rc < 0) unlink(name);
    *ret_name = name;
    return rc;
}

// The free name is taken by an empty file, which nobody else can make at once, and that is
// replaced.
static int take_name(const char *from, const char *to) {
    struct stat st;
    OS_FD fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    if (rename(from, to) == 0) return 0;
    int error = errno;
    if (stat(to, &st) == 0 && st.st_size == 0) unlink(to);
    return -error;
}

// Moves a file to a name that is free; link, because rename overwrites. File systems without hard
// links have the renaming that does not, or neither.
static int place(const char *from, const char *to) {
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (!is_unsupported(errno) && errno != EMLINK) return -errno;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    return is_unsupported(errno) ? take_name(from, to) : -errno;
}

// Whether nobody may read the backup who may not read the file.
static bool is_as_closed(const struct replacing *r, const char *name) {
    struct stat st;
    return stat(name, &st) == 0 && (st.st_mode & ~r->st.st_mode & 0777) == 0 &&
           st.st_uid == r->st.st_uid && st.st_gid == r->st.st_gid;
}

static struct str backup_name(struct replacing *r, int i) {
    return i ? str_format(r->arena, "%s.bak.%d", r->path, i)
             : str_format(r->arena, "%s.bak", r->path);
}

// `from` gets the next backup's name that is free.
static int keep_aside(struct replacing *r, const char *from, struct str *ret_name) {
    for (int i = 0; i < BACKUPS_MAX; i++) {
        *ret_name = backup_name(r, i);
        int rc = place(from, ret_name->p);
        if (rc != -EEXIST) return rc;
    }
    return -EEXIST;
}

static int make_backup(struct replacing *r) {
    struct str_list unsaid = {0};
    char *name;
    for (int i = 0; i < BACKUPS_MAX; i++) {
        struct str there = backup_name(r, i);
        if (!os_exists(there.p)) break;
        if (!is_as_closed(r, there.p) || !is_in(r, there.p, r->before)) continue;
        r->done->backup = there;
        return 0;
    }
    const char *folder = dirname(str_z(r->arena, str_of(r->path)));
    int rc = write_beside(r, folder, r->before, &unsaid, &name);
    if (rc < 0) return failed_access(r, -rc);
    struct str to = {0};
    rc = keep_aside(r, name, &to);
    if (rc < 0) unlink(name);
    if (rc == -EEXIST)
        return fail_set(r->why, FAIL_MACHINE, "%s: a thousand backups already exist; delete some",
                        r->path);
    if (rc < 0) return failed(r, -rc);
    os_sync_folder(folder);
    r->done->backup = to;
    r->backup_is_new = true;
    return 0;
}

// --- The exchange --------------------------------------------------------------------------------

// Afterwards `name` is the new text's file, and the old one has its name. Where the kernel cannot
// do this in one step, a second link holds on to the old file; without links, too, it is lost.
static int exchange(struct replacing *r, const char *name) {
    if (renameat2(AT_FDCWD, name, AT_FDCWD, r->target, RENAME_EXCHANGE) == 0) return 0;
    if (!is_unsupported(errno)) return -errno;
    char *held = str_z(r->arena, str_of(name));
    strrchr(held, '/')[1 + PREFIX_AND_DIGITS] = '-';
    bool is_held = link(r->target, held) == 0;
    if (rename(name, r->target) < 0) {
        int error = errno;
        if (is_held) unlink(held);
        return -error;
    }
    if (is_held) (void)rename(held, name); // it stays where it is, and the next write finds it
    return 0;
}

// What was replaced was not what was read (why says so): it comes back. A file whose text is not
// ours is never removed, whoever wrote into it meanwhile.
static int give_back(struct replacing *r, const char *name, int rc) {
    struct str kept;
    if (exchange(r, name) < 0) {
        fail_set(r->why, FAIL_MACHINE, "%s: what somebody saved at this very moment is in %s",
                 r->path, name);
        return fail_hint(r->why, "copy that file over %s", r->path);
    }
    if (is_in(r, name, r->text)) {
        unlink(name);
    } else { // a second save, newer than the first, was on our file
        (void)exchange(r, name);
        if (keep_aside(r, name, &kept) == 0) {
            fail_hint(r->why, "it was saved twice meanwhile: the first text is in %.*s",
                      STR_ARG(kept));
        }
    }
    os_sync_folder(r->folder);
    return rc;
}

// The file that was replaced becomes the backup, unless it has names elsewhere: what is written
// under those later must not change the backup.
static void retire(struct replacing *r, const char *name) {
    struct stat st;
    bool is_ours = r->keeps_backup && stat(name, &st) == 0 && st.st_nlink == 1;
    if (!is_ours || rename(name, r->done->backup.p) < 0) unlink(name);
}

static struct str short_name(struct replacing *r) {
    struct str whole = str_of(basename(str_z(r->arena, str_of(r->target))));
    return str_slice(whole, 0, whole.len < NAME_LEN ? whole.len : NAME_LEN);
}

static bool is_gone(const char *name) {
    struct stat st;
    return lstat(name, &st) < 0 && errno == ENOENT;
}

static int swap(struct replacing *r, char *temporary) {
    char *name =
        str_z(r->arena, str_format(r->arena, "%s.%.*s", temporary, STR_ARG(short_name(r))));
    if (rename(temporary, name) < 0) {
        int error = errno;
        unlink(temporary);
        return failed(r, error);
    }
    int rc = compare(r, r->target, r->before);
    if (rc == 0) {
        rc = exchange(r, name);
        if (rc < 0) rc = failed(r, -rc);
    }
    if (rc < 0) {
        unlink(name);
        return rc;
    }
    if (is_gone(name)) return 0; // neither exchange nor links: there is nothing to look at
    rc = compare(r, name, r->before);
    if (rc < 0) return give_back(r, name, rc);
    retire(r, name);
    return 0;
}

static int put(struct replacing *r, char *temporary, bool may_overwrite) {
    int rc = !may_overwrite                     ? place(temporary, r->target)
             : rename(temporary, r->target) < 0 ? -errno
                                                : 0;
    if (rc == 0) return 0;
    unlink(temporary);
    return rc == -EEXIST ? failed_race(r) : failed(r, -rc);
}

// --- What killed writes left ---------------------------------------------------------------------

static bool is_in_a_backup(struct replacing *r, struct str text) {
    if (str_equal(text, r->text) || (r->exists && str_equal(text, r->before))) return true;
    for (int i = 0; i < BACKUPS_MAX; i++) {
        struct str name = backup_name(r, i);
        if (!os_exists(name.p)) return false;
        if (is_in(r, name.p, text)) return true;
    }
    return false;
}

static void clean_one(struct replacing *r, const char *folder, struct str name) {
    const char *path = str_format(r->arena, "%s/%.*s", folder, STR_ARG(name)).p;
    struct str kept, text;
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return;
    if (name.len > PREFIX_AND_DIGITS) {
        struct str whose = str_slice(name, PREFIX_AND_DIGITS + 1, name.len);
        if (!str_equal(whose, short_name(r))) return;
        if (os_read(r->arena, path, whole_file, &text, NULL, NULL) < 0) return;
        if (!is_in_a_backup(r, text)) {
            if (keep_aside(r, path, &kept) < 0) return;
            str_list_format(r->arena, &r->done->notes, "left by a killed write, now %.*s",
                            STR_ARG(kept));
            return;
        }
    }
    unlink(path);
}

// Under the lock, so that nobody is still at work on them.
static void clean(struct replacing *r, const char *folder) {
    DIR *all = opendir(folder);
    for (const struct dirent *d; all && (d = readdir(all));) {
        struct str name = str_of(d->d_name);
        if (name.len < PREFIX_AND_DIGITS || !str_starts(name, prefix)) continue;
        if (name.len > PREFIX_AND_DIGITS && !strchr(".-", name.p[PREFIX_AND_DIGITS])) continue;
        struct str digits = str_slice(name, prefix.len, PREFIX_AND_DIGITS);
        if (str_is_made_of(digits, "")) clean_one(r, folder, str_copy(r->arena, name));
    }
    if (all) closedir(all);
}

static void clean_all(struct replacing *r) {
    if (r->is_locked) clean(r, r->folder);
    if (!r->keeps_backup) return;
    const char *link_folder = dirname(str_z(r->arena, str_of(r->path)));
    struct stat a, b;
    if (stat(link_folder, &a) < 0 || stat(r->folder, &b) < 0) return;
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) return;
    OS_FD lock = lock_folder(link_folder, 0);
    if (lock >= 0) clean(r, link_folder);
}

// --- All of it -----------------------------------------------------------------------------------

static void tell_links(struct replacing *r) {
    if (!r->exists || !r->keeps_backup || r->st.st_nlink < 2) return;
    str_list_format(r->arena, &r->done->notes,
                    "%s was one of %ld names of a file (hard links): the others "
                    "keep the old text",
                    r->path, (long)r->st.st_nlink);
}

static int replace_locked(struct replacing *r, const struct os_stamp *stamp) {
    char *temporary;
    int rc = look(r, stamp);
    if (rc < 0) return rc;
    rc = write_beside(r, r->folder, r->text, &r->done->notes, &temporary);
    if (rc < 0) return failed_access(r, -rc);
    if (r->exists && r->keeps_backup) rc = make_backup(r);
    if (rc < 0) {
        unlink(temporary);
        return rc;
    }
    const bool is_watched = stamp || r->keeps_backup;
    rc = r->exists && is_watched ? swap(r, temporary) : put(r, temporary, !is_watched);
    if (rc < 0) {
        if (r->backup_is_new) unlink(r->done->backup.p);
        r->done->backup = (struct str){0};
        return rc;
    }
    os_sync_folder(r->folder);
    tell_links(r);
    clean_all(r);
    return 0;
}

static int replace(struct replacing *r, const struct os_stamp *stamp) {
    int rc = resolve(r);
    if (rc < 0) return rc;
    const bool is_watched = stamp || r->keeps_backup;
    OS_FD lock = lock_folder(r->folder, is_watched ? LOCK_WAIT_MS : LOCK_WAIT_MS / 10);
    if (lock == -EWOULDBLOCK && is_watched) return failed_lock(r);
    r->is_locked = lock >= 0;
    return replace_locked(r, stamp);
}

int os_update(struct arena *a, const char *path, struct str text, const struct os_stamp *stamp,
              struct os_updated *ret, struct fail *why) {
    *ret = (struct os_updated){0};
    struct replacing r = {
        .arena = a, .path = path, .text = text, .keeps_backup = true, .done = ret, .why = why};
    return replace(&r, stamp);
}

int os_replace(struct arena *a, const char *path, struct str text, const struct os_stamp *stamp,
               struct fail *why) {
    struct os_updated unsaid = {0};
    struct replacing r = {.arena = a, .path = path, .text = text, .done = &unsaid, .why = why};
    return replace(&r, stamp);
}
