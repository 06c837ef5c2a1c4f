// SPDX-License-Identifier: Apache-2.0
// --snapshot: the emitter writes PyTorch's memory snapshot of an out-of-memory; who asked for it is
// told where it is.
#include "base/os.h"
#include "measure/launch/launch_int.h"

#include <stdlib.h>

int launch_snapshots_open(struct launch *l, struct fail *why) {
    const char *folder = l->options->snapshots;
    if (!folder) return 0;
    int rc = os_make_dirs(l->arena, folder, why);
    char *whole = rc == 0 ? realpath(folder, NULL) : NULL; // the command may run elsewhere
    if (rc == 0 && !whole)
        return fail_set(why, FAIL_MACHINE, "--snapshot %s: not a usable folder", folder);
    l->snapshots = str_copy(l->arena, str_of(whole));
    free(whole);
    launch_snapshots_tell(l, false);
    return rc;
}

void launch_snapshots_tell(struct launch *l, bool aloud) {
    struct arena *a = l->arena;
    struct str *names;
    ptrdiff_t count;
    if (l->snapshots.len == 0) return;
    if (os_list(a, str_z(a, l->snapshots), ".pickle", &names, &count, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (str_list_has(&l->snapshots_known, names[i])) continue;
        str_list_add(a, &l->snapshots_known, names[i]);
        if (aloud)
            str_list_format(a, &l->notes,
                            "memory snapshot of an out-of-memory: batchfit doctor "
                            "%.*s/%.*s",
                            STR_ARG(l->snapshots), STR_ARG(names[i]));
    }
}
