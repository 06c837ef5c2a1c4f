// SPDX-License-Identifier: Apache-2.0
// A scheduler that wants its machine back: SIGTERM (Kubernetes, Slurm at the end of a job), or,
// under Slurm, SIGUSR1 some time before (--signal=B:USR1@120). The training's own handler may save;
// without one nothing is asked of it that it cannot do, and it is said. The exit status says that
// the same command goes on.
#include "verbs/run/run.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

#define NS_PER_S INT64_C(1000000000)

volatile sig_atomic_t run_signals[NSIG];
static volatile sig_atomic_t ends_soon; // SIGUSR1 under Slurm
static bool is_slurm;

static void count_signal(int number) {
    if (number == SIGUSR1 && is_slurm) {
        ends_soon = 1; // passed on only to who knows it: it kills all others
    } else {
        run_signals[number]++;
    }
}

void run_catch_signals(void) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_handler = count_signal};
    is_slurm = getenv("SLURM_JOB_ID") != NULL;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        struct sigaction before;
        sigaction(caught[i], NULL, &before);
        bool is_nohup = caught[i] == SIGHUP && before.sa_handler == SIG_IGN;
        if (!is_nohup) sigaction(caught[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN); // who read our output is gone: no reason to end a training
}

int run_stop_signal(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        if (run_signals[signals[i]] > 0) return signals[i];
    }
    return 0;
}

bool run_ends_soon(void) {
    return ends_soon;
}

int run_status_stopped(const struct run *r, int status) {
    bool is_asked = run_signals[SIGTERM] > 0 || ends_soon;
    return r->rules.recover && is_asked && run_signals[SIGINT] == 0 ? RUN_REQUEUE : status;
}

// Signals for which a process has a handler, as bits. False: unknown.
static bool read_handlers(int64_t pid, uint64_t *ret_bits) {
    ARENA_AUTO scratch = {0};
    struct str text = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    if (pid <= 0 || os_read(&scratch, path, 1 << 16, &text, NULL, NULL) < 0) return false;
    return os_signals_caught(str_z(&scratch, text), ret_bits);
}

// What all processes that train have handlers for.
static void look_at_handlers(struct run_watch *w, const struct steps *s) {
    uint64_t all = ~UINT64_C(0), bits;
    bool is_any = false;
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].steps == 0 || !read_handlers(s->ranks[i].pid, &bits)) continue;
        all &= bits;
        is_any = true;
    }
    if (is_any) w->handlers |= all; // Python drops them as it ends
    w->has_read_handlers |= is_any;
}

static bool handles(const struct run_watch *w, int signal) {
    return !w->has_read_handlers || (w->handlers >> (signal - 1) & 1);
}

void run_requeue_look(struct run_watch *w, const struct steps *s, bool is_saved) {
    int64_t now_ns = os_now_ns();
    // Once it has been stopped, it may be past them: Python drops its handlers as it ends.
    bool is_due = now_ns >= w->next_handlers_ns && run_stop_signal() == 0;
    if (is_due || (ends_soon && !w->is_ending)) {
        w->next_handlers_ns = now_ns + NS_PER_S;
        look_at_handlers(w, s);
    }
    bool is_own = w->is_ending && run_signals[SIGUSR1] == 0; // its handler ends it as it likes
    if (is_own && is_saved && run_signals[SIGTERM] == 0) {
        run_say("it has saved a checkpoint, so it is stopped: any further work would be lost");
        run_signals[SIGTERM]++;
    }
    if (!ends_soon || w->is_ending) return;
    w->is_ending = true;
    if (w->has_read_handlers && handles(w, SIGUSR1)) {
        run_say("SIGUSR1: the job ends soon; passed on to the training, so that it can save");
        run_signals[SIGUSR1]++;
    } else {
        run_say("SIGUSR1: the job ends soon; the training has no handler for it and cannot be "
                "asked to save, so it continues to its next checkpoint");
    }
}

void run_requeue_told(const struct run_watch *w, const struct trial *t) {
    bool is_stopped = run_signals[SIGTERM] > 0 && run_signals[SIGINT] == 0;
    if (!is_stopped || !w->run->rules.recover || t->end != FAILURE_INTERRUPTED) return;
    if (!handles(w, SIGTERM)) {
        run_say("the training has no handler for SIGTERM: it ended without saving");
    }
}
