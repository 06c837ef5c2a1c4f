// SPDX-License-Identifier: Apache-2.0
// Which part of the screen goes where: one function of the size and of what there is to show.
// From the top: the sentence, what machine, its CPU, its GPUs, runs, findings, plots, processes,
// keys.
#include "verbs/watch/watch.h"

#include "base/say.h"

#include "base/os.h"

#include <math.h>

enum { RUN_ROWS = 3, PLOT_LEAST = 3, PROCESSES_LEAST = 3, BLOCK_COLUMNS = 78 };
enum { SPARE_FOR_BLOCKS = 6, DETAIL_ROWS = 3, ROOMY = 30 };

// The sentence, and at its right the pace.
static void draw_header(struct watch_draw *d, struct tui_area area) {
    struct str pace = STR("PAUSED");
    if (!d->look->is_paused) {
        struct str span = watch_text_span(d, d->look->now_ns - d->view->started_ns);
        pace = str_format(d->scratch, "%g s · %.*s", d->look->interval_ms / 1000.0, STR_ARG(span));
    }
    int width = d->look->is_once ? 0 : show_width(pace) + 2;
    struct tui_area status = tui_area_left(&area, area.columns - width);
    watch_draw_status(d, status);
    tui_put_field(area, 0, 0, width, SHOW_RIGHT, d->look->is_paused ? SHOW_WARN : SHOW_DIM,
                  width ? pace : STR(""));
}

// What machine; where rows are few, only that it is logged.
static void draw_machine(struct watch_draw *d, struct tui_area *area) {
    const struct device_snapshot *devices = d->view->devices;
    bool is_roomy = d->look->is_once || area->rows >= ROOMY;
    if (!is_roomy && !d->look->is_logging) return;
    struct watch_flow flow = {.area = tui_area_top(area, 1), .indent = 3};
    watch_flow_add(d, &flow, SHOW_DIM, "batchfit watch");
    if (devices->driver_version.len) {
        watch_flow_add(d, &flow, SHOW_DIM, "driver %.*s", STR_ARG(devices->driver_version));
    }
    if (devices->cuda_version.len) {
        watch_flow_add(d, &flow, SHOW_DIM, "CUDA %.*s", STR_ARG(devices->cuda_version));
    }
    if (devices->is_wsl) watch_flow_add(d, &flow, SHOW_DIM, "WSL");
    if (d->look->is_logging) watch_flow_add(d, &flow, SHOW_GOOD, "logging");
}

// Said on every screen where the GPUs are not this machine's.
static struct str notice(struct watch_draw *d) {
    const struct device_snapshot *devices = d->view ? d->view->devices : NULL;
    if (devices && devices->standin.len) return devices->standin;
    if (!d->look->machine) return STR("");
    struct str machine = str_of(d->look->machine);
    if (str_starts(machine, STR(DEVICE_REMOTE))) {
        return str_format(d->scratch, "other machines: %.*s",
                          STR_ARG(str_slice(machine, sizeof DEVICE_REMOTE - 1, machine.len)));
    }
    bool is_fast = d->look->speed > 0 && (d->look->speed < 1 || d->look->speed > 1);
    struct str pace =
        is_fast ? str_format(d->scratch, ", played %g× as fast", d->look->speed) : STR("");
    return str_format(d->scratch, "not this machine: a recording%.*s: %s", STR_ARG(pace),
                      d->look->machine);
}

static void put_notice(struct tui_area area, struct str said) {
    tui_put_field(area, 0, 3, area.columns - 3, SHOW_LEFT, SHOW_WARN, said);
}

