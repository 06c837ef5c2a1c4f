// SPDX-License-Identifier: Apache-2.0
// batchfit bench: how fast is each setting, where does its time go, and which one to train with?
// Reads what is asked, launches each setting as a process of its own, round after round, and shows
// what came of it.
#include "verbs/bench/cluster.h"

#include "base/out.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { ALIKE_FAILURES = 2 };

#define AT(member) offsetof(struct grid_options, member)
static const struct cli_row option_rows[] = {
    {"config", "FILE", CLI_TEXT, AT(config),
     "config with a benchmark section (batch_sizes, num_workers_options, steps_per_test, "
     "test_mixed_precision, test_pin_memory), or with training keys",
     "file"},
    {"data-path", "FILE", CLI_TEXT, AT(data_path),
     "HDF5 file for the built-in workload; {data_path} in a command", "file"},
    CLI_ROW_DATA_KEY(AT(data_key)),
    {"batch-sizes", "N...", CLI_MANY, AT(batch_sizes), "batches to try: 1024 2048 4096"},
    {"num-workers", "N...", CLI_MANY, AT(workers), "loader workers to try: 0 4 8 12"},
    {"amp", "WORD", CLI_TEXT, AT(amp), "mixed precision: on, off or both", "on off both"},
    {"precision", "WORD...", CLI_MANY, AT(precisions),
     "precisions to try: fp32, amp-fp16, amp-bf16, bf16, fp16", "fp32 amp-fp16 amp-bf16 bf16 fp16"},
    {"pin-memory", "WORD", CLI_TEXT, AT(pin_memory), "pinned memory: on, off or both",
     "on off both"},
    {"compile", "WORD", CLI_TEXT, AT(compile), "torch.compile: on, off or both", "on off both"},
    {"bucket-cap-mb", "N...", CLI_MANY, AT(bucket_caps),
     "sizes of DistributedDataParallel's buckets to try, in MiB: 1 25 100; the script stays as it "
     "is"},
    {"axis", "NAME=V,V,...", CLI_REPEAT, AT(axes),
     "another setting to vary: {NAME} in the command or in --env (repeatable)"},
    {"repeats", "N", CLI_COUNT, AT(repeats),
     "measure the whole grid N times, back and forth, to cancel drift (default 1)"},
    {"model", "NAME", CLI_TEXT, AT(model), "model of the built-in workload", "models"},
    {"img-size", "N", CLI_COUNT, AT(image_size), "image size of the built-in workload in pixels"},
    {"seq-len", "N", CLI_COUNT, AT(sequence_length),
     "sequence length of the built-in workload in tokens"},
    {"num-classes", "N", CLI_COUNT, AT(classes), "number of classes of the built-in workload"},
    {"depth", "N", CLI_COUNT, AT(depth), "blocks of the built-in small network"},
    {"hidden", "N", CLI_COUNT, AT(hidden), "channels of the built-in small network"},
    {"optimizer", "NAME", CLI_TEXT, AT(optimizer), "optimizer of the built-in workload",
     "sgd adam adamw"},
    {"inference", NULL, CLI_SWITCH, AT(inference),
     "time the built-in workload's inference instead of training"},
    {"engine", "NAME...", CLI_MANY, AT(engines),
     "time inference with these engines (torch, torch-compile, onnxruntime, onnxruntime-tensorrt, "
     "trtexec) and compare outputs",
     "torch torch-compile onnxruntime onnxruntime-tensorrt trtexec"},
    {"onnx", "FILE", CLI_TEXT, AT(onnx),
     "ONNX file to run (default: export --model); with --model, compare with that model", "file"},
    {"weights", "FILE", CLI_TEXT, AT(weights), "state dict for --model (default random weights)",
     "file"},
    {"compile-mode", "MODE", CLI_TEXT, AT(compile_mode),
     "mode of torch-compile: default, reduce-overhead, max-autotune",
     "default reduce-overhead max-autotune"},
    {"trtexec", "PROGRAM", CLI_TEXT, AT(trtexec), "path of TensorRT's trtexec (default from PATH)",
     "file"},
    {"keep-engines", "DIR", CLI_TEXT, AT(keep_engines),
     "keep what the engines run: ONNX files, TensorRT's engines", "file"},
    {"tolerance", "X", CLI_NUMBER, AT(tolerance),
     "largest allowed difference from the reference, relative to its largest output (default fp32 "
     "0.001, fp16 0.02, bf16 0.16)"},
    CLI_ROW_RANKS_OF_TRIAL(AT(l.ranks)),
    LAUNCH_ROWS(struct grid_options),
    HISTORY_ROWS(struct grid_options),
    CLI_ROW_GPU_IDS(AT(l.cards)),
    CLI_ROW_MACHINE_GAUGES(AT(l.machine)),
    {"output", "FILE", CLI_REPEAT, AT(outputs),
     "also write the result as .csv, .json, .svg or .html (repeatable)", "file", 'o'},
    CLI_ROW_TRACE_STEPS(AT(trace)),
    {"fresh", NULL, CLI_SWITCH, AT(fresh),
     "measure everything, even what an interrupted run of the same command has measured"},
    {"share", "I/N", CLI_TEXT, AT(part),
     "measure only part I of the grid's N; all/N puts the parts together and measures what they "
     "lack"},
    {"array", "N", CLI_COUNT, offsetof(struct bench_options, array),
     "with --on slurm: split the grid into N parts, measured at once by an array of jobs"},
    CLUSTER_ROWS(struct bench_options),
    {.name = NULL},
};

