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
    struct choice_options o = *(const struct choice_options *)options;
    o.q.inference = true;
    return choice_answer(a, &o, why);
}

const struct cli_verb infer_verb = {
    .name = "infer",
    .summary = "which batch for inference or evaluation on this GPU, and what does TTA cost?",
    .description =
        "Predicts from the model's tape of inference: no gradients, no optimizer, nothing kept for "
        "a backward. The largest batch that fits is taken, with a tenth of the memory kept free, "
        "and written to the config's own key for inference or evaluation, with a backup beside it "
        "(--test-only changes nothing). A config with a training's batch alone is not changed.\n"
        "\n"
        "--tta says what test-time augmentation costs: images x views, one forward for each. With "
        "--target-time or --min-f1 the type that keeps them is recommended.\n"
        "\n"
        "With -- COMMAND the answer is measured: the program itself is launched a few times, and "
        "its environment says BATCHFIT_MODE=inference. {batch} stands where it takes the number, "
        "or {config} where it takes the config.",
    .examples =
        "batchfit infer --config configs/infer.yaml --gpu rtx3080\n"
        "batchfit infer --config configs/infer.yaml --tta auto --target-time 20m --images 31400\n"
        "batchfit infer --config configs/infer.yaml -- python infer.py --batch-size {batch}",
    .options = rows,
    .common = "config model img-size precision gpu gpu-memory tta images target-time test-only",
    .options_size = sizeof(struct choice_options),
    .run = infer_run,
    .takes_command = true,
};