static void draw_cpu(struct watch_draw *d, struct tui_area area) {
    const struct device_cpu_gauges *c = &d->view->cpu;
    bool is_wide = area.columns >= 100;
    int bar = is_wide ? 20 : 10, at = tui_put_format(area, 0, 3, SHOW_DIM, "cpu ");
    struct tui_part busy = {c->utilisation, TUI_INK_D};
    tui_meter(area, 0, at, bar, &busy, 1, 1);
    at += bar;
    tui_put_field(area, 0, at, 6, SHOW_RIGHT, SHOW_PLAIN, watch_text_percent(d, c->utilisation));
    struct watch_flow flow = {.area = area, .column = at + 6, .indent = at + 6, .is_begun = true};
    flow.area.rows = 1;
    if (c->cores > 0) watch_flow_add(d, &flow, SHOW_PLAIN, "%d cores", c->cores);
    bool is_known = c->total_bytes > 0 && c->available_bytes >= 0;
    int64_t used = is_known ? c->total_bytes - c->available_bytes : -1;
    int ink = is_known && (double)c->available_bytes < 0.05 * (double)c->total_bytes ? SHOW_BAD
                                                                                     : SHOW_PLAIN;
    watch_flow_add(d, &flow, ink, "memory %.*s of %.*s", STR_ARG(watch_text_bytes(d, used)),
                   STR_ARG(watch_text_bytes(d, c->total_bytes)));
    if (c->io_wait > 0.05) {
        watch_flow_add(d, &flow, SHOW_WARN, "waits for disk %.*s",
                       STR_ARG(watch_text_percent(d, c->io_wait)));
    }
    if (c->group_throttled > 0.01) {
        watch_flow_add(d, &flow, SHOW_WARN, "CPU quota reached %.*s",
                       STR_ARG(watch_text_percent(d, c->group_throttled)));
    }
    if (c->swap_used_bytes > 0) {
        watch_flow_add(d, &flow, SHOW_DIM, "swap %.*s",
                       STR_ARG(watch_text_bytes(d, c->swap_used_bytes)));
    }
    if (!isnan(c->load)) watch_flow_add(d, &flow, SHOW_DIM, "load %.1f", c->load);
    if (!isnan(c->power_watts)) watch_flow_add(d, &flow, SHOW_DIM, "%.0f W", c->power_watts);
}

// The last go first where the screen is narrow; help and quit stay.
static const struct key_hint {
    const char *key, *what;
    uint32_t sends;
} hints[] = {{"F1", "Help", TUI_KEY_F0 + 1},
             {"q", "Quit", 'q'},
             {"f", "Findings", 'f'},
             {"F2", "Setup", TUI_KEY_F0 + 2},
             {"F6", "Sort", TUI_KEY_F0 + 6},
             {"/", "Filter", '/'},
             {"p", "Pause", 'p'},
             {"c", "Copy", 'c'},
             {"F9", "Signal", TUI_KEY_F0 + 9}};

static void draw_keys(struct watch_draw *d, struct tui_area area) {
    const struct watch_look *look = d->look;
    tui_area_fill(area, ' ', TUI_INK_BAND);
    if (look->is_typing) {
        tui_put_format(area, 0, 1, TUI_INK_BAND, "filter: %s_   Enter keeps it, Esc drops it",
                       look->filter);
        return;
    }
    if (look->message[0]) {
        tui_put_format(area, 0, 1, TUI_INK_BAND, "%s", look->message);
        return;
    }
    int at = 1;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        int width = show_width(str_of(hints[i].key)) + 1 + show_width(str_of(say(hints[i].what)));
        if (at + width > area.columns) return;
        struct tui_area place = {area.canvas, area.row, area.column + at, 1, width};
        watch_hit_add(d, place, WATCH_HIT_KEY, (int)hints[i].sends);
        at = tui_put_format(area, 0, at, TUI_INK_CURSOR, "%s", hints[i].key);
        at = tui_put_format(area, 0, at, TUI_INK_BAND, " %s  ", say(hints[i].what));
    }
}

// No driver, or no GPU that answers: that is said, and the CPU goes on.
static void draw_none(struct watch_draw *d, struct tui_area *body) {
    const struct device_snapshot *devices = d->view->devices;
    if (devices->count == 0) {
        struct str why = devices->why_none.len ? devices->why_none : STR("no GPU found");
        struct tui_area rows = *body;
        why = str_format(d->scratch, "no GPU: %.*s", STR_ARG(why));
        tui_area_top(body, tui_put_wrapped(rows, 0, 3, SHOW_WARN, why) + 1);
    }
    if (devices->left_out.len) {
        struct tui_area rows = *body;
        if (rows.rows > 2) rows.rows = 2;
        tui_put(rows, 0, 0, SHOW_BAD, STR("▲"));
        struct str said = str_format(d->scratch, "not usable: %.*s", STR_ARG(devices->left_out));
        tui_area_top(body, tui_put_wrapped(rows, 0, 3, SHOW_BAD, said));
    }
}

