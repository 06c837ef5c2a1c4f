// SPDX-License-Identifier: Apache-2.0
// batchfit watch: what happens on the GPUs now, on a screen, in logs, or once as text.
#include "verbs/watch/watch.h"
#include "base/os.h"
#include "base/out.h"
#include "cli/cli.h"
#include "machine/device/device.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
enum { ONCE_ROWS = 400, ONCE_COLUMNS = 80, SLACK_MS = 40 };

struct watch_verb_options {
    struct cli_options all;
    double interval, duration, speed, cost_per_hour;
    const char *gpu_ids, *machine, *log, *steps, *alerts, *exec;
    bool pcie, profile, ascii, once, demo;
};

#define AT(member) offsetof(struct watch_verb_options, member)
static const struct cli_row rows[] = {
    {"interval", "SECONDS", CLI_NUMBER, AT(interval),
     "seconds between readings, at least 0.1 (default 1)", .letter = 'i'},
    {"duration", "SECONDS", CLI_NUMBER, AT(duration), "end after this time", .letter = 'd'},
    {"gpu-ids", "LIST", CLI_LIST, AT(gpu_ids),
     "watch only these GPUs, by the driver's numbers: 0,2"},
    {"log", "FILE", CLI_REPEAT, AT(log),
     "also log every reading: .csv has one row per GPU with the columns of nvidia-smi dmon, .jsonl "
     "or .json a document a line (repeatable)",
     "file", 'l'},
    CLI_ROW_ALERT(AT(alerts)),
    CLI_ROW_EXEC(AT(exec)),
    CLI_ROW_COST_PER_HOUR(AT(cost_per_hour)),
    {"steps", "DIR", CLI_REPEAT, AT(steps),
     "also follow a folder or file of the steps protocol (repeatable)", "file"},
    {"pcie", NULL, CLI_SWITCH, AT(pcie),
     "also read traffic between GPU and machine: takes 40 ms per GPU"},
    CLI_ROW_PROFILE(AT(profile)),
    {"once", NULL, CLI_SWITCH, AT(once),
     "print one reading as text; with --duration, after that time"},
    {"ascii", NULL, CLI_SWITCH, AT(ascii), "use only ASCII on the screen"},
    CLI_ROW_MACHINE(AT(machine)),
    {"demo", NULL, CLI_SWITCH, AT(demo), "use a made-up machine, to look around without a GPU"},
    {"speed", "X", CLI_NUMBER, AT(speed), "speed of the recording: 10 is ten times real time"},
    {.name = NULL},
};

struct watching {
    struct arena *arena;
    const struct watch_verb_options *options;
    struct observe_options watch;
    struct watch_settings settings;
    struct str note;
    struct watch_log *logs;
    double duration_s; // 0: without end
};

// Two columns of dots a character: as wide as plots get.
enum { HISTORY = 400, DAY_MINUTES = 1440 };

static int refuse(const struct watch_verb_options *o, struct fail *why) {
    if (o->interval < 0.1) {
        fail_set(why, FAIL_USAGE, "--interval %g: a GPU is read at most ten times a second",
                 o->interval);
        return fail_hint(why, "use 0.1 or more");
    }
    if (o->interval > 86400) return fail_set(why, FAIL_USAGE, "--interval: at most a day, 86400");
    if (o->speed <= 0) return fail_set(why, FAIL_USAGE, "--speed: must be above 0");
    if (o->duration <= 0) return fail_set(why, FAIL_USAGE, "--duration: must be above 0");
    if (!isnan(o->speed) && !o->machine && !o->demo) {
        return fail_set(why, FAIL_USAGE, "--speed works with a recorded machine (--machine)");
    }
    bool is_remote = o->all.argument_count > 0;
    if (is_remote && (o->machine || o->demo || o->steps || o->pcie || o->profile)) {
        return fail_set(
            why, FAIL_USAGE,
            "other machines report what their servers were started with: leave out --machine, "
            "--demo, --steps, --pcie and --profile");
    }
    if (o->all.json && o->once) {
        return fail_set(why, FAIL_USAGE, "--once prints text; for a document use check --json");
    }
    return 0;
}

static int interval_of(const struct watching *w) {
    const struct watch_verb_options *o = w->options;
    static const int kept[] = {1000, 250, 500, 1000, 2000, 5000, 10000};
    return isnan(o->interval) ? kept[w->settings.interval] : (int)lround(o->interval * 1000);
}

