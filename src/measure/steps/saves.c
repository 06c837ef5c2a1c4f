// SPDX-License-Identifier: Apache-2.0
// Which checkpoints are whole, by what the program says of them. A path has one state: begun, ended
// or bad; what a word does to it is a row of `words`. Files that are saved one by one into a folder
// that was made for them are a guess until the program goes on: then they were one file, or it has
// said that the folder is the checkpoint.
#include "measure/steps/steps_int.h"

#include "base/os.h"
#include "base/out.h"

#include <string.h>

const struct step *steps_step_of(const struct steps *s, int rank, int64_t made) {
    for (ptrdiff_t i = s->count - 1; i >= 0; i--) {
        if (s->items[i].rank == rank && s->items[i].rank_steps == made) return &s->items[i];
    }
    return NULL;
}

static struct step_save *find(const struct steps *s, struct str path) {
    for (ptrdiff_t i = s->save_count - 1; i >= 0; i--) {
        if (str_equal(s->saves[i].path, path)) return &s->saves[i];
    }
    return NULL;
}

static struct step_save *save_at(struct steps *s, struct str path) {
    struct step_save *known = find(s, path);
    if (known) return known;
    if (s->save_count == STEP_SAVES_MAX) { // the older half is in run's log
        s->save_count -= STEP_SAVES_MAX / 2;
        memmove(s->saves, s->saves + STEP_SAVES_MAX / 2, (size_t)s->save_count * sizeof *s->saves);
    }
    struct step_save *save = arena_push(s->arena, &s->saves, &s->save_count, &s->save_capacity);
    *save = (struct step_save){
        .path = str_of(str_z(s->arena, path)), .row = -1, .samples = -1, .ranks = 1};
    return save;
}

// --- What is said --------------------------------------------------------------------------------

// Lines of steps may come late (CUDA): then their samples are asked for when they are wanted.
static void see_row(struct steps *s, struct step_save *save, const struct step_rank *r,
                    const struct steps_save_word *word) {
    save->rank = r->rank;
    save->row = word->is_background ? -1 : word->step >= 0 ? word->step : r->steps;
    const struct step *step = steps_step_of(s, r->rank, save->row);
    save->samples = save->row == r->steps ? r->samples : step ? step->rank_samples : -1;
}

static void on_begin(struct steps *s, const struct step_rank *r,
                     const struct steps_save_word *word) {
    struct step_save *save = save_at(s, word->path);
    bool is_same = word->step >= 0 && save->row == word->step;
    if (!is_same || (save->open == 0 && save->ended >= save->ranks)) { // else another rank joins
        save->open = save->ended = save->parts = 0;
        save->error = save->folder = (struct str){0};
        save->is_guess = save->is_of_files = false;
        save->began_s = word->at_s;
        save->ranks = word->ranks > 1 ? word->ranks : 1;
        see_row(s, save, r, word);
    }
    save->open++;
    save->state = STEPS_SAVE_BEGUN;
    save->number = ++s->save_number;
}

// Files that go into a folder of their own, one by one.
static void count_part(struct steps *s, const struct step_rank *r,
                       const struct steps_save_word *word) {
    struct step_save *folder = save_at(s, word->folder);
    bool is_known = folder->number > 0 && !folder->is_of_files; // that was told by itself
    if (is_known || (folder->state == STEPS_SAVE_BAD && folder->is_of_files)) return;
    int64_t row = folder->row;
    see_row(s, folder, r, word);
    if (!folder->is_guess || folder->row != row) {
        folder->parts = 0;
        folder->began_s = word->at_s;
    }
    folder->is_guess = folder->is_of_files = true;
    folder->state = STEPS_SAVE_ENDED;
    folder->end_s = word->at_s;
    folder->parts++;
    folder->number = ++s->save_number;
}

// A file that is saved later into what was taken for one checkpoint: its files are some themselves.
static void refute_folder(struct steps *s, const struct step_save *file) {
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        struct step_save *folder = &s->saves[i];
        bool is_refuted = folder->is_of_files && folder->row < file->row;
        if (is_refuted && os_is_below(file->path, folder->path)) folder->state = STEPS_SAVE_BAD;
    }
}

static void on_end(struct steps *s, const struct step_rank *r, const struct steps_save_word *word) {
    struct step_save *save = save_at(s, word->path);
    if (save->open == 0) { // whose beginning was not heard
        save->began_s = save->began_s > 0 && save->is_guess ? save->began_s : word->at_s;
        save->ended = 0;
        see_row(s, save, r, word);
    }
    if (save->open > 0) save->open--;
    save->ended++;
    save->end_s = word->at_s;
    save->is_guess = false;
    save->is_of_files = word->is_of_files;
    save->is_file = word->is_file;
    save->number = ++s->save_number;
    save->state = save->error.len > 0 ? STEPS_SAVE_BAD
                  : save->open > 0    ? STEPS_SAVE_BEGUN
                                      : STEPS_SAVE_ENDED;
    save->folder = (struct str){0};
    if (word->folder.len == 0) {
        refute_folder(s, save);
        return;
    }
    save->folder = str_copy(s->arena, word->folder);
    count_part(s, r, word);
}

static void on_failed(struct steps *s, const struct step_rank *r,
                      const struct steps_save_word *word) {
    struct step_save *save = save_at(s, word->path);
    if (save->open == 0) see_row(s, save, r, word);
    if (save->open > 0) save->open--;
    save->ended++; // of a single rank: what begins next is another try
    save->state = STEPS_SAVE_BAD;
    save->error = clean_short(s->arena, word->error.len > 0 ? word->error : STR("?"), 400);
    save->number = ++s->save_number;
}