struct measuring {
    struct grid *b;
    const struct grid_options *o;
    struct grid_part part;
    const struct grid_asked *asked;
    struct launch *l;
    struct grid_state state;
    struct history history;
    struct show_progress progress;
    struct str now; // the setting that is being measured
    int64_t done;
    int alike; // failures in succession; -1: something has run
    bool is_interrupted;
    struct launch_trace trace;
    int trials, with_buckets; // made here; with the buckets of --bucket-cap-mb
};

static void draw(void *context, const struct steps *steps, const struct trial_outside *outside) {
    struct measuring *m = context;
    (void)steps, (void)outside;
    show_progress_set(&m->progress, m->done, m->now);
}

// After an out-of-memory the larger batches of the same combination are not tried. An engine that
// cannot do a precision cannot do it at any batch, and one that is not there does none.
static bool is_ruled_out(const struct grid *b, ptrdiff_t i) {
    const struct grid_setting *s = &b->rows.items[i].setting;
    if (grid_engine_is_absent(b, s)) return true;
    for (ptrdiff_t j = i - 1; j >= 0; j--) {
        const struct grid_row *r = &b->rows.items[j];
        if (r->setting.combination != s->combination) return false;
        if (r->status == LAUNCH_OOM) return true;
        if (b->is_inference && r->status == LAUNCH_FAILED) return true;
    }
    return false;
}

static bool is_wanted(struct measuring *m, ptrdiff_t i, int64_t round) {
    struct grid_row *r = &m->b->rows.items[i];
    if (r->trial_count > round) return false; // from the run that was interrupted
    if (r->status != LAUNCH_UNTRIED && r->status != LAUNCH_OK) return false;
    if (!is_ruled_out(m->b, i)) return true;
    if (r->trial_count == 0) r->status = GRID_SKIPPED;
    return false;
}

// A command that fails at once fails at every setting.
static bool is_hopeless(struct measuring *m, const struct grid_trial *t) {
    if (t->status != LAUNCH_FAILED || m->b->is_inference) m->alike = -1;
    if (m->alike >= 0 && t->status == LAUNCH_FAILED) m->alike++;
    return m->alike >= ALIKE_FAILURES;
}

