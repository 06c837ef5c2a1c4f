// SPDX-License-Identifier: Apache-2.0
// batchfit serve: the machine in a browser, and for Prometheus.
#include "verbs/serve/serve.h"

#include "base/json.h"
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

enum { USUAL_PORT = 8080, LEAST_INTERVAL_MS = 100, MOST_INTERVAL_S = 3600 };

#define AT(member) offsetof(struct serve_options, member)
static const struct cli_row rows[] = {
    {"port", "N", CLI_NUMBER, AT(port), "port; 0 takes any free one (default 8080)", .letter = 'p'},
    {"address", "ADDRESS", CLI_TEXT, AT(address),
     "address to listen on; other than this machine's own only with a token (default 127.0.0.1)",
     "127.0.0.1 ::1 0.0.0.0 ::"},
    {"token-file", "FILE", CLI_TEXT, AT(token_file),
     "file with the token that clients must send, not readable by everyone (default "
     "$BATCHFIT_TOKEN)",
     "file"},
    {"tls-cert", "FILE", CLI_TEXT, AT(tls_cert),
     "serve https with this certificate (PEM, with its issuers' after it) and --tls-key", "file"},
    {"tls-key", "FILE", CLI_TEXT, AT(tls_key),
     "private key of the certificate (PEM), not readable by everyone", "file"},
    {"trusted-proxy", "ADDRESS[/BITS]", CLI_REPEAT, AT(trusted_proxy),
     "apply limits to the client that this proxy names in X-Forwarded-For or Forwarded "
     "(repeatable)"},
    {"interval", "SECONDS", CLI_NUMBER, AT(interval_s), "seconds between readings (default 1)"},
    {"gpu-ids", "LIST", CLI_LIST, AT(gpu_ids), "watch only these GPUs: 0,2"},
    {"steps", "DIR", CLI_REPEAT, AT(steps),
     "also show trainings that write their steps there (doc/formats/steps.md; repeatable)", "file"},
    CLI_ROW_ALERT(AT(alerts)),
    CLI_ROW_EXEC(AT(exec)),
    CLI_ROW_COST_PER_HOUR(AT(cost_per_hour)),
    {"pcie", NULL, CLI_SWITCH, AT(pcie),
     "also read PCIe throughput: adds 40 ms per GPU to each reading"},
    CLI_ROW_PROFILE(AT(profile)),
    {"dcgm-names", NULL, CLI_SWITCH, AT(dcgm_names),
     "also export dcgm-exporter's series at /metrics, for existing dashboards"},
    {"fleet", "TIME", CLI_TEXT, AT(fleet),
     "also show what the history of all machines (--store) says of the last 7d (h, d, w), at "
     "/fleet.html: models, GPUs that idle, trainings that asked for twice what they used"},
    CLI_ROW_STORE(AT(store)),
    {"recommend", "LIST", CLI_LIST, AT(recommend),
     "also answer TrainJobs of Kubeflow's trainer at /api/v1/recommend, for nodes with these GPUs: "
     "8xh100,4xl4 (doc/kubernetes.md)",
     "gpus"},
    CLI_ROW_MACHINE(AT(machine)),
    CLI_ROW_DEMO(AT(demo)),
    {"speed", "X", CLI_NUMBER, AT(speed), "speed of a recorded machine: 10 is ten times real time"},
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
        return fail_set(why, FAIL_USAGE,
                        "--speed works with a recorded machine (--machine) and must be above 0");
    }
    if (o->store && !o->fleet) {
        fail_set(why, FAIL_USAGE, "--store needs --fleet");
        return fail_hint(why, "--fleet 7d shows what it holds of the last week");
    }
    return serve_recommend_check(o, why);
}

// An hour of readings, and a day of minutes: about 2 MB a GPU.
enum { KEPT_SECONDS = 3600, KEPT_READINGS_MOST = 3600, KEPT_MINUTES = 1440 };
static int kept_readings(double interval_s) {
    double readings = KEPT_SECONDS / interval_s;
    return readings > KEPT_READINGS_MOST ? KEPT_READINGS_MOST : readings < 2 ? 2 : (int)readings;
}

