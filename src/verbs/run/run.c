// SPDX-License-Identifier: Apache-2.0
// batchfit run: train to the end. Reads what is asked, opens the event log, and then, until the
// decision is not to start again: command of this attempt, attempt, outcome, decision.
#include "verbs/run/run.h"

#include "base/os.h"

#include <math.h>
#include <poll.h>
#include <signal.h>

#define AT(member) offsetof(struct run_options, member)
static const struct cli_row rows[] = {
    {"config", "FILE", CLI_TEXT, AT(config),
     "training config: its batch, accumulation and learning rate; {config} is a copy with those of "
     "the attempt",
     "file"},
    {"batch-size", "N", CLI_COUNT, AT(batch), "samples per step and rank, for {batch}"},
    {"accumulation", "N", CLI_COUNT, AT(accumulation),
     "micro-steps per step, for {accumulate} (default 1)"},
    {"lr", "X", CLI_NUMBER, AT(lr), "learning rate at that batch, for {lr}"},
    {"ranks", "N", CLI_COUNT, AT(l.ranks),
     "data-parallel processes: torchrun starts a script; all restart together"},
    {"recover", NULL, CLI_SWITCH, AT(recover),
     "restart after failures; out of memory: with a smaller batch, else unchanged"},
    {"checkpoint", "GLOB", CLI_TEXT, AT(checkpoint),
     "checkpoints of the training (files or folders): 'out/ckpt-*.pt'; the newest is {checkpoint} "
     "(default what it saves with PyTorch)",
     "file"},
    {"max-restarts", "N", CLI_NUMBER, AT(max_restarts),
     "restarts after failures (default 5); those that change the batch do not count",
     .about = CLI_OF_RESTARTS},
    {"backoff", "SECONDS", CLI_NUMBER, AT(backoff),
     "wait before a restart without progress; doubles up to 60 (default 1)",
     .about = CLI_OF_RESTARTS},
    {"from-scratch", NULL, CLI_SWITCH, AT(from_scratch),
     "start over if no checkpoint is left, even if work is lost", .about = CLI_OF_RESTARTS},
    {"resume", NULL, CLI_SWITCH, AT(resume),
     "start from an existing checkpoint: one that --checkpoint matches, or that the last run of "
     "this command left"},
    {"resumes-itself", NULL, CLI_SWITCH, AT(resumes_itself),
     "the program finds its newest checkpoint itself"},
    {"auto-scale-lr", NULL, CLI_SWITCH, AT(auto_scale_lr),
     "if the command takes no accumulation, scale the learning rate with the batch, in {lr}"},
    {"lr-rule", "WORD", CLI_TEXT, AT(lr_rule),
     "rule for scaling the learning rate: linear or sqrt (default linear)", "linear sqrt"},
    {"adaptive", NULL, CLI_SWITCH, AT(adaptive),
     "grow the batch when predicted to fit; at a checkpoint, or when the program asks"},
    {"initial-batch-size", "N", CLI_COUNT, AT(initial), "first batch with --adaptive",
     .about = CLI_OF_GROWTH},
    {"min-batch-size", "N", CLI_COUNT, AT(least), "smallest batch allowed (default 1)"},
    {"max-batch-size", "N", CLI_COUNT, AT(most), "largest batch allowed with --adaptive",
     .about = CLI_OF_GROWTH},
    {"memory-threshold", "SHARE", CLI_SHARE, AT(threshold),
     "grow the batch only if predicted below this share of memory (default 0.9)",
     .about = CLI_OF_GROWTH},
    {"adjustment-factor", "X", CLI_NUMBER, AT(factor),
     "smallest growth factor of the batch (default 1.2)", .about = CLI_OF_GROWTH},
    {"max-memory-usage", "SHARE", CLI_SHARE, AT(share), "share of the device's memory to use"},
    {"memory", "BYTES", CLI_MEMORY, AT(l.memory_bytes),
     "pretend that the device has this much memory: 2GiB"},
    {"device", "WORD", CLI_TEXT, AT(l.device), "device to train on: auto, cuda, cpu",
     "auto cuda cpu"},
    CLI_ROW_GPU_IDS(AT(l.cards)),
    {"start-limit", "SECONDS", CLI_NUMBER, AT(l.start_seconds),
     "treat it as hanging without a first step or sign of life for this time; if it has not "
     "registered by then, only its end is watched (default 600; 0: no limit)"},
    {"stall-limit", "SECONDS", CLI_NUMBER, AT(l.stall_seconds),
     "treat it as hanging without a further step for this time (default 1800; 0: no limit)"},
    {"grace", "SECONDS", CLI_NUMBER, AT(grace),
     "time between a signal to the training and its kill (default 30)"},
    CLI_ROW("batch-dim", "N", CLI_COUNT, AT(l.batch_dim),
            "tensor dimension that counts the samples: 1 if the sequence comes first"),
    CLI_ROW_PYTHON(AT(l.python)),
    CLI_ROW_ENV(AT(l.environment)),
    CLI_ROW_SNAPSHOT(AT(l.snapshots)),
    {"config-key", "[NAME=]PATH", CLI_REPEAT, AT(l.config_keys),
     "key for the value NAME (batch, accumulate, lr) in the copy of the config (repeatable)"},
    CLI_ROW_CONFIG_DIALECT(AT(dialect)),
    CLI_ROW_CONFIG_SECTION(AT(section)),
    {"model", "NAME", CLI_TEXT, AT(model), "name of the model, for watch and the history",
     "models"},
    {"log", "FILE", CLI_TEXT, AT(log),
     "event log (default one per folder and command, next to the history)", "file"},
    {"fresh", NULL, CLI_SWITCH, AT(fresh),
     "start over, even if an earlier run of this command is unfinished or left a checkpoint"},
    {"dry-run", NULL, CLI_SWITCH, AT(dry_run), "show the commands without running them"},
    HISTORY_ROWS(struct run_options),
    {.name = NULL},
};

