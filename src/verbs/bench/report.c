// SPDX-License-Identifier: Apache-2.0
// The answer of a benchmark as people read it and as JSON: the table, the best settings, what holds
// the recommended one back.
#include "job/grid/grid.h"

#include "base/out.h"
#include "base/say.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const double gb = 1e9;

// --- The table -----------------------------------------------------------------------------------

// A column is shown when what it says is varied or known.
struct column {
    const char *name;
    bool (*is_shown)(const struct grid *b); // NULL: always
    void (*cell)(struct show_table *t, const struct grid_row *r);
    enum show_align align;
    // Or a figure, where there is no cell:
    double (*figure)(const struct grid_row *r); // NaN: unknown
    int decimals;
    enum show_tone tone; // BAD: where the outputs differ
};

static bool has_precisions(const struct grid *b) {
    return b->grid.precisions.count > 0;
}
static bool says_amp(const struct grid *b) {
    return has_precisions(b) && b->grid.by_amp;
}
static bool says_precision(const struct grid *b) {
    return has_precisions(b) && !b->grid.by_amp;
}
static bool has_workers(const struct grid *b) {
    return b->grid.workers.count > 0;
}
static bool varies_pins(const struct grid *b) {
    return b->grid.pins.count > 1;
}
static bool varies_compile(const struct grid *b) {
    return b->grid.compiles.count > 1;
}

static bool trains(const struct grid *b) {
    return !b->is_inference;
}
static bool infers(const struct grid *b) {
    return b->is_inference;
}

static void cell_batch(struct show_table *t, const struct grid_row *r) {
    int64_t batch = grid_batch_of(r);
    if (batch > 0)
        show_table_format(t, SHOW_STRONG, "%lld", (long long)batch);
    else
        show_table_unknown(t);
}

static void cell_workers(struct show_table *t, const struct grid_row *r) {
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)r->setting.workers);
}

static void cell_yes(struct show_table *t, bool yes) {
    show_table_cell(t, SHOW_PLAIN, yes ? STR("Yes") : STR("No"));
}

static void cell_amp(struct show_table *t, const struct grid_row *r) {
    cell_yes(t, r->setting.precision != PLAN_FP32);
}

static void cell_precision(struct show_table *t, const struct grid_row *r) {
    show_table_cell(t, SHOW_PLAIN, str_of(plan_precision_name(r->setting.precision)));
}

static void cell_pin(struct show_table *t, const struct grid_row *r) {
    cell_yes(t, r->setting.pin_memory > 0);
}

static void cell_compile(struct show_table *t, const struct grid_row *r) {
    cell_yes(t, r->setting.compile > 0);
}

#define FIGURE(name, value)                                 \
    static double figure_##name(const struct grid_row *r) { \
        return value;                                       \
    }
FIGURE(io, r->times.io_ms)
FIGURE(forward, r->times.forward_ms)
FIGURE(backward, r->times.backward_ms)
FIGURE(optimizer, r->times.optimizer_ms)
// The rest of the step: with it the columns add up to the total.
FIGURE(other, r->times.other_ms + (isnan(r->times.h2d_ms) ? 0 : r->times.h2d_ms))
FIGURE(total, r->times.total_ms)
FIGURE(median, grid_batch_ms(r, 0.5))
FIGURE(median_spread, (grid_median_ms(r).high - grid_median_ms(r).low) / 2)
FIGURE(throughput, r->samples_per_s)
FIGURE(spread, (r->samples_per_s_ci.high - r->samples_per_s_ci.low) / 2)
FIGURE(device, 100 * r->device_share)
FIGURE(memory, r->peak_bytes > 0 ? (double)r->peak_bytes / gb : (double)NAN)
FIGURE(off, r->outputs.is_said ? r->outputs.max_rel : (double)NAN)
FIGURE(mean_off, r->outputs.is_said ? r->outputs.mean_rel : (double)NAN)
FIGURE(top1, r->outputs.is_said ? 100 * r->outputs.top1 : (double)NAN)
#undef FIGURE

enum { EXPONENT = -1 }; // instead of decimals: 1.2e-03

static void cell_figure(const struct column *c, struct show_table *t, const struct grid_row *r) {
    double value = r->sample_count > 0 ? c->figure(r) : 0;
    bool is_right = c->tone == SHOW_BAD && r->status != GRID_DIFFERS;
    enum show_tone tone = is_right ? SHOW_PLAIN : c->tone;
    // What ran out of memory has no figures: its cells stay empty, as in the scripts' tables.
    if (r->sample_count == 0)
        show_table_cell(t, SHOW_DIM, STR(""));
    else if (isnan(value))
        show_table_unknown(t);
    else if (c->decimals == EXPONENT)
        show_table_format(t, tone, "%.1e", value);
    else
        show_table_format(t, tone, "%.*f", c->decimals, value);
}

