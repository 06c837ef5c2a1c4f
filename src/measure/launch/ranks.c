// SPDX-License-Identifier: Apache-2.0
// Data-parallel ranks: a command that starts its ranks itself is left alone, a script is put behind
// torchrun.
#include "measure/launch/launch_int.h"

#include <libgen.h>
#include <string.h>

static const char *const launchers[] = {"torchrun",   "accelerate", "deepspeed", "mpirun", "srun",
                                        "horovodrun", "colossalai", "composer",  NULL};

static bool starts_ranks_itself(struct arena *a, char *const *argv) {
    const char *program = basename(str_z(a, str_of(argv[0])));
    for (int i = 0; launchers[i]; i++) {
        if (strcmp(program, launchers[i]) == 0) return true;
    }
    for (int i = 1; i < 4 && argv[i]; i++) {
        if (strncmp(argv[i], "torch.distributed", 17) == 0) return true;
    }
    return false;
}

// "train.py …" and "python train.py …" become torchrun's command, by its module: the program of
// that name may belong to another Python.
int launch_ranks(struct launch *l, char *const *argv, char *const **ret_argv, struct fail *why) {
    struct arena *a = l->arena;
    int64_t ranks = l->options->ranks;
    *ret_argv = argv;
    if (ranks <= 1 || starts_ranks_itself(a, argv)) return 0;
    struct str first = str_of(argv[0]), program = str_of(basename(str_z(a, first)));
    bool is_python = str_starts(program, STR("python")) || str_is(first, "{python}");
    if (!is_python && !str_ends(first, STR(".py"))) {
        fail_set(why, FAIL_USAGE, "--ranks %lld: batchfit cannot start several ranks of '%s'",
                 (long long)ranks, argv[0]);
        return fail_hint(why, "write the launcher yourself: -- torchrun --nproc-per-node %lld ...",
                         (long long)ranks);
    }
    int n = 0, given = 0;
    while (argv[given]) given++;
    char **words = arena_new(a, char *, given + 8);
    words[n++] = is_python ? argv[0] : str_z(a, l->python);
    bool is_ours = argv[1] && strncmp(argv[1], "{shipped}", 9) == 0;
    words[n++] = is_ours ? argv[1] : str_z(a, STR("-m"));
    words[n++] = str_z(a, STR("torch.distributed.run"));
    words[n++] = str_z(a, STR("--standalone"));
    words[n++] = str_z(a, STR("--nproc_per_node"));
    words[n++] = str_z(a, str_format(a, "%lld", (long long)ranks));
    for (int i = is_python; i < given; i++) words[n++] = argv[i];
    *ret_argv = words;
    return 0;
}
