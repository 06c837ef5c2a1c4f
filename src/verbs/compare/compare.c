// SPDX-License-Identifier: Apache-2.0
// batchfit compare: is B better than A, or is it chance? Two configs are trained in turn, or two
// runs of the history are looked up; each metric gets a verdict with its p and the interval of the
// ratio.
#include "verbs/compare/compare.h"

#include "machine/device/device.h"

#define AT(member) offsetof(struct compare_options, member)
static const struct cli_row option_rows[] = {
    {"a", "FILE", CLI_TEXT, AT(a), "config before the change", "file"},
    {"b", "FILE", CLI_TEXT, AT(b), "config after the change", "file"},
    {"metrics", "NAME,...", CLI_MANY, AT(metrics),
     "metrics to compare: throughput, memory, energy, time (default throughput,memory,energy)",
     "throughput memory energy time"},
    {"pairs", "N", CLI_COUNT, AT(pairs), "trials of each side that count (default 10, at least 4)"},
    {"cool-down", "SECONDS", CLI_NUMBER, AT(cool_seconds),
     "longest wait before a trial for the GPU to cool down to its first temperature (default 60)"},
    {"report", "FILE", CLI_REPEAT, AT(reports),
     "also write the result as .html, .md or .json (repeatable)", "file"},
    {"runs", "N M", CLI_MANY, AT(runs),
     "compare two runs of the history instead (batchfit list runs)"},
    {"cost", "WORD", CLI_TEXT, AT(cost),
     "also compare cost: a provider (aws), with a GPU if needed (aws:t4), or USD per GPU hour",
     "aws gcp azure lambda runpod"},
    {"runs-per-month", "N", CLI_COUNT, AT(runs_per_month),
     "runs per month; with --samples, shows hours and money per month"},
    {"samples", "N", CLI_COUNT, AT(samples), "samples of each run, for --runs-per-month"},
    {"epochs", "N", CLI_COUNT, AT(epochs), "passes over the --samples (default 1)"},
    {"data-path", "FILE", CLI_TEXT, AT(data_path), "HDF5 file for the built-in workload", "file"},
    CLI_ROW_DATA_KEY(AT(data_key)),
    CLI_ROW_RANKS_OF_TRIAL(AT(l.ranks)),
    LAUNCH_ROWS(struct compare_options),
    HISTORY_ROWS(struct compare_options),
    CLI_ROW_GPU_IDS(AT(l.cards)),
    CLI_ROW_MACHINE_GAUGES(AT(l.machine)),
    CLUSTER_ROWS(struct compare_options),
    {"fresh", NULL, CLI_SWITCH, AT(fresh),
     "with --on slurm: measure again what an earlier call has measured"},
    {.name = NULL},
};

static void say_energy_of_machine(struct compare *c, const struct launch *l) {
    const struct compare_result *r = &c->results[COMPARE_ENERGY];
    if (!r->is_asked || !r->is_measured || l->place.kind != LAUNCH_CPU) return;
    compare_note(c, STR("the energy is that of the whole CPU and its memory, including everything "
                        "else that ran"));
}

static int both_failed(const struct compare *c, struct fail *why) {
    const struct compare_side *a = &c->sides[COMPARE_A], *b = &c->sides[COMPARE_B];
    fail_set(why, a->input_is_bad || b->input_is_bad ? FAIL_INPUT : FAIL_MACHINE,
             "neither side ran. a: %.*s; b: %.*s", STR_ARG(a->reason), STR_ARG(b->reason));
    if (a->hint.len > 0) fail_hint(why, "%.*s", STR_ARG(a->hint));
    return why->code;
}

static int answer(struct compare *c, struct fail *why) {
    if (c->sides[COMPARE_A].has_failed && c->sides[COMPARE_B].has_failed)
        return both_failed(c, why);
    if (c->is_standin && !c->is_of_runs) {
        compare_note(c, STR("FAKE: the command plays a scenario; nothing was trained"));
    }
    if (c->is_interrupted) {
        compare_note(c, str_format(c->arena, "interrupted: %td of %lld pairs were measured",
                                   c->pairs, (long long)c->pairs_asked));
    }
    compare_count_cost(c);
    struct fail unwritten;
    int written = show_report_write(c->arena, compare_files, c->options->reports, c, &unwritten);
    if (!c->options->base.json)
        compare_print(c);
    else if (json_print(compare_json(c, false), why) < 0)
        return FAIL_BUG;
    if (c->is_interrupted) return FAIL_INTERRUPTED;
    if (written < 0) *why = unwritten;
    return written;
}

