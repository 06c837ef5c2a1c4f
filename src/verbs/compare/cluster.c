// SPDX-License-Identifier: Apache-2.0
// compare --on slurm: the same comparison as a job on each GPU type; what is better on one may not
// be on another.
#include "base/unit.h"
#include "verbs/compare/compare.h"

#include <math.h>
#include <string.h>

// The first of the metrics that were asked for: what the first line is about.
static const char *first_metric(const struct cluster *t) {
    for (ptrdiff_t i = 0; i < t->count; i++) {
        json_t *metrics = cluster_at(t->jobs[i].document, "metrics");
        const char *name = json_object_iter_key(json_object_iter(metrics));
        if (name) return name;
    }
    return NULL;
}

static const char *verdict_of(const struct cluster_job *job, const char *metric) {
    json_t *metrics = cluster_at(job->document, "metrics");
    return json_string_value(json_object_get(json_object_get(metrics, metric), "verdict"));
}

static int count_of(const struct cluster *t, const char *metric, const char *verdict) {
    int count = 0;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const char *said = verdict_of(&t->jobs[i], metric);
        count += said && strcmp(said, verdict) == 0;
    }
    return count;
}

static struct str ratio_text(struct arena *a, json_t *metric) {
    double ratio = cluster_number(metric, "ratio"), low = cluster_number(metric, "ci.0");
    double high = cluster_number(metric, "ci.1");
    if (isnan(ratio)) return (struct str){0};
    if (isnan(low)) return str_format(a, "%.3f", ratio);
    return str_format(a, "%.3f (%.3f to %.3f)", ratio, low, high);
}

static struct str figure_text(struct arena *a, const char *name, json_t *metric, const char *side) {
    double figure = cluster_number(metric, side);
    bool is_bytes = strcmp(name, compare_metrics[COMPARE_MEMORY].name) == 0;
    return is_bytes && figure > 0 ? unit_bytes(a, (int64_t)figure) : unit_number(a, figure);
}

static void add_rows(struct cluster *t, const struct cluster_job *job,
                     const struct cluster_job *best, struct show_table *table) {
    (void)best;
    json_t *metrics = cluster_at(job->document, "metrics"), *metric;
    const char *name;
    if (!job->document) {
        show_table_cell(table, SHOW_STRONG, job->stem);
        for (int i = 0; i < 4; i++) show_table_known(table, SHOW_PLAIN, (struct str){0});
        show_table_cell(table, SHOW_WARN, STR("NOT MEASURED"));
        return;
    }
    json_object_foreach(metrics, name, metric) {
        struct str verdict = cluster_text(metric, "verdict");
        bool is_side = verdict.len == 1;
        show_table_cell(table, SHOW_STRONG, job->stem);
        show_table_cell(table, SHOW_PLAIN, str_of(name));
        show_table_known(table, SHOW_PLAIN, figure_text(t->arena, name, metric, "a"));
        show_table_known(table, SHOW_PLAIN, figure_text(t->arena, name, metric, "b"));
        show_table_known(table, SHOW_PLAIN, ratio_text(t->arena, metric));
        show_table_cell(table, is_side ? SHOW_GOOD : SHOW_PLAIN,
                        is_side           ? str_format(t->arena, "%.*s is better", STR_ARG(verdict))
                        : verdict.len > 0 ? verdict
                                          : STR("not measured"));
    }
}

static void say(const struct cluster *t, const struct cluster_job *best, struct buf *out) {
    const char *metric = first_metric(t);
    (void)best;
    if (metric)
        buf_format(out, "%s: b is better on %d, a on %d, no difference on %d", metric,
                   count_of(t, metric, "b"), count_of(t, metric, "a"),
                   count_of(t, metric, "no difference"));
    else
        buf_add(out, STR("NOT MEASURED "));
    buf_format(out, "%s of %td GPU types", metric ? "" : " on any", t->count);
}

static const struct cluster_view view = {
    .headings = (const struct show_heading[]){{"type", SHOW_LEFT},
                                              {"metric", SHOW_LEFT},
                                              {"a", SHOW_RIGHT},
                                              {"b", SHOW_RIGHT},
                                              {"b over a", SHOW_LEFT},
                                              {"verdict", SHOW_LEFT},
                                              {NULL, SHOW_LEFT}},
    .say = say,
    .add = add_rows,
};

int compare_cluster_check(const struct compare_options *o, struct fail *why) {
    if (!o->cluster.on || (!o->runs && !o->reports)) return cluster_check(&o->cluster, why);
    fail_set(why, FAIL_USAGE, "--%s cannot be combined with --on slurm",
             o->runs ? "runs" : "report");
    return fail_hint(why, o->runs ? "runs are measured already"
                                  : "--json has the whole answer of every type");
}

int compare_cluster(struct arena *a, const struct compare_options *o, struct fail *why) {
    const struct cluster_question asked = {.verb = "compare",
                                           .base = &o->base,
                                           .options = &o->cluster,
                                           .files = {o->a, o->b},
                                           .store = o->h.store,
                                           .fresh = o->fresh,
                                           .ranks = o->l.ranks};
    return cluster_answer(a, &asked, &view, why);
}
