// SPDX-License-Identifier: Apache-2.0
#include "measure/launch/launch.h"

#include "base/data.h"

#include <stdlib.h>

int launch_python_lay_out(struct arena *a, struct str *ret_folder, struct fail *why) {
    return data_lay_out(a, "python/", "python", ret_folder, why);
}

const char *launch_python_program(const char *option) {
    const char *python = option ? option : getenv("BATCHFIT_PYTHON");
    return python && *python ? python : "python3";
}

struct str launch_python_path(struct arena *a, struct str folders) {
    const char *before = getenv("PYTHONPATH");
    bool more = before && *before;
    return str_format(a, "%.*s%s%s", STR_ARG(folders), more ? ":" : "", more ? before : "");
}

struct str launch_python_own_path(struct arena *a, struct str folders) {
    struct str rest = launch_python_path(a, folders);
    struct buf b = buf_new(a);
    while (rest.p) {
        struct str folder = str_cut(&rest, ':');
        if (folder.len > 0) buf_join(&b, ":", folder);
    }
    return str_copy(a, buf_str(&b));
}
