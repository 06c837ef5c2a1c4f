// SPDX-License-Identifier: Apache-2.0
// Checkpoints: which files the template matches (or the program says that it wrote), and how many
// samples each holds. A program that tells of its checkpoints (steps protocol, event phase) does so
// when one is written; a file that was written before it told belongs to the steps before that.
// Where nothing is told, the file's time is held against those of the steps. A time that is not of
// this attempt (a clock of 1970, of another machine) says nothing: then what was told of the path
// counts, else nothing is known.
#include "verbs/run/run.h"

#include "base/os.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
enum { OLD_MS = 1000, SETTLED_MS = 5000 };
static const double slack_s = 1; // between a program's clock reading and its line

// Newest first; of the same moment the one that sorts last: ckpt-20 after ckpt-9.
static int compare(const void *a, const void *b) {
    const struct recover_file *x = a, *y = b;
    if (x->written != y->written) return x->written < y->written ? 1 : -1;
    return strverscmp(y->path.p, x->path.p);
}

// A folder into which files were saved one by one later was none; and the files that were in the
// log before it was known for one are parts of it.
static bool is_refuted(const struct recover_state *s, ptrdiff_t at) {
    struct str path = s->checkpoints[at].file.path;
    for (ptrdiff_t i = at + 1; i < s->checkpoint_count; i++) {
        struct str later = s->checkpoints[i].file.path;
        if (os_is_below(later, path) || os_is_below(path, later)) return true;
    }
    return false;
}

// What the template matches; without one, what the log has. Each ends with a NUL.
static struct str_list paths_of(struct run *r, struct arena *a) {
    struct str_list paths = {0};
    glob_t found = {0};
    for (ptrdiff_t i = 0; !r->o->checkpoint && i < r->state.checkpoint_count; i++) {
        if (is_refuted(&r->state, i)) continue;
        str_list_add(a, &paths, str_copy(a, r->state.checkpoints[i].file.path));
    }
    if (!r->o->checkpoint || glob(r->o->checkpoint, GLOB_NOSORT, NULL, &found) != 0) return paths;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        str_list_add(a, &paths, str_copy(a, str_of(found.gl_pathv[i])));
    }
    globfree(&found);
    return paths;
}

struct run_files run_files_find(struct run *r, struct arena *a) {
    struct run_files files = {0};
    struct str_list paths = paths_of(r, a);
    files.items = arena_new(a, struct recover_file, paths.count + 1);
    for (ptrdiff_t i = 0; i < paths.count; i++) { // some may be gone in between
        files.count += run_file_at(paths.items[i], &files.items[files.count]);
    }
    if (files.count > 1) {
        qsort(files.items, (size_t)files.count, sizeof *files.items, compare);
    }
    return files;
}

static bool is_among(struct run_files files, struct recover_file file) {
    for (ptrdiff_t i = 0; i < files.count; i++) {
        if (recover_file_is(files.items[i], file)) return true;
    }
    return false;
}

bool run_files_logged(const struct recover_state *s, struct recover_file file) {
    ptrdiff_t i = s->checkpoint_count - 1;
    while (i >= 0 && !recover_file_is(s->checkpoints[i].file, file)) i--;
    return i >= 0;
}

void run_file_torn(struct run *r, struct str path) {
    struct recover_file file;
    if (!run_file_at(path, &file)) return;
    file.path = str_copy(r->arena, path);
    *arena_push(r->arena, &r->torn.items, &r->torn.count, &r->torn_capacity) = file;
}

// torch.save's files are zip archives, whose end is written last: a record of 22 bytes and a
// comment (APPNOTE 4.3.16). What begins as one and has no such end was cut short.
static bool is_cut_short(struct str path) {
    enum { END_BYTES = 22, COMMENT_MAX = 0xffff };
    static char tail[END_BYTES + COMMENT_MAX];
    char head[4] = {0};
    struct stat st;
    int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_zip = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                  pread(fd, head, sizeof head, 0) == sizeof head && memcmp(head, "PK\3\4", 4) == 0;
    ssize_t got = 0;
    if (is_zip) {
        off_t at = st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0;
        got = pread(fd, tail, sizeof tail, at);
    }
    os_close(&fd);
    return is_zip && got >= 0 && !memmem(tail, (size_t)got, "PK\5\6", 4);
}

// What was there before the run is another run's.
static bool is_of_this_run(const struct run *r, struct recover_file file) {
    return file.written >=
           r->began_ns - NS_PER_S / 50; // file systems keep the time of the last tick
}

// The newest of what the log knows is what was told last, whatever the clock said then.
static void add_logged(const struct run *r, struct run_files all, struct run_files *usable) {
    for (ptrdiff_t at = r->state.checkpoint_count - 1; at >= 0; at--) {
        for (ptrdiff_t i = 0; i < all.count; i++) {
            if (recover_file_is(r->state.checkpoints[at].file, all.items[i])) {
                usable->items[usable->count++] = all.items[i];
                break;
            }
        }
    }
}

