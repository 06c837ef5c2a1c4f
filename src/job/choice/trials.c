// SPDX-License-Identifier: Apache-2.0
// Finding the batch by trials. A trial runs within the device's memory less the margin, so that
// what ran is known to run with the margin free, and not only inferred from a reading.
#include "job/choice/choice_int.h"

#include "base/out.h"
#include "base/unit.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A trial measures what a prediction has to allow for, so less is kept free than without one: what
// runs with 3 % less is called FITS there, too (forecast.h). On the CPU the C library's allocator
// takes up to 22 % more in a whole training than in a trial of it (doc/trials.md).
static const double margin_on_card = 0.03, margin_on_cpu = 0.20;
// Later micro-steps of an accumulation need no other memory than the second.
enum { MICRO_STEPS_MAX = 2, SEED = 20261121 };
// Sizes on the CPU are not those of the CUDA allocator that the tape is replayed in.
static const double error_on_card = 0.05, error_on_cpu = 0.3;

// --- One trial -----------------------------------------------------------------------------------

struct watching {
    struct show_progress progress;
    struct arena *arena;
    long long batch;
    ptrdiff_t trial;
    double next_say_s;
};

static const double silent_s = 2, first_say_s = 10; // without a step; each word waits twice as long

// What was seen so far of a training that has made no step.
static struct str sight_of(struct watching *w, const struct steps *steps,
                           const struct trial_outside *outside) {
    if (steps_of_slowest(steps, 0) > 0 || outside->seconds < silent_s || !outside->sight)
        return (struct str){0};
    struct str seen = trial_sight_text(w->arena, outside->sight, steps, outside->seconds, NULL);
    return str_format(w->arena, "; no step yet: %.*s; %.1f CPUs busy", STR_ARG(seen),
                      outside->sight->cpus);
}

static void watch(void *context, const struct steps *steps, const struct trial_outside *outside) {
    struct watching *w = context;
    struct arena_mark mark = arena_mark(w->arena);
    struct str item =
        str_format(w->arena, "batch %lld, %.0f s%s%s", w->batch, outside->seconds,
                   outside->held_bytes > 0 ? ", " : "",
                   outside->held_bytes > 0 ? unit_bytes(w->arena, outside->held_bytes).p : "");
    struct str sight = sight_of(w, steps, outside);
    show_progress_set(&w->progress, steps_of_slowest(steps, 0),
                      str_format(w->arena, "%.*s%.*s", STR_ARG(item), STR_ARG(sight)));
    if (sight.len > 0 && outside->seconds >= w->next_say_s && !isatty(STDERR_FILENO)) {
        out_say(stderr, "trial %td: %.*s%.*s\n", w->trial, STR_ARG(item), STR_ARG(sight));
        w->next_say_s *= 2;
    }
    arena_rewind(w->arena, mark);
}

static struct launch_values values_of(struct arena *a, const struct plan *p) {
    struct launch_values v = {0};
    int64_t micro_steps = p->accumulation < MICRO_STEPS_MAX ? p->accumulation : MICRO_STEPS_MAX;
    launch_value(a, &v, "batch", str_format(a, "%lld", (long long)p->batch));
    launch_value(a, &v, "accumulate", str_format(a, "%lld", (long long)micro_steps));
    if (p->precision) {
        launch_value(a, &v, "precision", str_of(plan_precision_name(p->precision)));
        launch_switch(a, &v, "amp", plan_precision_is_amp(p->precision));
    }
    return v;
}

// A log without a terminal shouldn't look frozen either.
static void say_trial(const struct choice_measured *m, const struct choice_trial *t) {
    const struct launch_result *r = &t->result;
    ARENA_AUTO scratch = {0};
    if (isatty(STDERR_FILENO)) return;
    out_say(stderr, "trial %td: batch %lld: %s", m->trial_count, (long long)t->plan.batch,
            launch_status_name(r->status));
    bool ran = r->status == LAUNCH_OK || r->status == LAUNCH_ALMOST;
    if (ran && r->peak_bytes > 0) out_say(stderr, ", %s", unit_bytes(&scratch, r->peak_bytes).p);
    if (ran && r->samples_per_s > 0)
        out_say(stderr, ", %s samples/s", unit_number(&scratch, r->samples_per_s).p);
    out_say(stderr, ", %.1f s\n", r->trial.seconds);
}

