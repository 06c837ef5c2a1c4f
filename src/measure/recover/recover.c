// SPDX-License-Identifier: Apache-2.0
// What comes next after an end: a row a way to end. Memory: the next smaller batch of the same
// effective batch. A crash: again while the training gets further, never twice for the same one.
// What comes from outside (a kill, the GPU, the network, a hang): the same again, waiting longer
// each time that nothing was gained.
#include "measure/recover/recover_int.h"

#include <math.h>

static struct recover_decision stop(enum recover_action action, const struct recover_state *s,
                                    struct str why, struct str hint) {
    return (struct recover_decision){.action = action,
                                     .status = s->status,
                                     .size = s->size,
                                     .samples = s->samples,
                                     .why = why,
                                     .hint = hint};
}

// Without its checkpoint, which pick_checkpoint fills in.
static struct recover_decision again(const struct recover_state *s, struct recover_size size,
                                     struct str why) {
    return (struct recover_decision){
        .action = RECOVER_START, .status = s->status, .size = size, .why = why, .is_counted = true};
}

static double delay_after(const struct recover_rules *rules, int64_t tries) {
    if (tries <= 0) return 0;
    double doublings = tries < 60 ? (double)(tries - 1) : 60;
    return fmin(rules->backoff_s * exp2(doublings), rules->most_backoff_s);
}

// --- A row each ----------------------------------------------------------------------------------

static struct recover_decision next_done(struct arena *a, const struct recover_rules *rules,
                                         const struct recover_state *s, const char *what) {
    (void)rules;
    return stop(RECOVER_DONE, s, str_copy(a, str_of(what)), (struct str){0});
}

// What ran before and is larger than half: an adaptive run had grown out of it.
static int64_t proven_batch(const struct recover_state *s, int64_t halved) {
    int64_t best = halved;
    for (int i = 0; i < s->peak_count; i++) {
        int64_t batch = s->peaks[i].batch;
        bool is_good = batch < s->size.batch && (s->failed_batch == 0 || batch < s->failed_batch);
        if (is_good && batch > best) best = batch;
    }
    return best;
}

int64_t recover_batch_smaller(const struct recover_rules *rules, const struct recover_state *s) {
    int64_t halved = recover_batch_below(rules, s->size.batch / 2);
    return rules->adaptive ? proven_batch(s, halved) : halved;
}

static struct recover_decision next_smaller(struct arena *a, const struct recover_rules *rules,
                                            const struct recover_state *s, const char *what) {
    int64_t batch = recover_batch_smaller(rules, s);
    if (batch == 0) {
        struct str why = str_format(a, "%s (%.*s) at batch %lld, and no smaller one is allowed",
                                    what, STR_ARG(s->ending), (long long)s->size.batch);
        return stop(
            RECOVER_GIVE_UP, s, why,
            STR("less memory per sample: activation checkpointing, mixed precision, smaller images "
                "or sequences; `batchfit explain` shows what each would save"));
    }
    struct recover_size size = recover_size_of(rules, batch);
    struct buf why = buf_new(a);
    buf_format(&why, "%s (%.*s): batch %lld x %lld -> %lld x %lld", what, STR_ARG(s->ending),
               (long long)s->size.batch, (long long)s->size.accumulation, (long long)size.batch,
               (long long)size.accumulation);
    if (size.batch * size.accumulation != s->size.batch * s->size.accumulation)
        buf_format(&why, "; the effective batch changes, learning rate %g -> %g", s->size.lr,
                   size.lr);
    struct recover_decision d = again(s, size, buf_str(&why));
    // A smaller batch is another attempt: nothing to wait for but the memory of the dead.
    d.delay_s = s->is_gain ? 0 : fmin(rules->backoff_s, rules->most_backoff_s);
    return d;
}

static struct recover_decision next_same(struct arena *a, const struct recover_rules *rules,
                                         const struct recover_state *s, const char *what) {
    struct str why = str_format(a, "%s (%.*s): the same batch again", what, STR_ARG(s->ending));
    struct recover_decision d = again(s, s->size, why);
    d.delay_s = delay_after(rules, s->fruitless);
    return d;
}

// Right after resuming it did not come to a step: the checkpoint may be half-written.
static struct recover_decision next_older(struct arena *a, const struct recover_rules *rules,
                                          const struct recover_state *s) {
    struct str why =
        str_format(a, "it failed (%.*s) before its first step from %.*s: skipping that checkpoint",
                   STR_ARG(s->ending), STR_ARG(s->resumed.path));
    struct recover_decision d = again(s, s->size, why);
    d.passed_over = s->resumed;
    d.delay_s = delay_after(rules, s->fruitless);
    return d;
}

