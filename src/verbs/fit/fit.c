// SPDX-License-Identifier: Apache-2.0
// batchfit fit: which batch and accumulation for this config on this GPU?
#include "verbs/fit/fit.h"

#include <assert.h>
#include <math.h>

#define AT(member) offsetof(struct fit_options, c.member)
#define SLURM_AT(member) offsetof(struct fit_options, s.member)
static const struct cli_row rows[] = {
    CHOICE_ROWS,
    CHOICE_TRAINING_ROWS,
    {"eval-batch", NULL, CLI_SWITCH, CHOICE_AT(eval_batch),
     "also find the batch of the training's evaluation, and write it if the config has a key for "
     "it",
     .about = CLI_OF_ANSWER},
    {"check", NULL, CLI_SWITCH, AT(is_asked),
     "judge configs as they stand, for a gate: fit --check CONFIG... --gpus rtx3060,a100; nothing "
     "is searched or written",
     .about = CLI_OF_CHECK},
    {"max-memory", "SHARE", CLI_TEXT, AT(max_memory),
     "with --check: share of the GPU's memory that the peak may take, 90% (default 80 to 90%, by "
     "the GPU's tier)",
     .about = CLI_OF_CHECK},
    {"format", "WORD", CLI_TEXT, AT(format),
     "with --check: text, json, sarif, junit, github (annotations) or markdown (one comment)",
     "text json sarif junit github markdown", .about = CLI_OF_CHECK},
    {"base", "FILE", CLI_TEXT, AT(base),
     "with --check: show the change against this document of the base branch (--check --json)",
     "file", .about = CLI_OF_CHECK},
    {"base-ref", "REF", CLI_TEXT, AT(base_ref),
     "with --check: the same against a commit of git: origin/main", .about = CLI_OF_CHECK},
    {"lock", "FILE", CLI_TEXT, AT(lock),
     "with --check: fail if the memory is not what this file expects (batchfit.lock)", "file",
     .about = CLI_OF_CHECK},
    {"update-lock", NULL, CLI_SWITCH, AT(updates_lock),
     "with --check: write the lock instead (default batchfit.lock)", .about = CLI_OF_CHECK},
    {"allow-unjudged", NULL, CLI_SWITCH, AT(allows_unjudged),
     "with --check: what cannot be judged does not fail the gate", .about = CLI_OF_CHECK},
    {"on", "WHERE", CLI_TEXT, offsetof(struct fit_options, on),
     "find the GPU to request from: slurm (the smallest type of this cluster, by sinfo, that holds "
     "the config as it stands), kubernetes (resources and node affinity) or skypilot "
     "(accelerators); for the last two, --gpus lists the GPUs that are available",
     "slurm kubernetes skypilot", .about = CLI_OF_ENGINE},
    {"cheapest", NULL, CLI_SWITCH, SLURM_AT(cheapest),
     "with --on slurm: the type on which the training costs least (predicted speed x price), not "
     "the smallest",
     .about = CLI_OF_TYPES},
    {"partition", "NAME", CLI_TEXT, SLURM_AT(partition), "with --on slurm: only its nodes",
     .about = CLI_OF_CLUSTER},
    {"gres", "TYPE=GPU", CLI_REPEAT, SLURM_AT(gres),
     "with --on slurm: which GPU a type of the cluster is, by name or memory: a100=a100-80gb, "
     "big=24GiB (repeatable)",
     .about = CLI_OF_TYPES},
    {"job-time", "TIME", CLI_TEXT, SLURM_AT(job_time),
     "with --on slurm -- COMMAND: of each job, as sbatch's --time takes it", .about = CLI_OF_JOBS},
    {"exec", "SCRIPT", CLI_TEXT, SLURM_AT(exec),
     "with --on slurm: submit this job script (sbatch), for the GPU that was chosen", "file",
     .about = CLI_OF_TYPES},
    {.name = NULL},
};

// --- Which options go together -------------------------------------------------------------------

enum {
    OF_CONFIG = CLI_OF_TRAINING | CLI_OF_SPLIT | CLI_OF_FILES | CLI_OF_MEMORY | CLI_OF_NO_EDIT,
    OF_CLOUD = OF_CONFIG | CLI_OF_STEP | CLI_OF_HISTORY | CLI_OF_ENGINE,
};

