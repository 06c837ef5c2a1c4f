// SPDX-License-Identifier: Apache-2.0
#include "job/question/question.h"

#include "base/os.h"

#include <stdlib.h>
#include <unistd.h>

// The path without links; empty: it does not exist.
static struct str resolved(struct arena *a, const char *path) {
    char *real = realpath(path, NULL);
    struct str s = real ? str_copy(a, str_of(real)) : (struct str){0};
    free(real);
    return s;
}

static bool is_below(struct str path, struct str folder) {
    return str_starts(path, folder) &&
           (str_ends(folder, STR("/")) || (path.len > folder.len && path.p[folder.len] == '/'));
}

struct str question_project(struct arena *a, const char *path) {
    static const char *const marks[] = {".git", "pyproject.toml", "setup.py", NULL};
    const struct str own = os_parent(resolved(a, path)), here = resolved(a, ".");
    for (struct str folder = own; folder.len > 1; folder = os_parent(folder)) {
        for (int i = 0; marks[i]; i++) {
            struct str mark = str_format(a, "%.*s/%s", STR_ARG(folder), marks[i]);
            if (os_exists(str_z(a, mark))) return folder;
        }
    }
    return here.len > 1 && is_below(own, here) ? here : own;
}

static int read_beside(void *self, struct arena *a, struct str path, struct str *ret_text,
                       struct fail *why) {
    const struct str *project = self;
    const struct str real = resolved(a, str_z(a, path));
    if (real.len == 0) return fail_set(why, FAIL_INPUT, "there is no such file");
    if (!is_below(real, *project))
        return fail_set(why, FAIL_INPUT, "outside of the project's folder, not read");
    return os_read_file(a, str_z(a, real), CONFIG_MAX_BYTES, ret_text, NULL, why);
}

int question_parse_from(struct arena *a, const char *path, struct str text,
                        const struct question_source *source, struct config *ret_config,
                        struct fail *why) {
    const struct datum_loader loader = {.read = source->read, .self = source->self};
    return config_parse_with(a, str_of(path), text, &loader, ret_config, why);
}

int question_parse(struct arena *a, const char *path, struct str text, struct config *ret_config,
                   struct fail *why) {
    struct str project = question_project(a, path);
    const struct datum_loader loader = {.read = read_beside, .self = &project};
    return config_parse_with(a, str_of(path), text, &loader, ret_config, why);
}
