// SPDX-License-Identifier: Apache-2.0
// A GPU on the screen: as a block of four or five rows, or as one line of a table with a detail
// of the chosen one below. Thresholds of utilisation and memory are nvitop's (10 and 75 %, 10 and
// 80 %); ours say that a busy GPU is good, because this is about training. Temperatures are held
// against the GPU's own threshold, else against those of all-smi's alerts (80 and 90 °C).
#include "base/unit.h"
#include "verbs/watch/watch.h"

#include "base/say.h"

#include <math.h>

#define SECOND_NS 1e9

enum { LABEL = 10, WIDE = 112, NARROW_BLOCK = 5, WIDE_BLOCK = 4 };

static const double busy_low = 0.10, busy_high = 0.75, full_high = 0.80, full_bad = 0.97;
static const double warm_usual = 80, hot_usual = 90, warm_below = 10, hot_below = 3;
static const double DAY_LEAST_S = 600;
static const double throttled_seen = 0.005, throttled_bad = 0.10;

static int busy_ink(double share) {
    if (isnan(share) || share < busy_low) return SHOW_DIM;
    return share < busy_high ? SHOW_WARN : SHOW_GOOD;
}

static int full_ink(const struct device_gauges *g) {
    double share = (double)(g->used_bytes + (g->reserved_bytes > 0 ? g->reserved_bytes : 0)) /
                   (double)g->total_bytes;
    if (g->total_bytes <= 0 || g->used_bytes < 0) return SHOW_DIM;
    return share > full_bad ? SHOW_BAD : share > full_high ? SHOW_WARN : SHOW_PLAIN;
}

static int warm_ink(const struct device_card *card) {
    double celsius = card->now.temperature_celsius, limit = card->facts.slowdown_celsius;
    double warm = isnan(limit) ? warm_usual : limit - warm_below;
    double hot = isnan(limit) ? hot_usual : limit - hot_below;
    if (isnan(celsius)) return SHOW_DIM;
    return celsius >= hot ? SHOW_BAD : celsius >= warm ? SHOW_WARN : SHOW_PLAIN;
}

static int throttled_ink(double share) {
    if (isnan(share)) return SHOW_DIM;
    return share >= throttled_bad ? SHOW_BAD : share >= throttled_seen ? SHOW_WARN : SHOW_PLAIN;
}

static bool is_fresh(const struct device_card *card) {
    return card->state == DEVICE_ANSWERS;
}

// How old the figures are, where the GPU does not answer; empty where it does.
static struct str staleness(struct watch_draw *d, const struct device_card *card) {
    if (is_fresh(card)) return STR("");
    const char *state = device_state_name(card->state);
    int64_t age = d->look->now_ns - card->now.at_ns;
    if (card->now.at_ns == 0) return str_format(d->scratch, "%s", state);
    return str_format(d->scratch, "%s · figures %.0f s old", state, (double)age / SECOND_NS);
}

static int state_ink(const struct device_card *card) {
    bool is_gone = card->state == DEVICE_LOST || card->state == DEVICE_UNREACHABLE;
    return is_gone ? SHOW_BAD : card->state == DEVICE_HANGS ? SHOW_WARN : SHOW_DIM;
}

static struct str link_text(struct watch_draw *d, const struct device_gauges *g) {
    if (g->pcie_generation < 0 || g->pcie_width < 0) return STR("");
    return str_format(d->scratch, "PCIe %lld x%lld", (long long)g->pcie_generation,
                      (long long)g->pcie_width);
}

static void put_right(struct tui_area area, int row, int *end, int ink, struct str text) {
    if (text.len == 0) return;
    int column = *end - show_width(text);
    tui_put(area, row, column, ink, text);
    *end = column - 2;
}

