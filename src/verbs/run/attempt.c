// SPDX-License-Identifier: Apache-2.0
// One attempt: the command with the values of a decision, watched to its end. Checkpoints go into
// the log as they are seen; memory that comes near its end, or has room, is answered at the next of
// them.
#include "verbs/run/run.h"

#include "base/os.h"
#include "base/unit.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#define NS_PER_S INT64_C(1000000000)
enum { LOOK_MS = 1000, GRACE_S = 30 };
// ACCUMULATION_STEPS: fewer may all be the last of an epoch. RAMP_STEPS: some trainers
// (Ultralytics) accumulate more and more in their first hundred.
enum { ACCUMULATION_STEPS = 3, RAMP_STEPS = 200 };
static const double BLIND_S = 2; // for a process that only looks whether PyTorch is there
static const double LEFT_S = 2;  // for processes that end because the command did
enum { MEASURED_STEPS = 3 }; // after which the peak of a batch is known: the second has them all

// --- Samples -------------------------------------------------------------------------------------

// The rank that has made the fewest steps: what all have made.
static const struct step_rank *slowest(const struct steps *s) {
    const struct step_rank *least = NULL;
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        const struct step_rank *r = &s->ranks[i];
        if (r->steps > 0 && (!least || r->steps < least->steps)) least = r;
    }
    return least;
}

// PyTorch is announced by its first backward: without a step, nobody sees what makes them.
static bool steps_by_hand(const struct steps *s) {
    return s->rank_count > 0 && str_is(s->ranks[0].framework, "torch");
}

static int64_t samples_now(const struct run_watch *w, const struct steps *s) {
    const struct step_rank *r = slowest(s);
    bool is_good = w->trial->has_status && w->trial->status == 0;
    bool has_trained = is_good && (!steps_are_announced(s) || steps_by_hand(s));
    // Its earlier attempts were seen: one that begins at the end, however slowly, has none to make.
    bool was_seen = w->base > 0 && w->run->state.samples_best > 0;
    bool is_silent = !r && !was_seen && (has_trained || w->is_unseen);
    if (is_silent || steps_are_cut(s)) return -1; // it trained, and told nobody
    return r ? run_samples_after(w, s, r->rank, r->steps, r->samples) : w->base;
}

// A program that says how many samples its weights have seen is believed.
static void believe(struct run_watch *w, const struct steps *s) {
    int64_t sum = 0, ranks = 0, wanted = w->run->rules.ranks;
    if (w->is_believed) return;
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].steps == 0) continue;
        if (s->ranks[i].samples_began < 0) return;
        sum += s->ranks[i].samples_began;
        ranks++;
    }
    if (ranks < (s->world > wanted ? s->world : wanted)) return; // not all have spoken
    w->is_believed = true;
    w->base = sum;
}

// --- Checkpoints ---------------------------------------------------------------------------------

// New ones of this attempt, into the log. True: one was found whole.
static bool look_for_checkpoints(struct run_watch *w, const struct steps *s, bool is_last) {
    bool is_told = run_told_look(w, s, is_last);
    return w->run->o->checkpoint ? run_files_look(w, s, is_last) : is_told;
}

// --- Memory --------------------------------------------------------------------------------------

// What counts against the capacity: by the driver, the allocator, or the system. A cache that the
// allocator would give back is no sign of memory that runs out: its retries are.
static void read_peak(struct run_watch *w, const struct steps *s) {
    const struct launch_place *place = &w->run->launch.place;
    if (place->sampler) {
        unit_keep_most(&w->card_peak_bytes,
                       device_sampler_peaks(place->sampler).used_bytes - place->others_bytes);
        if (w->steps_seen > 0 && w->card_peak_bytes > 0) {
            w->peak_bytes = w->card_peak_bytes - (w->cached_bytes > 0 ? w->cached_bytes : 0);
        }
    } else if (place->kind == LAUNCH_CPU && steps_on_cpu(s)) {
        unit_keep_most(&w->peak_bytes, w->outside.held_bytes);
    }
}

static void read_allocator(struct run_watch *w, const struct step *step) {
    bool is_known = step->peak_allocated_bytes >= 0 && step->peak_reserved_bytes >= 0;
    if (is_known) w->cached_bytes = step->peak_reserved_bytes - step->peak_allocated_bytes;
    if (w->run->launch.place.sampler) return; // the driver sees it all
    unit_keep_most(&w->peak_bytes, step->peak_allocated_bytes);
    unit_keep_most(&w->card_peak_bytes, step->peak_reserved_bytes);
}

