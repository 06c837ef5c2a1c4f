// SPDX-License-Identifier: Apache-2.0
// batchfit infer: which batch for predicting with this model, and what do views of an image cost?
// The answer is fit's, of another tape.
#include "job/choice/choice.h"

static const struct cli_row rows[] = {
    CHOICE_ROWS,
    ANSWER_TTA_ROWS(struct choice_options),
    {.name = NULL},
};

static int infer_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    static const struct cli_way ways[] = {
        CHOICE_WAY_TRIALS("batchfit infer --config FILE -- python infer.py --batch-size {batch}")};
    struct choice_options o = *(const struct choice_options *)options;
    const bool is_measured = options->command;
    int rc = cli_ways_check(rows, options, ways, 1, &is_measured, why);
    if (rc < 0) return rc;
    o.q.inference = true;
    return choice_answer(a, &o, why);
}

const struct cli_verb infer_verb = {
    .name = "infer",
    .summary = "find the batch for inference or evaluation, and the cost of TTA",
    .description =
        "Predicts from the model's inference tape: no gradients, no optimizer, nothing kept for a "
        "backward pass. Takes the largest batch that fits with a tenth of the memory kept free, "
        "and writes it to the config's key for inference or evaluation, with a backup next to it "
        "(--test-only changes nothing). A config with only a training batch is not "
        "changed.\n\nA language model whose shape is known (config.json, or a name on the hub) "
        "generates text: a batch is of sequences of --seq-len tokens, of which the last "
        "--target-len are generated, as transformers' generate holds them; what a server with a "
        "paged cache needs for the same sizes is shown with it."
        ""
        "\n\n--tta shows what test-time augmentation "
        "costs: images x views, one forward "
        "pass each. With --target-time or --min-f1 it recommends a type that meets them.\n\nWith "
        "-- COMMAND the answer is measured: the program itself is launched a few times, with "
        "BATCHFIT_MODE=inference in its environment. Put {batch} where it takes the number, or "
        "{config} where it takes the config.",
    .examples =
        "batchfit infer --config configs/infer.yaml --gpu rtx3080\n"
        "batchfit infer --model Qwen/Qwen2.5-7B --gpu rtx4090 --seq-len 4096\n"
        "batchfit infer --config configs/infer.yaml --tta auto --target-time 20m --images 31400\n"
        "batchfit infer --config configs/infer.yaml -- python infer.py --batch-size {batch}",
    .options = rows,
    .common =
        "config model img-size seq-len precision gpu gpu-memory tta images target-time test-only",
    .options_size = sizeof(struct choice_options),
    .run = infer_run,
    .takes_command = true,
};
