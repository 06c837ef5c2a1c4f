// SPDX-License-Identifier: Apache-2.0
// A remedy in the words of the user's config, and what it would need by prediction. Nothing is
// written.
#include "base/shell.h"
#include "job/answer/answer.h"
#include "verbs/doctor/doctor.h"

// What doctor would set, where the file says what it is now. False: nothing.
static bool change_of(struct doctor *d, unsigned actions, struct config_change *ret_change) {
    const struct question *q = &d->question;
    const struct config_value *values = q->reading.values;
    int64_t micro = q->batches.micro, accumulation = q->batches.accumulation;
    int64_t workers = values[CONFIG_WORKERS].integer;
    const struct config_value *eval = &values[CONFIG_EVAL_BATCH];
    struct config_change w = {0};
    if ((actions & CAUSE_SMALLER_EVAL) && eval->type == CONFIG_INT && eval->integer > 1)
        w.eval_batch = eval->integer / 2;
    if ((actions & CAUSE_SMALLER_BATCH) && d->is_smaller) {
        w.batch = d->effect_batch;
        w.accumulation = d->effect_accumulation;
    } else if ((actions & CAUSE_SMALLER_BATCH) && micro >= 2 && micro % 2 == 0) {
        w.batch = micro / 2;
        w.accumulation = accumulation > 0 ? 2 * accumulation : 2;
    } else if (actions & CAUSE_LARGER_BATCH && micro >= 1) {
        w.batch = micro * 2;
        w.accumulation =
            accumulation > 1 && accumulation % 2 == 0 ? accumulation / 2 : accumulation;
    }
    if (values[CONFIG_WORKERS].type == CONFIG_INT && workers >= 0 && workers < 1024) {
        if (actions & CAUSE_MORE_WORKERS)
            w.workers = workers > 0 ? 2 * workers : 4;
        else if ((actions & CAUSE_FEWER_WORKERS) && workers > 0)
            w.workers = workers > 1 ? workers / 2 : -1;
    }
    bool is_fp32 = str_is(values[CONFIG_PRECISION].word, "fp32");
    bool is_fp16 = str_is(values[CONFIG_PRECISION].word, "amp-fp16") ||
                   str_is(values[CONFIG_PRECISION].word, "fp16");
    if ((actions & CAUSE_MIXED_PRECISION) && is_fp32 && w.batch == 0) w.precision = STR("amp-fp16");
    if ((actions & CAUSE_FULL_PRECISION) && is_fp16) w.precision = STR("fp32");
    *ret_change = w;
    return w.batch > 0 || w.eval_batch > 0 || w.workers != 0 || w.precision.len > 0;
}

struct str doctor_keys(struct doctor *d, const struct cause *c) {
    struct config_change change;
    struct config_edits edits = {0};
    struct config_patched patched = {0};
    struct fail why = {0};
    struct question *q = &d->question;
    if (!d->has_question || !q->has_config || !change_of(d, c->actions, &change))
        return (struct str){0};
    struct buf b = buf_new(d->arena);
    int rc = config_fit(d->arena, &q->config, &q->reading, &change, &edits, &why);
    if (rc == 0)
        rc = config_patch(d->arena, &q->config, edits.items, edits.count, change.flags, &patched,
                          &why);
    if (rc < 0) return config_advice(d->arena, &q->reading, &change);
    for (ptrdiff_t i = 0; i < patched.changes.count; i++) {
        if (b.count > 0) buf_byte(&b, '\n');
        buf_add(&b, patched.changes.items[i]);
    }
    return buf_str(&b);
}

// Which the GPU's memory is the matter of; the machine's is helped by fewer workers, too, and no
// prediction is of it.
bool doctor_is_of_gpu_memory(const struct cause *c) {
    return str_starts(str_of(c->id), STR("memory.")) && (c->actions & CAUSE_SMALLER_BATCH) &&
           !(c->actions & CAUSE_FEWER_WORKERS);
}

static bool wants_less(const struct doctor *d) {
    for (ptrdiff_t i = 0; i < d->causes.count; i++) {
        if (doctor_is_of_gpu_memory(&d->causes.items[i])) return true;
    }
    return false;
}

static int64_t needs(const struct answer *a) {
    return a->peak.needed_bytes + a->peak.overhead_bytes;
}

static void take_answer(struct doctor *d, const struct answer *now, const struct answer *then) {
    struct answer_memory m = answer_memory(now);
    d->effect_batch = then->plan.batch;
    d->effect_before_bytes = needs(now);
    d->effect_after_bytes = needs(then);
    d->effect = answer_verdict_text(&d->question, then);
    d->is_smaller = then->fits && then->plan.batch < now->plan.batch;
    d->effect_accumulation = then->plan.accumulation;
    d->is_no_wonder = !then->fits || d->is_smaller;
    if (d->is_no_wonder) return;
    d->effect = str_format(
        d->arena,
        "Predicted: batch %.*s needs %.*s. Something else held memory, or it was another run.",
        STR_ARG(answer_batch_text(d->arena, &now->plan)),
        STR_ARG(answer_memory_text(d->arena, &m)));
}

