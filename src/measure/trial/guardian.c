// SPDX-License-Identifier: Apache-2.0
// The guardian: a process between us and the command. It is a session of its own and the subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER) of everything the command starts, so that daemons, too, have
// it as their last ancestor. It kills them when it is told to, and when the socket to us ends,
// which it also does when we are killed; then it removes the scratch folder and the cgroup and is
// gone.
//
// It is forked from a process that may have threads, and never calls exec: nothing here allocates
// or calls what is not async-signal-safe (signal-safety(7)). All signals stay blocked.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    LOWEST_FD = 10,     // above what the child gets
    ROUND_LEAST_MS = 2, // between two rounds of killing
    ROUND_MOST_MS = 200,
    FREEZE_ROUNDS = 8,
    // Between two looks at the memory: what the fastest machines fill meanwhile fits into the room
    // that is left. And between two looks for new processes.
    LOOK_LEAST_MS = 2,
    LOOK_MOST_MS = 20,
    FILLED_IN_MS = 64 << 20,
    SCAN_MS = 50,
    SCAN_SHARE = 20, // of the time that one takes
};
#define NS_PER_MS INT64_C(1000000)

enum phase { PHASE_RUN, PHASE_TERM, PHASE_KILL };

struct guardian {
    struct guard_setup *setup;
    struct tree tree;
    int signal_fd;
    pid_t self, command;
    bool has_cgroup, has_exited, is_told_empty, is_alone, left_group;
    int strays, round_ms;
    struct farewell farewell;
    int64_t own_rss_bytes;
    enum phase phase;
    int64_t deadline_ns;
    int64_t limit_bytes; // that is ours to keep; 0: none
    int64_t next_scan_ns;
    struct meter meter;
};

static void tell(const struct guardian *g, struct guard_message m, int flags) {
    while (send(g->setup->socket_fd, &m, sizeof m, MSG_NOSIGNAL | flags) < 0 && errno == EINTR) {
    }
}

static void tell_failed(const struct guardian *g, enum guard_stage stage, int error) {
    tell(g, (struct guard_message){GUARD_FAILED, (int)stage, error, 0}, 0);
}

static void close_others(const struct guard_setup *s) {
    _Alignas(8) char names[4096];
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long bytes;
    // Names are read ahead of the closing; one that is gone costs nothing.
    while (folder >= 0 && (bytes = syscall(SYS_getdents64, folder, names, sizeof names)) > 0) {
        for (long at = 0; at < bytes;) {
            unsigned short length;
            memcpy(&length, names + at + 16, sizeof length);
            const char *name = names + at + 19;
            at += length;
            int fd = 0;
            for (; *name >= '0' && *name <= '9'; name++) fd = fd * 10 + (*name - '0');
            bool is_kept = fd == s->socket_fd || fd == s->output_fd || fd == s->error_fd ||
                           fd == s->steps_fd || fd == s->scratch_parent_fd || fd == folder;
            if (fd > STDERR_FILENO && !is_kept) close(fd);
        }
    }
    if (folder >= 0) close(folder);
}

// Nothing of the caller is held open: a pipe to "less" ends when batchfit does.
static bool take_descriptors(struct guard_setup *s) {
    int *kept[] = {&s->socket_fd, &s->output_fd, &s->error_fd, &s->steps_fd, &s->scratch_parent_fd};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, LOWEST_FD);
        if (*kept[i] < 0) return false;
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return false;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (null != fd && dup2(null, fd) < 0) return false;
    }
    close_others(s);
    return true;
}

static bool read_whole(int fd, void *to, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)to + at, size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

// What the child could not do, on a pipe that a successful exec closes.
struct exec_report {
    int stage, error, is_fatal, limiter;
};

static void report(int fd, struct exec_report r) {
    ssize_t n = write(fd, &r, sizeof r);
    (void)n;
    if (r.is_fatal) _exit(127);
}

