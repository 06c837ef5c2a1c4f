// SPDX-License-Identifier: Apache-2.0
// The polite part of a stop: what a training needs to save lives as long as it does.
#include "trial.h"

#include <fcntl.h>

// Saves in its handler, `text` before. Its steps come by a shell of its own, after `first`.
#define SAVES_AFTER(first, text)                                                            \
    "sh -c \"$P \"'trap \"sleep .3; " text " echo saved; exit 0\" TERM; " first "; start; " \
    "step 1; while :; do sleep .05; done'"
#define SAVES(text) SAVES_AFTER(":", text)

static void stop_after_a_step(void *context, const struct steps *steps,
                              const struct trial_outside *outside) {
    struct trial_whole *whole = context;
    (void)outside;
    if (steps->count > 0) whole->asks_stop = true;
}

// A whole run that is stopped after its first step.
static struct trial stop(struct arena *a, const char *text, double grace_s) {
    struct trial_whole whole = {.out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
                                .err_fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    struct trial_request q = script(a, text);
    q.whole = &whole;
    q.grace_s = grace_s;
    q.watch = stop_after_a_step;
    q.watch_context = &whole;
    struct trial t = try(a, &q);
    close(whole.out_fd);
    close(whole.err_fd);
    assert_end(a, &t, FAILURE_ASKED);
    return t;
}

// Whoever loses a DataLoader's worker, or the reader of its output, cannot end its step and save.
static void what_it_needs_lives_as_long(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct trial t =
        stop(&a,
             "sleep 1000 & H=$!; trap 'sleep .3; grep -q sleep /proc/$H/cmdline && echo it lives; "
             "exit 0' TERM; start; step 1; while :; do sleep .05; done",
             30);
    assert_str(t.output, "it lives\n");
    t = stop(&a, // however late it reads; a shell that ends before it starts the reader has none
             SAVES_AFTER("while ! test -e $BATCHFIT_SCRATCH/reader; do sleep .01; done",
                         "") " | (: > $BATCHFIT_SCRATCH/reader; sleep .6; cat)",
             30);
    assert_str(t.output, "saved\n");
}

// A shell dies of the signal at once; what it has started may still save.
static void a_shell_that_dies_leaves_the_grace(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int64_t begin_ns = os_now_ns();
    struct trial t = stop(&a, SAVES("sleep 1.5;") "; echo next", 30);
    assert_str(t.output, "saved\n");
    assert_true(os_now_ns() - begin_ns < INT64_C(25000000000)); // not the whole grace
}

// torchrun does this: the rank is a session of its own, and all of it gets the launcher's signal.
static void a_launcher_hears_of_it_last(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *launcher =
        "perl -e '$p = fork(); if (!$p) { exec(\"setsid\", \"sh\", \"-c\", $ARGV[0]) } "
        "$SIG{TERM} = sub { kill(\"-KILL\", $p); print \"launcher told\\n\"; exit 3 }; "
        "waitpid($p, 0); exit($? >> 8)' -- ";
    static const char rank[] =
        "\"$P \"'sleep 1000 & H=$!; trap \"sleep .3; kill -0 \\$H && echo saved; kill \\$H; exit "
        "0\" TERM; start; step 1; while :; do sleep .05; done'";
    struct trial t = stop(&a, str_format(&a, "%s%s; :", launcher, rank).p, 30);
    assert_str(t.output, "saved\n");
}

// One that would start its ranks again is told once they are gone.
static void a_launcher_that_goes_on_is_told(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *launcher = "perl -e '$SIG{TERM} = sub { print \"told\\n\"; exit 0 }; "
                           "system(\"sh\", \"-c\", $ARGV[0]); print \"again\\n\"; sleep 1000' -- ";
    int64_t begin_ns = os_now_ns();
    struct trial t = stop(
        &a, str_format(&a, "%s\"$P \"'start; step 1; while :; do sleep .05; done'", launcher).p,
        30);
    assert_true(str_ends(t.output, STR("told\n")));
    assert_true(os_now_ns() - begin_ns < INT64_C(25000000000));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_it_needs_lives_as_long),
        TEST(a_shell_that_dies_leaves_the_grace),
        TEST(a_launcher_hears_of_it_last),
        TEST(a_launcher_that_goes_on_is_told),
    };
    return cmocka_run_group_tests_name("trial_farewell", tests, NULL, NULL);
}
