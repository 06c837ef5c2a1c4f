// SPDX-License-Identifier: Apache-2.0
// batchfit serve: the machine in a browser, and for Prometheus.
#include "verbs/serve/serve.h"

#include "base/json.h"
#include "base/os.h"
#include "cli/rows.h"
#include "machine/device/demo.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { USUAL_PORT = 8080, LEAST_INTERVAL_MS = 100, MOST_INTERVAL_S = 3600, TOKEN_BYTES = 4096 };

#define AT(member) offsetof(struct serve_options, member)
static const struct cli_row rows[] = {
    {"port", "N", CLI_NUMBER, AT(port), "8080 without it; 0: any that is free", "", 'p'},
    {"address", "ADDRESS", CLI_TEXT, AT(address),
     "where to listen: 127.0.0.1 without it, so that only this machine gets in; any other only "
     "with a token",
     "127.0.0.1 ::1 0.0.0.0 ::"},
    {"token-file", "FILE", CLI_TEXT, AT(token_file),
     "everybody must show what this file holds ($BATCHFIT_TOKEN)", "file"},
    {"interval", "SECONDS", CLI_NUMBER, AT(interval_s), "between readings: 1 without it", ""},
    {"gpu-ids", "LIST", CLI_LIST, AT(gpu_ids), "only these GPUs: 0,2", ""},
    {"steps", "DIR", CLI_REPEAT, AT(steps),
     "also the trainings that write their steps there (doc/formats/steps.md); may be repeated",
     "file"},
    {"pcie", NULL, CLI_SWITCH, AT(pcie), "also PCIe throughput: each reading takes 40 ms a GPU",
     NULL},
    CLI_ROW_PROFILE(AT(profile)),
    {"dcgm-names", NULL, CLI_SWITCH, AT(dcgm_names),
     "/metrics also has the series of dcgm-exporter, for dashboards that are there already", NULL},
    CLI_ROW_MACHINE(AT(machine)),
    CLI_ROW_DEMO(AT(demo)),
    {"speed", "X", CLI_NUMBER, AT(speed), "of a recorded machine: 10 plays it ten times as fast",
     ""},
    {.name = NULL},
};

static int64_t whole_ms(double seconds) {
    return (int64_t)(seconds * 1000 + 0.5);
}

static int check(const struct serve_options *o, struct fail *why) {
    if (o->port > 65535 || (!isnan(o->port) && o->port != floor(o->port))) {
        return fail_set(why, FAIL_USAGE, "--port %g: a port is a whole number from 0 to 65535",
                        o->port);
    }
    if (whole_ms(o->interval_s) < LEAST_INTERVAL_MS || o->interval_s > MOST_INTERVAL_S) {
        return fail_set(why, FAIL_USAGE, "--interval %g: from 0.1 to 3600 seconds", o->interval_s);
    }
    if (!isnan(o->speed) && (o->speed <= 0 || !o->machine)) {
        return fail_set(why, FAIL_USAGE, "--speed is of a recorded machine (--machine), above 0");
    }
    return 0;
}

// The token of the file or of the environment; without one, other machines are not let in.
static int read_token(struct arena *a, const struct serve_options *o, struct str *ret_token,
                      struct fail *why) {
    struct str text = str_of(getenv("BATCHFIT_TOKEN"));
    if (o->token_file) {
        int rc = os_read(a, o->token_file, TOKEN_BYTES, &text, NULL, why);
        if (rc < 0) return rc;
    }
    *ret_token = str_trim(text);
    if (o->token_file && ret_token->len == 0) {
        return fail_set(why, FAIL_INPUT, "%s: there is no token in this file", o->token_file);
    }
    if (ret_token->len > 0 || http_is_loopback(o->address)) return 0;
    fail_set(why, FAIL_USAGE, "--address %s: other machines could read this one without a token",
             o->address);
    return fail_hint(why,
                     "openssl rand -hex 32 >token; batchfit serve --address %s --token-file token",
                     o->address);
}

static int open_watch(struct arena *a, struct serve *s, struct fail *why) {
    const struct serve_options *o = s->options;
    s->watching = (struct observe_options){.machine = o->machine,
                                           .interval_ms = (int)whole_ms(o->interval_s),
                                           .speed = isnan(o->speed) ? 0 : o->speed,
                                           .wants_pcie_throughput = o->pcie,
                                           .wants_profile = o->profile,
                                           .gpu_ids = o->gpu_ids};
    struct str_words steps = str_words_of(a, str_of(o->steps), '\n');
    s->watching.steps = (const char *const *)steps.items;
    s->watching.steps_count = (int)steps.count;
    int rc = observe_open(a, &s->watching, &s->watch, why);
    if (rc == 0) s->view = observe_view(s->watch);
    return rc;
}

static int open_http(struct arena *a, struct serve *s, struct fail *why) {
    const struct serve_options *o = s->options;
    struct http_options http = {.address = o->address,
                                .port = isnan(o->port) ? USUAL_PORT : (int)o->port,
                                .routes = serve_routes(a),
                                .context = s,
                                .event = "snapshot",
                                .greeting = serve_snapshot};
    int rc = read_token(a, o, &http.token, why);
    return rc < 0 ? rc : http_open(a, &http, &s->http, why);
}

