// SPDX-License-Identifier: Apache-2.0
// Runs that let themselves be watched: they appear, make steps, have their files begun again, end
// and are killed; others' folders are not used; a recorded machine plays its own.
#include "observe_open.h"

#include "measure/observe/observe.h"
#include "measure/registry/registry.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char bare[] = "{\"machine\": 1, \"devices\": [{\"name\": \"A\"}]}";

// A runtime folder of its own for each test.
static int set_up(void **state) {
    static char folder[64];
    strcpy(folder, "/tmp/batchfit-unit-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    *state = folder;
    return setenv("XDG_RUNTIME_DIR", folder, 1);
}

static int tear_down(void **state) {
    ARENA_AUTO a = {0};
    return system(str_format(&a, "rm -rf %s", (char *)*state).p);
}

static const struct observe_options quick = {.interval_ms = 5};

static struct registry_run a_run(void) {
    struct registry_run run = registry_unknown();
    run.verb = STR("fit");
    run.model = STR("resnet50");
    run.command = STR("python train.py");
    run.batch = 32;
    run.pid = getpid();
    run.started_s = 1;
    return run;
}

static void make_steps(struct steps *s, int from, int to) {
    char line[200];
    for (int i = from; i <= to; i++) {
        snprintf(
            line, sizeof line,
            "{\"v\":1,\"event\":\"step\",\"step\":%d,\"samples\":32,\"io_ms\":10,\"other_ms\":5,"
            "\"total_ms\":100,\"allocated\":%d}",
            i, i);
        steps_line(s, str_of(line));
    }
}

static void a_run_appears_works_and_ends(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct watch *w = open_watch(&a, &quick);
    assert_int_equal(watch_for(w, 20)->run_count, 0);
    const struct registry_run run = a_run();
    struct registry_entry *n = registry_open(&a, &run);
    assert_non_null(n);
    const struct observe_view *v = watch_for(w, 20);
    assert_int_equal(v->run_count, 1);
    assert_str(v->runs[0].model, "resnet50");
    assert_int_equal(v->runs[0].state, OBSERVE_RUN_STARTS);
    assert_true(isnan(v->runs[0].samples_per_s) && v->runs[0].predicted_peak_bytes == -1);
    struct steps s = steps_new(&a);
    steps_line(&s, STR("{\"v\":1,\"event\":\"start\",\"device\":\"cuda:0\",\"framework\":"
                       "\"standin\",\"world\":1,\"pid\":77}"));
    make_steps(&s, 1, 50);
    registry_steps(n, &s);
    v = watch_for(w, 20);
    assert_int_equal(v->runs[0].state, OBSERVE_RUN_STEPS);
    assert_int_equal(v->runs[0].steps_done, 50);
    assert_int_equal(v->runs[0].samples_done, 50 * 32);
    assert_true(v->runs[0].standin.len > 0);
    assert_true(fabs(v->runs[0].samples_per_s - 320) < 1e-6);
    assert_true(v->runs[0].phases.io_ms == 10 && v->runs[0].phases.total_ms == 100);
    assert_true(isnan(v->runs[0].phases.forward_ms));
    assert_int_equal(v->runs[0].step_count, 50);
    const struct trend_step *first = v->runs[0].steps;
    assert_true(llabs(first[49].at_ns - first[0].at_ns - INT64_C(4900000000)) < 1000000);
    make_steps(&s, 51, 60); // after our last look
    registry_steps(n, &s);
    registry_close(n);
    v = watch_for(w, 20);
    assert_int_equal(v->runs[0].state, OBSERVE_RUN_ENDED);
    assert_int_equal(v->runs[0].steps_done, 60);
    observe_close(w);
}

// The file is begun again several times; nothing is counted twice or forgotten.
static void a_long_run_counts_each_step_once(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct watch *w = open_watch(&a, &quick);
    const struct registry_run run = a_run();
    struct registry_entry *n = registry_open(&a, &run);
    struct steps s = steps_new(&a);
    const struct observe_view *v = NULL;
    char path[200];
    snprintf(path, sizeof path, "%s/batchfit/runs/%d/steps.jsonl", getenv("XDG_RUNTIME_DIR"),
             getpid());
    ino_t before = 0;
    int files = 0;
    for (int i = 0; i < 40; i++) {
        struct stat st;
        make_steps(&s, i * 500 + 1, i * 500 + 500);
        registry_steps(n, &s);
        v = watch_for(w, 12);
        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_size <= 1 << 20);
        files += st.st_ino != before;
        before = st.st_ino;
    }
    v = watch_for(w, 50);
    assert_true(files >= 3);
    assert_int_equal(v->runs[0].steps_done, 20000);
    assert_int_equal(v->runs[0].samples_done, 20000 * 32);
    assert_int_equal(v->runs[0].step_count, OBSERVE_STEPS);
    for (int i = 0; i < OBSERVE_STEPS; i++) {
        const struct trend_step *step = &v->runs[0].steps[i];
        assert_true(step->allocated_bytes == 20000 - OBSERVE_STEPS + 1 + i);
        assert_true(i == 0 || step->at_ns > step[-1].at_ns);
    }
    struct watch *late = open_watch(&a, &quick); // who comes late knows the counts, too
    v = watch_for(late, 50);
    assert_int_equal(v->runs[0].steps_done, 20000);
    assert_int_equal(v->runs[0].samples_done, 20000 * 32);
    observe_close(late);
    observe_close(w);
    registry_close(n);
}

