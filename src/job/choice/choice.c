// SPDX-License-Identifier: Apache-2.0
// The way from a config to its batch: reads it into a plan, finds the GPU, forecasts and searches
// or launches trials, shows, patches.
#include "job/choice/choice.h"

#include "base/out.h"
#include "base/say.h"
#include "job/answer/answer.h"
#include "job/question/question.h"
#include "view/show/show.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Older scripts say both: their number of GPUs is counted where the words are read.
static int beside_named(struct question *q, const struct choice_options *o, struct fail *why) {
    if (o->gpu_ids) question_say(q, "--gpu-ids %s: ignored, as the GPU is named", o->gpu_ids);
    if (!o->machine) return 0;
    fail_set(why, FAIL_USAGE,
             "--machine is of GPUs that are there: it cannot be combined with a named GPU");
    return fail_hint(why, "leave it out, or --%s", o->gpu ? "gpu" : "gpu-memory");
}

// The GPU asked for, else this machine's, else the team's; only the first two may be written for.
static int find_cards(struct question *q, const struct choice_options *o,
                      struct question_gpus *ret_cards, bool *ret_is_ours, struct fail *why) {
    *ret_is_ours = true;
    if (o->gpu || o->gpu_memory > 0) {
        if (beside_named(q, o, why) < 0) return FAIL_USAGE;
        ret_cards->items = arena_new(q->arena, struct forecast_card, 1);
        ret_cards->count = 1;
        return question_card(q, str_of(o->gpu), o->gpu_memory, ret_cards->items, why);
    }
    int rc = question_gpus_here(q, o->gpu_ids, o->machine, ret_cards, why);
    if (rc < 0 || ret_cards->count > 0) return rc;
    *ret_is_ours = false;
    question_note(q, STR("answered for the team's GPUs; the config is unchanged. Name a GPU with "
                         "--gpu to change it"));
    return question_gpus_of_team(q, ret_cards, why);
}

static int save_profile(struct question *q, struct answer *answer, const char *path,
                        struct fail *why) {
    return os_replace(q->arena, path, json_document(q->arena, answer_breakdown_json(q, answer)),
                      NULL, why);
}

// Those of this machine train together; of others one is to be chosen.
struct several {
    struct answer *answers, *decisive;
    int count;
    bool is_together;
};

// One GPU: the verdict, what is asked, where its memory goes.
static void show_one(struct question *q, struct answer *answer, bool changes, bool has_details,
                     struct show_style style, struct buf *out) {
    answer_verdict_show(q, answer, changes, style, out);
    answer_loud_notes(&q->notes, style, out);
    answer_loud_notes(&answer->notes, style, out);
    answer_breakdown_headline(q, answer, style, out);
    answer_breakdown_memory(q, answer, style, out);
    answer_breakdown_bar(q, answer, style, out);
    if (!has_details) return;
    answer_breakdown_details(q, answer, style, out);
    answer_cells(q, answer, style, out);
}

static void show_all(struct question *q, const struct several *s, struct show_style style,
                     struct buf *out) {
    answer_verdict_show_all(q, s->answers, s->count, s->is_together, style, out);
    answer_loud_notes(&q->notes, style, out);
    answer_breakdown_headline(q, s->decisive, style, out);
    buf_byte(out, '\n');
    answer_table(q, s->answers, s->count, style, out);
}

// Of which of several GPUs the lines below are.
static void add_gpu(const struct answer *answer, int count, struct show_style style,
                    struct buf *out) {
    if (count < 2) return;
    show_text(out, style, SHOW_STRONG, show_gpu_name(answer->card.gpu.name));
    buf_add(out, STR(":\n"));
}

