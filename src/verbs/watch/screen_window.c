// SPDX-License-Identifier: Apache-2.0
// Windows over the screen (help, setup, sorting, findings, signals), and what keys and clicks do.
// The keys are those of htop and nvtop as far as they fit. Esc closes and undoes; only q ends.
#include "verbs/watch/watch.h"

#include <stdio.h>
#include <string.h>

static const char *const help[][2] = {
    {"q  F10  Ctrl-C", "quit; Esc closes and undoes, and never quits"},
    {"F1  ?  h", "this window"},
    {"F2   F12", "setup: layout, plots, units; save it to a file"},
    {"F6  +  -", "sort the processes; largest, smallest first"},
    {"0 … 9  Left  Right", "choose the GPU of plots and details (or click)"},
    {"Up  Down  k  j", "move through the processes (or the wheel)"},
    {"Space", "mark the process under the cursor, or none"},
    {"F9", "signal to the process under the cursor; asks first"},
    {"/", "only processes with this in command, user or pid"},
    {"f", "all findings, with remedies"},
    {"c", "copy the remedy to the clipboard (OSC 52)"},
    {"p", "pause"},
    {"", ""},
    {"slow", "share of the last minute limited by heat or power"},
    {"ours", "memory of the runs that batchfit launched"},
    {"┃", "in the memory bar: the peak that was predicted"},
    {"host", "memory of the CPU that the process holds"},
};
enum { HELP_ROWS = sizeof help / sizeof *help, MARGIN = 1 };

static void scroll_to(struct watch_look *look, int rows) {
    if (look->window_row >= look->window_rows) look->window_row = look->window_rows - 1;
    if (look->window_row < 0) look->window_row = 0;
    if (look->window_row < look->window_first) look->window_first = look->window_row;
    if (look->window_row >= look->window_first + rows) {
        look->window_first = look->window_row - rows + 1;
    }
}

static void draw_help(struct watch_draw *d, struct tui_area area) {
    int rows = HELP_ROWS + 2 > area.rows ? area.rows - 2 : HELP_ROWS;
    int first = d->look->window_row < HELP_ROWS - rows ? d->look->window_row : HELP_ROWS - rows;
    struct tui_area w = watch_draw_frame(area, rows,
                                         rows < HELP_ROWS ? "Help: Up and Down, any other closes it"
                                                          : "Help: any key closes it");
    d->look->window_rows = HELP_ROWS - rows + 1;
    for (int i = 0; i < rows; i++) {
        const char *const *line = help[first + i];
        tui_put_format(w, i, MARGIN, SHOW_STRONG, "%s", line[0]);
        tui_put_field(w, i, MARGIN + 20, w.columns - MARGIN - 20, SHOW_LEFT, SHOW_PLAIN,
                      str_of(line[1]));
    }
}

static void draw_setup(struct watch_draw *d, struct tui_area area) {
    struct watch_look *look = d->look;
    struct tui_area w =
        watch_draw_frame(area, watch_setting_count, "Setup: Space changes, F12 saves, Esc closes");
    look->window_rows = watch_setting_count;
    scroll_to(look, w.rows);
    for (int i = 0; i < w.rows && look->window_first + i < watch_setting_count; i++) {
        int row = look->window_first + i;
        const struct watch_setting *s = &watch_setting_rows[row];
        tui_put_format(w, i, MARGIN, SHOW_PLAIN, "%s", s->what);
        tui_put_field(w, i, MARGIN + 50, 18, SHOW_LEFT, SHOW_STRONG,
                      str_of(s->words[*watch_setting_at(&look->settings, row)]));
        if (row == look->window_row) tui_area_row_ink(w, i, TUI_INK_CURSOR);
    }
}

