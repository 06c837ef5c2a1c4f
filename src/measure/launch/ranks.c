// SPDX-License-Identifier: Apache-2.0
// Data-parallel ranks: a command that starts its ranks itself is left alone, a script is put behind
// torchrun; in a Slurm job of several nodes, behind one torchrun a node, which srun starts. They
// meet at a free port of this node.
#include "measure/launch/launch_int.h"

#include <arpa/inet.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

int64_t launch_nodes(void) {
    const char *said = getenv("SLURM_JOB_NUM_NODES");
    int64_t nodes = 1;
    return said && str_to_i64(str_of(said), &nodes) && nodes > 1 ? nodes : 1;
}

// 29500, torch's own (torch/distributed/run.py), where none can be asked for.
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int port = 29500, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return port;
    if (bind(fd, (const struct sockaddr *)&at, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0)
        port = ntohs(at.sin_port);
    close(fd);
    return port;
}

static void add_srun(struct str_words *w, int64_t nodes) {
    str_word_add(w, STR("srun"));
    str_word_add(w, str_format(w->arena, "--nodes=%lld", (long long)nodes));
    str_word_add(w, str_format(w->arena, "--ntasks=%lld", (long long)nodes));
    str_word_add(w, STR("--ntasks-per-node=1"));
    str_word_add(w, STR("--export=ALL"));
    str_word_add(w, STR("--kill-on-bad-exit=1"));
}

static void add_meeting(struct str_words *w, int64_t nodes) {
    char host[256] = "localhost";
    int port = free_port();
    (void)gethostname(host, sizeof host - 1);
    str_word_add(w, str_format(w->arena, "--nnodes=%lld", (long long)nodes));
    str_word_add(w, STR("--rdzv_backend=c10d"));
    str_word_add(w, str_format(w->arena, "--rdzv_endpoint=%s:%d", host, port));
    str_word_add(w, str_format(w->arena, "--rdzv_id=%d", port));
}

static int no_launcher(struct fail *why, const char *program, int64_t ranks) {
    fail_set(why, FAIL_USAGE, "--ranks %lld: batchfit cannot start several ranks of '%s'",
             (long long)ranks, program);
    return fail_hint(why, "write the launcher yourself: -- torchrun --nproc-per-node %lld ...",
                     (long long)ranks);
}

// "train.py …" and "python train.py …" become torchrun's command, by its module: the program of
// that name may belong to another Python.
int launch_ranks(struct launch *l, char *const *argv, char *const **ret_argv, struct fail *why) {
    struct arena *a = l->arena;
    struct str_words w = {.arena = a};
    int64_t ranks = l->options->ranks, nodes = launch_nodes();
    *ret_argv = argv;
    if (ranks <= 1 || starts_ranks_itself(a, argv)) return 0;
    struct str first = str_of(argv[0]), program = str_of(basename(str_z(a, first)));
    bool is_python = str_starts(program, STR("python")) || str_is(first, "{python}");
    if (!is_python && !str_ends(first, STR(".py"))) return no_launcher(why, argv[0], ranks);
    if (ranks % nodes != 0)
        return fail_set(why, FAIL_USAGE, "--ranks %lld: not the same number on each of %lld nodes",
                        (long long)ranks, (long long)nodes);
    if (nodes > 1) add_srun(&w, nodes);
    str_word_add(&w, is_python ? first : l->python);
    bool is_ours = argv[1] && strncmp(argv[1], "{shipped}", 9) == 0;
    str_word_add(&w, is_ours ? str_of(argv[1]) : STR("-m"));
    str_word_add(&w, STR("torch.distributed.run"));
    if (nodes > 1)
        add_meeting(&w, nodes);
    else
        str_word_add(&w, STR("--standalone"));
    str_word_add(&w, STR("--nproc_per_node"));
    str_word_add(&w, str_format(a, "%lld", (long long)(ranks / nodes)));
    for (int i = is_python; argv[i]; i++) str_word_add(&w, str_of(argv[i]));
    *ret_argv = w.items;
    return 0;
}