// Space does not come back by itself at once: somebody has to make it. The last checkpoint that was
// saved is as good as it was.
static struct recover_decision next_disk(struct arena *a, const struct recover_rules *rules,
                                         const struct recover_state *s) {
    enum { SLOWER = 60 }; // than after a crash that time alone may cure
    struct recover_decision d = next_same(a, rules, s, "a checkpoint or file could not be written");
    d.delay_s = SLOWER * delay_after(rules, s->fruitless > 1 ? s->fruitless : 1);
    d.hint = STR("free some space there meanwhile (df -h, df -i, the quota); the truncated file "
                 "does not count as a checkpoint");
    return d;
}

// Refused with the words that resume it, which no other checkpoint cures. It may have started well
// without them; at the first attempt it may be any word.
static struct recover_decision next_refused(struct arena *a, const struct recover_rules *rules,
                                            const struct recover_state *s) {
    bool is_first = s->attempt == 1;
    struct str why = str_format(a, "the program does not accept its %sarguments (%.*s)",
                                is_first ? "" : "resume ", STR_ARG(s->ending));
    struct str hint = str_format(a,
                                 "nothing is lost: correct %s, then run the command with "
                                 "--resume --checkpoint '%.*s'",
                                 is_first ? "them, {resume:...} first" : "{resume:...}",
                                 STR_ARG(s->resumed.path));
    (void)rules;
    return stop(RECOVER_GIVE_UP, s, why, hint);
}

// Crashes that the same again, or an older checkpoint, does not cure.
static const struct {
    const char *ending; // id of the signature
    bool at_resuming;   // only before the first step from a checkpoint
    struct recover_decision (*next)(struct arena *a, const struct recover_rules *rules,
                                    const struct recover_state *s);
} crashes[] = {
    {"disk-full", false, next_disk},
    {"save-failed", false, next_disk},
    {"usage", true, next_refused},
};

static struct recover_decision next_crash(struct arena *a, const struct recover_rules *rules,
                                          const struct recover_state *s, const char *what) {
    const char *hint = "fix it, then run the same command with --resume";
    bool has_no_step = !s->is_gain && s->steps == 0;
    bool can_choose = s->resumed.path.len > 0 && !rules->takes_newest;
    bool is_resuming = has_no_step && s->resumed.path.len > 0;
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (!str_is(s->ending, crashes[i].ending)) continue;
        if (is_resuming || !crashes[i].at_resuming) return crashes[i].next(a, rules, s);
    }
    if (has_no_step && can_choose) return next_older(a, rules, s);
    if (s->is_repeated) {
        struct str why = str_format(
            a, "a repeated crash, not memory (%.*s): twice at the same place", STR_ARG(s->ending));
        return stop(RECOVER_GIVE_UP, s, why, str_of(hint));
    }
    if (has_no_step) {
        struct str why = str_format(a, "it failed before its first step, not for memory (%.*s)",
                                    STR_ARG(s->ending));
        return stop(RECOVER_GIVE_UP, s, why, STR("see the end of its output"));
    }
    return next_same(a, rules, s, what);
}

static struct recover_decision next_wanted(struct arena *a, const struct recover_rules *rules,
                                           const struct recover_state *s, const char *what) {
    (void)rules;
    struct recover_size size = s->wanted.batch > 0 ? s->wanted : s->size;
    struct str why = str_format(a, "%s: batch %lld x %lld -> %lld x %lld", what,
                                (long long)s->size.batch, (long long)s->size.accumulation,
                                (long long)size.batch, (long long)size.accumulation);
    struct recover_decision d = again(s, size, why);
    d.is_counted = false;
    return d;
}

static const struct {
    const char *what;
    struct recover_decision (*next)(struct arena *a, const struct recover_rules *rules,
                                    const struct recover_state *s, const char *what);
    bool always; // also without --recover
} rows[] = {
    [FAILURE_UNKNOWN] = {"it ended for an unknown reason", next_same, false},
    [FAILURE_CLEAN] = {"it ended normally", next_done, true},
    [FAILURE_MEMORY] = {"memory ran out", next_smaller, false},
    [FAILURE_CRASH] = {"it failed", next_crash, false},
    [FAILURE_KILLED] = {"killed by an unexplained signal", next_same, false},
    [FAILURE_DEVICE] = {"the GPU failed", next_same, false},
    [FAILURE_COMMUNICATION] = {"its processes lost contact", next_same, false},
    [FAILURE_STALLED] = {"no step for too long", next_same, false},
    [FAILURE_ASKED] = {"stopped at a checkpoint", next_wanted, true},
    [FAILURE_INTERRUPTED] = {"interrupted", next_done, true},
};