static int block_columns(const struct tui_area *body, int count) {
    int beside = body->columns / BLOCK_COLUMNS;
    if (beside > 3) beside = 3;
    return beside < 1 ? 1 : beside > count ? count : beside;
}

static void draw_blocks(struct watch_draw *d, struct tui_area *body, int beside) {
    int count = d->view->devices->count, width = body->columns / beside;
    int rows = watch_draw_block_rows(d, width - (beside > 1 ? 2 : 0));
    for (int i = 0; i < count; i += beside) {
        struct tui_area line = tui_area_top(body, rows);
        for (int j = 0; j < beside && i + j < count; j++) {
            struct tui_area block = tui_area_left(&line, width);
            if (beside > 1) block.columns -= 2;
            if (block.rows < rows) continue;
            watch_draw_block(d, block, i + j);
            watch_hit_add(d, block, WATCH_HIT_CARD, i + j);
        }
    }
}

static void draw_lines(struct watch_draw *d, struct tui_area *body) {
    int count = d->view->devices->count;
    int most = d->look->is_once ? count : body->rows * 2 / 3 - DETAIL_ROWS;
    int shown = count < most ? count : most, first = 0;
    if (shown < 1) shown = 1;
    if (d->look->card >= shown) first = d->look->card - shown + 1;
    struct tui_area lines = tui_area_top(body, shown + 1);
    watch_draw_line_title(d, lines);
    for (int i = 0; i < shown; i++) {
        struct tui_area line = {lines.canvas, lines.row + 1 + i, lines.column, 1, lines.columns};
        watch_draw_line(d, lines, 1 + i, first + i);
        watch_hit_add(d, line, WATCH_HIT_CARD, first + i);
    }
    if (shown < count) tui_put_format(lines, 0, 8, SHOW_WARN, "+%d more", count - shown);
    if (!d->look->is_once && body->rows >= DETAIL_ROWS + 4) {
        watch_draw_detail(d, tui_area_top(body, DETAIL_ROWS), d->look->card);
    }
}

static void draw_cards(struct watch_draw *d, struct tui_area *body) {
    int count = d->view->devices->count;
    draw_none(d, body);
    if (count == 0) return;
    int beside = block_columns(body, count);
    int rows = watch_draw_block_rows(d, body->columns / beside - (beside > 1 ? 2 : 0));
    int needed = (count + beside - 1) / beside * rows;
    int choice = d->look->settings.cards;
    bool fits = needed + (choice == 1 ? 0 : SPARE_FOR_BLOCKS) <= body->rows;
    if (fits && choice != 2)
        draw_blocks(d, body, beside);
    else
        draw_lines(d, body);
}

static void draw_runs(struct watch_draw *d, struct tui_area *body) {
    int count = d->view->run_count;
    if (count == 0 || !d->look->settings.runs) return;
    int room = d->look->is_once ? count : body->rows / 3 / RUN_ROWS;
    if (room < 1 && body->rows >= RUN_ROWS + PROCESSES_LEAST) room = 1;
    for (int i = 0; i < count && i < room; i++) {
        watch_draw_run(d, tui_area_top(body, RUN_ROWS), i);
    }
    int more = count - room + d->view->runs_unlisted;
    if (more > 0 && body->rows > PROCESSES_LEAST) {
        tui_put_format(tui_area_top(body, 1), 0, 1, SHOW_DIM, "+%d more %s", more,
                       more == 1 ? "run" : "runs");
    }
}

static void draw_findings(struct watch_draw *d, struct tui_area *body) {
    int count = watch_findings_shown(d->view);
    if (count == 0 || !d->look->settings.findings) return;
    int room = d->look->is_once ? 2 * count : body->rows / 4;
    int rows = 2 * count <= room ? 2 * count : room < 1 && body->rows > 4 ? 1 : room;
    watch_draw_findings(d, tui_area_top(body, rows));
}

