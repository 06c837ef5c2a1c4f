// SPDX-License-Identifier: Apache-2.0
// The answer of a benchmark as files: CSV for a spreadsheet, JSON, a picture, and a page with all
// of it. The pictures show throughput and memory over the batch, a line for each combination of the
// rest; of many combinations the fastest ten, which are all that colours tell apart.
#include "job/grid/grid.h"

#include "view/html/html.h"

#include <math.h>
#include <stdlib.h>

// --- CSV -----------------------------------------------------------------------------------------

static void add_number(struct show_table *t, double value) {
    show_table_cell(t, SHOW_PLAIN, isnan(value) ? STR("") : str_format(t->arena, "%.10g", value));
}

static void add_count(struct show_table *t, int64_t value, int64_t least) {
    show_table_cell(t, SHOW_PLAIN,
                    value < least ? STR("") : str_format(t->arena, "%lld", (long long)value));
}

static void add_names(struct show_table *t, const char *const *names) {
    for (; *names; names++) show_table_column(t, *names, SHOW_LEFT);
}

static void add_head(struct grid *b, struct show_table *t) {
    static const char *const before[] = {"batch_size", "workers", "precision",
                                         "pin_memory", "compile", NULL};
    static const char *const after[] = {"samples_per_s",
                                        "samples_per_s_low",
                                        "samples_per_s_high",
                                        "gpu_percent",
                                        "memory_bytes",
                                        "steps",
                                        NULL};
    static const char *const of_inference[] = {"median_ms", "p99_ms",   "max_abs", "mean_abs",
                                               "max_rel",   "mean_rel", "top1",    NULL};
    add_names(t, before);
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        show_table_column(t, str_z(b->arena, b->grid.axes[i].name), SHOW_LEFT);
    }
    show_table_column(t, "status", SHOW_LEFT);
    for (int i = 0; i < STEP_TIME_COUNT; i++) show_table_column(t, step_time_keys[i], SHOW_LEFT);
    add_names(t, after);
    if (b->is_inference) add_names(t, of_inference);
    show_table_column(t, "reason", SHOW_LEFT);
}

static void add_inference(struct show_table *t, const struct grid_row *r) {
    const struct steps_outputs *o = &r->outputs;
    const double differences[] = {o->max_abs, o->mean_abs, o->max_rel, o->mean_rel, o->top1};
    add_number(t, grid_batch_ms(r, 0.5));
    add_number(t, grid_p99_ms(r));
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        add_number(t, o->is_said ? differences[i] : (double)NAN);
    }
}

static void add_row(const struct grid *b, struct show_table *t, const struct grid_row *r) {
    const struct grid_setting *s = &r->setting;
    add_count(t, grid_batch_of(r), 1);
    add_count(t, s->workers, 0);
    show_table_cell(t, SHOW_PLAIN, str_of(s->precision ? plan_precision_name(s->precision) : ""));
    add_count(t, s->pin_memory, 0);
    add_count(t, s->compile, 0);
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) show_table_cell(t, SHOW_PLAIN, s->axes[i]);
    show_table_cell(t, SHOW_PLAIN, str_of(grid_status_name(r->status)));
    for (int i = 0; i < STEP_TIME_COUNT; i++) add_number(t, r->times.ms[i]);
    add_number(t, r->samples_per_s);
    add_number(t, r->samples_per_s_ci.low);
    add_number(t, r->samples_per_s_ci.high);
    add_number(t, 100 * r->device_share);
    add_count(t, r->peak_bytes, 1);
    add_count(t, r->steps, 0);
    if (b->is_inference) add_inference(t, r);
    show_table_cell(t, SHOW_PLAIN, r->reason);
}

static struct str csv_text(void *context) {
    struct grid *b = context;
    struct buf out = buf_new(b->arena);
    struct show_table t = show_table_new(b->arena, (struct str){0});
    add_head(b, &t);
    for (ptrdiff_t i = 0; i < b->rows.count; i++) add_row(b, &t, &b->rows.items[i]);
    show_table_csv(&t, &out);
    return buf_str(&out);
}

static struct str json_text_of(void *context) {
    struct grid *b = context;
    return json_document(b->arena, bench_json(b));
}

// --- Pictures ------------------------------------------------------------------------------------

struct line {
    ptrdiff_t combination;
    const struct grid_row *first;
    double best; // throughput
    double *throughput, *memory;
};
struct lines {
    struct line *items;
    ptrdiff_t count, capacity;
    struct grid_numbers batches;
};

static double *unknown_values(struct arena *a, ptrdiff_t count) {
    double *values = arena_new(a, double, count + 1);
    for (ptrdiff_t i = 0; i < count; i++) values[i] = (double)NAN;
    return values;
}

static struct line *line_of(struct grid *b, struct lines *lines, const struct grid_row *r) {
    for (ptrdiff_t i = 0; i < lines->count; i++) {
        if (lines->items[i].combination == r->setting.combination) return &lines->items[i];
    }
    struct line *line = arena_push(b->arena, &lines->items, &lines->count, &lines->capacity);
    *line =
        (struct line){r->setting.combination, r, 0, unknown_values(b->arena, lines->batches.count),
                      unknown_values(b->arena, lines->batches.count)};
    return line;
}

static bool is_drawn(const struct grid_row *r) {
    return (r->status == LAUNCH_OK || r->status == LAUNCH_SPILLS) && r->sample_count > 0;
}

static int fastest_first(const void *a, const void *b) {
    double x = ((const struct line *)a)->best, y = ((const struct line *)b)->best;
    return (x < y) - (x > y);
}

