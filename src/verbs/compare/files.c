// SPDX-License-Identifier: Apache-2.0
// A comparison as a document (doc/formats/compare.md), as Markdown and as a page of its own.
#include "base/shell.h"
#include "verbs/compare/compare.h"
#include "view/html/html.h"

#include <math.h>
#include <sys/utsname.h>

// --- JSON ----------------------------------------------------------------------------------------

static json_t *result_json(const struct compare_result *r) {
    json_t *verdict = r->is_measured ? json_string(r->verdict) : json_null();
    json_t *o =
        json_pack("{s:o, s:o, s:o, s:[o, o], s:o, s:o}", "a", json_number(r->a), "b",
                  json_number(r->b), "ratio", json_number(r->ratio.ratio), "ci",
                  json_number(r->ratio.interval.low), json_number(r->ratio.interval.high), "p",
                  json_number(r->is_tested ? r->ratio.rank.p : (double)NAN), "verdict", verdict);
    if (o && r->reason.len > 0) json_object_set_new(o, "reason", json_text(r->reason));
    if (o && r->pairs_wanted > 0 && r->pairs_wanted < INT32_MAX) {
        json_object_set_new(o, "pairs_wanted", json_integer(r->pairs_wanted));
        json_object_set_new(o, "difference", json_number(r->difference));
    }
    return o;
}

static json_t *pair_json(double a, double b) {
    return json_pack("{s:o, s:o}", "a", json_number(a), "b", json_number(b));
}

static json_t *cost_json(const struct compare_cost *k) {
    const struct gpu_month *m = k->months;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "usd_per_hour", json_number(k->usd_per_hour),
                     "source", json_text(k->source), "usd_per_million_samples",
                     pair_json(k->per_million[0], k->per_million[1]), "hours_per_month",
                     pair_json(m[0].hours, m[1].hours), "usd_per_month",
                     pair_json(m[0].usd, m[1].usd), "saved_per_month",
                     json_pack("{s:o, s:o}", "hours", json_number(m[0].hours - m[1].hours), "usd",
                               json_number(m[0].usd - m[1].usd)));
}

static json_t *side_json(const struct compare *c, int index) {
    const struct compare_side *side = &c->sides[index];
    json_t *trials = json_object();
    for (int k = 0; k < COMPARE_METRICS; k++) {
        json_t *list = json_array();
        for (ptrdiff_t i = 0; i < side->count; i++) {
            json_array_append_new(list, json_number(side->figures[k][i]));
        }
        json_object_set_new(trials, compare_metrics[k].name, list);
    }
    return json_pack("{s:o, s:o, s:o}", "name", json_text(side->name), "framework",
                     json_text(side->framework), "trials", trials);
}

json_t *compare_json(const struct compare *c, bool is_whole) {
    json_t *metrics = json_object();
    for (int i = 0; i < COMPARE_METRICS; i++) {
        if (!c->results[i].is_asked) continue;
        json_object_set_new(metrics, compare_metrics[i].name, result_json(&c->results[i]));
    }
    struct str rest = str_of(c->options->reports), first = str_cut(&rest, '\n');
    json_t *o = json_pack("{s:o, s:I, s:o}", "metrics", metrics, "pairs", (json_int_t)c->pairs,
                          "report", json_text(first));
    if (o && c->cost.is_asked) json_object_set_new(o, "cost", cost_json(&c->cost));
    if (o && c->notes.count > 0) json_object_set_new(o, "notes", json_texts(&c->notes));
    if (!o || !is_whole) return o;
    json_object_set_new(o, "device", json_text(c->device));
    json_object_set_new(o, "command", json_text(c->command));
    json_object_set_new(o, "sides", json_pack("[o, o]", side_json(c, 0), side_json(c, 1)));
    return o;
}

static struct str json_text_of(void *context) {
    struct compare *c = context;
    return json_document(c->arena, compare_json(c, true));
}

// --- How to do it again --------------------------------------------------------------------------

static void add_option(struct str_words *w, const char *name, struct str value) {
    if (value.len == 0) return;
    str_word_add(w, str_of(name));
    str_word_add(w, value);
}
static void add_count(struct str_words *w, const char *name, int64_t value) {
    if (value > 0) add_option(w, name, str_format(w->arena, "%lld", (long long)value));
}

