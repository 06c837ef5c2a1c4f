// SPDX-License-Identifier: Apache-2.0
// batchfit check: what is this machine, is it healthy, what should be set?
#include "verbs/check/check.h"

#include "cli/rows.h"
#include "machine/device/demo.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct check_options, member)
static const struct cli_row rows[] = {
    QUESTION_ROWS(struct check_options),
    QUESTION_ROW_INFERENCE(struct check_options),
    {"detailed", NULL, CLI_SWITCH, AT(detailed), "also what is fine, and the ids of all findings",
     NULL},
    {"benchmark", NULL, CLI_SWITCH, AT(benchmark),
     "also measures memory, links and matrix products (of the CPU and of every GPU) and "
     "says how fast they should be; takes about half a minute, and as long again for each GPU",
     NULL},
    {"deadline", "SECONDS", CLI_COUNT, AT(deadline),
     "what --benchmark may take for the CPU and for each GPU (60)", ""},
    {"only", "WHAT", CLI_TEXT, AT(only), "--benchmark measures just the 'cards', or just the 'cpu'",
     "GPUs cpu"},
    {"recommend", NULL, CLI_SWITCH, AT(recommend), "only the recommended settings", NULL},
    {"matrix", NULL, CLI_SWITCH, AT(matrix),
     "which batch of which model fits which GPU; from the tapes, instead of the rest", NULL},
    {"models", "LIST", CLI_MANY, AT(models),
     "the models of --matrix; without it the config's, or all that tapes are shipped of", "models"},
    {"gpus", "LIST", CLI_LIST, AT(gpus),
     "the GPUs of --matrix: rtx4090,rtx3060; 'all' is the whole catalogue; without it this "
     "machine's and the team's",
     "gpus"},
    {"batch-size", "N", CLI_COUNT, AT(q.batch),
     "--matrix says of this batch whether it fits, instead of the largest that does", ""},
    {"output", "FILE", CLI_TEXT, AT(output),
     "--matrix goes into this file, by its name as Markdown (.md), a page (.html), .csv or .json",
     "file", 'o'},
    {"record", "DIR", CLI_TEXT, AT(record),
     "also writes the machine down in this folder, without serial numbers: for a report, or for "
     "--machine",
     "file"},
    CLI_ROW_MACHINE(AT(machine)),
    CLI_ROW_DEMO(AT(demo)),
    CLI_ROW_PYTHON(AT(python)),
    {.name = NULL},
};

// The status is the answer; the findings have been printed.
static int said(const struct check *c) {
    static const int codes[] = {0, FAIL_NO, FAIL_USAGE};
    return codes[check_status(c)];
}

static int watch(struct check *c, struct fail *why) {
    if (!c->options->detailed || c->facts.devices.count == 0) return 0;
    int rc = check_watch(c, why);
    for (int i = 0; rc == 0 && i < c->facts.devices.count; i++) {
        trend_judge(c->arena, &c->stretches[i], i, &c->findings);
    }
    return rc;
}

static int record(struct check *c, struct fail *why) {
    const struct check_options *o = c->options;
    if (!o->record) return 0;
    if (os_exists(str_format(c->arena, "%s/devices.json", o->record).p)) {
        return fail_set(why, FAIL_USAGE, "--record %s: there is a machine in this folder already",
                        o->record);
    }
    int rc = device_record(c->arena, o->machine, o->record, 0, 0, why);
    if (rc == 0) question_note(&c->question, str_format(c->arena, "recorded: %s", o->record));
    return rc;
}

static int check_machine(struct check *c, bool json, struct fail *why) {
    struct buf out = buf_new(c->arena);
    int rc = rules_needs_load(c->arena, &c->needs, why);
    if (rc == 0) rc = check_gather(c, why);
    if (rc < 0) return rc;
    rules_judge(c->arena, &c->facts, &c->needs, &c->findings);
    rc = watch(c, why);
    if (rc == 0) rc = check_measure(c, why);
    if (rc == 0) rc = record(c, why);
    if (rc == 0) rc = check_advise(c, why);
    if (rc == 0 && json) rc = json_print(check_json(c), why);
    if (rc < 0) return rc;
    if (!json) {
        check_show(c, show_style_of(STDOUT_FILENO), &out);
        fwrite(out.items, 1, (size_t)out.count, stdout);
    }
    return said(c);
}

static int refuse(const struct check_options *o, struct fail *why) {
    if (!o->matrix && (o->models || o->gpus || o->output || o->q.batch > 0)) {
        return fail_set(why, FAIL_USAGE,
                        "--models, --gpus, --batch-size and --output belong to --matrix");
    }
    if (o->matrix && o->record) {
        return fail_set(why, FAIL_USAGE,
                        "--record writes the machine down, and --matrix does not look at it");
    }
    if ((o->deadline > 0 || o->only) && !o->benchmark) {
        return fail_set(why, FAIL_USAGE, "--%s belongs to --benchmark",
                        o->only ? "only" : "deadline");
    }
    if (o->only && strcmp(o->only, "cards") != 0 && strcmp(o->only, "cpu") != 0) {
        return fail_set(why, FAIL_USAGE, "--only %s: it is 'cards' or 'cpu'", o->only);
    }
    if (o->matrix && o->benchmark) {
        return fail_set(why, FAIL_USAGE, "--matrix measures nothing: leave out --benchmark");
    }
    if (o->deadline > 86400) return fail_set(why, FAIL_USAGE, "--deadline: a day is enough");
    return 0;
}

static int check_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct check_options o = *(const struct check_options *)options;
    struct question_options asked = o.q;
    struct check c = {.arena = a, .options = &o};
    asked.model_is_optional = true;
    int rc = refuse(&o, why);
    if (rc == 0) rc = device_demo_or_machine(a, o.demo, o.machine, &o.machine, why);
    if (rc == 0) rc = question_open(a, &asked, &c.question, why);
    if (rc < 0) return rc;
    return o.matrix ? check_matrix(&c, why) : check_machine(&c, options->json, why);
}

const struct cli_verb check_verb = {
    .name = "check",
    .summary = "what is this machine, is it healthy, what should I set?",
    .description =
        "Looks at driver, GPUs, PyTorch, memory, /dev/shm and cores, says what is wrong with the "
        "evidence and what to do, and recommends settings: precision, workers, pin_memory, "
        "channels_last, compile and, where a tape matches the model, the batch. A machine "
        "without a GPU is told so; that is no error. Exit status 0: all is well, 1: there are "
        "warnings, 2: there are problems (doc/formats/exit.md).\n"
        "--benchmark measures as well, each GPU in a process of its own; a figure far below its "
        "range is a warning, a wrong result a problem.\n"
        "--matrix answers for models and GPUs instead: the largest batch, or whether --batch-size "
        "fits.",
    .examples = "batchfit check\n"
                "batchfit check --demo\n"
                "batchfit check --detailed --config configs/train.yaml\n"
                "batchfit check --benchmark\n"
                "batchfit check --matrix --models resnet50 swin_base_384 --gpus rtx4090,rtx3060 -o "
                "matrix.md\n"
                "batchfit check --machine tests/machines/a100-mig --json",
    .options = rows,
    .common = "config detailed benchmark recommend matrix models gpus output demo machine",
    .options_size = sizeof(struct check_options),
    .run = check_run,
};