// The prediction is stored as it was before any correction, or corrections would be corrected.
static void store_trial(struct choice_measured *m, const struct choice_trial *t) {
    struct store_run run = history_row(m->history, "trial", &t->plan);
    struct forecast_card card = m->card;
    struct forecast_tape *tape = NULL;
    struct forecast_peak peak;
    struct forecast *f = &m->predicted.forecast;
    card.correction = (struct forecast_correction){0};
    run.limit_bytes = m->budget_bytes;
    history_result(m->history, &t->result, &run);
    if (m->is_predicted) {
        run.plan.model = f->model.name;
        bool is_alike = forecast_tape(f, t->plan.batch, t->plan.accumulation, &tape, NULL) == 0 &&
                        !tape->is_upper_bound;
        if (is_alike &&
            forecast_at(f, &card, t->plan.batch, t->plan.accumulation, &peak, NULL) == 0) {
            history_predicted(&peak, &run);
        }
    }
    history_add(m->history, &run);
}

// What ran may still have needed more than it may: the limit is watched, not walled, and a GPU is
// capped by its allocator only.
static void judge_memory(const struct choice_measured *m, struct launch_result *r) {
    struct arena *a = m->q->arena;
    int64_t capacity = m->launch.place.capacity_bytes;
    if (r->status != LAUNCH_OK || r->charged_bytes <= m->budget_bytes) return;
    bool is_over = r->charged_bytes > capacity;
    r->status = is_over ? LAUNCH_OOM : LAUNCH_ALMOST;
    r->reason = is_over ? str_format(a, "finished its steps, but used %s of %s",
                                     unit_bytes(a, r->charged_bytes).p, unit_bytes(a, capacity).p)
                        : STR("runs, but leaves less than the margin free");
    if (is_over) r->wanted_bytes = (double)r->charged_bytes;
}

static int try_batch(struct choice_measured *m, int64_t batch, struct choice_trial **ret_trial,
                     struct fail *why) {
    struct arena *a = m->q->arena;
    ARENA_AUTO scratch = {0};
    struct watching w = {.arena = &scratch, .batch = batch, .next_say_s = first_say_s};
    struct choice_trial *t = arena_push(a, &m->trials, &m->trial_count, &m->trial_capacity);
    struct plan plan = m->q->plan;
    plan.batch = batch;
    plan.accumulation = plan_accumulation(m->q->effective, batch, m->q->plan.ranks);
    *t = (struct choice_trial){.plan = plan};
    *ret_trial = t;
    if (history_recall(m->history, &plan, m->budget_bytes, &t->result)) {
        t->is_recalled = true;
        return 0;
    }
    const struct launch_options *o = m->launch.options;
    w.trial = m->trial_count;
    w.progress =
        show_progress_open(STDERR_FILENO, str_format(&scratch, "trial %td, step", m->trial_count),
                           launch_warmup(o) + launch_steps(o));
    m->launch.watch = watch;
    m->launch.watch_context = &w;
    struct launch_values values = values_of(a, &plan);
    int rc = launch_try(&m->launch, &values, batch, m->budget_bytes, &t->result, why);
    show_progress_close(&w.progress);
    m->launch.watch_context = NULL;
    m->launch.watch = NULL;
    if (rc < 0) return rc;
    judge_memory(m, &t->result);
    say_trial(m, t);
    choice_see_prediction(m, t);
    store_trial(m, t);
    return 0;
}

// --- The walk ------------------------------------------------------------------------------------

static bool has_run(const struct choice_measured *m) {
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        if (m->trials[i].result.status == LAUNCH_OK) return true;
    }
    return false;
}