static void draw_sort(struct watch_draw *d, struct tui_area area) {
    struct watch_look *look = d->look;
    struct tui_area w = watch_draw_frame(area, WATCH_SORTS, "Sort the processes by");
    look->window_rows = WATCH_SORTS;
    scroll_to(look, w.rows);
    for (int i = 0; i < w.rows && i < WATCH_SORTS; i++) {
        tui_put_format(w, i, MARGIN, SHOW_PLAIN, "%s", watch_sorts[i]);
        if (i == look->window_row) tui_area_row_ink(w, i, TUI_INK_CURSOR);
    }
}

// One after the other, each wrapped, from the chosen one on.
static void draw_findings(struct watch_draw *d, struct tui_area area) {
    struct watch_look *look = d->look;
    int count = watch_findings_shown(d->view), at = 0;
    struct tui_area w = watch_draw_frame(
        area, area.rows - 4, "Findings: Up and Down choose, c copies the remedy, Esc closes");
    look->window_rows = count;
    if (look->window_row >= count) look->window_row = count > 0 ? count - 1 : 0;
    if (count == 0) tui_put(w, 0, MARGIN, SHOW_GOOD, STR("no findings"));
    w.columns -= MARGIN;
    for (int i = look->window_row; i < count && at < w.rows; i++) {
        const struct finding *f = watch_finding_at(d->view, i);
        int ink = f->severity == FINDING_PROBLEM ? SHOW_BAD : SHOW_WARN;
        tui_put(w, at, MARGIN, ink, i == look->window_row ? STR("▸") : STR("▲"));
        at += tui_put_wrapped(w, at, MARGIN + 2, ink, watch_finding_text(d, f));
        at += tui_put_wrapped(w, at, MARGIN + 2, SHOW_PLAIN, f->evidence);
        if (f->remedy.len && at < w.rows) tui_put(w, at, MARGIN + 2, SHOW_DIM, STR("→"));
        at += tui_put_wrapped(w, at, MARGIN + 4, SHOW_STRONG, f->remedy) + 1;
    }
    if (count > 1) {
        struct tui_area end = {w.canvas, w.row + w.rows, w.column, 1, w.columns};
        tui_put_format(end, 0, 1, SHOW_DIM, " %d of %d ", look->window_row + 1, count);
    }
}

void watch_draw_window(struct watch_draw *d, struct tui_area area) {
    static void (*const draws[])(struct watch_draw *, struct tui_area) = {
        [WATCH_WINDOW_HELP] = draw_help,           [WATCH_WINDOW_SETUP] = draw_setup,
        [WATCH_WINDOW_SORT] = draw_sort,           [WATCH_WINDOW_FINDINGS] = draw_findings,
        [WATCH_WINDOW_SIGNAL] = watch_draw_signal, [WATCH_WINDOW_CONFIRM] = watch_draw_confirm,
    };
    if (d->look->window == WATCH_WINDOW_FINDINGS && !d->view) return;
    draws[d->look->window](d, area);
}

static void open_window(struct watch_look *look, enum watch_window_kind kind) {
    look->window = kind;
    look->window_row = kind == WATCH_WINDOW_SORT ? look->settings.sort : 0;
    look->window_first = 0;
}

static void save(struct watch_look *look, struct arena *scratch) {
    struct fail why = {0};
    struct str path = {0};
    struct arena_mark mark = arena_mark(scratch);
    int rc = watch_settings_save(scratch, &look->settings, &path, &why);
    if (rc < 0)
        snprintf(look->message, sizeof look->message, "%s", why.message);
    else
        snprintf(look->message, sizeof look->message, "saved in %.*s", STR_ARG(path));
    arena_rewind(scratch, mark);
}

static bool is_space(uint32_t key) {
    return key == ' ' || key == TUI_KEY_ENTER;
}

// True: the key moved the cursor by so much.
static bool moved(uint32_t key, int page, int *ret_by) {
    const struct {
        uint32_t key;
        int by;
    } moves[] = {{TUI_KEY_UP, -1},         {'k', -1},
                 {TUI_KEY_DOWN, 1},        {'j', 1},
                 {TUI_KEY_PAGE_UP, -page}, {TUI_KEY_PAGE_DOWN, page},
                 {TUI_KEY_HOME, -100000},  {TUI_KEY_END, 100000},
                 {TUI_KEY_WHEEL_UP, -3},   {TUI_KEY_WHEEL_DOWN, 3}};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].key != key) continue;
        *ret_by = moves[i].by;
        return true;
    }
    return false;
}

