// SPDX-License-Identifier: Apache-2.0
// Where what is kept for this user lies. It is read as data and run as code, so a folder that
// somebody else owns or may write to is not used, whatever the environment says: HOME outlives su
// and sudo -E (git's safe.directory is the model).
#include "base/os.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PASSWD_BYTES = 16 << 10 };
// A path below which nothing can be read or made.
static const char nowhere[] = "/dev/null";

static bool is_ours(const struct stat *st) {
    return st->st_uid == geteuid() || st->st_uid == 0;
}

// What a folder holds may be changed by those who may write there; whoever may rename it cannot put
// another of ours in its place.
static bool is_ours_alone(const struct stat *st) {
    bool shared = (st->st_mode & S_IWGRP) && st->st_gid != getegid();
    return is_ours(st) && !shared && !(st->st_mode & S_IWOTH);
}

bool os_trusts(const char *base, const char *path) {
    ARENA_AUTO a = {0};
    char *whole = str_z(&a, str_of(path));
    struct stat st;
    for (size_t i = strlen(base);; i++) {
        if (whole[i] && whole[i] != '/') continue;
        char kept = whole[i];
        whole[i] = 0;
        int rc = stat(*whole ? whole : "/", &st);
        whole[i] = kept;
        if (rc < 0) return errno == ENOENT || errno == ENOTDIR; // nothing is there to be read
        if (!is_ours(&st)) return false;
        if (!kept) return i == strlen(base) || is_ours_alone(&st);
    }
}

static const char *trusted_variable(const char *variable) {
    const char *base = getenv(variable);
    return base && base[0] == '/' && os_trusts(base, base) ? base : NULL;
}

const char *os_home(void) {
    return trusted_variable("HOME");
}

static struct str passwd_home(struct arena *a) {
    struct passwd entry, *found = NULL;
    char *text = arena_new(a, char, PASSWD_BYTES);
    int rc = getpwuid_r(geteuid(), &entry, text, PASSWD_BYTES, &found);
    bool is_one = rc == 0 && found && found->pw_dir && found->pw_dir[0] == '/';
    return is_one ? str_of(found->pw_dir) : (struct str){0};
}

bool os_private_dir(struct arena *a, struct str *ret_folder) {
    const char *base = getenv("TMPDIR");
    struct stat st;
    *ret_folder = str_format(a, "%s/batchfit-%u", base && *base ? base : "/tmp", geteuid());
    if (mkdir(ret_folder->p, 0700) < 0 && errno != EEXIST) return false;
    return lstat(ret_folder->p, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

static bool has_own(struct arena *a, struct str base, const char *below, struct str *ret_folder) {
    if (base.len == 0) return false;
    *ret_folder = str_format(a, "%.*s/%sbatchfit", STR_ARG(base), below);
    return os_trusts(str_z(a, base), ret_folder->p);
}

static struct str user_dir(struct arena *a, const char *variable, const char *under_home) {
    struct str folder;
    if (has_own(a, str_of(trusted_variable(variable)), "", &folder)) return folder;
    if (has_own(a, str_of(os_home()), under_home, &folder)) return folder;
    if (has_own(a, passwd_home(a), under_home, &folder)) return folder;
    if (!os_private_dir(a, &folder)) folder = str_of(nowhere);
    return str_format(a, "%.*s/%sbatchfit", STR_ARG(folder), under_home);
}

struct str os_cache_dir(struct arena *a) {
    return user_dir(a, "XDG_CACHE_HOME", ".cache/");
}

struct str os_data_dir(struct arena *a) {
    return user_dir(a, "XDG_DATA_HOME", ".local/share/");
}

struct str os_home_note(struct arena *a) {
    static const char *const variables[] = {"HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                            "XDG_STATE_HOME"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *base = getenv(variables[i]);
        if (!base || base[0] != '/' || os_trusts(base, base)) continue;
        return str_format(a, "%s is %s, which belongs to another user: not used", variables[i],
                          base);
    }
    return (struct str){0};
}