// --- Two configs ---------------------------------------------------------------------------------

static void read_driver(struct compare *c, const char *machine) {
    struct device_list devices = {0};
    if (device_list(c->arena, machine, &devices, NULL) == 0) c->driver = devices.driver_version;
}

static int measure(struct compare *c, struct launch *l, struct fail *why) {
    struct history history;
    const struct compare_options *o = c->options;
    int64_t bytes = l->place.is_capped ? 0 : l->place.capacity_bytes;
    int rc = compare_ask_cost(c, l->place.name, bytes, o->l.ranks, why);
    if (rc < 0) return rc;
    c->device = l->place.name;
    c->standin = l->place.standin;
    if (l->place.kind == LAUNCH_CUDA) read_driver(c, o->l.machine);
    history_open(c->arena, &o->h, &history);
    history_place(&history, l, o->l.machine);
    history_command(&history, c->sides[COMPARE_A].asked.command);
    rc = compare_measure(c, l, &history, why);
    history_close(&history);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < l->notes.count; i++) compare_note(c, l->notes.items[i]);
    for (ptrdiff_t i = 0; i < history.notes.count; i++) compare_note(c, history.notes.items[i]);
    say_energy_of_machine(c, l);
    return answer(c, why);
}

static int compare_configs(struct compare *c, struct fail *why) {
    struct launch launch;
    int rc = launch_open(c->arena, &c->options->l, c->sides[COMPARE_A].asked.command, &launch, why);
    if (rc < 0) return rc;
    launch.registered.verb = STR("compare");
    launch.registered.model = c->sides[COMPARE_A].bench.title;
    c->command = c->sides[COMPARE_A].bench.title;
    rc = measure(c, &launch, why);
    launch_close(&launch);
    return rc;
}

static int compare_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct compare_options *o = (const struct compare_options *)options;
    struct compare *c = arena_new(a, struct compare, 1);
    *c = (struct compare){.arena = a, .options = o, .is_of_runs = o->runs != NULL};
    int rc = compare_cluster_check(o, why);
    if (rc == 0) rc = compare_ask(c, why);
    if (rc < 0) return rc;
    if (o->cluster.on) return compare_cluster(a, o, why);
    if (!o->runs) return compare_configs(c, why);
    rc = compare_recall(c, why);
    return rc < 0 ? rc : answer(c, why);
}

const struct cli_verb compare_verb = {
    .name = "compare",
    .summary = "compare two configs: is B better, or is it chance?",
    .description =
        "Trains with two configs in turn, A B B A A B ..., each trial in its own process that is "
        "stopped after some steps. For each metric it says which side is better, with the ratio, "
        "its 95 % interval and the p of a rank test (Mann and Whitney), or that there is no "
        "difference and how many pairs would find one. One warm-up trial of each side comes first "
        "and does not count; if the GPU reports its temperature, each trial waits until it is as "
        "cool as before the first.\n\nThe command after -- takes the config's path as {config}. "
        "Without a command, the built-in workload trains as both configs say.\n\nEnergy is joules "
        "per sample, by the counter of the GPU or the CPU; it needs at least two seconds of "
        "measured steps. Prices come from data/prices.tsv, or prices.local.tsv in your data "
        "folder.",
    .examples = "batchfit compare --a configs/train.yaml --b configs/train_highperf.yaml --report "
                "report.html -- python train.py --config {config}\n"
                "batchfit compare --a a.yaml --b b.yaml --metrics throughput,energy --steps 50 -- "
                "python train.py --config {config}\n"
                "batchfit compare --a a.yaml --b b.yaml --cost aws --runs-per-month 20 --samples "
                "50000 --epochs 90 -- python train.py --config {config}\n"
                "batchfit compare --a a.yaml --b b.yaml --on slurm -- python train.py --config "
                "{config}\n"
                "batchfit compare --runs 41 57",
    .options = option_rows,
    .common = "a b metrics pairs steps device report runs cost",
    .options_size = sizeof(struct compare_options),
    .run = compare_run,
    .takes_command = true,
};
