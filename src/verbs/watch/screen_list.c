// SPDX-License-Identifier: Apache-2.0
// What is below the GPUs: the runs that let themselves be watched, what is to be said of the
// machine, and the processes on its GPUs.
#include "verbs/watch/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct str count_text(struct watch_draw *d, int64_t n) {
    if (n < 0) return STR("–");
    if (n < 1000) return str_format(d->scratch, "%lld", (long long)n);
    if (n < 1000000) {
        return str_format(d->scratch, "%lld,%03lld", (long long)(n / 1000), (long long)(n % 1000));
    }
    return str_format(d->scratch, "%.1f M", (double)n / 1e6);
}

static int run_ink(const struct observe_run *run) {
    return run->state == OBSERVE_RUN_STEPS   ? SHOW_GOOD
           : run->state == OBSERVE_RUN_QUIET ? SHOW_WARN
                                             : SHOW_DIM;
}

static void draw_run_title(struct watch_draw *d, struct tui_area area,
                           const struct observe_run *run) {
    struct watch_flow flow = {.area = area, .indent = 1};
    flow.area.rows = 1;
    struct str name = run->model.len ? run->model : run->command.len ? run->command : run->id;
    watch_flow_add(d, &flow, run_ink(run), "%s", observe_run_state_name(run->state));
    watch_flow_add(d, &flow, SHOW_STRONG, "%.*s%s%.*s", STR_ARG(run->verb),
                   run->verb.len ? " " : "", STR_ARG(show_fit(name, area.columns / 2)));
    if (run->standin.len) watch_flow_add(d, &flow, SHOW_WARN, "%.*s", STR_ARG(run->standin));
    bool has_card = run->card >= 0 && run->card < d->view->devices->count;
    if (has_card) {
        watch_flow_add(d, &flow, SHOW_PLAIN, "GPU %d", d->view->devices->cards[run->card].index);
    }
    if (run->batch > 0) {
        bool accumulates = run->accumulation > 1;
        watch_flow_add(d, &flow, SHOW_PLAIN, accumulates ? "batch %lld × %lld" : "batch %lld",
                       (long long)run->batch, (long long)run->accumulation);
    }
    if (run->precision.len) {
        watch_flow_add(d, &flow, SHOW_PLAIN, "%.*s", STR_ARG(run->precision));
    }
    if (run->ranks > 1) watch_flow_add(d, &flow, SHOW_PLAIN, "%lld ranks", (long long)run->ranks);
    watch_flow_add(d, &flow, SHOW_DIM, "step %.*s", STR_ARG(count_text(d, run->steps_done)));
    if (run->alloc_retries > 0) {
        watch_flow_add(d, &flow, SHOW_WARN, "%lld allocation retries",
                       (long long)run->alloc_retries);
    }
}

enum { RUN_TEXT = 34, STEP_LABEL = 18 };
static const struct {
    const char *name;
    int ink;
} phases[STEP_PART_COUNT] = {{"io", TUI_INK_E},        {"copy", TUI_INK_C},
                             {"forward", TUI_INK_A},   {"backward", TUI_INK_B},
                             {"optimizer", TUI_INK_D}, {"other", TUI_INK_F}};

static void draw_run_steps(struct watch_draw *d, struct tui_area area,
                           const struct observe_run *run) {
    const struct step_times *p = &run->phases;
    struct tui_part parts[STEP_PART_COUNT];
    for (int i = 0; i < STEP_PART_COUNT; i++) parts[i] = (struct tui_part){p->ms[i], phases[i].ink};
    tui_put_format(area, 1, 3, SHOW_PLAIN, "step %.*s",
                   STR_ARG(watch_text_number(d, p->total_ms, " ms")));
    int width = area.columns - STEP_LABEL - RUN_TEXT - 2;
    tui_meter(area, 1, STEP_LABEL, width, parts, STEP_PART_COUNT, p->total_ms);
    struct str rate = watch_text_number(d, run->samples_per_s, "/s");
    struct str frugal = watch_text_number(d, run->samples_per_joule, "/J");
    tui_put_field(area, 1, area.columns - RUN_TEXT, RUN_TEXT, SHOW_RIGHT, SHOW_PLAIN,
                  str_format(d->scratch, "samples %.*s · %.*s", STR_ARG(rate), STR_ARG(frugal)));
    struct watch_flow flow = {.area = area, .row = 2, .indent = 3};
    for (int i = 0; i < STEP_PART_COUNT; i++) {
        if (!(p->ms[i] > 0)) continue;
        watch_flow_add(d, &flow, phases[i].ink, "%s %s %.*s", tui_meter_sign(area.canvas, i),
                       phases[i].name, STR_ARG(watch_text_percent(d, p->ms[i] / p->total_ms)));
    }
    if (run->peak_bytes <= 0 && run->predicted_peak_bytes <= 0) return;
    struct str peak = watch_text_bytes(d, run->peak_bytes > 0 ? run->peak_bytes : -1);
    int64_t expected = run->predicted_peak_bytes > 0 ? run->predicted_peak_bytes : -1;
    bool is_over = run->predicted_upper_bytes > 0 && run->peak_bytes > run->predicted_upper_bytes;
    watch_flow_add(d, &flow, is_over ? SHOW_WARN : SHOW_PLAIN, "peak %.*s, predicted %.*s",
                   STR_ARG(peak), STR_ARG(watch_text_bytes(d, expected)));
}

