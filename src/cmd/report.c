// SPDX-License-Identifier: Apache-2.0
#include "cmd/report.h"

#include "base/os.h"

#include <libgen.h>

static const struct report_kind *find(const struct report_kind *kinds, struct str path) {
    for (; kinds->suffix; kinds++) {
        if (str_ends(path, str_of(kinds->suffix))) return kinds;
    }
    return NULL;
}

static int not_a_kind(struct arena *a, const struct report_kind *kinds, const char *option,
                      struct str path, struct fail *why) {
    struct buf all = buf_new(a);
    for (; kinds->suffix; kinds++) {
        buf_format(&all, "%s%s", all.count > 0 ? ", " : "", kinds->suffix);
    }
    fail_set(why, FAIL_USAGE, "--%s %.*s: what to write is said by its end", option, STR_ARG(path));
    return fail_hint(why, "one of %.*s", STR_ARG(buf_str(&all)));
}

int report_check(struct arena *a, const struct report_kind *kinds, const char *option,
                 const char *paths, struct fail *why) {
    struct str rest = str_of(paths);
    while (rest.p) {
        struct str path = str_cut(&rest, '\n');
        if (!find(kinds, path)) return not_a_kind(a, kinds, option, path, why);
        const char *folder = dirname(str_z(a, path));
        if (os_exists(folder)) continue;
        return fail_set(why, FAIL_INPUT, "--%s %.*s: there is no folder %s", option, STR_ARG(path),
                        folder);
    }
    return 0;
}

int report_write(struct arena *a, const struct report_kind *kinds, const char *paths, void *context,
                 struct fail *why) {
    struct str rest = str_of(paths);
    int rc = 0;
    while (rest.p && rc == 0) {
        struct str path = str_cut(&rest, '\n');
        rc = os_replace(a, str_z(a, path), find(kinds, path)->text(context), NULL, why);
    }
    return rc;
}
