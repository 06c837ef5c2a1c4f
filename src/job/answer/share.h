// SPDX-License-Identifier: Apache-2.0
// An answer as one self-contained card, to paste into a chat.
#pragma once

#include "job/answer/answer.h"

#define CLI_ROW_SHARE(at)                                                                     \
    CLI_ROW("share", "FILE", CLI_REPEAT, at,                                                  \
            "also write the answer as one card to paste into a chat, .svg, .html or, where "  \
            "rsvg-convert is installed, .png (repeatable)",                                   \
            "file")

// Before anything is computed: the files' kinds and folders. NULL: nothing is asked.
int answer_share_check(struct arena *a, const char *paths, struct fail *why);
struct answer_share_asked {
    const char *paths;              // of the option, a line each
    const struct cli_options *base; // the command
};
// `changes`: the answer's batch is for the config.
int answer_share_write(struct question *q, const struct answer *answer, bool changes,
                       const struct answer_share_asked *asked, struct fail *why);