static void set_limit(const struct guardian *g, int64_t bytes, int report_fd) {
    if (bytes <= 0) return;
    if (g->has_cgroup && trial_limit_join(g->setup->cgroup) == 0) {
        report(report_fd, (struct exec_report){.limiter = TRIAL_LIMITER_CGROUP});
        return;
    }
    trial_limit_offer();
    int code = trial_limit_set_data(trial_limit_backstop(bytes));
    if (code < 0) report(report_fd, (struct exec_report){STAGE_LIMIT, -code, 1, 0});
    report(report_fd, (struct exec_report){.limiter = TRIAL_LIMITER_GUARD});
}

static _Noreturn void become_command(const struct guardian *g, const char *folder,
                                     char *const *argv, char **environment, int64_t limit_bytes,
                                     int report_fd) {
    const struct guard_setup *s = g->setup;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != g->self) _exit(127); // it ended before the line above
    if (dup2(s->output_fd, STDOUT_FILENO) < 0 || dup2(s->error_fd, STDERR_FILENO) < 0 ||
        dup2(s->steps_fd, GUARD_STEPS_FD) < 0) {
        report(report_fd, (struct exec_report){STAGE_DESCRIPTORS, errno, 1, 0});
    }
    if (*folder && chdir(folder) < 0) {
        report(report_fd, (struct exec_report){STAGE_FOLDER, errno, 1, 0});
    }
    set_limit(g, limit_bytes, report_fd);
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL); // what we ignore, exec would hand on
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = environment; // execvp looks for PATH there
    execvp(argv[0], argv);
    report(report_fd, (struct exec_report){STAGE_EXEC, errno, 1, 0});
    _exit(127);
}

// The strings of a launch, cut into two NULL-ended arrays.
struct launch {
    struct guard_launch head;
    const char *folder;
    char **argv, **environment;
};

static bool read_launch(const struct guardian *g, struct launch *l) {
    if (!read_whole(g->setup->socket_fd, &l->head, sizeof l->head)) return false;
    size_t pointers = ((size_t)l->head.argc + (size_t)l->head.envc + 2) * sizeof(char *);
    size_t size = pointers + (size_t)l->head.bytes;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    char *text = (char *)memory + pointers;
    if (!read_whole(g->setup->socket_fd, text, (size_t)l->head.bytes)) return false;
    l->argv = memory;
    l->environment = l->argv + l->head.argc + 1;
    l->folder = text;
    for (int i = 0; i < l->head.argc; i++) l->argv[i] = text += strlen(text) + 1;
    for (int i = 0; i < l->head.envc; i++) l->environment[i] = text += strlen(text) + 1;
    return true;
}

// Until exec has happened or failed, or we are alone. 0, or what failed.
static struct exec_report hear_child(const struct guardian *g, int fd, int *ret_limiter) {
    struct pollfd watched[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = g->setup->socket_fd, .events = POLLRDHUP}};
    struct exec_report r = {0};
    *ret_limiter = TRIAL_LIMITER_NONE;
    for (;;) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR) break;
        if (watched[0].revents && !read_whole(fd, &r, sizeof r)) return (struct exec_report){0};
        if (watched[0].revents && r.is_fatal) return r;
        if (watched[0].revents) *ret_limiter = r.limiter;
        if (watched[1].revents) break;
    }
    return (struct exec_report){0};
}

static void launch_command(struct guardian *g, const struct launch *l) {
    struct guard_setup *s = g->setup;
    int ends[2], limiter;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        tell_failed(g, STAGE_FORK, errno);
        return;
    }
    g->command = fork();
    int error = errno;
    if (g->command == 0) {
        become_command(g, l->folder, l->argv, l->environment, l->head.memory_limit_bytes, ends[1]);
    }
    close(ends[1]);
    close(s->output_fd);
    close(s->error_fd);
    close(s->steps_fd);
    s->output_fd = s->error_fd = s->steps_fd = -1;
    if (g->command < 0) {
        tell_failed(g, STAGE_FORK, error);
    } else {
        setpgid(g->command, g->command); // whoever comes first
        struct exec_report r = hear_child(g, ends[0], &limiter);
        if (r.is_fatal) {
            tell_failed(g, (enum guard_stage)r.stage, r.error);
        } else {
            if (limiter == TRIAL_LIMITER_GUARD) g->limit_bytes = l->head.memory_limit_bytes;
            tell(g, (struct guard_message){GUARD_LAUNCHED, g->command, limiter, 0}, 0);
        }
    }
    close(ends[0]);
}