// A failure that is not about memory ends the search, unless a smaller batch ran: then this batch
// is one that the training cannot do.
static int failure(const struct choice_measured *m, const struct launch_result *r,
                   struct fail *why) {
    if (r->status == LAUNCH_INTERRUPTED) return fail_set(why, FAIL_INTERRUPTED, "interrupted");
    if (r->status != LAUNCH_FAILED || has_run(m)) return 0;
    if (r->trial.ending.signature->kind == FAILURE_LIMIT) return 0;
    fail_set(why, FAIL_INPUT, "the trial with batch %lld failed: %.*s", (long long)r->batch,
             STR_ARG(r->reason));
    struct str last = str_trim(r->trial.ending.last_lines);
    if (last.len == 0) return fail_hint(why, "%.*s", STR_ARG(r->hint));
    return fail_hint_lines(why,
                           str_format(m->q->arena, "%.*s%slast lines of its output:\n%.*s",
                                      STR_ARG(r->hint), r->hint.len ? "\n  " : "", STR_ARG(last)));
}

static struct search_seen seen_of(const struct launch_result *r) {
    // The search knows integers only: its outcomes are made of ours here and nowhere else.
    static const enum search_outcome outcomes[LAUNCH_STATUSES] = {
        [LAUNCH_UNTRIED] = SEARCH_OUT,     [LAUNCH_OK] = SEARCH_FITS,
        [LAUNCH_ALMOST] = SEARCH_ALMOST,   [LAUNCH_OOM] = SEARCH_OUT,
        [LAUNCH_SPILLS] = SEARCH_SPILLS,   [LAUNCH_FAILED] = SEARCH_OUT,
        [LAUNCH_INTERRUPTED] = SEARCH_OUT,
    };
    struct search_seen seen = {
        .value = r->batch,
        .outcome = outcomes[r->status],
        .bytes = r->charged_bytes > 0 ? (double)r->charged_bytes : (double)NAN,
        // Spilling to the host's memory is a GPU's way of running out; a busy CPU looks
        // alike.
        .seconds_per_item =
            r->samples_per_s > 0 && !r->is_on_cpu ? 1 / r->samples_per_s : (double)NAN,
    };
    if (seen.outcome == SEARCH_OUT) seen.bytes = r->wanted_bytes;
    return seen;
}

// The walk may learn from a later trial that an earlier one spilled.
static void correct_outcomes(struct choice_measured *m, const struct search_trials *s) {
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        struct launch_result *r = &m->trials[i].result;
        if (s->items[i].outcome != SEARCH_SPILLS || r->status == LAUNCH_SPILLS) continue;
        r->status = LAUNCH_SPILLS;
        r->reason = STR("many times slower once memory is full: it spills to the host");
    }
}

// Rising, as the walk wants them. Any batch may be tried, also odd ones: what they cost in speed is
// measured.
static struct plan_batches candidates(struct question *q) {
    struct plan_range range = q->range;
    if (range.multiple <= 0) range.multiple = 1;
    struct plan_batches every = plan_every_batch(q->arena, &range);
    struct plan_batches kept =
        q->effective > 0 ? plan_keeping(q->arena, every, q->effective, q->plan.ranks) : every;
    if (kept.count == 0) kept = every;
    for (int i = 0; i < kept.count / 2; i++) {
        int64_t swapped = kept.values[i];
        kept.values[i] = kept.values[kept.count - 1 - i];
        kept.values[kept.count - 1 - i] = swapped;
    }
    return kept;
}

// What the last trial taught about all that follow: a prediction that was refuted guides nothing
// any more, and the batch of the unmodified command says what is to be kept.
static void learn(struct choice_measured *m, struct search_trials *s) {
    if (!m->is_predicted) s->space.predict = NULL;
    if (!choice_learn_effective(m)) return;
    struct plan_batches batches = candidates(m->q);
    s->space.rising = batches.values;
    s->space.count = batches.count;
    m->cap = batches.count > 0 ? batches.values[batches.count - 1] : 0;
}

