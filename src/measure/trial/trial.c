// SPDX-License-Identifier: Apache-2.0
// One trial: starts the command through the guardian, reads its steps and its output, measures its
// processes, decides when it has ended or is to be stopped, and says how it ended. Refuses a
// command that cannot be started; whatever a started one does is a result, not an error.
#include "measure/trial/trial_int.h"

#include "base/os.h"
#include "base/unit.h"

#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#define NS_PER_S 1e9
#define NS_PER_MS INT64_C(1000000)
enum {
    TICK_MS = 20,
    WATCH_MS = 100,
    MEASURE_MOST_MS = 500,
    MEASURE_SHARE = 50, // of the time one measurement takes: at most 2 % of one core
    STEPS_KEPT = 4096,  // of a whole run: twice as many at most
};
// One rank out of memory ends the trial within 8 s: detection (ranks.c), then at most this.
static const double LOST_GRACE_S = 2;
static const double INTERRUPT_GRACE_S = 3;
static const double STRAY_GRACE_S = 1;
static const double LINGER_S = 0.3; // for processes that end because the command did
static const double UNKILLABLE_S = 30;

struct run {
    struct arena *arena;
    const struct trial_request *request;
    struct trial *trial;
    struct guard guard;
    struct transport transport;
    struct log log;
    struct tree tree;
    struct meter meter;
    struct spin spin;
    struct sight sight;
    struct printed *printed;
    bool is_refused;
    struct pass out, error; // error: of a whole run alone; in a trial both come by `out`
    int output_write_fd, error_write_fd;
    bool is_reading_steps;
    sig_atomic_t passed[2]; // SIGUSR1, SIGUSR2
    int64_t start_ns, now_ns, exit_ns;
    int64_t scan_ns, next_measure_ns, next_watch_ns; // scan_ns: when last scanned
    int64_t first_step_ns, last_step_ns, last_line_ns;
    struct life life;
    int64_t steps_seen;
    struct trial_outside outside;
    struct ranks ranks;
    int64_t oom_kills_before;
};

static double seconds_since(const struct run *r, int64_t ns) {
    return (double)(r->now_ns - ns) / NS_PER_S;
}

// --- output and steps ---

static void read_output(struct run *r) {
    trial_pass_move(&r->out, &r->log, false);
    trial_pass_move(&r->error, &r->log, false);
}

static void read_steps(struct run *r, bool is_last) {
    struct steps *s = &r->trial->steps;
    trial_transport_read(&r->transport, r->is_reading_steps ? s : NULL, is_last);
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].last_ns > r->last_line_ns) r->last_line_ns = s->ranks[i].last_ns;
        if (str_is(s->ranks[i].framework, "standin")) r->trial->is_standin = true;
    }
    if (s->forgotten + s->count == r->steps_seen) return;
    r->steps_seen = s->forgotten + s->count;
    r->last_step_ns = os_now_ns();
    if (!r->first_step_ns) r->first_step_ns = r->last_step_ns;
    r->next_watch_ns = 0;
}

// --- processes ---

// RLIMIT_DATA says no to who asks; a cgroup kills.
static void see_refusal(struct run *r, const struct tree_memory *m) {
    if (r->guard.limiter != TRIAL_LIMITER_GUARD || !m->largest_data) return;
    if (r->last_line_ns > r->spin.since_ns) r->spin = (struct spin){0};
    int64_t most_bytes = trial_limit_backstop(r->request->memory_limit_bytes);
    int64_t room_bytes = most_bytes - m->largest_data_bytes;
    r->is_refused = trial_spin_sees(&r->spin, m->largest_data, room_bytes, r->now_ns);
}