static const char *remote_machines(struct arena *a, const struct cli_options *options) {
    struct buf b = buf_new(a);
    for (int i = 0; i < options->argument_count; i++) {
        buf_format(&b, "%s%s", i == 0 ? DEVICE_REMOTE : " ", options->arguments[i]);
    }
    return buf_z(&b);
}

static int prepare(struct watching *w, struct fail *why) {
    const struct watch_verb_options *o = w->options;
    const char *machine = NULL;
    int rc = device_demo_or_machine(w->arena, o->demo, o->machine, &machine, why);
    if (rc < 0) return rc;
    if (o->all.argument_count > 0) machine = remote_machines(w->arena, &o->all);
    w->settings = watch_settings_usual();
    watch_settings_load(w->arena, &w->settings, &w->note);
    w->duration_s = o->duration > 0 ? o->duration : 0;
    w->watch = (struct observe_options){
        .machine = machine,
        .interval_ms = interval_of(w),
        .speed = o->speed > 0 ? o->speed : 1,
        .history = HISTORY,
        .minutes = DAY_MINUTES,
        .wants_pcie_throughput = o->pcie,
        .wants_profile = o->profile,
        .gpu_ids = o->gpu_ids,
        .alerts = o->alerts,
        .alert_command = o->exec,
        .cost_per_hour = o->cost_per_hour > 0 ? o->cost_per_hour : 0,
    };
    struct str_words steps = str_words_of(w->arena, str_of(o->steps), '\n');
    w->watch.steps = (const char *const *)steps.items;
    w->watch.steps_count = (int)steps.count;
    signal(SIGPIPE, SIG_IGN); // told by the write
    tui_terminal_block_signals();
    return o->log ? watch_logs_open(w->arena, o->log, &w->logs, why) : 0;
}

static int signals_open(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

// False: a signal came.
static bool pause_until(int signals, int64_t until_ns) {
    int64_t ms = (until_ns - os_now_ns() + MS - 1) / MS;
    struct pollfd fd = {.fd = signals, .events = POLLIN};
    return poll(&fd, 1, ms > 0 ? (int)ms : 0) <= 0;
}

static int64_t next_look(const struct watching *w, const struct observe_view *view,
                         int64_t end_ns) {
    int64_t now = os_now_ns(), interval = w->watch.interval_ms * MS;
    int64_t next = view->at_ns + interval + SLACK_MS * MS;
    if (next <= now || next > now + interval) next = now + interval;
    return end_ns < next ? end_ns : next;
}

static int64_t end_of(const struct watching *w) {
    bool is_long = w->duration_s == 0 || w->duration_s > 1e9;
    return is_long ? INT64_MAX : os_now_ns() + (int64_t)(w->duration_s * 1e9);
}

// How the commands of alerts ended.
static void log_commands(const struct observe_view *view, struct arena *scratch) {
    for (int i = 0; i < view->told_count; i++) {
        const struct observe_told *told = &view->told[i];
        struct arena_mark mark = arena_mark(scratch);
        out_say(stderr, "batchfit: alert %s of GPU %d: %.*s\n", told->alert, told->card,
                STR_ARG(observe_told_text(scratch, told)));
        arena_rewind(scratch, mark);
    }
}

static void end_watch(struct watch *watch, struct arena *scratch) {
    observe_end(watch);
    log_commands(observe_view(watch), scratch);
    observe_close(watch);
}

// Logs, and documents on stdout, without a screen.
static int follow(struct watching *w, struct watch_log *logs, struct fail *why) {
    struct watch *watch = NULL;
    ARENA_AUTO scratch = {.escape = w->arena->escape};
    OS_FD signals = signals_open();
    int64_t end = end_of(w);
    int rc = observe_open(w->arena, &w->watch, &watch, why);
    if (rc < 0) return rc;
    bool goes_on = true;
    do {
        observe_update(watch);
        log_commands(observe_view(watch), &scratch);
        rc = watch_logs_add(logs, observe_view(watch), &scratch, why);
        if (rc < 0 || os_now_ns() >= end) break;
        goes_on = pause_until(signals, next_look(w, observe_view(watch), end));
    } while (goes_on);
    end_watch(watch, &scratch);
    return rc == 0 && !goes_on ? FAIL_INTERRUPTED : rc;
}

static void print_look(struct watching *w, const struct observe_view *view) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    ARENA_AUTO scratch = {.escape = w->arena->escape};
    struct watch_look look = {.view = view,
                              .settings = w->settings,
                              .machine = w->watch.machine,
                              .speed = w->watch.speed,
                              .interval_ms = w->watch.interval_ms,
                              .is_once = true};
    struct tui_canvas canvas = {0};
    int columns = style.width > 0 ? style.width : ONCE_COLUMNS;
    if (columns < WATCH_LEAST_COLUMNS) columns = WATCH_LEAST_COLUMNS;
    tui_canvas_begin(&canvas, ONCE_ROWS, columns, style.utf8 && !w->options->ascii);
    watch_screen_draw(&look, &canvas, &scratch);
    struct buf b = buf_shown(&scratch);
    tui_canvas_text(&canvas, style.colour, &b);
    out_buf(stdout, &b);
    tui_canvas_free(&canvas);
}

