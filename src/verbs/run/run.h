// SPDX-License-Identifier: Apache-2.0
// What the files of the verb `run` share. What is decided is measure/recover's; here a process is
// started, watched, and what became of it is written down.
#pragma once

#include "cli/cli.h"
#include "job/answer/answer.h"
#include "job/history/history.h"
#include "measure/launch/launch.h"
#include "measure/recover/recover.h"

struct run_options {
    struct cli_options base;
    struct launch_options l;
    struct history_options h;
    const char *config, *dialect, *section, *model;
    const char *checkpoint, *log, *lr_rule;
    int64_t batch, accumulation, least, most, initial;
    double lr, max_restarts, backoff, grace, threshold, factor, share;
    bool recover, auto_scale_lr, adaptive, resume, from_scratch, resumes_itself, fresh, dry_run;
};

// The event log on the disk. Only one batchfit writes it.
struct run_log {
    struct str path;
    int fd;         // -1: none
    bool is_broken; // it could not be written: told once, and the training goes on
};

// One attempt, for the answer.
struct run_row {
    struct recover_size size;            // batch 0: not known
    struct str ending, said, checkpoint; // said: of its failure, in a line
    int64_t samples, peak_bytes;
    double seconds;
    enum run_resumes { RUN_RESUMES_UNKNOWN, RUN_RESUMED, RUN_STARTED_OVER } resumes;
};

struct run_files {
    struct recover_file *items;
    ptrdiff_t count;
};

struct run {
    struct arena *arena;
    const struct run_options *o;
    struct launch_options l;
    struct launch launch;
    bool has_config;
    struct config config;
    struct config_reading reading;
    struct plan plan;
    bool takes_batch, has_batch, takes_checkpoint;
    bool wants_checkpoints; // there is a template, or the command takes what the program tells of
    struct recover_rules rules;
    struct recover_state state;
    struct run_log log;
    struct history history;
    struct run_prediction *prediction; // NULL: nothing is predicted
    int64_t limit_bytes;               // of the device's memory that an attempt may use; 0: all
    int64_t began_ns;                  // of the run, over all its calls; unix time
    double lost_seconds;      // of attempts so far: what a start from the beginning would lose
    bool has_said_checkpoint; // the program has said that it wrote one
    int64_t obeyed_batch;     // that the steps of an earlier attempt really had; 0: not known
    struct run_files torn; // checkpoints that are not whole: saving them failed, or was cut short
    ptrdiff_t torn_capacity;
    bool is_standin;
    struct run_row *rows;
    ptrdiff_t row_count, row_capacity;
    bool has_warned_accumulation, has_warned_unseen, has_warned_blind, has_warned_busy;
    bool is_one_micro_batch; // the last attempt took one a step, and was asked for more
    int64_t ranks_seen;      // that the program said it has; 0: none
    int64_t samples_began;   // that the weights had seen when this call began to train
    int out_fd;              // where the child's standard output goes
};

// ask.c: options and config -> rules. FAIL_USAGE, FAIL_INPUT.
int run_ask(struct run *r, char *const *command, struct fail *why);
// Once the device is known: what the command takes, the memory. FAIL_USAGE.
int run_ask_device(struct run *r, struct fail *why);
// The values of an attempt for the command.
struct launch_values run_values(struct run *r, struct recover_size size, struct str checkpoint);

// predict.c
void run_predict_open(struct run *r); // once the device and the rules are known
// The peak of a batch on the GPU. False: not known.
bool run_predict(const struct run *r, int64_t batch, struct forecast_peak *ret_peak);

// log.c
// Finds an unfinished log of the same command and takes over its state, or begins one.
int run_log_open(struct run *r, char *const *command, struct fail *why);
// Writes the event, waits until the disk has it, and applies it to the state.
void run_log_add(struct run *r, struct recover_event event);
void run_log_close(struct run *r);
// The one that this runs in, and the training with it; empty: it is gone.
struct str run_folder(struct arena *a);
// The writing of a path that the disk has; false: none. The path ends with a NUL.
bool run_file_at(struct str path, struct recover_file *ret_file);

// told.c: what the program says of its checkpoints, into the log: those that are whole now.
struct run_watch;
// is_last: the attempt has ended. True: there was one.
bool run_told_look(struct run_watch *w, const struct steps *s, bool is_last);
// Says once what could not be saved.
void run_told_warn(struct run_watch *w, const struct steps *s);