// A log without a terminal shouldn't look frozen either.
static void say_trial(const struct measuring *m, const struct grid_trial *t, double seconds) {
    if (m->progress.is_live) return;
    out_say(stderr, "%lld of %lld: %.*s: %s", (long long)m->done, (long long)m->progress.total,
            STR_ARG(m->now),
            t->is_absent ? grid_status_name(GRID_ABSENT)
            : t->differs ? grid_status_name(GRID_DIFFERS)
                         : launch_status_name(t->status));
    if (t->sample_count > 0) {
        out_say(stderr, ", %.1f samples/s", 1 / stats_mean(t->seconds_per_sample, t->sample_count));
    }
    out_say(stderr, ", %.1f s\n", seconds);
}

static void store_trial(struct measuring *m, const struct grid_setting *s,
                        const struct launch_result *result) {
    struct grid *b = m->b;
    const struct config_value *model = &m->asked->reading.values[CONFIG_MODEL];
    struct plan plan = {.model = str_of(m->o->model),
                        .batch = s->batch,
                        .ranks = m->asked->l.ranks > 0 ? m->asked->l.ranks : 1,
                        .precision = s->precision,
                        .image_size = m->o->image_size,
                        .sequence_length = m->o->sequence_length,
                        .optimizer = str_of(m->o->optimizer),
                        .inference = m->b->is_inference};
    if (plan.model.len == 0 && m->asked->has_config && model->type == CONFIG_TEXT) {
        plan.model = model->text;
    }
    struct store_run run = history_row(&m->history, "bench", &plan);
    run.workers = s->workers;
    run.setting = grid_setting_text(b->arena, &b->grid, s, true);
    run.limit_bytes = m->l->place.is_capped ? m->l->place.capacity_bytes : -1;
    history_result(&m->history, result, &run);
    history_add(&m->history, &run);
}

static int measure_one(struct measuring *m, ptrdiff_t i, bool *ret_stop, struct fail *why) {
    struct grid_row *row = &m->b->rows.items[i];
    const struct launch_place *place = &m->l->place;
    struct launch_values values;
    struct launch_result result;
    m->now = grid_setting_text(m->b->arena, &m->b->grid, &row->setting, true);
    show_progress_set(&m->progress, m->done, m->now);
    grid_values(m->o, m->b, m->asked, &row->setting, &values);
    int rc = launch_try(m->l, &values, row->setting.batch,
                        place->is_capped ? place->capacity_bytes : 0, &result, why);
    if (rc < 0) return rc;
    m->is_interrupted = result.status == LAUNCH_INTERRUPTED;
    *ret_stop = m->is_interrupted;
    if (m->is_interrupted) return 0;
    if (result.trial.is_standin) m->b->is_standin = true;
    if (m->o->trace) launch_trace_add(m->b->arena, &m->trace, m->now, &result);
    m->trials += result.status == LAUNCH_OK;
    m->with_buckets += grid_has_buckets(&result);
    struct grid_trial trial = grid_trial_of(m->b->arena, place, &result);
    if (m->b->is_workload) grid_workload_failure(m->b->arena, &result, &trial);
    if (m->b->is_inference) {
        grid_engine_judge(m->b->arena, m->o, &row->setting, &result, &trial);
    }
    grid_row_add(m->b->arena, row, &trial);
    grid_state_add(&m->state, m->b->arena, row->index, &trial);
    store_trial(m, &row->setting, &result);
    m->done++;
    say_trial(m, &trial, result.trial.seconds);
    *ret_stop = is_hopeless(m, &trial);
    return 0;
}

static int64_t launches_left(const struct measuring *m, int64_t repeats) {
    int64_t left = 0;
    for (ptrdiff_t i = 0; i < m->b->rows.count; i++) {
        const struct grid_row *r = &m->b->rows.items[i];
        bool may_run =
            (r->status == LAUNCH_UNTRIED || r->status == LAUNCH_OK) && !is_ruled_out(m->b, i);
        if (may_run && r->trial_count < repeats) left += repeats - r->trial_count;
    }
    return left;
}

