// SPDX-License-Identifier: Apache-2.0
// The polite part of a stop: who of a tree gets the signal, and when. Only processes that make
// steps can save, so where they are known, they get it, and the shells above them, which may have a
// trap and must not begin the next command. All others are not to die before them: a training that
// loses a DataLoader's worker, or the reader of its output (tee), cannot end its step and save. Nor
// are launchers to hear of it at once: torchrun and DeepSpeed signal all that their ranks have
// started.
//
// Called between fork and exec: nothing here allocates.
#include "measure/trial/trial_int.h"

#include <signal.h>

#define NS_PER_MS INT64_C(1000000)
enum {
    AFTER_COMMAND_MS = 1000,  // for what is left when the command has obeyed, and nobody trains
    AFTER_TRAINERS_MS = 3000, // for a launcher to see that its ranks have ended
    READERS_MS = 1000,        // for who reads their output to come to its end
};

static bool is_trainer(const struct guard_stop *s, pid_t pid) {
    for (int i = 0; i < s->trainer_count; i++) {
        if (s->trainers[i] == pid) return true;
    }
    return false;
}

static bool leads_to_trainers(const struct tree *t, const struct guard_stop *s, pid_t pid) {
    return trial_tree_leads_to(t, pid, s->trainers, s->trainer_count);
}

// Those that have ended meanwhile decide nothing.
static struct guard_stop with_living(const struct tree *t, const struct guard_stop *stop) {
    struct guard_stop s = *stop;
    s.trainer_count = 0;
    for (int i = 0; i < stop->trainer_count; i++) {
        if (trial_tree_has(t, stop->trainers[i])) s.trainers[s.trainer_count++] = stop->trainers[i];
    }
    return s;
}

static void ask(pid_t pid, int signal) {
    kill(pid, signal);
    kill(pid, SIGCONT);
}

static void ask_all(const struct tree *t, int signal) {
    trial_tree_signal(t, signal, (struct tree_spared){0});
    trial_tree_signal(t, SIGCONT, (struct tree_spared){0});
}

// Nobody is known to train: all of the command's group, at once, so that no fork comes in between;
// what a command that has ended left in the background, one by one.
static void ask_unknown(const struct farewell *f, const struct tree *t, int signal) {
    if (f->had_exited)
        ask_all(t, signal);
    else
        ask(-f->command, signal);
}

void trial_farewell_begin(struct farewell *f, const struct tree *t, pid_t command,
                          const struct guard_stop *stop) {
    const int signal = stop->signal ? stop->signal : SIGTERM;
    f->stop = with_living(t, stop);
    f->command = command;
    f->had_exited = !trial_tree_has(t, command);
    if (f->stop.trainer_count == 0) {
        ask_unknown(f, t, signal);
        return;
    }
    for (int i = 0; i < t->count; i++) {
        pid_t pid = t->items[i].pid;
        if (!leads_to_trainers(t, &f->stop, pid)) continue;
        if (is_trainer(&f->stop, pid) || trial_tree_is_shell(t, pid)) {
            ask(pid, signal);
        } else if (f->launcher_count < FAREWELL_LAUNCHERS) {
            f->launchers[f->launcher_count++] = pid;
        }
    }
}

void trial_farewell_pass(const struct tree *t, pid_t command, const struct guard_stop *message) {
    const struct guard_stop s = with_living(t, message);
    if (s.trainer_count == 0 && trial_tree_has(t, command)) kill(-command, s.signal);
    for (int i = 0; i < t->count && s.trainer_count > 0; i++) {
        pid_t pid = t->items[i].pid;
        bool is_meant =
            is_trainer(&s, pid) || (leads_to_trainers(t, &s, pid) && trial_tree_is_shell(t, pid) &&
                                    trial_tree_catches(t, pid, s.signal));
        if (is_meant) kill(pid, s.signal);
    }
}

// Whether something may still be saving though the command is gone: a process that trains; where
// none is known, what the command had left before the stop, or a shell that the signal has ended.
static bool may_be_saving(const struct farewell *f, const struct tree *t) {
    const struct guard_stop *s = &f->stop;
    bool is_in_group = false;
    for (int i = 0; i < t->count; i++) {
        if (t->items[i].is_zombie) continue;
        if (is_trainer(s, t->items[i].pid)) return true;
        is_in_group |= t->items[i].group == f->command;
    }
    return s->trainer_count == 0 && (f->had_exited || (f->was_signalled && is_in_group));
}

static void ask_launchers(struct farewell *f, const struct tree *t) {
    for (int i = 0; i < f->launcher_count; i++) {
        if (trial_tree_has(t, f->launchers[i])) ask(f->launchers[i], SIGTERM);
    }
    f->launcher_count = 0;
}

int64_t trial_farewell_look(struct farewell *f, const struct tree *t, int64_t now_ns) {
    if (f->command <= 0 || f->has_asked_all || may_be_saving(f, t)) return INT64_MAX;
    if (!f->gone_ns) f->gone_ns = now_ns;
    const int64_t gone_ms = (now_ns - f->gone_ns) / NS_PER_MS;
    if (trial_tree_has(t, f->command)) {
        if (gone_ms >= AFTER_TRAINERS_MS) ask_launchers(f, t);
        return INT64_MAX;
    }
    if (f->stop.trainer_count > 0 && gone_ms < READERS_MS) return INT64_MAX;
    f->has_asked_all = true;
    ask_all(t, SIGTERM);
    return now_ns + AFTER_COMMAND_MS * NS_PER_MS;
}