static void a_killed_run_is_gone(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct registry_run run = a_run();
        struct registry_entry *n = registry_open(&a, &run);
        if (write(ready[1], n ? "y" : "n", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char said = 0;
    assert_int_equal(read(ready[0], &said, 1), 1);
    assert_int_equal(said, 'y');
    struct watch *w = open_watch(&a, &quick);
    const struct observe_view *v = watch_for(w, 20);
    assert_int_equal(v->run_count, 1);
    assert_int_equal(v->runs[0].pid, child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    v = watch_for(w, 20);
    assert_int_equal(v->runs[0].state, OBSERVE_RUN_ENDED);
    struct str folder = registry_folder(&a);
    assert_true(folder.len > 0);
    assert_false(os_exists(str_format(&a, "%.*s/%d", STR_ARG(folder), child).p));
    observe_close(w);
    close(ready[0]);
    close(ready[1]);
}

static void a_folder_of_others_is_refused(void **state) {
    ARENA_AUTO a = {0};
    const struct registry_run run = a_run();
    const char *folder = str_format(&a, "%s/batchfit", (char *)*state).p;
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(chmod(folder, 0755), 0); // others may enter: not ours alone
    assert_null(registry_open(&a, &run));
    assert_int_equal(registry_folder(&a).len, 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_null(registry_open(&a, &run));
    assert_int_equal(unlink(folder), 0);
    setenv("XDG_RUNTIME_DIR", "/nonexistent/batchfit-unit", 1);
    assert_null(registry_open(&a, &run));
    registry_steps(NULL, NULL);
    registry_close(NULL);
}

static void put(const char *path, const char *text, const char *mode) {
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define STEP(n) "{\"v\":1,\"event\":\"step\",\"step\":" #n ",\"samples\":8,\"total_ms\":50}\n"

static void a_file_may_be_cut_replaced_and_broken(void **state) {
    ARENA_AUTO a = {0};
    const char *path = str_format(&a, "%s/steps.jsonl", (char *)*state).p;
    const char *other = str_format(&a, "%s/other", (char *)*state).p;
    const char *const paths[] = {path};
    const struct observe_options options = {
        .interval_ms = 5, .steps = paths, .steps_count = 1, .no_runs = true};
    struct watch *w = open_watch(&a, &options); // it isn't there yet
    assert_int_equal(watch_for(w, 20)->run_count, 1);
    put(path, STEP(1) STEP(2) "{\"v\":1,\"event\":\"st", "w");
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 2);
    put(path, "ep\",\"step\":3,\"samples\":8,\"total_ms\":50}\nnonsense\n[1]\n\n" STEP(4), "a");
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 4);
    assert_int_equal(observe_view(w)->runs[0].samples_done, 32);
    char *line = arena_new(&a, char, 200001);
    memset(line, 'x', 200000); // no line end within what is kept
    put(path, line, "a");
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 4);
    put(path, "\n" STEP(5), "a");
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 5);
    put(path, STEP(1), "w"); // cut
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 1);
    put(other, STEP(1) STEP(2) STEP(3), "w");
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 3);
    assert_int_equal(observe_view(w)->runs[0].samples_done, 24);
    unlink(path);
    assert_int_equal(watch_for(w, 20)->runs[0].steps_done, 3);
    observe_close(w);
}

