// SPDX-License-Identifier: Apache-2.0
// The parts of a trial by themselves: process tree, scratch folder, memory limit, log.
#include "trial.h"

#include "measure/trial/trial_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void run(const char *command) {
    char whole[4096];
    snprintf(whole, sizeof whole, "cd %s && %s", unit_folder, command);
    assert_int_equal(system(whole), 0);
}

// Deeper than a process may have descriptors, and than a path may be long.
static void make_deep(int parent) {
    int fd = openat(parent, "s/out", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1100; i++) {
        assert_int_equal(mkdirat(fd, "folder", 0700), 0);
        int below = openat(fd, "folder", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = below;
    }
    assert_int_equal(symlinkat("/etc", fd, "leaf"), 0);
    close(fd);
}

static void a_scratch_folder_goes_whatever_is_in_it(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int parent = open(unit_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(trial_scratch_make(parent, "s"), 0);
    assert_int_equal(trial_scratch_make(parent, "s"), -EEXIST);
    assert_true(os_exists(at(&a, "s/out")));
    assert_true(os_exists(at(&a, "s/steps")));
    run("mkdir kept && echo 1 >kept/file && ln -s ../../kept s/out/link && ln -s ../kept/file "
        "s/file");
    run("mkdir -p s/out/closed/below && touch s/out/closed/below/x && chmod 0 s/out/closed/below "
        "&& "
        "chmod 0500 s/out/closed");
    run("mkdir s/.-1 s/.-2 && touch s/.-1/x s/.-2/.hidden 's/new\nline' && mkfifo s/fifo");
    run("cd s/out && seq 3000 | xargs touch");
    make_deep(parent);
    assert_true(trial_scratch_remove(parent, "s"));
    assert_false(os_exists(at(&a, "s")));
    assert_true(os_exists(at(&a, "kept/file")));
    assert_true(trial_scratch_remove(parent, "s")); // gone is gone
    run("ln -s kept s");
    assert_false(trial_scratch_remove(parent, "s"));
    assert_true(os_exists(at(&a, "kept/file")));
    run("rm -r s kept");
    close(parent);
}

static pid_t start(const char *text) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void a_tree_is_found_and_measured(void **state) {
    (void)state;
    struct tree t;
    assert_int_equal(trial_tree_open(&t), 0);
    pid_t beside = start("exec sleep 1000");
    pid_t root = start("sleep 1000 & sh -c 'sleep 1000 & setsid sleep 1000 & wait' & wait");
    for (int i = 0; i < 1000 && (t.count < 4 || !trial_tree_has_left(&t, getpgrp())); i++) {
        assert_int_equal(trial_tree_scan(&t, root), 0);
        usleep(10000);
    }
    assert_int_equal(t.count, 4);
    assert_int_equal(trial_tree_living(&t), 4);
    assert_true(trial_tree_has_left(&t, getpgrp()));
    assert_false(trial_tree_has(&t, root));
    assert_false(trial_tree_has(&t, beside));
    for (int i = 0; i < t.count; i++) assert_true(trial_tree_has(&t, t.items[i].pid));
    assert_true(trial_tree_start_of(&t, root) >= trial_tree_start_of(&t, beside));
    assert_true(trial_tree_start_of(&t, beside) > 0);
    struct meter meter = {.peak_bytes = -1};
    trial_meter_look(&meter, &t, -1, os_now_ns());
    struct tree_memory m = meter.last;
    assert_int_equal(m.processes, 4);
    assert_true(m.largest_hwm_bytes > 0 && m.rss_bytes > m.largest_hwm_bytes);
    assert_true(meter.is_exact && meter.now_bytes > 0 && meter.now_bytes < m.rss_bytes);
    assert_int_equal(meter.peak_bytes, meter.now_bytes);
    // Spared are the session of `root` and all that began before.
    struct tree_spared by_session = {.session = getsid(0)};
    struct tree_spared by_time = {.before_ticks = INT64_MAX};
    int spared = 0;
    for (int i = 0; i < t.count; i++) {
        spared += trial_tree_is_spared(&t.items[i], by_session);
        assert_true(trial_tree_is_spared(&t.items[i], by_time));
        assert_false(trial_tree_is_spared(&t.items[i], (struct tree_spared){0}));
    }
    assert_int_equal(spared, 3);
    trial_tree_signal(&t, SIGKILL, (struct tree_spared){0});
    assert_int_equal(waitpid(root, NULL, 0), root); // all it waits for are gone
    assert_int_equal(waitpid(beside, NULL, WNOHANG), 0);
    kill(beside, SIGKILL);
    waitpid(beside, NULL, 0);
    trial_tree_close(&t);
}

// Not by malloc: a sanitizer's keeps what is freed.
static void *pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// A failed test must not leave anyone who keeps our output open.
static pid_t fork_bound(void) {
    pid_t pid = fork();
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

// What is shared counts once, and what was given back between two looks is not lost.
static void memory_is_counted_once(void **state) {
    (void)state;
    // What nobody but its own process maps, and how far the kernel's VmHWM and VmRSS may be off: it
    // sums them up a batch of 32 pages a CPU at a time (percpu_counter, proc_pid_status(5)).
    enum { HELD = 64 << 20, CHILDREN = 4, MORE = 8 << 20, OFF = 1 << 20 };
    int ready[2], go[2];
    char byte;
    assert_true(pipe(ready) == 0 && pipe(go) == 0);
    pid_t root = fork_bound();
    if (root == 0) {
        pid_t holder = fork_bound();
        if (holder != 0) pause();
        volatile char *held = pages(HELD); // clang leaves out what is only written
        for (int i = 0; i < HELD; i += 4096) held[i] = 1;
        for (int i = 0; i < CHILDREN; i++) {
            if (fork_bound() == 0) pause();
        }
        (void)!write(ready[1], "", 1);
        (void)!read(go[0], &byte, 1);
        volatile char *more = pages(HELD);
        for (int i = 0; i < HELD; i += 4096) more[i] = 1;
        munmap((char *)more, HELD);
        (void)!write(ready[1], "", 1);
        pause();
    }
    struct tree t;
    struct meter m = {.peak_bytes = -1};
    assert_int_equal(trial_tree_open(&t), 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 1000 && t.count < 1 + CHILDREN; i++) trial_tree_scan(&t, root);
    trial_meter_look(&m, &t, -1, os_now_ns());
    assert_true(m.last.rss_bytes > CHILDREN * (int64_t)HELD); // what their sum would say
    assert_in_range(m.peak_bytes, HELD, HELD + MORE);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    trial_meter_look(&m, &t, -1, os_now_ns() + INT64_C(60000000000));
    assert_in_range(m.now_bytes, HELD, HELD + MORE);
    assert_in_range(m.peak_bytes, 2 * HELD - OFF, 2 * HELD + MORE);
    kill(root, SIGKILL);
    trial_tree_signal(&t, SIGKILL, (struct tree_spared){0});
    waitpid(root, NULL, 0);
    trial_tree_close(&t);
}

// What was given back before the first look, and what lived between two, is not lost either.
static void what_nobody_looked_at_is_counted(void **state) {
    (void)state;
    enum { HELD = 64 << 20, MORE = 8 << 20, OFF = 1 << 20 };
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t root = fork_bound();
    if (root == 0) {
        pid_t alone = fork_bound();
        if (alone == 0) {
            char *held = pages(HELD);
            if (!held) _exit(1);
            memset(held, 1, HELD);
            munmap(held, HELD);
            (void)!write(ready[1], "", 1);
        }
        for (;;) pause();
    }
    struct tree t;
    struct meter late = {.peak_bytes = -1}, never = {.peak_bytes = -1};
    assert_int_equal(trial_tree_open(&t), 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 1000 && t.count < 1; i++) trial_tree_scan(&t, root);
    trial_meter_look(&late, &t, -1, os_now_ns());
    assert_true(late.now_bytes < MORE);
    assert_in_range(late.peak_bytes, HELD - OFF, HELD + MORE);

    assert_int_equal(trial_meter_most(&never, 0), -1);
    assert_int_equal(trial_meter_most(&never, HELD), HELD);
    late.shared_bytes = MORE;
    assert_int_equal(trial_meter_most(&late, HELD), late.peak_bytes);
    assert_int_equal(trial_meter_most(&late, 2 * HELD), 2 * HELD - MORE);
    kill(root, SIGKILL);
    trial_tree_signal(&t, SIGKILL, (struct tree_spared){0});
    waitpid(root, NULL, 0);
    trial_tree_close(&t);
}

// A rank that dies before anyone looks is gone as well, unless its pid is of another namespace.
static void a_rank_that_was_never_seen_is_lost(void **state) {
    (void)state;
    enum { S = 1000000000 };
    static struct ranks seen, unseen;
    struct step_rank ranks[] = {{.state = STEPS_RANK_STARTED, .pid = 10, .last_ns = 1},
                                {.state = STEPS_RANK_STARTED, .pid = 11, .last_ns = 1}};
    struct steps steps = {.ranks = ranks, .rank_count = 2};
    struct tree_process process = {.pid = 11};
    struct tree with = {.items = &process, .count = 1}, without = {.items = &process};
    for (int64_t now_s = 1; now_s < 10; now_s++) {
        trial_ranks_see(&seen, &steps, &with, now_s * S);
        trial_ranks_see(&unseen, &steps, &without, now_s * S);
        assert_int_equal(trial_ranks_are_lost(&seen, &steps, 0, now_s * S, false), now_s > 6);
        assert_false(trial_ranks_are_lost(&unseen, &steps, 0, now_s * S, true));
    }
    ranks[0].last_ns = INT64_C(9) * S; // it tells on: a look missed it
    assert_false(trial_ranks_are_lost(&seen, &steps, 0, INT64_C(10) * S, false));
}

// A folder tree as a kernel with cgroup v2 shows it, to a process in /user/app.
static void make_cgroups(void) {
    run("mkdir -p proc/self cg/user/app && printf '4:memory:/x\\n0::/user/app\\n' "
        ">proc/self/cgroup");
    run("printf '22 1 0:20 / /proc rw - proc proc rw\\n30 24 0:26 / /cg rw,nosuid shared:4 - "
        "cgroup2 "
        "cgroup2 rw\\n' >proc/self/mountinfo");
    run("echo 'oom_kill 7' >proc/vmstat");
}

static void a_place_for_a_group_is_found(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    assert_int_equal(trial_limit_find(&a, unit_folder).len, 0); // no /proc at all
    make_cgroups();
    assert_int_equal(trial_limit_find(&a, unit_folder).len, 0); // no controllers
    run("echo 'cpu memoryless' >cg/user/cgroup.subtree_control; echo "
        ">cg/user/app/cgroup.subtree_control");
    // Ours has processes: a kernel refuses "+memory", a plain file takes it, so it may not be
    // writable.
    run("rm cg/user/app/cgroup.subtree_control");
    assert_int_equal(trial_limit_find(&a, unit_folder).len, 0);
    run("echo 'cpu memory pids' >cg/user/cgroup.subtree_control");
    assert_string_equal(trial_limit_find(&a, unit_folder).p, at(&a, "cg/user")); // beside ours
    run("echo memory >cg/user/app/cgroup.subtree_control");
    assert_string_equal(trial_limit_find(&a, unit_folder).p, at(&a, "cg/user/app"));
    run("echo 0::/ >proc/self/cgroup; echo memory >cg/cgroup.subtree_control"); // in a container
    assert_string_equal(trial_limit_find(&a, unit_folder).p, at(&a, "cg"));
    run("echo 4:memory:/x >proc/self/cgroup"); // only the old cgroups
    assert_int_equal(trial_limit_find(&a, unit_folder).len, 0);
    run("rm -r proc cg");
}

static void counters_are_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    make_cgroups();
    run("printf 'low 0\\nhigh 2\\nmax 31\\noom 4\\noom_kill 3\\noom_group_kill 1\\n' "
        ">cg/memory.events");
    run("echo 123456789 >cg/memory.peak; echo max >cg/memory.max");
    const char *folder = at(&a, "cg");
    assert_int_equal(trial_limit_counter(folder, "memory.events", "oom_kill"), 3);
    assert_int_equal(trial_limit_counter(folder, "memory.events", "oom"), 4);
    assert_int_equal(trial_limit_counter(folder, "memory.events", "none"), -1);
    assert_int_equal(trial_limit_counter(folder, "memory.peak", NULL), 123456789);
    assert_int_equal(trial_limit_counter(folder, "memory.max", NULL), -1);
    assert_int_equal(trial_limit_counter(folder, "absent", NULL), -1);
    assert_int_equal(trial_limit_system_oom_kills(unit_folder), 7);
    // Not a cgroup: there is no memory.max to write in a new folder, and nothing is left of it.
    assert_int_equal(trial_limit_make(at(&a, "cg/new"), 1 << 20), -ENOENT);
    assert_false(os_exists(at(&a, "cg/new")));
    run("rm -r proc cg");
}

static void the_data_limit_stops_malloc(void **state) {
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit;
        int code = trial_limit_set_data(INT64_C(64) << 20);
        getrlimit(RLIMIT_DATA, &limit);
        if (code < 0 || limit.rlim_cur != 64 << 20 || limit.rlim_max != 64 << 20) _exit(1);
        if (trial_limit_set_data(INT64_C(128) << 20) < 0) _exit(2);
        getrlimit(RLIMIT_DATA, &limit);
        _exit(limit.rlim_cur == 64 << 20 ? 0 : 3); // never more than before
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void the_tail_is_the_end_of_all(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct log l;
    assert_int_equal(trial_log_open(&a, NULL, &l, NULL), 0);
    ptrdiff_t size = 3 * (LOG_TAIL_BYTES + 1000);
    char *all = arena_new(&a, char, size);
    for (ptrdiff_t i = 0; i < size; i++) all[i] = (char)(i * 7 + i / 251);
    static const ptrdiff_t pieces[] = {
        1, 100, 65536, 1000, LOG_TAIL_BYTES, 3, LOG_TAIL_BYTES + 5, 77777};
    ptrdiff_t done = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        trial_log_add(&l, (struct str){all + done, pieces[i]});
        done += pieces[i];
        struct str tail = trial_log_tail(&a, &l);
        ptrdiff_t wanted = done < LOG_TAIL_BYTES ? done : LOG_TAIL_BYTES;
        assert_int_equal(l.total_bytes, done);
        assert_int_equal(tail.len, wanted);
        assert_memory_equal(tail.p, all + done - wanted, (size_t)wanted);
    }
    trial_log_close(&l);
}

// Ten seconds of one process, seen at their start and at their end.
static void who_only_asks_is_told(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int64_t user_ticks, kernel_ticks, faults, room_bytes;
        double seconds;
        pid_t pid;
        bool spins;
    } rows[] = {
        {"asks in vain", 220, 780, 0, 80 << 20, 10, 7, true},
        {"seldom runs", 40, 110, 0, 80 << 20, 10, 7, true},
        {"not for long enough", 220, 780, 0, 80 << 20, 9, 7, false},
        {"gets a page", 220, 780, 1, 80 << 20, 10, 7, false},
        {"computes", 780, 220, 0, 80 << 20, 10, 7, false},
        {"waits", 1, 5, 0, 80 << 20, 10, 7, false},
        {"has room", 220, 780, 0, 800 << 20, 10, 7, false},
        {"is another", 220, 780, 0, 80 << 20, 10, 8, false},
    };
    double tick = (double)sysconf(_SC_CLK_TCK) / 100;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree_process p = {.pid = 7, .start_ticks = 1, .faults = 1000, .user_ticks = 300};
        struct spin s = {0};
        assert_false(trial_spin_sees(&s, &p, rows[i].room_bytes, 5));
        p.pid = rows[i].pid;
        p.faults += rows[i].faults;
        p.user_ticks += (int64_t)((double)rows[i].user_ticks * tick);
        p.kernel_ticks += (int64_t)((double)rows[i].kernel_ticks * tick);
        int64_t now_ns = 5 + (int64_t)(rows[i].seconds * 1e9);
        if (trial_spin_sees(&s, &p, rows[i].room_bytes, now_ns) != rows[i].spins)
            fail_msg("who %s", rows[i].what);
    }
}