struct run_files run_files_usable(struct run *r, struct arena *a) {
    struct run_files all = run_files_find(r, a), usable = {0};
    // What it holds is not known: written when batchfit was being killed, or half. Whoever would
    // rather begin again is spared it.
    bool takes_unknown = !r->o->from_scratch || r->state.phase == RECOVER_FRESH;
    bool takes_newest = r->rules.takes_newest;
    usable.items = arena_new(a, struct recover_file, 2 * all.count + 1);
    if (!takes_newest) add_logged(r, all, &usable);
    for (ptrdiff_t i = 0; i < all.count; i++) {
        struct recover_file file = all.items[i];
        bool is_logged = run_files_logged(&r->state, file);
        bool is_ours = is_logged || r->o->resume || (takes_unknown && is_of_this_run(r, file));
        bool is_torn = is_among(r->torn, file) || (!is_logged && is_cut_short(file.path));
        if (!is_ours || (!takes_newest && (is_logged || is_torn))) continue;
        usable.items[usable.count++] = file;
    }
    return usable;
}

// --- Samples -------------------------------------------------------------------------------------

// When a step was surely over, as the file's clock has it: that is of the last tick, and a line may
// be read some time after it was written; programs save right behind a step, but hardly within its
// own second half.
static double over_s(const struct step *step) {
    double half_s = step->times.total_ms / 2000;
    return step->end_s - (half_s > 0 ? half_s : 0);
}

// Steps that `rank` had made when the file was written, by the times at which they ended.
static const struct step *step_before(const struct steps *s, int rank, double at_s) {
    for (ptrdiff_t i = s->count - 1; i >= 0; i--) {
        if (s->items[i].rank == rank && over_s(&s->items[i]) <= at_s) return &s->items[i];
    }
    return NULL;
}

int64_t run_samples_after(const struct run_watch *w, const struct steps *steps, int rank,
                          int64_t made, int64_t samples) {
    if (w->base < 0 || made < 0) return -1;
    samples = steps_samples_after(steps, rank, made, samples);
    if (samples < 0 && !w->has_changed && w->run->has_batch) { // the steps do not say
        samples = made * w->attempt.batch * w->attempt.accumulation * w->run->rules.ranks;
    }
    return samples < 0 ? -1 : w->base + samples;
}

static int64_t by_time(const struct run_watch *w, const struct steps *steps, int rank,
                       double at_s) {
    const struct step *step = step_before(steps, rank, at_s);
    if (step) return run_samples_after(w, steps, rank, step->rank_steps, step->rank_samples);
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

// As the emitter tells it: whole. The program's folder is ours.
static struct str as_told(struct arena *a, struct str path) {
    if (path.len > 0 && path.p[0] == '/') return path;
    struct str folder = run_folder(a);
    if (folder.len == 0) return folder;
    path = os_plain_path(path);
    return str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(path));
}

static const struct step_save *save_told(const struct steps *s, struct str path) {
    ARENA_AUTO scratch = {0};
    return steps_save_find(s, as_told(&scratch, path));
}

static bool is_of_attempt(const struct run_watch *w, double at_s) {
    double now_s = (double)os_wall_ns() * 1e-9, began_s = (double)w->began_ns * 1e-9;
    return at_s >= began_s - slack_s && at_s <= now_s + slack_s;
}

static bool has_time(const struct run_watch *w, struct recover_file file) {
    return is_of_attempt(w, (double)file.written * 1e-9);
}

// By the file's name, where it was told: file systems keep the time of the last tick, and small
// models save several times in one.
static bool is_of_telling(const struct run_watch *w, const struct step_save *save, double at_s) {
    if (!is_of_attempt(w, at_s) || !is_of_attempt(w, save->end_s)) return true;
    return at_s <= save->end_s && at_s >= save->began_s - slack_s;
}

// Samples that a file holds which this attempt has written (`is_old`: not just now); -1: not known;
// UNFINISHED: it may still be being written, or never was to its end.
enum { UNFINISHED = -2 };