void watch_draw_run(struct watch_draw *d, struct tui_area area, int number) {
    const struct observe_run *run = &d->view->runs[number];
    draw_run_title(d, area, run);
    if (area.rows >= 3 && !isnan(run->phases.total_ms)) draw_run_steps(d, area, run);
}

static bool is_shown(const struct finding *f) {
    return f->severity >= FINDING_WARNING;
}

int watch_findings_shown(const struct observe_view *view) {
    int count = 0;
    for (ptrdiff_t i = 0; i < view->findings.count; i++)
        count += is_shown(&view->findings.items[i]);
    return count;
}

static void draw_finding(struct watch_draw *d, struct tui_area area, const struct finding *f) {
    int ink = f->severity == FINDING_PROBLEM ? SHOW_BAD : SHOW_WARN;
    int at = tui_put(area, 0, 0, ink, STR("▲ "));
    if (f->card >= 0 && f->card < d->view->devices->count) {
        at = tui_put_format(area, 0, at, ink, "GPU %d  ", d->view->devices->cards[f->card].index);
    }
    at = tui_put_format(area, 0, at, ink, "%s", f->what);
    if (f->value.len) at = tui_put_format(area, 0, at, ink, ": %.*s", STR_ARG(f->value));
    if (f->evidence.len) at = tui_put(area, 0, at, SHOW_DIM, STR(" · "));
    tui_put_field(area, 0, at, area.columns - at, SHOW_LEFT, SHOW_PLAIN, f->evidence);
    if (area.rows < 2) return;
    at = tui_put(area, 1, 2, SHOW_DIM, STR("→ "));
    tui_put_field(area, 1, at, area.columns - at, SHOW_LEFT, SHOW_DIM, f->remedy);
}

// Problems before warnings; each with its remedy where there are two rows for it.
void watch_draw_findings(struct watch_draw *d, struct tui_area area, int first) {
    int count = watch_findings_shown(d->view), skipped = 0;
    for (int s = FINDING_PROBLEM; s >= FINDING_WARNING; s--) {
        for (ptrdiff_t i = 0; i < d->view->findings.count && area.rows > 0; i++) {
            const struct finding *f = &d->view->findings.items[i];
            if ((int)f->severity != s || skipped++ < first) continue;
            bool has_remedy = f->remedy.len && (area.rows >= 2 * count || area.rows >= 4);
            struct tui_area one = tui_area_top(&area, has_remedy ? 2 : 1);
            draw_finding(d, one, f);
        }
    }
}

struct row {
    const struct device_process *process;
    int card; // place
};

static int by_memory(const struct row *a, const struct row *b) {
    return (a->process->used_bytes > b->process->used_bytes) -
           (a->process->used_bytes < b->process->used_bytes);
}
static int by_pid(const struct row *a, const struct row *b) {
    return (a->process->pid > b->process->pid) - (a->process->pid < b->process->pid);
}
static int by_name(const struct row *a, const struct row *b) {
    return strcmp(b->process->name, a->process->name);
}
static int by_card(const struct row *a, const struct row *b) {
    return (b->card > a->card) - (b->card < a->card);
}
static int by_kind(const struct row *a, const struct row *b) {
    return (a->process->kinds > b->process->kinds) - (a->process->kinds < b->process->kinds);
}

static const struct {
    const char *word;
    int (*compare)(const struct row *, const struct row *); // of the smaller first
} sorts[] = {{"memory", by_memory},
             {"pid", by_pid},
             {"name", by_name},
             {"card", by_card},
             {"kind", by_kind}};

const char *watch_sort_word(int column) {
    return sorts[column].word;
}
int watch_sort_count(void) {
    return (int)(sizeof sorts / sizeof *sorts);
}

static int compare(const void *a, const void *b, void *argument) {
    const struct watch_settings *s = argument;
    int order = sorts[s->sort].compare(a, b);
    if (order == 0) order = by_memory(a, b);
    if (order == 0) order = by_pid(b, a);
    return s->ascending ? order : -order;
}

static bool matches(const struct watch_look *look, const struct device_process *p) {
    if (!look->filter[0]) return true;
    char pid[24];
    struct str number = {pid, 0};
    int64_t rest = p->pid;
    for (char *c = pid + sizeof pid; rest > 0; rest /= 10) {
        *--c = (char)('0' + rest % 10);
        number = (struct str){c, pid + sizeof pid - c};
    }
    return strcasestr(p->name, look->filter) || str_find(number, str_of(look->filter)) >= 0;
}

