// SPDX-License-Identifier: Apache-2.0
// The call as it was typed, less what is for the front end alone, as one job for each GPU type of a
// Slurm cluster, side by side: fit, bench and compare --on slurm. Each job measures on its GPU and
// writes the verb's own document. All that must outlive the front end lies in a folder of the
// question: the job's number, its output, its answer. So the same call goes on with the jobs of one
// that was killed or cut off, and what a requeued job measured before, its history answers. Ctrl-C
// cancels the jobs. A grid may be split: then an array of jobs measures its parts on several GPUs
// of a type at once, and the job that answers waits for them and measures what they left out.
#pragma once

#include "cli/cli.h"
#include "machine/slurm/slurm.h"
#include "view/show/show.h"

#include <jansson.h>

struct cluster_options {
    const char *on; // "slurm"; NULL: not asked
    const char *partition, *job_time;
};
// The rows of these options, for a verb that has no other engine; `cluster` is the struct's member.
#define CLUSTER_ROWS(type)                                                                     \
    CLI_ROW("on", "slurm", CLI_TEXT, offsetof(type, cluster.on),                               \
            "measure as a job on each GPU type of this Slurm cluster, side by side", "slurm"), \
        CLI_ROW("partition", "NAME", CLI_TEXT, offsetof(type, cluster.partition),              \
                "with --on slurm: only its nodes"),                                            \
        CLI_ROW("job-time", "TIME", CLI_TEXT, offsetof(type, cluster.job_time),                \
                "with --on slurm: of each job, as sbatch's --time takes it")

struct cluster_job {
    const struct slurm_type *type;
    struct slurm_place place;
    struct str stem, id, state; // of its files; Slurm's number and word
    struct str parts_id;        // of the array that it waits for; empty: none
    int gone;                   // polls in which it was over and had no answer
    bool is_recalled;           // answered by an earlier call
    struct str reason;          // why it has no answer; empty: it has one, or none yet
    json_t *document;           // its answer; NULL: none
};

struct cluster_question {
    const char *verb;
    const struct cli_options *base;
    const struct cluster_options *options;
    const char *own; // options that are the front end's, besides those of this room and --json
    const char *job_words; // more for the job: "--test-only"
    const char *files[2];  // what they say belongs to the question; NULL: none
    const char *store;     // of the history
    bool fresh;
    int64_t ranks; // GPUs of a trial; 0: one
    int64_t parts; // of a grid, measured at once on several GPUs of a type (--share); 0: one
};

struct cluster {
    struct arena *arena;
    const struct cluster_question *question;
    struct slurm slurm;
    struct str folder;
    struct cluster_job *jobs; // in sinfo's order
    ptrdiff_t count, measured;
    int lock;
};

// FAIL_USAGE: options of this room without --on, another engine than slurm.
int cluster_check(const struct cluster_options *o, struct fail *why);
// How a verb shows what the jobs came to: a table with a row or more for each, in which the best
// job stands out.
struct cluster_view {
    const struct show_heading *headings;             // ends with one without a name
    const char *const *gives_way;                    // show_table_gives_way; NULL: nothing
    double (*figure)(const struct cluster_job *job); // more is better, NaN is no answer; NULL: none
    void (*say)(const struct cluster *t, const struct cluster_job *best, struct buf *out);
    void (*add)(struct cluster *t, const struct cluster_job *job, const struct cluster_job *best,
                struct show_table *table);
};

// The call: until every job has its answer or a reason why not, and shows them, or with --json
// {"types": [{"type", "job", "is_recalled", "reason", "answer"}]}. 0; FAIL_NO: no job has a figure;
// FAIL_MACHINE: no Slurm, another call waits for the same jobs, or nothing was measured;
// FAIL_INTERRUPTED: they are cancelled.
int cluster_answer(struct arena *a, const struct cluster_question *q,
                   const struct cluster_view *view, struct fail *why);
// What a document has at a path of members and indexes, "rows.0.status"; NULL: nothing.
json_t *cluster_at(json_t *document, const char *path);
int64_t cluster_whole(json_t *document, const char *path);   // 0: none
double cluster_number(json_t *document, const char *path);   // NaN: none
struct str cluster_text(json_t *document, const char *path); // empty: none
