// SPDX-License-Identifier: Apache-2.0
// The fixed vocabulary of doc/formats/tape.md.
#include "predict/tape/tape_int.h"

const char *const tape_phase_names[TAPE_PHASE_COUNT] = {
    [TAPE_INIT] = "init",         [TAPE_INPUT] = "input",         [TAPE_FORWARD] = "forward",
    [TAPE_BACKWARD] = "backward", [TAPE_OPTIMIZER] = "optimizer", [TAPE_ZERO_GRAD] = "zero_grad",
};

const char *const tape_tag_names[TAPE_TAG_WORDS] = {
    [TAPE_PARAM] = "param",
    [TAPE_BUFFER] = "buffer",
    [TAPE_INPUT_DATA] = "input",
    [TAPE_ACTIVATION] = "activation",
    [TAPE_CAST] = "cast",
    [TAPE_GRADIENT] = "gradient",
    [TAPE_OPTIMIZER_STATE] = "optimizer",
    [TAPE_TEMPORARY] = "temporary",
    [TAPE_OTHER] = "other",
    [TAPE_REFERENCE] = "reference",
    [TAPE_HOST] = "host",
    [TAPE_PINNED] = "pinned",
};

const char *const tape_class_names[TAPE_CLASS_COUNT] = {
    [TAPE_MM] = "mm",
    [TAPE_BMM] = "bmm",
    [TAPE_CONV_FWD] = "conv_fwd",
    [TAPE_CONV_DGRAD] = "conv_dgrad",
    [TAPE_CONV_WGRAD] = "conv_wgrad",
    [TAPE_ATTENTION] = "attention",
    [TAPE_ELEM] = "elem",
    [TAPE_NONCONTIG] = "noncontig",
    [TAPE_NORM] = "norm",
    [TAPE_BN_FWD] = "bn_fwd",
    [TAPE_BN_BWD] = "bn_bwd",
    [TAPE_REDUCE] = "reduce",
    [TAPE_HEAVY] = "heavy",
    [TAPE_OPT] = "opt",
};
