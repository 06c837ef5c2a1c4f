// SPDX-License-Identifier: Apache-2.0
// Checkpoints by the program's own word (steps protocol, event `checkpoint`), where no template
// names them: what is whole goes into the log, with the samples of the steps that it holds. No time
// of a file is asked, so a clock that jumps moves nothing.
#include "verbs/run/run.h"

// True: it is on the disk.
static bool log_save(struct run_watch *w, const struct steps *s, const struct step_save *save) {
    struct recover_file file;
    run_save_logged(w, save);
    if (!run_file_at(save->path, &file)) return false; // removed since, or renamed
    run_log_checkpoint(w, file, run_samples_after(w, s, save->rank, save->row, save->samples));
    return true;
}

// The oldest that is not in the log yet.
static const struct step_save *next_save(const struct run_watch *w, const struct steps *s,
                                         enum step_save_trust least, bool is_last) {
    const struct step_save *next = NULL;
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *save = &s->saves[i];
        if ((next && save->number > next->number) || run_save_is_logged(w, save)) continue;
        if (steps_save_trust(s, save, is_last) >= least) next = save;
    }
    return next;
}

static bool log_all(struct run_watch *w, const struct steps *s, enum step_save_trust least,
                    bool is_last) {
    const struct step_save *save;
    bool is_any = false;
    while ((save = next_save(w, s, least, is_last))) is_any |= log_save(w, s, save);
    return is_any;
}

// Something was added to the newest one, a folder, after it was whole: its time is another one.
static void log_again(struct run_watch *w, const struct steps *s) {
    const struct step_save *newest = NULL;
    struct recover_file file;
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *save = &s->saves[i];
        bool is_later = !newest || save->number > newest->number;
        if (is_later && run_save_is_logged(w, save) &&
            steps_save_trust(s, save, true) == STEPS_SAVE_SURE)
            newest = save;
    }
    bool is_there = newest && run_file_at(newest->path, &file);
    if (is_there && !run_files_logged(&w->run->state, file)) log_save(w, s, newest);
}

// A checkpoint that could not be saved: the training may go on, and its user must know.
void run_told_warn(struct run_watch *w, const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->save_count && !w->has_warned_unsaved; i++) {
        const struct step_save *save = &s->saves[i];
        if (save->state != STEPS_SAVE_BAD || save->error.len == 0) continue;
        struct str error = save->error, line = str_line(&error);
        w->has_warned_unsaved = true;
        run_say("%.*s could not be saved and does not count as a checkpoint: %.*s",
                STR_ARG(save->path), STR_ARG(line));
    }
}

static void keep_torn(struct run *r, const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *save = &s->saves[i];
        bool is_torn = save->state == STEPS_SAVE_BEGUN ||
                       (save->state == STEPS_SAVE_BAD && save->error.len > 0);
        if (is_torn) run_file_torn(r, save->path);
    }
}

bool run_told_look(struct run_watch *w, const struct steps *s, bool is_last) {
    ARENA_AUTO scratch = {0};
    struct run *r = w->run;
    bool is_new = false;
    if (is_last) keep_torn(r, s);
    if (!r->o->checkpoint) {
        is_new = log_all(w, s, STEPS_SAVE_SURE, is_last);
        if (is_last) log_again(w, s);
        if (is_last && run_files_usable(r, &scratch).count == 0) {
            is_new |= log_all(w, s, STEPS_SAVE_MAYBE, is_last);
        }
    }
    for (ptrdiff_t i = 0; i < s->save_count && is_last; i++) {
        r->has_said_checkpoint |= steps_save_trust(s, &s->saves[i], is_last) > STEPS_SAVE_NO;
    }
    return is_new;
}