static void draw_title(struct watch_draw *d, struct tui_area area, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    const struct device_gauges *g = &card->now;
    bool is_chosen = place == d->look->card && d->view->devices->count > 1 && !d->look->is_once;
    tui_put(area, 0, 0, TUI_INK_A, is_chosen ? STR("▸") : STR(" "));
    int end = area.columns;
    struct str stale = staleness(d, card);
    put_right(area, 0, &end, state_ink(card), stale);
    if (g->at_ns && (stale.len == 0 || end > 70)) {
        if (!isnan(g->fan)) {
            struct str fan = watch_text_percent(d, g->fan);
            put_right(area, 0, &end, SHOW_DIM, str_format(d->scratch, _("fan %.*s"), STR_ARG(fan)));
        }
        if (!isnan(g->memory_temperature_celsius)) {
            struct str t = watch_text_temperature(d, g->memory_temperature_celsius);
            put_right(area, 0, &end, SHOW_DIM,
                      str_format(d->scratch, _("memory %.*s"), STR_ARG(t)));
        }
        if (!isnan(g->temperature_celsius)) {
            struct str t = watch_text_temperature(d, g->temperature_celsius);
            put_right(area, 0, &end, warm_ink(card), t);
        }
        put_right(area, 0, &end, SHOW_DIM, link_text(d, g));
    }
    int at = tui_put_format(area, 0, 1, SHOW_STRONG, "%d  ", card->index);
    tui_put_field(area, 0, at, end - at, SHOW_LEFT, SHOW_STRONG, str_of(card->facts.name));
}

static void meter_utilisation(const struct device_card *card, struct tui_area area, int row,
                              int column, int width) {
    double share = card->now.utilisation;
    struct tui_part part = {share, is_fresh(card) ? busy_ink(share) : SHOW_DIM};
    tui_meter(area, row, column, width, &part, 1, 1);
}

// Where the memory will be when its runs are at the peaks that were predicted; -1: not known.
static int64_t predicted_bytes(struct watch_draw *d, int place) {
    int64_t sum = 0;
    for (int i = 0; i < d->view->run_count; i++) {
        const struct observe_run *run = &d->view->runs[i];
        if (run->card != place || run->state == OBSERVE_RUN_ENDED) continue;
        if (run->predicted_peak_bytes > 0) sum += run->predicted_peak_bytes;
    }
    int64_t others = d->view->cards[place].others_bytes;
    return sum > 0 && others >= 0 && d->view->devices->cards[place].now.total_bytes > 0
               ? sum + others
               : -1;
}

// Ours, others', and what the driver keeps for itself.
static void meter_memory(struct watch_draw *d, int place, struct tui_area area, int row, int column,
                         int width) {
    const struct device_card *card = &d->view->devices->cards[place];
    const struct observe_card *watched = &d->view->cards[place];
    double used = (double)card->now.used_bytes;
    double ours = watched->ours_bytes > 0 ? (double)watched->ours_bytes : 0;
    if (ours > used) ours = used;
    struct tui_part parts[] = {
        {ours, TUI_INK_A}, {used - ours, TUI_INK_C}, {(double)card->now.reserved_bytes, TUI_INK_F}};
    for (int i = 0; i < 3 && !is_fresh(card); i++) parts[i].ink = SHOW_DIM;
    tui_meter(area, row, column, width, parts, 3, (double)card->now.total_bytes);
    int64_t predicted = predicted_bytes(d, place);
    double share = (double)predicted / (double)card->now.total_bytes;
    if (predicted < 0 || share > 1) return;
    int at = (int)lround(share * width);
    tui_put(area, row, column + (at < width ? at : width - 1), SHOW_STRONG, STR("┃"));
}

static struct str power_text(struct watch_draw *d, const struct device_gauges *g) {
    if (isnan(g->power_watts)) return STR("–");
    if (isnan(g->power_limit_watts)) return str_format(d->scratch, "%.0f W", g->power_watts);
    return str_format(d->scratch, "%.0f of %.0f W", g->power_watts, g->power_limit_watts);
}

