// SPDX-License-Identifier: Apache-2.0
// What the files of the verb `run` share. What is decided is measure/recover's; here a process is
// started, watched, and what became of it is written down.
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "cli/verb.h"
#include "job/answer/answer.h"
#include "job/history/history.h"
#include "measure/launch/launch.h"
#include "measure/recover/events.h"
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
    struct recover_size size; // batch 0: not known
    struct str ending, checkpoint;
    int64_t samples, peak_bytes;
    double seconds;
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
    double lost_seconds;         // of attempts so far: what a start from the beginning would lose
    bool has_said_checkpoint;    // the program has said that it wrote one
    int64_t obeyed_batch;        // that the steps of an earlier attempt really had; 0: not known
    int64_t folder_entries;      // of the newest checkpoint that is a folder; 0: not known
    struct str_list new_folders; // that attempts of this run made for what they saved
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

// folder.c: what the program told that it saved, by the folder that it went to.
struct run_folder {
    struct str path;
    const struct step_path *first; // that was saved into it
    ptrdiff_t count;               // different files
    int64_t last_row;
    bool is_numbered; // its name has a number
    bool is_new;      // this run made it, between two steps
    bool is_once;     // all of it in one row
    bool is_together; // two or more in one row
    bool is_over;     // … which is over
    bool is_checkpoint;
};
struct run_folders {
    struct run_folder *items;
    ptrdiff_t count;
    bool has_checkpoint; // this attempt, or one before, wrote a folder as a checkpoint
    bool is_ended;       // the attempt is
};
struct run_folders run_folders_read(struct run *r, struct arena *a, const struct steps *s,
                                    bool is_ended);
// The folder, if it is a checkpoint; NULL.
const struct run_folder *run_folders_at(const struct run_folders *folders, struct str path);
// Whether a path that was told is a checkpoint by itself, and no part of a folder's.
bool run_folders_spare(const struct run *r, const struct run_folders *folders,
                       const struct steps *s, struct str path);
// Whether the program has told of a checkpoint, whole or not known to be torn.
bool run_folders_told(const struct run *r, const struct run_folders *folders,
                      const struct steps *s);
// Whether all of the folder is there.
bool run_folder_is_whole(const struct run *r, const struct run_folders *folders,
                         const struct run_folder *f);
// Remembers how much is in a whole one: the program may remove it before the next is whole.
void run_folder_count(struct run *r, const struct run_folder *f);
// Whether what the log has later tells that this path of it is no checkpoint.
bool run_folders_refute(const struct recover_state *s, ptrdiff_t at);

// checkpoint.c
// What the template matches now, or without one what was told (`folders`; NULL: what the log has);
// the newest first.
struct run_files {
    struct recover_file *items;
    ptrdiff_t count;
};
struct run_files run_files_find(struct run *r, struct arena *a, const struct steps *s,
                                const struct run_folders *folders);
// What may be resumed: those that the log knows, then others (where the program takes its newest,
// all by their time); nothing older than the run, unless the user says so.
struct run_files run_files_usable(struct run *r, struct arena *a);
// Whether the log knows this writing of the file.
bool run_files_logged(const struct recover_state *s, struct recover_file file);
// Samples that a file holds which this attempt has written (`is_old`: not just now); -1: not known;
// RUN_UNFINISHED: it may still be being written.
enum { RUN_UNFINISHED = -2 };
struct run_watch;
int64_t run_files_samples(const struct run_watch *w, const struct steps *steps,
                          struct recover_file file, bool is_old);
int64_t run_folder_samples(const struct run_watch *w, const struct steps *steps,
                           const struct run_folder *f);

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
    bool is_unseen;   // it had its time to announce itself, and did not
    bool has_changed; // the batch, while it ran
    bool is_settled;  // the file in question has not changed for long
};
int run_attempt(struct run *r, const struct recover_decision *d, struct fail *why);
extern volatile sig_atomic_t run_signals[NSIG];
int run_stop_signal(void); // that we got; 0: none

// show.c
__attribute__((format(printf, 1, 2))) void run_say(const char *format, ...);
struct str run_size_text(const struct run *r, struct recover_size size);
// Of the last attempt; batch 0: not known.
struct recover_size run_size_last(const struct run *r);
// Before the first attempt: how a program that takes its newest checkpoint itself is told to.
void run_say_resuming(struct run *r);
void run_say_decision(struct run *r, const struct recover_decision *d);
void run_say_end(struct run *r, int status);
int run_print(struct run *r, int status, struct fail *why);
int run_dry(struct run *r, struct fail *why);

#endif