static int walk(struct choice_measured *m, struct fail *why) {
    struct plan_batches batches = candidates(m->q);
    m->cap = batches.count > 0 ? batches.values[batches.count - 1] : 0;
    struct search_space space = {
        .rising = batches.values,
        .count = batches.count,
        .budget_bytes = (double)m->budget_bytes,
        .first = m->q->plan.batch,
        .predict = m->is_predicted ? choice_predicted_bytes : NULL,
        .context = m,
        .prediction_error = m->launch.place.kind == LAUNCH_CUDA ? error_on_card : error_on_cpu,
        .enough = 0.97,
    };
    struct search_trials s = search_trials_open(m->q->arena, &space);
    int64_t batch;
    while (search_trials_ask(&s, &batch)) {
        struct choice_trial *t;
        int rc = try_batch(m, batch, &t, why);
        if (rc == 0) rc = failure(m, &t->result, why);
        if (rc < 0) return rc;
        struct search_seen seen = seen_of(&t->result);
        search_trials_tell(&s, &seen);
        learn(m, &s);
    }
    correct_outcomes(m, &s);
    search_trials_answer(&s, &m->found);
    return 0;
}

// --- The choice ----------------------------------------------------------------------------------

static int by_batch(const void *a, const void *b) {
    const struct choice_trial *const *x = a, *const *y = b;
    return ((*x)->plan.batch > (*y)->plan.batch) - ((*x)->plan.batch < (*y)->plan.batch);
}

// It ran, whether or not it may be the answer.
static bool has_made_steps(const struct launch_result *r) {
    return r->status == LAUNCH_OK || r->status == LAUNCH_ALMOST ||
           (r->status == LAUNCH_OOM && r->trial.end == FAILURE_ENOUGH);
}

// Over all that ran: what is as fast as the best that fits need not be as fast as the best.
static void find_knee(struct choice_measured *m) {
    struct arena *a = m->q->arena;
    const struct choice_trial **ran = arena_new(a, const struct choice_trial *, m->trial_count + 1);
    struct stats_setting *settings = arena_new(a, struct stats_setting, m->trial_count + 1);
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        const struct launch_result *r = &m->trials[i].result;
        if (has_made_steps(r) && r->sample_count > 1) ran[n++] = &m->trials[i];
    }
    qsort(ran, (size_t)n, sizeof *ran, by_batch);
    for (ptrdiff_t i = 0; i < n; i++) {
        const struct launch_result *r = &ran[i]->result;
        settings[i] =
            (struct stats_setting){ran[i]->plan.batch, r->seconds_per_sample, r->sample_count};
    }
    struct stats_knee knee = stats_find_knee(settings, n, 0.02, 0.95, SEED);
    if (n == 0 || knee.best < 0) return;
    m->fastest = ran[knee.best];
    if (ran[knee.knee]->result.status != LAUNCH_OK) return;
    m->knee_batch = ran[knee.knee]->plan.batch;
    m->knee_is_certain = knee.is_certain;
}

static const struct choice_trial *trial_of(const struct choice_measured *m, int64_t batch) {
    for (ptrdiff_t i = m->trial_count - 1; i >= 0; i--) {
        const struct choice_trial *t = &m->trials[i];
        if (t->plan.batch == batch && t->result.status == LAUNCH_OK) return t;
    }
    return NULL;
}

static const struct choice_trial *smallest_trial(const struct choice_measured *m) {
    const struct choice_trial *least = &m->trials[0];
    for (ptrdiff_t i = 1; i < m->trial_count; i++) {
        if (m->trials[i].plan.batch < least->plan.batch) least = &m->trials[i];
    }
    return least;
}

static void choose(struct choice_measured *m, bool prefers_knee) {
    int64_t batch = prefers_knee && m->knee_batch > 0 ? m->knee_batch : m->found.largest;
    m->best = batch > 0 ? trial_of(m, batch) : NULL;
    m->confirmed = m->best && (m->best->result.covered & STEPS_COVER_SECOND_STEP);
    m->chosen = m->predicted;
    m->chosen.card = m->card;
    m->chosen.budget_bytes = m->budget_bytes;
    m->chosen.largest_batch = m->found.largest;
    m->chosen.fits = m->best != NULL;
    m->chosen.plan = m->best ? m->best->plan : smallest_trial(m)->plan;
}

