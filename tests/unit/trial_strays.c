// SPDX-License-Identifier: Apache-2.0
// Programs that are hard to stop: whatever they start, nothing of it is left, and nobody else's
// process is touched.
#include "trial.h"

// A reporting process of rank N in a shell of its own.
#define RANK(text) "sh -c \"$P \"'" text "' & "

static void one_that_ignores_sigterm_is_killed(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, "trap '' TERM INT HUP; start; step 1; while :; do sleep 1000; done");
    q.steps = 1;
    q.grace_s = .3;
    int64_t begin_ns = os_now_ns();
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(os_now_ns() - begin_ns >= 300000000);
}

static void one_that_obeys_sigterm_may_finish(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = script(
        &a, "trap 'sleep .2; echo saved; exit 0' TERM; start; step 1; while :; do sleep .05; done");
    q.steps = 1;
    q.grace_s = 30;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(str_ends(t.output, STR("saved\n")));
}

static void one_in_the_background_that_fails_has_failed(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, RANK("sleep .6; start; step 1; say "
                        "\"{\\\"v\\\":1,\\\"event\\\":\\\"end\\\",\\\"pid\\\":$$,\\\"ok\\\":false,"
                        "\\\"error\\\":\\\"ValueError: x\\\"}\"; sleep 1; exit 1") "exit 0");
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.ending.exit_status, 1);
}

static void a_launcher_that_ends_is_not_the_end(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    // Nothing was reported when the launcher is gone; then what it launched reports, and ends
    // badly.
    struct trial_request q = script(
        &a, RANK("sleep .6; start; step 1; sleep .6; step 2; sleep .3; echo bad; exit 5") "exit 0");
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.steps.count, 2);
    assert_str(t.output, "bad\n");
    assert_int_equal(t.ending.exit_status, 5);
    assert_int_equal(t.killed_strays, 0);
    // And is stopped after enough steps like any other.
    q = script(&a, RANK("start; i=0; while :; do i=$((i+1)); step $i; sleep .05; done") "exit 0");
    q.steps = 20;
    t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(t.steps.count >= 20);
}

static void daemons_are_found(void **state) {
    (void)state;
    static const char *const ways[] = {
        "sleep 1000 & ",                                                // a forgotten child
        "setsid sleep 1000 & ",                                         // a session of its own
        "(setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 &); ", // forked twice
        "nohup setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' >/dev/null 2>&1 & ",
        "env -i setsid sh -c 'sleep 1000 & kill -STOP $$' & ",
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ARENA_AUTO a = {0};
        const char *text = str_format(&a, "start; step 1; %s sleep .4; exit 0", ways[i]).p;
        struct trial_request q = script(&a, text);
        struct trial t = try(&a, &q);
        assert_own_end(&a, &t);
        assert_int_equal(t.ending.exit_status, 0);
        assert_true(t.killed_strays >= 1);
        assert_int_equal(t.left_group, i > 0);
        assert_true(t.seconds < 30); // a stray does not make the trial wait
    }
}

static void many_that_restart_each_other_are_killed(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, "i=0; while [ $i -lt 100 ]; do i=$((i+1)); setsid sh -c 'trap \"\" TERM; : >$0; "
                   "while :; do sh -c \"sleep 1000\" & wait $!; done' $BATCHFIT_SCRATCH/$i & done; "
                   // On a busy machine the last of them would still be stopped by SIGTERM.
                   "until set -- $BATCHFIT_SCRATCH/*; [ $# -ge 100 ]; do sleep .05; done; "
                   "start; step 1; while :; do sh -c 'sleep .01 & sleep .01' & sleep .001; done");
    q.steps = 1;
    q.grace_s = 30; // ends with the command: what is left then has outlived it
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(t.left_group);
    assert_true(t.killed_strays >= 100);
}