// What all engines are given alike, by a trial of its own: the reference must not be in their
// memory.
static int prepare_engines(struct measuring *m, struct fail *why) {
    struct grid *b = m->b;
    struct launch_values values;
    struct launch_result result;
    if (!b->is_inference || launches_left(m, 1) == 0) return 0;
    int rc = grid_engine_folder(b, why);
    if (rc < 0) return rc;
    b->is_preparing = true;
    grid_values(m->o, b, m->asked, &b->rows.items[0].setting, &values);
    b->is_preparing = false;
    rc = launch_try(m->l, &values, 0, 0, &result, why);
    if (rc < 0) return rc;
    m->is_interrupted = result.status == LAUNCH_INTERRUPTED;
    if (m->is_interrupted || result.status == LAUNCH_OK) return 0;
    struct grid_trial trial = grid_trial_of(b->arena, &m->l->place, &result);
    grid_workload_failure(b->arena, &result, &trial);
    fail_set(why, trial.input_is_bad ? FAIL_INPUT : FAIL_MACHINE, "%.*s", STR_ARG(trial.reason));
    return trial.hint.len > 0 ? fail_hint(why, "%.*s", STR_ARG(trial.hint)) : why->code;
}

// Before the first, and when the first has shown how long one takes.
static void say_plan(const struct measuring *m, int64_t left, double seconds) {
    if (left < 2) return;
    if (isnan(seconds)) {
        out_say(stderr, "%lld trial%s; Ctrl-C stops and shows what was measured\n", (long long)left,
                left == 1 ? "" : "s");
        return;
    }
    struct str time = show_duration(m->b->arena, seconds * (double)left);
    out_say(stderr, "about %.*s for the other %lld\n", STR_ARG(time), (long long)left);
}

// There and back: a machine that warms up or slows down does not favour one end of the grid.
static int measure_all(struct measuring *m, struct fail *why) {
    int64_t repeats = m->o->repeats > 0 ? m->o->repeats : 1;
    ptrdiff_t count = m->b->rows.count;
    const int64_t began = os_now_ns();
    bool stop = false;
    int rc = 0;
    say_plan(m, launches_left(m, repeats), (double)NAN);
    m->progress = show_progress_open(STDERR_FILENO, STR("benchmark"), launches_left(m, repeats));
    m->l->watch = draw;
    m->l->watch_context = m;
    for (int64_t round = 0; rc == 0 && !stop && round < repeats; round++) {
        for (ptrdiff_t k = 0; rc == 0 && !stop && k < count; k++) {
            ptrdiff_t i = round % 2 == 0 ? k : count - 1 - k;
            if (m->l->interrupted && *m->l->interrupted)
                stop = m->is_interrupted = true;
            else if (is_wanted(m, i, round))
                rc = measure_one(m, i, &stop, why);
            if (m->done == 1 && !stop && k == 0) {
                show_progress_wipe(&m->progress);
                say_plan(m, launches_left(m, repeats), (double)(os_now_ns() - began) / 1e9);
            }
            m->progress.total = m->done + launches_left(m, repeats);
        }
    }
    show_progress_close(&m->progress);
    return rc;
}

// --- Before and after ----------------------------------------------------------------------------

static void lay_out_rows(struct grid *b) {
    struct grid_setting *settings;
    b->rows.count = grid_settings(b->arena, &b->grid, &settings);
    b->rows.items = arena_new(b->arena, struct grid_row, b->rows.count + 1);
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        b->rows.items[i] = (struct grid_row){.index = i,
                                             .setting = settings[i],
                                             .seen_batch = -1,
                                             .peak_bytes = -1,
                                             .charged_bytes = -1};
    }
}

static void open_state(struct measuring *m) {
    struct grid *b = m->b;
    struct str note;
    const ptrdiff_t whole = b->rows.count;
    grid_state_open(b->arena, grid_identity(m->o, b, m->asked, m->l), m->part, m->o->fresh,
                    &b->rows, &m->state, &note);
    grid_keep_part(&b->rows, m->part);
    if (note.len > 0) grid_note(b, note);
    if (m->part.index > 0)
        grid_note(b, str_format(b->arena, "part %lld of %lld: %td of the grid's %td settings",
                                (long long)m->part.index, (long long)m->part.count, b->rows.count,
                                whole));
    if (m->state.joined > 0)
        grid_note(b, str_format(b->arena,
                                "%td of %td settings were measured in %td parts, side by side "
                                "where they ran at once",
                                m->state.joined, whole, m->state.parts.count));
    if (m->state.joined > 0) m->alike = -1;
    if (m->state.taken == 0) return;
    m->alike = -1; // the command does run
    grid_note(
        b,
        str_format(
            b->arena,
            "%td of %td settings are from the run interrupted at %.*s; --fresh measures all again",
            m->state.taken, b->rows.count, STR_ARG(m->state.began)));
}

