// SPDX-License-Identifier: Apache-2.0
// Checkpoints: which files the template matches (or the program says that it wrote), and how many
// samples each holds. A program that
// tells of its checkpoints (steps protocol, event phase) does so when one is written; a file that
// was written before it told belongs to the steps before that. Where nothing is told, the file's
// time is held against those of the steps.
#include "verbs/run/run.h"

#include "base/os.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
static const double slack_s = 1; // between a program's clock reading and its line

static int64_t written_ns(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

// Newest first; of the same moment the one that sorts last: ckpt-20 after ckpt-9.
static int compare(const void *a, const void *b) {
    const struct recover_file *x = a, *y = b;
    if (x->written != y->written) return x->written < y->written ? 1 : -1;
    return strverscmp(y->path.p, x->path.p);
}

static struct str ended(struct arena *a, struct str path) { // for stat and strverscmp
    return str_of(str_z(a, path));
}

// What the template matches; without one, what the program said that it wrote: in this attempt, or
// by the log.
static struct str_list paths_of(struct run *r, struct arena *a, const struct steps *s,
                                const struct run_folders *folders) {
    struct str_list paths = {0};
    glob_t found = {0};
    if (r->o->checkpoint) {
        if (glob(r->o->checkpoint, GLOB_NOSORT, NULL, &found) != 0) return paths;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            str_list_add(a, &paths, str_of(str_z(a, str_of(found.gl_pathv[i]))));
        }
        globfree(&found);
        return paths;
    }
    for (ptrdiff_t i = 0; !folders && i < r->state.checkpoint_count; i++) {
        bool is_one = !run_folders_refute(&r->state, i);
        if (is_one) str_list_add(a, &paths, ended(a, r->state.checkpoints[i].file.path));
    }
    for (ptrdiff_t i = 0; folders && i < s->path_count; i++) {
        struct str path = s->paths[i].path;
        if (run_folders_spare(r, folders, s, path)) str_list_add(a, &paths, path);
    }
    for (ptrdiff_t i = 0; folders && i < folders->count; i++) {
        if (folders->items[i].is_checkpoint) str_list_add(a, &paths, folders->items[i].path);
    }
    return paths;
}

struct run_files run_files_find(struct run *r, struct arena *a, const struct steps *s,
                                const struct run_folders *folders) {
    struct run_files files = {0};
    struct str_list paths = paths_of(r, a, s, folders);
    struct stat st;
    files.items = arena_new(a, struct recover_file, paths.count + 1);
    for (ptrdiff_t i = 0; i < paths.count; i++) {
        if (stat(paths.items[i].p, &st) < 0) continue; // gone in between
        files.items[files.count++] = (struct recover_file){paths.items[i], written_ns(&st)};
    }
    if (files.count > 1) {
        qsort(files.items, (size_t)files.count, sizeof *files.items, compare);
    }
    return files;
}

bool run_files_logged(const struct recover_state *s, struct recover_file file) {
    for (ptrdiff_t i = s->checkpoint_count - 1; i >= 0; i--) {
        const struct recover_file *f = &s->checkpoints[i].file;
        if (f->written == file.written && str_equal(f->path, file.path)) return true;
    }
    return false;
}

// What was there before the run is another run's.
static bool is_of_this_run(const struct run *r, struct recover_file file) {
    return file.written >=
           r->began_ns - NS_PER_S / 50; // file systems keep the time of the last tick
}

struct run_files run_files_usable(struct run *r, struct arena *a) {
    struct run_files all = run_files_find(r, a, NULL, NULL), usable = {0};
    // What it holds is not known: written when batchfit was being killed, or half. Whoever would
    // rather begin again is spared it.
    bool takes_unknown = !r->o->from_scratch || r->state.phase == RECOVER_FRESH;
    usable.items = arena_new(a, struct recover_file, all.count + 1);
    for (int pass = r->rules.takes_newest ? 0 : 1; pass >= 0; pass--) {
        for (ptrdiff_t i = 0; i < all.count; i++) {
            bool is_logged = run_files_logged(&r->state, all.items[i]);
            bool is_wanted = r->rules.takes_newest || is_logged == (pass == 1);
            bool is_ours =
                is_logged || r->o->resume || (takes_unknown && is_of_this_run(r, all.items[i]));
            if (is_wanted && is_ours) usable.items[usable.count++] = all.items[i];
        }
    }
    return usable;
}

// --- Samples -------------------------------------------------------------------------------------

