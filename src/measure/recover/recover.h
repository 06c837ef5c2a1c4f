// SPDX-License-Identifier: Apache-2.0
// What to do when a training ends or comes near the end of its memory: go on smaller, go on as
// before, give up. Pure: no process, no file, no clock; numbers and endings in, decisions out.
//
// The state changes by events only, and each event is written to the log before it is acted on
// (recover_log). So the state of a run that was killed is that of its log:
//
//     append(begin), recover_apply          (or recover_replay of an unfinished log)
//     for (;;) {
//         d = recover_next(a, rules, &state, checkpoints on the disk)
//         append(decide), recover_apply     (recover_decided makes the event)
//         if (d.action != RECOVER_START) { append(finish); return d.status; }
//         wait d.delay_s
//         append(start), recover_apply      (recover_started)
//         run it with the attempt's batch, checkpoint and samples; on each checkpoint
//             append(checkpoint), recover_apply, recover_adapt
//         append(end), recover_apply
//     }
//
// Recipe: a way to end is a member of enum failure_class (measure/failure/failure.h), its word in
// events.c, a row in recover.c, in doc/run.md and in tests/unit/recover.c.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "measure/failure/failure.h"

// By what the learning rate follows the effective batch, where that cannot be kept.
enum recover_lr_rule { RECOVER_LR_KEEP, RECOVER_LR_LINEAR, RECOVER_LR_SQRT };

// What the user wants; does not change during a run. Fill from recover_rules_default().
struct recover_rules {
    int64_t batch, accumulation, ranks; // the user's own; effective batch: their product
    int64_t least_batch;                // 1
    bool recover;                       // else every end is the end
    bool can_accumulate; // the command takes an accumulation: the effective batch is kept exactly
    enum recover_lr_rule lr_rule;
    double lr;             // at the user's own batch; NaN: not known
    int64_t max_restarts;  // after failures; adaptive and proactive ones are not counted
    double backoff_s;      // 1; doubles while nothing is gained
    double most_backoff_s; // 60
    bool from_scratch;     // begin again when no checkpoint is left, though that loses work
    bool resumes_itself;   // the program finds its newest checkpoint: none need be given
    bool takes_newest;     // … once it is told to resume: no other can be given
    // Memory.
    int64_t capacity_bytes; // that the training may use; -1: not known, then nothing is adapted
    double near_share;      // 0.97 of it: memory is near its end
    bool adaptive;
    int64_t initial_batch; // adaptive: to begin with; 0: batch
    int64_t most_batch;    // adaptive: 0: the whole effective batch of a rank
    double threshold;      // 0.9 of the capacity: a larger batch must be predicted below it
    double factor;         // 1.2: a larger batch is at least so many times larger
};
struct recover_rules recover_rules_default(void);
// FAIL_USAGE: rules that cannot be followed (recover without accumulation and without a rule for
// the learning rate, a factor below 1, …), with a hint that names the option.
int recover_check(const struct recover_rules *rules, struct fail *why);
// May a log begun under `begun` be continued under `now`? FAIL_INPUT: what the learning sees has
// changed in between (batch, ranks, learning rate); says which.
int recover_agree(const struct recover_rules *begun, const struct recover_rules *now,
                  struct fail *why);

// The batch of one rank and step, its accumulation and its learning rate.
struct recover_size {
    int64_t batch, accumulation;
    double lr; // NaN: not known
};
// The size for a batch that the rules allow.
struct recover_size recover_size_of(const struct recover_rules *rules, int64_t batch);
// Does the size keep what must be kept: the effective batch, or the accumulation that cannot
// change?
bool recover_size_fits(const struct recover_rules *rules, struct recover_size size);
// The size that an adaptive run, or another, begins with.
struct recover_size recover_size_first(const struct recover_rules *rules);
// The largest allowed batch that is not above `most`; 0: there is none.
int64_t recover_batch_below(const struct recover_rules *rules, int64_t most);
// The smallest allowed batch that is not below `least`; 0: there is none.
int64_t recover_batch_above(const struct recover_rules *rules, int64_t least);

// A checkpoint as the disk has it. `written` tells one writing of a path from the next: its
// modification time in ns. The samples that it holds come from the log.
struct recover_file {
    struct str path;
    int64_t written;
};
bool recover_file_is(struct recover_file a, struct recover_file b); // the same, as it was
struct recover_checkpoint {
    struct recover_file file;
    int64_t samples; // -1: not known
    bool is_passed_over;
};
struct recover_peak {
    int64_t batch, bytes;
};
enum { RECOVER_PEAKS_MAX = 64, RECOVER_CHECKPOINTS_MAX = 4096 };

enum recover_action { RECOVER_DONE, RECOVER_START, RECOVER_GIVE_UP };
enum recover_phase {
    RECOVER_FRESH,
    RECOVER_RUNNING,
    RECOVER_ENDED,
    RECOVER_DECIDED,
    RECOVER_FINISHED
};

