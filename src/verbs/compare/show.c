// SPDX-License-Identifier: Apache-2.0
// A comparison as tables and sentences, for the terminal and for reports.
#include "verbs/compare/compare.h"

#include "base/out.h"
#include "base/say.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const double percent = 100;
static const double worth_it = 0.02; // a smaller difference is none
enum { most_pairs = 200 };           // nobody makes more

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

// A difference worth having was seen, and there were not the pairs to say that it is one.
static bool is_too_few(const struct compare *c, const struct compare_result *r) {
    bool has_failed = c->sides[COMPARE_A].has_failed || c->sides[COMPARE_B].has_failed;
    if (has_failed || !r->is_measured || r->ratio.verdict != STATS_SAME) return false;
    if (!r->is_tested) return true;
    return fabs(r->ratio.ratio - 1) >= worth_it && r->pairs_wanted > c->pairs;
}

static void verdict_cell(const struct compare *c, struct show_table *t,
                         const struct compare_result *r) {
    if (!r->is_measured)
        show_table_cell(t, SHOW_WARN, STR("not measured"));
    else if (is_too_few(c, r))
        show_table_cell(t, SHOW_WARN, STR("too few pairs"));
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
        verdict_cell(c, &t, r);
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
        return str_format(c->arena, "%s: %s", name,
                          is_too_few(c, r) ? "too few pairs to tell" : "no difference");
    }
    if (is_too_few(c, r)) {
        return str_format(c->arena,
                          "%s: too few pairs to tell; %td would find a difference of %.1f %% "
                          "(--pairs)",
                          name, r->pairs_wanted, percent * r->difference);
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

// In the percentages of the sentences below, which are of B/A; a factor where they say too little.
static struct str factor_text(struct arena *a, const struct compare_result *r) {
    double ratio = r->ratio.ratio;
    const struct stats_interval *ci = &r->ratio.interval;
    bool is_slower = ratio < 1;
    const char *word = is_slower ? "slower" : "faster";
    double times = is_slower ? 1 / ratio : ratio;
    double low = is_slower ? 1 / ci->high : ci->low, high = is_slower ? 1 / ci->low : ci->high;
    if (times >= 1.5) return str_format(a, "%.1fx %s (%.1f to %.1f)", times, word, low, high);
    return str_format(a, "%.1f %% %s (%+.1f to %+.1f %%)", percent * fabs(ratio - 1), word,
                      percent * (ci->low - 1), percent * (ci->high - 1));
}

static struct str failed_text(const struct compare *c, int side) {
    const struct compare_side *failed = &c->sides[side];
    if (failed->status == LAUNCH_OOM)
        return str_format(c->arena, "%c does not run: it ran out of memory", 'A' + side);
    return str_format(c->arena, "%c does not run: %.*s", 'A' + side,
                      STR_ARG(show_first_line(c->arena, failed->reason, GRID_REASON_COLUMNS)));
}

// Where no throughput was asked for, or measured: the first of what was.
static struct str other_text(const struct compare *c) {
    for (int i = 0; i < COMPARE_METRICS; i++) {
        if (c->results[i].is_asked && c->results[i].is_measured) return sentence(c, i);
    }
    return STR("nothing was measured that could be compared");
}

static struct str speed_text(const struct compare *c, const struct compare_result *speed) {
    ptrdiff_t more = speed->pairs_wanted - c->pairs;
    if (is_too_few(c, speed) && more > 0 && more <= most_pairs)
        return str_format(c->arena, "too few pairs to tell: %td more would (--pairs)", more);
    if (is_too_few(c, speed)) return STR("too few pairs to tell");
    if (speed->ratio.verdict == STATS_SAME) return STR("B is as fast as A, within chance");
    return str_format(c->arena, "B is %.*s", STR_ARG(factor_text(c->arena, speed)));
}

// "B is 2.6x faster (2.3 to 2.9) and needs 42 % more memory", by what is asked and measured.
static struct str verdict_text(const struct compare *c) {
    const struct compare_result *speed = &c->results[COMPARE_THROUGHPUT];
    const struct compare_result *memory = &c->results[COMPARE_MEMORY];
    for (int side = 0; side < COMPARE_SIDES; side++) {
        if (c->sides[side].has_failed) return failed_text(c, side);
    }
    if (!speed->is_asked || !speed->is_measured) return other_text(c);
    struct str text = speed_text(c, speed);
    double change = percent * (memory->ratio.ratio - 1);
    bool is_known = memory->is_asked && memory->is_measured && !isnan(change);
    if (!is_known || memory->ratio.verdict == STATS_SAME) return text;
    return str_format(c->arena, "%.*s and needs %.0f %% %s memory", STR_ARG(text), fabs(change),
                      change > 0 ? "more" : "less");
}

// --- The terminal --------------------------------------------------------------------------------

static void add_title(const struct compare *c, struct show_style style, struct buf *out) {
    show_prose(out, style, SHOW_STRONG, verdict_text(c), 0, 2);
    show_text(out, style, SHOW_STRONG, str_of(_("Comparison")));
    buf_format(out, ": %.*s%s", STR_ARG(say_str(show_gpu_name(c->device))),
               c->standin.len ? _(" (fake)") : "");
    if (!c->is_of_runs) buf_format(out, _(", %td pairs"), c->pairs);
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
    show_text(out, style, SHOW_DIM, say_str(compare_price(c)));
    buf_byte(out, '\n');
}

void compare_print(struct compare *c) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(c->arena);
    struct show_table table = compare_table(c);
    struct str_list sentences = compare_sentences(c);
    add_title(c, style, &out);
    show_table_text(&table, style, &out);
    buf_byte(&out, '\n');
    for (ptrdiff_t i = 0; i < sentences.count; i++) {
        show_prose(&out, style, SHOW_PLAIN, sentences.items[i], 0, 2);
    }
    add_cost(c, style, &out);
    if (c->notes.count > 0) buf_byte(&out, '\n');
    answer_notes(&c->notes, style, &out);
    out_buf(stdout, &out);
}
