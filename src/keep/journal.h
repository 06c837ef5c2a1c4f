// SPDX-License-Identifier: Apache-2.0
// The event log of a run (doc/formats/run-log.md): what happened and what was decided, one JSON
// object a line. An event is on the disk before it is acted on; whoever finds the log of a run that
// was killed knows its state.
#ifndef KEEP_JOURNAL_H
#define KEEP_JOURNAL_H

#include "keep/keep.h"

enum keep_event_kind {
    KEEP_BEGIN,      // rules, command, config, folder
    KEEP_STARTED,    // attempt, size, file (resumed), samples
    KEEP_CHECKPOINT, // file, samples, peak_bytes
    KEEP_END,        // end, ending, exception, status, steps, samples, peak_bytes
    KEEP_DECIDE,     // action, size, delay_s, file (passed over), is_counted, status, why
    KEEP_ADAPT,      // size, is_taken, peak_bytes (of the batch before), why
    KEEP_FINISH,     // status, restarts, size, samples
};

// Numbers -1, NaN and texts empty where not known (keep_event_of).
struct keep_event {
    enum keep_event_kind kind;
    double t_s; // since 1970
    struct keep_rules rules;
    struct str_list command;
    struct str config, folder;
    int64_t attempt, samples, steps, status, restarts, peak_bytes;
    struct keep_size size;
    struct keep_file file;
    enum ending_kind end;
    enum keep_action action;
    struct str ending, exception, why;
    double delay_s;
    bool is_counted, is_taken;
};
struct keep_event keep_event_of(enum keep_event_kind kind);
struct keep_event keep_started(const struct keep_state *state,
                               const struct keep_decision *decision);
struct keep_event keep_decided(const struct keep_decision *decision);
struct keep_event keep_finished(const struct keep_state *state,
                                const struct keep_decision *decision);

void keep_apply(struct keep_state *state, const struct keep_event *event);

// One line with its end. Texts that are no UTF-8 lose what is not.
struct str keep_event_line(struct arena *a, const struct keep_event *event);

struct keep_log {
    struct keep_event *events; // the first is KEEP_BEGIN
    ptrdiff_t count, capacity;
    int64_t whole_bytes; // of the text; what stands behind is a torn line: cut the file there
    bool is_torn, is_finished;
};
// FAIL_INPUT: a broken line (its number is told), a newer version, a log without its beginning.
// A text without one whole line is an empty log: count 0.
int keep_log_read(struct arena *a, struct str text, struct keep_log *ret_log, struct fail *why);
// The state after all of them.
void keep_replay(struct arena *a, const struct keep_log *log, struct keep_state *ret_state);

#endif
