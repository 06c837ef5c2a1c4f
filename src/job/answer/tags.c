// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer_int.h"

// Names for people, by enum tape_tag.
const char *const answer_tag_titles[TAPE_TAG_COUNT] = {
    "weights",   "buffers",          "input batch", "activations", "mixed-precision copies",
    "gradients", "optimizer states", "temporaries", "other",       "reference model"};

// The areas of charts.
const enum tape_tag answer_area_order[TAPE_TAG_COUNT] = {
    TAPE_PARAM,      TAPE_REFERENCE, TAPE_BUFFER,     TAPE_OPTIMIZER_STATE, TAPE_GRADIENT,
    TAPE_INPUT_DATA, TAPE_CAST,      TAPE_ACTIVATION, TAPE_TEMPORARY,       TAPE_OTHER};
