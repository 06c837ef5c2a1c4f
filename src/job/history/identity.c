// SPDX-License-Identifier: Apache-2.0
#include "job/history/history.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void history_identity_line(struct buf *b, const char *name, struct str text) {
    buf_format(b, "%s=%.*s\n", name, STR_ARG(text));
}

static void add_stat(struct buf *b, const char *path, const struct stat *st) {
    buf_format(b, "%s %lld %lld.%09ld\n", path, (long long)st->st_size,
               (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

// A script that was changed in between is another program.
void history_identity_file(struct buf *b, const char *path) {
    struct stat st;
    if (!path || stat(path, &st) < 0 || !S_ISREG(st.st_mode)) return;
    add_stat(b, path, &st);
}

void history_identity_files(struct arena *a, struct buf *b, const struct config *config) {
    for (ptrdiff_t i = 0; i < config->files.count; i++) {
        const struct str path = config->files.items[i];
        struct str text;
        if (os_read(a, str_z(a, path), CONFIG_MAX_BYTES, &text, NULL, NULL) < 0) continue;
        buf_format(b, "%.*s %016llx\n", STR_ARG(path), (unsigned long long)str_hash(text));
    }
}

// pip renames folders in there, which changes its time.
static void add_packages(struct arena *a, struct buf *b, struct str program) {
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    struct str above = str_before_last(str_before_last(program, '/'), '/');
    if (above.len == 0) return;
    struct str lib = str_format(a, "%.*s/lib", STR_ARG(above)), *names;
    ptrdiff_t count;
    if (os_list(a, lib.p, "", &names, &count, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (!str_starts(names[i], STR("python"))) continue;
        for (int k = 0; k < 2; k++) {
            struct stat st;
            const char *path = str_format(a, "%s/%.*s/%s", lib.p, STR_ARG(names[i]), kinds[k]).p;
            if (stat(path, &st) == 0) add_stat(b, path, &st);
        }
    }
}

// The program that PATH leads to, and the folder of its Python packages where it has one: what was
// installed since is another PyTorch. What it is named does not say which Python it belongs to.
static void add_program(struct arena *a, struct buf *b, struct str name) {
    struct str path = os_program(a, name);
    if (path.len == 0) return;
    history_identity_file(b, str_z(a, path));
    add_packages(a, b, path);
}

// Which of a node's GPUs a job has is Slurm's affair: another of the same device does as well.
static bool is_slurms(const char *variable) {
    return strcmp(variable, "CUDA_VISIBLE_DEVICES") == 0 && getenv("SLURM_JOB_ID");
}

void history_identity_launch(struct arena *a, struct buf *b, char *const *command,
                             const struct launch *l, const struct launch_options *o) {
    static const char *const variables[] = {"PYTHONPATH",
                                            "VIRTUAL_ENV",
                                            "CONDA_PREFIX",
                                            "CUDA_VISIBLE_DEVICES",
                                            "PYTORCH_CUDA_ALLOC_CONF",
                                            "OMP_NUM_THREADS",
                                            NULL};
    char folder[4096];
    history_identity_line(b, "version", STR(BATCHFIT_VERSION));
    history_identity_line(b, "folder", str_of(getcwd(folder, sizeof folder)));
    history_identity_line(b, "command", trial_command_text(a, command));
    for (int i = 0; command[i]; i++) history_identity_file(b, command[i]);
    add_program(a, b, str_of(command[0]));
    history_identity_line(b, "python", l->python);
    add_program(a, b, l->python);
    history_identity_line(b, "layout", l->layout);
    history_identity_line(b, "env", str_of(o->environment));
    history_identity_line(b, "keys", str_of(o->config_keys));
    for (int i = 0; variables[i]; i++)
        if (!is_slurms(variables[i]))
            history_identity_line(b, variables[i], str_of(getenv(variables[i])));
    history_identity_line(b, "device", l->place.name);
    buf_format(b, "memory %lld steps %lld warmup %lld ranks %lld nodes %lld\n",
               (long long)o->memory_bytes, (long long)o->steps, (long long)o->warmup,
               (long long)o->ranks, (long long)launch_nodes());
}

static void add_folder(struct arena *a, struct buf *b, struct str folder) {
    struct str *names;
    ptrdiff_t count;
    if (os_list(a, str_z(a, folder), ".py", &names, &count, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        history_identity_file(b, str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[i])).p);
    }
}

void history_identity_sources(struct arena *a, struct buf *b, char *const *command) {
    add_folder(a, b, STR("."));
    for (int i = 1; command[i]; i++) {
        struct str folder = str_before_last(str_of(command[i]), '/');
        if (folder.len > 0 && access(command[i], R_OK) == 0) add_folder(a, b, folder);
    }
}