// checkpoint.c
// What the template matches now, or without one what the log has; the newest first.
struct run_files run_files_find(struct run *r, struct arena *a);
// What may be resumed: those that the log knows, as they were told, then others (where the program
// takes its newest, all by their time); nothing older than the run, unless the user says so.
struct run_files run_files_usable(struct run *r, struct arena *a);
// Whether the log knows this writing of the file.
bool run_files_logged(const struct recover_state *s, struct recover_file file);
// New files of the template, into the log. True: one was found complete.
bool run_files_look(struct run_watch *w, const struct steps *s, bool is_last);
// Whether this word of a checkpoint is in the log; now it is.
bool run_save_is_logged(const struct run_watch *w, const struct step_save *save);
void run_save_logged(struct run_watch *w, const struct step_save *save);
// That of a checkpoint that is not whole: never resumed.
void run_file_torn(struct run *r, struct str path);
// Samples that the weights had seen once `rank` had made `made` steps of this attempt. -1: unknown.
int64_t run_samples_after(const struct run_watch *w, const struct steps *steps, int rank,
                          int64_t made, int64_t samples);
void run_log_checkpoint(struct run_watch *w, struct recover_file file, int64_t samples);

// opened.c: does the training open the checkpoint that it was given?
// Before it starts: what run_open_look() asks; -1: that cannot be told.
int run_open_watch(const struct run *r, struct str checkpoint);
// has_step: it trains. From then on it has resumed or not; if not, that is said.
void run_open_look(struct run_watch *w, bool has_step);

// attempt.c: one attempt, from `start` to `end` in the log.
struct run_watch {
    struct run *run;
    struct launch_attempt attempt;
    const struct trial *trial;
    struct trial_outside outside;
    int64_t base;     // samples at the start; -1: unknown
    int64_t began_ns; // unix time
    int64_t next_look_ns, marks_seen, steps_seen;
    int64_t changed_at; // steps seen when the program took another batch
    int64_t retries, retry_steps;
    int64_t peak_bytes;      // less what the allocator only kept in its cache; -1: unknown
    int64_t card_peak_bytes; // with it
    int64_t cached_bytes;    // of the allocator's peak; -1: it does not say
    bool is_believed, has_warned_disobedient, has_warned_near, is_asking, has_shrunk;
    bool is_unseen;          // it had its time to announce itself, and did not
    bool has_changed;        // the batch, while it ran
    bool is_settled;         // the file in question has not changed for long
    struct run_files before; // that were there when it began
    int64_t *told;           // numbers of the words on checkpoints that are in the log
    ptrdiff_t told_count, told_capacity;
    bool has_warned_unsaved, has_said_left;
    int opened_fd; // tells of the checkpoint's files that are opened; -1: that is not asked
    enum run_resumes resumes;
    uint64_t handlers; // bits of the signals that the training handles
    int64_t next_handlers_ns;
    bool has_read_handlers;
    bool is_ending; // it was heard that the machine is wanted back
};
int run_attempt(struct run *r, const struct recover_decision *d, struct fail *why);

// requeue.c
enum { RUN_REQUEUE = 75 }; // the exit status of what is to be queued again: EX_TEMPFAIL, sysexits.h
extern volatile sig_atomic_t run_signals[NSIG];
void run_catch_signals(void);
int run_stop_signal(void); // that we got; 0: none
bool run_ends_soon(void);  // a scheduler has said so
// The exit status of a run that was stopped and is not at its end.
int run_status_stopped(const struct run *r, int status);
// is_saved: a checkpoint has come since the last look.
void run_requeue_look(struct run_watch *w, const struct steps *s, bool is_saved);
void run_requeue_told(const struct run_watch *w, const struct trial *t);

// show.c
__attribute__((format(printf, 1, 2))) void run_say(const char *format, ...);
struct str run_size_text(const struct run *r, struct recover_size size);
// Of the last attempt; batch 0: not known.
struct recover_size run_size_last(const struct run *r);
// What to write for the trainer that the command seems to be (words.c).
struct str run_resume_words(struct arena *a, char *const *command);
// Before the first attempt: as what it is started again; or what is missing for that.
void run_say_resuming(struct run *r);
void run_say_decision(struct run *r, const struct recover_decision *d);
void run_say_end(struct run *r, int status);
int run_print(struct run *r, int status, struct fail *why);
int run_dry(struct run *r, struct fail *why);
