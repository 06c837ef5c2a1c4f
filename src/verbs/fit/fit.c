// SPDX-License-Identifier: Apache-2.0
// batchfit fit: which batch and accumulation for this config on this GPU?
#include "verbs/fit/fit.h"

#include <math.h>

#define AT(member) offsetof(struct fit_options, c.member)
#define SLURM_AT(member) offsetof(struct fit_options, s.member)
static const struct cli_row rows[] = {
    CHOICE_ROWS,
    CHOICE_TRAINING_ROWS,
    {"eval-batch", NULL, CLI_SWITCH, CHOICE_AT(eval_batch),
     "also find the batch of the training's evaluation, and write it if the config has a key for "
     "it"},
    {"check", NULL, CLI_SWITCH, AT(is_asked),
     "judge configs as they stand, for a gate: fit --check CONFIG... --gpus rtx3060,a100; nothing "
     "is searched or written"},
    {"max-memory", "SHARE", CLI_TEXT, AT(max_memory),
     "with --check: share of the GPU's memory that the peak may take, 90% (default 80 to 90%, by "
     "the GPU's tier)"},
    {"format", "WORD", CLI_TEXT, AT(format),
     "with --check: text, json, sarif, junit, github (annotations) or markdown (one comment)",
     "text json sarif junit github markdown"},
    {"base", "FILE", CLI_TEXT, AT(base),
     "with --check: show the change against this document of the base branch (--check --json)",
     "file"},
    {"base-ref", "REF", CLI_TEXT, AT(base_ref),
     "with --check: the same against a commit of git: origin/main"},
    {"lock", "FILE", CLI_TEXT, AT(lock),
     "with --check: fail if the memory is not what this file expects (batchfit.lock)", "file"},
    {"update-lock", NULL, CLI_SWITCH, AT(updates_lock),
     "with --check: write the lock instead (default batchfit.lock)"},
    {"allow-unjudged", NULL, CLI_SWITCH, AT(allows_unjudged),
     "with --check: what cannot be judged does not fail the gate"},
    {"on", "WHERE", CLI_TEXT, offsetof(struct fit_options, on),
     "find the GPU to request from: slurm (the smallest type of this cluster, by sinfo, that holds "
     "the config as it stands), kubernetes (resources and node affinity) or skypilot "
     "(accelerators); for the last two, --gpus lists the GPUs that are available",
     "slurm kubernetes skypilot"},
    {"cheapest", NULL, CLI_SWITCH, SLURM_AT(cheapest),
     "with --on slurm: the type on which the training costs least (predicted speed x price), not "
     "the smallest"},
    {"partition", "NAME", CLI_TEXT, SLURM_AT(partition), "with --on slurm: only its nodes"},
    {"gres", "TYPE=GPU", CLI_REPEAT, SLURM_AT(gres),
     "with --on slurm: which GPU a type of the cluster is, by name or memory: a100=a100-80gb, "
     "big=24GiB (repeatable)"},
    {"job-time", "TIME", CLI_TEXT, SLURM_AT(job_time),
     "with --on slurm -- COMMAND: of each job, as sbatch's --time takes it"},
    {"exec", "SCRIPT", CLI_TEXT, SLURM_AT(exec),
     "with --on slurm: submit this job script (sbatch), for the GPU that was chosen", "file"},
    {.name = NULL},
};

// --- Which options go together -------------------------------------------------------------------

// What says where a config is read and what it leaves open, and the GPU. All others search, write,
// measure or remember.
static const char of_check[] =
    "config model img-size seq-len target-len num-classes precision channels-last ema ranks "
    "safety-margin overhead other-processes alloc-conf tape dialect section key gpu gpu-memory "
    "optimizer checkpointing lora quant loss shard gpus test-only check max-memory format base "
    "base-ref "
    "lock update-lock allow-unjudged";

static bool is_given(const struct fit_options *o, const struct cli_row *row) {
    const char *at = (const char *)o + row->offset;
    switch (row->kind) {
    case CLI_SWITCH:
        return *(const bool *)at;
    case CLI_SHARE:
    case CLI_NUMBER:
        return !isnan(*(const double *)(const void *)at);
    case CLI_COUNT:
    case CLI_BYTES:
    case CLI_MEMORY:
    case CLI_BYTES_OR_NONE:
        return *(const int64_t *)(const void *)at != 0;
    default:
        return *(const char *const *)(const void *)at != NULL;
    }
}