static int gather(struct watch_draw *d, struct row **ret_rows) {
    const struct device_snapshot *devices = d->view->devices;
    int most = 1, count = 0;
    for (int i = 0; i < devices->count; i++) most += devices->cards[i].process_count;
    struct row *rows = arena_new(d->scratch, struct row, most);
    for (int i = 0; i < devices->count; i++) {
        for (int j = 0; j < devices->cards[i].process_count; j++) {
            const struct device_process *p = &devices->cards[i].processes[j];
            if (matches(d->look, p)) rows[count++] = (struct row){p, i};
        }
    }
    qsort_r(rows, (size_t)count, sizeof *rows, compare, &d->look->settings);
    *ret_rows = rows;
    return count;
}

static bool is_tagged(const struct watch_look *look, int64_t pid) {
    for (int i = 0; i < look->tag_count; i++) {
        if (look->tags[i] == pid) return true;
    }
    return false;
}

static void draw_process(struct watch_draw *d, struct tui_area area, int row, struct row r) {
    const struct device_card *card = &d->view->devices->cards[r.card];
    const struct device_process *p = r.process;
    static const char *const kinds[] = {"–", "C", "G", "C+G", "M", "C+M", "G+M", "C+G+M"};
    int ink = is_tagged(d->look, p->pid) ? TUI_INK_E : SHOW_PLAIN;
    tui_put_format(area, row, 2, ink, "%8lld  %4d  %-5s", (long long)p->pid, card->index,
                   kinds[p->kinds & 7]);
    tui_put_field(area, row, 23, 10, SHOW_RIGHT, ink, watch_text_bytes(d, p->used_bytes));
    double share = p->used_bytes >= 0 && card->now.total_bytes > 0
                       ? (double)p->used_bytes / (double)card->now.total_bytes
                       : (double)NAN;
    tui_put_field(area, row, 33, 7, SHOW_RIGHT, ink, watch_text_percent(d, share));
    struct str name = p->name[0] ? str_of(p->name) : STR("(another container's, or gone)");
    tui_put_field(area, row, 42, area.columns - 42, SHOW_LEFT, ink, name);
}

static int unlisted(const struct device_snapshot *devices) {
    int count = 0;
    for (int i = 0; i < devices->count; i++) count += devices->cards[i].processes_unlisted;
    return count;
}

static void draw_process_title(struct watch_draw *d, struct tui_area area, int count) {
    const struct watch_look *look = d->look;
    tui_area_fill((struct tui_area){area.canvas, area.row, area.column, 1, area.columns}, ' ',
                  TUI_INK_BAND);
    tui_put(area, 0, 2, TUI_INK_BAND, STR("     pid   GPU  kind      memory      %  process"));
    const char *arrow = look->settings.ascending ? "↑" : "↓";
    struct str by =
        str_format(d->scratch, "%s%s%d by %s %s ", look->filter, look->filter[0] ? ": " : "", count,
                   watch_sort_word(look->settings.sort), arrow);
    if (look->is_once || area.columns < 70) return;
    tui_put_field(area, 0, 50, area.columns - 50, SHOW_RIGHT, TUI_INK_BAND, by);
}

static bool has_processes(const struct device_snapshot *devices) {
    for (int i = 0; i < devices->count; i++) {
        if (devices->cards[i].has_processes) return true;
    }
    return false;
}

// The cursor stays on its process when the list changes.
static void follow(struct watch_look *look, const struct row *rows, int count, int room) {
    for (int i = 0; look->has_cursor && !look->cursor_moved && i < count; i++) {
        if (rows[i].process->pid == look->cursor_pid && rows[i].card == look->cursor_card) {
            look->process = i;
            break;
        }
    }
    if (look->process >= count) look->process = count - 1;
    if (look->process < 0) look->process = 0;
    if (look->process < look->first_process) look->first_process = look->process;
    if (look->process >= look->first_process + room) look->first_process = look->process - room + 1;
    if (look->first_process + room > count) look->first_process = count > room ? count - room : 0;
    look->process_count = count;
    look->process_rows = room;
    look->cursor_moved = false;
    if (!look->has_cursor || count == 0) return;
    look->cursor_pid = rows[look->process].process->pid;
    look->cursor_card = rows[look->process].card;
}

void watch_draw_processes(struct watch_draw *d, struct tui_area area) {
    struct watch_look *look = d->look;
    struct row *rows = NULL;
    int count = gather(d, &rows), room = area.rows - 1;
    if (room < 1) return;
    follow(look, rows, count, room);
    draw_process_title(d, area, count);
    for (int i = 0; i < room && look->first_process + i < count; i++) {
        draw_process(d, area, 1 + i, rows[look->first_process + i]);
        bool is_cursor = look->has_cursor && look->first_process + i == look->process;
        if (is_cursor) tui_area_row_ink(area, 1 + i, TUI_INK_CURSOR);
    }
    int more = unlisted(d->view->devices);
    if (count == 0) {
        bool knows = has_processes(d->view->devices);
        tui_put(area, 1, 2, SHOW_DIM,
                look->filter[0] ? STR("no process matches the filter")
                : knows         ? STR("no process on the GPUs")
                                : STR("the driver does not report processes"));
    } else if (more > 0 && count < room) {
        tui_put_format(area, 1 + count, 2, SHOW_DIM, "and %d more", more);
    }
}
