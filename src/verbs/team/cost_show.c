// SPDX-License-Identifier: Apache-2.0
// How team --cost looks: the cheapest in a sentence, then a row a GPU (doc/team.md for the
// document).
#include "verbs/team/team.h"

#include "base/json.h"
#include "base/out.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

// How a figure and its range are written: both in one unit.
struct unit {
    double scale;
    const char *name; // " h"
    int decimals;     // -1: three digits
};

static struct str number(struct arena *a, double value, struct unit u) {
    if (u.decimals < 0) return str_format(a, "%.3g", value * u.scale);
    return str_format(a, "%.*f", u.decimals, value * u.scale);
}

// "12.30 USD (9.84 to 15.40)"; empty where nothing is known.
static struct str range(struct arena *a, struct team_cost_figure f, struct unit u) {
    if (isnan(f.expected)) return (struct str){0};
    struct str text = str_format(a, "%.*s%s", STR_ARG(number(a, f.expected, u)), u.name);
    if (isnan(f.low) || isnan(f.high)) return text;
    return str_format(a, "%.*s (%.*s to %.*s)", STR_ARG(text), STR_ARG(number(a, f.low, u)),
                      STR_ARG(number(a, f.high, u)));
}

static struct str money(struct arena *a, struct team_cost_figure f, const char *name) {
    return range(a, f, (struct unit){1, name, f.expected < 100 ? 2 : 0});
}

static struct str hours(struct arena *a, struct team_cost_figure f) {
    return range(a, f, f.expected < 1 ? (struct unit){60, " min", -1} : (struct unit){1, " h", -1});
}

static struct str time_text(struct arena *a, double h) {
    return hours(a, (struct team_cost_figure){h, NAN, NAN});
}

static struct str payee(const struct team_cost_row *row) {
    return row->price            ? row->price->provider
           : row->is_electricity ? STR("electricity")
                                 : (struct str){0};
}

// --- In a sentence -------------------------------------------------------------------------------

static struct str none_text(const struct team_cost *c) {
    const struct team_cost_row *fastest = NULL;
    bool fits = false, is_counted = false;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct team_cost_row *row = &c->rows[i];
        fits |= row->holds;
        is_counted |= answer_is_counted(c->q, &row->answer);
        if (isnan(row->usd.expected)) continue;
        if (!fastest || row->hours.expected < fastest->hours.expected) fastest = row;
    }
    struct arena *a = c->q->arena;
    if (!is_counted) return STR("NOT COUNTED  on any of these GPUs; batchfit fit says of each why");
    if (!fits)
        return STR("DOES NOT FIT  on any of these GPUs; batchfit explain says what would help");
    if (!fastest)
        return STR("NOT KNOWN  no GPU on which it fits has both a price and a predicted speed");
    return str_format(a, "TOO LATE  the fastest, %.*s, needs %.*s of %.*s",
                      STR_ARG(show_gpu_name(fastest->answer.card.gpu.name)),
                      STR_ARG(hours(a, fastest->hours)), STR_ARG(time_text(a, c->deadline_hours)));
}

static struct str best_text(const struct team_cost *c, const struct team_cost_options *o) {
    const struct team_cost_row *b = c->best;
    struct arena *a = c->q->arena;
    if (!b) return none_text(c);
    const char *word = b->end == TEAM_COST_IN_TIME ? "CHEAPEST" : "MAY BE LATE";
    return str_format(a, "%s  %.*s%s%.*s: %.*s%s in %.*s, batch %.*s", word,
                      STR_ARG(show_gpu_name(b->answer.card.gpu.name)), b->price ? " at " : ", ",
                      STR_ARG(payee(b)), STR_ARG(money(a, b->usd, " USD")),
                      o->samples > 0 ? "" : " a million samples", STR_ARG(hours(a, b->hours)),
                      STR_ARG(answer_batch_text(a, &b->answer.plan)));
}

// --- The table -----------------------------------------------------------------------------------

static void add_row(const struct team_cost *c, struct show_table *t,
                    const struct team_cost_row *row) {
    static const char *const ends[] = {"no", "maybe", "yes"};
    static const enum show_tone tones[] = {SHOW_BAD, SHOW_WARN, SHOW_GOOD};
    const struct answer *answer = &row->answer;
    struct arena *a = c->q->arena;
    show_table_cell(t, SHOW_STRONG, show_gpu_name(answer->card.gpu.name));
    show_table_known(t, SHOW_PLAIN, payee(row));
    if (row->holds)
        show_table_cell(t, SHOW_PLAIN, answer_batch_text(a, &answer->plan));
    else if (answer_is_counted(c->q, answer))
        show_table_cell(t, SHOW_BAD, STR("does not fit"));
    else
        show_table_cell(t, SHOW_WARN, STR("not counted"));
    bool is_fast = row->holds && answer->speed.row;
    double all = answer->speed.samples_per_s * (double)answer->plan.ranks;
    show_table_known(t, SHOW_PLAIN, is_fast ? unit_number(a, all) : (struct str){0});
    show_table_known(t, SHOW_PLAIN, hours(a, row->hours));
    show_table_known(t, SHOW_STRONG, money(a, row->usd, ""));
    show_table_known(t, SHOW_PLAIN,
                     isnan(row->kwh) ? (struct str){0} : str_format(a, "%.3g", row->kwh));
    if (!isinf(c->deadline_hours)) show_table_cell(t, tones[row->end], str_of(ends[row->end]));
    show_table_known(t, SHOW_DIM, row->price ? row->price->date : (struct str){0});
}