static struct str moved(struct steps *s, struct str path, const struct steps_save_word *word) {
    struct str rest = str_slice(path, word->from.len, path.len);
    return str_format(s->arena, "%.*s%.*s", STR_ARG(word->path), STR_ARG(rest));
}

static void on_renamed(struct steps *s, const struct step_rank *r,
                       const struct steps_save_word *word) {
    struct step_save *target = find(s, word->path);
    (void)r;
    if (word->from.len == 0 || str_equal(word->from, word->path)) return;
    if (target && find(s, word->from)) { // it is another one from now on
        *target = s->saves[--s->save_count];
    }
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        struct step_save *save = &s->saves[i];
        bool is_it = str_equal(save->path, word->from);
        if (str_equal(save->folder, word->from)) save->folder = moved(s, save->folder, word);
        if (!is_it && !os_is_below(save->path, word->from)) continue;
        save->path = moved(s, save->path, word);
        save->end_s = word->at_s;
        save->number = ++s->save_number;
    }
}

static const struct {
    const char *state;
    void (*obey)(struct steps *s, const struct step_rank *r, const struct steps_save_word *word);
} words[] = {{"begin", on_begin}, {"end", on_end}, {"failed", on_failed}, {"renamed", on_renamed}};

void steps_save_said(struct steps *s, const struct step_rank *r,
                     const struct steps_save_word *word) {
    if (word->path.len == 0 || word->path.p[0] != '/') return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is(word->state, words[i].state)) words[i].obey(s, r, word);
    }
}

void steps_save_written(struct steps *s, const struct step_rank *r, struct str path,
                        const struct step_mark *mark) {
    if (path.len == 0 || path.p[0] != '/') return;
    struct step_save *save = save_at(s, path);
    save->state = STEPS_SAVE_ENDED;
    save->rank = r->rank;
    save->row = r->steps;
    save->samples = r->samples;
    save->ended = 1;
    save->end_s = mark->end_s;
    save->began_s = mark->end_s - (mark->ms >= 0 ? mark->ms / 1e3 : 0);
    save->number = ++s->save_number;
}

// --- What it comes to ----------------------------------------------------------------------------

const struct step_save *steps_save_find(const struct steps *s, struct str path) {
    return find(s, path);
}

static bool has_gone_on(const struct steps *s, const struct step_save *save) {
    for (ptrdiff_t i = s->rank_count - 1; i >= 0; i--) {
        const struct step_rank *r = &s->ranks[i];
        if (r->rank != save->rank) continue;
        return r->state == STEPS_RANK_ENDED_WELL || (save->row >= 0 && r->steps > save->row);
    }
    return false;
}

// A file in a folder that is a checkpoint itself is a part of that.
static bool is_part(const struct steps *s, const struct step_save *save) {
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *other = &s->saves[i];
        if (!os_is_below(save->path, other->path) || other->is_guess) continue;
        if (!other->is_of_files || other->state == STEPS_SAVE_ENDED) return true;
    }
    return false;
}

static bool has_open_part(const struct steps *s, const struct step_save *folder) {
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *part = &s->saves[i];
        if (os_is_below(part->path, folder->path) && part->state != STEPS_SAVE_ENDED) return true;
    }
    return false;
}

// As much as in another one of which all is known to be there.
static bool has_as_many(const struct steps *s, const struct step_save *folder) {
    for (ptrdiff_t i = 0; i < s->save_count; i++) {
        const struct step_save *other = &s->saves[i];
        bool is_whole = other->is_of_files && !other->is_guess && other->state == STEPS_SAVE_ENDED;
        if (is_whole && other->parts > 1) return folder->parts >= other->parts;
    }
    return false;
}

// Of files that may belong together: the folder, when there are several; else the file.
static enum step_save_trust trust_guess(const struct steps *s, const struct step_save *save,
                                        bool is_ended) {
    if (save->is_guess) {
        bool is_good = is_ended && has_as_many(s, save) && !has_open_part(s, save);
        return is_good ? STEPS_SAVE_MAYBE : STEPS_SAVE_NO;
    }
    const struct step_save *folder = find(s, save->folder);
    if (folder && (folder->parts > 1 || has_open_part(s, folder))) return STEPS_SAVE_NO;
    if (has_gone_on(s, save)) return STEPS_SAVE_SURE;
    return is_ended ? STEPS_SAVE_MAYBE : STEPS_SAVE_NO;
}

// Who speaks for the checkpoints: a framework before a folder, a folder before a single file. What
// else a training saves then, its model at the end, is none.
static int level_of(const struct step_save *save) {
    return save->is_file ? 0 : save->is_of_files ? 1 : 2;
}

static bool is_outspoken(const struct steps *s, const struct step_save *save) {
    for (ptrdiff_t i = 0; i < s->save_count && level_of(save) < 2; i++) {
        const struct step_save *other = &s->saves[i];
        bool is_known = other->state == STEPS_SAVE_ENDED && !other->is_guess;
        if (is_known && level_of(other) > level_of(save)) return true;
    }
    return false;
}

enum step_save_trust steps_save_trust(const struct steps *s, const struct step_save *save,
                                      bool is_ended) {
    if (save->state != STEPS_SAVE_ENDED || is_part(s, save)) return STEPS_SAVE_NO;
    if (is_outspoken(s, save)) return STEPS_SAVE_NO;
    if (save->is_guess || save->folder.len > 0) return trust_guess(s, save, is_ended);
    if (save->ended >= save->ranks || has_gone_on(s, save)) return STEPS_SAVE_SURE;
    return is_ended ? STEPS_SAVE_MAYBE : STEPS_SAVE_NO;
}
