// SPDX-License-Identifier: Apache-2.0
// The screen of watch without a terminal: the sentence of the first line, what is left out, the
// mark of the predicted peak, and signals, which go to a real process.
#include "unit.h"

#include "base/os.h"
#include "verbs/watch/watch.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GPUS = 3, RUNS = 2 };

static struct device_card cards[GPUS];
static struct observe_card watched[GPUS];
static struct observe_run runs[RUNS];
static struct finding list[3];
static struct device_snapshot devices;
static struct observe_view view;

static void set_up(void) {
    for (int i = 0; i < GPUS; i++) {
        cards[i] = device_card_unknown();
        cards[i].index = i;
        cards[i].state = DEVICE_ANSWERS;
        cards[i].now.at_ns = os_now_ns();
        cards[i].now.utilisation = 0.9;
        cards[i].now.used_bytes = INT64_C(8) << 30;
        cards[i].now.total_bytes = INT64_C(24) << 30;
        cards[i].has_processes = true;
        watched[i] =
            (struct observe_card){.ours_bytes = INT64_C(6) << 30, .others_bytes = INT64_C(2) << 30};
        snprintf(cards[i].facts.name, sizeof cards[i].facts.name, "NVIDIA GeForce RTX 4090");
    }
    for (int i = 0; i < RUNS; i++) {
        runs[i] = (struct observe_run){.id = STR("1"),
                                       .card = -1,
                                       .state = OBSERVE_RUN_STEPS,
                                       .samples_per_s = (double)NAN,
                                       .samples_per_joule = (double)NAN};
        for (int j = 0; j < STEP_PART_COUNT; j++) runs[i].phases.ms[j] = (double)NAN;
        runs[i].phases.total_ms = (double)NAN;
    }
    devices = (struct device_snapshot){.cards = cards, .count = GPUS};
    view = (struct observe_view){
        .devices = &devices, .cards = watched, .is_judged = true, .started_ns = os_now_ns()};
}

static struct watch_look look_at(void) {
    return (struct watch_look){
        .view = &view, .settings = watch_settings_usual(), .interval_ms = 1000};
}

static char *drawn(struct arena *a, struct watch_look *look, int rows, int columns) {
    struct tui_canvas canvas = {0};
    struct buf b = buf_new(a);
    tui_canvas_begin(&canvas, rows, columns, true);
    watch_screen_draw(look, &canvas, a);
    tui_canvas_text(&canvas, false, &b);
    tui_canvas_free(&canvas);
    return buf_z(&b);
}

static void has(const char *screen, const char *text) {
    if (!strstr(screen, text)) fail_msg("not there: %s\n%s", text, screen);
}

static void has_not(const char *screen, const char *text) {
    if (strstr(screen, text)) fail_msg("there: %s\n%s", text, screen);
}

static void begins(const char *screen, const char *text) {
    if (strncmp(screen, text, strlen(text)) != 0) fail_msg("not %s\n%s", text, screen);
}