// Changed by recover_apply only. Counts are of this run, over all its calls.
struct recover_state {
    struct arena *arena;
    enum recover_phase phase;
    struct recover_size size;   // of the attempt that runs or comes next
    struct recover_size wanted; // asked for by recover_adapt, not taken yet; batch 0: none
    int64_t attempt;            // number of the newest, from 1; 0: none
    int64_t restarts;           // starts after the first one
    int64_t counted;            // of them those that count against max_restarts
    int64_t samples;      // that count toward the model: at the newest start, then at its end; -1
    int64_t samples_best; // the most of any attempt
    int64_t best_before;  // … before the newest one
    int64_t failed_batch; // the least that ran out of memory or came near; 0: none
    int64_t fruitless;    // ends in a row at one batch that gained nothing
    uint64_t crash;       // signature and exception of the last crash since the last gain; 0
    struct recover_peak peaks[RECOVER_PEAKS_MAX];
    int peak_count;
    struct recover_checkpoint *checkpoints; // as they were written
    ptrdiff_t checkpoint_count, checkpoint_capacity;
    struct recover_file resumed; // by the newest attempt; empty path: none
    // The newest end, as its event told it.
    enum failure_class end;
    struct str ending; // id of the signature: "cuda-oom"
    int64_t status, steps;
    bool is_gain, is_repeated; // it got further than any before; it is the last crash again
    // The newest decision.
    enum recover_action action;
    struct str why;
};

// What comes next. `why` and `hint` are for people, in the arena.
struct recover_decision {
    enum recover_action action;
    int64_t status; // that batchfit ends with, unless RECOVER_START
    struct recover_size size;
    double delay_s;
    struct recover_file checkpoint;  // to resume; empty path: from the beginning (or by itself)
    int64_t samples;                 // that it holds; -1: not known
    struct recover_file passed_over; // found bad just now; empty path: none
    bool is_counted;                 // against max_restarts
    struct str why, hint;
};
// Called before the first start, after each end, and when a log is continued. `files`: what is
// there to resume, the newest first; those passed over may be among them. (Before the first start:
// none, unless the user wants to go on from what is there.)
struct recover_decision recover_next(struct arena *a, const struct recover_rules *rules,
                                     const struct recover_state *state,
                                     const struct recover_file *files, ptrdiff_t count);
// Samples that the file holds: -1 where the log does not know this writing of it.
int64_t recover_samples_of(const struct recover_state *state, struct recover_file file);

// What a running attempt shows. -1 where not known.
struct recover_sight {
    int64_t peak_bytes;  // at the present batch alone: what counts against the capacity
    int64_t retry_steps; // steps of this attempt in which the allocator had to try again
    // The predicted peak of a batch, -1: not known. May be NULL.
    int64_t (*forecast)(void *context, int64_t batch);
    void *forecast_context;
};
// Memory is near its end: worth a word in the log, and recover_adapt at the next checkpoint.
bool recover_is_near(const struct recover_rules *rules, const struct recover_sight *sight);
// At a checkpoint or an epoch's end: should it go on with another batch? True: *ret_size and
// *ret_why; append the event `adapt` (taken: false), then either let the program take it (and
// append `adapt` with taken: true when it says so) or stop it and append its end as
// FAILURE_ASKED.
bool recover_adapt(struct arena *a, const struct recover_rules *rules,
                   const struct recover_state *state, const struct recover_sight *sight,
                   struct recover_size *ret_size, struct str *ret_why);
// The peak of `batch` as predicted from the measured ones; -1: nothing was measured.
int64_t recover_predict(const struct recover_state *state, int64_t batch);

// The event log of a run (doc/formats/run-log.md): what happened and what was decided, one JSON
// object a line. An event is on the disk before it is acted on; whoever finds the log of a run that
// was killed knows its state.

enum recover_event_kind {
    RECOVER_BEGIN,      // rules, command, config, folder
    RECOVER_STARTED,    // attempt, size, file (resumed), samples
    RECOVER_CHECKPOINT, // file, samples, peak_bytes
    RECOVER_END,        // end, ending, exception, status, steps, samples, peak_bytes
    RECOVER_DECIDE,     // action, size, delay_s, file (passed over), is_counted, status, why
    RECOVER_ADAPT,      // size, is_taken, peak_bytes (of the batch before), why
    RECOVER_FINISH,     // status, restarts, size, samples
};

// Numbers -1, NaN and texts empty where not known (recover_event_of).
struct recover_event {
    enum recover_event_kind kind;
    double t_s; // since 1970
    struct recover_rules rules;
    struct str_list command;
    struct str config, folder;
    int64_t attempt, samples, steps, status, restarts, peak_bytes;
    struct recover_size size;
    struct recover_file file;
    enum failure_class end;
    enum recover_action action;
    struct str ending, exception, why;
    double delay_s;
    bool is_counted, is_taken;
};
struct recover_event recover_event_of(enum recover_event_kind kind);
struct recover_event recover_started(const struct recover_state *state,
                                     const struct recover_decision *decision);
struct recover_event recover_decided(const struct recover_decision *decision);
struct recover_event recover_finished(const struct recover_state *state,
                                      const struct recover_decision *decision);

void recover_apply(struct recover_state *state, const struct recover_event *event);

// One line with its end. Texts that are no UTF-8 lose what is not.
struct str recover_event_line(struct arena *a, const struct recover_event *event);

struct recover_log {
    struct recover_event *events; // the first is RECOVER_BEGIN
    ptrdiff_t count, capacity;
    int64_t whole_bytes; // of the text; what stands behind is a torn line: cut the file there
    bool is_torn, is_finished;
};
// FAIL_INPUT: a broken line (its number is told), a newer version, a log without its beginning.
// A text without one whole line is an empty log: count 0.
int recover_log_read(struct arena *a, struct str text, struct recover_log *ret_log,
                     struct fail *why);
// The state after all of them.
void recover_replay(struct arena *a, const struct recover_log *log,
                    struct recover_state *ret_state);