// The chosen batch with the accumulation that keeps the effective batch, where its own trial was
// made before that was known.
static int confirm_accumulation(struct choice_measured *m, struct fail *why) {
    int64_t effective = m->q->effective, ranks = m->q->plan.ranks;
    if (!m->best || effective <= 0 || m->effective.from != CHOICE_EFFECTIVE_DEFAULT) return 0;
    int64_t batch = m->best->plan.batch;
    if (m->best->plan.accumulation == plan_accumulation(effective, batch, ranks)) return 0;
    struct choice_trial *t = NULL;
    for (; batch >= 1 && (!t || t->result.status != LAUNCH_OK); batch--) {
        if (batch * ranks * plan_accumulation(effective, batch, ranks) != effective) continue;
        int rc = try_batch(m, batch, &t, why);
        if (rc == 0) rc = failure(m, &t->result, why);
        if (rc < 0) return rc;
        m->found.launches++;
        m->found.out_of_memory += t->result.status == LAUNCH_OOM;
    }
    if (!t) return 0;
    m->found.largest = t->result.status == LAUNCH_OK ? t->plan.batch : 0;
    choose(m, false);
    return 0;
}

static int check_command(const struct choice_measured *m, struct fail *why) {
    if (launch_takes(&m->launch, STR("batch"))) return 0;
    fail_set(why, FAIL_USAGE, "the command does not take the batch");
    return fail_hint(why, "put {batch} where it takes the number, or {config} where it takes the "
                          "config: -- python train.py --batch-size {batch}");
}

static void note_standin(struct choice_measured *m) {
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        if (!m->trials[i].result.trial.is_standin) continue;
        launch_note(&m->launch, STR("FAKE: the command plays a scenario; nothing was trained"));
        return;
    }
}

unsigned choice_not_covered(const struct choice_measured *m) {
    unsigned all = STEPS_COVER_LONGEST * 2 - 1;
    if (m->q->plan.inference) all = STEPS_COVER_FORWARD | STEPS_COVER_LAST_BATCH;
    return m->best ? all & ~m->best->result.covered : all;
}

// What was chosen, beside the trials that it comes from.
static void store_answer(struct choice_measured *m) {
    const struct plan *p = &m->chosen.plan;
    struct store_run run = history_row(m->history, "fit", p);
    if (m->best) history_result(m->history, &m->best->result, &run);
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        if (m->trials[i].result.trial.is_standin) run.is_standin = 1;
    }
    if (m->is_predicted) run.plan.model = m->predicted.forecast.model.name;
    run.limit_bytes = m->budget_bytes;
    run.status = m->best ? STR("FITS") : STR("OOM");
    history_add(m->history, &run);
}

int choice_by_trials(struct question *q, const struct choice_trials_options *o,
                     char *const *command, struct history *history, struct choice_measured *ret,
                     struct fail *why) {
    struct choice_measured *m = ret;
    *m = (struct choice_measured){
        .q = q, .margin = q->margin, .history = history, .is_free = o->is_free};
    int rc = launch_open(q->arena, &o->l, command, &m->launch, why);
    if (rc < 0) return rc;
    bool is_cpu = m->launch.place.kind == LAUNCH_CPU;
    if (isnan(m->margin)) m->margin = is_cpu ? margin_on_cpu : margin_on_card;
    m->launch.config = q->has_config ? &q->config : NULL;
    m->launch.reading = q->has_config ? &q->reading : NULL;
    m->launch.about = choice_about;
    m->launch.about_context = m;
    m->budget_bytes = launch_budget(&m->launch.place, m->margin);
    rc = check_command(m, why);
    history_place(history, &m->launch, o->l.machine);
    history_question(history, q, command, &m->launch, &o->l);
    if (rc == 0) rc = choice_open_card(m, why);
    if (rc == 0) choice_predict(m);
    if (rc == 0) rc = walk(m, why);
    if (rc == 0) find_knee(m);
    if (rc == 0) choose(m, o->prefers_knee);
    if (rc == 0) rc = confirm_accumulation(m, why);
    launch_close(&m->launch);
    if (rc < 0) return rc;
    note_standin(m);
    choice_note_effective(m);
    m->found.launches -= (int)history->recalled;
    store_answer(m);
    history_note_recalled(history, m->trial_count);
    return 0;
}
