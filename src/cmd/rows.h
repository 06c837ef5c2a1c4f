// SPDX-License-Identifier: Apache-2.0
// Options that several verbs have: their words are written once. Each is a row of a verb's table,
// for the member at `at` (an offset).
#ifndef CMD_ROWS_H
#define CMD_ROWS_H

#include "cmd/cmd.h"

// A row in a macro: what formats the code lays out a call better than braces.
#define ROW(...) \
    { __VA_ARGS__ }

#define ROW_CONFIG_DIALECT(at)            \
    ROW("dialect", "ID", OPTION_TEXT, at, \
        "whose config it is, when it is not recognised (batchfit list dialects)", "dialects")
#define ROW_CONFIG_SECTION(at)              \
    ROW("section", "PATH", OPTION_TEXT, at, \
        "the part of the config to use, when it holds several runs", "")
#define ROW_GPU(at) \
    ROW("gpu", "NAME", OPTION_TEXT, at, "the card: rtx3060, 'RTX 3080 Ti', a100-80gb", "gpus")
#define ROW_GPU_MEMORY(at) \
    ROW("gpu-memory", "BYTES", OPTION_MEMORY, at, "a card with this much memory: 6GiB", "")
#define ROW_GPU_IDS(at) \
    ROW("gpu-ids", "LIST", OPTION_TEXT, at, "which of this machine's cards: 0,1", "")
#define ROW_MACHINE(at) \
    ROW("machine", "DIR", OPTION_TEXT, at, "a recorded machine instead of this one", "file")
#define ROW_MACHINE_GAUGES(at)             \
    ROW("machine", "DIR", OPTION_TEXT, at, \
        "a recorded machine whose card's gauges are read instead of this one's", "file")
#define ROW_DEMO(at)                     \
    ROW("demo", NULL, OPTION_SWITCH, at, \
        "an invented machine of four cards (it is shipped with this program)", NULL)
#define ROW_PROFILE(at)                     \
    ROW("profile", NULL, OPTION_SWITCH, at, \
        "also how busy multiprocessors, tensor cores and memory are (Hopper and newer)", NULL)
#define ROW_RANKS_OF_TRIAL(at) \
    ROW("ranks", "N", OPTION_COUNT, at, "data-parallel processes of one trial", "")
#define ROW_PYTHON(at)                        \
    ROW("python", "PROGRAM", OPTION_TEXT, at, \
        "the Python that has your PyTorch ($BATCHFIT_PYTHON, else python3)", "file")
#define ROW_ENV(at)                             \
    ROW("env", "NAME=VALUE", OPTION_REPEAT, at, \
        "a variable for the command; VALUE may hold placeholders (repeatable)", "")
#define ROW_DATA_KEY(at) ROW("data-key", "NAME", OPTION_TEXT, at, "the data set in it", "")
#define ROW_NUM_CLASSES(at) \
    ROW("num-classes", "N", OPTION_COUNT, at, "outputs of the classifier", "")
#define ROW_ALLOC_CONF(at)                     \
    ROW("alloc-conf", "TEXT", OPTION_TEXT, at, \
        "PYTORCH_CUDA_ALLOC_CONF of the run; 'env' reads that variable", "")
#define ROW_STORE(at)                                                                          \
    ROW("store", "DIR", OPTION_TEXT, at,                                                       \
        "where the history is kept; without it $BATCHFIT_STORE, else ~/.local/state/batchfit", \
        "file")
#define ROW_FORCE(at)                                                                             \
    ROW("force", NULL, OPTION_SWITCH, at,                                                         \
        "writes although the config has settings that the answer does not count (LoRA, ZeRO, …)", \
        NULL)
#define ROW_TEST_ONLY(at) ROW("test-only", NULL, OPTION_SWITCH, at, "changes no file", NULL)

#endif
