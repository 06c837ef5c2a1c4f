// SPDX-License-Identifier: Apache-2.0
// The terminal, by ncursesw: it knows the sequences of all of them and sends what has changed.
// Signals are blocked and read from a descriptor, so that everything is done in one place and none
// of ncurses's own handlers ever runs. Sources: ncurses(3X), terminfo(5), signalfd(2); NO_COLOR is
// no-color.org.
#include "view/tui/tui.h"

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#undef columns // term.h has short names for its capabilities
#undef lines

enum { ESCAPE_MS = 25, SEQUENCE_MAX = 256, PAIR_FIRST = 1 };

struct show_terminal {
    SCREEN *screen;
    int signals; // the descriptor
    bool utf8, is_gone;
    int rows, columns;
    struct tui_canvas shown;
    bool is_stale; // what is shown is not known
    bool uses_mouse;
    int click_row, click_column; // of the last click; -1: none
    attr_t attributes[TUI_INKS];
    short pairs[TUI_INKS];
};

// What a handler may use when the program crashes: the modes as they were, and what turns the
// cursor on and the alternate screen off.
static struct {
    volatile sig_atomic_t is_on;
    struct termios modes;
    char sequence[SEQUENCE_MAX];
    size_t length;
} before;

static void restore(void) {
    if (!before.is_on) return;
    before.is_on = 0;
    ssize_t n = write(STDOUT_FILENO, before.sequence, before.length);
    (void)n; // nobody is left to be told
    tcsetattr(STDIN_FILENO, TCSANOW, &before.modes);
}

static void on_crash(int number) {
    restore();
    signal(number, SIG_DFL);
    raise(number);
}

static void keep_for_crash(void) {
    static const char *const names[] = {"rmkx", "sgr0", "cnorm", "rmcup"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = tigetstr(names[i]);
        bool is_told = text && text != (char *)-1;
        size_t length = is_told ? strlen(text) : 0;
        if (before.length + length > sizeof before.sequence) continue;
        if (length) memcpy(before.sequence + before.length, text, length);
        before.length += length;
    }
    // What mousemask() has turned on: SGR and button reports.
    static const char mouse_off[] = "\033[?1006;1000l";
    size_t length = sizeof mouse_off - 1;
    bool has_mouse = tigetstr("kmous") && tigetstr("kmous") != (char *)-1;
    if (has_mouse && before.length + length <= sizeof before.sequence) {
        memcpy(before.sequence + before.length, mouse_off, length);
        before.length += length;
    }
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], on_crash);
    static bool is_registered;
    if (!is_registered) atexit(restore);
    is_registered = true;
    before.is_on = 1;
}

static sigset_t handled(void) {
    sigset_t set;
    sigemptyset(&set);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&set, numbers[i]);
    return set;
}

void tui_terminal_block_signals(void) {
    sigset_t set = handled();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

// Only characters: numbers are written with a point in every country.
static bool set_locale(void) {
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) {
        // Containers often have no other one.
        if (show_style_of(STDOUT_FILENO).utf8) setlocale(LC_CTYPE, "C.UTF-8");
    }
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static const struct {
    attr_t attributes; // always
    attr_t instead;    // where there are no colours
    short few, many;   // of 8 colours, and of 256: -1: the terminal's own
} looks[TUI_INKS] = {
    [SHOW_PLAIN] = {A_NORMAL, A_NORMAL, -1, -1},
    [SHOW_STRONG] = {A_BOLD, A_NORMAL, -1, -1},
    [SHOW_DIM] = {A_DIM, A_NORMAL, -1, -1},
    [SHOW_GOOD] = {A_NORMAL, A_NORMAL, COLOR_GREEN, 71},
    [SHOW_WARN] = {A_NORMAL, A_BOLD, COLOR_YELLOW, 172},
    [SHOW_BAD] = {A_BOLD, A_BOLD, COLOR_RED, 167},
    [TUI_INK_A] = {A_NORMAL, A_NORMAL, COLOR_CYAN, 73},
    [TUI_INK_B] = {A_NORMAL, A_NORMAL, COLOR_BLUE, 68},
    [TUI_INK_C] = {A_NORMAL, A_NORMAL, COLOR_MAGENTA, 133},
    [TUI_INK_D] = {A_NORMAL, A_NORMAL, COLOR_GREEN, 71},
    [TUI_INK_E] = {A_NORMAL, A_NORMAL, COLOR_YELLOW, 172},
    [TUI_INK_F] = {A_NORMAL, A_NORMAL, -1, 245},
    [TUI_INK_BAND] = {A_REVERSE, A_NORMAL, -1, -1},
    [TUI_INK_CURSOR] = {A_REVERSE | A_BOLD, A_NORMAL, -1, -1},
};

static void prepare_inks(struct show_terminal *t) {
    const char *no_colour = getenv("NO_COLOR");
    bool has_colours = has_colors() && !(no_colour && *no_colour) && start_color() == OK;
    short background = has_colours && use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (int i = 0; i < TUI_INKS; i++) {
        short colour = COLORS >= 256 ? looks[i].many : looks[i].few;
        t->attributes[i] = looks[i].attributes | (has_colours ? 0 : looks[i].instead);
        if (!has_colours || colour < 0) continue;
        t->pairs[i] = (short)(PAIR_FIRST + i);
        init_pair(t->pairs[i], colour, background);
    }
}

static void take_size(struct show_terminal *t) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
        resizeterm(size.ws_row, size.ws_col);
    }
    getmaxyx(stdscr, t->rows, t->columns);
    t->is_stale = true;
}

