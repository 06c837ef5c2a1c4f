// SPDX-License-Identifier: Apache-2.0
// Our side of the guardian: starts it, tells it what to launch and when to stop, hears what became
// of the processes. While there is a guardian, we are a subreaper, too: should somebody kill it,
// what it guarded comes to us and is killed here.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// For processes that the kernel does not let die (waiting for a hung driver or file system).
enum { LEAVE_AFTER_MS = 30000, SWEEP_MS = 10000 };

static int make_names(struct arena *a, const char *parent, struct guard *g, struct fail *why) {
    uint64_t random;
    if (!parent) parent = getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    char *real = realpath(parent, NULL);
    g->parent_fd = real ? open(real, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int error = errno;
    struct str folder = str_copy(a, str_of(real));
    free(real);
    if (g->parent_fd < 0) {
        fail_set(why, FAIL_MACHINE, "%s: cannot create a scratch folder there: %s", parent,
                 strerror(error));
        return fail_hint(why, "set TMPDIR to an existing folder that you can write to");
    }
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        return fail_set(why, FAIL_MACHINE, "cannot get random numbers");
    }
    g->scratch_name = str_format(a, "batchfit-%012llx", (unsigned long long)(random >> 16));
    g->scratch = str_format(a, "%s/%s", str_is(folder, "/") ? "" : folder.p, g->scratch_name.p);
    g->out = str_format(a, "%s/out", g->scratch.p);
    g->steps = str_format(a, "%s/steps", g->scratch.p);
    g->tmp = str_format(a, "%s/tmp", g->scratch.p);
    return 0;
}

// The next message; false: the guardian is gone, or (without wait) has nothing to tell.
static bool next_message(struct guard *g, bool wait, struct guard_message *m) {
    ssize_t n;
    do n = recv(g->socket_fd, m, sizeof *m, MSG_WAITALL | (wait ? 0 : MSG_DONTWAIT));
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof *m) return true;
    if (n >= 0 || errno != EAGAIN) g->is_lost = true;
    return false;
}

static int fork_guardian(struct guard *g, struct guard_setup *setup, int ours, struct fail *why) {
    int before = 0;
    sigset_t all, mask;
    prctl(PR_GET_CHILD_SUBREAPER, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    g->is_subreaper = before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    g->pid = fork();
    if (g->pid == 0) {
        close(ours);
        trial_guardian_main(setup);
    }
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (g->pid > 0) return 0;
    return fail_set(why, FAIL_MACHINE, "cannot start a process: %s", strerror(error));
}

static int failed_early(const struct guard *g, const struct guard_message *m, struct fail *why) {
    if (m->kind == GUARD_FAILED && m->code == STAGE_SCRATCH) {
        fail_set(why, FAIL_MACHINE, "%s: cannot create the scratch folder: %s", g->scratch.p,
                 strerror((int)m->value));
        return fail_hint(why, "set TMPDIR to a folder that you can write to");
    }
    return fail_set(why, FAIL_MACHINE, "cannot set up the process that guards the trial: %s",
                    g->is_lost ? "it ended" : strerror((int)m->value));
}

int trial_guard_open(struct arena *a, const struct trial_request *request, struct guard_pipes pipes,
                     struct guard *g, struct fail *why) {
    int ends[2];
    struct guard_message m = {0};
    *g = (struct guard){.pid = -1, .socket_fd = -1, .parent_fd = -1, .largest_rss_bytes = -1};
    int code = make_names(a, request->scratch_parent, g, why);
    if (code < 0) return code;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return fail_set(why, FAIL_MACHINE, "cannot create a socket: %s", strerror(errno));
    }
    g->socket_fd = ends[0];
    struct guard_setup setup = {ends[1],
                                pipes.output_fd,
                                pipes.error_fd,
                                pipes.steps_fd,
                                g->parent_fd,
                                g->scratch_name.p,
                                {0},
                                request->memory_limit_bytes};
    struct str cgroup = request->memory_limit_bytes > 0 ? trial_limit_find(a, "") : (struct str){0};
    if (cgroup.len > 0) {
        g->cgroup = str_format(a, "%.*s/%s", STR_ARG(cgroup), g->scratch_name.p);
        snprintf(setup.cgroup, sizeof setup.cgroup, "%s", g->cgroup.p);
    }
    code = fork_guardian(g, &setup, ends[0], why);
    close(ends[1]);
    if (code < 0) return code;
    struct tree tree;
    g->start_ticks = INT64_MAX; // unknown: none is ours
    if (trial_tree_open(&tree) == 0) g->start_ticks = trial_tree_start_of(&tree, g->pid);
    trial_tree_close(&tree);
    if (!next_message(g, true, &m) || m.kind != GUARD_READY) return failed_early(g, &m, why);
    if (m.value != 0) g->cgroup = (struct str){0};
    return 0;
}