// --- Signals -------------------------------------------------------------------------------------

// False: a signal came.
static bool wait_seconds(double seconds) {
    int64_t end_ns = os_now_ns() + (int64_t)(seconds * 1e9);
    while (run_stop_signal() == 0 && !run_ends_soon()) {
        int64_t left_ms = (end_ns - os_now_ns()) / 1000000;
        if (left_ms <= 0) return true;
        (void)poll(NULL, 0, left_ms < 100 ? (int)left_ms : 100);
    }
    return false;
}

// --- The loop ------------------------------------------------------------------------------------

// What was lost anyway, where nobody has told of a checkpoint: a start from the beginning loses no
// more than the minutes so far. After longer than this the user is asked for a template.
enum { LOSS_MOST_S = 600 };

static struct recover_decision decide(struct run *r, struct arena *a) {
    struct recover_rules rules = r->rules;
    struct run_files files = {0};
    bool has_any = r->has_said_checkpoint || r->state.checkpoint_count > 0;
    if (r->takes_checkpoint && (r->state.phase != RECOVER_FRESH || r->o->resume)) {
        files = run_files_usable(r, a);
    }
    if (!has_any && r->lost_seconds < LOSS_MOST_S) rules.from_scratch = true;
    return recover_next(a, &rules, &r->state, files.items, files.count);
}

// What is resumed from before this run counts as nothing seen, unless the program knows better.
static void log_resumed(struct run *r, struct recover_decision *d) {
    if (!r->o->resume || d->checkpoint.path.len == 0 || r->state.phase != RECOVER_FRESH) return;
    struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
    if (d->samples >= 0) return; // of the run before, by its log
    e.file = d->checkpoint;
    e.samples = d->samples = 0;
    run_log_add(r, e);
}

static int finish(struct run *r, const struct recover_decision *d) {
    run_log_add(r, recover_finished(&r->state, d));
    return (int)d->status;
}

