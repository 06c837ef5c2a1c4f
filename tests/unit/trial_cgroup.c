// SPDX-License-Identifier: Apache-2.0
// The memory limit by a cgroup of the kernel's own, where one may be made; not so in most
// containers.
#include "trial.h"

#include "measure/trial/trial_int.h"

#include <errno.h>

static struct str place;

static void a_group_kills_what_grows(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int status;
    const char *folder = str_format(&a, "%.*s/batchfit-unit-%d", STR_ARG(place), getpid()).p;
    assert_int_equal(trial_limit_make(folder, 20 << 20), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (trial_limit_join(folder) < 0) _exit(1);
        char *p = malloc(60 << 20);
        for (size_t i = 0; p && i < 60u << 20; i += 4096) ((volatile char *)p)[i] = 1;
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(trial_limit_counter(folder, "memory.events", "oom_kill") >= 1);
    trial_limit_kill(folder);
    trial_limit_drop(folder);
    assert_false(os_exists(folder));
}

static void a_trial_is_limited_by_one(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    // Three processes that only together are too much.
    struct trial_request q =
        script(&a, "hold() { head -c 20000000 /dev/zero | tail -c 20000000 | "
                   "{ sleep 1; cat >/dev/null; }; }; hold & hold & hold & wait");
    q.memory_limit_bytes = 40 << 20;
    struct trial t = try(&a, &q);
    assert_own_end(&a, &t);
    assert_int_equal(t.limiter, TRIAL_LIMITER_CGROUP);
    assert_true(t.oom_kills >= 1);
}

int main(void) {
    ARENA_AUTO a = {0};
    place = trial_limit_find(&a, "");
    if (place.len == 0) {
        printf("1..0 # SKIP no cgroup v2 with a memory controller may be made here\n");
        return 0;
    }
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {TEST(a_group_kills_what_grows),
                                       TEST(a_trial_is_limited_by_one)};
    return cmocka_run_group_tests_name("probe_cgroup", tests, NULL, NULL);
}
