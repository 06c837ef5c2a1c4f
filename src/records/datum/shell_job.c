// SPDX-License-Identifier: Apache-2.0
// What a script asks of Slurm, in its lines of #SBATCH (sbatch(1) of Slurm 22.05).
#include "records/datum/shell_int.h"

#include <string.h>

// The number that ends a value: 8, gpu:8, gpu:a100:8; 0: none, or a range of nodes.
static int64_t number_of(struct str value) {
    const struct str last = str_last(value, ':');
    int64_t n = 0;
    return str_to_i64(last, &n) && n > 0 ? n : 0;
}

static void take(struct shell_job *j, struct str line) {
    const struct {
        const char *name;
        int64_t *to;
    } options[] = {
        {"--nodes", &j->nodes},
        {"-N", &j->nodes},
        {"--ntasks", &j->tasks},
        {"-n", &j->tasks},
        {"--ntasks-per-node", &j->tasks_per_node},
        {"--gres", &j->gpus_per_node},
        {"--gpus-per-node", &j->gpus_per_node},
    };
    while (line.len > 0) {
        struct str word = str_cut(&line, ' ');
        struct str name = str_cut(&word, '=');
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            if (!str_is(name, options[i].name)) continue;
            *options[i].to = number_of(word.len > 0 ? word : str_trim(str_cut(&line, ' ')));
        }
    }
}

void datum_shell_job(struct str text, struct shell_job *ret) {
    *ret = (struct shell_job){0};
    while (text.len > 0) {
        struct str line = str_trim(str_line(&text));
        if (line.len > 0 && line.p[0] != '#') break; // Slurm reads no further
        if (str_starts(line, STR("#SBATCH "))) take(ret, str_slice(line, 8, line.len));
    }
    const int64_t each = ret->tasks_per_node;
    if (ret->tasks == 0 && __builtin_mul_overflow(each, ret->nodes, &ret->tasks)) ret->tasks = 0;
}

struct str datum_shell_job_variables(struct arena *a, const struct shell_job *j) {
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"SLURM_NNODES", j->nodes},
        {"SLURM_JOB_NUM_NODES", j->nodes},
        {"SLURM_NTASKS", j->tasks},
        {"SLURM_NPROCS", j->tasks},
        {"SLURM_NTASKS_PER_NODE", j->tasks_per_node},
        {"SLURM_GPUS_ON_NODE", j->gpus_per_node},
        {"SLURM_GPUS_PER_NODE", j->gpus_per_node},
    };
    struct buf text = buf_new(a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value > 0)
            buf_format(&text, "%s=%lld\n", rows[i].name, (long long)rows[i].value);
    return buf_str(&text);
}
