// SPDX-License-Identifier: Apache-2.0
// include/batchfit_steps.h against our own reader.
#include "unit.h"

#include "base/os.h"
#include "batchfit_steps.h"
#include "measure/steps/steps.h"

#include <math.h>

static long long now_ns;
static long long played_clock(void) {
    return now_ns;
}

// A pipe as a trial makes it. The descriptor to read from.
static int listen_to_pipe(int *ret_write_end) {
    int ends[2];
    struct stat st;
    char text[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fstat(ends[1], &st), 0);
    snprintf(text, sizeof text, "%d", ends[1]);
    setenv("BATCHFIT_FD", text, 1);
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("BATCHFIT_FD_ID", text, 1);
    unsetenv("BATCHFIT_STEPS_DIR");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *ret_write_end = ends[1];
    return ends[0];
}

static void read_all(int fd, struct steps *s, struct step_source *source) {
    char bytes[1 << 12];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0) {
        steps_feed(s, source, (struct str){bytes, (ptrdiff_t)n});
    }
}

static void open_played(struct batchfit_steps *w) {
    assert_int_equal(batchfit_open(w), 1);
    w->clock_ns = played_clock;
    batchfit_start(w);
}

static void play_step(struct batchfit_steps *w) {
    static const struct {
        enum batchfit_phase_id phase;
        int ms;
    } phases[] = {{BATCHFIT_IO, 1},        {BATCHFIT_H2D, 2},          {BATCHFIT_FORWARD, 3},
                  {BATCHFIT_BACKWARD, 4},  {BATCHFIT_FORWARD, 3},      {BATCHFIT_BACKWARD, 4},
                  {BATCHFIT_OPTIMIZER, 5}, {BATCHFIT_VALIDATION, 100}, {BATCHFIT_OTHER, 6}};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        batchfit_phase(w, phases[i].phase);
        now_ns += phases[i].ms * 1000000LL;
    }
    batchfit_micro_batch(w, 8);
    batchfit_micro_batch(w, 3);
    batchfit_step(w);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    struct batchfit_steps w;
    OS_FD write_end = -1;
    OS_FD fd = listen_to_pipe(&write_end);
    assert_int_equal(batchfit_open(&w), 1);
    w.clock_ns = played_clock;
    w.rank = 3;
    w.world = 4;
    w.framework = "mine";
    w.device = "cuda:3";
    w.peak_reserved = 80LL << 30;
    batchfit_start(&w);
    play_step(&w);
    batchfit_oom(&w, "no memory\n\"left\" \xff\xea\xb0\x80", 11);
    batchfit_end(&w, 0, "MemoryError: no");
    read_all(fd, &s, &source);
    assert_int_equal(s.broken_lines + s.unknown_events + s.dropped_lines, 0);
    assert_int_equal(s.count, 1);
    const struct step *step = &s.items[0];
    assert_true(step->times.io_ms == 1 && step->times.h2d_ms == 2 && step->times.forward_ms == 6);
    assert_true(step->times.backward_ms == 8 && step->times.optimizer_ms == 5 &&
                step->times.other_ms == 6);
    assert_true(step->times.total_ms == 28); // the validation is in no step
    assert_int_equal(step->samples, 11);
    assert_int_equal(step->micro_batch, 8);
    assert_int_equal(step->micro_count, 2);
    assert_int_equal(step->peak_reserved_bytes, INT64_C(80) << 30);
    assert_int_equal(step->allocated_bytes, -1);
    assert_int_equal(s.covered, STEPS_COVER_FORWARD | STEPS_COVER_BACKWARD |
                                    STEPS_COVER_VALIDATION | STEPS_COVER_LAST_BATCH);
    assert_int_equal(s.rank_count, 1);
    assert_int_equal(s.ranks[0].rank, 3);
    assert_int_equal(s.ranks[0].pid, getpid());
    assert_int_equal(s.world, 4);
    assert_str(s.ranks[0].framework, "mine");
    assert_str(s.ranks[0].device, "cuda:3");
    assert_str(s.ranks[0].oom_message, "no memory\n\"left\" ?\xea\xb0\x80");
    assert_int_equal(s.ranks[0].state, STEPS_RANK_ENDED_BADLY);
    assert_str(s.ranks[0].error, "MemoryError: no");
}

static void phases_that_are_never_entered_are_not_known(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    struct batchfit_steps w;
    OS_FD write_end = -1;
    OS_FD fd = listen_to_pipe(&write_end);
    open_played(&w);
    now_ns += 7000000;
    batchfit_step(&w);
    read_all(fd, &s, &source);
    assert_int_equal(s.count, 1);
    assert_true(isnan(s.items[0].times.io_ms) && isnan(s.items[0].times.forward_ms));
    assert_true(s.items[0].times.other_ms == 7 && s.items[0].times.total_ms == 7);
    assert_int_equal(s.items[0].samples, -1);
    assert_int_equal(s.covered, 0);
}