static void measure(struct run *r) {
    if (r->now_ns < r->next_measure_ns) return;
    int64_t begin_ns = os_now_ns();
    if (trial_tree_scan(&r->tree, r->guard.pid) == 0) {
        r->scan_ns = begin_ns;
        trial_ranks_see(&r->ranks, &r->trial->steps, &r->tree, r->now_ns);
        if (trial_tree_has_left(&r->tree, r->guard.command)) r->guard.left_group = true;
    }
    trial_meter_look(&r->meter, &r->tree, -1, r->now_ns);
    if (r->meter.read_ns == r->now_ns) begin_ns += r->meter.read_cost_ns; // it keeps its own pace
    r->outside.held_bytes = r->meter.last.processes > 0 ? r->meter.now_bytes : -1;
    see_refusal(r, &r->meter.last);
    if (r->steps_seen == 0 && r->guard.command > 0) {
        trial_sight_see(&r->sight, &r->tree, seconds_since(r, r->start_ns));
    }
    if (r->guard.has_exited && !r->guard.is_stopping) {
        trial_sight_see_left(&r->sight, &r->tree, seconds_since(r, r->exit_ns));
        r->guard.left = (pid_t)r->sight.seen.left_pid;
    }
    r->trial->sight = r->sight.seen;
    trial_life_see(&r->life, &r->tree, r->log.total_bytes, r->last_line_ns, r->now_ns);
    int64_t wait_ns = (os_now_ns() - begin_ns) * MEASURE_SHARE;
    // Of a day that is run, the highest water marks of processes tell enough.
    int64_t least_ms = r->request->whole ? MEASURE_MOST_MS : TICK_MS;
    if (wait_ns < least_ms * NS_PER_MS) wait_ns = least_ms * NS_PER_MS;
    if (wait_ns > MEASURE_MOST_MS * NS_PER_MS) wait_ns = MEASURE_MOST_MS * NS_PER_MS;
    r->next_measure_ns = r->now_ns + wait_ns;
}

// --- when to stop ---

static double limit_or(double limit_s, double usual_s) {
    return limit_s > 0 ? limit_s : usual_s;
}

static int64_t ranks_wanted(const struct run *r) {
    if (r->request->ranks > 0) return r->request->ranks;
    return r->trial->steps.world > 1 ? r->trial->steps.world : 1;
}

static bool has_enough(const struct run *r) {
    int64_t wanted = r->request->warmup_steps + r->request->steps;
    if (wanted <= 0) return false;
    if (r->steps_seen > 0 || steps_are_announced(&r->trial->steps))
        return steps_of_slowest(&r->trial->steps, ranks_wanted(r)) >= wanted;
    const struct printed_bar *bar = steps_printed_best(r->printed);
    return bar && bar->made >= wanted;
}

// Nobody told of steps: those that were printed count.
static void take_printed(struct run *r) {
    const struct printed_bar *bar = steps_printed_best(r->printed);
    if (r->request->whole || r->steps_seen > 0 || steps_are_announced(&r->trial->steps) || !bar)
        return;
    r->trial->printed = str_copy(r->arena, str_of(bar->example));
    steps_printed_take(bar, r->request->samples_each, &r->trial->steps);
}

static bool has_lost_rank(const struct run *r) {
    // Ranks that have not yet said anything wait, too.
    bool are_missing =
        ranks_wanted(r) > r->trial->steps.rank_count && trial_tree_living(&r->tree) > 0;
    return trial_ranks_are_lost(&r->ranks, &r->trial->steps, r->last_step_ns, r->now_ns,
                                are_missing);
}

// The command is gone, and the guardian knows of processes that are not. Whether they are worth
// waiting for: those that report, or, when a launcher ended well before anything was reported, any
// (the guardian's word counts: a scan may miss one whose parent ended meanwhile).
static bool is_worth_waiting(const struct run *r) {
    const struct steps *s = &r->trial->steps;
    if (trial_ranks_live(s, &r->tree, r->now_ns, r->request->whole)) return true;
    return s->rank_count == 0 && r->guard.status == 0;
}

