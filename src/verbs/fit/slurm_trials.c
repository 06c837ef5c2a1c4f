// SPDX-License-Identifier: Apache-2.0
// fit --on slurm -- COMMAND: trials on each GPU type of the cluster; a row a type.
#include "base/unit.h"
#include "job/cluster/cluster.h"
#include "verbs/fit/fit.h"

#include <math.h>

// --- What they came to ---------------------------------------------------------------------------

static json_t *result_of(const struct cluster_job *job) {
    return json_array_get(json_object_get(job->document, "results"), 0);
}

static bool fits(const struct cluster_job *job) {
    return job->document && json_is_true(json_object_get(result_of(job), "fits_budget"));
}

// The last trial of the batch that was chosen.
static json_t *trial_of(json_t *result, int64_t batch) {
    json_t *trials = json_object_get(result, "trials"), *found = NULL, *trial;
    size_t i;
    json_array_foreach(trials, i, trial) {
        if (cluster_whole(trial, "batch_size") == batch) found = trial;
    }
    return found;
}

static double speed_of(const struct cluster_job *job) {
    json_t *result = result_of(job);
    return cluster_number(trial_of(result, cluster_whole(result, "plan.batch_size")),
                          "samples_per_s");
}

static double speed_that_fits(const struct cluster_job *job) {
    if (!fits(job)) return (double)NAN;
    return isnan(speed_of(job)) ? 0 : speed_of(job);
}

static void add_row(struct cluster *t, const struct cluster_job *job,
                    const struct cluster_job *best, struct show_table *table) {
    struct arena *a = t->arena;
    json_t *result = result_of(job);
    int64_t batch = cluster_whole(result, "plan.batch_size");
    int64_t accumulation = cluster_whole(result, "plan.gradient_accumulation_steps");
    (void)best;
    show_table_cell(table, SHOW_STRONG, job->stem);
    show_table_known(table, SHOW_PLAIN, cluster_text(result, "gpu.name"));
    show_table_known(table, SHOW_PLAIN,
                     batch > 0
                         ? str_format(a, "%lld x %lld", (long long)batch, (long long)accumulation)
                         : (struct str){0});
    show_table_bytes(table, SHOW_PLAIN, cluster_whole(trial_of(result, batch), "peak_bytes"));
    show_table_known(table, SHOW_PLAIN, unit_number(a, speed_of(job)));
    show_table_cell(table, fits(job) ? SHOW_GOOD : SHOW_WARN,
                    job->document ? cluster_text(result, "verdict") : STR("NOT MEASURED"));
}

static void say(const struct cluster *t, const struct cluster_job *best, struct buf *out) {
    if (t->measured > 0)
        buf_format(out, "%s  measured on %td of %td GPU types", best ? "FITS" : "DOES NOT FIT",
                   t->measured, t->count);
    else
        buf_format(out, "NOT MEASURED  on any of %td GPU types", t->count);
    if (best)
        buf_format(out, "; the fastest: %.*s, batch %lld", STR_ARG(best->stem),
                   (long long)cluster_whole(result_of(best), "plan.batch_size"));
}

static const struct cluster_view view = {
    .headings = (const struct show_heading[]){{"type", SHOW_LEFT},
                                              {"measured on", SHOW_LEFT},
                                              {"batch", SHOW_RIGHT},
                                              {"peak", SHOW_RIGHT},
                                              {"samples/s", SHOW_RIGHT},
                                              {"verdict", SHOW_LEFT},
                                              {NULL, SHOW_LEFT}},
    .figure = speed_that_fits,
    .say = say,
    .add = add_row,
};

int fit_slurm_trials(struct arena *a, const struct fit_options *options, struct fail *why) {
    const struct question_options *q = &options->o.q;
    const struct cluster_options on = {options->on, options->s.partition, options->s.job_time};
    const struct cluster_question asked = {.verb = "fit",
                                           .base = &q->base,
                                           .options = &on,
                                           .own = "gres test-only save-config",
                                           .job_words = "--test-only",
                                           .files = {q->config},
                                           .store = options->o.h.store,
                                           .fresh = options->o.h.fresh,
                                           .ranks = q->ranks};
    return cluster_answer(a, &asked, &view, why);
}