static void cell_status(struct show_table *t, const struct grid_row *r) {
    if (r->status == LAUNCH_OK && r->is_almost_out) {
        show_table_cell(t, SHOW_WARN, STR("OK, almost OOM"));
        return;
    }
    show_table_cell(t, r->status == LAUNCH_OK ? SHOW_GOOD : SHOW_BAD,
                    str_of(grid_status_name(r->status)));
}

static const struct column settings_columns[] = {
    {"Batch", NULL, cell_batch, SHOW_RIGHT, NULL, 0, SHOW_PLAIN},
    {"Workers", has_workers, cell_workers, SHOW_RIGHT, NULL, 0, SHOW_PLAIN},
    {"AMP", says_amp, cell_amp, SHOW_RIGHT, NULL, 0, SHOW_PLAIN},
    {"Precision", says_precision, cell_precision, SHOW_LEFT, NULL, 0, SHOW_PLAIN},
    {"Pin", varies_pins, cell_pin, SHOW_RIGHT, NULL, 0, SHOW_PLAIN},
    {"Compile", varies_compile, cell_compile, SHOW_RIGHT, NULL, 0, SHOW_PLAIN},
    {.name = NULL},
};
static const struct column figure_columns[] = {
    {"I/O(ms)", trains, NULL, SHOW_RIGHT, figure_io, 2, SHOW_PLAIN},
    {"Fwd(ms)", trains, NULL, SHOW_RIGHT, figure_forward, 2, SHOW_PLAIN},
    {"Bwd(ms)", trains, NULL, SHOW_RIGHT, figure_backward, 2, SHOW_PLAIN},
    {"Opt(ms)", trains, NULL, SHOW_RIGHT, figure_optimizer, 2, SHOW_PLAIN},
    {"Other(ms)", trains, NULL, SHOW_RIGHT, figure_other, 2, SHOW_PLAIN},
    {"Total(ms)", trains, NULL, SHOW_RIGHT, figure_total, 2, SHOW_PLAIN},
    {"Median(ms)", infers, NULL, SHOW_RIGHT, figure_median, 2, SHOW_PLAIN},
    {"±95%(ms)", infers, NULL, SHOW_RIGHT, figure_median_spread, 2, SHOW_PLAIN},
    {"Samples/s", NULL, NULL, SHOW_RIGHT, figure_throughput, 1, SHOW_STRONG},
    {"±95%(samples/s)", NULL, NULL, SHOW_RIGHT, figure_spread, 1, SHOW_DIM},
    {"GPU%", NULL, NULL, SHOW_RIGHT, figure_device, 1, SHOW_PLAIN},
    {"Mem(GB)", NULL, NULL, SHOW_RIGHT, figure_memory, 2, SHOW_PLAIN},
    {"Off(max)", infers, NULL, SHOW_RIGHT, figure_off, EXPONENT, SHOW_BAD},
    {"Off(mean)", infers, NULL, SHOW_RIGHT, figure_mean_off, EXPONENT, SHOW_BAD},
    {"Top1%", infers, NULL, SHOW_RIGHT, figure_top1, 0, SHOW_BAD},
    {"Status", NULL, cell_status, SHOW_LEFT, NULL, 0, SHOW_PLAIN},
    {.name = NULL},
};

static void add_columns(const struct grid *b, struct show_table *t, const struct column *columns) {
    for (const struct column *c = columns; c->name; c++) {
        if (!c->is_shown || c->is_shown(b)) show_table_column(t, c->name, c->align);
    }
}

static void add_cells(const struct grid *b, struct show_table *t, const struct column *columns,
                      const struct grid_row *r) {
    for (const struct column *c = columns; c->name; c++) {
        if (c->is_shown && !c->is_shown(b)) continue;
        if (c->figure)
            cell_figure(c, t, r);
        else
            c->cell(t, r);
    }
}

struct show_table bench_table(struct grid *b) {
    struct show_table t = show_table_new(b->arena, (struct str){0});
    add_columns(b, &t, settings_columns);
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        show_table_column(&t, str_z(b->arena, b->grid.axes[i].name), SHOW_RIGHT);
    }
    add_columns(b, &t, figure_columns);
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        const struct grid_row *r = &b->rows.items[i];
        add_cells(b, &t, settings_columns, r);
        for (ptrdiff_t j = 0; j < b->grid.axis_count; j++) {
            show_table_cell(&t, SHOW_PLAIN, r->setting.axes[j]);
        }
        add_cells(b, &t, figure_columns, r);
    }
    return t;
}