// A machine with more to do than CPUs: a training that wants one lives; one that sleeps does
// not.
static void who_waits_for_a_cpu_lives(void **state) {
    (void)state;
    struct tree_process p = {.pid = 7, .start_ticks = 1};
    struct tree t = {.items = &p, .count = 1};
    for (int wants = 0; wants < 2; wants++) {
        struct life l = {.ns = 1, .more_ns = 1};
        for (int i = 1; i <= 60; i++) {
            p.is_runnable = wants && i % 4 > 0;
            trial_life_see(&l, &t, 0, 0, i * INT64_C(1000000000));
        }
        assert_int_equal(l.ns > INT64_C(30000000000), wants);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_scratch_folder_goes_whatever_is_in_it),
        TEST(a_tree_is_found_and_measured),
        TEST(memory_is_counted_once),
        TEST(what_nobody_looked_at_is_counted),
        TEST(a_rank_that_was_never_seen_is_lost),
        TEST(a_place_for_a_group_is_found),
        TEST(counters_are_read),
        TEST(the_data_limit_stops_malloc),
        TEST(who_only_asks_is_told),
        TEST(the_tail_is_the_end_of_all),
        TEST(who_waits_for_a_cpu_lives),
    };
    return cmocka_run_group_tests_name("probe_parts", tests, NULL, NULL);
}
