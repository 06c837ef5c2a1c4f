// SPDX-License-Identifier: Apache-2.0
// The state of a run as the sum of its events. Nothing else changes it, so a log that was cut
// anywhere gives the state that the run had there.
#include "measure/recover/recover.h"

#include "base/unit.h"

#include <ctype.h>
#include <string.h>

// Peaks of one batch: the largest counts.
static void add_peak(struct recover_state *s, int64_t batch, int64_t bytes) {
    int i = 0;
    if (bytes <= 0 || batch <= 0) return;
    while (i < s->peak_count && s->peaks[i].batch != batch) i++;
    if (i == RECOVER_PEAKS_MAX) return;
    if (i == s->peak_count) s->peaks[s->peak_count++] = (struct recover_peak){batch, 0};
    unit_keep_most(&s->peaks[i].bytes, bytes);
}

static void add_failed(struct recover_state *s, int64_t batch) {
    if (s->failed_batch == 0 || batch < s->failed_batch) s->failed_batch = batch;
}

static ptrdiff_t find_path(const struct recover_state *s, struct str path) {
    ptrdiff_t i = s->checkpoint_count - 1;
    while (i >= 0 && !str_equal(s->checkpoints[i].file.path, path)) i--;
    return i;
}

static void remove_checkpoint(struct recover_state *s, ptrdiff_t at) {
    s->checkpoint_count--;
    memmove(&s->checkpoints[at], &s->checkpoints[at + 1],
            (size_t)(s->checkpoint_count - at) * sizeof *s->checkpoints);
}

// A path that is written again is another checkpoint; its text is kept once.
static struct recover_checkpoint *add_checkpoint(struct recover_state *s,
                                                 struct recover_file file) {
    ptrdiff_t at = find_path(s, file.path);
    struct str path = at >= 0 ? s->checkpoints[at].file.path : str_copy(s->arena, file.path);
    if (at < 0 && s->checkpoint_count == RECOVER_CHECKPOINTS_MAX) at = 0;
    if (at >= 0) remove_checkpoint(s, at);
    struct recover_checkpoint *c =
        arena_push(s->arena, &s->checkpoints, &s->checkpoint_count, &s->checkpoint_capacity);
    *c = (struct recover_checkpoint){.file = {path, file.written}, .samples = -1};
    return c;
}

static void pass_over(struct recover_state *s, struct recover_file file) {
    ptrdiff_t at = find_path(s, file.path);
    if (at >= 0 && s->checkpoints[at].file.written == file.written) {
        s->checkpoints[at].is_passed_over = true;
    } else {
        add_checkpoint(s, file)->is_passed_over = true;
    }
}

// The same fault at another address, in another process or sample reads the same.
static uint64_t crash_of(const struct recover_event *e) {
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    buf_format(&b, "%.*s:", STR_ARG(e->ending));
    for (ptrdiff_t i = 0; i < e->exception.len; i++) {
        char c = e->exception.p[i];
        bool is_digit = isxdigit((unsigned char)c) &&
                        (isdigit((unsigned char)c) || b.items[b.count - 1] == '#');
        if (!is_digit) buf_byte(&b, c);
        if (is_digit && b.items[b.count - 1] != '#') buf_byte(&b, '#');
    }
    uint64_t hash = str_hash(buf_str(&b));
    return hash ? hash : 1;
}

static void on_begin(struct recover_state *s, const struct recover_event *e) {
    *s = (struct recover_state){.arena = s->arena,
                                .size = recover_size_first(&e->rules),
                                .end = FAILURE_UNKNOWN,
                                .status = -1};
}

static void on_started(struct recover_state *s, const struct recover_event *e) {
    s->phase = RECOVER_RUNNING;
    s->restarts += s->attempt > 0;
    s->attempt = e->attempt;
    s->size = e->size;
    s->wanted.batch = 0;
    s->resumed = (struct recover_file){str_copy(s->arena, e->file.path), e->file.written};
    s->samples = e->samples;
    unit_keep_most(&s->samples_best, s->samples);
    s->best_before = s->samples_best;
}

static void on_checkpoint(struct recover_state *s, const struct recover_event *e) {
    add_checkpoint(s, e->file)->samples = e->samples;
    unit_keep_most(&s->samples_best, e->samples);
    add_peak(s, s->size.batch, e->peak_bytes);
}

static void on_end(struct recover_state *s, const struct recover_event *e) {
    s->phase = RECOVER_ENDED;
    s->end = e->end;
    s->ending = str_copy(s->arena, e->ending);
    s->status = e->status;
    s->steps = e->steps;
    s->samples = e->samples;
    s->is_gain = e->samples >= 0 ? e->samples > s->best_before : e->steps > 0;
    unit_keep_most(&s->samples_best, e->samples);
    uint64_t crash = e->end == FAILURE_CRASH ? crash_of(e) : 0;
    s->is_repeated = crash != 0 && crash == s->crash && !s->is_gain;
    if (crash != 0 || s->is_gain) s->crash = crash;
    s->fruitless = s->is_gain ? 0 : s->fruitless + 1;
    // What ran out of memory had a peak that was not reached.
    if (e->end == FAILURE_MEMORY) {
        add_failed(s, s->size.batch);
    } else {
        add_peak(s, s->size.batch, e->peak_bytes);
    }
}

static void change_size(struct recover_state *s, struct recover_size size) {
    if (size.batch != s->size.batch) s->fruitless = 0;
    s->size = size;
    s->wanted.batch = 0;
}

static void on_decide(struct recover_state *s, const struct recover_event *e) {
    s->phase = RECOVER_DECIDED;
    s->action = e->action;
    s->why = str_copy(s->arena, e->why);
    s->counted += e->is_counted;
    if (e->status >= 0) s->status = e->status;
    if (e->file.path.len > 0) pass_over(s, e->file);
    if (e->action == RECOVER_START) change_size(s, e->size);
}

// What memory was too small for counts as failed: no growing back into it.
static void on_adapt(struct recover_state *s, const struct recover_event *e) {
    add_peak(s, s->size.batch, e->peak_bytes);
    if (e->size.batch < s->size.batch) add_failed(s, s->size.batch);
    if (e->is_taken) {
        change_size(s, e->size);
    } else {
        s->wanted = e->size;
    }
}

static void on_finish(struct recover_state *s, const struct recover_event *e) {
    s->phase = RECOVER_FINISHED;
    if (e->status >= 0) s->status = e->status;
}

static void (*const on_event[])(struct recover_state *s, const struct recover_event *e) = {
    [RECOVER_BEGIN] = on_begin,           [RECOVER_STARTED] = on_started,
    [RECOVER_CHECKPOINT] = on_checkpoint, [RECOVER_END] = on_end,
    [RECOVER_DECIDE] = on_decide,         [RECOVER_ADAPT] = on_adapt,
    [RECOVER_FINISH] = on_finish,
};

void recover_apply(struct recover_state *state, const struct recover_event *event) {
    on_event[event->kind](state, event);
}

void recover_replay(struct arena *a, const struct recover_log *log,
                    struct recover_state *ret_state) {
    *ret_state = (struct recover_state){.arena = a};
    for (ptrdiff_t i = 0; i < log->count; i++) recover_apply(ret_state, &log->events[i]);
}

int64_t recover_samples_of(const struct recover_state *state, struct recover_file file) {
    ptrdiff_t at = find_path(state, file.path);
    if (at < 0 || state->checkpoints[at].file.written != file.written) return -1;
    return state->checkpoints[at].samples;
}