static int open_watch(struct arena *a, struct serve *s, struct fail *why) {
    const struct serve_options *o = s->options;
    s->watching =
        (struct observe_options){.machine = o->machine,
                                 .interval_ms = (int)whole_ms(o->interval_s),
                                 .speed = isnan(o->speed) ? 0 : o->speed,
                                 .history = kept_readings(o->interval_s),
                                 .minutes = KEPT_MINUTES,
                                 .wants_pcie_throughput = o->pcie,
                                 .wants_profile = o->profile,
                                 .gpu_ids = o->gpu_ids,
                                 .alerts = o->alerts,
                                 .alert_command = o->exec,
                                 .cost_per_hour = o->cost_per_hour > 0 ? o->cost_per_hour : 0};
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
                                .trusted_proxies = o->trusted_proxy,
                                .routes = serve_routes(a, o),
                                .context = s,
                                .event = "snapshot",
                                .greeting = serve_snapshot};
    int rc = serve_read_token(a, o, &http.token, why);
    if (rc == 0) rc = serve_read_tls(a, o, &http, why);
    s->has_token = http.token.len > 0;
    return rc < 0 ? rc : http_open(a, &http, &s->http, why);
}

static int say(const struct serve *s, struct fail *why) {
    struct str url = http_url(s->http), standin = s->view->devices->standin;
    if (s->options->common.json) {
        return json_print(json_pack("{s:o, s:i, s:o}", "url", json_text(url), "port",
                                    http_port(s->http), "standin", json_text(standin)),
                          why);
    }
    if (standin.len > 0) out_say(stdout, "FAKE, no real machine: %.*s\n", STR_ARG(standin));
    out_say(stdout, "batchfit serves %.*s and %.*smetrics; Ctrl-C stops it\n", STR_ARG(url),
            STR_ARG(url));
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

// For journald, or whoever keeps what a server says: how the commands of alerts ended.
static void log_commands(struct serve *s) {
    for (int i = 0; i < s->view->told_count; i++) {
        const struct observe_told *told = &s->view->told[i];
        struct arena_mark mark = arena_mark(&s->scratch);
        out_say(stderr, "batchfit: alert %s of GPU %d: %.*s\n", told->alert, told->card,
                STR_ARG(observe_told_text(&s->scratch, told)));
        arena_rewind(&s->scratch, mark);
    }
}

static void look(struct serve *s) {
    if (!observe_update(s->watch)) return;
    s->view = observe_view(s->watch);
    log_commands(s);
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
        if (ferror(stdout)) return fail_set(why, FAIL_MACHINE, "cannot write to stdout");
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
    return fd >= 0 ? fd : fail_set(why, FAIL_MACHINE, "cannot create a descriptor for signals");
}

static int serve(struct arena *a, struct serve *s, struct fail *why) {
    OS_FD signals = catch_signals(why);
    if (signals < 0) return FAIL_MACHINE;
    int rc = serve_fleet_open(a, s->options->fleet, s->options->store, &s->fleet, why);
    if (rc == 0) rc = open_watch(a, s, why);
    if (rc == 0) rc = open_http(a, s, why);
    if (rc == 0) rc = say(s, why);
    if (rc == 0 && out_is_written(stdout)) rc = run_until(s, signals, why);
    if (s->view) {
        observe_end(s->watch);
        log_commands(s);
    }
    serve_forget(s);
    http_close(s->http);
    if (s->watch) observe_close(s->watch);
    serve_fleet_close(s->fleet);
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
    .summary = "show the machine in a browser and to Prometheus",
    .description =
        "Shows this machine's GPUs and the runs on them: a live page at /; metrics for Prometheus "
        "at /metrics; JSON at /api/v1/machine, /api/v1/snapshot and /api/v1/history, and as "
        "server-sent events at /api/v1/stream; /-/healthy and /-/ready for supervisors "
        "(doc/formats/serve.md). It is read-only.\nOnly this machine has access, unless --address "
        "says otherwise and a token protects it: as 'Authorization: Bearer TOKEN', or once as "
        "/?token=TOKEN in a browser. Traffic is encrypted only with --tls-cert and "
        "--tls-key; without them, on networks you do not trust, put a TLS proxy or an ssh tunnel "
        "in front. SIGINT and SIGTERM end it with status 0.",
    .examples = "batchfit serve\n"
                "batchfit serve --demo\n"
                "batchfit serve --port 9101 --dcgm-names\n"
                "batchfit serve --address 0.0.0.0 --token-file ~/.config/batchfit/token\n"
                "batchfit serve --tls-cert cert.pem --tls-key key.pem\n"
                "batchfit serve --fleet 7d --store postgresql://ml@db.example.org/batchfit\n"
                "batchfit serve --recommend 8xh100,8xa100-80gb,4xl4\n"
                "batchfit serve --machine tests/machines/h100x8 --speed 10",
    .common = "port address token-file tls-cert tls-key interval gpu-ids steps demo machine",
    .options = rows,
    .options_size = sizeof(struct serve_options),
    .run = serve_run,
};