static int say(const struct serve *s, struct fail *why) {
    struct str url = http_url(s->http), standin = s->view->devices->standin;
    if (s->options->common.json) {
        return json_print(json_pack("{s:o, s:i, s:o}", "url", json_text(url), "port",
                                    http_port(s->http), "standin", json_text(standin)),
                          why);
    }
    if (standin.len > 0) printf("FAKE, no real machine: %.*s\n", STR_ARG(standin));
    printf("batchfit serves %.*s and %.*smetrics; Ctrl-C ends it\n", STR_ARG(url), STR_ARG(url));
    return 0;
}

static void count_failures(struct serve *s) {
    int64_t readings = s->view->readings;
    for (int i = 0; readings > s->counted && i < s->view->devices->count; i++) {
        enum device_state state = s->view->devices->cards[i].state;
        s->own.failed_readings += state == DEVICE_LOST || state == DEVICE_HANGS;
    }
    s->counted = readings;
}

static void look(struct serve *s) {
    if (!observe_update(s->watch)) return;
    s->view = observe_view(s->watch);
    s->reading++;
    count_failures(s);
    if (http_count(s->http).streams_now > 0) {
        struct arena_mark mark = arena_mark(&s->scratch);
        http_publish(s->http, serve_snapshot(s));
        arena_rewind(&s->scratch, mark);
    }
}

// Often enough that a reading is shown soon after it was made, seldom enough to cost nothing.
static int wait_ms(const struct serve *s) {
    int pause = s->watching.interval_ms / 4, http = http_wait_ms(s->http);
    pause = pause < 25 ? 25 : pause > 250 ? 250 : pause;
    return http < pause ? http : pause;
}

static int run_until(struct serve *s, int signals, struct fail *why) {
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                           {.fd = http_fd(s->http), .events = POLLIN}};
    for (;;) {
        look(s);
        if (poll(fds, 2, wait_ms(s)) < 0) continue; // a signal that is not ours to handle
        if (fds[0].revents) return 0;
        http_turn(s->http);
        if (ferror(stdout)) return fail_set(why, FAIL_MACHINE, "stdout: not written");
    }
}

// Threads that are started later inherit the mask, so that only our descriptor sees them.
static int catch_signals(struct fail *why) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    signal(SIGPIPE, SIG_IGN); // a client that goes away in the middle
    int fd = sigprocmask(SIG_BLOCK, &ends, NULL) ? -1 : signalfd(-1, &ends, SFD_CLOEXEC);
    return fd >= 0 ? fd : fail_set(why, FAIL_MACHINE, "the system gives no descriptor for signals");
}

static int serve(struct arena *a, struct serve *s, struct fail *why) {
    OS_FD signals = catch_signals(why);
    if (signals < 0) return FAIL_MACHINE;
    int rc = open_watch(a, s, why);
    if (rc == 0) rc = open_http(a, s, why);
    if (rc == 0) rc = say(s, why);
    if (rc == 0 && fflush(stdout) == 0) rc = run_until(s, signals, why);
    serve_forget(s);
    http_close(s->http);
    if (s->watch) observe_close(s->watch);
    arena_clear(&s->scratch);
    return rc;
}

static int serve_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct serve_options o = *(const struct serve_options *)options;
    if (isnan(o.interval_s)) o.interval_s = 1;
    struct serve *s = arena_new(a, struct serve, 1);
    s->options = &o;
    int rc = device_demo_or_machine(a, o.demo, o.machine, &o.machine, why);
    if (rc == 0) rc = check(&o, why);
    return rc < 0 ? rc : serve(a, s, why);
}

const struct cli_verb serve_verb = {
    .name = "serve",
    .summary = "the machine in a browser, and for Prometheus",
    .description =
        "Shows the GPUs of this machine and the runs on them: a page at /, live; figures for "
        "Prometheus at /metrics; JSON at /api/v1/machine, /api/v1/snapshot and /api/v1/history, "
        "and as server-sent events at /api/v1/stream; /-/healthy and /-/ready for those who keep "
        "services alive (doc/formats/serve.md). Nothing can be changed through it.\n"
        "Only this machine is let in, unless --address says otherwise and a token guards it: as "
        "'Authorization: Bearer TOKEN', or once as /?token=TOKEN in a browser. What is sent is not "
        "encrypted; over networks that you do not trust put a proxy with TLS, or an ssh tunnel, in "
        "front. SIGINT and SIGTERM end it with status 0.",
    .examples = "batchfit serve\n"
                "batchfit serve --demo\n"
                "batchfit serve --port 9101 --dcgm-names\n"
                "batchfit serve --address 0.0.0.0 --token-file ~/.config/batchfit/token\n"
                "batchfit serve --machine tests/machines/h100x8 --speed 10",
    .options = rows,
    .options_size = sizeof(struct serve_options),
    .run = serve_run,
};
