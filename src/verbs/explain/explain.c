// SPDX-License-Identifier: Apache-2.0
// batchfit explain: where do the bytes go at the peak, and what would each remedy save?
#include "base/out.h"
#include "base/say.h"
#include "job/answer/answer.h"
#include "job/question/question.h"

#include <stdio.h>
#include <unistd.h>

struct explain_options {
    struct question_options q;
    const char *gpu, *machine, *html, *trace;
    int64_t gpu_memory;
    bool details;
};

#define AT(member) offsetof(struct explain_options, member)
static const struct cli_row rows[] = {
    QUESTION_ROWS(struct explain_options),
    QUESTION_ROW_INFERENCE(struct explain_options),
    {"batch-size", "N", CLI_COUNT, AT(q.batch), "batch (default the config's)"},
    {"gradient-accumulation-steps", "N", CLI_COUNT, AT(q.accumulation),
     "micro-steps per optimizer step (default the config's)"},
    CLI_ROW_GPU(AT(gpu)),
    CLI_ROW_GPUS(AT(q.gpus)),
    CLI_ROW_GPU_MEMORY(AT(gpu_memory)),
    CLI_ROW_MACHINE(AT(machine)),
    {"html", "FILE", CLI_TEXT, AT(html),
     "write a page with a picture of memory over the step, to replay at other batches", "file"},
    CLI_ROW_TRACE(AT(trace)),
    {"details", NULL, CLI_SWITCH, AT(details),
     "also show the allocator's figures, and what would save memory where it fits"},
    {.name = NULL},
};

// One GPU: the one named, this machine's first, or the first of the team's.
static int find_card(struct question *q, const struct explain_options *o,
                     struct forecast_card *ret_card, struct fail *why) {
    struct question_gpus cards = {0};
    if (o->machine && (o->gpu || o->gpu_memory > 0)) {
        fail_set(why, FAIL_USAGE,
                 "--machine is of GPUs that are there: it cannot be combined with a named GPU");
        return fail_hint(why, "leave it out, or --%s", o->gpu ? "gpu" : "gpu-memory");
    }
    if (o->gpu || o->gpu_memory > 0) {
        return question_card(q, str_of(o->gpu), o->gpu_memory, ret_card, why);
    }
    int rc = question_gpus_here(q, NULL, o->machine, &cards, why);
    if (rc == 0 && cards.count == 0) rc = question_gpus_of_team(q, &cards, why);
    if (rc == 0) *ret_card = cards.items[0];
    return rc;
}

// The batch asked for, the config's own, or else the one that fit would choose.
static int answer_plan(struct question *q, const struct explain_options *o,
                       const struct forecast_card *card, struct answer *ret, struct fail *why) {
    int64_t batch = o->q.batch > 0 ? o->q.batch : q->plan.batch;
    int64_t accumulation = o->q.accumulation > 0 ? o->q.accumulation : plan_micro_steps(&q->plan);
    if (batch <= 0 && o->q.accumulation > 0) {
        fail_set(why, FAIL_USAGE, "--gradient-accumulation-steps %lld: of which batch is not said",
                 (long long)accumulation);
        return fail_hint(why,
                         "--batch-size N says it; without both it is the one that fit chooses");
    }
    if (batch <= 0) return answer_choose(q, card, ret, why);
    return answer_at(q, card, batch, accumulation, ret, why);
}

// And what would save memory, where somebody will see it.
static int answer(struct question *q, const struct explain_options *o,
                  const struct forecast_card *card, struct answer *ret, struct fail *why) {
    int rc = answer_plan(q, o, card, ret, why);
    bool is_seen = o->details || o->html || o->q.base.json;
    if (rc == 0 && answer_is_busy(ret)) rc = answer_empty(q, ret, true, why);
    if (rc < 0 || (ret->fits && !is_seen)) return rc;
    return answer_ways(q, ret, why);
}

static void show(struct question *q, struct answer *a, bool has_details) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(q->arena);
    answer_verdict_show(q, a, false, style, &out);
    answer_loud_notes(&q->notes, style, &out);
    answer_loud_notes(&a->notes, style, &out);
    answer_breakdown_headline(q, a, style, &out);
    answer_breakdown_memory(q, a, style, &out);
    answer_breakdown_bar(q, a, style, &out);
    if (has_details) {
        answer_breakdown_details(q, a, style, &out);
        answer_cells(q, a, style, &out);
    }
    buf_byte(&out, '\n');
    // What would make another training fit says nothing of this one.
    if (has_details || (!a->fits && answer_is_counted(q, a))) {
        answer_breakdown_remedies(q, a, style, &out);
        buf_byte(&out, '\n');
    }
    answer_breakdown_tables(q, a, style, &out);
    answer_quiet_notes(q->arena, &q->notes, style, &out);
    answer_quiet_notes(q->arena, &a->notes, style, &out);
    out_buf(stdout, &out);
}

static int write_trace(struct question *q, const struct answer *x, const char *path,
                       struct fail *why) {
    const struct forecast_tape *t =
        forecast_tape_known(&x->forecast, x->plan.batch, x->plan.accumulation);
    if (!t) return fail_set(why, FAIL_BUG, "the answer has no tape");
    const struct answer_traced traced = {t->sim, t->tape, x->plan.batch, x->plan.classes,
                                         SIM_UNLIMITED};
    return answer_trace_write(q->arena, path, &traced, why);
}

static int explain_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct explain_options asked = *(const struct explain_options *)options;
    const struct explain_options *o = &asked;
    struct question q;
    struct forecast_card card;
    struct answer found;
    int rc = question_shard_gpus(&asked.q, &asked.gpu, a, why);
    if (rc == 0) rc = question_open(a, &o->q, &q, why);
    if (rc == 0) rc = find_card(&q, o, &card, why);
    if (rc == 0) rc = answer(&q, o, &card, &found, why);
    if (rc == 0 && o->html)
        rc = os_replace(a, o->html, answer_breakdown_html(&q, &found), NULL, why);
    if (rc == 0 && o->trace) rc = write_trace(&q, &found, o->trace, why);
    if (rc < 0) return question_failed(&q, rc);
    if (options->json)
        rc = json_print(answer_breakdown_json(&q, &found), why);
    else
        show(&q, &found, o->details);
    return rc < 0 || (found.fits && answer_is_counted(&q, &found)) ? rc : FAIL_NO;
}

const struct cli_verb explain_verb = {
    .name = "explain",
    .summary = "show what holds the memory at the peak, and what each remedy saves",
    .description = "Takes the config's own batch (or --batch-size), finds the moment of the step "
                   "with the most memory in use, and shows what holds it: by kind, by part of the "
                   "model, by operation, and the largest tensors. What each remedy saves is "
                   "predicted from a recording of the changed training, not estimated.",
    .examples = "batchfit explain --config configs/train.yaml --gpu rtx3060\n"
                "batchfit explain --config configs/train.yaml --gpu rtx3060 --html memory.html\n"
                "batchfit explain --model yolo11l --img-size 640 --batch-size 16 --gpu 'rtx 4080 "
                "super'",
    .options = rows,
    .common = "config model img-size precision batch-size gradient-accumulation-steps gpu "
              "gpu-memory html",
    .options_size = sizeof(struct explain_options),
    .run = explain_run,
};
