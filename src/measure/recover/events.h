// SPDX-License-Identifier: Apache-2.0
// The event log of a run (doc/formats/run-log.md): what happened and what was decided, one JSON
// object a line. An event is on the disk before it is acted on; whoever finds the log of a run that
// was killed knows its state.
#pragma once

#include "measure/recover/recover.h"

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