static struct str call_text(const struct compare *c) {
    const struct compare_options *o = c->options;
    struct str_words w = {.arena = c->arena};
    struct str environment = str_of(o->l.environment), runs = str_of(o->runs);
    str_word_add(&w, STR("batchfit"));
    str_word_add(&w, STR("compare"));
    if (runs.len > 0) str_word_add(&w, STR("--runs"));
    while (runs.p && runs.len > 0) str_word_add(&w, str_trim(str_cut(&runs, ',')));
    add_option(&w, "--a", str_of(o->a));
    add_option(&w, "--b", str_of(o->b));
    add_option(&w, "--metrics", str_of(o->metrics));
    if (!o->runs) add_count(&w, "--pairs", c->pairs_asked);
    if (!o->runs) add_count(&w, "--steps", launch_steps(&o->l));
    if (!o->runs) add_count(&w, "--warmup", launch_warmup(&o->l));
    add_option(&w, "--device", str_of(o->l.device));
    add_count(&w, "--memory", o->l.memory_bytes);
    add_count(&w, "--ranks", o->l.ranks);
    add_option(&w, "--gpu-ids", str_of(o->l.cards));
    while (environment.p && environment.len > 0)
        add_option(&w, "--env", str_cut(&environment, '\n'));
    add_option(&w, "--data-path", str_of(o->data_path));
    add_option(&w, "--data-key", str_of(o->data_key));
    add_option(&w, "--cost", str_of(o->cost));
    add_count(&w, "--runs-per-month", o->runs_per_month);
    add_count(&w, "--samples", o->samples);
    add_count(&w, "--epochs", o->epochs);
    if (o->base.command) str_word_add(&w, STR("--"));
    for (int i = 0; o->base.command && o->base.command[i]; i++) {
        str_word_add(&w, str_of(o->base.command[i]));
    }
    return shell_command(c->arena, w.items);
}

static struct show_table versions(const struct compare *c) {
    struct show_table t = show_table_new(c->arena, (struct str){0});
    struct utsname system;
    show_table_column(&t, "what", SHOW_LEFT);
    show_table_wrapping(&t, "which");
    show_table_cell(&t, SHOW_PLAIN, STR("batchfit"));
    show_table_cell(&t, SHOW_PLAIN, STR(BATCHFIT_VERSION));
    show_table_cell(&t, SHOW_PLAIN, STR("device"));
    show_table_cell(&t, SHOW_PLAIN, c->device);
    if (c->driver.len > 0) {
        show_table_cell(&t, SHOW_PLAIN, STR("driver"));
        show_table_cell(&t, SHOW_PLAIN, c->driver);
    }
    for (int i = 0; i < COMPARE_SIDES; i++) {
        if (c->sides[i].framework.len == 0) continue;
        show_table_format(&t, SHOW_PLAIN, "framework of %c", 'A' + i);
        show_table_cell(&t, SHOW_PLAIN, c->sides[i].framework);
    }
    if (!c->is_of_runs && uname(&system) == 0) {
        show_table_cell(&t, SHOW_PLAIN, STR("system"));
        show_table_format(&t, SHOW_PLAIN, "%s %s %s", system.sysname, system.release,
                          system.machine);
    }
    return t;
}

static struct str diff_of(const struct compare *c) {
    const struct compare_side *s = c->sides;
    if (c->is_of_runs) return (struct str){0};
    struct str diff = compare_diff(c->arena, s[0].asked.config.text, s[1].asked.config.text);
    if (diff.len == 0) return STR("(the configs are the same)\n");
    return str_format(c->arena, "--- %.*s\n+++ %.*s\n%.*s", STR_ARG(s[0].name), STR_ARG(s[1].name),
                      STR_ARG(diff));
}

static struct show_table trials_table(const struct compare *c) {
    struct show_table t = show_table_new(c->arena, (struct str){0});
    show_table_column(&t, "pair", SHOW_RIGHT);
    for (int k = 0; k < COMPARE_METRICS; k++) {
        const struct compare_metric_row *m = &compare_metrics[k];
        if (!c->results[k].is_asked || !c->results[k].is_measured) continue;
        for (int s = 0; s < COMPARE_SIDES; s++) {
            show_table_column(
                &t,
                str_format(c->arena, "%c, %s", 'A' + s, k == COMPARE_MEMORY ? "MiB" : m->unit).p,
                SHOW_RIGHT);
        }
    }
    for (ptrdiff_t i = 0; i < c->pairs; i++) {
        show_table_format(&t, SHOW_DIM, "%td", i + 1);
        for (int k = 0; k < COMPARE_METRICS; k++) {
            if (!c->results[k].is_asked || !c->results[k].is_measured) continue;
            for (int s = 0; s < COMPARE_SIDES; s++) {
                double value = c->sides[s].figures[k][i];
                if (isnan(value))
                    show_table_unknown(&t);
                else
                    show_table_format(&t, SHOW_PLAIN, "%.5g",
                                      k == COMPARE_MEMORY ? value / 0x1p20 : value);
            }
        }
    }
    return t;
}

// --- Markdown ------------------------------------------------------------------------------------

static void fenced(struct buf *b, struct str text) {
    buf_format(b, "\n````text\n%.*s%s````\n", STR_ARG(text), str_ends(text, STR("\n")) ? "" : "\n");
}

