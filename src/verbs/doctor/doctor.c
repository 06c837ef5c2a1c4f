// SPDX-License-Identifier: Apache-2.0
// batchfit doctor: why is it slow, why did it die?
#include "verbs/doctor/doctor.h"

#include "cli/cli.h"

#include <math.h>

#define AT(member) offsetof(struct doctor_options, member)
static const struct cli_row rows[] = {
    QUESTION_ROWS(struct doctor_options),
    QUESTION_ROW_INFERENCE(struct doctor_options),
    HISTORY_ROWS(struct doctor_options),
    {"batch-size", "N", CLI_COUNT, AT(q.batch), "batch of the run, to predict smaller ones"},
    {"gpu", "NAME", CLI_TEXT, AT(gpu), "GPU that it ran on: rtx3060, a100-80gb", "gpus"},
    CLI_ROW_GPU_MEMORY(AT(gpu_memory)),
    {"pid", "N", CLI_COUNT, AT(pid), "running training to observe, with its child processes"},
    {"duration", "SECONDS", CLI_NUMBER, AT(duration), "how long to observe with --pid (default 10)",
     .letter = 'd'},
    {"run", "N", CLI_COUNT, AT(run), "run of the history (batchfit list runs)"},
    {"details", NULL, CLI_SWITCH, AT(details), "also show the lines of the log that say it"},
    {.name = NULL},
};

static int refuse(const struct doctor_options *o, struct fail *why) {
    int sources = o->q.base.argument_count + (o->pid > 0) + (o->run > 0);
    if (sources != 1) {
        fail_set(why, FAIL_USAGE, "doctor takes one LOG, --pid N or --run N");
        return fail_hint(why, "batchfit doctor train.log; COMMAND 2>&1 | batchfit doctor -");
    }
    if (!isnan(o->duration) && o->pid <= 0)
        return fail_set(why, FAIL_USAGE, "--duration needs --pid");
    if (!isnan(o->duration) && (o->duration < 1 || o->duration > 3600))
        return fail_set(why, FAIL_USAGE, "--duration: not from 1 to 3600 seconds");
    return 0;
}

// The config says what the log does not: workers, precision, batch.
static int read_config(struct doctor *d, struct fail *why) {
    const struct doctor_options *o = d->options;
    struct question_options q = o->q;
    q.model_is_optional = true;
    if (!q.config && !q.model && !q.tape) return 0;
    int rc = question_open(d->arena, &q, &d->question, why);
    if (rc < 0) return rc;
    d->has_question = true;
    const struct config_value *values = d->question.reading.values;
    if (values[CONFIG_WORKERS].type == CONFIG_INT)
        d->facts.workers = (int)values[CONFIG_WORKERS].integer;
    d->facts.is_fp32 |= str_is(values[CONFIG_PRECISION].word, "fp32");
    d->facts.is_fp32 |= q.precision && str_is(str_of(q.precision), "fp32");
    return 0;
}

static int doctor_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct doctor_options *o = (const struct doctor_options *)options;
    struct doctor *d = arena_new(a, struct doctor, 1);
    *d = (struct doctor){.arena = a, .options = o, .facts = cause_facts_unknown()};
    int rc = refuse(o, why);
    if (rc == 0) rc = read_config(d, why);
    if (rc < 0) return rc;
    if (o->pid > 0)
        rc = doctor_look(d, o->pid, isnan(o->duration) ? 10 : o->duration, why);
    else if (o->run > 0)
        rc = doctor_recall(d, o->run, why);
    else if (doctor_is_snapshot(d, options->arguments[0]))
        rc = doctor_read_snapshot(d, options->arguments[0], why);
    else
        rc = doctor_read(d, options->arguments[0], why);
    if (rc < 0) return rc;
    if (!d->snapshot) cause_judge(a, &d->facts, &d->causes);
    doctor_predict(d);
    if (options->json)
        rc = doctor_print_json(d, why);
    else
        doctor_print(d);
    return rc == 0 && d->causes.count > 0 ? FAIL_NO : rc;
}

const struct cli_verb doctor_verb = {
    .name = "doctor",
    .summary = "find why a training is slow or died",
    .arguments = "LOG",
    .description =
        "Reads a training's log of any framework (- is standard input), a steps file, a log of "
        "batchfit watch, the output of batchfit bench --json, a run of the history or a PyTorch "
        "memory snapshot (torch.cuda.memory._dump_snapshot, a .pickle), or observes a live process "
        "and its children. It names the causes, the surest first, each with a remedy, and a "
        "command to copy; --details shows the lines that say it. For a snapshot it says what held "
        "the GPU's memory, and what other allocator "
        "settings and, with --batch-size, smaller batches would have done; nothing in the pickle "
        "is executed. With --config, the remedy uses the config's own keys; if the model and the "
        "GPU are known, it is the batch that fit would choose.\nThe exit status is 1 if a "
        "cause was found, else 0. All causes, and how sure each kind of evidence is: "
        "doc/formats/doctor.md.",
    .examples = "batchfit doctor logs/train.log\n"
                "batchfit doctor logs/train.log --config configs/train.yaml --gpu rtx3060\n"
                "batchfit doctor oom.pickle --batch-size 32\n"
                "batchfit doctor --pid 4242 --duration 30\n"
                "batchfit doctor --run 57 --json",
    .options = rows,
    .common = "pid duration run config model gpu batch-size details",
    .options_size = sizeof(struct doctor_options),
    .run = doctor_run,
};
