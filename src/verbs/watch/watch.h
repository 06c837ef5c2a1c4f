// SPDX-License-Identifier: Apache-2.0
// The screen of `batchfit watch`: a look at a view of the machine, drawn on a canvas. Drawing is a
// pure function of the view, the settings and what the user has chosen; the keys change the latter.
//
// Recipe: to show one more figure as a history plot
//   1. give it a row in the table of screen_plot.c: its word, its colour, where it is from;
//   2. that is all: setup, the file of settings and the plots go by the table.
#pragma once

#include "measure/observe/observe.h"
#include "view/tui/tui.h"

enum { WATCH_FIGURES = 6, WATCH_TAGS = 64, WATCH_FILTER_MAX = 48, WATCH_MESSAGE_MAX = 200 };
enum { WATCH_HITS = 96, WATCH_COPY_MAX = 600 };
enum { WATCH_LEAST_ROWS = 12, WATCH_LEAST_COLUMNS = 60 };

// What is kept in the file of settings.
struct watch_settings {
    int plots[WATCH_FIGURES];           // 1: this figure is plotted
    int plot_kind;                      // enum tui_plot_kind
    int cpu, runs, findings, processes; // 1: this part is shown
    int cards;                          // 0: as there is room, 1: blocks, 2: one line a GPU
    int fahrenheit;
    int sort, ascending; // column of the processes
    int mouse;           // 1: clicks and the wheel are ours, not the terminal's
    int interval;        // place in the words of its row; 0: as usual
};
struct watch_settings watch_settings_usual(void);
// As `key = value` lines (doc/formats/watch-conf.md). A line that cannot be used is passed over,
// and *note says which. No file is no error.
void watch_settings_load(struct arena *a, struct watch_settings *settings, struct str *ret_note);
int watch_settings_save(struct arena *a, const struct watch_settings *settings,
                        struct str *ret_path, struct fail *why);

// A row of the setup window: what it is, and the words of its values 0, 1, …
struct watch_setting {
    const char *key, *what;
    size_t offset; // of an int in struct watch_settings
    const char *const *words;
    int count;
};
extern const struct watch_setting watch_setting_rows[];
extern const int watch_setting_count;
static inline int *watch_setting_at(struct watch_settings *settings, int row) {
    return (int *)(void *)((char *)settings + watch_setting_rows[row].offset);
}

enum watch_window_kind {
    WATCH_WINDOW_NONE,
    WATCH_WINDOW_HELP,
    WATCH_WINDOW_SETUP,
    WATCH_WINDOW_SORT,
    WATCH_WINDOW_FINDINGS,
    WATCH_WINDOW_SIGNAL,
    WATCH_WINDOW_CONFIRM,
};

// What a place of the screen stands for, so that it can be clicked.
enum watch_hit_kind { WATCH_HIT_CARD, WATCH_HIT_PROCESS, WATCH_HIT_FINDING, WATCH_HIT_KEY };
struct watch_hit {
    struct tui_area area;
    enum watch_hit_kind kind;
    int value; // place of the GPU, place in the list, or the key
};

// Who gets a signal: known by its beginning, because numbers are used again.
struct watch_target {
    int64_t pid, start_ticks;
    int signal;
    char what[160], user[24];
};

struct watch_look {
    const struct observe_view *view; // NULL: the driver has not answered yet
    struct watch_settings settings;
    const char *machine; // the folder of a recorded one; NULL: this one
    double speed;
    int interval_ms;
    int64_t now_ns;
    bool is_once; // a text without keys and plots
    bool is_paused, is_logging;
    int card;        // that is chosen: the one with the worst finding, until the user chooses
    bool has_chosen; // the user has
    int process, first_process;      // under the cursor; at the top
    int process_count, process_rows; // as drawn last
    bool has_cursor, cursor_moved;
    int64_t cursor_pid; // the process that the cursor stays on, and its GPU
    int cursor_card;
    int64_t tags[WATCH_TAGS];
    int tag_count;
    char filter[WATCH_FILTER_MAX];
    bool is_typing; // the filter
    enum watch_window_kind window;
    int window_row, window_first, window_rows; // chosen; at the top; how many there are
    char message[WATCH_MESSAGE_MAX];           // instead of the line of keys; empty: none
    struct watch_target target;
    char copied[WATCH_COPY_MAX]; // for the terminal's clipboard; empty: nothing
    struct watch_hit hits[WATCH_HITS];
    int hit_count;
};

// Draws all of it. Scratch memory is taken from the arena and given back.
void watch_screen_draw(struct watch_look *look, struct tui_canvas *canvas, struct arena *scratch);
// False: the key ends the screen.
bool watch_screen_key(struct watch_look *look, uint32_t key, struct arena *scratch);
bool watch_screen_click(struct watch_look *look, int row, int column, struct arena *scratch);