// --- The best ------------------------------------------------------------------------------------

enum { NAME_COLUMNS = 17 };
// "  Batch Size:      64"
__attribute__((format(printf, 3, 4))) static void add_line(struct buf *out, const char *name,
                                                           const char *format, ...) {
    va_list list;
    char text[300];
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    struct str own = str_of(say(name));
    buf_format(out, "  %.*s%*s%.*s\n", STR_ARG(own), NAME_COLUMNS - show_width(own), "",
               STR_ARG(say_str(str_of(text))));
}

static void add_setting(struct grid *b, const struct grid_row *r, struct buf *out) {
    const struct grid_setting *s = &r->setting;
    int64_t batch = grid_batch_of(r);
    if (batch > 0) add_line(out, "Batch Size:", "%lld", (long long)batch);
    if (s->workers >= 0) add_line(out, "Workers:", "%lld", (long long)s->workers);
    if (s->precision && b->grid.by_amp) {
        bool is_on = s->precision != PLAN_FP32;
        add_line(out, "Mixed Precision:", "%s%s%s%s", is_on ? "Yes" : "No", is_on ? " (" : "",
                 is_on ? plan_precision_name(s->precision) : "", is_on ? ")" : "");
    } else if (s->precision) {
        add_line(out, "Precision:", "%s", plan_precision_name(s->precision));
    }
    if (varies_pins(b)) add_line(out, "Pin Memory:", "%s", s->pin_memory > 0 ? "Yes" : "No");
    if (varies_compile(b)) add_line(out, "Compile:", "%s", s->compile > 0 ? "Yes" : "No");
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        struct str name = str_format(b->arena, "%.*s:", STR_ARG(b->grid.axes[i].name));
        add_line(out, name.p, "%.*s",
                 STR_ARG(b->grid.axes[i].is_idle ? STR("any: no effect here") : s->axes[i]));
    }
}

static void add_throughput(const struct grid_row *r, struct buf *out) {
    add_line(out, "Throughput:", "%.1f samples/sec", r->samples_per_s);
}

static void add_memory(struct grid *b, const struct grid_row *r, bool says_safe, struct buf *out) {
    const char *name = b->place->kind == LAUNCH_CUDA ? "GPU Memory:" : "Memory:";
    double share = grid_share_of(r, b->place->capacity_bytes);
    if (r->peak_bytes <= 0) return;
    struct str of = isnan(share) ? STR("") : str_format(b->arena, ", %.0f %%", 100 * share);
    add_line(out, name, "%.2f GB%.*s%s", (double)r->peak_bytes / gb, STR_ARG(of),
             !says_safe        ? ""
             : b->best.is_safe ? " (safe)"
                               : " (more than 85 %: risky)");
}

static void add_heading(struct buf *out, struct show_style style, const char *text) {
    buf_byte(out, '\n');
    show_text(out, style, SHOW_STRONG, str_of(say(text)));
    buf_byte(out, '\n');
}

static void add_best(struct grid *b, struct show_style style, struct buf *out) {
    const struct grid_best *best = &b->best;
    const struct grid_row *rows = b->rows.items;
    if (best->throughput < 0) return;
    add_heading(out, style, "Highest throughput:");
    add_setting(b, &rows[best->throughput], out);
    add_throughput(&rows[best->throughput], out);
    add_memory(b, &rows[best->throughput], false, out);
    if (best->efficiency >= 0) {
        add_heading(out, style, "Best efficiency (samples/s/GB):");
        add_setting(b, &rows[best->efficiency], out);
        add_line(out, "Efficiency:", "%.1f samples/sec/GB",
                 grid_efficiency(&rows[best->efficiency]));
    }
    const struct grid_row *r = &rows[best->recommended];
    add_heading(out, style, b->is_inference ? "Recommended:" : "Recommended for training:");
    add_setting(b, r, out);
    add_throughput(r, out);
    add_memory(b, r, true, out);
    if (!isnan(r->device_share)) add_line(out, "GPU Util:", "%.1f%%", 100 * r->device_share);
    add_line(out, "Because:", "%s",
             !best->is_safe     ? "everything else needs more memory"
             : best->is_certain ? "the smallest batch within 2 % of the highest throughput, using "
                                  "at most 85 % of the memory"
                                : "the smallest batch that may be within 2 % of the highest "
                                  "throughput; more --steps give certainty");
}