static void draw_busy(struct watch_draw *d, struct tui_area area, const struct device_card *card) {
    int half = area.columns / 2, power_at = half + 2, bar = half - LABEL - 7;
    tui_put(area, 1, 3, SHOW_DIM, STR("util"));
    meter_utilisation(card, area, 1, LABEL, bar);
    tui_put_field(area, 1, LABEL + bar, 6, SHOW_RIGHT, busy_ink(card->now.utilisation),
                  watch_text_percent(d, card->now.utilisation));
    tui_put(area, 1, power_at, SHOW_DIM, STR("power"));
    int width = area.columns - power_at - 6 - 14;
    struct tui_part power = {card->now.power_watts, is_fresh(card) ? TUI_INK_B : SHOW_DIM};
    tui_meter(area, 1, power_at + 6, width, &power, 1, card->now.power_limit_watts);
    tui_put_field(area, 1, power_at + 6 + width, 14, SHOW_RIGHT, SHOW_PLAIN,
                  power_text(d, &card->now));
}

static void draw_memory(struct watch_draw *d, struct tui_area area, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    const struct observe_card *watched = &d->view->cards[place];
    const struct device_gauges *g = &card->now;
    int half = area.columns / 2, bar = half - LABEL - 7;
    tui_put(area, 2, 3, SHOW_DIM, STR("memory"));
    meter_memory(d, place, area, 2, LABEL, bar);
    double share = unit_share(g->used_bytes, g->total_bytes);
    tui_put_field(area, 2, LABEL + bar, 6, SHOW_RIGHT, full_ink(g), watch_text_percent(d, share));
    struct tui_area right = {area.canvas, area.row, area.column + half + 2, area.rows,
                             area.columns - half - 2};
    int at = tui_put_format(right, 2, 0, full_ink(g), "%.*s",
                            STR_ARG(watch_text_bytes(d, g->used_bytes)));
    if (g->total_bytes > 0) {
        at = tui_put_format(right, 2, at, SHOW_PLAIN, " of %.*s",
                            STR_ARG(watch_text_bytes(d, g->total_bytes)));
    }
    struct watch_flow flow = {
        .area = right, .row = 2, .column = at, .indent = at, .is_begun = true};
    flow.area.rows = 3;
    int64_t predicted = predicted_bytes(d, place);
    if (predicted > 0) {
        watch_flow_add(d, &flow, SHOW_STRONG, "┃ %.*s predicted",
                       STR_ARG(watch_text_bytes(d, predicted)));
    }
    if (watched->ours_bytes > 0) {
        watch_flow_add(d, &flow, TUI_INK_A, "%s %.*s ours", tui_meter_sign(area.canvas, 0),
                       STR_ARG(watch_text_bytes(d, watched->ours_bytes)));
        watch_flow_add(d, &flow, TUI_INK_C, "%s %.*s others", tui_meter_sign(area.canvas, 1),
                       STR_ARG(watch_text_bytes(d, watched->others_bytes)));
    }
    if (g->reserved_bytes > 0) {
        watch_flow_add(d, &flow, SHOW_DIM, "%s %.*s driver", tui_meter_sign(area.canvas, 2),
                       STR_ARG(watch_text_bytes(d, g->reserved_bytes)));
    }
    if (card->is_unified) watch_flow_add(d, &flow, SHOW_DIM, "shared with the CPU");
}

// What throttled it, the most first to be seen: " (heat 10 %, power brake 2 %)".
static struct str throttle_reasons(struct watch_draw *d, const struct observe_window *w) {
    const struct {
        const char *name;
        double share;
    } reasons[] = {{"hardware heat", w->hw_thermal_share},
                   {"heat", w->sw_thermal_share},
                   {"power brake", w->power_brake_share},
                   {"sync boost", w->sync_boost_share}};
    struct buf b = buf_new(d->scratch);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(reasons[i].share >= throttled_seen)) continue;
        buf_format(&b, "%s%s %.*s", b.count ? ", " : " (", say(reasons[i].name),
                   STR_ARG(watch_text_percent(d, reasons[i].share)));
    }
    if (b.count) buf_byte(&b, ')');
    return buf_str(&b);
}

static struct str energy_text(struct watch_draw *d, const struct observe_window *w) {
    double joules = w->energy_joules;
    if (isnan(joules)) return STR("energy –");
    const char *about = w->energy_is_integrated ? "≈" : "";
    if (joules < 1e4) return str_format(d->scratch, "%s%.0f J", about, joules);
    if (joules < 1e6) return str_format(d->scratch, "%s%.1f kJ", about, joules / 1e3);
    return str_format(d->scratch, "%s%.2f kWh", about, joules / 3.6e6);
}