// A program that takes the batch out of its checkpoint does not do what we count on: more memory
// again, and another effective batch.
static void see_batch(struct run_watch *w, const struct step *step) {
    struct run *r = w->run;
    int64_t asked = r->state.size.batch;
    if (w->has_changed || w->is_asking || step->micro_batch <= 0) return;
    if (step->micro_batch == asked) r->obeyed_batch = asked;
    bool is_old = step->micro_batch == r->obeyed_batch && r->obeyed_batch > asked;
    if (!is_old || w->has_warned_disobedient) return;
    w->has_warned_disobedient = true;
    run_say("the program continues with its previous batch, %lld: it does not take {batch} when it "
            "resumes",
            (long long)step->micro_batch);
}

static void read_new_steps(struct run_watch *w, const struct steps *s) {
    int64_t from = w->steps_seen - s->forgotten;
    for (ptrdiff_t i = from > 0 ? (ptrdiff_t)from : 0; i < s->count; i++) {
        const struct step *step = &s->items[i];
        if (!steps_on_cpu(s)) read_allocator(w, step);
        if (w->run->takes_batch) see_batch(w, step);
        if (step->alloc_retries <= w->retries) continue;
        w->retry_steps += w->retries >= 0;
        w->retries = step->alloc_retries;
    }
    w->steps_seen = s->forgotten + s->count;
}

static int64_t forecast(void *context, int64_t batch) {
    struct forecast_peak peak;
    if (!run_predict(context, batch, &peak)) return -1;
    return peak.needed_bytes + peak.overhead_bytes;
}

static struct recover_sight sight_of(const struct run_watch *w) {
    return (struct recover_sight){.peak_bytes = w->has_shrunk ? -1 : w->peak_bytes,
                                  .retry_steps = w->retry_steps,
                                  .forecast = w->run->prediction ? forecast : NULL,
                                  .forecast_context = w->run};
}

static void log_adapt(struct run_watch *w, struct recover_size size, struct str why,
                      bool is_taken) {
    struct recover_event e = recover_event_of(RECOVER_ADAPT);
    e.size = size;
    e.why = why;
    e.is_taken = is_taken;
    e.peak_bytes = w->has_shrunk ? -1 : w->peak_bytes;
    run_log_add(w->run, e);
}

// At a checkpoint or an epoch's end. A program that asks for its batch is told, another is stopped.
static void adapt(struct run_watch *w, bool is_checkpoint) {
    ARENA_AUTO scratch = {0};
    struct run *r = w->run;
    struct recover_sight sight = sight_of(w);
    struct recover_size size;
    struct str why;
    if (!r->takes_batch || (!w->is_asking && !is_checkpoint)) return;
    if (!recover_adapt(&scratch, &r->rules, &r->state, &sight, &size, &why)) return;
    log_adapt(w, size, why, false);
    run_say("%.*s: %.*s %s", STR_ARG(why), STR_ARG(run_size_text(r, size)),
            w->is_asking ? "from the next epoch on" : "after a restart from this checkpoint");
    if (w->is_asking) {
        launch_control(&w->attempt, size.batch, size.accumulation);
    } else {
        w->attempt.whole.asks_stop = true;
    }
}

// A program of one process that takes the batch of an epoch from us. Ranks ask at different
// moments: they are restarted together instead.
static void read_taken(struct run_watch *w, const struct steps *s) {
    struct run *r = w->run;
    if (r->rules.ranks > 1 || s->world > 1 || s->rank_count == 0) return;
    const struct step_rank *rank = &s->ranks[s->rank_count - 1];
    if (rank->taken_batch <= 0) return;
    w->is_asking = true;
    if (rank->taken_batch == r->state.size.batch) return;
    struct recover_size size = {rank->taken_batch, rank->taken_accumulation, r->state.size.lr};
    if (!recover_size_fits(&r->rules, size)) return; // not ours: another effective batch
    w->has_changed = true;
    w->has_shrunk = w->has_shrunk || size.batch < r->state.size.batch;
    w->changed_at = w->steps_seen;
    log_adapt(w, size, STR("the program took it"), true);
    w->retry_steps = 0;
    w->has_warned_near = false;
}

