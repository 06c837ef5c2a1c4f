// SPDX-License-Identifier: Apache-2.0
// One launch of the user's command, watched from inside (steps) and outside (processes, memory) and
// stopped after enough steps. Nothing is left behind: a guardian process, which is the subreaper of
// everything the command starts, kills the whole tree when the trial ends, when it is interrupted
// and when batchfit itself dies, and removes the scratch folder.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "measure/failure/failure.h"
#include "measure/steps/steps.h"

#include <signal.h>

// The user's command with placeholders: {batch}, {accumulate}, {workers}, {config}, {scratch}, the
// names of axes, and {name:TEXT}, which stands for TEXT when the name's value is set and true and
// for nothing otherwise.

struct trial_command_value {
    struct str name, text;
    bool off; // {name:TEXT} vanishes: a switch that is off, a value that is not set
};

// Replaces the placeholders in a command (NULL-ended). "{{" and "}}" are literal braces; a brace
// that does not begin {identifier} or {identifier: is left alone (JSON on the command line). TEXT
// may hold blanks, placeholders and span several words of the command, as {resume:--resume
// {checkpoint}} does after the shell has cut it; words of it become words of the command. A word
// that becomes empty by a vanished placeholder is dropped. FAIL_USAGE: an unknown name (with the
// nearest), or an open brace.
int trial_command_expand(struct arena *a, char *const *argv,
                         const struct trial_command_value *values, int count, char ***ret_argv,
                         struct fail *why);
// The same for one text, which stays one word: the VALUE of --env NAME=VALUE.
int trial_command_expand_text(struct arena *a, struct str text,
                              const struct trial_command_value *values, int count,
                              struct str *ret_text, struct fail *why);
// Whether {name} or {name:…} stands anywhere in the command.
bool trial_command_mentions(char *const *argv, struct str name);
// The command as one would type it in a shell, quoted where needed.
struct str trial_command_text(struct arena *a, char *const *argv);

// What the processes of a command are before they tell of a step, as /proc shows it.
enum trial_blind {
    TRIAL_SEES,
    TRIAL_BLIND_OPTION,      // Python was told to read no PYTHONPATH, or no sitecustomize
    TRIAL_BLIND_ENVIRONMENT, // a launcher has dropped the variables
};
struct trial_sight {
    bool has_python;
    const char *framework;       // that was seen loaded, PyTorch before others; NULL: none
    double framework_s;          // when, since the start
    bool has_torch, has_emitter; // PyTorch is loaded; in a process that our emitter can be in
    enum trial_blind blind;      // of a process with PyTorch that it cannot be in
    char option;                 // … 'I', 'E' or 'S'
    int64_t blind_pid;           // … 0: there is none
    double blind_s;              // … when it was seen first; infinite: it has ended
    double cpus;                 // that are busy now
    // The oldest process that lives on where the command itself has ended; 0: none.
    int64_t left_pid;
    char left_name[16];
    double left_s; // for so long
};
// What was seen, for a process that has made no step; now_s: since the start, NaN: it has ended.
// ret_hint: what to do; may be NULL.
struct str trial_sight_text(struct arena *a, const struct trial_sight *s, const struct steps *steps,
                            double now_s, struct str *ret_hint);

// What is seen from outside now and then; a caller's gauge may fill the device's part.
struct trial_outside {
    double seconds;     // since the start
    int64_t held_bytes; // by the whole tree now (PSS, read or estimated); -1: unknown
    const struct trial_sight *sight;
    bool is_only_busy; // no sign of life but a busy CPU for start_limit_s
};

// A command that is not tried but run to its own end. It is stopped for want of steps only while a
// process that has made some is there, and after start_limit_s without any sign of life where one
// has announced itself and none has made a step. Its output goes on to ours, its temporary files
// stay where they are without us, memory does not grow with its steps, and what it says and does
// while it is being stopped counts.
struct trial_whole {
    int out_fd, err_fd; // where its standard output and its standard error go as they come
    // How often each signal came, by its number (NSIG of them); the caller's handler counts.
    // SIGINT, SIGTERM and SIGHUP are passed on and end it, after the grace by force, at a second
    // one (SIGINT) at once; SIGUSR1 and SIGUSR2 are passed on.
    const volatile sig_atomic_t *signals;
    bool asks_stop; // `watch` may set it: SIGTERM, then the grace
};

struct trial_request {
    char *const *argv;          // NULL-ended; searched in PATH
    char *const *environment;   // "NAME=value" on top of ours, NULL-ended; may be NULL
    const char *folder;         // to run in; NULL: ours
    const char *scratch_parent; // where the scratch folder is made; NULL: $TMPDIR, else /tmp
    // The scratch folder can be named only by the trial: called once, before the start, to give the
    // final argv and environment. NULL: argv and environment as they are.
    int (*prepare)(void *context, struct arena *a, const char *scratch, char *const **ret_argv,
                   char *const **ret_environment, struct fail *why);
    void *prepare_context;
    int64_t warmup_steps, steps; // stop when every rank has made warmup_steps + steps
    int64_t ranks;               // processes that must report; 0: as many as `world` says, else 1
    int64_t samples_each;        // of a step that is only printed; 0: unknown
    int64_t memory_limit_bytes;  // CPU: of the whole tree
    // 0: 300, 120, no limit; infinite: none
    double start_limit_s, stall_limit_s, time_limit_s;
    double grace_s;                   // from SIGTERM to SIGKILL; 0: 5
    const volatile bool *interrupted; // set by the caller's signal handler; may be NULL
    // Called about ten times a second and after each step; must not block. For progress and device
    // gauges. May be NULL.
    void (*watch)(void *context, const struct steps *steps, const struct trial_outside *outside);
    void *watch_context;
    const char *log_path;      // keeps the whole output here; NULL: only the tail in memory
    struct trial_whole *whole; // NULL: a trial, stopped when it has made its steps
};

// GUARD: our own process, which watches the tree's PSS and kills it when it is over.
enum trial_limiter { TRIAL_LIMITER_NONE, TRIAL_LIMITER_CGROUP, TRIAL_LIMITER_GUARD };
struct trial {
    enum failure_class end; // how; what its output says: ending
    struct failure ending;
    struct steps steps;
    struct str printed; // one of the lines that steps were read from; empty: they were told
    struct trial_sight sight;
    struct str output;    // tail of stdout and stderr, at most 256 KiB
    int64_t output_bytes; // all that was printed
    double seconds;
    int64_t peak_bytes; // of the whole tree, what is shared counted once (PSS)
    int64_t over_bytes; // that it held when it was killed for it by our own guard; 0: it was not
    int64_t oom_kills;  // memory.events; -1: no cgroup
    enum trial_limiter limiter;
    int killed_strays;      // processes that outlived the command and had to be killed
    bool left_group;        // something changed its process group or session
    bool is_standin;        // the program said that it plays a scenario (framework "standin")
    int status;             // of waitpid
    bool has_status;        // false: it did not end by itself and could not be waited for
    bool was_killed;        // it did not end within the grace
    int log_error;          // errno of what cut request->log_path; 0: it has all
    struct str left_behind; // the scratch folder, when it could not be removed; empty: it is gone
};

// 0 and a filled trial however the command ended; FAIL_USAGE/FAIL_INPUT when it does not exist or
// may not be run, FAIL_MACHINE when no process can be started. Lives in the arena.
int trial_run(struct arena *a, const struct trial_request *request, struct trial *ret_trial,
              struct fail *why);