// Ways to ask that take some of the options, and have some of their own.
enum fit_way { WAY_CHECK, WAY_JOBS, WAY_SLURM, WAY_CLOUD, WAY_TRIALS, WAYS };
static const struct cli_way ways[WAYS] = {
    // What says where a config is read, what it leaves open, and the GPU. All others search, write,
    // measure or remember.
    {"--check", OF_CONFIG | CLI_OF_OTHERS | CLI_OF_GPU | CLI_OF_GPUS, CLI_OF_CHECK,
     "batchfit fit --check CONFIG... --gpus rtx3060,a100", "judges configs as they stand",
     "leave out --check to search, write or measure"},
    {"--on slurm -- COMMAND", CHOICE_TRIALS_TAKE | CLI_OF_TRIALS | CLI_OF_ENGINE | CLI_OF_CLUSTER,
     CLI_OF_JOBS, "batchfit fit --config FILE --on slurm -- python train.py --batch-size {batch}",
     "measures by jobs, which change nothing", CHOICE_TRIALS_INSTEAD},
    // Choosing a GPU is of predictions, and of no GPU that is named.
    {"--on slurm", OF_CLOUD | CLI_OF_SEARCH | CLI_OF_EDIT, CLI_OF_CLUSTER | CLI_OF_TYPES,
     "batchfit fit --config FILE --on slurm", "chooses among the cluster's GPUs, by prediction",
     "leave out --on for one GPU that is named"},
    // The same without a cluster that could be asked, or jobs.
    {"--on", OF_CLOUD | CLI_OF_GPUS, CLI_OF_ENGINE, "batchfit fit --config FILE --on kubernetes",
     "says which GPUs hold the config as it stands, by prediction",
     "leave out --on for one GPU that is named"},
    CHOICE_WAY_TRIALS("batchfit fit --config FILE -- python train.py --batch-size {batch}"),
};

// Who is asked in whose words.
static int on_engine(struct arena *a, const struct fit_options *o, struct fail *why) {
    if (!str_is(str_of(o->on), "slurm")) return fit_cloud(a, o, why);
    return o->o.q.base.command ? fit_slurm_trials(a, o, why) : fit_slurm(a, o, why);
}

static int fit_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct fit_options *asked = (const struct fit_options *)options;
    struct choice_options o = asked->o;
    const bool on_slurm = asked->on && str_is(str_of(asked->on), "slurm");
    const bool is_check = asked->c.is_asked, is_measured = !is_check && options->command;
    const bool is_way[WAYS] = {
        [WAY_CHECK] = is_check,
        [WAY_JOBS] = on_slurm && is_measured,
        [WAY_SLURM] = on_slurm && !is_measured && !is_check,
        [WAY_CLOUD] = asked->on && !on_slurm && !is_check,
        [WAY_TRIALS] = is_measured && !asked->on,
    };
    for (const struct cli_row *row = rows; row->name; row++) assert(row->about != 0);
    int rc = cli_ways_check(rows, options, ways, WAYS, is_way, why);
    if (rc < 0) return rc;
    if (is_check) return fit_check(a, asked, why);
    if (asked->on) return on_engine(a, asked, why);
    if (options->argument_count > 0)
        return cli_no_argument("fit", options->arguments[0], true, true, why);
    o.t.min_f1 = NAN; // views are infer's
    return choice_answer(a, &o, why);
}

const struct cli_verb fit_verb = {
    .name = "fit",
    .summary = "find the largest batch that fits, and change the config",
    .arguments = "--check CONFIG...",
    .description =
        "Reads the training config, predicts the peak memory of its model on the GPU, and takes "
        "the largest batch that fits and keeps the effective batch exactly. Then it edits the "
        "config: only the bytes of the values, with a backup next to it (--test-only changes "
        "nothing).\n\nWithout --gpu it answers for this machine's GPU; without a GPU, it answers "
        "for those in the config's team_gpu_settings and changes nothing.\n\nA batch fits if the "
        "allocator's need stays within the GPU's memory minus the safety margin, the memory "
        "outside the allocator and what others use, and if it also runs with 3 % less memory than "
        "the GPU has.\n\nWith -- COMMAND the answer is measured: the training itself is launched a "
        "few times on this machine, watched, and stopped after some steps. Its code does not "
        "change: put {batch} and {accumulate} where the command takes the numbers, or {config} "
        "where it takes the config, of which each trial gets its own copy. {scratch} is a folder "
        "that is deleted after the trial. The batch that is chosen has itself run.",
    .examples =
        "batchfit fit --config configs/train.yaml --test-only\n"
        "batchfit fit --config configs/train.yaml --gpu rtx3060 --img-size 384\n"
        "batchfit fit --config configs/train.yaml --gpu-memory 6GiB --save-config "
        "configs/train_6gb.yaml\n"
        "batchfit fit --config configs/train.yaml -- python train.py --batch-size {batch} "
        "--accumulate {accumulate}\n"
        "batchfit fit --check configs/*.yaml --gpus rtx3060,a100 --max-memory 90%\n"
        "batchfit fit --config configs/train.yaml --on slurm --exec train.sbatch\n"
        "batchfit fit --config configs/train.yaml --on slurm -- python train.py --batch-size "
        "{batch}\n"
        "batchfit fit --config configs/train.yaml --on kubernetes --gpus l4,a100-80gb >gpu.yaml\n"
        "batchfit fit --model resnet50 --precision amp-fp16 --optimizer sgd --gpu a100 --json",
    .options = rows,
    .common = "config model img-size precision effective-batch-size max-batch-size safety-margin "
              "gpu gpu-memory test-only",
    .options_size = sizeof(struct fit_options),
    .run = fit_run,
    .takes_command = true,
};