static ptrdiff_t count_rows(const struct grid *b, int status) {
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < b->rows.count; i++) n += b->rows.items[i].status == status;
    return n;
}

static void say_what_is_missing(struct measuring *m) {
    struct grid *b = m->b;
    ptrdiff_t skipped = count_rows(b, GRID_SKIPPED), untried = count_rows(b, LAUNCH_UNTRIED);
    if (skipped > 0 && b->is_inference) {
        grid_note(b, str_format(b->arena,
                                "%td more setting%s skipped: the engine is not installed, does not "
                                "support the precision, or ran out of memory before",
                                skipped, skipped == 1 ? " was" : "s were"));
    } else if (skipped > 0) {
        grid_note(b, str_format(b->arena, "%td larger batch%s skipped after an out-of-memory",
                                skipped, skipped == 1 ? " was" : "es were"));
    }
    if (m->is_interrupted) {
        grid_note(b, str_format(b->arena, "interrupted: %td of %td settings are missing%s", untried,
                                b->rows.count,
                                m->state.fd >= 0 ? "; run the same command to continue" : ""));
    } else if (untried > 0) {
        grid_note(b, str_format(b->arena,
                                "stopped after %d settings in a row failed; %td were not tried",
                                m->alike, untried));
    }
}

// Only what was tried is shown, and counted by the indexes of the answer.
static void keep_tried(struct grid *b) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        if (b->rows.items[i].trial_count > 0) b->rows.items[kept++] = b->rows.items[i];
    }
    b->rows.count = kept;
}

static int answer(struct measuring *m, struct fail *why) {
    struct grid *b = m->b;
    int64_t capacity = m->l->place.capacity_bytes;
    say_what_is_missing(m);
    keep_tried(b);
    grid_mark_spills(b->arena, &b->rows, capacity);
    b->best = grid_pick(b->arena, &b->rows, capacity);
    grid_diagnose(b->arena, &b->rows, b->best.recommended, capacity, b->is_inference, &b->findings);
    if (b->is_inference) {
        grid_engine_notes(m->o, b);
        grid_engine_findings(b);
    }
    if (m->o->bucket_caps && m->trials > 0 && m->with_buckets == 0) grid_buckets_idle(b);
    for (ptrdiff_t i = 0; i < m->l->notes.count; i++) grid_note(b, m->l->notes.items[i]);
    history_close(&m->history);
    for (ptrdiff_t i = 0; i < m->history.notes.count; i++) {
        grid_note(b, m->history.notes.items[i]);
    }
    if (b->is_standin) {
        grid_note(b, STR("FAKE: the command plays a scenario; nothing was trained"));
    }
    int rc = bench_verdict(b, why);
    struct fail unwritten;
    int written = show_report_write(b->arena, bench_files, m->o->outputs, b, &unwritten);
    if (!m->o->base.json)
        bench_print(b);
    else if (json_print(bench_json(b), why) < 0)
        return FAIL_BUG;
    if (m->o->trace && written == 0)
        written = launch_trace_write(b->arena, &m->trace, m->o->trace, &unwritten);
    if (written < 0 && rc == 0) {
        *why = unwritten;
        rc = written;
    }
    if (!m->is_interrupted) return rc;
    *why = (struct fail){0};
    return FAIL_INTERRUPTED;
}