// As BATCHFIT_STEPS_DIR has them: one file a process.
static void a_folder_has_the_ranks(void **state) {
    ARENA_AUTO a = {0};
    const char *folder = str_format(&a, "%s/steps", (char *)*state).p;
    const char *const paths[] = {folder};
    const struct observe_options options = {.interval_ms = 5, .steps = paths, .steps_count = 1};
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int rank = 0; rank < 2; rank++) {
        struct buf b = buf_new(&a);
        buf_format(&b, "{\"v\":1,\"event\":\"start\",\"rank\":%d,\"world\":2}\n", rank);
        for (int i = 1; i <= 10 + 10 * rank; i++) {
            buf_format(&b,
                       "{\"v\":1,\"event\":\"step\",\"rank\":%d,\"step\":%d,\"samples\":8,"
                       "\"total_ms\":100}\n",
                       rank, i);
        }
        put(str_format(&a, "%s/%d.jsonl", folder, 100 + rank).p, buf_z(&b), "w");
    }
    struct watch *w = open_watch(&a, &options);
    const struct observe_run *run = &watch_for(w, 20)->runs[0];
    assert_str(run->id, "steps");
    assert_int_equal(run->ranks, 2);
    assert_int_equal(run->steps_done, 10); // the slowest
    assert_int_equal(run->samples_done, 30 * 8);
    assert_true(fabs(run->samples_per_s - 160) < 1e-6);
    observe_close(w);
}

// 300 W, a step of 32 samples every 100 ms: 320 samples a second, 320 / 300 a joule.
static void a_recorded_run_plays_in_time(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const char *folder = make_machine(
        &a,
        "{\"machine\": 1, \"devices\": [{\"name\": \"A\", \"uuid\": \"GPU-1\", \"memory\": "
        "{\"total_bytes\": 1000, \"used_bytes\": 700, \"reserved_bytes\": 100, \"free_bytes\": "
        "200}, \"gauges\": {\"energy_mj\": 5}, \"per_second\": {\"energy_mj\": 300000}, "
        "\"processes\": [{\"pid\": 41, \"used_bytes\": 600}, {\"pid\": 9, \"used_bytes\": 99}]}]}");
    const char *runs = str_format(&a, "%s/runs/one", folder).p;
    struct fail why;
    assert_int_equal(os_make_dirs(&a, runs, &why), 0);
    put(str_format(&a, "%s/run.json", runs).p,
        "{\"run\": 1, \"model\": \"m\\u001b[31m\", \"card_uuid\": \"GPU-1\", \"pid\": 40, "
        "\"predicted_peak_bytes\": 610}",
        "w");
    struct buf b = buf_new(&a);
    buf_format(&b, "{\"v\":1,\"event\":\"start\",\"pid\":41,\"t\":0}\n");
    for (int i = 1; i <= 3000; i++) {
        buf_format(&b,
                   "{\"v\":1,\"event\":\"step\",\"step\":%d,\"samples\":32,\"total_ms\":100,"
                   "\"t\":%.1f}\n",
                   i, i * 0.1);
    }
    put(str_format(&a, "%s/steps.jsonl", runs).p, buf_z(&b), "w");
    const struct observe_options options = {.machine = folder, .interval_ms = 10, .speed = 20};
    struct watch *w = open_watch(&a, &options);
    const struct observe_view *v = watch_for(w, 600);
    assert_int_equal(v->run_count, 1);
    const struct observe_run *run = &v->runs[0];
    assert_str(run->model, "m?[31m");
    assert_int_equal(run->card, 0);
    assert_int_equal(run->state, OBSERVE_RUN_STEPS);
    double seconds = (double)(v->at_ns - v->started_ns) * 1e-9;
    assert_true(seconds > 8 && fabs((double)run->steps_done * 0.1 - seconds) < 4);
    assert_true(fabs(run->samples_per_s - 320) < 1e-6);
    assert_true(fabs(run->samples_per_joule - 320.0 / 300) < 0.02);
    assert_int_equal(v->cards[0].ours_bytes, 600);
    assert_int_equal(v->cards[0].others_bytes, 100);
    assert_int_equal(run->peak_bytes, 600);
    assert_int_equal(run->predicted_peak_bytes, 610);
    observe_close(w);
    assert_int_equal(remove_all(folder), 0);
}

static void nothing_is_registered_on_a_recorded_machine(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct registry_run run = a_run();
    struct registry_entry *n = registry_open(&a, &run);
    const char *folder = make_machine(&a, bare);
    const struct observe_options options = {.machine = folder, .interval_ms = 5};
    struct watch *w = open_watch(&a, &options);
    assert_int_equal(watch_for(w, 20)->run_count, 0);
    observe_close(w);
    registry_close(n);
    assert_int_equal(remove_all(folder), 0);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(a_run_appears_works_and_ends),
        WITH_FOLDER(a_long_run_counts_each_step_once),
        WITH_FOLDER(a_killed_run_is_gone),
        WITH_FOLDER(a_folder_of_others_is_refused),
        WITH_FOLDER(a_file_may_be_cut_replaced_and_broken),
        WITH_FOLDER(a_folder_has_the_ranks),
        WITH_FOLDER(a_recorded_run_plays_in_time),
        WITH_FOLDER(nothing_is_registered_on_a_recorded_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
