// SPDX-License-Identifier: Apache-2.0
// check --benchmark: starts a process for the CPU and then one for each GPU, one after the
// other, each with a deadline, and joins what they measured with the ranges and the findings.
#include "verbs/check/check.h"

#include "base/unit.h"
#include "view/show/show.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 60, LOOK_MS = 300, OUTPUT_MAX = 1 << 20 };
// A context takes up to half a GiB, and what is measured should not be all that is left: somebody
// who trains there may be about to ask for it.
static const int64_t free_least = UNIT_GIB;

static struct microbench_subject subject_of(const struct check *c, int card) {
    if (card < 0) return (struct microbench_subject){.cores = c->facts.cpu.cores};
    const struct device_card *d = &c->facts.devices.cards[card];
    int64_t width = d->facts.pcie_width_max, generation = d->facts.pcie_generation_max;
    return (struct microbench_subject){.gpu = c->gpus[card],
                                       .pcie_generation = generation > 0 ? (int)generation : 0,
                                       .pcie_width = width > 0 ? (int)width : 0,
                                       .is_mig = d->is_mig,
                                       .is_unified = c->supports[card].is_unified};
}

static void add_figure(struct check *c, const struct microbench_table *table, int card,
                       const struct microbench_figure *figure) {
    struct microbench_subject subject = subject_of(c, card);
    struct rules_microbench r = {.card = card, .figure = *figure};
    r.busy = card < 0 ? c->rates.busy : c->facts.devices.cards[card].now.utilisation;
    microbench_range_find(c->arena, table, figure->measure, &subject, &r.range);
    *arena_push(c->arena, &c->rates.items, &c->rates.count, &c->rates.capacity) = r;
    rules_judge_microbench(c->arena, &c->facts, &r, &c->findings);
    // A fake of CUDA is as unreal as one of the driver: every view says so.
    if (figure->standin.len > 0 && c->facts.devices.standin.len == 0) {
        c->facts.devices.standin = figure->standin;
    }
}

static bool has_figure(const struct check *c, int card, const struct microbench_measure *m) {
    for (ptrdiff_t i = 0; i < c->rates.count; i++) {
        const struct rules_microbench *r = &c->rates.items[i];
        if (r->card == card && r->figure.measure == m) return true;
    }
    return false;
}

// What a GPU cannot do in hardware, and a single core's second figure, are no gaps.
static bool is_expected(const struct check *c, int card, const struct microbench_measure *m) {
    int cc = card >= 0 ? c->supports[card].compute_capability : 0;
    struct str id = str_of(m->id);
    if (m->is_of_card != (card >= 0)) return false;
    if (str_is(id, "rate.tf32") || str_is(id, "rate.bf16")) return cc >= 80;
    if (str_is(id, "rate.fp16")) return cc >= 53;
    if (str_is(id, "rate.cpu_copy") || str_is(id, "rate.cpu_triad")) return c->facts.cpu.cores > 1;
    return true;
}

static void add_unmeasured(struct check *c, const struct microbench_table *table, int card,
                           struct str why) {
    for (int i = 0; i < microbench_measure_count; i++) {
        struct microbench_figure f = {.measure = &microbench_measures[i], .why = why};
        f.median = f.low = f.high = f.variation = (double)NAN;
        if (!is_expected(c, card, f.measure) || has_figure(c, card, f.measure)) continue;
        add_figure(c, table, card, &f);
    }
}

// What a process came to that did not deliver all of its figures.
static struct str end_of(struct arena *a, const struct os_captured *said, int64_t deadline_s) {
    if (said->timed_out) {
        return str_format(a, "did not end within %lld s and was stopped (--deadline)",
                          (long long)deadline_s);
    }
    struct str line = str_trim(said->err);
    struct str first = str_line(&line);
    if (said->status > 128) return str_format(a, "died of signal %d", said->status - 128);
    return str_format(a, "ended with status %d%s%.*s", said->status, first.len ? ": " : "",
                      STR_ARG(first));
}

static void measure_one(struct check *c, const struct microbench_table *table, int card,
                        char *const argv[]) {
    struct os_captured said = {0};
    struct fail why = {0};
    int64_t deadline_s = c->options->deadline > 0 ? c->options->deadline : DEADLINE_S;
    int rc = os_capture(c->arena, argv, deadline_s * 1000, OUTPUT_MAX, &said, &why);
    for (struct str rest = said.out; rc == 0 && rest.p;) {
        struct str line = str_line(&rest);
        struct microbench_figure f = {0};
        json_t *document = line.len ? json_loadb(line.p, (size_t)line.len, 0, NULL) : NULL;
        if (document) check_figure_read(c->arena, document, &f);
        if (f.measure && f.measure->is_of_card == (card >= 0)) add_figure(c, table, card, &f);
        json_decref(document);
    }
    add_unmeasured(c, table, card,
                   rc < 0 ? str_copy(c->arena, str_of(why.message))
                          : end_of(c->arena, &said, deadline_s));
}