static bool has_ended(const struct run *r) {
    if (r->guard.is_empty) return true;
    if (!r->guard.has_exited || seconds_since(r, r->exit_ns) < LINGER_S) return false;
    return r->scan_ns > r->exit_ns && !is_worth_waiting(r);
}

static int stops_wanted(const struct run *r) {
    const volatile sig_atomic_t *n = r->request->whole ? r->request->whole->signals : NULL;
    return n ? n[SIGINT] + n[SIGTERM] + n[SIGHUP] : 0;
}

// A trial is for its steps. A training that is run owes further ones only where it has made some:
// what spoke, but steps in a way that nobody sees, is to show that it lives; what never did, not.
static bool is_late(const struct run *r) {
    double limit_s = limit_or(r->request->start_limit_s, 300);
    if (!r->request->whole) return !r->first_step_ns && seconds_since(r, r->start_ns) > limit_s;
    int64_t life_ns = r->last_line_ns > r->life.ns ? r->last_line_ns : r->life.ns;
    return (double)(r->life.looked_ns - life_ns) / NS_PER_S > limit_s &&
           trial_ranks_are_expected(&r->trial->steps, &r->tree, false) &&
           !trial_ranks_are_expected(&r->trial->steps, &r->tree, true);
}

static bool is_stalled(const struct run *r) {
    int64_t line_ns = r->last_line_ns > r->last_step_ns ? r->last_line_ns : r->last_step_ns;
    if (!r->first_step_ns || seconds_since(r, line_ns) <= limit_or(r->request->stall_limit_s, 120))
        return false;
    return !r->request->whole || trial_ranks_are_expected(&r->trial->steps, &r->tree, true);
}

// A trial that has told of nothing, and never will.
static enum failure_class hopeless(const struct run *r) {
    if (r->request->whole || steps_are_announced(&r->trial->steps)) return FAILURE_UNKNOWN;
    if (trial_sight_is_blind(&r->sight, seconds_since(r, r->start_ns))) return FAILURE_BLIND;
    bool is_idle = trial_sight_is_idle(&r->sight, seconds_since(r, r->life.ns));
    return is_idle && !steps_printed_best(r->printed) ? FAILURE_LEFT : FAILURE_UNKNOWN;
}

// The order is that of certainty.
static bool must_stop(const struct run *r, enum failure_class *end) {
    const struct trial_request *q = r->request;
    bool is_over = q->time_limit_s > 0 && seconds_since(r, r->start_ns) > q->time_limit_s;
    const struct {
        bool holds;
        enum failure_class end;
    } rules[] = {
        {(q->interrupted && *q->interrupted) || stops_wanted(r) > 0, FAILURE_INTERRUPTED},
        {has_ended(r), FAILURE_UNKNOWN},
        {has_enough(r), FAILURE_ENOUGH},
        {q->whole && q->whole->asks_stop, FAILURE_ASKED},
        {r->is_refused, FAILURE_REFUSED},
        {has_lost_rank(r), FAILURE_RANK_LOST},
        {hopeless(r) != FAILURE_UNKNOWN, hopeless(r)},
        {is_late(r), FAILURE_NO_START},
        {is_stalled(r), FAILURE_STALLED},
        {is_over, FAILURE_TIME_UP},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].holds) continue;
        *end = rules[i].end;
        return true;
    }
    return false;
}

// --- the loop ---

static void pass_signals(struct run *r) {
    static const int signals[] = {SIGUSR1, SIGUSR2};
    const volatile sig_atomic_t *counts = r->request->whole ? r->request->whole->signals : NULL;
    for (int i = 0; counts && i < 2; i++) {
        for (; r->passed[i] < counts[signals[i]]; r->passed[i]++) {
            trial_guard_pass(&r->guard, &r->trial->steps, signals[i]);
        }
    }
}

