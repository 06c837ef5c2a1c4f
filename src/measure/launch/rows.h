// SPDX-License-Identifier: Apache-2.0
// The options of the verbs that launch trainings.
#pragma once

#include "cli/rows.h"
#include "measure/launch/launch.h"

// The rows of these options, for a verb whose struct is `type` with the member `l`.
#define LAUNCH_AT(type, member) offsetof(type, l.member)
#define LAUNCH_ROWS(type)                                                                          \
    CLI_ROW("device", "WORD", CLI_TEXT, LAUNCH_AT(type, device),                                   \
            "device for the trials: auto, cuda, cpu; auto takes a GPU if there is one",            \
            "auto cuda cpu"),                                                                      \
        CLI_ROW("memory", "BYTES", CLI_MEMORY, LAUNCH_AT(type, memory_bytes),                      \
                "pretend that the device has this much memory, such as 2GiB: on a GPU the "        \
                "caching allocator is capped, on the CPU the training is (by a control group or "  \
                "batchfit's guard)",                                                               \
                ""),                                                                               \
        CLI_ROW("steps", "N", CLI_COUNT, LAUNCH_AT(type, steps),                                   \
                "optimizer steps to measure per trial (default 10)", ""),                          \
        CLI_ROW("warmup", "N", CLI_COUNT, LAUNCH_AT(type, warmup),                                 \
                "steps to run before measuring (default 2)", ""),                                  \
        CLI_ROW("start-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, start_seconds),              \
                "stop a trial without a first step after this time (default 300)", ""),            \
        CLI_ROW("stall-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, stall_seconds),              \
                "stop a trial without a further step after this time (default 120)", ""),          \
        CLI_ROW("time-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, time_seconds),                \
                "time limit of a trial (default none)", ""),                                       \
        CLI_ROW("batch-dim", "N", CLI_COUNT, LAUNCH_AT(type, batch_dim),                           \
                "tensor dimension that counts the samples: 1 if the sequence comes first "         \
                "(default the first, or the one with the size of {batch})",                        \
                ""),                                                                               \
        CLI_ROW_PYTHON(LAUNCH_AT(type, python)), CLI_ROW_ENV(LAUNCH_AT(type, environment)),        \
        CLI_ROW("config-key", "[NAME=]PATH", CLI_REPEAT, LAUNCH_AT(type, config_keys),             \
                "key for the value NAME (batch) in the trial's copy of the config, which the "     \
                "command takes as {config} (repeatable)",                                          \
                ""),                                                                               \
        CLI_ROW("longest-first", NULL, CLI_SWITCH, LAUNCH_AT(type, longest_first),                 \
                "start each trial with the longest of 4096 samples (found within 10 s), for data " \
                "of varying length",                                                               \
                NULL),                                                                             \
        CLI_ROW_SNAPSHOT(LAUNCH_AT(type, snapshots)),                                              \
        CLI_ROW("keep-logs", "DIR", CLI_TEXT, LAUNCH_AT(type, log_folder),                         \
                "keep the complete output of each trial in this folder", "file")
