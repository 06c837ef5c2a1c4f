// SPDX-License-Identifier: Apache-2.0
// Commands that are run to their own end: output that goes on to ours, signals that are passed on,
// steps without end, checkpoints.
#include "trial.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static volatile sig_atomic_t signals[NSIG];

static struct str text_of(struct arena *a, int fd) {
    char *text = arena_new(a, char, 4096);
    ssize_t n = pread(fd, text, 4096, 0);
    close(fd);
    return (struct str){text, n};
}

static void output_goes_on_unchanged(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial_request q =
        script(&a, "printf 'a\\0b'; printf 'to err' >&2; sleep .1; printf '\\n'; exit 3");
    struct trial_whole whole = {.out_fd = memfd_create("out", 0), .err_fd = memfd_create("err", 0)};
    q.whole = &whole;
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.ending.exit_status, 3);
    assert_true(t.has_status && WEXITSTATUS(t.status) == 3);
    assert_true(str_equal(text_of(&a, whole.out_fd), (struct str){"a\0b\n", 4}));
    assert_true(str_equal(text_of(&a, whole.err_fd), STR("to err")));
    assert_int_equal(t.output_bytes, 10); // both are kept for the ending
}

struct reader {
    int fd;
    int64_t bytes;
};
static void *read_slowly(void *context) {
    struct reader *r = context;
    char bytes[8192];
    ssize_t n;
    usleep(700000);
    while ((n = read(r->fd, bytes, sizeof bytes)) > 0) r->bytes += n;
    return NULL;
}

// Steps go on being read while nobody reads the output: no stall.
static void a_slow_reader_slows_the_command(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int ends[2];
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    struct reader reader = {.fd = ends[0]};
    struct trial_request q =
        script(&a, "start; step 1; head -c 6000000 /dev/zero; step 2; printf end");
    struct trial_whole whole = {.out_fd = ends[1], .err_fd = ends[1]};
    q.whole = &whole;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    struct trial t = try(&a, &q);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    assert_own_end(&a, &t);
    assert_int_equal(t.ending.exit_status, 0);
    assert_int_equal(reader.bytes, 6000003);
    assert_int_equal(t.steps.count, 2);
}

static void a_reader_that_is_gone_ends_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    struct trial_request q = script(&a, "start; head -c 3000000 /dev/zero; step 1; exit 4");
    struct trial_whole whole = {.out_fd = ends[1], .err_fd = ends[1]};
    q.whole = &whole;
    struct trial t = try(&a, &q);
    signal(SIGPIPE, SIG_DFL);
    close(ends[1]);
    assert_int_equal(t.ending.exit_status, 4);
    assert_int_equal(t.output_bytes, 3000000);
    assert_int_equal(t.steps.count, 1);
}

struct later {
    int number[2];
    int64_t at_step;
};
static void signal_at_step(void *context, const struct steps *s, const struct trial_outside *o) {
    struct later *l = context;
    (void)o;
    for (int i = 0; i < 2 && s->forgotten + s->count >= l->at_step; i++) {
        if (l->number[i] > 0) signals[l->number[i]]++;
        l->number[i] = 0;
    }
}

static const struct {
    const char *script;
    struct later later;
    int exit_status;
    bool was_killed;
} signalled[] = {
    {"trap 'step 2; exit 9' INT; start; step 1; while :; do sleep .02; done",
     {{SIGINT}, 1},
     9,
     false},
    {"trap 'exit 8' TERM; start; step 1; while :; do sleep .02; done", {{SIGTERM}, 1}, 8, false},
    {"trap 'exit 7' USR1; start; step 1; while :; do sleep .02; done", {{SIGUSR1}, 1}, 7, false},
    {"trap '' TERM; start; step 1; while :; do sleep .02; done", {{SIGTERM}, 1}, -1, true},
    {"trap '' INT; start; step 1; while :; do sleep .02; done", {{SIGINT, SIGINT}, 1}, -1, true},
};

static void signals_are_passed_on(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof signalled / sizeof *signalled; i++) {
        ARENA_AUTO a = {0};
        int null = open("/dev/null", O_WRONLY);
        struct later later = signalled[i].later;
        bool is_hurry = later.number[1] > 0;
        struct trial_request q = script(&a, signalled[i].script);
        struct trial_whole whole = {.out_fd = null, .err_fd = null, .signals = signals};
        for (int k = 0; k < NSIG; k++) signals[k] = 0;
        q.whole = &whole;
        q.watch = signal_at_step;
        q.watch_context = &later;
        q.grace_s = is_hurry ? 600 : .4;
        struct trial t = try(&a, &q);
        close(null);
        assert_int_equal(t.ending.exit_status, signalled[i].exit_status);
        assert_int_equal(t.was_killed, signalled[i].was_killed);
        if (signalled[i].later.number[0] == SIGINT && !is_hurry) assert_int_equal(t.steps.count, 2);
        if (signalled[i].exit_status != 7) assert_end(&a, &t, FAILURE_INTERRUPTED);
    }
}

static void ask(void *context, const struct steps *s, const struct trial_outside *o) {
    struct trial_whole *whole = context;
    (void)o;
    if (s->mark_count > 0) whole->asks_stop = true;
}