static int process_count(const struct observe_view *view) {
    int count = 0;
    for (int i = 0; i < view->devices->count; i++) count += view->devices->cards[i].process_count;
    return count;
}

// Plots and processes share what is left.
static void draw_rest(struct watch_draw *d, struct tui_area *body) {
    bool has_cards = d->view->devices->count > 0;
    bool has_processes = d->look->settings.processes && has_cards;
    int processes = has_processes ? process_count(d->view) + 1 : 0;
    if (has_processes && processes < PROCESSES_LEAST) processes = PROCESSES_LEAST;
    bool has_plots = watch_plot_count(&d->look->settings) > 0 && has_cards && !d->look->is_once;
    if (has_plots) {
        int plots = body->rows - processes, half = body->rows / 2;
        if (plots < half) plots = half;
        if (plots >= PLOT_LEAST - 1) watch_draw_plots(d, tui_area_top(body, plots));
    }
    if (d->look->is_once && processes < body->rows) body->rows = processes;
    if (has_processes) watch_draw_processes(d, *body);
}

static void draw_waiting(struct watch_draw *d, struct tui_area area) {
    tui_put(area, 0, 0, SHOW_STRONG, STR("batchfit watch"));
    tui_put(area, 2, 3, SHOW_PLAIN, STR("waiting for the driver …"));
    struct str said = notice(d);
    tui_area_top(&area, 1);
    if (said.len) put_notice(area, said);
}

static void draw_all(struct watch_draw *d, struct tui_area area) {
    struct tui_area keys = area;
    if (!d->look->is_once) {
        keys.row += area.rows - 1;
        keys.rows = 1;
        area.rows -= 1;
        draw_keys(d, keys);
    }
    if (!d->view) {
        draw_waiting(d, area);
        return;
    }
    draw_header(d, tui_area_top(&area, 1));
    draw_machine(d, &area);
    struct str said = notice(d);
    if (said.len) put_notice(tui_area_top(&area, 1), said);
    if (d->view->has_cpu && d->look->settings.cpu) draw_cpu(d, tui_area_top(&area, 1));
    draw_cards(d, &area);
    draw_runs(d, &area);
    draw_findings(d, &area);
    draw_rest(d, &area);
}

// The moment on the clock of the view: a recording's goes as fast as it is played.
static int64_t now_of(const struct watch_look *look) {
    int64_t now = os_now_ns();
    if (!look->view || !look->machine) return now;
    int64_t begun = look->view->started_ns;
    return begun + (int64_t)((double)(now - begun) * look->speed);
}

// The sentence, over several rows, is what there is room for.
static void draw_too_small(struct watch_draw *d, struct tui_area area) {
    struct str size = str_format(d->scratch, "%d×%d is too small: %d×%d", area.columns, area.rows,
                                 WATCH_LEAST_COLUMNS, WATCH_LEAST_ROWS);
    int at = tui_put_wrapped(area, 0, 0, SHOW_DIM, size);
    if (d->view) tui_put_wrapped(area, at, 0, SHOW_STRONG, watch_status_text(d));
}

void watch_screen_draw(struct watch_look *look, struct tui_canvas *canvas, struct arena *scratch) {
    SAY_OWN_IF(canvas->utf8);
    struct arena_mark mark = arena_mark(scratch);
    look->now_ns = now_of(look);
    struct watch_draw d = {look, look->view, scratch};
    struct tui_area all = tui_area_of(canvas);
    int count = look->view ? look->view->devices->count : 0;
    if (look->view && !look->has_chosen && !look->is_once)
        look->card = watch_worst_card(look->view);
    if (look->card >= count) look->card = count ? count - 1 : 0;
    look->hit_count = 0;
    if (all.rows < WATCH_LEAST_ROWS || all.columns < WATCH_LEAST_COLUMNS) {
        draw_too_small(&d, all);
    } else {
        draw_all(&d, all);
        if (look->window != WATCH_WINDOW_NONE) watch_draw_window(&d, all);
    }
    arena_rewind(scratch, mark);
}
