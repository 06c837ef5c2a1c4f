// SPDX-License-Identifier: Apache-2.0
// A comparison as tables and sentences, for the terminal and for reports.
#include "verbs/compare/compare.h"

#include "base/out.h"
#include "base/unit.h"
#include "job/answer/answer.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const double percent = 100;

static void figure_cell(const struct compare *c, struct show_table *t, int metric, double value) {
    if (metric == COMPARE_MEMORY && !isnan(value))
        show_table_cell(t, SHOW_PLAIN, unit_bytes(c->arena, (int64_t)value));
    else
        show_table_known(t, SHOW_PLAIN, unit_number(c->arena, value));
}

static void test_cells(struct show_table *t, const struct compare_result *r) {
    const struct stats_interval *ci = &r->ratio.interval;
    if (isnan(r->ratio.ratio))
        show_table_unknown(t);
    else
        show_table_format(t, SHOW_STRONG, "%.3f", r->ratio.ratio);
    if (isnan(ci->low))
        show_table_unknown(t);
    else
        show_table_format(t, SHOW_DIM, "%.3f to %.3f", ci->low, ci->high);
    if (!r->is_tested)
        show_table_unknown(t);
    else if (r->ratio.rank.p < 0.0001)
        show_table_cell(t, SHOW_PLAIN, STR("<0.0001"));
    else
        show_table_format(t, SHOW_PLAIN, "%.4f", r->ratio.rank.p);
}

static void verdict_cell(struct show_table *t, const struct compare_result *r) {
    if (!r->is_measured)
        show_table_cell(t, SHOW_WARN, STR("not measured"));
    else if (str_is(STR("no difference"), r->verdict))
        show_table_cell(t, SHOW_DIM, STR("no difference"));
    else
        show_table_format(t, SHOW_GOOD, "%c is better", r->verdict[0] - 'a' + 'A');
}

struct show_table compare_table(const struct compare *c) {
    static const char *const columns[] = {"A", "B", "B/A", "95 %", "p"};
    struct show_table t = show_table_new(c->arena, (struct str){0});
    show_table_column(&t, "metric", SHOW_LEFT);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        show_table_column(&t, columns[i], SHOW_RIGHT);
    }
    show_table_column(&t, "verdict", SHOW_LEFT);
    for (int i = 0; i < COMPARE_METRICS; i++) {
        const struct compare_result *r = &c->results[i];
        if (!r->is_asked) continue;
        bool has_unit = i != COMPARE_MEMORY;
        show_table_format(&t, SHOW_STRONG, "%s%s%s", compare_metrics[i].name, has_unit ? ", " : "",
                          has_unit ? compare_metrics[i].unit : "");
        figure_cell(c, &t, i, r->a);
        figure_cell(c, &t, i, r->b);
        test_cells(&t, r);
        verdict_cell(&t, r);
    }
    return t;
}

// --- Money ---------------------------------------------------------------------------------------

static void money_row(struct show_table *t, const char *name, double a, double b) {
    if (isnan(a) || isnan(b)) return;
    int digits = fabs(a) < 1 && fabs(b) < 1 ? 4 : 2;
    show_table_cell(t, SHOW_STRONG, str_of(name));
    show_table_format(t, SHOW_PLAIN, "%.*f", digits, a);
    show_table_format(t, SHOW_PLAIN, "%.*f", digits, b);
    show_table_format(t, a > b ? SHOW_GOOD : SHOW_PLAIN, "%.*f", digits, a - b);
}

struct show_table compare_cost_table(const struct compare *c) {
    struct show_table t = show_table_new(c->arena, (struct str){0});
    const struct compare_cost *k = &c->cost;
    const struct gpu_month *m = k->months;
    show_table_column(&t, "cost", SHOW_LEFT);
    show_table_column(&t, "A", SHOW_RIGHT);
    show_table_column(&t, "B", SHOW_RIGHT);
    show_table_column(&t, "B saves", SHOW_RIGHT);
    money_row(&t, "USD per million samples", k->per_million[COMPARE_A], k->per_million[COMPARE_B]);
    money_row(&t, "hours per month", m[COMPARE_A].hours, m[COMPARE_B].hours);
    money_row(&t, "USD per month", m[COMPARE_A].usd, m[COMPARE_B].usd);
    return t;
}