static void show(struct run *r) {
    r->outside.seconds = seconds_since(r, r->start_ns);
    r->outside.sight = &r->trial->sight;
    r->outside.is_only_busy =
        seconds_since(r, r->life.more_ns) > limit_or(r->request->start_limit_s, 300);
    if (!r->request->watch || r->now_ns < r->next_watch_ns) return;
    r->next_watch_ns = r->now_ns + WATCH_MS * NS_PER_MS;
    r->request->watch(r->request->watch_context, &r->trial->steps, &r->outside);
    if (!r->request->whole || r->trial->steps.count < 2 * STEPS_KEPT) return;
    steps_forget(&r->trial->steps, STEPS_KEPT);
}

// Waits until something may be moved or read, at most a tick.
static void wait_for_something(struct run *r) {
    const struct pass *out = &r->out, *error = &r->error;
    struct pollfd watched[] = {
        {.fd = pass_is_full(out) ? out->to_fd : out->from_fd,
         .events = pass_is_full(out) ? POLLOUT : POLLIN},
        {.fd = pass_is_full(error) ? error->to_fd : error->from_fd,
         .events = pass_is_full(error) ? POLLOUT : POLLIN},
        {.fd = r->transport.read_fd, .events = POLLIN},
        {.fd = r->guard.is_lost ? -1 : r->guard.socket_fd, .events = POLLIN}};
    (void)poll(watched, sizeof watched / sizeof *watched, TICK_MS);
    r->now_ns = os_now_ns();
}

// Sleeps until something is to be read; then reads, measures, shows.
static void turn(struct run *r) {
    wait_for_something(r);
    bool had_exited = r->guard.has_exited;
    read_output(r);
    read_steps(r, false);
    trial_guard_hear(&r->guard, &r->trial->steps);
    if (r->guard.has_exited && !had_exited) {
        r->exit_ns = r->now_ns;
        r->next_measure_ns = 0;
    }
    measure(r);
    pass_signals(r);
    show(r);
}

// What the pipes still hold once all their writers are gone.
static void drain(struct run *r) {
    int64_t before;
    do {
        before = r->log.total_bytes;
        trial_pass_move(&r->out, &r->log, true);
        trial_pass_move(&r->error, &r->log, true);
    } while (r->log.total_bytes > before);
    int64_t steps;
    do {
        steps = r->steps_seen;
        read_steps(r, true);
        r->next_watch_ns = 0;
        if (r->request->whole) show(r);
    } while (r->steps_seen > steps);
}

static double grace_of(const struct run *r, enum failure_class end) {
    double grace_s = limit_or(r->request->grace_s, 5);
    bool is_whole = r->request->whole != NULL;
    double most_s = end == FAILURE_UNKNOWN                    ? STRAY_GRACE_S
                    : end == FAILURE_RANK_LOST                ? LOST_GRACE_S
                    : end == FAILURE_INTERRUPTED && !is_whole ? INTERRUPT_GRACE_S
                                                              : grace_s;
    return grace_s < most_s ? grace_s : most_s;
}

// The signal that the command is stopped by: the one we got.
static int signal_for(const struct run *r, enum failure_class end) {
    const struct trial_whole *whole = r->request->whole;
    if (end != FAILURE_INTERRUPTED || !whole || !whole->signals) return SIGTERM;
    return whole->signals[SIGINT] ? SIGINT : whole->signals[SIGTERM] ? SIGTERM : SIGHUP;
}

// Somebody does not want to wait for the grace.
static bool is_hurried(const struct run *r, enum failure_class end) {
    const struct trial_whole *whole = r->request->whole;
    const volatile bool *interrupted = r->request->interrupted;
    if (whole && whole->signals) return whole->signals[SIGINT] > 0 && stops_wanted(r) > 1;
    return end != FAILURE_INTERRUPTED && interrupted && *interrupted;
}

