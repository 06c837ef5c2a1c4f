// SPDX-License-Identifier: Apache-2.0
// Measured rates as a table, in the document of check, and on their way from the process that
// measured.
#include "verbs/check/check.h"

#include "view/show/show.h"

#include <math.h>

// --- Between the processes -----------------------------------------------------------------------

#define AT(member) offsetof(struct microbench_figure, member)
static const struct field figure_fields[] = {
    {"value", FIELD_REAL, AT(median), NULL},
    {"low", FIELD_REAL, AT(low), NULL},
    {"high", FIELD_REAL, AT(high), NULL},
    {"variation", FIELD_REAL, AT(variation), NULL},
    {"runs", FIELD_INT, AT(count), NULL},
    {"how", FIELD_TEXT, AT(how), NULL},
    {"why", FIELD_TEXT, AT(why), NULL},
    {"standin", FIELD_TEXT, AT(standin), NULL},
    {.name = NULL},
};

json_t *check_figure_json(const struct microbench_figure *f) {
    json_t *line =
        json_pack("{s:s, s:s}", "id", f->measure->id, "state", microbench_state_name(f->state));
    json_add_fields(line, f, figure_fields);
    return line;
}

void check_figure_read(struct arena *a, const json_t *line, struct microbench_figure *ret_figure) {
    struct str state = json_text_at(a, line, "state");
    *ret_figure =
        (struct microbench_figure){.measure = microbench_find(json_text_at(a, line, "id"))};
    json_read_fields(a, line, ret_figure, figure_fields);
    for (int s = MICROBENCH_UNKNOWN; s <= MICROBENCH_WRONG; s++) {
        if (str_is(state, microbench_state_name(s))) ret_figure->state = s;
    }
}

// --- The table -----------------------------------------------------------------------------------

static const struct finding *finding_of(const struct check *c, const struct rules_microbench *r) {
    for (ptrdiff_t i = 0; i < c->findings.count; i++) {
        const struct finding *f = &c->findings.items[i];
        if (f->card == r->card && str_is(str_of(f->id), r->figure.measure->id)) return f;
    }
    return NULL;
}

static enum show_tone tone_of(const struct finding *f) {
    static const enum show_tone tones[] = {SHOW_GOOD, SHOW_PLAIN, SHOW_DIM, SHOW_WARN, SHOW_BAD};
    return f ? tones[f->severity] : SHOW_PLAIN;
}

static struct str range_text(struct arena *a, const struct rules_microbench *r) {
    enum microbench_unit unit = r->figure.measure->unit;
    const double rate = r->figure.median;
    if (isnan(r->range.low)) return (struct str){0};
    return str_format(a, "%s%.*s to %.*s",
                      rate < r->range.low    ? "below "
                      : rate > r->range.high ? "above "
                                             : "",
                      STR_ARG(microbench_text(a, unit, r->range.low)),
                      STR_ARG(microbench_text(a, unit, r->range.high)));
}

static void add_row(const struct check *c, struct show_table *t, const struct rules_microbench *r) {
    const struct microbench_figure *f = &r->figure;
    struct arena *a = c->arena;
    enum show_tone tone = tone_of(finding_of(c, r));
    bool is_measured = f->state == MICROBENCH_MEASURED;
    show_table_cell(t, SHOW_PLAIN,
                    r->card < 0 ? STR("CPU")
                                : str_format(a, "GPU %d", c->facts.devices.cards[r->card].index));
    show_table_cell(t, SHOW_STRONG, str_of(f->measure->what));
    show_table_known(t, tone, microbench_text(a, f->measure->unit, f->median));
    show_table_known(t, SHOW_PLAIN,
                     isnan(f->variation) ? (struct str){0}
                                         : str_format(a, "%.1f %%", 100 * f->variation));
    show_table_known(t, SHOW_PLAIN, range_text(a, r));
    show_table_known(t, SHOW_DIM, isnan(r->range.low) ? r->range.why_none : r->range.of);
    show_table_known(t, is_measured ? SHOW_DIM : tone, is_measured ? f->how : f->why);
}

void check_microbench_show(const struct check *c, struct show_style style, struct buf *out) {
    struct show_table t = show_table_new(c->arena, STR("Measured"));
    if (c->rates.count == 0) return;
    show_table_column(&t, "about", SHOW_LEFT);
    show_table_column(&t, "what", SHOW_LEFT);
    show_table_column(&t, "rate", SHOW_RIGHT);
    show_table_column(&t, "variation", SHOW_RIGHT);
    show_table_column(&t, "expected", SHOW_RIGHT);
    show_table_wrapping(&t, "reference");
    show_table_wrapping(&t, "how");
    for (ptrdiff_t i = 0; i < c->rates.count; i++) add_row(c, &t, &c->rates.items[i]);
    show_table_text(&t, style, out);
    buf_byte(out, '\n');
}

// --- The document --------------------------------------------------------------------------------

static json_t *rate_json(const struct check *c, const struct rules_microbench *r) {
    const struct finding *f = finding_of(c, r);
    const struct microbench_range *g = &r->range;
    json_t *document = check_figure_json(&r->figure);
    json_t *range =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "low", json_number(g->low), "high",
                  json_number(g->high), "floor", json_number(g->floor), "of", json_text(g->of),
                  "source", json_text(g->source), "why_none", json_text(g->why_none));
    json_object_set_new(document, "what", json_string(r->figure.measure->what));
    json_object_set_new(
        document, "unit",
        json_string(r->figure.measure->unit == MICROBENCH_BYTES_S ? "bytes/s" : "FLOP/s"));
    json_object_set_new(document, "card",
                        r->card < 0 ? json_null()
                                    : json_integer(c->facts.devices.cards[r->card].index));
    json_object_set_new(document, "severity",
                        f ? json_string(finding_severity_name(f->severity)) : json_null());
    json_object_set_new(document, "range", range);
    return document;
}

json_t *check_microbench_json(const struct check *c) {
    json_t *rates = json_array();
    for (ptrdiff_t i = 0; i < c->rates.count; i++) {
        json_array_append_new(rates, rate_json(c, &c->rates.items[i]));
    }
    return rates;
}
