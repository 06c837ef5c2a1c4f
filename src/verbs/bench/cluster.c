// SPDX-License-Identifier: Apache-2.0
#include "verbs/bench/cluster.h"

#include "base/unit.h"

#include <math.h>

static const char best[] = "best.recommended";

static double speed_of(const struct cluster_job *job) {
    return cluster_number(cluster_at(job->document, best), "samples_per_s");
}

// "batch 64, 4 workers, amp-fp16, algo=Ring": what the recommended row sets.
static struct str setting_of(struct arena *a, json_t *row) {
    struct buf text = buf_new(a);
    json_t *axes = cluster_at(row, "axes"), *value;
    const char *name;
    int64_t batch = cluster_whole(row, "batch_size");
    struct str precision = cluster_text(row, "precision");
    if (batch > 0) buf_format(&text, "batch %lld", (long long)batch);
    if (json_is_integer(cluster_at(row, "workers"))) {
        int64_t workers = cluster_whole(row, "workers");
        buf_format(&text, "%s%lld worker%s", text.count > 0 ? ", " : "", (long long)workers,
                   workers == 1 ? "" : "s");
    }
    if (precision.len > 0) buf_join(&text, ", ", precision);
    json_object_foreach(axes, name, value) {
        buf_format(&text, "%s%s=%s", text.count > 0 ? ", " : "", name, json_string_value(value));
    }
    return buf_str(&text);
}

static void add_row(struct cluster *t, const struct cluster_job *job, const struct cluster_job *top,
                    struct show_table *table) {
    json_t *row = cluster_at(job->document, best);
    double speed = speed_of(job);
    struct str reason = cluster_text(job->document, "reason");
    struct str share = isnan(speed) || !top
                           ? (struct str){0}
                           : str_format(t->arena, "%.0f %%", 100 * speed / speed_of(top));
    show_table_cell(table, job == top ? SHOW_STRONG : SHOW_PLAIN, job->stem);
    show_table_known(table, SHOW_PLAIN, cluster_text(job->document, "device.name"));
    show_table_known(table, SHOW_PLAIN, setting_of(t->arena, row));
    show_table_known(table, SHOW_PLAIN, unit_number(t->arena, speed));
    show_table_known(table, SHOW_PLAIN, share);
    show_table_bytes(table, SHOW_PLAIN, cluster_whole(row, "memory_bytes"));
    show_table_cell(table, isnan(speed) ? SHOW_WARN : SHOW_PLAIN,
                    !job->document        ? STR("NOT MEASURED")
                    : json_is_object(row) ? STR("MEASURED")
                    : reason.len > 0      ? reason
                                          : STR("no setting runs"));
}

static void say(const struct cluster *t, const struct cluster_job *top, struct buf *out) {
    buf_format(out, "%s on %td of %td GPU types", t->measured > 0 ? "MEASURED " : "NOT MEASURED ",
               t->measured, t->count);
    if (top)
        buf_format(out, "; the fastest: %.*s, %.*s, %.*s samples/s", STR_ARG(top->stem),
                   STR_ARG(setting_of(t->arena, cluster_at(top->document, best))),
                   STR_ARG(unit_number(t->arena, speed_of(top))));
}

static const struct cluster_view view = {
    .headings = (const struct show_heading[]){{"type", SHOW_LEFT},
                                              {"measured on", SHOW_LEFT},
                                              {"best setting", SHOW_LEFT},
                                              {"samples/s", SHOW_RIGHT},
                                              {"of it", SHOW_RIGHT},
                                              {"peak", SHOW_RIGHT},
                                              {"state", SHOW_LEFT},
                                              {NULL, SHOW_LEFT}},
    .gives_way = (const char *const[]){"measured on", "of it", NULL},
    .figure = speed_of,
    .say = say,
    .add = add_row,
};

static int check(const struct bench_options *o, struct fail *why) {
    const struct grid_options *g = &o->grid;
    if (g->part) {
        fail_set(why, FAIL_USAGE, "--share cannot be combined with --on slurm");
        return fail_hint(why, "--array N splits the grid into N jobs");
    }
    if (!g->outputs && !g->trace && !g->keep_engines) return 0;
    fail_set(why, FAIL_USAGE, "--%s cannot be combined with --on slurm",
             g->outputs ? "output"
             : g->trace ? "trace"
                        : "keep-engines");
    return fail_hint(why, "--json has the whole grid of every type");
}

int bench_cluster(struct arena *a, const struct bench_options *o, struct fail *why) {
    const struct grid_options *g = &o->grid;
    const struct cluster_question asked = {.verb = "bench",
                                           .base = &g->base,
                                           .options = &o->cluster,
                                           .files = {g->config},
                                           .store = g->h.store,
                                           .fresh = g->fresh,
                                           .ranks = g->l.ranks,
                                           .own = "array",
                                           .parts = o->array};
    int rc = check(o, why);
    return rc < 0 ? rc : cluster_answer(a, &asked, &view, why);
}