struct watch_log;
struct watch_screen_options {
    struct observe_options watch;
    struct watch_settings settings;
    struct str note; // of the settings
    double duration_s;
    bool ascii;
    struct watch_log *logs; // NULL: none
};
// Until the user ends it, or the duration. FAIL_INTERRUPTED without a message: by a signal.
int watch_screen_run(struct arena *a, const struct watch_screen_options *options, struct fail *why);

// Parts of it; each draws into its area.
struct watch_draw {
    struct watch_look *look;
    const struct observe_view *view;
    struct arena *scratch;
};
void watch_draw_block(struct watch_draw *d, struct tui_area area, int card);
int watch_draw_block_rows(const struct watch_draw *d, int columns);
void watch_draw_line_title(struct watch_draw *d, struct tui_area area);
void watch_draw_line(struct watch_draw *d, struct tui_area area, int row, int card);
void watch_draw_detail(struct watch_draw *d, struct tui_area area, int card);
void watch_draw_plots(struct watch_draw *d, struct tui_area area);
int watch_plot_count(const struct watch_settings *settings);
void watch_draw_run(struct watch_draw *d, struct tui_area area, int run);
// Warnings and problems, the worst first; NULL: there is no n-th.
const struct finding *watch_finding_at(const struct observe_view *view, int n);
int watch_findings_shown(const struct observe_view *view);
// "GPU 5, time throttled: 25 %"
struct str watch_finding_text(struct watch_draw *d, const struct finding *f);
// The one sentence that says how things are; columns that it may take.
void watch_draw_status(struct watch_draw *d, struct tui_area area);
struct str watch_status_text(struct watch_draw *d); // the same as a text
int watch_worst_card(const struct observe_view *view);
void watch_draw_findings(struct watch_draw *d, struct tui_area area);
void watch_draw_processes(struct watch_draw *d, struct tui_area area);
enum { WATCH_SORTS = 9 };
extern const char *const watch_sorts[WATCH_SORTS];
void watch_draw_window(struct watch_draw *d, struct tui_area area);
struct tui_area watch_draw_frame(struct tui_area area, int rows, const char *title);
void watch_hit_add(struct watch_draw *d, struct tui_area area, enum watch_hit_kind kind, int value);
const struct watch_hit *watch_hit_at(const struct watch_look *look, int row, int column);
// "train.py · resnet50"
struct str watch_run_name(struct watch_draw *d, const struct observe_run *run);

// Signals to processes: which, and the question before.
void watch_draw_signal(struct watch_draw *d, struct tui_area area);
void watch_draw_confirm(struct watch_draw *d, struct tui_area area);
void watch_signal_open(struct watch_look *look); // of the process under the cursor
void watch_signal_choose(struct watch_look *look);
void watch_signal_send(struct watch_look *look);

// Texts of figures; unknown is a dash.
struct str watch_text_percent(struct watch_draw *d, double share);
struct str watch_text_bytes(struct watch_draw *d, int64_t bytes);
struct str watch_text_number(struct watch_draw *d, double value, const char *unit);
struct str watch_text_temperature(struct watch_draw *d, double celsius);
struct str watch_text_span(struct watch_draw *d, int64_t ns); // "0:42", "3:07:12"

// Texts that flow over the rows of an area, with a dot in between; what does not fit is counted.
struct watch_flow {
    struct tui_area area;
    int row, column, indent;
    bool is_begun;
    int left_out; // how many did not fit
    int last_begin, last_end;
};
__attribute__((format(printf, 4, 5))) void watch_flow_add(struct watch_draw *d,
                                                          struct watch_flow *flow, int ink,
                                                          const char *format, ...);

// Logs of a watched machine: CSV with dmon's column names, one row a GPU and reading
// (doc/formats/watch-log.md), and JSON Lines, one document a reading (doc/formats/watch.md). What
// is in the file are whole lines, whatever happens.

struct watch_log; // private

// `files`: their names, one a line. An existing file is gone on with when it is a log of ours, else
// FAIL_INPUT. FAIL_USAGE: a name that does not end in .csv, .jsonl or .json.
int watch_logs_open(struct arena *a, const char *files, struct watch_log **ret_logs,
                    struct fail *why);
// Adds what the view has of new readings to all of them. FAIL_MACHINE: a full disk, a reader that
// has gone, a file that was removed; the last line is whole.
int watch_logs_add(struct watch_log *logs, const struct observe_view *view, struct arena *scratch,
                   struct fail *why);
// One that writes documents to this descriptor, in front of `others` (NULL: none).
struct watch_log *watch_log_on(struct arena *a, int fd, const char *name, struct watch_log *others);
void watch_logs_close(struct watch_log *logs);
