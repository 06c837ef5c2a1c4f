// SPDX-License-Identifier: Apache-2.0
// The processes on the GPUs: one table of columns, which go in a stated order where the screen is
// narrow. What of a process is not visible from here is a dash.
#include "base/unit.h"
#include "verbs/watch/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const struct device_process *process;
    int card; // place
};

static int by_number(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(b) - isnan(a);
    return (a > b) - (a < b);
}

enum { BY_MEMORY, BY_PID, BY_NAME, BY_CARD, BY_KIND, BY_GPU, BY_HOST, BY_AGE, BY_USER, SORTS };
_Static_assert((int)SORTS == (int)WATCH_SORTS, "as many as screen.h says");
const char *const watch_sorts[SORTS] = {
    [BY_MEMORY] = "memory", [BY_PID] = "pid",   [BY_NAME] = "name",
    [BY_CARD] = "card",     [BY_KIND] = "kind", [BY_GPU] = "gpu",
    [BY_HOST] = "host",     [BY_AGE] = "age",   [BY_USER] = "user",
};

// Of the columns that are numbers.
static double number_of(const struct row *r, int column) {
    const struct device_process *p = r->process;
    const double numbers[SORTS] = {
        [BY_MEMORY] = (double)p->used_bytes,
        [BY_PID] = (double)p->pid,
        [BY_CARD] = -r->card,
        [BY_KIND] = p->kinds,
        [BY_GPU] = p->utilisation,
        [BY_HOST] = (double)p->host_bytes,
        [BY_AGE] = p->age_s,
    };
    return numbers[column];
}

// Of the smaller first.
static int compare_by(const struct row *a, const struct row *b, int column) {
    if (column == BY_NAME) return strcmp(b->process->name, a->process->name);
    if (column == BY_USER) return strcmp(b->process->user, a->process->user);
    return by_number(number_of(a, column), number_of(b, column));
}