static int not_found(const char *command, struct fail *why) {
    struct stat st;
    if (strchr(command, '/') && stat(command, &st) == 0) {
        fail_set(why, FAIL_INPUT,
                 "%s: cannot run: the interpreter in its first line does not exist", command);
        return fail_hint(why,
                         "correct the line that begins with #!, or put the interpreter before the "
                         "command");
    }
    fail_set(why, FAIL_INPUT, "%s: no such command", command);
    return fail_hint(why,
                     strchr(command, '/')
                         ? "check the path; it is relative to the folder in which the command runs"
                         : "give its path, or activate the environment that has "
                           "it in PATH");
}

static int not_allowed(const char *command, struct fail *why) {
    struct stat st;
    if (strchr(command, '/') && stat(command, &st) == 0 && S_ISDIR(st.st_mode)) {
        fail_set(why, FAIL_INPUT, "%s: a folder, not a command", command);
        return fail_hint(why, "name the program in it, for example python %s/train.py", command);
    }
    fail_set(why, FAIL_INPUT, "%s: permission denied", command);
    return fail_hint(
        why, "make it executable (chmod +x), or put its interpreter before it: python %s", command);
}

static int failed_start(const struct guard_message *m, const struct trial_request *request,
                        const char *command, struct fail *why) {
    int error = (int)m->value;
    switch (m->code) {
    case STAGE_FOLDER:
        return fail_set(why, FAIL_INPUT, "%s: cannot run a trial there: %s", request->folder,
                        strerror(error));
    case STAGE_EXEC:
        break;
    default:
        return fail_set(why, FAIL_MACHINE, "%s: cannot start (%s): %s", command,
                        m->code == STAGE_LIMIT  ? "memory limit"
                        : m->code == STAGE_FORK ? "fork"
                                                : "descriptors",
                        strerror(error));
    }
    if (error == ENOENT || error == ENOTDIR) return not_found(command, why);
    if (error == EACCES || error == EPERM || error == EISDIR) return not_allowed(command, why);
    fail_set(why, FAIL_INPUT, "%s: cannot run: %s", command, strerror(error));
    if (error == ENOMEM && request->memory_limit_bytes > 0) {
        return fail_hint(why, "the memory limit is too small even to start it");
    }
    return FAIL_INPUT;
}

static bool send_whole(int fd, struct str bytes) {
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.p, (size_t)bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes = str_slice(bytes, n, bytes.len);
    }
    return true;
}

int trial_guard_launch(struct arena *a, struct guard *g, const struct trial_request *request,
                       char *const *argv, char *const *environment, struct fail *why) {
    struct guard_launch head = {.memory_limit_bytes = request->memory_limit_bytes};
    struct guard_message m = {0};
    struct buf text = buf_new(a);
    if (!argv || !argv[0] || !*argv[0]) return fail_set(why, FAIL_USAGE, "no command given");
    buf_add(&text, str_of(request->folder));
    buf_byte(&text, 0);
    for (; argv[head.argc]; head.argc++) {
        buf_add(&text, str_of(argv[head.argc]));
        buf_byte(&text, 0);
    }
    for (; environment[head.envc]; head.envc++) {
        buf_add(&text, str_of(environment[head.envc]));
        buf_byte(&text, 0);
    }
    head.bytes = text.count;
    bool is_sent = send_whole(g->socket_fd, (struct str){(const char *)&head, sizeof head}) &&
                   send_whole(g->socket_fd, buf_str(&text));
    if (!is_sent || !next_message(g, true, &m)) {
        return fail_set(why, FAIL_MACHINE, "the process that guards the trial ended early");
    }
    if (m.kind != GUARD_LAUNCHED) return failed_start(&m, request, argv[0], why);
    g->is_launched = true;
    g->command = m.code;
    g->limiter = (enum trial_limiter)m.value;
    return 0;
}

static const struct step_rank *rank_of(const struct steps *steps, int64_t pid) {
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) {
        if (steps->ranks[i].pid == pid) return &steps->ranks[i];
    }
    return NULL;
}

// Whose end counts besides the command's: who reports; where nobody does, what it left behind.
static bool is_of_interest(const struct guard *g, const struct steps *steps, int64_t pid,
                           int64_t status) {
    const struct step_rank *rank = rank_of(steps, pid);
    bool has_failed = rank && rank->state == STEPS_RANK_ENDED_BADLY;
    if (g->is_stopping && WIFSIGNALED((int)status) && !has_failed) return false; // by us
    if (steps->rank_count > 0) return rank != NULL;
    return g->has_exited && (g->left == 0 || g->left == pid);
}