static void a_wish_stops_it_after_a_checkpoint(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int null = open("/dev/null", O_WRONLY);
    struct trial_request q = script(
        &a, "start; step 1; step 2; say '{\"v\":1,\"event\":\"phase\",\"phase\":\"checkpoint\","
            "\"at\":1234.5,\"ms\":20}'; step 3; trap 'step 4; exit 0' TERM; while :; do sleep .02; "
            "done");
    struct trial_whole whole = {.out_fd = null, .err_fd = null};
    q.whole = &whole;
    q.watch = ask;
    q.watch_context = &whole;
    struct trial t = try(&a, &q);
    close(null);
    assert_end(&a, &t, FAILURE_ASKED);
    assert_int_equal(t.steps.mark_count, 1);
    assert_int_equal(t.steps.marks[0].steps, 2);
    assert_int_equal(t.steps.marks[0].samples, 8);
    assert_true(t.steps.marks[0].end_s == 1234.5 && t.steps.marks[0].ms == 20);
    assert_int_equal(steps_samples_after(&t.steps, 0, 2, 8), 8);
}

static void a_long_run_keeps_the_newest_steps(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int null = open("/dev/null", O_WRONLY);
    struct trial_request q = script(&a, "start; awk 'BEGIN { for (i = 1; i <= 40000; i++) printf "
                                        "\"{\\\"v\\\":1,\\\"event\\\":\\\"step\\\",\\\"step\\\":%d,"
                                        "\\\"samples\\\":4}\\n\", i }' >&7");
    struct trial_whole whole = {.out_fd = null, .err_fd = null};
    int64_t seen = 0;
    struct later later = {.at_step = INT64_MAX};
    q.whole = &whole;
    q.watch = signal_at_step;
    q.watch_context = &later;
    struct trial t = try(&a, &q);
    close(null);
    for (ptrdiff_t i = 0; i < t.steps.count; i++) {
        assert_int_equal(t.steps.items[i].number, t.steps.forgotten + i + 1);
        seen = t.steps.items[i].rank_samples;
    }
    assert_int_equal(t.steps.forgotten + t.steps.count, 40000);
    assert_true(t.steps.count < 30000);
    assert_int_equal(seen, 160000);
    assert_int_equal(t.steps.ranks[0].samples, 160000);
}

static void temporary_files_are_its_own(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    setenv("TMPDIR", "/tmp/", 1);
    struct trial_request q = script(&a, "echo \"$TMPDIR\"");
    struct trial_whole whole = {.out_fd = memfd_create("out", 0), .err_fd = 2};
    q.whole = &whole;
    try(&a, &q);
    unsetenv("TMPDIR");
    assert_true(str_equal(text_of(&a, whole.out_fd), STR("/tmp/\n")));
}

// A training is judged by its steps only while somebody who has announced itself owes them.
static void what_never_spoke_is_left_alone(void **state) {
    (void)state;
    static const char words[] =
        "end() { say '{\"v\":1,\"event\":\"end\",\"ok\":true,\"pid\":'$$',\"rank\":'${1:-0}'}'; }; "
        "mute() { say '{\"v\":1,\"event\":\"fault\",\"pid\":'$$'}'; };";
    static const struct {
        const char *text;
        enum failure_class end; // FAILURE_UNKNOWN: its own
    } cases[] = {
        {"sleep 3", FAILURE_UNKNOWN},
        {"sleep 3; start; step 1", FAILURE_UNKNOWN}, // what it did before it spoke is its own
        {"start; step 1; mute; sleep 3", FAILURE_UNKNOWN},
        {"sh -c 'eval \"$P$W\"; start; step 1; end'; sleep 3", FAILURE_UNKNOWN},
        // Steps that nobody sees: it lives.
        {"start; i=0; while [ $i -lt 30 ]; do printf . >&2; i=$((i + 1)); sleep .1; done",
         FAILURE_UNKNOWN},
        {"start; sh -c 'eval \"$P$W\"; start 1; step 1 1; end 1'; i=0; "
         "while [ $i -lt 30 ]; do printf . >&2; i=$((i + 1)); sleep .1; done",
         FAILURE_UNKNOWN},
        {"start; timeout 3 sh -c 'while :; do :; done'; true", FAILURE_UNKNOWN},
        {"start; sleep 60", FAILURE_NO_START},
        {"start; step 1; sleep 60", FAILURE_STALLED},
        {"start; step 1; end; sleep 60", FAILURE_STALLED}, // it did not leave
    };
    setenv("W", words, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct trial_request q = script(&a, str_format(&a, "eval \"$W\"; %s", cases[i].text).p);
        struct trial_whole whole = {.out_fd = 1, .err_fd = 2};
        q.start_limit_s = q.stall_limit_s = 1.4;
        q.grace_s = .1;
        q.whole = &whole;
        struct trial t = try(&a, &q);
        if (cases[i].end == FAILURE_UNKNOWN)
            assert_own_end(&a, &t);
        else
            assert_end(&a, &t, cases[i].end);
    }
    unsetenv("W");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(output_goes_on_unchanged),           TEST(a_slow_reader_slows_the_command),
        TEST(a_reader_that_is_gone_ends_nothing), TEST(signals_are_passed_on),
        TEST(a_wish_stops_it_after_a_checkpoint), TEST(a_long_run_keeps_the_newest_steps),
        TEST(temporary_files_are_its_own),        TEST(what_never_spoke_is_left_alone),
    };
    return cmocka_run_group_tests_name("probe_whole", tests, NULL, NULL);
}
