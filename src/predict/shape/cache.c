// SPDX-License-Identifier: Apache-2.0
// Where huggingface_hub keeps what it has fetched: models--OWNER--NAME/snapshots/REVISION/..., and
// in refs/main the revision of the main branch.
#include "base/os.h"
#include "predict/shape/shape.h"

#include <stdlib.h>

enum { REVISION_BYTES = 256 };

static struct str variable(const char *name) {
    const char *value = getenv(name);
    return str_of(value && *value ? value : NULL);
}

// Empty: there is no home to look in.
static struct str cache_folder(struct arena *a) {
    struct str hub = variable("HF_HUB_CACHE"), home = variable("HF_HOME");
    if (hub.len == 0) hub = variable("HUGGINGFACE_HUB_CACHE");
    if (hub.len > 0) return hub;
    if (home.len > 0) return str_format(a, "%.*s/hub", STR_ARG(home));
    struct str cache = variable("XDG_CACHE_HOME");
    const char *own = os_home();
    if (cache.len == 0 && !own) return (struct str){0};
    if (cache.len == 0) cache = str_format(a, "%s/.cache", own);
    return str_format(a, "%.*s/huggingface/hub", STR_ARG(cache));
}

static bool is_there(struct arena *a, struct str folder, struct str revision,
                     struct str *ret_path) {
    if (revision.len == 0 || str_find(revision, STR("/")) >= 0) return false;
    *ret_path =
        str_format(a, "%.*s/snapshots/%.*s/config.json", STR_ARG(folder), STR_ARG(revision));
    return os_exists(str_z(a, *ret_path));
}

bool shape_cached(struct arena *a, struct str name, struct str *ret_path) {
    struct str hub = cache_folder(a), *revisions;
    struct buf folder = buf_new(a);
    struct fail unsaid;
    ptrdiff_t count;
    if (hub.len == 0 || name.len == 0) return false;
    buf_format(&folder, "%.*s/models--", STR_ARG(hub));
    while (name.p) {
        struct str part = str_cut(&name, '/');
        if (part.len == 0 || part.p[0] == '.') return false;
        buf_format(&folder, "%.*s%s", STR_ARG(part), name.p ? "--" : "");
    }
    struct str at = buf_str(&folder);
    struct str ref = str_format(a, "%.*s/refs/main", STR_ARG(at));
    struct str main_revision = os_read_below(a, "", str_z(a, ref), REVISION_BYTES);
    if (is_there(a, at, str_trim(main_revision), ret_path)) return true;
    struct str snapshots = str_format(a, "%.*s/snapshots", STR_ARG(at));
    if (os_list(a, str_z(a, snapshots), "", &revisions, &count, &unsaid) < 0) return false;
    for (ptrdiff_t i = count; i > 0; i--) {
        if (is_there(a, at, revisions[i - 1], ret_path)) return true;
    }
    return false;
}