static struct recover_decision next_ended(struct arena *a, const struct recover_rules *rules,
                                          const struct recover_state *s) {
    const char *what = rows[s->end].what;
    if (!rules->recover && !rows[s->end].always)
        return stop(RECOVER_DONE, s, str_format(a, "%s (%.*s)", what, STR_ARG(s->ending)),
                    STR("--recover restarts it from its newest checkpoint"));
    struct recover_decision d = rows[s->end].next(a, rules, s, what);
    if (d.action == RECOVER_START && d.is_counted && s->counted >= rules->max_restarts) {
        struct str why = str_format(a, "%.*s, but it was already restarted %lld times",
                                    STR_ARG(d.why), (long long)s->counted);
        return stop(RECOVER_GIVE_UP, s, why, STR("--max-restarts allows more"));
    }
    return d;
}

// --- From where ----------------------------------------------------------------------------------

bool recover_file_is(struct recover_file a, struct recover_file b) {
    return a.written == b.written && str_equal(a.path, b.path);
}

static bool is_passed_over(const struct recover_state *s, const struct recover_decision *d,
                           struct recover_file file) {
    if (recover_file_is(d->passed_over, file)) return true;
    for (ptrdiff_t i = 0; i < s->checkpoint_count; i++) {
        const struct recover_checkpoint *c = &s->checkpoints[i];
        if (c->is_passed_over && recover_file_is(c->file, file)) return true;
    }
    return false;
}

// Of a program that finds its checkpoints itself: what the newest that was told of holds.
static int64_t newest_samples(const struct recover_state *s) {
    return s->checkpoint_count > 0 ? s->checkpoints[s->checkpoint_count - 1].samples : 0;
}

static struct recover_decision pick_checkpoint(struct arena *a, const struct recover_rules *rules,
                                               const struct recover_state *s,
                                               struct recover_decision d,
                                               const struct recover_file *files, ptrdiff_t count) {
    if (d.action != RECOVER_START) return d;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (is_passed_over(s, &d, files[i])) continue;
        d.checkpoint = files[i];
        d.samples = recover_samples_of(s, files[i]);
        return d;
    }
    d.samples = rules->resumes_itself ? newest_samples(s) : 0;
    if (rules->resumes_itself || rules->from_scratch || s->samples_best <= 0) return d;
    struct recover_decision give_up = stop(
        RECOVER_GIVE_UP, s,
        str_format(
            a, "%.*s; but there is no checkpoint to resume from, and %lld samples would be lost",
            STR_ARG(d.why), (long long)s->samples_best),
        STR("name the checkpoints with --checkpoint GLOB, or start over with --from-scratch"));
    give_up.passed_over = d.passed_over;
    return give_up;
}

// The log ends while an attempt ran, or before the one that was decided: batchfit itself was
// killed, or both were asked to stop.
static struct recover_decision next_continued(struct arena *a, const struct recover_rules *rules,
                                              const struct recover_state *s) {
    const char *what = str_format(a, "attempt %lld was cut short", (long long)s->attempt).p;
    if (s->wanted.batch > 0) return next_wanted(a, rules, s, what);
    struct recover_decision d = again(s, s->size, str_format(a, "%s: the same batch again", what));
    d.is_counted = false;
    return d;
}

struct recover_decision recover_next(struct arena *a, const struct recover_rules *rules,
                                     const struct recover_state *state,
                                     const struct recover_file *files, ptrdiff_t count) {
    struct recover_decision d;
    if (state->phase == RECOVER_FINISHED ||
        (state->phase == RECOVER_DECIDED && state->action != RECOVER_START)) {
        d = stop(state->action, state, state->why, (struct str){0});
    } else if (state->phase == RECOVER_ENDED) {
        d = next_ended(a, rules, state);
    } else if (state->phase == RECOVER_FRESH) {
        d = again(state, state->size, STR("the first start"));
        d.is_counted = false;
    } else {
        d = next_continued(a, rules, state);
    }
    return pick_checkpoint(a, rules, state, d, files, count);
}