static int look_once(struct watching *w, struct fail *why) {
    struct watch *watch = NULL;
    ARENA_AUTO scratch = {.escape = w->arena->escape};
    OS_FD signals = signals_open();
    int64_t end = w->duration_s > 0 ? end_of(w) : os_now_ns();
    int rc = observe_open(w->arena, &w->watch, &watch, why);
    if (rc < 0) return rc;
    bool goes_on = true;
    for (;;) {
        observe_update(watch);
        log_commands(observe_view(watch), &scratch);
        if (!goes_on || os_now_ns() >= end) break;
        goes_on = pause_until(signals, next_look(w, observe_view(watch), end));
    }
    observe_judge(watch); // the last look, whenever the rules had their turn
    print_look(w, observe_view(watch));
    if (w->logs) rc = watch_logs_add(w->logs, observe_view(watch), &scratch, why);
    end_watch(watch, &scratch);
    return rc == 0 && !goes_on ? FAIL_INTERRUPTED : rc;
}

static int show_screen(struct watching *w, struct fail *why) {
    const struct watch_screen_options screen = {.watch = w->watch,
                                                .settings = w->settings,
                                                .note = w->note,
                                                .duration_s = w->duration_s,
                                                .ascii = w->options->ascii,
                                                .logs = w->logs};
    return watch_screen_run(w->arena, &screen, why);
}

static int watch_run_verb(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct watch_verb_options *o = (const struct watch_verb_options *)options;
    struct watching w = {.arena = a, .options = o};
    int rc = refuse(o, why);
    if (rc == 0) rc = prepare(&w, why);
    if (rc < 0) return rc;
    bool is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (options->json) {
        rc = follow(&w, watch_log_on(a, STDOUT_FILENO, "stdout", w.logs), why);
    } else if (o->once || (!is_terminal && !w.logs))
        rc = look_once(&w, why);
    else if (!is_terminal)
        rc = follow(&w, w.logs, why);
    else
        rc = show_screen(&w, why);
    watch_logs_close(w.logs);
    return rc;
}

const struct cli_verb watch_verb = {
    .name = "watch",
    .summary = "watch the GPUs live, and what limits the training",
    .arguments = "HOST",
    .description =
        "A live screen of the GPUs: utilisation, memory (of batchfit's runs, of others, of the "
        "driver), temperature, power, clocks, how long they were limited, energy; history, "
        "processes, the runs with the phases of their steps, and findings with remedies. A GPU "
        "that does not answer never blocks the screen: its figures show their age. The first line "
        "says how things are; h shows the keys.\nWithout a terminal, or with --once, it prints one "
        "reading as text. --log writes every reading to a file (doc/formats/watch-log.md), with or "
        "without a screen; --json prints one document per line. F12 saves the settings in "
        "$XDG_CONFIG_HOME/batchfit/watch.conf.\nWith the names of machines (HOST or HOST:PORT) it "
        "watches the GPUs that their batchfit serve reports, with the token in $BATCHFIT_TOKEN.",
    .examples =
        "batchfit watch\n"
        "batchfit watch --log gpu.csv --interval 5 --duration 3600 --gpu-ids 0,1\n"
        "batchfit watch --once\n"
        "batchfit watch gpu01 gpu02:8081\n"
        "batchfit watch --alert temperature=83,memory=95% --exec 'curl -d \"$BATCHFIT_TEXT\" "
        "https://example.org/hook'\n"
        "batchfit watch --machine tests/machines/h100x8 --speed 10",
    .common = "interval duration log alert once machine demo",
    .options = rows,
    .options_size = sizeof(struct watch_verb_options),
    .run = watch_run_verb,
};