// /proc/self/exe is this program, also when it was replaced or is not in the PATH.
static void measure_cpu(struct check *c, const struct microbench_table *table) {
    struct arena *a = c->arena;
    const struct device_cpu *cpu = &c->facts.cpu;
    double quota = cpu->quota_cores;
    int cores = !isnan(quota) && quota < cpu->cores ? (int)ceil(quota) : cpu->cores;
    const char *count = str_format(a, "%d", cores > 0 ? cores : 1).p;
    int64_t free_bytes = cpu->available_bytes > 0 ? cpu->available_bytes : UNIT_GIB;
    char *const argv[] = {(char[]){"/proc/self/exe"},
                          (char[]){"rate"},
                          (char[]){"--cores"},
                          str_z(a, str_of(count)),
                          (char[]){"--memory"},
                          str_z(a, str_format(a, "%lld", (long long)free_bytes)),
                          NULL};
    measure_one(c, table, -1, argv);
}

static struct str why_not(const struct check *c, int card) {
    const struct device_card *d = &c->facts.devices.cards[card];
    if (d->state != DEVICE_ANSWERS) {
        return str_format(c->arena, "not measured: the GPU %s", device_state_name(d->state));
    }
    if (d->now.free_bytes < 0 || d->now.free_bytes >= free_least) return (struct str){0};
    return str_format(c->arena, "not measured: the GPU is full, %.*s of %.*s free, %.*s needed",
                      STR_ARG(unit_bytes(c->arena, d->now.free_bytes)),
                      STR_ARG(unit_bytes(c->arena, d->now.total_bytes)),
                      STR_ARG(unit_bytes(c->arena, free_least)));
}

static void measure_card(struct check *c, const struct microbench_table *table, int card) {
    struct arena *a = c->arena;
    const struct device_card *d = &c->facts.devices.cards[card];
    struct str why = why_not(c, card);
    struct str id = d->facts.uuid[0] ? str_of(d->facts.uuid) : str_format(a, "%d", d->index);
    char *const argv[] = {(char[]){"/proc/self/exe"},
                          (char[]){"rate"},
                          (char[]){"--card"},
                          str_z(a, id),
                          (char[]){"--libraries"},
                          str_z(a, c->facts.torch.libraries),
                          NULL};
    if (why.len > 0)
        add_unmeasured(c, table, card, why);
    else
        measure_one(c, table, card, argv);
}

// By two looks at /proc/stat.
static double busy_cores(struct check *c) {
    struct device_cpu_gauges now;
    struct device_cpu_watch *w = device_cpu_open(c->arena, "");
    device_cpu_look(w, &now);
    usleep(LOOK_MS * 1000);
    device_cpu_look(w, &now);
    return now.utilisation;
}

static void say_recorded(struct check *c) {
    *arena_push(c->arena, &c->findings.items, &c->findings.count, &c->findings.capacity) =
        (struct finding){.id = "rate.machine",
                         .severity = FINDING_UNKNOWN,
                         .card = -1,
                         .what = "benchmark",
                         .evidence = STR("a recorded machine cannot be measured"),
                         .remedy = STR("run check --benchmark on the machine itself")};
}

static bool is_asked(const struct check *c, const char *what) {
    return !c->options->only || strcmp(c->options->only, what) == 0;
}

int check_measure(struct check *c, struct fail *why) {
    struct microbench_table table;
    int cards = is_asked(c, "cards") ? c->facts.devices.count : 0;
    if (!c->options->benchmark) return 0;
    if (c->facts.is_recorded) {
        say_recorded(c);
        return 0;
    }
    int rc = microbench_table_load(c->arena, &table, why);
    if (rc < 0) return rc;
    struct show_progress p = show_progress_open(STDERR_FILENO, STR("measuring"), cards + 1);
    show_progress_set(&p, 0, STR("CPU"));
    c->rates.busy = busy_cores(c);
    if (is_asked(c, "cpu")) measure_cpu(c, &table);
    for (int i = 0; i < cards; i++) {
        show_progress_set(&p, i + 1, str_of(c->facts.devices.cards[i].facts.name));
        measure_card(c, &table, i);
    }
    show_progress_close(&p);
    return 0;
}