static void flow_clocks(struct watch_draw *d, struct watch_flow *flow,
                        const struct device_card *card, const struct observe_window *w) {
    const struct device_gauges *g = &card->now;
    if (isnan(g->sm_clock_mhz))
        watch_flow_add(d, flow, SHOW_DIM, "clock –");
    else if (isnan(card->facts.sm_clock_max_mhz))
        watch_flow_add(d, flow, SHOW_PLAIN, "clock %.0f MHz", g->sm_clock_mhz);
    else
        watch_flow_add(d, flow, SHOW_PLAIN, "clock %.0f of %.0f MHz", g->sm_clock_mhz,
                       card->facts.sm_clock_max_mhz);
    if (w->clock_lost_share > 0.01) {
        watch_flow_add(d, flow, SHOW_DIM, "%.*s lost while busy",
                       STR_ARG(watch_text_percent(d, w->clock_lost_share)));
    }
    if (!isnan(g->memory_clock_mhz)) {
        watch_flow_add(d, flow, SHOW_DIM, "memory %.0f MHz", g->memory_clock_mhz);
    }
}

static void flow_throttle(struct watch_draw *d, struct watch_flow *flow,
                          const struct observe_card *watched) {
    const struct observe_window *w = &watched->window, *since = &watched->since;
    if (isnan(w->throttled_share))
        watch_flow_add(d, flow, SHOW_DIM, "throttled –");
    else
        watch_flow_add(d, flow, throttled_ink(w->throttled_share), "throttled %.*s of %.0f s%.*s",
                       STR_ARG(watch_text_percent(d, w->throttled_share)), w->seconds,
                       STR_ARG(throttle_reasons(d, w)));
    if (since->seconds > w->seconds + 1) {
        watch_flow_add(d, flow, throttled_ink(since->throttled_share), "%.*s since the start",
                       STR_ARG(watch_text_percent(d, since->throttled_share)));
    }
    if (w->power_cap_share >= throttled_seen) {
        watch_flow_add(d, flow, SHOW_PLAIN, "at its power limit %.*s",
                       STR_ARG(watch_text_percent(d, w->power_cap_share)));
    }
}

static struct str hours(struct watch_draw *d, double seconds) {
    if (isnan(seconds)) return STR("–");
    return seconds < 5400 ? str_format(d->scratch, "%.0f min", seconds / 60)
                          : str_format(d->scratch, "%.1f h", seconds / 3600);
}

// Of the day: what was lost, once there is enough of it to speak of.
static void flow_day(struct watch_draw *d, struct watch_flow *flow,
                     const struct observe_card *watched) {
    struct observe_day day = observe_day_of(watched);
    if (day.seconds < DAY_LEAST_S) return;
    double lost = d->view->cost_per_hour * day.idle_seconds / 3600;
    struct str cost = lost > 0 ? str_format(d->scratch, " (%.2f)", lost) : (struct str){0};
    struct str energy = isnan(day.energy_joules)
                            ? (struct str){0}
                            : str_format(d->scratch, ", %.1f kWh", day.energy_joules / 3.6e6);
    watch_flow_add(d, flow, SHOW_PLAIN, "of %.*s: idle %.*s%.*s, slowed %.*s%.*s",
                   STR_ARG(hours(d, day.seconds)), STR_ARG(hours(d, day.idle_seconds)),
                   STR_ARG(cost), STR_ARG(hours(d, day.throttled_seconds)), STR_ARG(energy));
}

static void flow_traffic(struct watch_draw *d, struct watch_flow *flow,
                         const struct device_gauges *g) {
    if (isnan(g->pcie_rx_bytes_s) && isnan(g->pcie_tx_bytes_s)) return;
    double received = g->pcie_rx_bytes_s / 1e9, sent = g->pcie_tx_bytes_s / 1e9;
    watch_flow_add(d, flow, SHOW_PLAIN, "to GPU %.*s from GPU %.*s",
                   STR_ARG(watch_text_number(d, received, " GB/s")),
                   STR_ARG(watch_text_number(d, sent, " GB/s")));
}

