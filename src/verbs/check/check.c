// SPDX-License-Identifier: Apache-2.0
// batchfit check: what is this machine, is it healthy, what should be set?
#include "verbs/check/check.h"

#include "base/out.h"
#include "cli/cli.h"
#include "machine/device/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct check_options, member)
static const struct cli_row rows[] = {
    QUESTION_ROWS(struct check_options),
    QUESTION_ROW_INFERENCE(struct check_options),
    {"detailed", NULL, CLI_SWITCH, AT(detailed),
     "also show what is fine and the ids of all findings; import PyTorch instead of reading its "
     "files"
     ""},
    {"benchmark", NULL, CLI_SWITCH, AT(benchmark),
     "also measure memory, links and matrix products of the CPU and every GPU, and compare them "
     "with expected ranges; takes half a minute, plus as much per GPU"},
    {"deadline", "SECONDS", CLI_COUNT, AT(deadline),
     "time limit of --benchmark for the CPU and for each GPU (default 60)"},
    {"only", "WHAT", CLI_TEXT, AT(only), "limit --benchmark to the 'cards' (GPUs) or to the 'cpu'",
     "cards cpu"},
    {"recommend", NULL, CLI_SWITCH, AT(recommend), "show only the recommended settings"},
    {"matrix", NULL, CLI_SWITCH, AT(matrix),
     "instead show which batch of which model fits which GPU, from the tapes"},
    {"models", "LIST", CLI_MANY, AT(models),
     "models for --matrix (default the config's, or all with a shipped tape)", "models"},
    {"gpus", "LIST", CLI_LIST, AT(gpus),
     "GPUs for --matrix: rtx4090,rtx3060, a tier, or 'all' (default this machine's and the team's)",
     "gpus"},
    {"uses", "LIST", CLI_LIST, AT(uses),
     "what --matrix asks for: train, eval (between the epochs of a training), infer (default "
     "train)",
     "train eval infer"},
    {"sizes", "LIST", CLI_LIST, AT(sizes),
     "image sizes in pixels, or sequence lengths in tokens, for --matrix: 224,384"},
    {"batch-size", "N", CLI_COUNT, AT(q.batch),
     "batch for --matrix to judge, instead of finding the largest that fits"},
    {"output", "FILE", CLI_TEXT, AT(output),
     "file for --matrix: Markdown (.md), a page (.html), .csv or .json", "file", 'o'},
    {"record", "DIR", CLI_TEXT, AT(record),
     "also record the machine in this folder, without serial numbers: for a report, or for "
     "--machine",
     "file"},
    CLI_ROW_MACHINE(AT(machine)),
    CLI_ROW_DEMO(AT(demo)),
    CLI_ROW_PYTHON(AT(python)),
    {.name = NULL},
};

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
        return fail_set(why, FAIL_USAGE, "--record %s: the folder already has a machine",
                        o->record);
    }
    int rc = device_record(c->arena, o->machine, o->record, 0, 0, why);
    if (rc == 0) question_say(&c->question, "recorded: %s", o->record);
    return rc;
}

static int check_machine(struct check *c, bool json, struct fail *why) {
    struct buf out = buf_shown(c->arena);
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
        out_buf(stdout, &out);
    }
    return check_is_well(c) ? 0 : FAIL_NO; // the findings have been printed
}

static int refuse(const struct check_options *o, struct fail *why) {
    if (!o->matrix &&
        (o->models || o->gpus || o->uses || o->sizes || o->output || o->q.batch > 0)) {
        return fail_set(
            why, FAIL_USAGE,
            "--models, --gpus, --uses, --sizes, --batch-size and --output need --matrix");
    }
    if (o->uses && o->q.inference) {
        return fail_set(why, FAIL_USAGE, "--inference is --uses infer: leave one of them out");
    }
    if (o->sizes && (o->q.image_size > 0 || o->q.sequence_length > 0)) {
        return fail_set(why, FAIL_USAGE,
                        "--sizes is for several: leave out --img-size and "
                        "--seq-len");
    }
    if (o->matrix && o->record) {
        return fail_set(why, FAIL_USAGE,
                        "--record records the machine, and --matrix does not look at it");
    }
    if ((o->deadline > 0 || o->only) && !o->benchmark) {
        return fail_set(why, FAIL_USAGE, "--%s needs --benchmark", o->only ? "only" : "deadline");
    }
    if (o->only && strcmp(o->only, "cards") != 0 && strcmp(o->only, "cpu") != 0) {
        return fail_set(why, FAIL_USAGE, "--only %s: not 'cards' or 'cpu'", o->only);
    }
    if (o->matrix && o->benchmark) {
        return fail_set(why, FAIL_USAGE, "--matrix measures nothing: leave out --benchmark");
    }
    if (o->deadline > 86400) return fail_set(why, FAIL_USAGE, "--deadline: at most a day");
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
    .summary = "check this machine and recommend settings",
    .description =
        "Checks driver, GPUs, PyTorch, memory, /dev/shm and cores; reports what is wrong, with "
        "evidence and remedy; and recommends settings: precision, workers, pin_memory, "
        "channels_last, compile and, if a tape matches the model, the batch. A machine without a "
        "GPU is not an error. Exit status 0: all is well, 1: warnings, 2: problems "
        "(doc/formats/exit.md).\n--benchmark also measures, each GPU in its own process; a figure "
        "far below its range is a warning, a wrong result a problem.\n--matrix instead answers for "
        "models and GPUs: the largest batch, or whether --batch-size fits.",
    .examples =
        "batchfit check\n"
        "batchfit check --demo\n"
        "batchfit check --detailed --config configs/train.yaml\n"
        "batchfit check --benchmark\n"
        "batchfit check --matrix --models resnet50 swin_base_384 --gpus rtx4090,rtx3060 -o "
        "matrix.md\n"
        "batchfit check --matrix --models resnet50 bert-base --uses train,eval,infer --sizes "
        "224,384 --gpus rtx4090,rtx3060\n"
        "batchfit check --machine tests/machines/a100-mig --json",
    .options = rows,
    .common = "config detailed benchmark recommend matrix models gpus output demo machine",
    .options_size = sizeof(struct check_options),
    .run = check_run,
};