// What fit answers, on the GPU that was named or that the message tells. Silent where nobody knows
// the model: a doctor needs no tape.
void doctor_predict(struct doctor *d) {
    const struct doctor_options *o = d->options;
    struct question *q = &d->question;
    struct forecast_card card;
    struct answer now, then;
    struct fail why = {0};
    int64_t batch = o->q.batch > 0 ? o->q.batch : d->has_question ? q->plan.batch : 0;
    int64_t total = o->gpu_memory > 0 ? o->gpu_memory : d->facts.ending.total_bytes;
    if (!d->has_question || !wants_less(d) || batch < 1 || q->plan.model.len == 0) return;
    if (!o->gpu && total <= 0) return;
    int64_t accumulation = plan_micro_steps(&q->plan);
    int rc = question_card(q, str_of(o->gpu), o->gpu ? o->gpu_memory : total, &card, &why);
    if (rc == 0) rc = answer_at(q, &card, batch, accumulation, &now, &why);
    if (rc == 0) {
        q->effective = q->plan.inference ? 0 : batch * accumulation * q->plan.ranks;
        rc = answer_choose(q, &card, &then, &why);
    }
    if (rc < 0)
        str_list_format(d->arena, &d->notes, "no prediction: %s", why.message);
    else
        take_answer(d, &now, &then);
}

// --- A command to copy ---------------------------------------------------------------------------

// The question in options: " --config train.yaml --gpu rtx3060".
static struct str asked(struct doctor *d, bool has_gpu) {
    const struct doctor_options *o = d->options;
    struct buf b = buf_new(d->arena);
    int64_t total = o->gpu_memory > 0 ? o->gpu_memory : d->facts.ending.total_bytes;
    if (o->q.config)
        buf_format(&b, " --config %.*s", STR_ARG(shell_word(d->arena, str_of(o->q.config))));
    else if (o->q.model)
        buf_format(&b, " --model %.*s", STR_ARG(shell_word(d->arena, str_of(o->q.model))));
    else
        buf_add(&b, STR(" --config FILE"));
    if (has_gpu && o->gpu)
        buf_format(&b, " --gpu %.*s", STR_ARG(shell_word(d->arena, str_of(o->gpu))));
    else if (has_gpu && total > 0)
        buf_format(&b, " --gpu-memory %lldMiB", (long long)(total >> 20));
    return buf_str(&b);
}

static const struct {
    const char *ids; // of causes, blanks between
    const char *command;
    bool asks, has_gpu; // the question's options follow
    const char *rest;
} commands[] = {
    {"memory.fragmentation", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", 0, 0, ""},
    {"memory.others", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv", 0, 0,
     ""},
    {"memory.missed", "batchfit fit", true, false, " -- COMMAND"},
    {"memory.oom-validation", "batchfit fit", true, true, " --eval-batch"},
    {"memory.oom-last-batch memory.oom-start memory.oom-later memory.oom memory.library "
     "memory.spill memory.full",
     "batchfit fit", true, true, ""},
    {"memory.host-killed", "dmesg | grep -i 'killed process'", 0, 0, ""},
    {"memory.shm memory.shm-low", "docker run --shm-size=8g", 0, 0, " ..."},
    {"card.errors card.lost card.fault", "dmesg | grep Xid", 0, 0, ""},
    {"card.driver", "batchfit check", 0, 0, ""},
    {"card.throttled", "batchfit check --detailed", 0, 0, ""},
    {"setup.disk", "df -h", 0, 0, ""},
    {"setup.open-files setup.open-files-low", "ulimit -n 65536", 0, 0, ""},
    {"data.loading data.workers data.workers-busy", "batchfit bench", true, false,
     " --num-workers 0 4 8 16 -- COMMAND"},
    {"compute.bound", "batchfit bench", true, false, " --amp both -- COMMAND"},
    {"host.one-core batch.small card.idle", "batchfit bench", true, false,
     " --batch-sizes 8 16 32 64 -- COMMAND"},
};

struct str doctor_command(struct doctor *d, const struct cause *c) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!str_has_word(str_of(commands[i].ids), str_of(c->id))) continue;
        // Where the prediction does not explain it, trials do.
        bool needs_trials = commands[i].has_gpu && d->effect.len > 0 && !d->is_no_wonder;
        bool has_gpu = commands[i].has_gpu && !needs_trials;
        struct str options = commands[i].asks ? asked(d, has_gpu) : (struct str){0};
        return str_format(d->arena, "%s%.*s%s", commands[i].command, STR_ARG(options),
                          needs_trials ? " -- COMMAND" : commands[i].rest);
    }
    return (struct str){0};
}
