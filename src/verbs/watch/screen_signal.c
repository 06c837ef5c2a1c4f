// SPDX-License-Identifier: Apache-2.0
// A signal to a process, as in htop and nvtop: chosen from a list, and sent only when a question
// with the process's name in it is answered with y. What could be another process by now, is not of
// this machine or is not visible from here gets nothing. pidfd_open(2), since Linux 5.3: the
// process that was looked at is the one that gets the signal.
#include "verbs/watch/watch.h"

#include "base/os.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MARGIN = 2 };

static const struct {
    int number;
    const char *name, *what;
} signals[] = {
    {SIGTERM, "SIGTERM", "ends it, in order: the usual one"},
    {SIGINT, "SIGINT", "as Ctrl-C: many trainings save and end"},
    {SIGUSR1, "SIGUSR1", "up to the program: often a checkpoint"},
    {SIGSTOP, "SIGSTOP", "stops it; its GPU memory stays taken"},
    {SIGCONT, "SIGCONT", "lets it go on"},
    {SIGKILL, "SIGKILL", "ends it at once; nothing is saved"},
};
enum { SIGNALS = sizeof signals / sizeof *signals };

static const char *name_of(int number) {
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i].number == number) return signals[i].name;
    }
    return "?";
}

static const struct device_process *under_cursor(const struct watch_look *look) {
    const struct device_snapshot *devices = look->view ? look->view->devices : NULL;
    bool is_there = devices && look->has_cursor && look->cursor_card < devices->count;
    const struct device_card *card = is_there ? &devices->cards[look->cursor_card] : NULL;
    for (int i = 0; card && i < card->process_count; i++) {
        if (card->processes[i].pid == look->cursor_pid) return &card->processes[i];
    }
    return NULL;
}

static const char *refusal(const struct watch_look *look, const struct device_process *p) {
    if (!p) return "choose a process first: Up and Down";
    if (look->machine || look->view->devices->standin.len) return "not a process of this machine";
    if (p->start_ticks < 0) return "this process is not visible from here: another container's";
    return NULL;
}

void watch_signal_open(struct watch_look *look) {
    const struct device_process *p = under_cursor(look);
    const char *why = refusal(look, p);
    if (why) {
        snprintf(look->message, sizeof look->message, "%s", why);
        return;
    }
    look->target = (struct watch_target){.pid = p->pid, .start_ticks = p->start_ticks};
    snprintf(look->target.what, sizeof look->target.what, "%s",
             p->command[0] ? p->command : p->name);
    snprintf(look->target.user, sizeof look->target.user, "%s", p->user);
    look->window = WATCH_WINDOW_SIGNAL;
    look->window_row = look->window_first = 0;
}

void watch_draw_signal(struct watch_draw *d, struct tui_area area) {
    struct watch_look *look = d->look;
    struct tui_area w = watch_draw_frame(area, SIGNALS, "Signal: Enter goes on, Esc closes");
    look->window_rows = SIGNALS;
    for (int i = 0; i < SIGNALS; i++) {
        int at = tui_put_format(w, i, MARGIN, SHOW_STRONG, "%-10s", signals[i].name);
        tui_put(w, i, at, SHOW_PLAIN, str_of(signals[i].what));
        if (i == look->window_row) tui_area_row_ink(w, i, TUI_INK_CURSOR);
    }
}

void watch_signal_choose(struct watch_look *look) {
    look->target.signal = signals[look->window_row].number;
    look->window = WATCH_WINDOW_CONFIRM;
}

void watch_draw_confirm(struct watch_draw *d, struct tui_area area) {
    const struct watch_target *t = &d->look->target;
    struct tui_area w = watch_draw_frame(area, 4, "y sends it, any other key does not");
    tui_put_format(w, 0, MARGIN, SHOW_STRONG, "Send %s to process %lld%s%s?", name_of(t->signal),
                   (long long)t->pid, t->user[0] ? " of " : "", t->user);
    struct tui_area text = w;
    text.columns -= MARGIN;
    tui_put_wrapped(text, 1, MARGIN, SHOW_PLAIN, str_of(t->what));
    d->look->window_rows = 0;
}

// The process is held before its beginning is looked at, so that it cannot be another one after.
static int send_to(const struct watch_target *t) {
    char path[64];
    struct os_stat s;
    OS_FD fd = (int)syscall(SYS_pidfd_open, (pid_t)t->pid, 0);
    if (fd < 0) return -1;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)t->pid);
    if (!os_stat_read(path, &s) || s.start_ticks != t->start_ticks) return -1;
    return (int)syscall(SYS_pidfd_send_signal, fd, t->signal, NULL, 0);
}

void watch_signal_send(struct watch_look *look) {
    const struct watch_target *t = &look->target;
    bool is_sent = send_to(t) == 0;
    snprintf(look->message, sizeof look->message,
             is_sent ? "%s was sent to %lld" : "%s was not sent to %lld: gone, or not yours",
             name_of(t->signal), (long long)t->pid);
}