static int64_t samples_of(const struct run_watch *w, const struct steps *steps,
                          struct recover_file file, bool is_old) {
    double at_s = (double)file.written * 1e-9;
    // Of what told no step, or tells no more, nobody knows how far it was.
    bool is_over = w->is_unseen || w->trial->has_status;
    const struct step_save *told = save_told(steps, file.path);
    bool is_open = told && (told->state == STEPS_SAVE_BEGUN || told->error.len > 0);
    if (is_open || is_cut_short(file.path)) return UNFINISHED;
    if (w->is_unseen || !steps_are_announced(steps)) return is_over ? -1 : UNFINISHED;
    if (steps_are_cut(steps)) return is_old ? -1 : UNFINISHED;
    if (told && told->ended < told->ranks && !is_old) return UNFINISHED;
    if (told && is_of_telling(w, told, at_s)) {
        return run_samples_after(w, steps, told->rank, told->row, told->samples);
    }
    if (!has_time(w, file)) return is_over ? -1 : UNFINISHED;
    if (!told && steps->save_count > 0 && !is_old) return UNFINISHED; // it may be told yet
    const struct step_mark *mark = mark_after(steps, at_s);
    if (mark) {
        double began_s = mark->end_s - (mark->ms >= 0 ? mark->ms / 1e3 : 0) - slack_s;
        if (at_s < began_s) return by_time(w, steps, mark->rank, at_s);
        return run_samples_after(w, steps, mark->rank, mark->steps, mark->samples);
    }
    if (steps->mark_count == 0) return is_old ? by_time(w, steps, 0, at_s) : UNFINISHED;
    mark = &steps->marks[(steps->mark_count - 1) % STEP_MARKS];
    const struct step *step = step_before(steps, mark->rank, at_s);
    bool is_same_one = !step || step->rank_steps <= mark->steps; // a later file of the checkpoint
    if (is_same_one && is_old) {
        return run_samples_after(w, steps, mark->rank, mark->steps, mark->samples);
    }
    return is_old && w->is_settled ? by_time(w, steps, mark->rank, at_s) : UNFINISHED;
}

// --- Into the log --------------------------------------------------------------------------------

void run_log_checkpoint(struct run_watch *w, struct recover_file file, int64_t samples) {
    struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
    e.file = file;
    e.samples = samples;
    e.peak_bytes = w->has_shrunk ? -1 : w->peak_bytes;
    run_log_add(w->run, e);
}

// True: it is in the log now.
static bool log_file(struct run_watch *w, const struct steps *s, struct recover_file file,
                     bool is_last) {
    int64_t age_ms = has_time(w, file) ? (os_wall_ns() - file.written) / 1000000 : 0;
    w->is_settled = age_ms >= SETTLED_MS;
    int64_t samples = samples_of(w, s, file, is_last || age_ms >= OLD_MS);
    if (samples == UNFINISHED) return false;
    run_log_checkpoint(w, file, samples);
    return true;
}

bool run_save_is_logged(const struct run_watch *w, const struct step_save *save) {
    for (ptrdiff_t i = w->told_count - 1; i >= 0; i--) {
        if (w->told[i] == save->number) return true;
    }
    return false;
}

void run_save_logged(struct run_watch *w, const struct step_save *save) {
    *arena_push(w->attempt.arena, &w->told, &w->told_count, &w->told_capacity) = save->number;
}

// A file whose time says nothing, and what was told of it.
struct untimed {
    struct recover_file file;
    const struct step_save *told;
};

static int compare_told(const void *a, const void *b) {
    const struct untimed *x = a, *y = b;
    return x->told->number < y->told->number ? -1 : x->told->number > y->told->number;
}

// In the order of the telling. A path that is written again may have the same time as before.
static bool log_untimed(struct run_watch *w, const struct steps *s, struct untimed *files,
                        ptrdiff_t count, bool is_last) {
    bool is_new = false;
    if (count > 1) qsort(files, (size_t)count, sizeof *files, compare_told);
    for (ptrdiff_t i = 0; i < count; i++) {
        if (run_save_is_logged(w, files[i].told)) continue;
        if (!log_file(w, s, files[i].file, is_last)) continue;
        run_save_logged(w, files[i].told);
        is_new = true;
    }
    return is_new;
}

// The oldest first.
bool run_files_look(struct run_watch *w, const struct steps *s, bool is_last) {
    ARENA_AUTO scratch = {0};
    struct run *r = w->run;
    struct run_files files = run_files_find(r, &scratch);
    struct untimed *untimed = arena_new(&scratch, struct untimed, files.count + 1);
    ptrdiff_t untimed_count = 0;
    bool is_new = false;
    for (ptrdiff_t i = files.count - 1; i >= 0; i--) {
        struct recover_file file = files.items[i];
        const struct step_save *told = has_time(w, file) ? NULL : save_told(s, file.path);
        bool is_known = is_among(w->before, file) || run_files_logged(&r->state, file);
        if (told && told->state == STEPS_SAVE_ENDED) {
            untimed[untimed_count++] = (struct untimed){file, told};
        } else if (!is_known) {
            is_new |= log_file(w, s, file, is_last);
        }
    }
    is_new |= log_untimed(w, s, untimed, untimed_count, is_last);
    if (is_last && s->mark_count > 0) r->has_said_checkpoint = true;
    return is_new;
}
