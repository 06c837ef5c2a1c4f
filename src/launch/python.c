// SPDX-License-Identifier: Apache-2.0
#include "launch/python.h"

#include "base/data.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "python/";
enum { PREFIX_LENGTH = sizeof prefix - 1 };

static bool is_python(const struct data_file *f) {
    return strncmp(f->name, prefix, PREFIX_LENGTH) == 0;
}

static struct str text_of(const struct data_file *f) {
    return (struct str){(const char *)f->begin, f->end - f->begin};
}

// One folder for each version of the embedded files, so that two versions never mix.
static struct str folder_of_version(struct arena *a) {
    uint64_t hash = 0;
    for (int i = 0; i < data_file_count; i++) {
        if (is_python(&data_files[i])) hash = hash * 31 + str_hash(text_of(&data_files[i]));
    }
    return str_format(a, "%.*s/python-%016llx", STR_ARG(os_cache_dir(a)), (unsigned long long)hash);
}

static int lay_out_file(struct arena *a, struct str folder, const struct data_file *f,
                        struct fail *why) {
    struct str path = str_format(a, "%.*s/%s", STR_ARG(folder), f->name + PREFIX_LENGTH);
    char *parent = str_z(a, path);
    *strrchr(parent, '/') = 0;
    int rc = os_make_dirs(a, parent, why);
    return rc < 0 ? rc : os_replace(a, path.p, text_of(f), NULL, why);
}

int launch_python_lay_out(struct arena *a, struct str *ret_folder, struct fail *why) {
    struct str folder = folder_of_version(a);
    struct str done = str_format(a, "%.*s/.complete", STR_ARG(folder));
    *ret_folder = folder;
    if (os_exists(done.p)) return 0;
    for (int i = 0; i < data_file_count; i++) {
        int rc = is_python(&data_files[i]) ? lay_out_file(a, folder, &data_files[i], why) : 0;
        if (rc < 0) return rc;
    }
    return os_replace(a, done.p, STR(""), NULL, why);
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
