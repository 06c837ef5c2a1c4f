// SPDX-License-Identifier: Apache-2.0
// The ranks of a trial as their processes show them: one that is gone, or that ran out of memory,
// is waited for by the others for ever.
#include "measure/trial/trial_int.h"

static const double BAD_END_S = 3; // for a launcher to stop the others itself and say why
static const double END_S = 10;    // for the other things of a program that has trained, or failed
static const double OOM_S = 5;     // a program may catch it and go on

// A rank may be gone before it is looked at: what was never seen is gone where others of its trial
// were. Where none was, their pids are those of another namespace.
void trial_ranks_see(struct ranks *r, const struct steps *s, struct tree *tree, int64_t now_ns) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++)
        r->was_any_seen = r->was_any_seen || trial_tree_has(tree, (pid_t)s->ranks[i].pid);
    for (ptrdiff_t i = 0; i < s->rank_count && i < RANKS_WATCHED && r->was_any_seen; i++) {
        bool is_there = trial_tree_has(tree, (pid_t)s->ranks[i].pid);
        if (is_there) r->gone_ns[i] = 0;
        if (!is_there && !r->gone_ns[i]) r->gone_ns[i] = now_ns;
    }
}

static bool is_running(const struct step_rank *rank) {
    return rank->state == STEPS_RANK_SILENT || rank->state == STEPS_RANK_STARTED;
}

static bool is_past(int64_t now_ns, int64_t ns, double seconds) {
    return (double)(now_ns - ns) / 1e9 > seconds;
}

// Whether the rank can do no further step, for long enough that the others must be waiting.
static bool is_lost(const struct step_rank *rank, int64_t gone_ns, int64_t last_step_ns,
                    int64_t now_ns) {
    if (rank->state == STEPS_RANK_ENDED_BADLY) return is_past(now_ns, rank->last_ns, BAD_END_S);
    if (!is_running(rank)) return false;
    int64_t oom_ns = rank->oom_ns > last_step_ns ? rank->oom_ns : last_step_ns;
    if (rank->oom_ns && is_past(now_ns, oom_ns, OOM_S)) return true;
    return gone_ns && is_past(now_ns, gone_ns, OOM_S) && is_past(now_ns, rank->last_ns, OOM_S);
}

bool trial_ranks_are_lost(const struct ranks *r, const struct steps *s, int64_t last_step_ns,
                          int64_t now_ns, bool are_missing) {
    int64_t lost = 0, running = 0;
    for (ptrdiff_t i = 0; i < s->rank_count && i < RANKS_WATCHED; i++) {
        if (is_lost(&s->ranks[i], r->gone_ns[i], last_step_ns, now_ns))
            lost++;
        else if (is_running(&s->ranks[i]) && !r->gone_ns[i])
            running++;
    }
    return lost > 0 && (running > 0 || are_missing);
}

bool trial_ranks_live(const struct steps *s, const struct tree *tree, int64_t now_ns,
                      bool is_whole) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        const struct step_rank *rank = &s->ranks[i];
        bool has_time = is_whole && rank->state == STEPS_RANK_ENDED_WELL;
        bool is_ending = !is_running(rank) && !is_past(now_ns, rank->last_ns, END_S);
        bool is_awaited = is_running(rank) || is_ending || has_time;
        if (is_awaited && trial_tree_has(tree, (pid_t)rank->pid)) return true;
    }
    return false;
}

bool trial_ranks_are_expected(const struct steps *s, const struct tree *tree, bool has_stepped) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        const struct step_rank *rank = &s->ranks[i];
        bool has_ended =
            rank->state == STEPS_RANK_ENDED_WELL && !trial_tree_has(tree, (pid_t)rank->pid);
        if (rank->state != STEPS_RANK_SILENT && !rank->is_mute && !has_ended &&
            (rank->steps > 0) == has_stepped)
            return true;
    }
    return false;
}