static void show_decisive(struct question *q, const struct several *s,
                          const struct choice_options *o, struct show_style style,
                          struct buf *out) {
    struct answer *x = s->decisive;
    // What would make another training fit says nothing of this one.
    const bool has_remedies = !x->fits && answer_is_counted(q, x);
    if (o->profile_memory || has_remedies) add_gpu(x, s->count, style, out);
    if (o->profile_memory) answer_breakdown_tables(q, x, style, out);
    if (!has_remedies) return;
    answer_breakdown_remedies(q, x, style, out);
    buf_byte(out, '\n');
}

static void show(struct question *q, const struct several *s, bool changes,
                 const struct choice_options *o, const struct buf *report) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(q->arena);
    if (s->count == 1)
        show_one(q, s->decisive, changes, o->details, style, &out);
    else
        show_all(q, s, style, &out);
    buf_byte(&out, '\n');
    show_decisive(q, s, o, style, &out);
    answer_quiet_notes(q->arena, &q->notes, style, &out);
    for (int i = 0; i < s->count; i++) {
        const struct answer *x = &s->answers[i];
        if (x->notes.count > 0 || x->eval || x->tta) add_gpu(x, s->count, style, &out);
        if (s->count == 1)
            answer_quiet_notes(q->arena, &x->notes, style, &out);
        else
            answer_notes(&x->notes, style, &out);
        if (x->eval) answer_eval_show(q->arena, x->eval, style, &out);
        if (x->tta) answer_tta_show(q->arena, x->tta, style, &out);
    }
    show_prose_lines(&out, style, buf_str(report));
    out_buf(stdout, &out);
}

static int answer_all(struct question *q, const struct question_gpus *cards,
                      struct history *history, struct answer **ret_answers, struct fail *why) {
    struct answer *answers = arena_new(q->arena, struct answer, cards->count);
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        struct forecast_card *card = &cards->items[i];
        struct str note = history_correct(history, &q->store, q->plan.model, card);
        int rc = answer_choose(q, card, &answers[i], why);
        if (rc == 0 && answer_is_busy(&answers[i])) rc = answer_empty(q, &answers[i], false, why);
        if (rc < 0) return rc;
        if (note.len > 0) str_list_add(q->arena, &answers[i].notes, note);
    }
    history_answers(history, answers, cards->count);
    *ret_answers = answers;
    return 0;
}

// A language model that is known by its shape has no recording of an evaluation. It keeps nothing
// for a backward pass, so that the batch of a training step is enough for it.
static int choose_eval(struct question *q, struct answer *answer, struct fail *why) {
    const struct plan *p = &answer->plan;
    struct fail cause = {0};
    int rc = answer_eval_choose(q, answer, &answer->eval, &cause);
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    if (rc == FAIL_INPUT && t && t->template.len > 0) {
        str_list_format(q->arena, &answer->notes,
                        "evaluation is not counted: there is no recording of one, so its batch "
                        "stays as it is; up to %lld it needs no more than a training step (%s)",
                        (long long)p->batch, cause.hint);
        return 0;
    }
    if (rc < 0 && why) *why = cause;
    return rc;
}

// The same where nobody asks: of a config that evaluates with larger batches than it trains with.
static void note_eval(struct question *q, struct answer *answer) {
    const struct config_value *v = &q->reading.values[CONFIG_EVAL_BATCH];
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    if (!t || t->template.len == 0 || p->inference) return;
    if (v->type != CONFIG_INT || v->line <= 0 || v->integer <= p->batch) return;
    str_list_format(q->arena, &answer->notes,
                    "evaluation at %.*s = %lld is not counted: up to %lld it needs no more than a "
                    "training step",
                    STR_ARG(v->path), (long long)v->integer, (long long)p->batch);
}

// What is asked beside the batch, for each GPU.
static int answer_more(struct question *q, const struct choice_options *o,
                       const struct answer_tta_ask *ask, struct answer *answers, ptrdiff_t count,
                       struct fail *why) {
    int rc = 0;
    for (ptrdiff_t i = 0; i < count && rc == 0; i++) {
        if (ask->is_asked) rc = answer_tta_answer(q, &answers[i], ask, NULL, &answers[i].tta, why);
        if (rc == 0 && o->eval_batch) rc = choose_eval(q, &answers[i], why);
        if (!o->eval_batch) note_eval(q, &answers[i]);
    }
    return rc;
}