static void others_are_left_alone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    pid_t bystander = fork(); // a child of the same parent, in the same group
    if (bystander == 0) {
        for (;;) pause();
    }
    struct trial_request q =
        script(&a, "setsid sleep 1000 & start; step 1; kill -9 $PPID; sleep 1000");
    struct fail why = {0};
    struct trial t;
    // Somebody kills the guardian: what it guarded is killed all the same.
    assert_int_equal(trial_run(&a, &q, &t, &why), FAIL_MACHINE);
    assert_int_equal(t.left_behind.len, 0);
    assert_nothing_left(&a);
    assert_int_equal(waitpid(bystander, NULL, WNOHANG), 0);
    kill(bystander, SIGKILL);
    assert_int_equal(waitpid(bystander, NULL, 0), bystander);
}

static volatile bool interrupted;

static void interrupt(void *context, const struct steps *steps,
                      const struct trial_outside *outside) {
    int *calls = context;
    ++*calls;
    assert_true(outside->seconds >= 0);
    if (steps->count >= 3) interrupted = true;
}

static void an_interrupt_stops_cleanly(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int calls = 0;
    struct trial_request q = script(
        &a, "setsid sleep 1000 & start; i=0; while :; do i=$((i+1)); step $i; sleep .01; done");
    q.interrupted = &interrupted;
    q.watch = interrupt;
    q.watch_context = &calls;
    interrupted = false;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_INTERRUPTED);
    assert_true(t.steps.count >= 3);
    assert_true(calls >= 1);
    // A second interrupt, or one while it is being stopped, does not wait for the grace.
    q = script(&a, "trap '' TERM; start; step 1; while :; do sleep 1000; done");
    q.interrupted = &interrupted;
    q.grace_s = 1000;
    interrupted = true;
    t = try(&a, &q);
    assert_end(&a, &t, FAILURE_INTERRUPTED);
}

// Both must end the trial within 10 s, on a busy machine, too; what counts of the time is in the
// limits of trial.c: 8 s.
static void a_lost_rank_ends_it(void **state) {
    (void)state;
    static const char bad_end[] =
        "say "
        "\"{\\\"v\\\":1,\\\"event\\\":\\\"end\\\",\\\"rank\\\":1,\\\"pid\\\":$$,\\\"ok\\\":false,"
        "\\\"error\\\":\\\"ValueError: x\\\"}\"; exit 1";
    static const char oom[] =
        "say \"{\\\"v\\\":1,\\\"event\\\":\\\"oom\\\",\\\"rank\\\":1,\\\"pid\\\":$$,\\\"phase\\\":"
        "\\\"forward\\\",\\\"message\\\":\\\"x\\\"}\"; sleep 1000";
    const char *const ends[] = {bad_end, oom, "kill -9 $$"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        ARENA_AUTO a = {0};
        const char *text =
            str_format(&a,
                       RANK("start 0 2; step 1 0; sleep 1000")
                           RANK("start 1 2; step 1 1; sleep .5; %s") "wait; sleep 1000",
                       ends[i])
                .p;
        struct trial_request q = script(&a, text);
        q.steps = 5;
        int64_t begin_ns = os_now_ns();
        struct trial t = try(&a, &q);
        assert_end(&a, &t, FAILURE_RANK_LOST);
        assert_true(os_now_ns() - begin_ns < INT64_C(10500000000));
        assert_int_equal(t.steps.count, 2);
    }
}

static void every_rank_must_make_its_steps(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, RANK("start 0 2; i=0; while :; do i=$((i+1)); step $i 0; sleep .01; done")
                       RANK("start 1 2; i=0; while [ $i -lt 5 ]; do i=$((i+1)); sleep .2; step $i "
                            "1; done; sleep 1000") "wait");
    q.steps = 5;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(steps_of_slowest(&t.steps, 2) >= 5);
    assert_true(t.steps.count > 10);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(one_that_ignores_sigterm_is_killed),
        TEST(one_that_obeys_sigterm_may_finish),
        TEST(one_in_the_background_that_fails_has_failed),
        TEST(a_launcher_that_ends_is_not_the_end),
        TEST(daemons_are_found),
        TEST(many_that_restart_each_other_are_killed),
        TEST(others_are_left_alone),
        TEST(an_interrupt_stops_cleanly),
        TEST(a_lost_rank_ends_it),
        TEST(every_rank_must_make_its_steps),
    };
    return cmocka_run_group_tests_name("probe_strays", tests, NULL, NULL);
}
