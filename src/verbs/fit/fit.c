// SPDX-License-Identifier: Apache-2.0
// batchfit fit: which batch and accumulation for this config on this GPU?
#include "job/choice/choice.h"

#include <math.h>

static const struct cli_row rows[] = {
    CHOICE_ROWS,
    CHOICE_TRAINING_ROWS,
    {"eval-batch", NULL, CLI_SWITCH, CHOICE_AT(eval_batch),
     "also find the batch of the training's evaluation, and write it if the config has a key for "
     "it",
     NULL},
    {.name = NULL},
};

static int fit_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct choice_options o = *(const struct choice_options *)options;
    o.t.min_f1 = NAN; // views are infer's
    return choice_answer(a, &o, why);
}

const struct cli_verb fit_verb = {
    .name = "fit",
    .summary = "find the largest batch that fits, and change the config",
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
        "batchfit fit --model resnet50 --precision amp-fp16 --optimizer sgd --gpu a100 --json",
    .options = rows,
    .common = "config model img-size precision effective-batch-size max-batch-size safety-margin "
              "gpu gpu-memory test-only",
    .options_size = sizeof(struct choice_options),
    .run = fit_run,
    .takes_command = true,
};