static void a_full_pipe_drops_and_counts(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    struct batchfit_steps w;
    OS_FD write_end = -1;
    OS_FD fd = listen_to_pipe(&write_end);
    open_played(&w);
    for (int i = 0; i < 5000; i++) play_step(&w); // the pipe blocks, the writer must not
    assert_true(w.dropped > 0);
    read_all(fd, &s, &source);
    assert_int_equal(s.dropped_lines, 0);
    play_step(&w);
    read_all(fd, &s, &source);
    assert_int_equal(s.dropped_lines, w.dropped);
    assert_int_equal(s.items[s.count - 1].number, 5001);
    assert_int_equal(s.broken_lines, 0);
}

static void a_reader_that_is_gone_kills_nobody(void **state) {
    (void)state;
    struct batchfit_steps w;
    OS_FD write_end = -1;
    int fd = listen_to_pipe(&write_end);
    open_played(&w);
    close(fd);
    play_step(&w);
    assert_true(w.dropped > 0);
}

static void another_file_under_the_number_is_not_written_to(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/batchfit-unit-XXXXXX";
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    struct batchfit_steps w;
    struct str text;
    struct fail why;
    OS_FD write_end = -1;
    OS_FD fd = listen_to_pipe(&write_end);
    assert_non_null(mkdtemp(folder));
    setenv("BATCHFIT_FD_ID", "1:1", 1);
    assert_int_equal(batchfit_open(&w), 0);
    setenv("BATCHFIT_STEPS_DIR", folder, 1);
    for (int i = 0; i < 2; i++) { // appends
        assert_int_equal(batchfit_open(&w), 1);
        batchfit_start(&w);
        play_step(&w);
        batchfit_end(&w, 1, NULL);
    }
    read_all(fd, &s, &source);
    assert_int_equal(s.rank_count, 0);
    struct utsname us;
    assert_int_equal(uname(&us), 0);
    const char *path = str_format(&a, "%s/%s-%ld.jsonl", folder, us.nodename, (long)getpid()).p;
    assert_int_equal(os_read(&a, path, 1 << 16, &text, NULL, &why), 0);
    steps_feed(&s, &source, text);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.ranks[0].state, STEPS_RANK_ENDED_WELL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void nobody_listens(void **state) {
    (void)state;
    struct batchfit_steps w;
    unsetenv("BATCHFIT_FD");
    unsetenv("BATCHFIT_STEPS_DIR");
    assert_int_equal(batchfit_open(&w), 0);
    batchfit_start(&w);
    play_step(&w);
    batchfit_oom(&w, NULL, -1);
    batchfit_end(&w, 1, NULL);
    setenv("BATCHFIT_FD", "nonsense", 1);
    assert_int_equal(batchfit_open(&w), 0);
    setenv("BATCHFIT_FD", "1000", 1);
    assert_int_equal(batchfit_open(&w), 0);
}

static void long_texts_and_lists_stay_one_line(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct steps s = steps_new(&a);
    struct step_source source = {0};
    struct batchfit_steps w;
    static char text[10000];
    OS_FD write_end = -1;
    OS_FD fd = listen_to_pipe(&write_end);
    assert_int_equal(batchfit_open(&w), 1);
    w.clock_ns = played_clock;
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = (char)(i * 7 % 256 ? i * 7 % 256 : 1);
    w.framework = w.framework_version = w.device = w.device_name = w.program = text;
    batchfit_start(&w);
    batchfit_oom(&w, text, 5);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k <= i; k++) batchfit_micro_batch(&w, 1LL << 40);
        w.allocated = w.reserved = w.peak_allocated = w.peak_reserved = w.alloc_retries = 1LL << 49;
        batchfit_step(&w);
        char line[8192];
        read_all(fd, &s, &source);
        assert_true(read(fd, line, sizeof line) <= 0);
    }
    batchfit_end(&w, 0, text);
    read_all(fd, &s, &source);
    assert_int_equal(s.broken_lines, 0);
    assert_int_equal(w.dropped, 0);
    assert_int_equal(s.count, 200);
    assert_int_equal(s.items[127].micro_count, 128);
    assert_int_equal(s.items[128].micro_count, -1);
    assert_int_equal(s.items[128].samples, 129LL << 40);
    assert_true(s.ranks[0].error.len > 1000 && s.ranks[0].device.len > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(phases_that_are_never_entered_are_not_known),
        cmocka_unit_test(a_full_pipe_drops_and_counts),
        cmocka_unit_test(a_reader_that_is_gone_kills_nobody),
        cmocka_unit_test(another_file_under_the_number_is_not_written_to),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(long_texts_and_lists_stay_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
