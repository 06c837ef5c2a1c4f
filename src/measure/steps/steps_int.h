// SPDX-License-Identifier: Apache-2.0
// Private to the room.
#pragma once

#include "measure/steps/steps.h"

// The step of `rank` after which it had made so many; NULL: it is not kept, or has not come yet.
const struct step *steps_step_of(const struct steps *s, int rank, int64_t made);

// --- Checkpoints (saves.c) -----------------------------------------------------------------------

// An event `checkpoint`; empty, -1 where it does not say.
struct steps_save_word {
    struct str state, path, from, folder, error;
    bool is_of_files, is_file, is_background;
    int64_t step, ranks;
    double at_s;
};
void steps_save_said(struct steps *s, const struct step_rank *r,
                     const struct steps_save_word *word);
// By an event `phase`: all of it is there.
void steps_save_written(struct steps *s, const struct step_rank *r, struct str path,
                        const struct step_mark *mark);
