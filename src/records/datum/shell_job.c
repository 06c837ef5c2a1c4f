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

// "gpu:a100:2(S:0-1),lscratch:100": of several kinds of resources those that are GPUs.
static int64_t gpus_of(struct str value) {
    int64_t all = 0;
    while (value.len > 0) {
        struct str item = str_cut(&value, ',');
        item = str_cut(&item, '(');
        if (!str_is(item, "gpu") && !str_starts(item, STR("gpu:"))) continue;
        const bool has_number = number_of(item) > 0;
        if (__builtin_add_overflow(all, has_number ? number_of(item) : 1, &all)) return 0;
    }
    return all;
}

// The next word of a line, behind blanks and tabs.
static struct str next_word(struct str *line) {
    *line = str_trim(*line);
    ptrdiff_t end = 0;
    while (end < line->len && line->p[end] != ' ' && line->p[end] != '\t') end++;
    const struct str word = str_slice(*line, 0, end);
    *line = str_slice(*line, end, line->len);
    return word;
}

static void take(struct shell_job *j, struct str line) {
    const struct {
        const char *name;
        int64_t *to;
        int64_t (*read)(struct str value);
    } options[] = {
        {"--nodes", &j->nodes, number_of},
        {"-N", &j->nodes, number_of},
        {"--ntasks", &j->tasks, number_of},
        {"-n", &j->tasks, number_of},
        {"--ntasks-per-node", &j->tasks_per_node, number_of},
        {"--gres", &j->gpus_per_node, gpus_of},
        {"--gpus-per-node", &j->gpus_per_node, number_of},
    };
    for (struct str word = next_word(&line); word.len > 0; word = next_word(&line)) {
        const bool is_letter = word.len > 2 && word.p[1] != '-'; // -N2
        struct str value = word, name = str_cut(&value, '=');
        if (is_letter) {
            name = str_slice(word, 0, 2);
            value = str_slice(word, 2, word.len);
        }
        if (str_starts(word, STR("#"))) return;
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            if (!str_is(name, options[i].name)) continue;
            *options[i].to = options[i].read(value.len > 0 ? value : next_word(&line));
        }
    }
}

void datum_shell_job(struct str text, struct shell_job *ret) {
    *ret = (struct shell_job){0};
    while (text.len > 0) {
        struct str line = str_trim(str_line(&text));
        if (line.len > 0 && line.p[0] != '#') break; // Slurm reads no further
        if (str_starts(line, STR("#SBATCH ")) || str_starts(line, STR("#SBATCH\t")))
            take(ret, str_slice(line, 8, line.len));
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