static void warn_if_near(struct run_watch *w) {
    struct recover_sight sight = sight_of(w);
    if (w->has_warned_near || !recover_is_near(&w->run->rules, &sight)) return;
    w->has_warned_near = true;
    run_say("memory is almost full; the batch will shrink %s",
            w->is_asking ? "when the program asks for it" : "at the next checkpoint");
}

// Several micro-batches a step were asked for, and each of its steps is of one: the command, or
// what reads the config, does not know the key.
static bool ignores_accumulation(const struct run_watch *w, const struct steps *s) {
    const struct recover_size *size = &w->run->state.size;
    if (!w->run->has_batch || size->accumulation < 2 || w->has_changed) return false;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct step *step = &s->items[i];
        bool is_one = step->micro_count == 1 && step->samples > 0 && step->samples <= size->batch;
        if (!is_one) return false;
    }
    return s->count >= ACCUMULATION_STEPS;
}

static void warn_of_accumulation(struct run_watch *w, const struct steps *s) {
    struct run *r = w->run;
    if (r->has_warned_accumulation || !ignores_accumulation(w, s)) return;
    r->has_warned_accumulation = true;
    run_say("the training does not accumulate: its steps take %lld samples, not %lld x %lld; the "
            "effective batch is not kept",
            (long long)r->state.size.batch, (long long)r->state.size.batch,
            (long long)r->state.size.accumulation);
    run_say("put {accumulate} where it takes the number, or name the key that it reads: "
            "--config-key accumulate=PATH");
}

// What a training shows that makes no step. It is said, and nothing is done: it may be healthy.
static void see_what_it_is(struct run_watch *w, const struct steps *s) {
    ARENA_AUTO scratch = {0};
    const struct trial_sight *sight = w->outside.sight;
    struct run *r = w->run;
    if (slowest(s) || !sight) return;
    bool is_blind = sight->blind != TRIAL_SEES && !sight->has_emitter &&
                    w->outside.seconds > sight->blind_s + BLIND_S;
    if (is_blind && !r->has_warned_blind) {
        struct str hint;
        struct str seen = trial_sight_text(&scratch, sight, s, w->outside.seconds, &hint);
        run_say("steps cannot be seen: %.*s", STR_ARG(seen));
        run_say("%.*s", STR_ARG(hint));
        r->has_warned_blind = true;
    }
    if (!w->outside.is_only_busy || !steps_are_announced(s) || r->has_warned_busy) return;
    r->has_warned_busy = true;
    run_say("for %.3g s its only sign of life has been %.1f busy CPUs: it may compute or compile, "
            "or its ranks may wait for each other (NCCL polls forever); it is left alone",
            w->attempt.start_limit_s, sight->cpus);
}

// The command has ended, and what it started has not.
static void see_background(struct run_watch *w) {
    const struct trial_sight *sight = w->outside.sight;
    if (!sight || sight->left_pid == 0 || sight->left_s < LEFT_S || w->has_said_left) return;
    w->has_said_left = true;
    run_say("the command has ended and left process %lld (%s) in the background, which is watched "
            "until it ends",
            (long long)sight->left_pid, sight->left_name);
}

// No steps are asked of what has not told of any: whether it trains cannot be seen.
static void see_silence(struct run_watch *w, const struct steps *s) {
    bool is_late = w->outside.seconds > w->attempt.start_limit_s;
    if (w->is_unseen && slowest(s)) {
        run_say("steps are seen now, after %.3g s: from here on, a stall is noticed, too",
                w->outside.seconds);
    }
    w->is_unseen = is_late && !slowest(s);
    if (!w->is_unseen || w->run->has_warned_unseen) return;
    w->run->has_warned_unseen = true;
    ARENA_AUTO scratch = {0};
    const struct trial_sight *sight = w->outside.sight;
    struct str seen = trial_sight_text(&scratch, sight, s, w->outside.seconds, NULL);
    if (steps_are_announced(s)) {
        run_say("no steps seen: the training registered but reported none in %.3g s; it is left "
                "alone while it works, prints or saves",
                w->attempt.start_limit_s);
    } else {
        run_say("no steps seen: nothing in the training has registered in %.3g s; until it does, "
                "only its end is watched (%.*s)",
                w->attempt.start_limit_s, STR_ARG(seen));
    }
}