static void draw_notes(struct watch_draw *d, struct watch_flow *flow, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    const struct observe_card *watched = &d->view->cards[place];
    if (!is_fresh(card) && card->reason[0]) {
        watch_flow_add(d, flow, state_ink(card), "%s", card->reason);
    }
    if (card->now.at_ns == 0) return;
    flow_clocks(d, flow, card, &watched->window);
    flow_throttle(d, flow, watched);
    watch_flow_add(d, flow, isnan(watched->since.energy_joules) ? SHOW_DIM : SHOW_PLAIN, "%.*s",
                   STR_ARG(energy_text(d, &watched->since)));
    flow_day(d, flow, watched);
    flow_traffic(d, flow, &card->now);
    if (card->now.xid >= 0) {
        watch_flow_add(d, flow, SHOW_BAD, "Xid %lld", (long long)card->now.xid);
    }
    if (card->now.ecc_uncorrected > 0) {
        watch_flow_add(d, flow, SHOW_BAD, "%lld memory errors",
                       (long long)card->now.ecc_uncorrected);
    }
}

int watch_draw_block_rows(const struct watch_draw *d, int columns) {
    (void)d;
    return columns >= WIDE ? WIDE_BLOCK : NARROW_BLOCK;
}

void watch_draw_block(struct watch_draw *d, struct tui_area area, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    draw_title(d, area, place);
    struct watch_flow flow = {.area = area, .row = card->now.at_ns ? 3 : 1, .indent = 3};
    if (card->now.at_ns) {
        draw_busy(d, area, card);
        draw_memory(d, area, place);
    }
    draw_notes(d, &flow, place);
}

void watch_draw_detail(struct watch_draw *d, struct tui_area area, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    struct watch_flow flow = {.area = area, .indent = 3};
    watch_flow_add(d, &flow, SHOW_STRONG, "%d %s", card->index, card->facts.name);
    struct str stale = staleness(d, card), link = link_text(d, &card->now);
    if (stale.len) watch_flow_add(d, &flow, state_ink(card), "%.*s", STR_ARG(stale));
    if (link.len) watch_flow_add(d, &flow, SHOW_DIM, "%.*s", STR_ARG(link));
    draw_notes(d, &flow, place);
}

// Columns of the table of GPUs; what is left of the width is shared by name and meters.
struct columns {
    int name, busy, memory;
};

enum { FIXED = 4 + 1 + 5 + 2 + 12 + 1 + 6 + 1 + 6, POWER_AND_CLOCK = 9 + 1 + 5 + 1, ROOM = 76 };

static struct columns columns_of(int all) {
    int left = all - FIXED - (all >= ROOM ? POWER_AND_CLOCK : 0);
    struct columns c = {.name = left >= 52 ? 24 : left >= 30 ? 16 : 13};
    left -= c.name;
    c.busy = left * 2 / 5;
    c.memory = left - c.busy;
    return c;
}

// Where the columns of a line begin.
struct places {
    int name, busy, busy_text, memory, memory_text, warm, power, clock, throttled;
};

static struct places places_of(struct columns c, int all) {
    struct places p = {.name = 4};
    p.busy = p.name + c.name + 1;
    p.busy_text = p.busy + c.busy;
    p.memory = p.busy_text + 5 + 2;
    p.memory_text = p.memory + c.memory;
    p.warm = p.memory_text + 12 + 1;
    p.power = p.warm + 6 + 1;
    p.clock = p.power + 9 + 1;
    p.throttled = p.power + (all >= ROOM ? POWER_AND_CLOCK : 0);
    return p;
}

