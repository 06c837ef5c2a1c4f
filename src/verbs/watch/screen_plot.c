// SPDX-License-Identifier: Apache-2.0
// History plots: one strip a figure, so that they are told apart without colours. One column shows
// a fixed stretch of time that begins at a multiple of its length: what is drawn moves to the left
// and never changes its shape.
#include "base/say.h"
#include "base/unit.h"
#include "verbs/watch/watch.h"

#include <math.h>

enum { LABEL = 8, VALUE = 8, DOTS_MAX = 1024, STRIP_LEAST = 2, PLOT_COLUMNS = 56 };

static double utilisation_of(const struct device_gauges *g) {
    return g->utilisation;
}
static double memory_of(const struct device_gauges *g) {
    return unit_share(g->used_bytes, g->total_bytes);
}
static double power_of(const struct device_gauges *g) {
    return g->power_watts / g->power_limit_watts;
}
static double heat_of(const struct device_gauges *g) {
    return g->temperature_celsius;
}
static double clock_of(const struct device_gauges *g) {
    return g->sm_clock_mhz;
}
static double traffic_of(const struct device_gauges *g) {
    return g->memory_utilisation;
}

static double whole(const struct device_card *card) {
    (void)card;
    return 1;
}
static double hundred(const struct device_card *card) {
    return card->facts.shutdown_celsius > 0 ? card->facts.shutdown_celsius : 100;
}
static double clock_max(const struct device_card *card) {
    return card->facts.sm_clock_max_mhz > 0 ? card->facts.sm_clock_max_mhz : 3000;
}

static struct str megahertz(struct watch_draw *d, double v) {
    return isnan(v) ? STR("–") : str_format(d->scratch, "%.0f", v);
}

static const struct {
    const char *label;
    int ink;
    double (*of)(const struct device_gauges *);
    double (*most)(const struct device_card *);
    struct str (*text)(struct watch_draw *, double);
} figures[WATCH_FIGURES] = {
    {"gpu", TUI_INK_D, utilisation_of, whole, watch_text_percent},
    {"memory", TUI_INK_A, memory_of, whole, watch_text_percent},
    {"power", TUI_INK_B, power_of, whole, watch_text_percent},
    {"heat", TUI_INK_E, heat_of, hundred, watch_text_temperature},
    {"MHz", TUI_INK_C, clock_of, clock_max, megahertz},
    {"traffic", TUI_INK_C, traffic_of, whole, watch_text_percent},
};

int watch_plot_count(const struct watch_settings *settings) {
    int count = 0;
    for (int i = 0; i < WATCH_FIGURES; i++) count += settings->plots[i] != 0;
    return count;
}

// One value a dot, oldest first: the mean of the readings in its stretch of time. A stretch without
// a reading keeps the value before, unless that is old.
static void gather(const struct observe_card *card, int figure, int64_t step_ns, double *values,
                   int count) {
    for (int i = 0; i < count; i++) values[i] = (double)NAN;
    if (card->history_count == 0) return;
    int64_t last = card->history[card->history_count - 1].at_ns / step_ns;
    ptrdiff_t at = card->history_count - 1;
    for (int dot = count - 1; dot >= 0 && at >= 0; dot--) {
        int64_t bucket = last - (count - 1 - dot);
        double sum = 0;
        int n = 0;
        for (; at >= 0 && card->history[at].at_ns / step_ns >= bucket; at--) {
            double value = figures[figure].of(&card->history[at]);
            if (isnan(value)) continue;
            sum += value;
            n++;
        }
        bool is_held = n == 0 && at >= 0 && bucket - card->history[at].at_ns / step_ns <= 2;
        values[dot] = n ? sum / n : is_held ? figures[figure].of(&card->history[at]) : (double)NAN;
    }
}

// The time of one dot: of one reading, on the clock of the view.
static int64_t step_of(const struct watch_look *look) {
    double speed = look->machine && look->speed > 0 ? look->speed : 1;
    return (int64_t)(look->interval_ms * speed * 1e6);
}