static void watch(void *context, const struct steps *s, const struct trial_outside *outside) {
    struct run_watch *w = context;
    w->outside = *outside;
    see_background(w);
    see_silence(w, s);
    see_what_it_is(w, s);
    believe(w, s);
    run_open_look(w, slowest(s));
    read_new_steps(w, s);
    read_peak(w, s);
    read_taken(w, s);
    warn_if_near(w);
    if (w->steps_seen >= RAMP_STEPS) warn_of_accumulation(w, s);
    int64_t now_ns = os_now_ns();
    bool is_told = s->save_number + s->mark_count > w->marks_seen, is_new = false;
    if (w->run->wants_checkpoints && (is_told || now_ns >= w->next_look_ns)) {
        w->next_look_ns = now_ns + LOOK_MS * INT64_C(1000000);
        is_new = look_for_checkpoints(w, s, false);
    }
    if (is_told) run_told_warn(w, s);
    w->marks_seen = s->save_number + s->mark_count;
    run_requeue_look(w, s, is_new);
    bool is_measured = w->is_asking && w->steps_seen >= w->changed_at + MEASURED_STEPS;
    if (is_new || is_measured) adapt(w, is_new);
}

// --- Its end -------------------------------------------------------------------------------------

// A limit that a smaller batch avoids is to recovery what memory is.
static bool is_memory(enum failure_class kind) {
    return kind == FAILURE_MEMORY || kind == FAILURE_LIMIT;
}

static bool is_own_fault(int signal) {
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
           signal == SIGILL;
}

// As recovery tells ends apart.
static enum failure_class end_of(const struct trial *t) {
    enum failure_class said = t->ending.signature->kind;
    // Who was asked to save and end may end well.
    bool is_asked = run_ends_soon() &&
                    (t->end == FAILURE_CLEAN || said == FAILURE_KILLED || said == FAILURE_CLEAN);
    if (is_asked) return FAILURE_INTERRUPTED;
    if (t->end == FAILURE_INTERRUPTED || t->end == FAILURE_ASKED || t->end == FAILURE_CLEAN)
        return t->end;
    if (is_memory(said) || steps_out_of_memory(&t->steps)) return FAILURE_MEMORY;
    if (t->end == FAILURE_NO_START || t->end == FAILURE_STALLED) return FAILURE_STALLED;
    if (t->end == FAILURE_RANK_LOST && (said == FAILURE_CLEAN || said == FAILURE_KILLED)) {
        return FAILURE_COMMUNICATION;
    }
    return said == FAILURE_KILLED && is_own_fault(t->ending.signal) ? FAILURE_CRASH : said;
}

static int64_t status_of(const struct trial *t) {
    if (!t->has_status) return 128 + SIGKILL;
    if (WIFSIGNALED(t->status)) return 128 + WTERMSIG(t->status);
    return WEXITSTATUS(t->status);
}

static struct str ending_id(const struct trial *t) {
    enum failure_class end = end_of(t);
    if (end == FAILURE_MEMORY && !is_memory(t->ending.signature->kind)) return STR("oom");
    if (end == FAILURE_STALLED) return STR("hang");
    if (end == FAILURE_ASKED) return STR("stopped");
    if (end == FAILURE_INTERRUPTED) return STR("interrupted");
    return str_of(t->ending.signature->id);
}

// The batch that it was seen to take.
static struct recover_size size_seen(const struct steps *s, double lr) {
    struct recover_size size = {.lr = lr};
    const struct step_rank *r = slowest(s);
    if (r) size.batch = r->largest_micro_batch;
    for (ptrdiff_t i = 0; size.batch > 0 && i < s->count; i++) {
        if (s->items[i].micro_count > size.accumulation)
            size.accumulation = s->items[i].micro_count;
    }
    if (size.accumulation == 0) size.batch = 0;
    return size;
}

static void add_row(struct run_watch *w, const struct recover_event *end,
                    const struct recover_decision *d, const struct trial *t) {
    struct run *r = w->run;
    int64_t card_bytes = w->has_shrunk ? -1 : w->card_peak_bytes;
    if (t->steps.world > r->ranks_seen) r->ranks_seen = t->steps.world;
    warn_of_accumulation(w, &t->steps);
    r->is_one_micro_batch = ignores_accumulation(w, &t->steps);
    *arena_push(r->arena, &r->rows, &r->row_count, &r->row_capacity) = (struct run_row){
        .size = r->has_batch && !r->is_one_micro_batch ? r->state.size
                                                       : size_seen(&t->steps, r->state.size.lr),
        .ending = str_copy(r->arena, end->ending),
        .said = str_copy(r->arena, launch_failure_text(r->arena, &t->ending)),
        .checkpoint = str_copy(r->arena, d->checkpoint.path),
        .samples = end->samples,
        .peak_bytes = card_bytes > 0 ? card_bytes : end->peak_bytes,
        .seconds = t->seconds,
        .resumes = w->resumes};
}