static struct lines lines_of(struct grid *b) {
    struct lines lines = {0};
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        const struct grid_row *r = &b->rows.items[i];
        if (is_drawn(r)) grid_add_number(b->arena, &lines.batches, grid_batch_of(r));
    }
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        const struct grid_row *r = &b->rows.items[i];
        if (!is_drawn(r)) continue;
        struct line *line = line_of(b, &lines, r);
        ptrdiff_t at = 0;
        while (lines.batches.items[at] != grid_batch_of(r)) at++;
        line->throughput[at] = r->samples_per_s;
        if (r->peak_bytes > 0) line->memory[at] = (double)r->peak_bytes;
        line->best = fmax(line->best, r->samples_per_s);
    }
    if (lines.count > 1) {
        qsort(lines.items, (size_t)lines.count, sizeof *lines.items, fastest_first);
    }
    return lines;
}

enum { CHARTS = 2 };

static void charts_of(struct grid *b, struct chart *charts) {
    struct lines lines = lines_of(b);
    int count = lines.count < CHART_SERIES_MAX ? (int)lines.count : CHART_SERIES_MAX;
    struct chart_series *speeds = arena_new(b->arena, struct chart_series, count + 1);
    struct chart_series *bytes = arena_new(b->arena, struct chart_series, count + 1);
    struct str *names = arena_new(b->arena, struct str, lines.batches.count + 1);
    for (int i = 0; i < count; i++) {
        const struct line *line = &lines.items[i];
        struct str name = grid_setting_text(b->arena, &b->grid, &line->first->setting, false);
        speeds[i] = (struct chart_series){name, line->throughput};
        bytes[i] = (struct chart_series){name, line->memory};
    }
    for (ptrdiff_t i = 0; i < lines.batches.count; i++) {
        names[i] = str_format(b->arena, "%lld", (long long)lines.batches.items[i]);
    }
    const struct chart common = {.kind = CHART_LINES,
                                 .x_name = STR("batch"),
                                 .x_texts = names,
                                 .point_count = lines.batches.count,
                                 .series_count = count,
                                 .limit = (double)NAN,
                                 .budget = (double)NAN};
    charts[0] = charts[1] = common;
    charts[0].title = STR("Throughput by batch size");
    charts[0].y_name = STR("samples/s");
    charts[0].series = speeds;
    charts[1].title = STR("Peak memory by batch size");
    charts[1].unit = CHART_BYTES;
    charts[1].y_name = STR("memory");
    charts[1].series = bytes;
    if (b->place->capacity_bytes > 0) {
        charts[1].limit = (double)b->place->capacity_bytes;
        charts[1].limit_name = STR("all there is");
    }
}

static struct str svg_text(void *context) {
    struct grid *b = context;
    struct chart charts[CHARTS];
    struct buf out = buf_new(b->arena);
    charts_of(b, charts);
    chart_picture(charts, CHARTS, b->arena, &out);
    return buf_str(&out);
}

// --- The page ------------------------------------------------------------------------------------

static struct html_figure figure_of(struct grid *b, const char *name, ptrdiff_t row,
                                    enum show_tone tone) {
    const struct grid_row *r = &b->rows.items[row];
    return (struct html_figure){str_of(name),
                                str_format(b->arena, "%.1f samples/s", r->samples_per_s),
                                grid_setting_text(b->arena, &b->grid, &r->setting, true), tone};
}

static void add_best(struct grid *b, struct buf *page) {
    if (b->best.throughput < 0) {
        html_verdict(page, SHOW_BAD, STR("nothing ran"), b->reason);
        return;
    }
    const struct grid_row *efficient =
        b->best.efficiency >= 0 ? &b->rows.items[b->best.efficiency] : NULL;
    struct html_figure figures[3];
    int count = 0;
    figures[count++] = figure_of(b, b->is_inference ? "recommended" : "recommended for training",
                                 b->best.recommended, SHOW_GOOD);
    figures[count++] = figure_of(b, "highest throughput", b->best.throughput, SHOW_PLAIN);
    if (efficient) {
        figures[count] = figure_of(b, "best efficiency", b->best.efficiency, SHOW_PLAIN);
        figures[count++].value =
            str_format(b->arena, "%.1f samples/s/GB", grid_efficiency(efficient));
    }
    html_figures(page, figures, count);
}

static void add_findings(struct grid *b, struct buf *page) {
    if (b->findings.count == 0) return;
    html_section(page,
                 b->is_inference ? STR("Findings") : STR("What limits the recommended setting"));
    for (ptrdiff_t i = 0; i < b->findings.count; i++) {
        const struct grid_finding *f = &b->findings.items[i];
        html_paragraph(
            page, f->level == GRID_WARNING ? SHOW_WARN : SHOW_PLAIN,
            str_format(b->arena, "%s: %.*s. Try %s.", f->what, STR_ARG(f->evidence), f->remedy));
    }
}

static struct str html_text(void *context) {
    struct grid *b = context;
    struct chart charts[CHARTS];
    struct buf page = buf_new(b->arena);
    struct show_table table = bench_table(b);
    charts_of(b, charts);
    html_open(&page, str_format(b->arena, "Benchmark on %.*s", STR_ARG(b->place->name)), b->title);
    if (b->place->standin.len > 0) html_paragraph(&page, SHOW_WARN, b->place->standin);
    add_best(b, &page);
    for (int i = 0; i < CHARTS; i++) html_chart(&page, &charts[i], b->arena);
    html_table(&page, &table);
    add_findings(b, &page);
    html_notes(&page, &b->notes);
    html_close(&page, STR("batchfit " BATCHFIT_VERSION));
    return buf_str(&page);
}

const struct show_report_kind bench_files[] = {
    {.suffix = ".csv", .text = csv_text},
    {.suffix = ".json", .text = json_text_of},
    {.suffix = ".svg", .text = svg_text},
    {.suffix = ".html", .text = html_text},
    {.suffix = NULL},
};