static void draw_strip(struct watch_draw *d, struct tui_area area, int place, int figure) {
    static double values[DOTS_MAX];
    const struct device_card *card = &d->view->devices->cards[place];
    const struct observe_card *watched = &d->view->cards[place];
    tui_put(area, 0, 1, figures[figure].ink, str_of(figures[figure].label));
    double now = watched->history_count > 0 ? figures[figure].of(&card->now) : (double)NAN;
    tui_put_field(area, area.rows - 1, area.columns - VALUE, VALUE, SHOW_RIGHT, figures[figure].ink,
                  figures[figure].text(d, now));
    struct tui_area plot = area;
    tui_area_left(&plot, LABEL);
    plot.columns -= VALUE;
    int dots = tui_plot_dots(area.canvas, (enum tui_plot_kind)d->look->settings.plot_kind);
    if (plot.columns < 1 || plot.columns * dots > DOTS_MAX) return;
    gather(watched, figure, step_of(d->look), values, plot.columns * dots);
    tui_plot(plot, (enum tui_plot_kind)d->look->settings.plot_kind, figures[figure].ink, values,
             figures[figure].most(card));
}

static void draw_card(struct watch_draw *d, struct tui_area area, int place) {
    int wanted = watch_plot_count(&d->look->settings), room = area.rows / STRIP_LEAST;
    int strips = wanted < room ? wanted : room;
    if (strips == 0) return;
    int drawn = 0;
    for (int i = 0; i < WATCH_FIGURES && drawn < strips; i++) {
        if (!d->look->settings.plots[i]) continue;
        struct tui_area strip = tui_area_top(&area, area.rows / (strips - drawn));
        draw_strip(d, strip, place, i);
        drawn++;
    }
}

// "─ GPU 0 ─────────"
static void draw_rule(struct watch_draw *d, struct tui_area area, int place) {
    for (int i = 0; i < area.columns - 1; i++) tui_put(area, 0, i, SHOW_DIM, STR("─"));
    const struct device_card *card = &d->view->devices->cards[place];
    int at = tui_put_format(area, 0, 2, SHOW_DIM, " GPU %d ", card->index);
    int dots = tui_plot_dots(area.canvas, (enum tui_plot_kind)d->look->settings.plot_kind);
    int64_t shown = (int64_t)(area.columns - LABEL - VALUE) * dots * step_of(d->look);
    struct str span = watch_text_span(d, shown);
    if (area.columns > at + 20) {
        tui_put_format(area, 0, at, SHOW_DIM, _("─ last %.*s "), STR_ARG(span));
    }
}

// GPUs beside one another, and in rows of them where each figure has some rows left.
enum { CARD_ROWS_EACH = 4 };
static int plot_lines(const struct watch_draw *d, int rows, int cards, int beside) {
    int each = 1 + CARD_ROWS_EACH * watch_plot_count(&d->look->settings);
    int lines = rows / each, most = (cards + beside - 1) / beside;
    return lines < 1 ? 1 : lines < most ? lines : most;
}

void watch_draw_plots(struct watch_draw *d, struct tui_area area) {
    int count = d->view->devices->count, room = area.columns / PLOT_COLUMNS;
    int beside = room < 1 ? 1 : room < count ? room : count;
    if (count == 0 || area.rows < STRIP_LEAST) return;
    bool has_rule = area.rows > STRIP_LEAST;
    int lines = plot_lines(d, area.rows, count, beside), shown = beside * lines;
    if (shown > count) shown = count;
    int first = d->look->card / shown * shown, width = area.columns / beside;
    if (first + shown > count) first = count - shown;
    for (int i = 0; i < shown; i += beside) {
        struct tui_area line = tui_area_top(&area, area.rows / (lines - i / beside));
        for (int j = i; j < i + beside && j < shown; j++) {
            struct tui_area one = j + 1 < i + beside ? tui_area_left(&line, width) : line;
            if (has_rule) draw_rule(d, tui_area_top(&one, 1), first + j);
            draw_card(d, one, first + j);
        }
    }
}