static int compare(const void *a, const void *b, void *argument) {
    const struct watch_settings *s = argument;
    int order = compare_by(a, b, s->sort);
    if (order == 0) order = compare_by(a, b, BY_MEMORY);
    if (order == 0) order = compare_by(b, a, BY_PID);
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
    return strcasestr(p->name, look->filter) || strcasestr(p->command, look->filter) ||
           strcasestr(p->user, look->filter) || str_find(number, str_of(look->filter)) >= 0;
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

// "42 s", "9 min", "3.1 h", "12 d"
static struct str age_text(struct watch_draw *d, double s) {
    if (isnan(s)) return STR("–");
    if (s < 100) return str_format(d->scratch, "%.0f s", s);
    if (s < 6000) return str_format(d->scratch, "%.0f min", s / 60);
    if (s < 360000) return str_format(d->scratch, "%.1f h", s / 3600);
    return str_format(d->scratch, "%.0f d", s / 86400);
}

enum { PID, USER, GPU, KIND, BUSY, MEMORY, SHARE, HOST, AGE, COMMAND, COLUMNS };

// The last takes what is left.
static const struct {
    const char *title;
    int width, least_columns; // of the screen
    enum show_align align;
} columns[COLUMNS] = {
    [PID] = {"pid", 8, 0, SHOW_RIGHT},   [USER] = {"user", 8, 66, SHOW_LEFT},
    [GPU] = {"GPU", 3, 0, SHOW_RIGHT},   [KIND] = {"kind", 5, 96, SHOW_LEFT},
    [BUSY] = {"busy", 5, 0, SHOW_RIGHT}, [MEMORY] = {"memory", 8, 0, SHOW_RIGHT},
    [SHARE] = {"%", 5, 96, SHOW_RIGHT},  [HOST] = {"host", 8, 76, SHOW_RIGHT},
    [AGE] = {"age", 6, 60, SHOW_RIGHT},  [COMMAND] = {"command", 0, 0, SHOW_LEFT},
};

static void fill_cells(struct watch_draw *d, const struct row *r, struct str cells[COLUMNS]) {
    static const char *const kinds[] = {"–", "C", "G", "C+G", "M", "C+M", "G+M", "C+G+M"};
    const struct device_process *p = r->process;
    const struct device_card *card = &d->view->devices->cards[r->card];
    cells[PID] = str_format(d->scratch, "%lld", (long long)p->pid);
    cells[USER] = p->user[0] ? str_of(p->user) : STR("–");
    cells[GPU] = str_format(d->scratch, "%d", card->index);
    cells[KIND] = str_of(kinds[p->kinds & 7]);
    cells[BUSY] = watch_text_percent(d, p->utilisation);
    cells[MEMORY] = watch_text_bytes(d, p->used_bytes);
    cells[SHARE] = watch_text_percent(d, unit_share(p->used_bytes, card->now.total_bytes));
    cells[HOST] = watch_text_bytes(d, p->host_bytes);
    cells[AGE] = age_text(d, p->age_s);
    cells[COMMAND] = p->command[0] ? str_of(p->command)
                     : p->name[0]  ? str_of(p->name)
                                   : STR("(another container's, or gone)");
}

// A row of the table; without a process its titles, of which one that does not fit is left out.
static void draw_row(struct watch_draw *d, struct tui_area area, int row, int ink,
                     const struct row *process) {
    int at = 1, all = area.canvas->columns;
    struct str cells[COLUMNS];
    if (process) fill_cells(d, process, cells);
    for (int i = 0; i < COLUMNS; i++) {
        if (all < columns[i].least_columns) continue;
        int width = columns[i].width ? columns[i].width : area.columns - at;
        struct str text = process ? cells[i] : str_of(columns[i].title);
        bool fits = process || show_width(text) <= width;
        if (fits) tui_put_field(area, row, at, width, columns[i].align, ink, text);
        at += width + (columns[i].align == SHOW_LEFT ? 1 : 2);
    }
}

static int unlisted(const struct device_snapshot *devices) {
    int count = 0;
    for (int i = 0; i < devices->count; i++) count += devices->cards[i].processes_unlisted;
    return count;
}

static void draw_process_title(struct watch_draw *d, struct tui_area area, int count, int hidden) {
    const struct watch_look *look = d->look;
    struct tui_area line = {area.canvas, area.row, area.column, 1, area.columns};
    tui_area_fill(line, ' ', TUI_INK_BAND);
    struct buf b = buf_new(d->scratch);
    buf_byte(&b, ' ');
    if (look->filter[0]) buf_format(&b, "%s: ", look->filter);
    if (hidden > 0) buf_format(&b, "+%d more of ", hidden);
    buf_format(&b, "%d", count);
    bool is_live = !look->is_once && area.columns >= 70;
    const char *arrow = look->settings.ascending ? "↑" : "↓";
    if (is_live) buf_format(&b, " by %s %s ", watch_sorts[look->settings.sort], arrow);
    bool is_told = is_live || hidden > 0 || look->filter[0];
    struct str said = is_told ? buf_str(&b) : STR("");
    int width = show_width(said);
    tui_put_field(area, 0, area.columns - width, width, SHOW_RIGHT, TUI_INK_BAND, said);
    area.columns -= width;
    draw_row(d, area, 0, TUI_INK_BAND, NULL);
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
    int more = unlisted(d->view->devices), shown = count < room ? count : room;
    draw_process_title(d, area, count + more, count + more - shown);
    for (int i = 0; i < room && look->first_process + i < count; i++) {
        struct tui_area line = {area.canvas, area.row + 1 + i, area.column, 1, area.columns};
        const struct row *r = &rows[look->first_process + i];
        draw_row(d, area, 1 + i, is_tagged(look, r->process->pid) ? TUI_INK_E : SHOW_PLAIN, r);
        watch_hit_add(d, line, WATCH_HIT_PROCESS, look->first_process + i);
        bool is_cursor = look->has_cursor && look->first_process + i == look->process;
        if (is_cursor) tui_area_row_ink(area, 1 + i, TUI_INK_CURSOR);
    }
    if (count > 0) return;
    bool knows = has_processes(d->view->devices);
    tui_put(area, 1, 2, SHOW_DIM,
            look->filter[0] ? STR("no process matches the filter")
            : knows         ? STR("no process on the GPUs")
                            : STR("the driver does not report processes"));
}
