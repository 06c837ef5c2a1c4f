// SPDX-License-Identifier: Apache-2.0
// fit --on slurm: the smallest (or the cheapest) GPU type of the cluster that holds the config as
// it stands, in sbatch's words. Where none does, the type that keeps the largest batch of the same
// effective one.
#pragma once

#include "machine/slurm/slurm.h"
#include "predict/gpu/price.h"
#include "verbs/fit/check.h"

// A type of the cluster, and what the config is on it.
struct fit_slurm_row {
    const struct slurm_type *type;
    bool is_known;             // which GPU it is
    struct forecast_card card; // then
    bool is_slice;             // MIG
    bool is_least;             // of several that the type's name could mean
    struct slurm_place place;  // what is asked of Slurm; no GPUs: it has not so many
    struct fit_check_row as_is;
    struct answer *answer; // as it stands or, where no type holds it so, changed; NULL: none
    const char *verdict;   // of it; "DOWN", "UNKNOWN" or "TOO FEW" where there is none
    bool fits;
    const struct gpu_price *price; // with --cheapest; NULL: none
    double usd, usd_low, usd_high; // a million samples, and its range; NaN: not known
    struct str reason;             // why it is not taken; empty: it fits
};

struct fit_slurm {
    struct question *q;
    const struct fit_options *options;
    struct slurm cluster;
    struct fit_slurm_row *rows; // the least memory first; those that are not known last
    ptrdiff_t count;
    const struct fit_slurm_row *chosen; // NULL: none
    bool wants_other; // another effective batch than the config's, so that it must change anyway
    bool as_it_stands;
    ptrdiff_t compared;    // by cost
    struct answer *answer; // of the chosen one; without one, of the largest that is known, or NULL
    struct str gres, partition; // what is asked of Slurm; empty: nothing, or its default
    struct str_words words;     // sbatch's, without "sbatch" and the script
    struct str submitted;       // what sbatch said; empty: nothing was submitted
};

// With --cheapest: the chosen type is the one on which the training costs least.
int fit_slurm_take_cheapest(struct fit_slurm *s, struct fail *why);

// 0, FAIL_NO where no type holds it (shown, with the remedies), FAIL_INPUT where it cannot be
// judged, FAIL_MACHINE: no Slurm, or sbatch refused the job.
int fit_slurm(struct arena *a, const struct fit_options *options, struct fail *why);

// With -- COMMAND: measured by a job on each type. FAIL_NO where it fits on none, FAIL_MACHINE
// where nothing was measured.
int fit_slurm_trials(struct arena *a, const struct fit_options *options, struct fail *why);

void fit_slurm_show(struct fit_slurm *s, const struct buf *report);
int fit_slurm_json(struct fit_slurm *s, struct fail *why);