static void change_setting(struct watch_look *look, int by) {
    const struct watch_setting *row = &watch_setting_rows[look->window_row];
    int *value = watch_setting_at(&look->settings, look->window_row);
    *value = (*value + by + row->count) % row->count;
}

// What a shell can run stands in ` `: that, else all of the remedy.
static void copy_remedy(struct watch_look *look) {
    int number = look->window == WATCH_WINDOW_FINDINGS ? look->window_row : 0;
    const struct finding *f = look->view ? watch_finding_at(look->view, number) : NULL;
    if (!f || f->remedy.len == 0) {
        snprintf(look->message, sizeof look->message, "nothing to copy: no finding");
        return;
    }
    struct str text = f->remedy, rest = text;
    str_cut(&rest, '`');
    struct str command = str_cut(&rest, '`');
    if (command.len > 0 && rest.p) text = command;
    snprintf(look->copied, sizeof look->copied, "%.*s", STR_ARG(text));
    snprintf(look->message, sizeof look->message, "copied: %s", look->copied);
}

static void window_key(struct watch_look *look, uint32_t key, struct arena *scratch) {
    int by = 0;
    bool is_signal = look->window == WATCH_WINDOW_SIGNAL;
    if (look->window == WATCH_WINDOW_CONFIRM) {
        look->window = WATCH_WINDOW_NONE;
        if (key == 'y') watch_signal_send(look);
    } else if (moved(key, 10, &by) && look->window_rows > 1) {
        look->window_row += by;
        if (look->window_row >= look->window_rows) look->window_row = look->window_rows - 1;
        if (look->window_row < 0) look->window_row = 0;
    } else if (look->window == WATCH_WINDOW_FINDINGS && key == 'c') {
        copy_remedy(look);
    } else if (is_signal && key == TUI_KEY_ENTER) {
        watch_signal_choose(look);
    } else if (look->window == WATCH_WINDOW_SETUP && key == TUI_KEY_F0 + 12) {
        save(look, scratch);
    } else if (look->window == WATCH_WINDOW_SETUP &&
               (is_space(key) || key == TUI_KEY_RIGHT || key == 'l')) {
        change_setting(look, 1);
    } else if (look->window == WATCH_WINDOW_SETUP && (key == TUI_KEY_LEFT || key == 'h')) {
        change_setting(look, -1);
    } else {
        if (look->window == WATCH_WINDOW_SORT && is_space(key)) {
            look->settings.sort = look->window_row;
        }
        look->window = WATCH_WINDOW_NONE;
    }
}

static void type_key(struct watch_look *look, uint32_t key) {
    size_t length = strlen(look->filter);
    if (key == TUI_KEY_ENTER || key == TUI_KEY_ESCAPE) {
        look->is_typing = false;
        if (key == TUI_KEY_ESCAPE) look->filter[0] = '\0';
    } else if (key == TUI_KEY_BACKSPACE && length > 0) {
        look->filter[length - 1] = '\0';
    } else if (key >= ' ' && key < 127 && length + 1 < sizeof look->filter) {
        look->filter[length] = (char)key;
        look->filter[length + 1] = '\0';
    }
}

static void toggle_tag(struct watch_look *look) {
    if (!look->has_cursor) return;
    for (int i = 0; i < look->tag_count; i++) {
        if (look->tags[i] != look->cursor_pid) continue;
        look->tags[i] = look->tags[--look->tag_count];
        return;
    }
    if (look->tag_count < WATCH_TAGS) look->tags[look->tag_count++] = look->cursor_pid;
}

static void move_cursor(struct watch_look *look, int by) {
    int to = look->has_cursor ? look->process + by : by > 0 ? 0 : look->process;
    if (to >= look->process_count) to = look->process_count - 1;
    look->process = to < 0 ? 0 : to;
    look->has_cursor = look->cursor_moved = true;
}