void watch_draw_line_title(struct watch_draw *d, struct tui_area area) {
    (void)d;
    struct places p = places_of(columns_of(area.columns), area.columns);
    tui_put(area, 0, 2, SHOW_DIM, STR("#"));
    tui_put(area, 0, p.name, SHOW_DIM, STR("GPU"));
    tui_put_field(area, 0, p.busy_text, 5, SHOW_RIGHT, SHOW_DIM, STR("util"));
    tui_put_field(area, 0, p.memory_text, 12, SHOW_RIGHT, SHOW_DIM, STR("memory"));
    tui_put_field(area, 0, p.warm, 6, SHOW_RIGHT, SHOW_DIM, STR("temp"));
    tui_put_field(area, 0, p.throttled, 6, SHOW_RIGHT, SHOW_DIM, STR("slow"));
    if (area.columns < ROOM) return;
    tui_put_field(area, 0, p.power, 9, SHOW_RIGHT, SHOW_DIM, STR("power"));
    tui_put_field(area, 0, p.clock, 5, SHOW_RIGHT, SHOW_DIM, STR("MHz"));
}

static struct str memory_short(struct watch_draw *d, const struct device_gauges *g) {
    if (g->used_bytes < 0 || g->total_bytes <= 0) return STR("–");
    double gib = 1024.0 * 1024 * 1024, total = (double)g->total_bytes / gib;
    return str_format(d->scratch, total < 10 ? "%.1f/%.1f GiB" : "%.1f/%.0f GiB",
                      (double)g->used_bytes / gib, total);
}

static struct str power_short(struct watch_draw *d, const struct device_gauges *g) {
    if (isnan(g->power_watts)) return STR("–");
    if (isnan(g->power_limit_watts)) return str_format(d->scratch, "%.0f W", g->power_watts);
    return str_format(d->scratch, "%.0f/%.0f W", g->power_watts, g->power_limit_watts);
}

static void draw_line_figures(struct watch_draw *d, struct tui_area area, int row, int place,
                              struct places p, struct columns c) {
    const struct device_card *card = &d->view->devices->cards[place];
    const struct device_gauges *g = &card->now;
    double throttled = d->view->cards[place].window.throttled_share;
    meter_utilisation(card, area, row, p.busy, c.busy);
    tui_put_field(area, row, p.busy_text, 5, SHOW_RIGHT, busy_ink(g->utilisation),
                  watch_text_percent(d, g->utilisation));
    meter_memory(d, place, area, row, p.memory, c.memory);
    tui_put_field(area, row, p.memory_text, 12, SHOW_RIGHT, full_ink(g), memory_short(d, g));
    tui_put_field(area, row, p.warm, 6, SHOW_RIGHT, warm_ink(card),
                  watch_text_temperature(d, g->temperature_celsius));
    tui_put_field(area, row, p.throttled, 6, SHOW_RIGHT, throttled_ink(throttled),
                  watch_text_percent(d, throttled));
    if (area.columns < ROOM) return;
    tui_put_field(area, row, p.power, 9, SHOW_RIGHT, SHOW_PLAIN, power_short(d, g));
    struct str clock =
        isnan(g->sm_clock_mhz) ? STR("–") : str_format(d->scratch, "%.0f", g->sm_clock_mhz);
    tui_put_field(area, row, p.clock, 5, SHOW_RIGHT, SHOW_PLAIN, clock);
}

void watch_draw_line(struct watch_draw *d, struct tui_area area, int row, int place) {
    const struct device_card *card = &d->view->devices->cards[place];
    struct columns c = columns_of(area.columns);
    struct places p = places_of(c, area.columns);
    bool is_chosen = place == d->look->card && !d->look->is_once;
    tui_put(area, row, 0, TUI_INK_A, is_chosen ? STR("▸") : STR(" "));
    tui_put_format(area, row, 1, is_chosen ? SHOW_STRONG : SHOW_PLAIN, "%2d", card->index);
    tui_put_field(area, row, p.name, c.name, SHOW_LEFT, is_chosen ? SHOW_STRONG : SHOW_PLAIN,
                  show_gpu_name(str_of(card->facts.name)));
    if (card->now.at_ns) draw_line_figures(d, area, row, place, p, c);
    if (is_fresh(card)) return;
    struct str stale = staleness(d, card);
    tui_put_format(area, row, p.busy, state_ink(card), "%.*s  ", STR_ARG(stale));
}
