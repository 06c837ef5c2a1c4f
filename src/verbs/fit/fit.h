// SPDX-License-Identifier: Apache-2.0
// fit --check: configs as they stand, on the GPUs of a list, for a gate. Nothing is searched,
// launched or written (but the lock, when it is asked for), and nothing of the repository is run:
// configs are read as text.
#pragma once

#include "job/answer/answer.h"
#include "job/choice/choice.h"
#include "machine/slurm/slurm.h"
#include "predict/gpu/gpu.h"

struct fit_check_options {
    bool is_asked, allows_unjudged, updates_lock;
    const char *max_memory, *format, *lock, *base, *base_ref;
};

struct fit_slurm_options {
    const char *gres, *partition, *exec; // gres: TYPE=GPU, a line each
    const char *job_time;                // of a job
    bool cheapest;
};

struct fit_options {
    struct choice_options o;
    const char *on; // "slurm", "kubernetes", "skypilot"; NULL: a GPU, or none
    struct fit_check_options c;
    struct fit_slurm_options s;
};

// A gate never passes what it could not judge: a file that cannot be read, a model without a tape,
// a setting that the forecast does not count.
enum fit_check_state { FIT_CHECK_PASSES, FIT_CHECK_FAILS, FIT_CHECK_UNJUDGED };

// What was expected before: on the base branch, or by the lock.
struct fit_check_known {
    struct str config, key, verdict; // verdict empty: there is none
    int64_t bytes;                   // 0: not judged
};
struct fit_check_list {
    struct fit_check_known *items;
    ptrdiff_t count, capacity;
};
// "FITS", "FITS TIGHTLY", "TOO TIGHT", "DOES NOT FIT", "DOES NOT RUN", "NOT JUDGED", then NULL.
extern const char *const fit_check_verdicts[];
// One config on one GPU.
struct fit_check_row {
    struct str config;
    struct str gpu, key; // as people call it; the catalogue's, "8x" in front; "any" where the
                         // config could not even be read
    enum fit_check_state state;
    const char *verdict;     // of fit_check_verdicts
    struct str reason, hint; // why it does not pass, and what to do; empty: it does
    int line;                // of the batch in the config; 0: it is not there
    struct plan plan;
    struct answer_memory memory; // expected 0: not judged
    double limit;                // share of the usable memory that the peak may take
    struct answer *answer;       // what was judged; NULL: nothing was
    const char *basis;           // verdict_basis of doc/formats/fit.md; NULL: not judged
    struct question *question;   // NULL: the config could not be read
    struct str_list notes;
    struct fit_check_known before; // of the base branch
    const char *lock;              // "same", "changed", "new"; NULL: there is no lock
    struct fit_check_known locked;
};

// A name of --gpus, looked up once.
struct fit_check_gpu {
    struct str name;
    struct gpu gpu;
};

struct fit_check {
    struct arena *arena;
    const struct fit_options *options;
    const struct question *like; // the last one that was opened: tables and tapes are read once
    struct fit_check_gpu *gpus;
    ptrdiff_t gpus_count, gpus_capacity;
    struct fit_check_row *rows;
    ptrdiff_t count, capacity;
    int passed, failed, unjudged, drifted, config_count, gpu_count;
    bool has_base, has_lock;
    double band;           // of the lock
    struct str_list notes; // about GPUs, the base and the lock
};

// A row of the list; NULL: it is not there.
const struct fit_check_known *fit_check_find(const struct fit_check_list *list, struct str config,
                                             struct str key);

// Checks the files of the command line and prints. 0; FAIL_NO: one does not fit, or is not as the
// lock says; FAIL_INPUT: one could not be judged, which wins.
int fit_check(struct arena *a, const struct fit_options *options, struct fail *why);
// check_judge.c: judges one config, read by `source` (NULL: the file itself), and adds its rows.
int fit_check_config(struct fit_check *c, const char *config, const struct question_source *source,
                     struct fail *why);

// The config says what no GPU can be judged by: the row gets the reason and what to do.
bool fit_check_is_unjudged(struct question *q, const struct question_options *asked,
                           struct fit_check_row *row);
