// SPDX-License-Identifier: Apache-2.0
// The options of the verbs that launch trainings.
#ifndef LAUNCH_ROWS_H
#define LAUNCH_ROWS_H

#include "cli/rows.h"
#include "measure/launch/launch.h"

// The rows of these options, for a verb whose struct is `type` with the member `l`.
#define LAUNCH_AT(type, member) offsetof(type, l.member)
#define LAUNCH_ROWS(type)                                                                          \
    CLI_ROW("device", "WORD", CLI_TEXT, LAUNCH_AT(type, device),                                   \
            "where the trials run: auto, cuda, cpu; auto is a GPU when there is one",              \
            "auto cuda cpu"),                                                                      \
        CLI_ROW("memory", "BYTES", CLI_MEMORY, LAUNCH_AT(type, memory_bytes),                      \
                "as if the device had so much memory: 2GiB. On a GPU the caching allocator is "    \
                "capped, on the CPU the training is (control group, or our guard)",                \
                ""),                                                                               \
        CLI_ROW("steps", "N", CLI_COUNT, LAUNCH_AT(type, steps),                                   \
                "optimizer steps to measure in each trial (10)", ""),                              \
        CLI_ROW("warmup", "N", CLI_COUNT, LAUNCH_AT(type, warmup),                                 \
                "optimizer steps before them that do not count (2)", ""),                          \
        CLI_ROW("start-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, start_seconds),              \
                "a trial that has made no step by then is stopped (300)", ""),                     \
        CLI_ROW("stall-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, stall_seconds),              \
                "a trial without a further step for so long is stopped (120)", ""),                \
        CLI_ROW("time-limit", "SECONDS", CLI_NUMBER, LAUNCH_AT(type, time_seconds),                \
                "the longest that one trial may take; without it no limit", ""),                   \
        CLI_ROW("batch-dim", "N", CLI_COUNT, LAUNCH_AT(type, batch_dim),                           \
                "the dimension of the program's tensors along which the samples are: 1 where the " \
                "sequence comes first. Without it the first, or the one that has the size of "     \
                "{batch}",                                                                         \
                ""),                                                                               \
        CLI_ROW_PYTHON(LAUNCH_AT(type, python)), CLI_ROW_ENV(LAUNCH_AT(type, environment)),        \
        CLI_ROW("config-key", "[NAME=]PATH", CLI_REPEAT, LAUNCH_AT(type, config_keys),             \
                "where the value NAME (batch) goes in the trial's copy of the config, which the "  \
                "command takes as {config} (repeatable)",                                          \
                ""),                                                                               \
        CLI_ROW("longest-first", NULL, CLI_SWITCH, LAUNCH_AT(type, longest_first),                 \
                "a trial begins with the longest samples of its data (of 4096, for 10 s), for "    \
                "data of different lengths",                                                       \
                NULL),                                                                             \
        CLI_ROW_SNAPSHOT(LAUNCH_AT(type, snapshots)),                                              \
        CLI_ROW("keep-logs", "DIR", CLI_TEXT, LAUNCH_AT(type, log_folder),                         \
                "keeps the whole output of each trial in this folder", "file")

#endif