static int measure(struct measuring *m, struct fail *why) {
    if (m->asked->has_config) {
        m->l->config = (struct config *)&m->asked->config;
        m->l->reading = (struct config_reading *)&m->asked->reading;
    }
    int rc = grid_ask_grid(m->o, m->asked, m->l, m->b, why);
    if (rc < 0) return rc;
    lay_out_rows(m->b);
    open_state(m);
    history_open(m->b->arena, &m->o->h, &m->history);
    history_place(&m->history, m->l, m->asked->l.machine);
    history_command(&m->history, m->asked->command);
    rc = prepare_engines(m, why);
    if (rc == 0 && !m->is_interrupted) rc = measure_all(m, why);
    bool is_complete = rc == 0 && !m->is_interrupted;
    if (rc == 0) rc = answer(m, why);
    grid_state_close(&m->state, is_complete);
    history_close(&m->history);
    return rc;
}

static int bench_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct grid_options *o = (const struct grid_options *)options;
    struct grid b = {.arena = a};
    struct grid_asked asked;
    struct launch launch;
    struct grid_part part = {0};
    const struct bench_options *all = (const struct bench_options *)options;
    int rc = cluster_check(&all->cluster, why);
    if (rc == 0 && all->array > 0 && !all->cluster.on) {
        fail_set(why, FAIL_USAGE, "--array needs --on slurm");
        rc = fail_hint(why, "--share 1/%lld measures a part of the grid here",
                       (long long)all->array);
    }
    if (rc == 0 && o->part) rc = grid_read_part(o->part, &part, why);
    if (rc == 0) rc = grid_ask(a, o, &b, &asked, why);
    if (rc == 0 && all->cluster.on) return bench_cluster(a, all, why);
    if (rc == 0) rc = launch_open(a, &asked.l, asked.command, &launch, why);
    if (rc < 0) return rc;
    b.place = &launch.place;
    launch.registered.verb = STR("bench");
    launch.registered.model = b.title;
    struct measuring m = {
        .b = &b, .o = o, .asked = &asked, .part = part, .l = &launch, .state = {.fd = -1}};
    rc = measure(&m, why);
    launch_close(&launch);
    grid_engine_forget(&b);
    return rc;
}

const struct cli_verb bench_verb = {
    .name = "bench",
    .summary = "find the fastest settings, and what limits them",
    .description =
        "Launches the training at every setting of a grid (batch x loader workers x mixed "
        "precision x any --axis), each in its own process that is stopped after some steps, and "
        "shows where each step's time went, samples per second with the 95 % interval, how busy "
        "the GPU was and the peak memory. After an out-of-memory, larger batches of the same "
        "combination are skipped.\n\nThe command after -- takes the values through placeholders: "
        "{batch}, {workers}, {amp:--amp}, {precision}, {pin_memory:...}, {compile:...}, {NAME} of "
        "an axis; no line of its code changes. Without a command, a built-in training is measured: "
        "a model by its library's name, or a small network, on synthetic data or an HDF5 "
        "file.\n\nWith --engine, --onnx or --inference, the model's inference is timed with each "
        "engine and precision, and its outputs are compared with fp32 (doc/engines.md).\n\nRun the "
        "same command again to continue an interrupted run.",
    .examples =
        "batchfit bench --config configs/checking_gpu_optimization.yaml --data-path data.h5\n"
        "batchfit bench --batch-sizes 1024 2048 4096 --num-workers 4 8 --amp both -- python "
        "train.py --bs {batch} --workers {workers} {amp:--amp}\n"
        "batchfit bench --axis algo=Ring,Tree --env NCCL_ALGO={algo} -- torchrun train.py\n"
        "batchfit bench --model resnet50 --batch-sizes 16 32 64 -o bench.html\n"
        "batchfit bench --on slurm --batch-sizes 16 32 64 -- python train.py --bs {batch}\n"
        "batchfit bench --engine torch onnxruntime trtexec --model resnet50 --precision fp32 fp16",
    .options = option_rows,
    .common = "config model batch-sizes num-workers precision compile axis engine steps output",
    .options_size = sizeof(struct bench_options),
    .run = bench_run,
    .takes_command = true,
};