// Until no process is left. What a trial says while it is being stopped is no result: its lines
// are thrown away, and its ending was judged before. A whole run may still save.
static void stop(struct run *r, enum failure_class end) {
    double grace_s = grace_of(r, end);
    bool was_hurried = false;
    bool counts = r->request->whole && (end == FAILURE_INTERRUPTED || end == FAILURE_ASKED);
    r->is_reading_steps = end == FAILURE_UNKNOWN || counts;
    bool was_running = !r->guard.has_exited;
    const struct steps *s = r->request->whole ? &r->trial->steps : NULL; // a trial saves nothing
    if (!r->guard.is_empty) trial_guard_stop(&r->guard, s, grace_s, signal_for(r, end));
    int64_t begin_ns = os_now_ns();
    while (!r->guard.is_empty && !r->guard.is_lost) {
        turn(r);
        if (!was_hurried && is_hurried(r, end)) {
            was_hurried = true;
            trial_guard_stop(&r->guard, s, 0, 0);
        }
        if (seconds_since(r, begin_ns) > grace_s + UNKILLABLE_S) return;
    }
    r->trial->was_killed =
        was_running && WIFSIGNALED(r->guard.status) && WTERMSIG(r->guard.status) == SIGKILL;
    drain(r);
}

// --- before and after ---

// A trial has one pipe for both, a whole run one for each.
static int open_outputs(struct run *r, struct fail *why) {
    const struct trial_whole *whole = r->request->whole;
    r->printed = arena_new(r->arena, struct printed, 1);
    if (!whole) r->out.printed = r->printed; // of a whole run nobody asks
    r->out.to_fd = whole ? whole->out_fd : -1;
    r->error.to_fd = whole ? whole->err_fd : -1;
    int code = trial_pipe_open("output", &r->out.from_fd, &r->output_write_fd, why);
    if (code == 0 && whole)
        code = trial_pipe_open("errors", &r->error.from_fd, &r->error_write_fd, why);
    return code;
}

static int open_all(struct run *r, struct fail *why) {
    int code = trial_log_open(r->arena, r->request->log_path, &r->log, why);
    if (code == 0) code = open_outputs(r, why);
    if (code == 0) code = trial_transport_open(r->arena, &r->transport, why);
    if (code < 0) return code;
    int error = trial_tree_open(&r->tree);
    if (error < 0) {
        return fail_set(why, FAIL_MACHINE, "cannot watch the processes of a trial: /proc: %s",
                        strerror(-error));
    }
    struct guard_pipes pipes = {r->output_write_fd, r->output_write_fd, r->transport.write_fd};
    if (r->error_write_fd >= 0) pipes.error_fd = r->error_write_fd;
    return trial_guard_open(r->arena, r->request, pipes, &r->guard, why);
}

static int launch(struct run *r, struct fail *why) {
    const struct trial_request *q = r->request;
    char *const *argv = q->argv, *const *environment = q->environment;
    if (q->prepare) {
        int code =
            q->prepare(q->prepare_context, r->arena, r->guard.out.p, &argv, &environment, why);
        if (code < 0) return code;
    }
    r->transport.folder = r->guard.steps;
    environment = trial_environment_of(r->arena, q, &r->guard, &r->transport, environment);
    r->sight.hook = trial_sight_hook(r->arena, environment);
    r->oom_kills_before = trial_limit_system_oom_kills("");
    // Only the command holds the writing ends from here on: their end is its end.
    os_close(&r->output_write_fd);
    os_close(&r->error_write_fd);
    os_close(&r->transport.write_fd);
    r->output_write_fd = r->error_write_fd = r->transport.write_fd = -1;
    int code = trial_guard_launch(r->arena, &r->guard, q, argv, environment, why);
    r->start_ns = r->now_ns = r->life.ns = r->life.more_ns = os_now_ns();
    r->trial->limiter = r->guard.limiter;
    return code;
}

