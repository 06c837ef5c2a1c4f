// SPDX-License-Identifier: Apache-2.0
// fit --check: configs as they stand, on the GPUs of a list, for a gate. Nothing is searched,
// launched or written (but the lock, when it is asked for), and nothing of the repository is run:
// configs are read as text.
#pragma once

#include "job/answer/verdict.h"
#include "job/choice/choice.h"

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
// "FITS", "FITS TIGHTLY", "TOO TIGHT", "DOES NOT FIT", "NOT JUDGED", then NULL.
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
