// SPDX-License-Identifier: Apache-2.0
// What a trial sees of a command that tells of no steps: what it prints, what its processes are
// (a process that maps a file of that name stands in for PyTorch here; tests/frameworks has the
// real one), and whether it does more than to keep a CPU busy.
#include "trial.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

static const char *self; // this program

static struct trial_request printing(struct arena *a, const char *text) {
    struct trial_request q = script(a, text);
    q.warmup_steps = 2;
    q.steps = 6;
    q.samples_each = 4;
    return q;
}

static void printed_steps_are_steps(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = printing(
        &a, "i=0; while :; do i=$((i + 1)); echo \"step: $i, loss: 0.5\"; sleep .05; done");
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_true(str_starts(t.printed, STR("step: ")));
    assert_true(steps_of_slowest(&t.steps, 0) >= 8);
    assert_int_equal(t.steps.items[0].samples, 4);
    assert_true(t.steps.items[0].times.total_ms > 40);
}

static void told_steps_go_before_printed_ones(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = printing(
        &a, "start; i=0; while [ $i -lt 20 ]; do i=$((i + 1)); echo \"step: $i\"; sleep .02; done; "
            "for i in 1 2 3 4 5 6 7 8; do step $i; done; sleep 60");
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_ENOUGH);
    assert_int_equal(t.printed.len, 0);
    assert_int_equal(t.steps.count, 8);
}

static void a_preparation_is_no_training(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = printing(
        &a,
        "i=0; while :; do i=$((i + 1)); printf '\\rMap:  1%%|# | %d/900 [00:01<00:02, 9it/s]' $i; "
        "sleep .02; done");
    q.start_limit_s = 1;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_NO_START);
    assert_int_equal(t.printed.len, 0);
    struct str hint, text = trial_sight_text(&a, &t.sight, &t.steps, (double)NAN, &hint);
    assert_true(str_equal(text, STR("it did not run Python")));
}

static void endless_output_ends_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        printing(&a, "head -c 300000000 /dev/zero | tr '\\0' x; rm -rf \"$BATCHFIT_SCRATCH\" "
                     "\"$BATCHFIT_STEPS_DIR\"; start; step 1; exit 0");
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_CLEAN);
    assert_true(t.output_bytes >= 300000000);
    assert_int_equal(t.steps.count, 1); // by the pipe: its folder is gone
}

static void a_daemon_is_seen_to_its_end(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = printing(
        &a,
        "setsid sh -c 'eval \"$P\"; sleep .3; start; for i in 1 2 3; do step $i; done' & exit 0");
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_CLEAN);
    assert_int_equal(t.steps.count, 3);
}

// Maps a file that is called like PyTorch's library, and sleeps.
static int play_torch(const char *folder) {
    char path[200];
    snprintf(path, sizeof path, "%s/libtorch_python.so", folder);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) < 0) return 1;
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 1;
    unlink(path);
    sleep(60);
    return 0;
}

static struct trial run_torch(struct arena *a, const char *before, double start_limit_s) {
    struct trial_request q = printing(a, "");
    char **argv = arena_new(a, char *, 4), **environment = arena_new(a, char *, 4);
    argv[0] = (char *)"/bin/sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)str_format(a, "%s %s play %s", before, self, unit_folder).p;
    environment[0] = (char *)"PYTHONPATH=/a/hook:/b";
    environment[1] = unit_mark;
    q.argv = argv;
    q.environment = environment;
    q.start_limit_s = start_limit_s;
    return try(a, &q);
}

static void torch_without_the_emitter_is_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial t = run_torch(&a, str_format(&a, "env -i %s", unit_mark).p, 60);
    assert_end(&a, &t, FAILURE_BLIND);
    assert_int_equal(t.sight.blind, TRIAL_BLIND_ENVIRONMENT);
    assert_true(t.seconds < 30);
    t = run_torch(&a, "", 2.5);
    assert_end(&a, &t, FAILURE_NO_START);
    assert_true(t.sight.has_emitter && t.sight.has_torch);
}

static bool was_only_busy;
static void note(void *context, const struct steps *steps, const struct trial_outside *outside) {
    (void)context, (void)steps;
    was_only_busy = was_only_busy || outside->is_only_busy;
}

// It is left alone, and what it lacks is seen.
static void a_busy_cpu_alone_is_told(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_only_busy;
    } cases[] = {
        {"start; exec timeout 4 sh -c 'while :; do :; done'", true},
        {"start; timeout 4 sh -c 'while :; do echo .; done'; true", false},
    };
    for (size_t i = 0; i < 2; i++) {
        ARENA_AUTO a = {0};
        struct trial_request q = script(&a, cases[i].text);
        struct trial_whole whole = {.out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC), .err_fd = 2};
        was_only_busy = false;
        q.start_limit_s = 1.5;
        q.whole = &whole;
        q.watch = note;
        struct trial t = try(&a, &q);
        assert_true(t.has_status && !t.was_killed);
        assert_int_equal(was_only_busy, cases[i].is_only_busy);
        close(whole.out_fd);
    }
}

// Forwards without a step are told of now and then: the training lives.
static void a_long_evaluation_is_no_hang(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q = script(
        &a, "start; step 1; for i in 1 2 3 4 5 6 7 8; do sleep .5; "
            "say '{\"v\":1,\"event\":\"seen\",\"what\":\"forward\",\"rank\":0,\"pid\":'$$'}'; "
            "done; step 2");
    struct trial_whole whole = {.out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC), .err_fd = 2};
    q.stall_limit_s = 2.5;
    q.whole = &whole;
    struct trial t = try(&a, &q);
    assert_end(&a, &t, FAILURE_CLEAN);
    assert_int_equal(t.steps.count, 2);
    close(whole.out_fd);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "play") == 0) return play_torch(argv[2]);
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    self = path;
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(printed_steps_are_steps),      TEST(told_steps_go_before_printed_ones),
        TEST(a_preparation_is_no_training), TEST(endless_output_ends_nothing),
        TEST(a_daemon_is_seen_to_its_end),  TEST(torch_without_the_emitter_is_refused),
        TEST(a_busy_cpu_alone_is_told),     TEST(a_long_evaluation_is_no_hang),
    };
    return cmocka_run_group_tests_name("probe_seen", tests, NULL, NULL);
}
