// SPDX-License-Identifier: Apache-2.0
// The loop of the screen: take in what is new, draw, wait for a key, a signal or the next reading.
// Nothing here waits for a GPU: the machine is opened on a thread of its own while the screen
// already answers to keys, and a reading is taken from the view only when it is there.
#include "verbs/watch/watch.h"

#include "base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
enum { SLACK_MS = 40, LEAST_WAIT_MS = 20 };

// What the thread that opens the machine has of its own: when the user is faster, it is left
// behind.
struct opening {
    struct arena arena;
    struct observe_options options;
    int done; // descriptor: readable when it is done
    struct watch *watch;
    int rc;
    struct fail why;
};

struct session {
    const struct watch_screen_options *options;
    struct show_terminal *terminal;
    struct tui_canvas canvas;
    struct arena scratch;
    struct opening *opening;
    struct watch *watch; // NULL: not yet
    struct watch_look look;
    int64_t begun_ns;
};

static void *open_watch(void *argument) {
    struct opening *o = argument;
    o->rc = observe_open(&o->arena, &o->options, &o->watch, &o->why);
    uint64_t one = 1;
    ssize_t n = write(o->done, &one, sizeof one);
    (void)n;
    return NULL;
}

static int begin_opening(struct session *s, struct fail *why) {
    struct opening *o = calloc(1, sizeof *o);
    pthread_t thread;
    if (o) o->options = s->options->watch;
    if (o) o->done = eventfd(0, EFD_CLOEXEC);
    if (!o || o->done < 0 || pthread_create(&thread, NULL, open_watch, o) != 0) {
        free(o);
        return fail_set(why, FAIL_MACHINE, "cannot start a thread to watch the GPUs");
    }
    pthread_detach(thread);
    s->opening = o;
    return 0;
}

static int take_opened(struct session *s, struct fail *why) {
    struct opening *o = s->opening;
    if (o->rc < 0) {
        *why = o->why;
        return o->rc;
    }
    s->watch = o->watch;
    return 0;
}

static void draw(struct session *s) {
    int rows = 0, columns = 0;
    tui_terminal_size(s->terminal, &rows, &columns);
    s->look.view = s->watch ? observe_view(s->watch) : NULL;
    tui_canvas_begin(&s->canvas, rows, columns, tui_terminal_is_utf8(s->terminal));
    watch_screen_draw(&s->look, &s->canvas, &s->scratch);
    tui_terminal_present(s->terminal, &s->canvas);
}

// The machine is read by its own thread: look shortly after it did, so that what is shown is fresh
// and one look a reading is enough.
static int wait_ms(const struct session *s) {
    int64_t now = os_now_ns(), interval = s->look.interval_ms * MS;
    int64_t next = now + interval;
    if (s->watch) {
        int64_t expected = observe_view(s->watch)->at_ns + interval + SLACK_MS * MS;
        if (expected > now && expected < next) next = expected;
    }
    if (s->options->duration_s > 0) {
        int64_t end = s->begun_ns + (int64_t)(s->options->duration_s * 1e9);
        if (end < next) next = end;
    }
    int64_t ms = (next - now) / MS;
    return ms < LEAST_WAIT_MS ? LEAST_WAIT_MS : (int)ms;
}

static bool is_over(const struct session *s) {
    double seconds = (double)(os_now_ns() - s->begun_ns) / 1e9;
    return s->options->duration_s > 0 && seconds >= s->options->duration_s;
}

static int look_again(struct session *s, struct fail *why) {
    if (!s->watch || (s->look.is_paused && !s->options->logs)) return 0;
    observe_update(s->watch);
    if (!s->options->logs) return 0;
    return watch_logs_add(s->options->logs, observe_view(s->watch), &s->scratch, why);
}

// 1: the user has ended it.
static int take_keys(struct session *s) {
    for (uint32_t key; (key = tui_terminal_key(s->terminal)) != TUI_KEY_NONE;) {
        int row = 0, column = 0;
        bool is_click = key == TUI_KEY_CLICK && tui_terminal_pointer(s->terminal, &row, &column);
        bool goes_on = is_click ? watch_screen_click(&s->look, row, column, &s->scratch)
                                : watch_screen_key(&s->look, key, &s->scratch);
        if (!goes_on) return 1;
    }
    if (s->look.copied[0]) tui_terminal_copy(s->terminal, str_of(s->look.copied));
    s->look.copied[0] = '\0';
    tui_terminal_use_mouse(s->terminal, s->look.settings.mouse != 0);
    return 0;
}

static int handle(struct session *s, enum tui_event event, struct fail *why) {
    if (event == TUI_EVENT_END) return FAIL_INTERRUPTED;
    if (event == TUI_EVENT_KEY) return take_keys(s);
    if (event == TUI_EVENT_TIME) return look_again(s, why);
    if (event != TUI_EVENT_FD) return 0;
    int rc = take_opened(s, why);
    return rc < 0 ? rc : look_again(s, why);
}

static int loop(struct session *s, struct fail *why) {
    int rc = 0;
    while (rc == 0 && !is_over(s)) {
        draw(s);
        int fd = s->watch ? -1 : s->opening->done;
        rc = handle(s, tui_terminal_wait(s->terminal, fd, wait_ms(s)), why);
    }
    return rc > 0 ? 0 : rc;
}

static void finish(struct session *s) {
    tui_terminal_close(s->terminal);
    tui_canvas_free(&s->canvas);
    arena_clear(&s->scratch);
    if (!s->watch) return; // the thread may still be at it: left behind
    observe_close(s->watch);
    close(s->opening->done);
    arena_clear(&s->opening->arena);
    free(s->opening);
}

int watch_screen_run(struct arena *a, const struct watch_screen_options *options,
                     struct fail *why) {
    struct session s = {.options = options, .begun_ns = os_now_ns()};
    s.look = (struct watch_look){
        .settings = options->settings,
        .machine = options->watch.machine,
        .speed = options->watch.speed,
        .interval_ms = options->watch.interval_ms,
        .is_logging = options->logs != NULL,
    };
    snprintf(s.look.message, sizeof s.look.message, "%.*s", STR_ARG(options->note));
    int rc = tui_terminal_open(a, options->ascii, &s.terminal, why);
    if (rc < 0) return rc;
    tui_terminal_use_mouse(s.terminal, s.look.settings.mouse != 0);
    rc = begin_opening(&s, why);
    if (rc == 0) rc = loop(&s, why);
    finish(&s);
    return rc;
}