void trial_guard_hear(struct guard *g, const struct steps *steps) {
    struct guard_message m;
    while (!g->is_lost && next_message(g, false, &m)) {
        if (m.kind == GUARD_OVER) g->over_bytes = m.value;
        if (m.kind == GUARD_REAPED && m.more > g->largest_rss_bytes) g->largest_rss_bytes = m.more;
        if (m.kind == GUARD_REAPED && m.code == g->command) {
            g->has_exited = true;
            g->status = (int)m.value;
        } else if (m.kind == GUARD_REAPED && m.value != 0 &&
                   is_of_interest(g, steps, m.code, m.value)) {
            g->bad_status = (int)m.value;
        } else if (m.kind == GUARD_EMPTY) {
            g->is_empty = true;
            g->strays = m.code;
            g->left_group = g->left_group || m.value;
        }
    }
}

// To the guardian, with those that have made a step; where none has, those that may.
static void send_stop(const struct guard *g, const struct steps *steps, struct guard_stop stop) {
    bool is_any = false;
    for (ptrdiff_t i = 0; steps && i < steps->rank_count; i++) {
        const struct step_rank *rank = &steps->ranks[i];
        is_any |= rank->steps > 0 && rank->state == STEPS_RANK_STARTED;
    }
    for (ptrdiff_t i = 0; steps && i < steps->rank_count && stop.trainer_count < GUARD_TRAINERS;
         i++) {
        if (is_any && steps->ranks[i].steps == 0) continue;
        stop.trainers[stop.trainer_count++] = (int32_t)steps->ranks[i].pid;
    }
    (void)send_whole(g->socket_fd, (struct str){(const char *)&stop, sizeof stop});
}

void trial_guard_stop(struct guard *g, const struct steps *steps, double grace_s, int signal) {
    g->is_stopping = true;
    send_stop(g, steps, (struct guard_stop){(int64_t)(grace_s * 1000), signal, 0, 0, {0}});
}

void trial_guard_pass(struct guard *g, const struct steps *steps, int signal) {
    send_stop(g, steps, (struct guard_stop){.signal = signal, .is_message = 1});
}

// What came to us when somebody killed the guardian: all below us that is in no session of ours and
// began no earlier than it.
static void sweep(const struct guard *g) {
    struct tree tree;
    struct tree_spared spared = {getsid(0), g->start_ticks};
    if (trial_tree_open(&tree) < 0) return;
    for (int ms = 0, left = 1; left > 0 && ms < SWEEP_MS; ms += 10) {
        left = 0;
        if (trial_tree_scan(&tree, getpid()) < 0) break;
        trial_tree_signal(&tree, SIGKILL, spared);
        for (int i = 0; i < tree.count; i++) {
            const struct tree_process *p = &tree.items[i];
            if (trial_tree_is_spared(p, spared)) continue;
            left++;
            if (p->parent == getpid()) waitpid(p->pid, NULL, WNOHANG);
        }
        if (left > 0) usleep(10000);
    }
    trial_tree_close(&tree);
    if (g->cgroup.len > 0) trial_limit_drop(g->cgroup.p);
}

// Its exit status; -1: it was killed, or still waits for processes that do not die.
static int wait_for_guardian(const struct guard *g) {
    bool is_patient = g->is_empty || !g->is_launched; // then it has only files to remove
    for (int ms = 0;; ms += 2) {
        int status;
        pid_t pid = waitpid(g->pid, &status, is_patient ? 0 : WNOHANG);
        if (pid < 0 && errno != EINTR) return -1;
        if (pid > 0) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (ms > LEAVE_AFTER_MS) return -1;
        if (!is_patient) usleep(2000);
    }
}

bool trial_guard_close(struct guard *g) {
    bool is_removed = true;
    os_close(&g->socket_fd);
    if (g->pid > 0) {
        is_removed = wait_for_guardian(g) == 0;
        if (g->is_lost && !is_removed) {
            sweep(g);
            is_removed = trial_scratch_remove(g->parent_fd, g->scratch_name.p);
        }
        prctl(PR_SET_CHILD_SUBREAPER, g->is_subreaper ? 1 : 0);
    }
    os_close(&g->parent_fd);
    g->pid = g->socket_fd = g->parent_fd = -1;
    return is_removed;
}

int trial_guard_status(const struct guard *g) {
    return g->status == 0 ? g->bad_status : g->status;
}

struct failure_facts trial_guard_facts(const struct guard *g, int64_t oom_kills_before,
                                       int64_t memory_limit_bytes) {
    struct failure_facts f = {.has_status = g->has_exited || g->bad_status != 0,
                              .status = trial_guard_status(g)};
    int64_t system_now = trial_limit_system_oom_kills("");
    bool is_known = system_now >= 0 && oom_kills_before >= 0;
    f.system_oom_kills = is_known ? system_now - oom_kills_before : -1;
    bool is_grouped = g->limiter == TRIAL_LIMITER_CGROUP && g->cgroup.len > 0;
    f.oom_kills = is_grouped ? trial_limit_counter(g->cgroup.p, "memory.events", "oom_kill") : -1;
    f.memory_limit_bytes = g->limiter == TRIAL_LIMITER_NONE ? 0 : memory_limit_bytes;
    f.is_over = g->over_bytes > 0;
    return f;
}