static void choose_card(struct watch_look *look, int place) {
    int count = look->view ? look->view->devices->count : 0;
    if (place < 0 || place >= count) return;
    look->card = place;
    look->has_chosen = true;
}

// By the driver's number, as everywhere; of a divided GPU, its first instance.
static void choose_index(struct watch_look *look, int index) {
    int count = look->view ? look->view->devices->count : 0;
    for (int i = 0; i < count; i++) {
        if (look->view->devices->cards[i].index != index) continue;
        choose_card(look, i);
        return;
    }
}

static const struct {
    uint32_t key;
    enum watch_window_kind window;
} windows[] = {{'?', WATCH_WINDOW_HELP},
               {'h', WATCH_WINDOW_HELP},
               {TUI_KEY_F0 + 1, WATCH_WINDOW_HELP},
               {TUI_KEY_F0 + 2, WATCH_WINDOW_SETUP},
               {TUI_KEY_F0 + 6, WATCH_WINDOW_SORT},
               {'f', WATCH_WINDOW_FINDINGS}};

static bool opened(struct watch_look *look, uint32_t key) {
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        if (windows[i].key != key) continue;
        open_window(look, windows[i].window);
        return true;
    }
    return false;
}

static void main_key(struct watch_look *look, uint32_t key, struct arena *scratch) {
    int by = 0;
    if (opened(look, key)) return;
    if (moved(key, look->process_rows, &by))
        move_cursor(look, by);
    else if (key == TUI_KEY_LEFT)
        choose_card(look, look->card - 1);
    else if (key == TUI_KEY_RIGHT || key == 'l' || key == '\t')
        choose_card(look, look->card + 1);
    else if (key >= '0' && key <= '9')
        choose_index(look, (int)(key - '0'));
    else if (key == '+' || key == '-')
        look->settings.ascending = key == '-';
    else if (key == '/')
        look->is_typing = true;
    else if (key == ' ')
        toggle_tag(look);
    else if (key == 'c')
        copy_remedy(look);
    else if (key == TUI_KEY_F0 + 9)
        watch_signal_open(look);
    else if (key == 'p')
        look->is_paused = !look->is_paused;
    else if (key == TUI_KEY_F0 + 12)
        save(look, scratch);
}

bool watch_screen_key(struct watch_look *look, uint32_t key, struct arena *scratch) {
    look->message[0] = '\0';
    if (look->is_typing) {
        type_key(look, key);
        return true;
    }
    if (look->window != WATCH_WINDOW_NONE) {
        window_key(look, key, scratch);
        return true;
    }
    if (key == TUI_KEY_ESCAPE) {
        look->filter[0] = '\0';
        look->has_cursor = look->has_chosen = false;
        return true;
    }
    if (key == 'q' || key == TUI_KEY_F0 + 10) return false;
    main_key(look, key, scratch);
    return true;
}

// A click beside a window closes it, but answers no question.
bool watch_screen_click(struct watch_look *look, int row, int column, struct arena *scratch) {
    const struct watch_hit *hit = watch_hit_at(look, row, column);
    if (look->window != WATCH_WINDOW_NONE || look->is_typing)
        return watch_screen_key(look, TUI_KEY_ESCAPE, scratch);
    look->message[0] = '\0';
    if (!hit) return true;
    if (hit->kind == WATCH_HIT_KEY) return watch_screen_key(look, (uint32_t)hit->value, scratch);
    if (hit->kind == WATCH_HIT_CARD) choose_card(look, hit->value);
    if (hit->kind == WATCH_HIT_FINDING) {
        open_window(look, WATCH_WINDOW_FINDINGS);
        look->window_row = hit->value;
    }
    if (hit->kind == WATCH_HIT_PROCESS) {
        look->process = hit->value;
        look->has_cursor = look->cursor_moved = true;
    }
    return true;
}