static void add_findings(const struct grid *b, struct show_style style, struct buf *out) {
    static const enum show_tone tones[] = {[GRID_INFO] = SHOW_PLAIN, [GRID_WARNING] = SHOW_WARN};
    if (b->findings.count == 0) return;
    add_heading(out, style, b->is_inference ? "Findings:" : "What limits the recommended setting:");
    for (ptrdiff_t i = 0; i < b->findings.count; i++) {
        const struct grid_finding *f = &b->findings.items[i];
        buf_add(out, STR("  "));
        show_text(out, style, tones[f->level], str_of(say(f->what)));
        buf_format(out, _(": %.*s\n    try: %s\n"), STR_ARG(say_str(f->evidence)), say(f->remedy));
    }
}

static void add_notes(const struct grid *b, struct show_style style, struct buf *out) {
    if (b->notes.count > 0) buf_byte(out, '\n');
    answer_notes(&b->notes, style, out);
}

// Rows that failed, each reason once.
static void add_failures(const struct grid *b, struct show_style style, struct buf *out) {
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        const struct grid_row *r = &b->rows.items[i];
        bool is_told =
            r->reason.len == 0 || r->status == LAUNCH_OK || str_find(b->reason, r->reason) >= 0;
        for (ptrdiff_t j = 0; j < i; j++) {
            is_told = is_told || str_equal(b->rows.items[j].reason, r->reason);
        }
        if (is_told) continue;
        show_text(out, style, SHOW_BAD, str_of(grid_status_name(r->status)));
        buf_format(out,
                   " at %.*s: ", STR_ARG(grid_setting_text(b->arena, &b->grid, &r->setting, true)));
        show_text(out, style, SHOW_PLAIN,
                  say_str(show_first_line(b->arena, r->reason, GRID_REASON_COLUMNS)));
        buf_byte(out, '\n');
    }
}

// Without what has no effect on this device.
static struct str recommended_text(const struct grid *b, const struct grid_setting *setting) {
    struct grid_space space = b->grid;
    struct str *values = arena_new(b->arena, struct str, space.axis_count + 1);
    space.axes = arena_new(b->arena, struct grid_axis, space.axis_count + 1);
    space.axis_count = 0;
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        if (b->grid.axes[i].is_idle) continue;
        space.axes[space.axis_count] = b->grid.axes[i];
        values[space.axis_count++] = setting->axes[i];
    }
    struct grid_setting shown = *setting;
    shown.axes = values;
    return grid_setting_text(b->arena, &space, &shown, true);
}

// The answer in a sentence: what is recommended, and how fast it is.
static void add_answer(struct grid *b, struct show_style style, struct buf *out) {
    const struct grid_best *best = &b->best;
    if (best->throughput < 0) return;
    const struct grid_row *r = &b->rows.items[best->recommended];
    const struct grid_row *fastest = &b->rows.items[best->throughput];
    struct buf text = buf_new(b->arena);
    buf_format(&text, _("Best: %.*s: %.1f samples/s"),
               STR_ARG(say_str(recommended_text(b, &r->setting))), r->samples_per_s);
    if (r->peak_bytes > 0) buf_format(&text, ", %.2f GB", (double)r->peak_bytes / gb);
    if (r != fastest && fastest->samples_per_s > 0) {
        buf_format(&text, _(" (%.0f %% of the fastest)"),
                   100 * r->samples_per_s / fastest->samples_per_s);
    }
    show_prose(out, style, SHOW_STRONG, buf_str(&text), 0, 2);
}

void bench_print(struct grid *b) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(b->arena);
    const struct launch_place *place = b->place;
    static const char *const gives_way[] = {
        "Opt(ms)", "Other(ms)", "±95%(samples/s)", "I/O(ms)", "Fwd(ms)", "Bwd(ms)", "GPU%", NULL};
    struct show_table table = bench_table(b);
    show_table_gives_way(&table, gives_way);
    add_answer(b, style, &out);
    show_text(&out, style, SHOW_STRONG, str_of(_("Benchmark summary")));
    buf_format(&out, ": %.*s%s", STR_ARG(say_str(show_gpu_name(place->name))),
               place->standin.len ? _(" (fake)") : "");
    if (place->capacity_bytes > 0) {
        buf_format(&out, ", %s%s", unit_bytes(b->arena, place->capacity_bytes).p,
                   place->is_capped ? " (--memory)" : "");
    }
    buf_byte(&out, '\n');
    show_text(&out, style, SHOW_DIM, b->title);
    buf_add(&out, STR("\n\n"));
    if (b->rows.count > 0) show_table_text(&table, style, &out);
    add_failures(b, style, &out);
    add_best(b, style, &out);
    if (b->reason.len > 0) {
        buf_byte(&out, '\n');
        show_text(&out, style, SHOW_BAD,
                  say_str(show_first_line(b->arena, b->reason, GRID_REASON_COLUMNS)));
        buf_byte(&out, '\n');
    }
    add_findings(b, style, &out);
    add_notes(b, style, &out);
    out_buf(stdout, &out);
}