static void the_first_line_says_how_things_are(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    struct watch_look look = look_at();
    begins(drawn(&a, &look, 24, 80), "OK  3 GPUs 90 % busy");
    view.is_judged = false;
    begins(drawn(&a, &look, 24, 80), "3 GPUs 90 % busy");
    view.is_judged = true;
    runs[0].command = STR("torchrun --nproc 4 /home/u/train.py --model x");
    runs[0].model = STR("vit");
    runs[0].samples_per_s = 412;
    view.runs = runs;
    view.run_count = RUNS;
    begins(drawn(&a, &look, 24, 80),
           "OK  3 GPUs 90 % busy · train.py · vit 412 samples/s  +1 more run");
    list[0] = (struct finding){
        .severity = FINDING_WARNING, .card = 1, .what = "time throttled", .value = STR("7 %")};
    list[1] = (struct finding){.severity = FINDING_PROBLEM,
                               .card = 2,
                               .what = "uncorrected memory errors",
                               .value = STR("3"),
                               .remedy = STR("run `nvidia-smi -r` first")};
    view.findings = (struct findings){.items = list, .count = 2};
    begins(drawn(&a, &look, 24, 80), "PROBLEM  GPU 2, uncorrected memory errors: 3  +1 more: f");
    assert_int_equal(look.card, 2); // the worst, until the user chooses
    assert_true(watch_screen_key(&look, '0', &a));
    (void)drawn(&a, &look, 24, 80);
    assert_int_equal(look.card, 0);
    assert_true(watch_screen_key(&look, 'c', &a));
    assert_string_equal(look.copied, "nvidia-smi -r");
    assert_true(watch_screen_key(&look, TUI_KEY_ESCAPE, &a));
    (void)drawn(&a, &look, 24, 80);
    assert_int_equal(look.card, 2);
    view.findings.count = 0;
    devices.left_out = STR("GPU 1: the driver lost it");
    begins(drawn(&a, &look, 24, 80), "PROBLEM  GPU 1: the driver lost it");
    devices.left_out = STR("");
    devices.count = 0;
    view.findings.count = 0;
    begins(drawn(&a, &look, 24, 80), "NO GPU  only the CPU can be watched here");
}

// No screen hides silently that there is more.
static void what_is_left_out_is_counted(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    for (int i = 0; i < 3; i++) {
        list[i] = (struct finding){
            .severity = FINDING_WARNING, .card = i, .what = "hot", .remedy = STR("cool it")};
    }
    view.findings = (struct findings){.items = list, .count = 3};
    cards[0].process_count = DEVICE_PROCESSES;
    cards[0].processes_unlisted = 9968;
    for (int i = 0; i < DEVICE_PROCESSES; i++) {
        cards[0].processes[i] = (struct device_process){.pid = 100 + i, .used_bytes = 1 << 20};
    }
    struct watch_look look = look_at();
    const char *screen = drawn(&a, &look, 20, 80);
    has(screen, "+2 more: f");
    has(screen, "more of 10000 by memory");
    view.runs = runs;
    view.run_count = RUNS;
    view.runs_unlisted = 3;
    has(drawn(&a, &look, 24, 80), "+4 more runs");
}

static void the_predicted_peak_is_marked(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    devices.count = 1;
    struct watch_look look = look_at();
    has_not(drawn(&a, &look, 40, 120), "┃");
    runs[0].card = 0;
    runs[0].predicted_peak_bytes = INT64_C(10) << 30;
    view.runs = runs;
    view.run_count = 1;
    const char *screen = drawn(&a, &look, 40, 120);
    has(screen, "┃ 12.0 GiB predicted"); // with what others hold
    watched[0].others_bytes = -1;
    has_not(drawn(&a, &look, 40, 120), "┃");
}

static void runs_have_names(void **state) {
    (void)state;
    static const struct {
        const char *command, *model, *name;
    } rows[] = {
        {"python train.py --lr 1", "", "train.py"},
        {"accelerate launch src/main.py", "gpt2", "main.py · gpt2"},
        {"python -m torch.distributed.run tools/a.py", "", "a.py"},
        {"python -m pkg.main --x", "vit", "pkg.main · vit"},
        {"/usr/bin/yolo train", "", "yolo"},
        {"", "vit", "vit"},
        {"", "", "1"},
    };
    ARENA_AUTO a = {0};
    set_up();
    struct watch_draw d = {NULL, &view, &a};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        runs[0].command = str_of(rows[i].command);
        runs[0].model = str_of(rows[i].model);
        assert_string_equal(str_z(&a, watch_run_name(&d, &runs[0])), rows[i].name);
    }
}

static pid_t sleeper(void) {
    pid_t child = fork();
    if (child == 0) {
        for (;;) pause();
    }
    return child;
}

static struct watch_look look_on(pid_t child) {
    char path[64];
    struct os_stat s;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    assert_true(os_stat_read(path, &s));
    cards[0].process_count = 1;
    cards[0].processes[0] = (struct device_process){
        .pid = child, .start_ticks = s.start_ticks, .command = "python train.py", .user = "ada"};
    struct watch_look look = look_at();
    look.has_cursor = true;
    look.cursor_pid = child;
    return look;
}