static int refuse(struct fail *why) {
    const char *name = getenv("TERM");
    fail_set(why, FAIL_MACHINE, "the terminal '%s' cannot position the cursor",
             name ? name : "(TERM is not set)");
    return fail_hint(
        why, "set TERM to your terminal's type (xterm-256color), or use --once, --log or --json");
}

int tui_terminal_open(struct arena *a, bool ascii, struct show_terminal **ret_terminal,
                      struct fail *why) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        return fail_set(why, FAIL_MACHINE, "stdin or stdout is not a terminal");
    }
    tui_terminal_block_signals();
    struct show_terminal *t = arena_new(a, struct show_terminal, 1);
    t->utf8 = set_locale() && !ascii;
    int error = 0;
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK || !tigetstr("cup") ||
        tigetstr("cup") == (char *)-1) {
        return refuse(why);
    }
    tcgetattr(STDIN_FILENO, &before.modes);
    t->screen = newterm(NULL, stdout, stdin);
    if (!t->screen) return refuse(why);
    keep_for_crash();
    sigset_t set = handled();
    t->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    prepare_inks(t);
    take_size(t);
    t->click_row = -1;
    *ret_terminal = t;
    return 0;
}

bool tui_terminal_is_utf8(const struct show_terminal *t) {
    return t->utf8;
}

void tui_terminal_size(const struct show_terminal *t, int *ret_rows, int *ret_columns) {
    *ret_rows = t->rows;
    *ret_columns = t->columns;
}

// A character whose width the C library sees otherwise would shift the line.
static wchar_t safe(struct tui_glyph g, bool is_wide) {
    if (g.c < 0x80) return (wchar_t)g.c;
    return wcwidth((wchar_t)g.c) == (is_wide ? 2 : 1) ? (wchar_t)g.c : L'?';
}

// A stretch of one ink; returns where it ends.
static int send_stretch(struct show_terminal *t, const struct tui_glyph *row, int from) {
    wchar_t text[256];
    int n = 0, i = from;
    for (; i < t->columns && row[i].ink == row[from].ink && n < 254; i++) {
        if (row[i].c == 0) continue;
        bool is_wide = i + 1 < t->columns && row[i + 1].c == 0;
        text[n] = safe(row[i], is_wide);
        if (is_wide && text[n] == L'?') text[++n] = L' ';
        n++;
    }
    (void)attr_set(t->attributes[row[from].ink], t->pairs[row[from].ink], NULL);
    addnwstr(text, n);
    return i;
}

void tui_terminal_present(struct show_terminal *t, const struct tui_canvas *canvas) {
    if (canvas->rows != t->rows || canvas->columns != t->columns) return;
    if (t->is_stale) clearok(curscr, TRUE);
    bool is_new = t->is_stale || t->shown.rows != t->rows || t->shown.columns != t->columns;
    if (is_new) tui_canvas_begin(&t->shown, t->rows, t->columns, t->utf8);
    size_t bytes = (size_t)t->columns * sizeof(struct tui_glyph);
    bool has_changed = is_new;
    for (int row = 0; row < t->rows; row++) {
        const struct tui_glyph *now = canvas->glyphs + (ptrdiff_t)row * t->columns;
        struct tui_glyph *old = t->shown.glyphs + (ptrdiff_t)row * t->columns;
        if (!is_new && memcmp(now, old, bytes) == 0) continue;
        memcpy(old, now, bytes);
        has_changed = true;
        move(row, 0);
        for (int i = 0; i < t->columns;) i = send_stretch(t, now, i);
    }
    t->is_stale = false;
    if (!has_changed) return;
    wnoutrefresh(stdscr);
    doupdate();
}

// Stopped by Ctrl-Z: the terminal is the shell's until we go on.
static void stop(struct show_terminal *t) {
    endwin();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); // here it stops
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)t;
}