struct str compare_price(const struct compare *c) {
    return str_format(c->arena, "%.4g USD per GPU hour: %.*s", c->cost.usd_per_hour,
                      STR_ARG(c->cost.source));
}

// --- Sentences -----------------------------------------------------------------------------------

static struct str no_difference(const struct compare *c, const char *name,
                                const struct compare_result *r) {
    if (r->pairs_wanted <= 0 || r->pairs_wanted > 100000) {
        return str_format(c->arena, "%s: no difference", name);
    }
    if (r->pairs_wanted <= c->pairs) {
        return str_format(c->arena,
                          "%s: no difference; %td pairs are enough to find one of %.1f %%", name,
                          c->pairs, percent * r->difference);
    }
    return str_format(
        c->arena, "%s: no difference beyond chance; %td pairs would find one of %.1f %% (--pairs)",
        name, r->pairs_wanted, percent * r->difference);
}

static struct str sentence(const struct compare *c, int metric) {
    const struct compare_result *r = &c->results[metric];
    const char *name = compare_metrics[metric].title;
    if (!r->is_measured || r->reason.len > 0) {
        return str_format(c->arena, "%s: %.*s", name,
                          STR_ARG(show_first_line(c->arena, r->reason, GRID_REASON_COLUMNS)));
    }
    if (r->ratio.verdict == STATS_SAME) return no_difference(c, name, r);
    double change = percent * (r->ratio.ratio - 1);
    return str_format(c->arena, "%s: %c is better; B has %.1f %% %s than A (%+.1f to %+.1f %%)",
                      name, r->verdict[0] - 'a' + 'A', fabs(change), change > 0 ? "more" : "less",
                      percent * (r->ratio.interval.low - 1),
                      percent * (r->ratio.interval.high - 1));
}

struct str_list compare_sentences(const struct compare *c) {
    struct str_list list = {0};
    for (int i = 0; i < COMPARE_METRICS; i++) {
        if (c->results[i].is_asked) str_list_add(c->arena, &list, sentence(c, i));
    }
    return list;
}

// --- The terminal --------------------------------------------------------------------------------

static void add_title(const struct compare *c, struct show_style style, struct buf *out) {
    show_text(out, style, SHOW_STRONG, STR("Comparison"));
    buf_format(out, ": %.*s%s", STR_ARG(c->device), c->standin.len ? " (fake)" : "");
    if (!c->is_of_runs) buf_format(out, ", %td pairs", c->pairs);
    for (int i = 0; i < COMPARE_SIDES; i++) {
        buf_format(out, "\n%c: %.*s", 'A' + i, STR_ARG(c->sides[i].name));
    }
    buf_byte(out, '\n');
    if (c->command.len > 0) {
        show_text(out, style, SHOW_DIM, c->command);
        buf_byte(out, '\n');
    }
    buf_byte(out, '\n');
}

static void add_cost(const struct compare *c, struct show_style style, struct buf *out) {
    if (!c->cost.is_asked) return;
    struct show_table t = compare_cost_table(c);
    buf_byte(out, '\n');
    show_table_text(&t, style, out);
    if (c->cost.source.len == 0) return;
    show_text(out, style, SHOW_DIM, compare_price(c));
    buf_byte(out, '\n');
}

void compare_print(struct compare *c) {
    struct show_style style = show_style_of(STDOUT_FILENO), wide = style;
    struct buf out = buf_shown(c->arena);
    struct show_table table = compare_table(c);
    struct str_list sentences = compare_sentences(c);
    wide.width = 0; // a figure that is cut short is worse than a line that wraps
    add_title(c, style, &out);
    show_table_text(&table, wide, &out);
    buf_byte(&out, '\n');
    for (ptrdiff_t i = 0; i < sentences.count; i++) {
        show_text(&out, style, SHOW_PLAIN, sentences.items[i]);
        buf_byte(&out, '\n');
    }
    add_cost(c, wide, &out);
    if (c->notes.count > 0) buf_byte(&out, '\n');
    answer_notes(&c->notes, style, &out);
    out_buf(stdout, &out);
}
