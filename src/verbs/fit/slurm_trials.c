// SPDX-License-Identifier: Apache-2.0
// fit --on slurm -- COMMAND: trials on each GPU type of the cluster; a row a type.
#include "base/out.h"
#include "base/unit.h"
#include "job/cluster/cluster.h"
#include "verbs/fit/fit.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

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
    int64_t batch = cluster_whole(result, "plan.batch_size");
    json_t *speed = json_object_get(trial_of(result, batch), "samples_per_s");
    return json_is_number(speed) ? json_number_value(speed) : (double)NAN;
}

static void add_row(struct cluster *t, const struct cluster_job *job, struct show_table *table) {
    struct arena *a = t->arena;
    json_t *result = result_of(job), *plan = json_object_get(result, "plan");
    int64_t batch = cluster_whole(plan, "batch_size");
    const char *gpu = json_string_value(json_object_get(json_object_get(result, "gpu"), "name"));
    const char *verdict = json_string_value(json_object_get(result, "verdict"));
    json_t *peak = json_object_get(trial_of(result, batch), "peak_bytes");
    show_table_cell(table, SHOW_STRONG, job->stem);
    show_table_known(table, SHOW_PLAIN, str_of(gpu));
    show_table_known(table, SHOW_PLAIN,
                     batch > 0
                         ? str_format(a, "%lld x %lld", (long long)batch,
                                      (long long)cluster_whole(plan, "gradient_accumulation_steps"))
                         : (struct str){0});
    show_table_bytes(table, SHOW_PLAIN, json_is_integer(peak) ? json_integer_value(peak) : 0);
    show_table_known(table, SHOW_PLAIN, unit_number(a, speed_of(job)));
    show_table_cell(table, fits(job) ? SHOW_GOOD : SHOW_WARN,
                    job->document ? str_of(verdict) : STR("NOT MEASURED"));
}

static const struct cluster_job *fastest(const struct cluster *t) {
    const struct cluster_job *best = NULL;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct cluster_job *job = &t->jobs[i];
        if (fits(job) && (!best || speed_of(job) > speed_of(best))) best = job;
    }
    return best;
}

static void show(struct cluster *t) {
    static const struct show_heading headings[] = {
        {"type", SHOW_LEFT},  {"measured on", SHOW_LEFT}, {"batch", SHOW_RIGHT},
        {"peak", SHOW_RIGHT}, {"samples/s", SHOW_RIGHT},  {"verdict", SHOW_LEFT},
        {NULL, SHOW_LEFT}};
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct show_table table = show_table_new(t->arena, (struct str){0});
    struct buf out = buf_shown(t->arena);
    const struct cluster_job *best = fastest(t);
    const ptrdiff_t measured = t->measured;
    show_table_columns(&table, headings);
    for (ptrdiff_t i = 0; i < t->count; i++) add_row(t, &t->jobs[i], &table);
    if (measured > 0)
        buf_format(&out, "%s  measured on %td of %td GPU types", best ? "FITS" : "DOES NOT FIT",
                   measured, t->count);
    else
        buf_format(&out, "NOT MEASURED  on any of %td GPU types", t->count);
    if (best)
        buf_format(&out, "; the fastest: %.*s, batch %lld", STR_ARG(best->stem),
                   (long long)cluster_whole(result_of(best), "plan.batch_size"));
    buf_add(&out, STR("\n\n"));
    show_table_text(&table, style, &out);
    buf_byte(&out, '\n');
    cluster_add_reasons(t, &out);
    out_buf(stdout, &out);
}

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
    struct cluster t;
    int rc = cluster_measure(a, &asked, &t, why);
    if (rc == 0 && q->base.json) rc = cluster_print(&t, why);
    if (rc == 0 && !q->base.json) show(&t);
    if (rc == 0) rc = cluster_status(&t, fastest(&t), why);
    cluster_close(&t);
    return rc;
}