static void show_rows(const struct team_cost *c, struct show_style style, struct buf *out) {
    static const char *const gives_way[] = {"price of", "kWh at most", "samples/s", NULL};
    struct show_table t = show_table_new(c->q->arena, (struct str){0});
    show_table_column(&t, "GPU", SHOW_LEFT);
    show_table_column(&t, "paid to", SHOW_LEFT);
    show_table_column(&t, "batch", SHOW_RIGHT);
    show_table_column(&t, "samples/s", SHOW_RIGHT);
    show_table_column(&t, "takes", SHOW_RIGHT);
    show_table_column(&t, "USD", SHOW_RIGHT);
    show_table_column(&t, "kWh at most", SHOW_RIGHT);
    if (!isinf(c->deadline_hours)) show_table_column(&t, "in time", SHOW_LEFT);
    show_table_column(&t, "price of", SHOW_LEFT);
    show_table_gives_way(&t, gives_way);
    for (ptrdiff_t i = 0; i < c->count; i++) add_row(c, &t, &c->rows[i]);
    show_table_text(&t, style, out);
}

static void add_notes(const struct team_cost *c, const struct team_cost_options *o,
                      struct str_list *notes) {
    struct arena *a = c->q->arena;
    bool is_several = c->count > 0 && c->rows[0].answer.plan.ranks > 1;
    str_list_format(a, notes, "%s %.10g samples, by the predicted speed without loading data%s",
                    o->samples > 0 ? "the whole training:"
                                   : "for comparison, not the training's own number:",
                    c->samples, is_several ? " and between GPUs" : "");
    if (o->samples <= 0)
        str_list_add(
            a, notes,
            STR("--samples N (epochs x images or sequences) gives the cost of the whole training"));
    if (c->spot_share < 1)
        str_list_format(a, notes,
                        "spot machines: %.3g %% of the price; %.3g interruptions an hour "
                        "of %.*s each make it %.3g times as long",
                        100 * c->spot_share, c->interruptions, STR_ARG(time_text(a, c->lost_h)),
                        1 / (1 - c->interruptions * c->lost_h));
    str_list_add(
        a, notes,
        STR("prices change: each has its date; your own, in prices.local.tsv, take precedence"));
}

void team_cost_show(const struct team_cost *c, const struct team_cost_options *o) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(c->q->arena);
    struct str_list notes = {0};
    enum show_tone tone = !c->best                            ? SHOW_BAD
                          : c->best->end == TEAM_COST_IN_TIME ? SHOW_GOOD
                                                              : SHOW_WARN;
    show_prose(&out, style, tone, best_text(c, o), 0, 2);
    answer_loud_notes(&c->q->notes, style, &out);
    buf_byte(&out, '\n');
    show_rows(c, style, &out);
    buf_byte(&out, '\n');
    add_notes(c, o, &notes);
    answer_notes(&notes, style, &out);
    answer_quiet_notes(c->q->arena, &c->q->notes, style, &out);
    out_buf(stdout, &out);
}

// --- The document --------------------------------------------------------------------------------

static json_t *figure_json(struct team_cost_figure f) {
    return json_pack("{s:o, s:o, s:o}", "expected", json_number(f.expected), "low",
                     json_number(f.low), "high", json_number(f.high));
}

static json_t *row_json(const struct team_cost_row *row) {
    static const char *const ends[] = {"late", "unsure", "in_time"};
    const struct gpu_price *p = row->price;
    json_t *price = json_null();
    if (p) {
        price = json_pack("{s:o, s:f, s:o, s:o, s:o}", "provider", json_text(p->provider),
                          "usd_per_hour", p->usd_per_hour, "instance", json_text(p->instance),
                          "date", json_text(p->date), "source", json_text(p->source));
    }
    json_t *result = answer_json(&row->answer);
    json_object_set_new(result, "cost",
                        json_pack("{s:o, s:o, s:o, s:o, s:s}", "price", price, "hours",
                                  figure_json(row->hours), "usd", figure_json(row->usd), "kwh_most",
                                  json_number(row->kwh), "end", ends[row->end]));
    return result;
}

int team_cost_json(const struct team_cost *c, struct fail *why) {
    json_t *results = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++) json_array_append_new(results, row_json(&c->rows[i]));
    double deadline = isinf(c->deadline_hours) ? NAN : c->deadline_hours;
    json_t *cheapest = c->best ? json_integer(c->best - c->rows) : json_null();
    return json_print(json_pack("{s:o, s:f, s:o, s:o, s:o, s:o}", "results", results, "samples",
                                c->samples, "deadline_hours", json_number(deadline), "cheapest",
                                cheapest, "not_modelled", answer_not_modelled_json(c->q), "notes",
                                json_texts(&c->q->notes)),
                      why);
}