// The batch of the recommended type goes into the config, and its name.
static int write_answer(struct question *q, struct answer *answer,
                        struct answer_write_options *write, struct buf *report, struct fail *why) {
    struct answer written = *answer;
    if (answer->tta) {
        const struct answer_tta_row *row = answer->tta->recommended;
        written.plan.batch = row->batch;
        write->more = answer_tta_edits(q, row->type);
    }
    int rc = answer_write(q, &written, write, report, why);
    answer->config_written = written.config_written;
    answer->config_text = written.config_text;
    answer->not_written = written.not_written;
    return rc;
}

// An answer that nobody could read has changed nothing.
static int printed(struct question *q, const struct answer *answer,
                   const struct answer_write_options *write, int rc, struct fail *why) {
    if (out_is_written(stdout)) return rc;
    int failed = answer_take_back(q, answer, write, why);
    return failed < 0 ? failed : rc;
}

static bool is_yes(const struct answer *answer) {
    return answer->fits && (!answer->tta || answer->tta->recommended);
}

// Of a prediction on one GPU that was named, or on the best of those there are.
static int status_of(const struct question *q, const struct choice_options *o,
                     const struct answer *answers, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++)
        if (is_yes(&answers[i]) && (o->force || answer_is_counted(q, &answers[i]))) return 0;
    return FAIL_NO;
}

// Why nobody tries to write it; NULL: somebody does.
static const char *why_unwritten(const struct question *q, const struct choice_options *o,
                                 const struct answer *answer, struct buf *report) {
    if (o->test_only) return "not_asked";
    if (!q->has_config) return "no_config";
    if (is_yes(answer)) return NULL;
    if (answer->fits) {
        if (o->save_config) buf_add(report, STR("not written: no type of views meets it\n"));
        return "tta_not_met";
    }
    if (answer_verdict(answer) != ANSWER_TIGHT) {
        if (o->save_config) buf_add(report, STR("not written: it does not fit\n"));
        return "does_not_fit";
    }
    buf_format(report,
               "not written: the margin of %.0f %% is not kept; a smaller --safety-margin writes "
               "it\n",
               100 * answer->card.margin);
    return "margin_not_kept";
}

// Speeds are of one GPU.
static int calibrate(struct question *q, const struct choice_options *o, struct answer *answers,
                     ptrdiff_t count, struct fail *why) {
    if (count == 1) return answer_speed_calibrate(q, o->measured, &answers[0], why);
    fail_set(why, FAIL_USAGE, "--measured: there are %d GPUs, but the speed is that of one",
             (int)count);
    return fail_hint(why, "name it with --gpu");
}

struct answer_write_options choice_write_options(const struct choice_options *o) {
    return (struct answer_write_options){
        .save_config = o->save_config,
        .flags = (o->force_anchor ? CONFIG_EDIT_ANCHOR : 0u) |
                 (o->force_special ? CONFIG_REPLACE_SPECIAL : 0u),
        .force = o->force,
        .add_accumulation = o->add_accumulation,
    };
}

static int check_measure_options(const struct choice_options *o, struct fail *why) {
    const char *prefer = o->prefer;
    if (prefer && strcmp(prefer, "knee") != 0 && strcmp(prefer, "largest") != 0) {
        return fail_set(why, FAIL_USAGE, "--prefer %s: not largest or knee", prefer);
    }
    if (!o->gpu && o->gpu_memory <= 0) return 0;
    fail_set(why, FAIL_USAGE, "trials run on this machine's device, not on a named GPU");
    return fail_hint(why, "leave out --gpu; --memory %s limits the trials' memory",
                     o->gpu_memory > 0 ? "BYTES" : "8GiB");
}

