// SPDX-License-Identifier: Apache-2.0
// Who may do what with a file: carried from one file to another, and never widened. All extended
// attributes are read as bytes, the POSIX ACL (system.posix_acl_access) among them: where a file
// has one, the group's bits of its mode are only the ACL's mask, and mean more without it.
#include "base/os.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char acl[] = "system.posix_acl_access";

// Spaces of names that are somebody's data or rights. Others (lustre., btrfs., ...) say how a file
// lies on its disk. Of security., what holds for the bytes of the old file alone is left out.
static bool is_carried(struct str name) {
    static const char *const spaces[] = {"user.", "system.", "security.", "trusted.", NULL};
    static const char *const bytes[] = {"security.ima", "security.evm", "security.capability",
                                        NULL};
    return str_starts_one_of(name, spaces) && !str_is_one_of(name, bytes);
}

static bool has_no_attributes(int error) {
    return error == EOPNOTSUPP || error == ENOSYS;
}

static int carry(struct arena *a, const char *from, const char *name, int to) {
    ssize_t size = getxattr(from, name, NULL, 0);
    if (size < 0) return errno == ENODATA ? 0 : -errno; // gone meanwhile
    char *value = arena_new(a, char, size + 1), *there = arena_new(a, char, size + 1);
    size = getxattr(from, name, value, (size_t)size);
    if (size < 0) return -errno;
    // A security label that the system has given already need not be set, which few may do.
    if (fgetxattr(to, name, there, (size_t)size) == size &&
        memcmp(value, there, (size_t)size) == 0) {
        return 0;
    }
    return fsetxattr(to, name, value, (size_t)size, 0) < 0 ? -errno : 0;
}

static int carry_all(struct arena *a, const char *from, int to, struct str *ret_what) {
    ssize_t size = listxattr(from, NULL, 0);
    if (size < 0) return has_no_attributes(errno) ? 0 : -errno;
    char *names = arena_new(a, char, size + 1);
    size = listxattr(from, names, (size_t)size);
    if (size < 0) return -errno;
    for (const char *name = names; name < names + size; name += strlen(name) + 1) {
        if (!is_carried(str_of(name))) continue;
        int rc = carry(a, from, name, to);
        if (rc == 0) continue;
        *ret_what = strcmp(name, acl) == 0 ? STR("access control list")
                                           : str_format(a, "attribute %s", name);
        return rc;
    }
    return 0;
}

// What is left of the mode when others own the new file: no group that had no rights gets any.
static int give_owner(struct arena *a, const struct stat *st, int to, struct str_list *notes,
                      mode_t *mode) {
    struct stat now;
    if (fstat(to, &now) < 0) return -errno;
    if (now.st_uid == st->st_uid && now.st_gid == st->st_gid) return 0;
    if (fchown(to, st->st_uid, st->st_gid) == 0) return 0;
    if (errno != EPERM) return -errno;
    if (now.st_uid != st->st_uid) {
        *mode &= (mode_t)~S_ISUID;
        str_list_format(a, notes,
                        "its owner is now user %u: user %u's file could not "
                        "be given back",
                        (unsigned)now.st_uid, (unsigned)st->st_uid);
    }
    if (now.st_gid == st->st_gid || fchown(to, (uid_t)-1, st->st_gid) == 0) return 0;
    if (errno != EPERM) return -errno;
    mode_t others = (*mode & S_IRWXO) << 3;
    *mode &= ~(mode_t)(S_ISGID | S_IRWXG) | others;
    str_list_format(a, notes,
                    "its group is now %u, with the rights of others: group %u "
                    "could not be kept",
                    (unsigned)now.st_gid, (unsigned)st->st_gid);
    return 0;
}

int os_set_mode(int to, mode_t mode) {
    struct stat now;
    if (fchmod(to, mode) == 0) return 0;
    const int error = errno;
    const bool has_none = error == EPERM || error == EINVAL || has_no_attributes(error);
    const bool is_closed = fstat(to, &now) == 0 && (now.st_mode & 07777 & ~mode) == 0;
    return has_none && is_closed ? 0 : -error;
}

int os_copy_access(struct arena *a, const char *from, const struct stat *st, int to,
                   struct str_list *notes, struct str *ret_what) {
    mode_t mode = st->st_mode & 07777;
    *ret_what = STR("owner");
    int rc = give_owner(a, st, to, notes, &mode);
    if (rc < 0) return rc;
    // A folder's default ACL gives new files rights that the old one need not have had.
    if (fremovexattr(to, acl) < 0 && errno != ENODATA && !has_no_attributes(errno)) return -errno;
    *ret_what = STR("mode");
    rc = os_set_mode(to, mode);
    if (rc < 0) return rc;
    // An ACL speaks of the group by "its group": that must be the same one.
    if (mode != (st->st_mode & 07777) && getxattr(from, acl, NULL, 0) > 0) {
        *ret_what = STR("access control list");
        return -EPERM;
    }
    return carry_all(a, from, to, ret_what);
}
