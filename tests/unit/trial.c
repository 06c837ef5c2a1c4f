// SPDX-License-Identifier: Apache-2.0
// Trials from start to end: what is reported of programs that behave, and of those that do not.
#include "trial.h"

#include <fcntl.h>
#include <math.h>

static void enough_steps_stop_it(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = script(
        &a, "echo out; echo err >&2; start; i=0; while :; do i=$((i+1)); step $i; sleep .01; done");
    q.warmup_steps = 2;
    q.steps = 5;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(t.steps.count >= 7);
    assert_int_equal(t.steps.items[6].number, 7);
    assert_int_equal(t.steps.broken_lines, 0);
    assert_str(t.output, "out\nerr\n");
    assert_int_equal(t.output_bytes, 8);
    assert_true(t.peak_bytes > 20000);
    assert_int_equal(t.limiter, TRIAL_LIMITER_NONE);
    assert_int_equal(t.oom_kills, -1);
    assert_int_equal(t.killed_strays, 0);
    assert_false(t.left_group);
    assert_false(t.is_standin);
}

static void an_own_end_is_told(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int status, signal;
    } cases[] = {{"exit 0", 0, 0},
                 {"echo boom; exit 3", 3, 0},
                 {"kill -9 $$", -1, SIGKILL},
                 {"kill -SEGV $$", -1, SIGSEGV}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct trial_request q = script(&a, cases[i].text);
        struct trial t = try(&a, &q);
        assert_own_end(&a, &t);
        assert_int_equal(t.ending.exit_status, cases[i].status);
        assert_int_equal(t.ending.signal, cases[i].signal);
        if (cases[i].status == 3) assert_str(t.output, "boom\n");
    }
}

static void what_cannot_be_run_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *plain = at(&a, "plain"), *script_file = at(&a, "script");
    static const char text[] = "#!/nonexistent/python\n";
    assert_int_equal(os_replace(&a, plain, STR("x"), NULL, NULL), 0);
    assert_int_equal(os_replace(&a, script_file, str_of(text), NULL, NULL), 0);
    chmod(plain, 0644);
    chmod(script_file, 0755);
    const struct {
        const char *command, *folder, *text;
    } cases[] = {{"batchfit-no-such-command", NULL, "no such command"},
                 {"./train", NULL, "no such command"},
                 {"/tmp", NULL, "a folder, not"},
                 {plain, NULL, "permission denied"},
                 {script_file, NULL, "interpreter"},
                 {"/bin/sh", "/nonexistent", "/nonexistent: cannot run a trial there"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fail why = {0};
        struct trial t;
        char *argv[] = {(char *)cases[i].command, NULL};
        struct trial_request q = {
            .argv = argv, .folder = cases[i].folder, .scratch_parent = unit_folder};
        assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_INPUT);
        if (!strstr(why.message, cases[i].text)) assert_string_equal(why.message, cases[i].text);
        if (!cases[i].folder) assert_true(why.hint[0]);
    }
    unlink(plain);
    unlink(script_file);
    assert_nothing_left(&a);
}

static void bad_requests_are_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct trial t;
    char *nothing[] = {NULL}, *empty[] = {(char *)"", NULL};
    struct trial_request q = {.argv = nothing, .scratch_parent = unit_folder};
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_USAGE);
    q.argv = empty;
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_USAGE);
    q = script(&a, "exit 0");
    q.scratch_parent = "/nonexistent";
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_MACHINE);
    assert_non_null(strstr(why.hint, "TMPDIR"));
    q.scratch_parent = "/proc";
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_MACHINE);
    q.scratch_parent = unit_folder;
    q.log_path = "/nonexistent/log";
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_INPUT);
    assert_nothing_left(&a);
}