// True when nothing descends from us any more: a subreaper without children has no descendants.
static bool reap(struct guardian *g) {
    struct rusage usage;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
        // Before exec a child is a copy of ours, and the kernel counts that, too.
        int64_t rss = (int64_t)usage.ru_maxrss * 1024;
        struct guard_message m = {GUARD_REAPED, pid, status, rss > g->own_rss_bytes ? rss : -1};
        tell(g, m, pid == g->command ? 0 : MSG_DONTWAIT); // the others' may be lost
        if (pid != g->command) continue;
        g->has_exited = true;
        g->farewell.was_signalled = WIFSIGNALED(status);
    }
    return pid < 0 && errno == ECHILD;
}

static void scan(struct guardian *g) {
    if (trial_tree_scan(&g->tree, g->self) < 0) return;
    if (trial_tree_has_left(&g->tree, g->command)) g->left_group = true;
}

static void count_strays(struct guardian *g) {
    int living = trial_tree_living(&g->tree);
    if (g->has_exited && living > g->strays) g->strays = living;
}

// All are frozen before the first is killed: nobody forks on, restarts another, or reaps one, so
// that between looking and killing no pid can come to belong to somebody else.
static void kill_round(struct guardian *g) {
    if (g->has_cgroup) trial_limit_kill(g->setup->cgroup);
    scan(g);
    count_strays(g);
    for (int i = 0, before = -1; i < FREEZE_ROUNDS && g->tree.count != before; i++) {
        before = g->tree.count;
        trial_tree_signal(&g->tree, SIGSTOP, (struct tree_spared){0});
        scan(g);
    }
    trial_tree_signal(&g->tree, SIGKILL, (struct tree_spared){0});
}

static void obey(struct guardian *g) {
    struct guard_stop stop;
    if (!read_whole(g->setup->socket_fd, &stop, sizeof stop)) {
        g->is_alone = true;
        g->phase = PHASE_KILL;
        return;
    }
    scan(g);
    if (stop.is_message) {
        if (g->command > 0) trial_farewell_pass(&g->tree, g->command, &stop);
        return;
    }
    if (stop.grace_ms <= 0) g->phase = PHASE_KILL;
    if (g->phase != PHASE_RUN) return;
    g->phase = PHASE_TERM;
    g->deadline_ns = os_now_ns() + stop.grace_ms * NS_PER_MS;
    if (g->command > 0) trial_farewell_begin(&g->farewell, &g->tree, g->command, &stop);
    if (g->has_exited) count_strays(g);
}

// What is due now, and for how long nothing is: ms, -1 for ever.
static int act(struct guardian *g) {
    int64_t now_ns = os_now_ns();
    if (g->phase == PHASE_TERM) {
        scan(g);
        int64_t end_ns = trial_farewell_look(&g->farewell, &g->tree, now_ns);
        if (end_ns < g->deadline_ns) g->deadline_ns = end_ns;
    }
    if (g->phase == PHASE_TERM && now_ns >= g->deadline_ns) g->phase = PHASE_KILL;
    if (g->phase == PHASE_TERM) {
        int64_t left_ms = (g->deadline_ns - now_ns) / NS_PER_MS + 1;
        return left_ms > FAREWELL_LOOK_MS ? FAREWELL_LOOK_MS : (int)left_ms;
    }
    if (g->phase != PHASE_KILL) return -1;
    kill_round(g);
    g->round_ms = g->round_ms * 2 > ROUND_MOST_MS ? ROUND_MOST_MS : g->round_ms * 2;
    return g->round_ms;
}