static int resume_matches(const struct run *r, const struct recover_decision *d, struct fail *why) {
    if (!r->o->resume || !r->takes_checkpoint || d->checkpoint.path.len > 0) return 0;
    if (r->state.phase != RECOVER_FRESH) return 0;
    fail_set(why, FAIL_INPUT, "--resume: no file matches --checkpoint %s",
             r->o->checkpoint ? r->o->checkpoint : "(none was given)");
    return fail_hint(why, "correct the pattern, or leave out --resume to start from scratch");
}

// Until the decision is not to start again, or a signal comes. The exit status in *ret_status.
static int keep_alive(struct run *r, int *ret_status, struct fail *why) {
    int rc = 0;
    while (rc == 0) {
        ARENA_AUTO scratch = {0};
        bool was_interrupted =
            r->state.phase == RECOVER_ENDED && r->state.end == FAILURE_INTERRUPTED;
        if (was_interrupted || run_stop_signal() || run_ends_soon()) {
            int signal = run_stop_signal() ? run_stop_signal() : SIGUSR1;
            int status =
                was_interrupted && r->state.status >= 0 ? (int)r->state.status : 128 + signal;
            *ret_status = run_status_stopped(r, status);
            return 0; // not finished: the same command goes on from here
        }
        struct recover_decision d = decide(r, &scratch);
        rc = resume_matches(r, &d, why);
        if (rc < 0) return rc;
        run_say_decision(r, &d);
        log_resumed(r, &d);
        run_log_add(r, recover_decided(&d));
        if (d.action != RECOVER_START) {
            *ret_status = finish(r, &d);
            return 0;
        }
        if (!wait_seconds(d.delay_s)) continue;
        rc = run_attempt(r, &d, why);
    }
    return rc;
}

// --- Around it -----------------------------------------------------------------------------------

static void store(struct run *r, int status) {
    struct store_run run = history_row(&r->history, "run", &r->plan);
    struct recover_size size = run_size_last(r);
    run.plan.batch = size.batch;
    run.plan.accumulation = size.batch > 0 ? size.accumulation : 0;
    run.status = status == 0 ? STR("OK") : STR("FAILED");
    run.ending = r->state.ending;
    if (status != 0 && r->row_count > 0) run.reason = r->rows[r->row_count - 1].said;
    run.exit_status = status;
    run.limit_bytes = r->limit_bytes > 0 ? r->limit_bytes : -1;
    run.is_standin = r->is_standin ? 1 : r->history.base.is_standin;
    run.setting = str_format(r->arena, "%lld restart%s", (long long)r->state.restarts,
                             r->state.restarts == 1 ? "" : "s");
    run.seconds = 0;
    for (ptrdiff_t i = 0; i < r->row_count; i++) {
        run.seconds += r->rows[i].seconds;
        if (r->rows[i].peak_bytes > run.peak_bytes) run.peak_bytes = r->rows[i].peak_bytes;
    }
    int64_t samples = r->state.samples - r->samples_began; // an earlier call's took its own time
    if (samples > 0 && run.seconds > 0) run.samples_per_s = (double)samples / run.seconds;
    history_add(&r->history, &run);
}

static void tell_notes(struct run *r) {
    for (ptrdiff_t i = 0; i < r->launch.notes.count; i++) {
        run_say("%.*s", STR_ARG(r->launch.notes.items[i]));
    }
    for (ptrdiff_t i = 0; i < r->history.notes.count; i++) {
        run_say("%.*s", STR_ARG(r->history.notes.items[i]));
    }
}

static int train(struct run *r, char *const *command, struct fail *why) {
    int status = 0;
    int rc = run_log_open(r, command, why);
    if (rc < 0) return rc;
    history_open(r->arena, &r->o->h, &r->history);
    history_place(&r->history, &r->launch, NULL);
    history_command(&r->history, command);
    run_catch_signals();
    run_say_resuming(r);
    rc = keep_alive(r, &status, why);
    if (rc == 0) store(r, status);
    tell_notes(r);
    history_close(&r->history);
    if (rc == 0) run_say_end(r, status);
    if (rc == 0 && r->o->base.json) rc = run_print(r, status, why);
    run_log_close(r);
    return rc < 0 ? rc : -status;
}

