// SPDX-License-Identifier: Apache-2.0
// The commands that alerts run (--exec): started in the background, never waited for, and what they
// say and how they end is kept: a webhook that fails at three in the morning is to be known.
#include "measure/observe/observe_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNNING_MOST = 32, LAST_MOST = 64, SAID_MOST = 400, PAUSE_MS = 20 };

struct command {
    pid_t pid;
    int fd; // of what it says
    struct observe_told told;
    char said[SAID_MOST]; // the end of it
    int length;
};

struct commands {
    struct command running[RUNNING_MOST];
    int count;
    struct observe_told ended[RUNNING_MOST]; // by the last collect
    int ended_count;
    struct observe_told last[LAST_MOST]; // of each alert and GPU
    int last_count;
};

struct commands *observe_commands_open(struct arena *a) {
    return arena_new(a, struct commands, 1);
}

static void become(const char *command, const struct observe_said *said, int out) {
    char card[16];
    snprintf(card, sizeof card, "%d", said->card);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv("BATCHFIT_ALERT", said->alert, 1);
    setenv("BATCHFIT_GPU", card, 1);
    setenv("BATCHFIT_VALUE", said->value.p, 1);
    setenv("BATCHFIT_TEXT", said->text.p, 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void keep_last(struct commands *c, const struct observe_told *told) {
    for (int i = 0; i < c->last_count; i++) {
        if (c->last[i].card != told->card || c->last[i].alert != told->alert) continue;
        c->last[i] = *told;
        return;
    }
    if (c->last_count < LAST_MOST) c->last[c->last_count++] = *told;
}

static void end(struct commands *c, const struct observe_told *told) {
    if (c->ended_count < RUNNING_MOST) c->ended[c->ended_count++] = *told;
    keep_last(c, told);
}

void observe_commands_start(struct commands *c, const char *command,
                            const struct observe_said *said) {
    int ends[2] = {-1, -1};
    const struct observe_told told = {
        .alert = said->alert, .card = said->card, .status = OBSERVE_NOT_STARTED};
    pid_t child = -1;
    if (c->count < RUNNING_MOST && pipe2(ends, O_CLOEXEC) == 0) child = fork();
    if (child == 0) become(command, said, ends[1]);
    if (ends[1] >= 0) close(ends[1]);
    if (child > 0) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        c->running[c->count++] = (struct command){.pid = child, .fd = ends[0], .told = told};
    } else {
        if (ends[0] >= 0) close(ends[0]);
        end(c, &told);
    }
}

// So that it never waits for us; a page of an error is more than a log needs.
static void take_words(struct command *c) {
    char part[4096];
    for (ssize_t got; (got = read(c->fd, part, sizeof part)) > 0;) {
        int fresh = got < SAID_MOST ? (int)got : SAID_MOST;
        int kept = c->length + fresh > SAID_MOST ? SAID_MOST - fresh : c->length;
        memmove(c->said, c->said + c->length - kept, (size_t)kept);
        memcpy(c->said + kept, part + got - fresh, (size_t)fresh);
        c->length = kept + fresh;
    }
}

static struct str last_line(const struct command *c) {
    return str_trim(str_last(str_trim((struct str){c->said, c->length}), '\n'));
}

static bool has_ended(struct command *c) {
    int status;
    take_words(c);
    pid_t pid = waitpid(c->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) return false;
    take_words(c);
    close(c->fd);
    c->told.status = pid < 0               ? OBSERVE_NOT_STARTED
                     : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                           : WEXITSTATUS(status);
    struct str line = last_line(c);
    if (line.len >= (ptrdiff_t)sizeof c->told.said) line.len = sizeof c->told.said - 1;
    memcpy(c->told.said, line.p, (size_t)line.len);
    c->told.said[line.len] = 0;
    return true;
}

const struct observe_told *observe_commands_collect(struct commands *c, int wait_ms,
                                                    int *ret_count) {
    int64_t until_ns = os_now_ns() + wait_ms * INT64_C(1000000);
    for (;;) {
        int kept = 0;
        for (int i = 0; i < c->count; i++) {
            if (has_ended(&c->running[i]))
                end(c, &c->running[i].told);
            else
                c->running[kept++] = c->running[i];
        }
        c->count = kept;
        if (c->count == 0 || os_now_ns() >= until_ns) break;
        poll(NULL, 0, PAUSE_MS);
    }
    *ret_count = c->ended_count;
    c->ended_count = 0;
    return c->ended;
}

const struct observe_told *observe_commands_last(const struct commands *c, const char *alert,
                                                 int card) {
    for (int i = 0; i < c->last_count; i++) {
        if (c->last[i].card == card && c->last[i].alert == alert) return &c->last[i];
    }
    return NULL;
}

struct str observe_told_text(struct arena *a, const struct observe_told *told) {
    if (told->status == OBSERVE_NOT_STARTED)
        return STR("--exec could not be started: too many commands of alerts still run");
    return str_format(a, "--exec ended with status %d%s%s", told->status, told->said[0] ? ": " : "",
                      told->said);
}

void observe_commands_close(struct commands *c) {
    for (int i = 0; i < c->count; i++) close(c->running[i].fd);
}