// Keeps the limit. For how long it need not be looked at: ms, -1 for ever.
static int look(struct guardian *g) {
    if (g->limit_bytes <= 0 || g->phase == PHASE_KILL) return -1;
    int64_t now_ns = os_now_ns();
    if (now_ns >= g->next_scan_ns) {
        scan(g);
        int64_t end_ns = os_now_ns(), wait_ns = (end_ns - now_ns) * SCAN_SHARE;
        g->next_scan_ns = end_ns + (wait_ns > SCAN_MS * NS_PER_MS ? wait_ns : SCAN_MS * NS_PER_MS);
    }
    trial_meter_look(&g->meter, &g->tree, g->limit_bytes, now_ns);
    int64_t room_bytes = g->limit_bytes - g->meter.now_bytes;
    if (room_bytes < 0 && g->meter.is_exact) {
        if (g->command > 0 && !g->has_exited) kill(-g->command, SIGKILL);
        tell(g, (struct guard_message){GUARD_OVER, 0, g->meter.now_bytes, 0}, 0);
        g->phase = PHASE_KILL;
        return 0;
    }
    int64_t ms = room_bytes / FILLED_IN_MS;
    return ms < LOOK_LEAST_MS ? LOOK_LEAST_MS : ms > LOOK_MOST_MS ? LOOK_MOST_MS : (int)ms;
}

static void drain_signals(const struct guardian *g) {
    struct signalfd_siginfo info;
    while (read(g->signal_fd, &info, sizeof info) > 0) {
    }
}

// Until nothing is left below and nobody above.
static void watch(struct guardian *g) {
    struct pollfd watched[2] = {{.fd = g->signal_fd, .events = POLLIN},
                                {.fd = g->setup->socket_fd, .events = POLLIN}};
    for (;;) {
        bool is_empty = reap(g);
        if (is_empty && !g->is_told_empty) {
            g->is_told_empty = true;
            tell(g, (struct guard_message){GUARD_EMPTY, g->strays, g->left_group, 0}, 0);
        }
        if (is_empty && g->is_alone) return;
        int look_ms = is_empty ? -1 : look(g), wait_ms = is_empty ? -1 : act(g);
        if (look_ms >= 0 && (wait_ms < 0 || look_ms < wait_ms)) wait_ms = look_ms;
        if (g->is_alone) watched[1].fd = -1;
        if (poll(watched, 2, wait_ms) < 0 && errno != EINTR) usleep(ROUND_LEAST_MS * 1000);
        drain_signals(g);
        if (watched[1].fd >= 0 && watched[1].revents) obey(g);
    }
}

static int become_guardian(struct guardian *g) {
    struct rusage usage;
    sigset_t child;
    setsid();
    prctl(PR_SET_NAME, "batchfit-guard");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || !take_descriptors(g->setup)) return -errno;
    signal(SIGCHLD, SIG_DFL); // ignored, there would be nothing to wait for
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    g->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g->signal_fd < 0) return -errno;
    if (getrusage(RUSAGE_SELF, &usage) == 0) g->own_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
    return trial_tree_open(&g->tree);
}

_Noreturn void trial_guardian_main(struct guard_setup *setup) {
    struct guardian g = {.setup = setup, .self = getpid(), .round_ms = ROUND_LEAST_MS};
    struct launch l;
    int code = become_guardian(&g);
    if (code < 0) {
        tell_failed(&g, STAGE_FORK, -code);
        _exit(1);
    }
    code = trial_scratch_make(setup->scratch_parent_fd, setup->scratch_name);
    if (code < 0) {
        tell_failed(&g, STAGE_SCRATCH, -code);
        _exit(0);
    }
    int limit =
        setup->cgroup[0] ? trial_limit_make(setup->cgroup, setup->memory_limit_bytes) : -ENOENT;
    g.has_cgroup = limit == 0;
    tell(&g, (struct guard_message){GUARD_READY, 0, -limit, 0}, 0);
    if (read_launch(&g, &l)) {
        launch_command(&g, &l);
        watch(&g);
    }
    if (g.has_cgroup) trial_limit_drop(setup->cgroup);
    _exit(trial_scratch_remove(setup->scratch_parent_fd, setup->scratch_name) ? 0 : 1);
}