static enum tui_event take_signals(struct show_terminal *t) {
    enum tui_event event = TUI_EVENT_TIME;
    struct signalfd_siginfo info;
    while (read(t->signals, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGINT || number == SIGTERM || number == SIGHUP) return TUI_EVENT_END;
        if (number == SIGTSTP) stop(t);
        event = TUI_EVENT_SCREEN;
    }
    if (event == TUI_EVENT_SCREEN) take_size(t);
    return event;
}

enum tui_event tui_terminal_wait(struct show_terminal *t, int fd, int timeout_ms) {
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = t->signals, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    int n = poll(fds, 3, timeout_ms);
    if (n < 0 && errno != EINTR) return TUI_EVENT_END;
    if (n <= 0) return TUI_EVENT_TIME;
    if (fds[1].revents) return take_signals(t);
    t->is_gone = (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    if (t->is_gone) return TUI_EVENT_END;
    return fds[0].revents ? TUI_EVENT_KEY : TUI_EVENT_FD;
}

static const struct {
    wint_t code;
    uint32_t key;
} named_keys[] = {
    {KEY_UP, TUI_KEY_UP},         {KEY_DOWN, TUI_KEY_DOWN},
    {KEY_LEFT, TUI_KEY_LEFT},     {KEY_RIGHT, TUI_KEY_RIGHT},
    {KEY_PPAGE, TUI_KEY_PAGE_UP}, {KEY_NPAGE, TUI_KEY_PAGE_DOWN},
    {KEY_HOME, TUI_KEY_HOME},     {KEY_END, TUI_KEY_END},
    {KEY_ENTER, TUI_KEY_ENTER},   {KEY_BACKSPACE, TUI_KEY_BACKSPACE},
};

// The second button up and down is the wheel; presses only, so that nothing waits for a double.
static uint32_t mouse_key(struct show_terminal *t) {
    MEVENT event;
    if (getmouse(&event) != OK) return TUI_KEY_OTHER;
    t->click_row = event.y;
    t->click_column = event.x;
    if (event.bstate & BUTTON4_PRESSED) return TUI_KEY_WHEEL_UP;
    if (event.bstate & BUTTON5_PRESSED) return TUI_KEY_WHEEL_DOWN;
    return event.bstate & BUTTON1_PRESSED ? TUI_KEY_CLICK : TUI_KEY_OTHER;
}

void tui_terminal_use_mouse(struct show_terminal *t, bool is_used) {
    if (t->uses_mouse == is_used) return;
    t->uses_mouse = is_used;
    mouseinterval(0);
    mousemask(is_used ? BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
}

bool tui_terminal_pointer(const struct show_terminal *t, int *ret_row, int *ret_column) {
    *ret_row = t->click_row;
    *ret_column = t->click_column;
    return t->click_row >= 0;
}

// "ESC ] 52 ; c ; BASE64 BEL" (XTerm Control Sequences, "Operating System Commands"). Terminals
// that do not know it ignore it.
void tui_terminal_copy(struct show_terminal *t, struct str text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    (void)t;
    buf_add(&b, STR("\033]52;c;"));
    for (ptrdiff_t i = 0; i < text.len; i += 3) {
        uint32_t bits = 0;
        for (ptrdiff_t j = i; j < i + 3; j++)
            bits = bits << 8 | (j < text.len ? (unsigned char)text.p[j] : 0);
        for (int j = 0; j < 4; j++)
            buf_byte(&b, i + j > text.len ? '=' : digits[bits >> (18 - 6 * j) & 63]);
    }
    buf_byte(&b, '\a');
    struct str sequence = buf_str(&b);
    fflush(stdout);
    ssize_t n = write(STDOUT_FILENO, sequence.p, (size_t)sequence.len);
    (void)n; // a terminal that is gone is met by the wait
}

static uint32_t key_of(wint_t code) {
    if (code >= KEY_F(0) && code <= KEY_F(63)) return TUI_KEY_F0 + (uint32_t)(code - KEY_F(0));
    for (size_t i = 0; i < sizeof named_keys / sizeof *named_keys; i++) {
        if (named_keys[i].code == code) return named_keys[i].key;
    }
    return TUI_KEY_OTHER;
}

uint32_t tui_terminal_key(struct show_terminal *t) {
    wint_t code = 0;
    int kind = get_wch(&code);
    if (kind == ERR) return TUI_KEY_NONE;
    if (kind == KEY_CODE_YES && code == KEY_MOUSE) return mouse_key(t);
    if (kind == KEY_CODE_YES) return key_of(code);
    if (code == '\r') return TUI_KEY_ENTER;
    return code == 8 ? TUI_KEY_BACKSPACE : code == 0 ? TUI_KEY_OTHER : (uint32_t)code;
}

void tui_terminal_close(struct show_terminal *t) {
    if (!t || !t->screen) return;
    if (!t->is_gone) endwin();
    delscreen(t->screen);
    t->screen = NULL;
    restore();
    close(t->signals);
    tui_canvas_free(&t->shown);
}