// Choosing a GPU is of predictions, and of no GPU that is named.
static const char of_slurm[] =
    "config model img-size seq-len target-len num-classes precision channels-last ema ranks "
    "min-batch-size max-batch-size multiple safety-margin overhead alloc-conf tape dialect section "
    "key optimizer checkpointing lora quant loss shard effective-batch-size test-only save-config "
    "add-accumulation force-anchor force-special no-history store on cheapest partition gres "
    "job-time exec";

// The same without a cluster that could be asked, or jobs.
static const char of_cloud[] =
    "config model img-size seq-len target-len num-classes precision channels-last ema ranks "
    "safety-margin overhead alloc-conf tape dialect section key optimizer checkpointing lora quant "
    "shard effective-batch-size gpus test-only no-history store on";

// Ways to ask that take some of the options, and have some of their own.
enum way_place { WAY_CHECK, WAY_SLURM, WAY_CLOUD, WAYS };
struct way {
    const char *option, *takes, *example, *does, *instead;
    size_t begin, end; // of its own options
};
static const struct way ways[WAYS] = {
    {"check", of_check, "batchfit fit --check CONFIG... --gpus rtx3060,a100",
     "judges configs as they stand", "leave out --check to search, write or measure",
     offsetof(struct fit_options, c), offsetof(struct fit_options, s)},
    {"on slurm", of_slurm, "batchfit fit --config FILE --on slurm",
     "chooses among the cluster's GPUs, by prediction", "leave out --on for one GPU that is named",
     offsetof(struct fit_options, s), sizeof(struct fit_options)},
    {"on", of_cloud, "batchfit fit --config FILE --on kubernetes",
     "says which GPUs hold the config as it stands, by prediction",
     "leave out --on for one GPU that is named", 0, 0},
};

static int one_together(const struct way *way, bool is_asked, const struct cli_row *row,
                        struct fail *why) {
    bool is_its = row->offset >= way->begin && row->offset < way->end;
    if (!is_asked && is_its) {
        fail_set(why, FAIL_USAGE, "--%s needs --%s", row->name, way->option);
        return fail_hint(why, "%s", way->example);
    }
    if (!is_asked || str_has_word(str_of(way->takes), str_of(row->name))) return 0;
    fail_set(why, FAIL_USAGE, "--%s %s: it cannot be combined with --%s", way->option, way->does,
             row->name);
    return fail_hint(why, "%s", way->instead);
}

static int options_together(const struct fit_options *o, struct fail *why) {
    const bool on_slurm = o->on && str_is(str_of(o->on), "slurm");
    const bool asked[WAYS] = {o->c.is_asked, on_slurm, o->on && !on_slurm};
    const bool is_measured = on_slurm && o->o.q.base.command; // takes all that trials take
    int rc = 0;
    for (const struct cli_row *row = rows; row->name; row++) {
        for (int i = 0; i < WAYS && rc == 0 && is_given(o, row); i++) {
            if (i != WAY_SLURM || !is_measured) rc = one_together(&ways[i], asked[i], row, why);
        }
    }
    return rc;
}

static int on_cluster(struct arena *a, const struct fit_options *o, struct fail *why) {
    static const char hint[] = "the jobs measure and change nothing: leave it out";
    if (o->s.exec || o->s.cheapest || o->s.gres) {
        const char *name = o->s.exec ? "exec" : o->s.cheapest ? "cheapest" : "gres";
        fail_set(why, FAIL_USAGE, "--%s cannot be combined with --on slurm -- COMMAND", name);
        return fail_hint(why, "%s", hint);
    }
    return fit_slurm_trials(a, o, why);
}

// Who is asked in whose words.
static int on_engine(struct arena *a, const struct fit_options *o, struct fail *why) {
    if (!str_is(str_of(o->on), "slurm")) return fit_cloud(a, o, why);
    return o->o.q.base.command ? on_cluster(a, o, why) : fit_slurm(a, o, why);
}

static int fit_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct fit_options *asked = (const struct fit_options *)options;
    struct choice_options o = asked->o;
    int rc = options_together(asked, why);
    if (rc < 0) return rc;
    if (asked->c.is_asked) return fit_check(a, asked, why);
    if (asked->on) return on_engine(a, asked, why);
    if (options->argument_count > 0) {
        fail_set(why, FAIL_USAGE, "'%s': fit takes no arguments", options->arguments[0]);
        return fail_hint(why, "write -- before the command (--check takes configs)");
    }
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
