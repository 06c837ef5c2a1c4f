// SPDX-License-Identifier: Apache-2.0
// Options that several verbs have: their words are written once. Each is a row of a verb's table,
// for the member at `at` (an offset).
#pragma once

#include "cli/verb.h"

// A row in a macro: what formats the code lays out a call better than braces.
#define CLI_ROW(...) \
    { __VA_ARGS__ }

#define CLI_ROW_CONFIG_DIALECT(at)         \
    CLI_ROW("dialect", "ID", CLI_TEXT, at, \
            "config dialect, if not recognised (batchfit list dialects)", "dialects")
#define CLI_ROW_CONFIG_SECTION(at)           \
    CLI_ROW("section", "PATH", CLI_TEXT, at, \
            "section of the config to use, if it holds several runs", "")
#define CLI_ROW_GPU(at) \
    CLI_ROW("gpu", "NAME", CLI_TEXT, at, "GPU: rtx3060, 'RTX 3080 Ti', a100-80gb", "gpus")
#define CLI_ROW_GPUS(at)                    \
    CLI_ROW("gpus", "NxNAME", CLI_TEXT, at, \
            "so many GPUs of this name, in one training: 8xh100 (--gpu and --ranks in one)", "")
#define CLI_ROW_GPU_MEMORY(at) \
    CLI_ROW("gpu-memory", "BYTES", CLI_MEMORY, at, "GPU with this much memory: 6GiB", "")
#define CLI_ROW_GPU_IDS(at) \
    CLI_ROW("gpu-ids", "LIST", CLI_TEXT, at, "GPUs of this machine to use: 0,1", "")
#define CLI_ROW_MACHINE(at) \
    CLI_ROW("machine", "DIR", CLI_TEXT, at, "use a recorded machine instead of this one", "file")
#define CLI_ROW_MACHINE_GAUGES(at)          \
    CLI_ROW("machine", "DIR", CLI_TEXT, at, \
            "read the GPU gauges of a recorded machine instead of this one's", "file")
#define CLI_ROW_DEMO(at)                  \
    CLI_ROW("demo", NULL, CLI_SWITCH, at, \
            "use a made-up machine with four GPUs (shipped with batchfit)", NULL)
#define CLI_ROW_PROFILE(at)                                                                       \
    CLI_ROW("profile", NULL, CLI_SWITCH, at,                                                      \
            "also read how busy multiprocessors, tensor cores and memory are (Hopper and newer)", \
            NULL)
#define CLI_ROW_RANKS_OF_TRIAL(at) \
    CLI_ROW("ranks", "N", CLI_COUNT, at, "data-parallel processes per trial", "")
#define CLI_ROW_PYTHON(at)                     \
    CLI_ROW("python", "PROGRAM", CLI_TEXT, at, \
            "Python that has your PyTorch (default $BATCHFIT_PYTHON, else python3)", "file")
#define CLI_ROW_SNAPSHOT(at)                                                                     \
    CLI_ROW("snapshot", "DIR", CLI_TEXT, at,                                                     \
            "when memory runs out, save PyTorch's memory snapshot in this folder, for batchfit " \
            "doctor (CUDA, torch 2.0 or newer)",                                                 \
            "file")
#define CLI_ROW_ENV(at)                          \
    CLI_ROW("env", "NAME=VALUE", CLI_REPEAT, at, \
            "environment variable for the command; VALUE may hold placeholders (repeatable)", "")
#define CLI_ROW_DATA_KEY(at) \
    CLI_ROW("data-key", "NAME", CLI_TEXT, at, "dataset in the HDF5 file", "")
#define CLI_ROW_NUM_CLASSES(at) CLI_ROW("num-classes", "N", CLI_COUNT, at, "number of classes", "")
#define CLI_ROW_ALLOC_CONF(at)                  \
    CLI_ROW("alloc-conf", "TEXT", CLI_TEXT, at, \
            "PYTORCH_CUDA_ALLOC_CONF of the run; 'env' takes the one in the environment", "")
#define CLI_ROW_STORE(at)                                                                    \
    CLI_ROW("store", "DIR", CLI_TEXT, at,                                                    \
            "folder or postgresql:// address of the history (default $BATCHFIT_STORE, else " \
            "~/.local/state/batchfit)",                                                      \
            "file")
#define CLI_ROW_FORCE(at)                  \
    CLI_ROW("force", NULL, CLI_SWITCH, at, \
            "write even if the config has settings that are not counted (LoRA, ZeRO, …)", NULL)
#define CLI_ROW_DETAILS(at)                                                                       \
    CLI_ROW("details", NULL, CLI_SWITCH, at, "also show the allocator's figures, and the budget", \
            NULL)
#define CLI_ROW_ALERT(at)                                          \
    CLI_ROW("alert", "NAME=N,...", CLI_LIST, at,                   \
            "report a GPU at or above these limits as a problem: " \
            "temperature=83,memory=95%,power=300 (degrees C, W)",  \
            "")
#define CLI_ROW_EXEC(at)                                                                          \
    CLI_ROW("exec", "COMMAND", CLI_TEXT, at,                                                      \
            "with --alert: run this by sh, once each time a GPU gets there; $BATCHFIT_TEXT says " \
            "what, $BATCHFIT_ALERT, $BATCHFIT_GPU and $BATCHFIT_VALUE its parts",                 \
            "")
#define CLI_ROW_COST_PER_HOUR(at)                 \
    CLI_ROW("cost-per-hour", "N", CLI_NUMBER, at, \
            "what an hour of a GPU costs: what the hours cost in which nothing ran is shown", "")
#define CLI_ROW_TRACE(at)                  \
    CLI_ROW("trace", "FILE", CLI_TEXT, at, \
            "also write the course of memory as a trace for Perfetto or chrome://tracing", "file")
#define CLI_ROW_TEST_ONLY(at) CLI_ROW("test-only", NULL, CLI_SWITCH, at, "change no files", NULL)
