// SPDX-License-Identifier: Apache-2.0
// The seam to the system: files, clock, processes. errno does not leave this file.
#pragma once

#include "base/fail.h"
#include "base/str.h"

#include <sys/stat.h>
#include <time.h>

// What a file was when it was read; a later write refuses if somebody changed it in between. By its
// bytes: times are coarse, and inodes are used again.
struct os_stamp {
    bool known; // false: there was no file
    struct str text;
};

// Reads a whole regular file (or a pipe) of at most max_bytes. ret_stamp may be NULL.
int os_read(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
            struct os_stamp *ret_stamp, struct fail *why);
// The same for a file that may be edited, a config: a FIFO, device, socket or folder is refused.
int os_read_file(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
                 struct os_stamp *ret_stamp, struct fail *why);

// The text of the file at `path` below `root` ("" is this machine); empty when it cannot be read or
// is longer: for files of /proc and /sys, or of a recorded machine, that need not be there.
struct str os_read_below(struct arena *a, const char *root, const char *path, int64_t max_bytes);
// The same, of at most 4 MiB: no file there is as long.
struct str os_read_small(struct arena *a, const char *root, const char *path);

// Only the first `max_bytes` of a regular file, or all of it when it is shorter.
int os_read_head(struct arena *a, const char *path, int64_t max_bytes, struct str *ret_text,
                 struct fail *why);
// The names in a folder that end in `suffix`, sorted; hidden ones are left out. An absent folder
// has none.
int os_list(struct arena *a, const char *path, const char *suffix, struct str **ret_names,
            ptrdiff_t *ret_count, struct fail *why);

// What an update came to, for people.
struct os_updated {
    struct str backup;     // the name of what was replaced; empty: there was nothing
    struct str_list notes; // other names that keep the old text, what a killed write had left, ...
};
// Replaces the text of a config (replace.c): what was there becomes PATH.bak, or PATH.bak.1, ...
// where that exists with other text. Symlinks are followed; mode, owner, ACL and extended
// attributes are kept, or nothing is written. Fails with FAIL_INPUT when the file is not what the
// stamp says, however late somebody changed it: then it is theirs, and nothing of ours remains. The
// stamp may be NULL: whatever is there is replaced. After a crash, too, the file is whole, old or
// new.
int os_update(struct arena *a, const char *path, struct str text, const struct os_stamp *stamp,
              struct os_updated *ret, struct fail *why);

// The same without a backup, for files that are ours: reports, tables, registers.
int os_replace(struct arena *a, const char *path, struct str text, const struct os_stamp *stamp,
               struct fail *why);

// access.c: the mode of an open file of ours; where the file system has no modes of its own, any
// that opens it to nobody else will do: 0 or -errno.
int os_set_mode(int to, mode_t mode);
// Gives the open file the owner, mode, ACL and extended attributes of the file at `from`
// (st is its stat). An owner or a group that this user may not give is noted, and never opens the
// file to others: 0, or -errno with what could not be kept.
int os_copy_access(struct arena *a, const char *from, const struct stat *st, int to,
                   struct str_list *notes, struct str *ret_what);

// All of it: 0, or -errno.
int os_write(int fd, struct str text);
// So that a name made or changed in it survives a power loss. A folder that cannot be synced (some
// network file systems) loses nothing that was there before.
void os_sync_folder(const char *folder);

bool os_exists(const char *path);
// Whether a path lies in a folder or below it, by their names.
bool os_is_below(struct str path, struct str folder);
// "./a", ".//a" and "a" are one path: the last of them.
struct str os_plain_path(struct str path);
// The folder of a whole path; "/" is its own.
struct str os_parent(struct str path);
// Like mkdir -p; what it makes is never writable by everybody, whatever the umask.
int os_make_dirs(struct arena *a, const char *path, struct fail *why);
// The same for what is nobody else's business: what it makes is 0700.
int os_make_private_dirs(struct arena *a, const char *path, struct fail *why);

// Folders that are ours (home.c): $XDG_CACHE_HOME/batchfit or ~/.cache/batchfit; likewise data. Not
// created. Those that another user owns or may write to are passed over: then the home of the
// password database, then os_private_dir; in the end a path below which nothing can be.
struct str os_cache_dir(struct arena *a);
struct str os_data_dir(struct arena *a);
// $HOME where it is ours; NULL: not set, or another user's.
const char *os_home(void);
// batchfit-UID below $TMPDIR, made if need be; false: it is not this user's alone.
bool os_private_dir(struct arena *a, struct str *ret_folder);
// Whether all folders from `base` down to `path`, as far as they exist, belong to us or to root,
// and (below base) nobody else may write to the last.
bool os_trusts(const char *base, const char *path);
// One line when the environment names a folder of another user; else empty.
struct str os_home_note(struct arena *a);

// Signals for which a process has a handler, of the text of its /proc/PID/status: bit 0 is
// signal 1. False: it does not say. Allocates nothing, and is async-signal-safe.
bool os_signals_caught(const char *status, uint64_t *ret_bits);
int64_t os_now_ns(void);  // monotonic
int64_t os_wall_ns(void); // since 1970, UTC
// The wall clock less os_now_ns(), both of one moment: who reads them one after the other is wrong
// by the time in which another process had the CPU.
int64_t os_wall_ahead_ns(void);

// A process or a thread, by the path of its file: "/proc/7/stat". False: it is gone.
struct os_stat {
    char state; // R runs, S sleeps, D waits for a disk, Z waits to be reaped, …
    int64_t parent;
    int64_t start_ticks; // when it began, since the system did
    int64_t resident_bytes;
    double cpu_seconds; // so far
};
bool os_stat_read(const char *path, struct os_stat *ret_stat);

// The program that the system would start by that name: as it is with a slash in it, else the first
// of $PATH that may be executed; empty: none.
struct str os_program(struct arena *a, struct str name);

// Runs argv (NULL-ended, searched in PATH), stdin empty, stdout and stderr inherited, SIGINT passed
// on by the terminal. ret_status is the exit status, or 128 + signal. Fails when it cannot start.
int os_run(char *const argv[], int *ret_status, struct fail *why);

// What a program printed and how it ended: for questions to a program that may hang.
struct os_captured {
    struct str out, err;
    int status;     // exit status, or 128 + signal
    bool timed_out; // it was killed
};
// Runs argv (as os_run does) in a process group of its own and keeps the first max_bytes of what it
// prints; what is longer is read and dropped. After `deadline_ms` the whole group is killed. Fails
// when it cannot start.
int os_capture(struct arena *a, char *const argv[], int64_t deadline_ms, int64_t max_bytes,
               struct os_captured *ret_captured, struct fail *why);

// Closes a descriptor when its variable goes out of scope; -1 is none.
void os_close(const int *fd);
#define OS_FD __attribute__((cleanup(os_close))) int