static void log_end(struct run_watch *w, const struct recover_decision *d, const struct trial *t) {
    struct recover_event e = recover_event_of(RECOVER_END);
    e.end = end_of(t);
    e.ending = ending_id(t);
    e.exception = t->ending.exception;
    e.status = status_of(t);
    e.steps = w->is_unseen ? -1 : steps_of_slowest(&t->steps, 1);
    e.samples = samples_now(w, &t->steps);
    e.peak_bytes = w->has_shrunk ? -1 : w->peak_bytes;
    run_log_add(w->run, e);
    add_row(w, &e, d, t);
}

static void tell_trial(const struct trial *t, const struct run_watch *w) {
    if (t->was_killed) {
        run_say("did not end within the %.3g s of grace and was killed", w->attempt.grace_s);
    }
    if (t->killed_strays > 0 && !failure_stop_text(t->end)) {
        run_say("%d process%s outlived the command and %s ended", t->killed_strays,
                t->killed_strays == 1 ? "" : "es", t->killed_strays == 1 ? "was" : "were");
    }
    if (t->left_behind.len > 0) {
        run_say("cannot remove %.*s", STR_ARG(t->left_behind));
    }
}

// --- All of it -----------------------------------------------------------------------------------

static void about_run(void *context, int64_t batch, struct registry_run *run) {
    const struct run *r = context;
    (void)batch;
    run->verb = STR("run");
    run->model = r->plan.model;
    run->batch = r->has_batch ? r->state.size.batch : -1;
    run->accumulation = r->has_batch ? r->state.size.accumulation : -1;
    run->precision = plan_precision_text(r->plan.precision);
    struct forecast_peak peak;
    if (!r->has_batch || !run_predict(r, r->state.size.batch, &peak)) return;
    run->predicted_peak_bytes = peak.reserved_bytes + peak.overhead_bytes;
    run->predicted_upper_bytes = peak.upper_bytes;
}

int run_attempt(struct run *r, const struct recover_decision *d, struct fail *why) {
    ARENA_AUTO scratch = {0};
    struct trial trial = {.peak_bytes = -1};
    struct launch_values values = run_values(r, d->size, d->checkpoint.path);
    run_log_add(r, recover_started(&r->state, d));
    struct run_files before = {0};
    if (r->o->checkpoint) before = run_files_find(r, &scratch);
    if (r->row_count == 0) r->samples_began = d->samples > 0 ? d->samples : 0;
    struct run_watch w = {
        .run = r,
        .trial = &trial,
        .base = d->samples,
        .began_ns = os_wall_ns(),
        .before = before,
        .opened_fd = run_open_watch(r, d->checkpoint.path),
        .peak_bytes = -1,
        .card_peak_bytes = -1,
        .cached_bytes = -1,
        .retries = -1,
        .attempt = {.arena = &scratch,
                    .batch = d->size.batch,
                    .accumulation = d->size.accumulation,
                    .limit_bytes = r->limit_bytes,
                    .grace_s = isnan(r->o->grace) ? GRACE_S : r->o->grace,
                    .whole = {.out_fd = r->out_fd, .err_fd = 2, .signals = run_signals}},
    };
    r->launch.watch = watch;
    r->launch.watch_context = &w;
    r->launch.about = about_run;
    r->launch.about_context = r;
    int rc = launch_whole(&r->launch, &values, &w.attempt, &trial, why);
    if (rc == 0) believe(&w, &trial.steps);
    if (rc == 0) run_open_look(&w, slowest(&trial.steps));
    os_close(&w.opened_fd);
    if (rc < 0) return rc;
    run_told_warn(&w, &trial.steps);
    if (r->wants_checkpoints) look_for_checkpoints(&w, &trial.steps, true);
    r->is_standin |= trial.is_standin;
    r->lost_seconds += trial.seconds;
    log_end(&w, d, &trial);
    tell_trial(&trial, &w);
    run_requeue_told(&w, &trial);
    return 0;
}