static void judge(struct run *r) {
    struct failure_facts facts =
        trial_guard_facts(&r->guard, r->oom_kills_before, r->request->memory_limit_bytes);
    facts.is_refused = r->trial->end == FAILURE_REFUSED;
    r->trial->oom_kills = facts.oom_kills;
    failure_classify(r->arena, trial_log_tail(r->arena, &r->log), &facts, &r->trial->ending);
    if (r->trial->end == FAILURE_UNKNOWN) r->trial->end = r->trial->ending.signature->kind;
}

static void run_to_end(struct run *r) {
    struct trial *t = r->trial;
    r->is_reading_steps = true;
    while (!must_stop(r, &t->end) && !r->guard.is_lost) turn(r);
    t->seconds = seconds_since(r, r->start_ns);
    r->next_measure_ns = r->meter.read_ns = 0;
    measure(r); // before they are stopped
    if (t->end == FAILURE_ENOUGH) take_printed(r);
    // What a signal or a request made of a whole run is its end, too.
    bool is_own_end = t->end == FAILURE_UNKNOWN;
    if (r->request->whole) is_own_end |= t->end == FAILURE_INTERRUPTED || t->end == FAILURE_ASKED;
    if (!is_own_end) judge(r);
    stop(r, t->end);
    if (is_own_end) judge(r);
    if (t->end == FAILURE_CLEAN) take_printed(r);
}

static void fill(struct run *r) {
    struct trial *t = r->trial;
    const struct guard *g = &r->guard;
    t->output = trial_log_tail(r->arena, &r->log);
    t->output_bytes = r->log.total_bytes;
    t->limiter = g->limiter;
    t->has_status = g->has_exited;
    t->status = trial_guard_status(g);
    t->killed_strays = g->strays;
    t->left_group = g->left_group;
    t->peak_bytes = trial_meter_most(&r->meter, g->largest_rss_bytes);
    t->over_bytes = g->over_bytes;
    unit_keep_most(&t->peak_bytes, g->over_bytes);
}

static int watch_and_stop(struct run *r, struct fail *why) {
    run_to_end(r);
    fill(r);
    if (r->guard.is_lost) {
        return fail_set(why, FAIL_MACHINE,
                        "the process that guards the trial was killed from outside");
    }
    if (r->guard.is_empty) return 0;
    fail_set(why, FAIL_MACHINE, "cannot kill %d processes of the trial; one is %d",
             trial_tree_living(&r->tree), r->tree.count > 0 ? (int)r->tree.items[0].pid : 0);
    return fail_hint(why, "they wait in the kernel (a hung driver or network file system) or "
                          "belong to another user; they are removed once they end");
}

int trial_run(struct arena *a, const struct trial_request *request, struct trial *ret_trial,
              struct fail *why) {
    struct run *r = arena_new(a, struct run, 1);
    *ret_trial = (struct trial){.steps = steps_new(a), .peak_bytes = -1, .oom_kills = -1};
    r->arena = a;
    r->request = request;
    r->trial = ret_trial;
    r->outside.held_bytes = r->meter.peak_bytes = -1;
    r->out.from_fd = r->error.from_fd = r->output_write_fd = r->error_write_fd = -1;
    r->log.file_fd = r->tree.proc_fd = -1;
    r->transport.read_fd = r->transport.write_fd = -1;
    r->guard.pid = r->guard.socket_fd = r->guard.parent_fd = -1;
    int code = open_all(r, why);
    if (code == 0) code = launch(r, why);
    if (code == 0) code = watch_and_stop(r, why);
    if (!trial_guard_close(&r->guard) && r->guard.scratch.len > 0)
        ret_trial->left_behind = r->guard.scratch;
    trial_transport_close(&r->transport);
    os_close(&r->out.from_fd);
    os_close(&r->error.from_fd);
    os_close(&r->output_write_fd);
    os_close(&r->error_write_fd);
    trial_tree_close(&r->tree);
    trial_log_close(&r->log);
    ret_trial->log_error = r->log.error;
    return code;
}