// Steps that `rank` had made when the file was written, by the times at which they were read.
static const struct step *step_before(const struct steps *s, int rank, double at_s) {
    for (ptrdiff_t i = s->count - 1; i >= 0; i--) {
        if (s->items[i].rank == rank && s->items[i].read_s <= at_s) return &s->items[i];
    }
    return NULL;
}

static int64_t samples_after(const struct run_watch *w, const struct steps *steps, int rank,
                             int64_t made, int64_t samples) {
    if (w->base < 0) return -1;
    if (samples >= 0) {
        samples = steps_samples_after(steps, rank, made, samples);
    } else if (!w->has_changed) { // the steps do not say
        samples = made * w->attempt.batch * w->attempt.accumulation * w->run->rules.ranks;
    }
    return samples < 0 ? -1 : w->base + samples;
}

static int64_t by_time(const struct run_watch *w, const struct steps *steps, int rank,
                       double at_s) {
    const struct step *step = step_before(steps, rank, at_s);
    if (step) return samples_after(w, steps, rank, step->rank_steps, step->rank_samples);
    return steps->forgotten > 0 ? -1 : w->base;
}

// The first that was told after the file was written; NULL: none.
static const struct step_mark *mark_after(const struct steps *s, double at_s) {
    int64_t first = s->mark_count > STEP_MARKS ? s->mark_count - STEP_MARKS : 0;
    for (int64_t i = first; i < s->mark_count; i++) {
        const struct step_mark *m = &s->marks[i % STEP_MARKS];
        if (m->end_s >= at_s) return m;
    }
    return NULL;
}

int64_t run_folder_samples(const struct run_watch *w, const struct steps *steps,
                           const struct run_folder *f) {
    return samples_after(w, steps, f->first->rank, f->first->row, f->first->samples);
}

// As the emitter tells it: whole. The program's folder is ours.
static struct str as_told(struct arena *a, struct str path) {
    char folder[PATH_MAX];
    if (path.len > 0 && path.p[0] == '/') return path;
    if (!getcwd(folder, sizeof folder)) return (struct str){0};
    if (str_starts(path, STR("./"))) path = str_slice(path, 2, path.len);
    return str_format(a, "%s/%.*s", folder, STR_ARG(path));
}

static const struct step_path *path_told(const struct steps *s, struct str path) {
    ARENA_AUTO scratch = {0};
    path = as_told(&scratch, path);
    for (ptrdiff_t i = s->path_count - 1; i >= 0; i--) {
        if (str_equal(s->paths[i].path, path)) return &s->paths[i];
    }
    return NULL;
}

// By the file's name, where it was told: file systems keep the time of the last tick, and small
// models save several times in one.
static bool is_of_telling(const struct step_path *p, double at_s) {
    return at_s <= p->end_s && at_s >= p->began_s - slack_s;
}

int64_t run_files_samples(const struct run_watch *w, const struct steps *steps,
                          struct recover_file file, bool is_old) {
    double at_s = (double)file.written * 1e-9;
    // Of what told no step, or tells no more, nobody knows how far it was.
    bool is_over = w->is_unseen || w->trial->has_status;
    if (w->is_unseen || !steps_are_announced(steps)) return is_over ? -1 : RUN_UNFINISHED;
    if (steps_are_cut(steps)) return is_old ? -1 : RUN_UNFINISHED;
    const struct step_path *told = path_told(steps, file.path);
    if (told && is_of_telling(told, at_s)) {
        return samples_after(w, steps, told->rank, told->last_row, told->samples);
    }
    if (!told && steps->path_count > 0 && !is_old) return RUN_UNFINISHED; // it may be told yet
    const struct step_mark *mark = mark_after(steps, at_s);
    if (mark) {
        double began_s = mark->end_s - (mark->ms >= 0 ? mark->ms / 1e3 : 0) - slack_s;
        if (at_s < began_s) return by_time(w, steps, mark->rank, at_s);
        return samples_after(w, steps, mark->rank, mark->steps, mark->samples);
    }
    if (steps->mark_count == 0) return is_old ? by_time(w, steps, 0, at_s) : RUN_UNFINISHED;
    mark = &steps->marks[(steps->mark_count - 1) % STEP_MARKS];
    const struct step *step = step_before(steps, mark->rank, at_s);
    bool is_same = !step || step->rank_steps <= mark->steps; // a later file of the same checkpoint
    if (is_same && is_old) return samples_after(w, steps, mark->rank, mark->steps, mark->samples);
    return is_old && w->is_settled ? by_time(w, steps, mark->rank, at_s) : RUN_UNFINISHED;
}