// What changes a run only where it grows, or restarts.
static int check_ways(const struct run_options *o, struct fail *why) {
    static const struct cli_way ways[] = {
        {"--adaptive", ~0u, CLI_OF_GROWTH,
         "batchfit run --adaptive --batch-size 64 -- python train.py --batch-size {batch}", "", ""},
        {"--recover", ~(unsigned)CLI_OF_GROWTH, CLI_OF_RESTARTS,
         "batchfit run --recover --batch-size 64 -- python train.py --batch-size {batch}", "", ""},
    };
    const bool asked[] = {o->adaptive, o->recover};
    return cli_ways_check(rows, &o->base, ways, 2, asked, why);
}

static int run_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct run_options *o = (const struct run_options *)(const void *)options;
    struct run r = {.arena = a, .o = o, .log.fd = -1, .out_fd = o->base.json ? 2 : 1};
    int rc = check_ways(o, why);
    if (rc == 0) rc = run_ask(&r, o->base.command, why);
    if (rc == 0) rc = launch_open(a, &r.l, o->base.command, &r.launch, why);
    if (rc < 0) return rc;
    rc = run_ask_device(&r, why);
    if (rc == 0) run_predict_open(&r);
    if (rc == 0) rc = o->dry_run ? run_dry(&r, why) : train(&r, o->base.command, why);
    launch_close(&r.launch);
    return rc;
}

static const char description[] =
    "Starts the command and watches it until it ends. Its output goes through unchanged, and its "
    "exit status becomes batchfit's. At the end, one line on standard error says how often it "
    "restarted, with which batch it ended, and how many samples the weights have seen.\nWith "
    "--recover, a training that fails restarts from its newest checkpoint: out of memory, with the "
    "next smaller batch and more accumulation, so that the effective batch stays exactly the same; "
    "otherwise (killed, hanging, a GPU or network failure) unchanged. A crash that repeats at the "
    "same place is not retried.\nIn the command, {batch}, {accumulate}, {lr} and {config} stand "
    "for the values of an attempt, {checkpoint} for the newest checkpoint, and {resume:TEXT} for "
    "TEXT if there is one: {resume:--resume {checkpoint}}, or {resume:--resume} if the program "
    "finds its newest checkpoint itself.\nSIGINT, SIGTERM and SIGHUP are passed on, and the "
    "training may save and end within --grace; SIGUSR1 and SIGUSR2 are passed on. With --recover, "
    "a stop by SIGTERM ends with status 75: queue the same command again, and it continues. Under "
    "Slurm, SIGUSR1 (--signal=B:USR1@120) announces such a stop: it is passed on to a training "
    "that has a handler for it, and any other is stopped at its next checkpoint. If batchfit "
    "itself is killed, the training ends, and the same command continues where it was. Standard "
    "input is empty.";

const struct cli_verb run_verb = {
    .name = "run",
    .summary = "train to the end: recover from out-of-memory, crashes and hangs",
    .description = description,
    .examples =
        "batchfit run --config configs/train.yaml --recover --checkpoint 'out/ckpt-*.pt' -- python "
        "train.py --config {config} {resume:--resume {checkpoint}}\n"
        "batchfit run --batch-size 64 --recover --checkpoint 'out/ckpt-*.pt' -- python train.py "
        "--batch-size {batch} --accumulate {accumulate} {resume:--resume {checkpoint}}\n"
        "batchfit run --batch-size 64 --lr 0.1 --recover --auto-scale-lr -- python train.py "
        "--batch-size {batch} --lr {lr}\n"
        "batchfit run --batch-size 64 --adaptive --initial-batch-size 16 --checkpoint 'out/*.pt' "
        "-- python train.py --batch-size {batch} --accumulate {accumulate} {resume:--resume "
        "{checkpoint}}",
    .options = rows,
    .common = "config batch-size accumulation recover checkpoint resume adaptive max-memory-usage "
              "device dry-run",
    .options_size = sizeof(struct run_options),
    .run = run_run,
    .takes_command = true,
};