// One GPU of an open question: state, verdict, reason, memory. Afterwards its precision is fixed.
int fit_check_judge(struct question *q, const struct question_options *asked,
                    const struct forecast_card *card, struct fit_check_row *row, struct fail *why);

// The training would stop there for another reason than memory: the GPU lacks what it asks for.
bool fit_check_stops(const struct fit_check_row *row);

// A question of all GPUs needs its batch: where the config says none, but the effective one is
// known, it is all of it.
int fit_check_find_batch(struct question *q, struct fail *why);
// What a row that could not be judged says, as an error.
int fit_check_fail(const struct question *q, const struct fit_check_row *row, struct fail *why);

// check_base.c: fills the rows' `before`, from a document of --json and from a commit of git.
int fit_check_base(struct fit_check *c, struct fail *why);
// check_lock.c: fills the rows' `lock` and `locked`, or writes the file.
int fit_check_lock(struct fit_check *c, struct fail *why);
// The text of a lock, and a line of it. FAIL_INPUT names the file and the line.
int fit_check_lock_read(struct arena *a, const char *path, struct str text,
                        struct fit_check_list *list, double *band, struct fail *why);
struct str fit_check_lock_line(struct arena *a, const struct fit_check_known *k);

// "8.60 GiB", or a dash where nothing is known; "+1.2 GiB (+14 %)" against what was known before.
struct str fit_check_peak(struct arena *a, int64_t bytes);
struct str fit_check_change(struct arena *a, const struct fit_check_row *row);
// "2 of 6 fit, 1 does not, 3 were not judged"
struct str fit_check_summary(const struct fit_check *c);
// What is wrong with a row, without its name: the reason, what to do, and how the lock differs.
struct str fit_check_words(struct arena *a, const struct fit_check_row *row);
bool fit_check_is_off_lock(const struct fit_check_row *row);
bool fit_check_is_loud(const struct fit_check_row *row); // a fault, or not judged, or not as locked

// The ways to show it: check_show.c, check_formats.c.
int fit_check_text(const struct fit_check *c, struct fail *why);
int fit_check_json(const struct fit_check *c, struct fail *why);
int fit_check_sarif(const struct fit_check *c, struct fail *why);
int fit_check_junit(const struct fit_check *c, struct fail *why);
int fit_check_github(const struct fit_check *c, struct fail *why);
int fit_check_markdown(const struct fit_check *c, struct fail *why);

// fit --on slurm: the smallest (or the cheapest) GPU type of the cluster that holds the config as
// it stands, in sbatch's words. Where none does, the type that keeps the largest batch of the same
// effective one.

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

// fit --on kubernetes, --on skypilot: which GPUs hold the config as it stands, in the words of an
// engine that finds one of them. The engine is not asked: what it may have is the catalogue, or
// what --gpus names.

struct fit_cloud_row {
    struct forecast_card card;
    struct fit_check_row as_is;
    bool fits;
};

struct fit_cloud {
    struct question *q;
    const struct fit_options *options;
    struct fit_cloud_row *rows; // the least memory first
    ptrdiff_t count, fitting;
    // Without --gpus: from here on every row fits. Otherwise 0.
    ptrdiff_t floor;
    bool is_named;       // by --gpus
    int capability;      // the least of a GPU that is not named, 80 of 8.0; 0: any
    const char *asks;    // what needs it: "bf16"
    int64_t gpus, nodes; // GPUs of one node, and nodes
    struct str_list notes;
};

struct fit_cloud_engine {
    const char *name;
    // What the engine reads. FAIL_INPUT: it has no word for a GPU.
    int (*spec)(struct fit_cloud *c, json_t **ret_spec, struct fail *why);
    const char *where; // it belongs
};
extern const struct fit_cloud_engine fit_cloud_engines[]; // ends with a row without a name

// 0; FAIL_NO: none holds it (shown, with the remedies); FAIL_INPUT: it cannot be judged.
int fit_cloud(struct arena *a, const struct fit_options *options, struct fail *why);