static void limits_stop_it(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double start_s, stall_s, time_s;
        enum failure_class end;
    } cases[] = {
        {"start; sleep 1000", .3, 60, 90, FAILURE_NO_START},
        {"start; step 1; sleep 1000", 60, .5, 90, FAILURE_STALLED},
        {"start; while :; do step 1; sleep .05; done", 60, 60, .8, FAILURE_TIME_UP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct trial_request q = script(&a, cases[i].text);
        q.start_limit_s = cases[i].start_s;
        q.stall_limit_s = cases[i].stall_s;
        q.time_limit_s = cases[i].time_s;
        q.steps = 1000000;
        struct trial t = try(&a, &q);
        assert_end(&a, &t, cases[i].end);
        assert_true(t.seconds >= .3);
    }
}

static int64_t own_peak_bytes(struct arena *a) {
    struct str text;
    assert_int_equal(os_read(a, "/proc/self/status", 1 << 16, &text, NULL, NULL), 0);
    return atoll(strstr(str_z(a, text), "VmHWM:") + 6) * 1024;
}

static void much_output_is_counted_and_cut(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = script(&a, "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end");
    int64_t before = own_peak_bytes(&a);
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.output_bytes, 200000005);
    assert_int_equal(t.output.len, 256 << 10);
    assert_true(str_ends(t.output, STR("xxx\nend\n")));
    assert_int_equal(t.output.p[0], 'x');
    assert_true(own_peak_bytes(&a) - before < 40 << 20); // a sanitizer keeps what is freed
}

static void the_log_keeps_all(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str text;
    char log[] = "/tmp/batchfit-unit-log-XXXXXX";
    close(mkstemp(log));
    struct trial_request q = script(&a, "seq 1 200000; echo last >&2");
    q.log_path = log;
    struct trial t = try(&a, &q);
    assert_int_equal(os_read(&a, log, 1 << 24, &text, NULL, NULL), 0);
    unlink(log);
    assert_int_equal(text.len, t.output_bytes);
    assert_true(str_starts(text, STR("1\n2\n3\n")));
    assert_true(str_ends(text, STR("199999\n200000\nlast\n")));
    q.log_path = "/dev/full"; // the trial goes on
    t = try(&a, &q);
    assert_own_end(&a, &t);
}

static void broken_lines_are_counted(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, "start; say '{\"v\":1,'; say hello; step 1; say '[1]'; step 2; "
                   "eval \"head -c 300000 /dev/zero >&$BATCHFIT_FD\"; say; step 3");
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.steps.count, 3);
    assert_int_equal(t.steps.broken_lines, 4);
}

static void steps_come_by_files_too(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, "eval \"exec $BATCHFIT_FD>&-\"; say() { printf '%s\\n' \"$1\" "
                   ">>$BATCHFIT_STEPS_DIR/$$.jsonl; };"
                   "start; for i in 1 2 3 4; do step $i; sleep .03; done; ln -s /etc/passwd "
                   "$BATCHFIT_STEPS_DIR/1.jsonl; mkfifo $BATCHFIT_STEPS_DIR/2.jsonl; sleep .1; "
                   "step 5; sleep 1000");
    q.steps = 5;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_int_equal(t.steps.count, 5);
    assert_int_equal(t.steps.broken_lines, 0);
}

static void the_child_gets_what_it_needs_and_no_more(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int open_fd = open("/dev/null", O_RDONLY); // without CLOEXEC
    struct trial_request q =
        script(&a, "cat; ls /proc/$$/fd; test -d "
                   "\"$BATCHFIT_SCRATCH\" && touch \"$BATCHFIT_SCRATCH/x\" && "
                   "echo scratch; echo \"$UNIT_VALUE$(stat -L -c %i "
                   "/proc/$$/fd/$BATCHFIT_FD):$BATCHFIT_FD_ID\" | "
                   "sed 's/\\(.*\\):.*:\\1$/same/'; tty; pwd; "
                   "case $(mktemp -d) in ${BATCHFIT_SCRATCH%/out}/tmp/*) echo tmp;; esac; "
                   "echo ${TORCHINDUCTOR_CACHE_DIR#*/torchinductor_}; "
                   " test $(ps -o "
                   "sid= -p $$) != $$ && echo own group");
    setenv("BATCHFIT_FD", "99", 1); // of an outer trial
    setenv("LOGNAME", "somebody", 1);
    unsetenv("TORCHINDUCTOR_CACHE_DIR");
    q.folder = "/usr";
    struct trial t = try(&a, &q);
    unsetenv("BATCHFIT_FD");
    close(open_fd);
    assert_string_equal(str_z(&a, t.output),
                        "0\n1\n2\n7\nscratch\nsame\nnot a tty\n/usr\ntmp\nsomebody\nown group\n");
}