// What the trials showed says what the views cost.
static int measured_views(struct question *q, struct choice_measured *m,
                          const struct answer_tta_ask *ask, struct fail *why) {
    const struct launch_result *r = &m->best->result;
    const struct answer_tta_measured shown = {
        m->best->plan.batch,
        r->peak_bytes,
        {r->samples_per_s, r->samples_per_s_ci.low, r->samples_per_s_ci.high}};
    return answer_tta_answer(q, &m->chosen, ask, &shown, &m->chosen.tta, why);
}

// What a prediction has instead of steps is explain's.
static int check_trace(const struct choice_options *o, struct fail *why) {
    if (!o->trace || o->q.base.command) return 0;
    fail_set(why, FAIL_USAGE, "--trace writes the steps of trials: there is no command");
    return fail_hint(why, "batchfit explain --trace %s has the course of the predicted memory",
                     o->trace);
}

static int write_trace(struct arena *a, const struct choice_measured *m, const char *path,
                       struct fail *why) {
    struct launch_trace trace = {.trials = 0};
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        const struct choice_trial *t = &m->trials[i];
        struct str setting = str_format(a, "batch %lld x %lld", (long long)t->plan.batch,
                                        (long long)t->plan.accumulation);
        if (!t->is_recalled) launch_trace_add(a, &trace, setting, &t->result);
    }
    return launch_trace_write(a, &trace, path, why);
}

static int share(struct question *q, const struct choice_options *o, const struct answer *answers,
                 ptrdiff_t count, bool changes, struct fail *why) {
    const struct answer_share_asked asked = {o->share, &o->q.base};
    if (count == 1) return answer_share_write(q, &answers[0], changes, &asked, why);
    fail_set(why, FAIL_USAGE, "--share: there are %d GPUs, but a card shows one", (int)count);
    return fail_hint(why, "name it with --gpu");
}

static int check_eval(const struct choice_options *o, bool is_inference, struct fail *why) {
    if (!o->eval_batch || !is_inference) return 0;
    fail_set(why, FAIL_USAGE, "--eval-batch works only with predictions of a training");
    return fail_hint(why, "use batchfit infer for evaluation");
}

// With a command: the batch is found by launching it.
static int fit_by_trials(struct arena *a, const struct choice_options *o, struct fail *why) {
    struct question_options asked = o->q;
    struct choice_trials_options measure = {.l = o->l,
                                            .prefers_knee = o->prefer && !strcmp(o->prefer, "knee"),
                                            .is_free = o->free_batch};
    struct answer_write_options write = choice_write_options(o);
    struct buf report = buf_shown(a);
    struct question q;
    struct choice_measured m;
    struct answer_tta_ask ask = {0};
    asked.model_is_optional = asked.is_measured = true;
    write.is_measured = true;
    measure.l.ranks = asked.ranks;
    measure.l.machine = o->machine;
    measure.l.cards = o->gpu_ids;
    int rc = check_measure_options(o, why);
    if (rc == 0) rc = question_open(a, &asked, &q, why);
    if (rc == 0) rc = answer_tta_ask_open(&q, &o->t, &ask, why);
    if (rc < 0) return rc;
    if (o->free_batch) q.effective = 0;
    measure.l.is_inference = q.plan.inference;
    // The command decides it where neither the config nor the options do.
    bool is_said = asked.precision || (q.has_config && q.reading.values[CONFIG_PRECISION].text.len);
    if (q.plan.model.len == 0 && !is_said) q.plan.precision = PLAN_PRECISION_UNKNOWN;
    struct history history;
    history_open(a, &o->h, &history);
    rc = choice_by_trials(&q, &measure, asked.base.command, &history, &m, why);
    history_close(&history);
    if (rc == 0 && o->trace) rc = write_trace(a, &m, o->trace, why);
    if (rc == 0 && m.best && ask.is_asked) rc = measured_views(&q, &m, &ask, why);
    if (rc < 0) return rc;
    m.chosen.not_written = m.confirmed ? why_unwritten(&q, o, &m.chosen, &report) : "not_confirmed";
    if (!m.chosen.not_written) rc = write_answer(&q, &m.chosen, &write, &report, why);
    if (asked.base.json) {
        if (json_print(choice_trials_json(&m), why) < 0) return FAIL_BUG;
    } else {
        struct show_style style = show_style_of(STDOUT_FILENO);
        struct buf out = buf_shown(a);
        choice_show_trials(&m, style, &out);
        buf_add(&out, buf_str(&report));
        out_buf(stdout, &out);
    }
    rc = printed(&q, &m.chosen, &write, rc, why);
    return rc < 0 ? rc : is_yes(&m.chosen) ? 0 : FAIL_NO;
}