static struct str markdown_text(void *context) {
    struct compare *c = context;
    struct buf b = buf_new(c->arena);
    struct str_list sentences = compare_sentences(c);
    struct show_table table = compare_table(c), cost = compare_cost_table(c),
                      trials = trials_table(c);
    struct show_table about = versions(c);
    buf_format(&b, "# Comparison on %.*s\n\n- A: `%.*s`\n- B: `%.*s`\n\n", STR_ARG(c->device),
               STR_ARG(c->sides[0].name), STR_ARG(c->sides[1].name));
    show_table_markdown(&table, &b);
    buf_byte(&b, '\n');
    for (ptrdiff_t i = 0; i < sentences.count; i++)
        buf_format(&b, "- %.*s\n", STR_ARG(sentences.items[i]));
    if (c->cost.is_asked) {
        buf_add(&b, STR("\n## Cost\n\n"));
        show_table_markdown(&cost, &b);
        if (c->cost.source.len > 0) buf_format(&b, "\n%.*s\n", STR_ARG(compare_price(c)));
    }
    buf_add(&b, STR("\n## Trials\n\n"));
    show_table_markdown(&trials, &b);
    buf_add(&b, STR("\n## How to reproduce\n"));
    fenced(&b, call_text(c));
    if (diff_of(c).len > 0) fenced(&b, diff_of(c));
    buf_byte(&b, '\n');
    show_table_markdown(&about, &b);
    if (c->notes.count > 0) buf_add(&b, STR("\n## Notes\n\n"));
    for (ptrdiff_t i = 0; i < c->notes.count; i++)
        buf_format(&b, "- %.*s\n", STR_ARG(c->notes.items[i]));
    return buf_str(&b);
}

// --- The page ------------------------------------------------------------------------------------

static void add_chart(struct compare *c, int metric, struct buf *page) {
    const struct compare_metric_row *m = &compare_metrics[metric];
    struct str *names = arena_new(c->arena, struct str, c->pairs + 1);
    for (ptrdiff_t i = 0; i < c->pairs; i++) names[i] = str_format(c->arena, "%td", i + 1);
    const struct chart_series series[] = {{STR("A"), c->sides[0].figures[metric]},
                                          {STR("B"), c->sides[1].figures[metric]}};
    struct chart chart = {.kind = CHART_LINES,
                          .unit = metric == COMPARE_MEMORY ? CHART_BYTES : CHART_NUMBERS,
                          .title = str_of(m->title),
                          .x_name = c->is_of_runs ? STR("figure") : STR("pair"),
                          .y_name = str_of(m->unit),
                          .x_texts = names,
                          .point_count = c->pairs,
                          .series = series,
                          .series_count = COMPARE_SIDES,
                          .limit = (double)NAN,
                          .budget = (double)NAN};
    html_chart(page, &chart, c->arena);
}

static void add_verdicts(struct compare *c, struct buf *page) {
    struct str_list sentences = compare_sentences(c);
    struct html_figure figures[COMPARE_METRICS];
    int count = 0;
    for (int k = 0; k < COMPARE_METRICS; k++) {
        const struct compare_result *r = &c->results[k];
        if (!r->is_asked) continue;
        bool is_same = !r->is_measured || r->verdict[0] == 'n';
        struct str value = !r->is_measured ? STR("not measured")
                           : is_same
                               ? STR("no difference")
                               : str_format(c->arena, "%c is better", r->verdict[0] - 'a' + 'A');
        struct str remark = isnan(r->ratio.ratio)
                                ? (struct str){0}
                                : str_format(c->arena, "B/A %.3f", r->ratio.ratio);
        figures[count++] = (struct html_figure){str_of(compare_metrics[k].title), value, remark,
                                                is_same ? SHOW_PLAIN : SHOW_GOOD};
    }
    html_figures(page, figures, count);
    html_list(page, sentences.items, (int)sentences.count);
}

static void add_again(struct compare *c, struct buf *page) {
    struct show_table about = versions(c);
    html_section(page, STR("How to reproduce"));
    html_code(page, call_text(c));
    if (diff_of(c).len > 0) html_code(page, diff_of(c));
    html_table(page, &about);
}

static struct str html_text(void *context) {
    struct compare *c = context;
    struct buf page = buf_new(c->arena);
    struct show_table table = compare_table(c), cost = compare_cost_table(c),
                      trials = trials_table(c);
    html_open(&page, str_format(c->arena, "Comparison on %.*s", STR_ARG(c->device)),
              str_format(c->arena, "A: %.*s. B: %.*s.", STR_ARG(c->sides[0].name),
                         STR_ARG(c->sides[1].name)));
    if (c->standin.len > 0) html_paragraph(&page, SHOW_WARN, c->standin);
    add_verdicts(c, &page);
    html_table(&page, &table);
    if (c->cost.is_asked) {
        html_section(&page, STR("Cost"));
        html_table(&page, &cost);
        if (c->cost.source.len > 0) html_paragraph(&page, SHOW_DIM, compare_price(c));
    }
    html_section(&page, STR("Trials"));
    for (int k = 0; k < COMPARE_METRICS; k++) {
        const struct compare_result *r = &c->results[k];
        if (r->is_asked && r->is_measured && c->pairs > 1) add_chart(c, k, &page);
    }
    html_table(&page, &trials);
    add_again(c, &page);
    html_notes(&page, &c->notes);
    html_close(&page, STR("batchfit " BATCHFIT_VERSION));
    return buf_str(&page);
}

const struct show_report_kind compare_files[] = {
    {.suffix = ".html", .text = html_text},
    {.suffix = ".md", .text = markdown_text},
    {.suffix = ".json", .text = json_text_of},
    {.suffix = NULL},
};