struct prepared {
    char *argv[4];
    char *environment[2];
    int code;
};

static int prepare(void *context, struct arena *a, const char *scratch, char *const **ret_argv,
                   char *const **ret_environment, struct fail *why) {
    struct prepared *p = context;
    if (p->code) return fail_set(why, p->code, "not prepared");
    const char *config = str_format(a, "%s/config", scratch).p;
    assert_int_equal(os_replace(a, config, STR("batch: 4\n"), NULL, why), 0);
    p->argv[0] = (char *)"cat";
    p->argv[1] = (char *)config;
    p->environment[0] = unit_mark;
    *ret_argv = p->argv;
    *ret_environment = p->environment;
    return 0;
}

static void the_scratch_folder_can_be_prepared(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct prepared p = {0};
    struct trial t;
    struct trial_request q = {
        .scratch_parent = unit_folder, .prepare = prepare, .prepare_context = &p};
    t = try(&a, &q);
    assert_str(t.output, "batch: 4\n");
    p.code = FAIL_INPUT;
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_INPUT);
    assert_string_equal(why.message, "not prepared");
    assert_nothing_left(&a);
}

// Two processes that hold 60 MB each for so long at the same time: tail has all that it is asked
// for when its first byte comes; each of two waits for the other.
static const char *two_that_hold(struct arena *a, int seconds) {
    return str_format(
               a,
               "f=$(mktemp) && exec 3<>$f && rm $f; hold() { head -c 60000000 /dev/zero | "
               "tail -c 60000000 | { head -c 1; echo >>/proc/self/fd/3; "
               "until [ $(wc -l </proc/self/fd/3) = 2 ]; do sleep 0.05; done; sleep %d; cat; } "
               ">/dev/null; }; hold & hold; wait",
               seconds)
        .p;
}

static void memory_of_the_tree_is_measured_and_limited(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    // Longer than a busy machine may leave between two looks.
    struct trial_request q = script(&a, two_that_hold(&a, 3));
    struct trial t = try(&a, &q);
    assert_in_range(t.peak_bytes, 120000000, 160000000);
    // Either of them alone would be within the limit, which stops them long before their end.
    q = script(&a, two_that_hold(&a, 60));
    q.memory_limit_bytes = 90 << 20;
    t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_true(t.limiter == TRIAL_LIMITER_GUARD || t.limiter == TRIAL_LIMITER_CGROUP);
    assert_int_equal(t.end, FAILURE_MEMORY);
    if (t.limiter == TRIAL_LIMITER_CGROUP) {
        assert_true(t.oom_kills > 0);
    } else {
        assert_string_equal(t.ending.signature->id, "limit-over");
        assert_true(t.over_bytes > q.memory_limit_bytes && t.over_bytes < 120 << 20);
    }
}

static void a_stand_in_is_marked(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = script(&a, "FRAMEWORK=standin; start; step 1");
    assert_true(try(&a, &q).is_standin);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(enough_steps_stop_it),
        TEST(an_own_end_is_told),
        TEST(what_cannot_be_run_is_said),
        TEST(bad_requests_are_refused),
        TEST(limits_stop_it),
        TEST(much_output_is_counted_and_cut),
        TEST(the_log_keeps_all),
        TEST(broken_lines_are_counted),
        TEST(steps_come_by_files_too),
        TEST(the_child_gets_what_it_needs_and_no_more),
        TEST(the_scratch_folder_can_be_prepared),
        TEST(memory_of_the_tree_is_measured_and_limited),
        TEST(a_stand_in_is_marked),
    };
    return cmocka_run_group_tests_name("probe_trial", tests, NULL, NULL);
}