int choice_answer(struct arena *a, const struct choice_options *options, struct fail *why) {
    struct choice_options asked = *options;
    const struct choice_options *o = &asked;
    int rc = question_shard_gpus(&asked.q, &asked.gpu, a, why);
    if (rc == 0) rc = choice_find_check(&asked, why);
    if (rc == 0) rc = answer_share_check(a, o->share, why);
    if (rc == 0) rc = check_trace(o, why);
    if (rc < 0) return rc;
    if (o->q.base.command) return fit_by_trials(a, o, why);
    struct question q;
    struct question_gpus cards = {0};
    struct answer *answers = NULL;
    struct buf report = buf_shown(a);
    bool is_ours = false;
    struct answer_tta_ask ask = {0};
    rc = question_open(a, &o->q, &q, why);
    if (rc == 0 && o->free_batch) q.effective = 0;
    if (rc == 0) rc = check_eval(o, q.plan.inference, why);
    if (rc == 0) rc = answer_tta_ask_open(&q, &o->t, &ask, why);
    if (rc == 0) rc = find_cards(&q, o, &cards, &is_ours, why);
    if (rc == 0) rc = choice_find(&q, o->find, &cards, why);
    struct history history;
    history_open(a, &o->h, &history);
    if (rc == 0) rc = answer_all(&q, &cards, &history, &answers, why);
    if (rc == 0 && o->measured) rc = calibrate(&q, o, answers, cards.count, why);
    if (rc == 0) rc = answer_more(&q, o, &ask, answers, cards.count, why);
    history_close(&history);
    for (ptrdiff_t i = 0; i < history.notes.count; i++) {
        if (rc == 0) question_note(&q, history.notes.items[i]);
    }
    if (rc < 0) return question_failed(&q, rc);
    assert(answers && cards.count > 0);
    struct answer *decisive = answer_leading(&q, answers, cards.count, is_ours);
    struct answer_write_options write = choice_write_options(o);
    if (o->share) rc = share(&q, o, answers, cards.count, is_ours && q.has_config, why);
    if (rc == 0 && o->save_profile) rc = save_profile(&q, decisive, o->save_profile, why);
    for (ptrdiff_t i = 0; i < cards.count; i++)
        answers[i].not_written = is_ours ? "another_gpu_decides" : "gpu_not_named";
    decisive->not_written = is_ours ? why_unwritten(&q, o, decisive, &report) : "gpu_not_named";
    if (rc == 0 && !decisive->not_written) rc = write_answer(&q, decisive, &write, &report, why);
    // The answer is shown also when it could not be written: it was asked for.
    if (!o->q.base.json)
        show(&q, &(struct several){answers, decisive, (int)cards.count, is_ours},
             is_ours && q.has_config, o, &report);
    else if (answer_print_json(&q, answers, (int)cards.count, why) < 0)
        return FAIL_BUG;
    rc = printed(&q, decisive, &write, rc, why);
    return rc < 0    ? rc
           : is_ours ? status_of(&q, o, decisive, 1)
                     : status_of(&q, o, answers, cards.count);
}