static bool is_alive(pid_t child) {
    return waitpid(child, NULL, WNOHANG) == 0;
}

static void a_signal_needs_a_yes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    pid_t child = sleeper();
    struct watch_look look = look_on(child);
    watch_screen_key(&look, TUI_KEY_F0 + 9, &a);
    has(drawn(&a, &look, 24, 80), "SIGTERM");
    watch_screen_key(&look, TUI_KEY_ENTER, &a);
    const char *screen = drawn(&a, &look, 24, 80);
    has(screen, "Send SIGTERM to process");
    has(screen, "of ada?");
    has(screen, "python train.py");
    for (const char *key = "nY\n q"; *key; key++) {
        look.window = WATCH_WINDOW_CONFIRM;
        watch_screen_key(&look, (uint32_t)*key, &a);
        assert_int_equal(look.window, WATCH_WINDOW_NONE);
    }
    assert_true(is_alive(child));
    look.window = WATCH_WINDOW_CONFIRM;
    watch_screen_key(&look, 'y', &a);
    has(look.message, "SIGTERM was sent to");
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

// A number that is another process's by now, a recording, a process of another container.
static void others_get_no_signal(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    pid_t child = sleeper();
    struct watch_look look = look_on(child);
    cards[0].processes[0].start_ticks--;
    watch_screen_key(&look, TUI_KEY_F0 + 9, &a);
    watch_screen_key(&look, TUI_KEY_ENTER, &a);
    watch_screen_key(&look, 'y', &a);
    has(look.message, "was not sent");
    cards[0].processes[0].start_ticks = -1;
    watch_screen_key(&look, TUI_KEY_F0 + 9, &a);
    has(look.message, "not visible from here");
    look = look_on(child);
    look.machine = "a/recording";
    watch_screen_key(&look, TUI_KEY_F0 + 9, &a);
    has(look.message, "not a process of this machine");
    look = look_on(child);
    look.has_cursor = false;
    watch_screen_key(&look, TUI_KEY_F0 + 9, &a);
    has(look.message, "choose a process first");
    assert_int_equal(look.window, WATCH_WINDOW_NONE);
    assert_true(is_alive(child));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void a_click_chooses(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    set_up();
    struct watch_look look = look_at();
    look.settings.cards = 2;
    cards[0].process_count = 1;
    cards[0].processes[0] = (struct device_process){.pid = 7, .used_bytes = 1, .start_ticks = -1};
    (void)drawn(&a, &look, 24, 80);
    assert_true(watch_screen_click(&look, 3, 20, &a)); // title, three GPUs from line 2 on
    assert_int_equal(look.card, 1);
    const struct watch_hit *process = NULL;
    for (int i = 0; i < look.hit_count; i++) {
        if (look.hits[i].kind == WATCH_HIT_PROCESS) process = &look.hits[i];
    }
    assert_non_null(process);
    watch_screen_click(&look, process->area.row, 5, &a);
    (void)drawn(&a, &look, 24, 80);
    assert_true(look.has_cursor && look.cursor_pid == 7);
    assert_true(watch_screen_click(&look, 23, 2, &a)); // F1 Help
    assert_int_equal(look.window, WATCH_WINDOW_HELP);
    assert_true(watch_screen_click(&look, 0, 0, &a));
    assert_int_equal(look.window, WATCH_WINDOW_NONE);
    assert_false(watch_screen_click(&look, 23, 11, &a)); // q Quit
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line_says_how_things_are),
        cmocka_unit_test(what_is_left_out_is_counted),
        cmocka_unit_test(the_predicted_peak_is_marked),
        cmocka_unit_test(runs_have_names),
        cmocka_unit_test(a_signal_needs_a_yes),
        cmocka_unit_test(others_get_no_signal),
        cmocka_unit_test(a_click_chooses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
