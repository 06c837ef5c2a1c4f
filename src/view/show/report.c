// SPDX-License-Identifier: Apache-2.0
#include "view/show/show.h"

#include "base/os.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

static const struct show_report_kind *find(const struct show_report_kind *kinds, struct str path) {
    for (; kinds->suffix; kinds++) {
        if (str_ends(path, str_of(kinds->suffix))) return kinds;
    }
    return NULL;
}

static int not_a_kind(struct arena *a, const struct show_report_kind *kinds, const char *option,
                      struct str path, struct fail *why) {
    struct buf all = buf_new(a);
    for (; kinds->suffix; kinds++) {
        buf_format(&all, "%s%s", all.count > 0 ? ", " : "", kinds->suffix);
    }
    fail_set(why, FAIL_USAGE, "--%s %.*s: unknown file type", option, STR_ARG(path));
    return fail_hint(why, "end the name in one of %.*s", STR_ARG(buf_str(&all)));
}

// The folder is made when the report is written: the nearest that is there must let us.
static int check_folder(struct arena *a, const char *option, struct str path, struct fail *why) {
    const char *folder = dirname(str_z(a, path));
    struct stat st;
    while (!os_exists(folder) && strchr(folder, '/') && strcmp(folder, "/") != 0) {
        folder = dirname(str_z(a, str_of(folder)));
    }
    if (!os_exists(folder)) folder = ".";
    bool is_folder = stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_folder && access(folder, W_OK | X_OK) == 0) return 0;
    fail_set(why, is_folder ? FAIL_MACHINE : FAIL_INPUT, "--%s %.*s: cannot write: %s: %s", option,
             STR_ARG(path), folder, is_folder ? strerror(errno) : "not a folder");
    return fail_hint(why, "name a file in a folder that you can write to");
}

int show_report_check(struct arena *a, const struct show_report_kind *kinds, const char *option,
                      const char *paths, struct fail *why) {
    struct str rest = str_of(paths);
    while (rest.p) {
        struct str path = str_cut(&rest, '\n');
        const struct show_report_kind *kind = find(kinds, path);
        if (!kind) return not_a_kind(a, kinds, option, path, why);
        int rc = check_folder(a, option, path, why);
        if (rc == 0 && kind->check) rc = kind->check(a, why);
        if (rc < 0) return rc;
    }
    return 0;
}

int show_report_write(struct arena *a, const struct show_report_kind *kinds, const char *paths,
                      void *context, struct fail *why) {
    struct str rest = str_of(paths);
    int rc = 0;
    while (rest.p && rc == 0) {
        struct str path = str_cut(&rest, '\n');
        rc = os_make_dirs(a, dirname(str_z(a, path)), why);
        if (rc < 0) return rc;
        const struct show_report_kind *kind = find(kinds, path);
        struct str text = kind->text(context);
        if (kind->finish) rc = kind->finish(a, text, &text, why);
        if (rc == 0) rc = os_replace(a, str_z(a, path), text, NULL, why);
    }
    return rc;
}
