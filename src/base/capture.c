// SPDX-License-Identifier: Apache-2.0
// One short question to another program: its output is kept, its time is limited. A program that
// cannot even be killed (a GPU that hangs in the kernel) is left behind.
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { STREAMS = 2, TICK_MS = 20, GRACE_MS = 1000 };

struct capture {
    pid_t child;
    int fds[STREAMS]; // -1: at its end
    struct buf texts[STREAMS];
    int64_t max_bytes;
    bool is_gone;
    int status;
};

static void add_dup(posix_spawn_file_actions_t *actions, const int pipes[STREAMS][2]) {
    posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < STREAMS; i++) {
        posix_spawn_file_actions_adddup2(actions, pipes[i][1], STDOUT_FILENO + i);
    }
}

static int spawn(struct capture *c, char *const argv[], int pipes[STREAMS][2]) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    add_dup(&actions, (const int(*)[2])pipes);
    int error = posix_spawnp(&c->child, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Starts it; on failure nothing stays open.
static int start(struct capture *c, char *const argv[], struct fail *why) {
    int pipes[STREAMS][2] = {{-1, -1}, {-1, -1}};
    int error = 0;
    for (int i = 0; i < STREAMS && !error; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) < 0) error = errno;
    }
    if (!error) error = spawn(c, argv, pipes);
    for (int i = 0; i < STREAMS; i++) {
        os_close(&pipes[i][1]);
        c->fds[i] = error ? -1 : pipes[i][0];
        if (error) os_close(&pipes[i][0]);
    }
    return error ? fail_set(why, FAIL_MACHINE, "%s: %s", argv[0], strerror(error)) : 0;
}

// One read; false: there is nothing more to come.
static bool drain(struct capture *c, int stream) {
    char chunk[4096];
    ssize_t n = read(c->fds[stream], chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    int64_t room = c->max_bytes - c->texts[stream].count;
    buf_add(&c->texts[stream], (struct str){chunk, n < room ? n : (ptrdiff_t)room});
    return true;
}

static void reap(struct capture *c) {
    if (!c->is_gone) c->is_gone = waitpid(c->child, &c->status, WNOHANG) == c->child;
}

// Until it is gone and its pipes are empty, or the time is over. A grandchild may hold the pipes
// open for longer than that; nobody waits for it.
static void listen_until(struct capture *c, int64_t end_ns) {
    bool is_quiet = false;
    while (os_now_ns() < end_ns && !(c->is_gone && is_quiet)) {
        struct pollfd polls[STREAMS] = {{c->fds[0], POLLIN, 0}, {c->fds[1], POLLIN, 0}};
        reap(c);
        is_quiet = poll(polls, STREAMS, TICK_MS) <= 0;
        for (int i = 0; i < STREAMS; i++) {
            if (!polls[i].revents || drain(c, i)) continue;
            os_close(&c->fds[i]);
            c->fds[i] = -1;
        }
    }
}

struct str os_program(struct arena *a, struct str name) {
    struct str rest = str_of(getenv("PATH"));
    if (str_find(name, STR("/")) >= 0) return name;
    while (name.len > 0 && rest.p) {
        struct str folder = str_cut(&rest, ':');
        struct str path = str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
        if (access(path.p, X_OK) == 0) return path;
    }
    return (struct str){0};
}

int os_capture(struct arena *a, char *const argv[], int64_t deadline_ms, int64_t max_bytes,
               struct os_captured *ret_captured, struct fail *why) {
    struct capture c = {.max_bytes = max_bytes, .texts = {buf_new(a), buf_new(a)}};
    int rc = start(&c, argv, why);
    if (rc < 0) return rc;
    listen_until(&c, os_now_ns() + deadline_ms * 1000000);
    bool timed_out = !c.is_gone;
    kill(-c.child, SIGKILL);
    if (timed_out) listen_until(&c, os_now_ns() + GRACE_MS * (int64_t)1000000);
    for (int i = 0; i < STREAMS; i++) os_close(&c.fds[i]);
    int status = WIFEXITED(c.status) ? WEXITSTATUS(c.status) : 128 + WTERMSIG(c.status);
    *ret_captured = (struct os_captured){buf_str(&c.texts[0]), buf_str(&c.texts[1]),
                                         c.is_gone ? status : 128 + SIGKILL, timed_out};
    return 0;
}
