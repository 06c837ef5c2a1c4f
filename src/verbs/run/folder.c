// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are folders of several files, where no template names them. What tells them from
// a folder into which a program saves its files over and over: all that went into it went there in
// one row, between two steps, and it was made for that. Its name has a number; without one, two
// files of a first checkpoint in a folder that was made late look the same. A folder like it beside
// it tells as much as its making: after a start from the beginning, the folder of a checkpoint is
// there already.
#include "verbs/run/run.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

enum { LOGGED_ASKED = 64 }; // the newest checkpoints of the log: each costs a look at the disk

static struct str folder_of(struct str path) {
    while (path.len > 0 && path.p[path.len - 1] != '/') path.len--;
    return str_slice(path, 0, path.len > 1 ? path.len - 1 : path.len);
}

static struct str name_of(struct str path) {
    struct str folder = folder_of(path);
    return str_slice(path, folder.len + (folder.len > 1), path.len);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool has_number(struct str name) {
    for (ptrdiff_t i = 0; i < name.len; i++) {
        if (is_digit(name.p[i])) return true;
    }
    return false;
}

static ptrdiff_t skip_number(struct str s, ptrdiff_t i) {
    while (i < s.len && is_digit(s.p[i])) i++;
    return i;
}

// Two paths in one folder, whose names differ in their numbers alone.
static bool is_like(struct str a, struct str b) {
    if (!str_equal(folder_of(a), folder_of(b)) || str_equal(a, b)) return false;
    ptrdiff_t i = 0, k = 0;
    a = name_of(a);
    b = name_of(b);
    while (i < a.len && k < b.len) {
        if (is_digit(a.p[i]) && is_digit(b.p[k])) {
            i = skip_number(a, i);
            k = skip_number(b, k);
        } else if (a.p[i++] != b.p[k++]) {
            return false;
        }
    }
    return i == a.len && k == b.len;
}

static bool is_below(struct str path, struct str folder) {
    return path.len > folder.len && path.p[folder.len] == '/' && str_starts(path, folder);
}

static bool is_folder(struct str path) {
    ARENA_AUTO scratch = {0};
    struct stat st;
    return stat(str_z(&scratch, path), &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_listed(const struct str_list *list, struct str path) {
    for (ptrdiff_t i = list->count - 1; i >= 0; i--) {
        if (str_equal(list->items[i], path)) return true;
    }
    return false;
}

// --- What was told -------------------------------------------------------------------------------

static struct run_folder *at_path(struct run_folders *folders, struct arena *a, struct str path) {
    for (ptrdiff_t i = folders->count - 1; i >= 0; i--) {
        if (str_equal(folders->items[i].path, path)) return &folders->items[i];
    }
    struct run_folder *f = &folders->items[folders->count++];
    *f = (struct run_folder){.path = str_of(str_z(a, path)),
                             .last_row = -1,
                             .is_numbered = has_number(name_of(path)),
                             .is_once = true,
                             .is_over = true};
    return f;
}

static void add_path(struct run_folder *f, const struct steps *s, const struct step_path *p) {
    if (f->count++ == 0) f->first = p;
    f->is_once &= p->row == p->last_row && p->row == f->first->row;
    f->is_together |= p->last_row == f->last_row;
    f->is_over &= steps_row_is_over(s, p);
    f->is_new |= p->has_new_folder;
    if (p->last_row > f->last_row) f->last_row = p->last_row;
}

static bool may_be_checkpoint(const struct run_folder *f) {
    return f->is_numbered && f->is_once && f->count > 1;
}

// A folder that the log has as a checkpoint.
static bool is_logged_folder(const struct recover_state *s, ptrdiff_t at) {
    return is_folder(s->checkpoints[at].file.path) && !run_folders_refute(s, at);
}

// One that the log has as a checkpoint, and into which files were saved one by one since.
static bool is_outlived(const struct run_folders *folders, struct str path) {
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        const struct run_folder *f = &folders->items[i];
        if (!f->is_once && str_equal(f->path, path)) return true;
    }
    return false;
}

static ptrdiff_t oldest_asked(const struct recover_state *s) {
    return s->checkpoint_count > LOGGED_ASKED ? s->checkpoint_count - LOGGED_ASKED : 0;
}

static bool has_like(const struct run *r, const struct run_folders *folders, struct str path) {
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        const struct run_folder *f = &folders->items[i];
        if (may_be_checkpoint(f) && is_like(f->path, path)) return true;
    }
    for (ptrdiff_t i = r->state.checkpoint_count - 1; i >= oldest_asked(&r->state); i--) {
        struct str logged = r->state.checkpoints[i].file.path;
        if (is_like(logged, path) && is_logged_folder(&r->state, i)) return true;
    }
    return false;
}

static void judge(struct run *r, struct run_folders *folders) {
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        struct run_folder *f = &folders->items[i];
        if (f->is_new && !is_listed(&r->new_folders, f->path)) {
            str_list_add(r->arena, &r->new_folders, str_copy(r->arena, f->path));
        }
        f->is_new = f->is_new || is_listed(&r->new_folders, f->path);
        f->is_checkpoint = may_be_checkpoint(f) && (f->is_new || has_like(r, folders, f->path));
        folders->has_checkpoint |= f->is_checkpoint;
    }
    ptrdiff_t i = r->state.checkpoint_count - 1;
    for (; i >= oldest_asked(&r->state) && !folders->has_checkpoint; i--) {
        folders->has_checkpoint = is_logged_folder(&r->state, i) &&
                                  !is_outlived(folders, r->state.checkpoints[i].file.path);
    }
}

struct run_folders run_folders_read(struct run *r, struct arena *a, const struct steps *s,
                                    bool is_ended) {
    struct run_folders folders = {.is_ended = is_ended};
    if (r->o->checkpoint) return folders;
    folders.items = arena_new(a, struct run_folder, s->path_count + 1);
    for (ptrdiff_t i = 0; i < s->path_count; i++) {
        add_path(at_path(&folders, a, folder_of(s->paths[i].path)), s, &s->paths[i]);
    }
    judge(r, &folders);
    return folders;
}

const struct run_folder *run_folders_at(const struct run_folders *folders, struct str path) {
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        const struct run_folder *f = &folders->items[i];
        if (f->is_checkpoint && str_equal(f->path, path)) return f;
    }
    return NULL;
}

// Of a program whose checkpoints are folders, files that it saved together elsewhere are something
// else: the model at the end of the training. One file in a folder that was made for it may be the
// first of several.
static bool is_spare(const struct run *r, const struct run_folders *folders, struct str path) {
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        const struct run_folder *f = &folders->items[i];
        if (!is_below(path, f->path)) continue;
        if (f->is_checkpoint) return false;
        if (!str_equal(folder_of(path), f->path)) continue;
        if (folders->has_checkpoint && f->is_together) return false;
        if (!f->is_numbered || f->count > 1) continue;
        if (has_like(r, folders, f->path)) return false;
        if (f->is_new && !f->is_over && !folders->is_ended) return false;
    }
    return true;
}

// --- Whole or torn -------------------------------------------------------------------------------

static int64_t entries_in(struct str path) {
    ARENA_AUTO scratch = {0};
    DIR *listing = opendir(str_z(&scratch, path));
    int64_t count = 0;
    if (!listing) return -1;
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

// A training that has gone on after saving has saved all. One that ended before it was heard of
// again has, if there is as much as in the newest one that is whole.
bool run_folder_is_whole(const struct run *r, const struct run_folders *folders,
                         const struct run_folder *f) {
    if (f->is_over) return true;
    if (!folders->is_ended) return false;
    if (r->folder_entries > 0) return entries_in(f->path) >= r->folder_entries;
    for (ptrdiff_t i = r->state.checkpoint_count - 1; i >= 0; i--) {
        struct str logged = r->state.checkpoints[i].file.path;
        bool is_one = is_like(logged, f->path) && is_logged_folder(&r->state, i);
        if (is_one) return entries_in(f->path) >= entries_in(logged);
    }
    // One that was removed before anybody looked: as many files were saved into it. Not where it
    // got another name, and the folder that was told with it.
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        bool is_beside = str_equal(folders->items[i].path, folder_of(f->path));
        if (is_beside && is_folder(folders->items[i].first->path)) return false;
    }
    for (ptrdiff_t i = folders->count - 1; i >= 0; i--) {
        const struct run_folder *other = &folders->items[i];
        bool is_one = other->is_over && may_be_checkpoint(other) && is_like(other->path, f->path);
        if (is_one) return f->count >= other->count;
    }
    return false;
}

void run_folder_count(struct run *r, const struct run_folder *f) {
    r->folder_entries = entries_in(f->path);
}

// --- By itself -----------------------------------------------------------------------------------

// A file in a folder that was told itself, as torch.distributed.checkpoint's are, is a part of
// that.
static bool is_in_told(const struct steps *s, struct str path) {
    for (ptrdiff_t i = 0; i < s->path_count; i++) {
        if (is_below(path, s->paths[i].path)) return true;
    }
    return false;
}

bool run_folders_spare(const struct run *r, const struct run_folders *folders,
                       const struct steps *s, struct str path) {
    return is_spare(r, folders, path) && !is_in_told(s, path);
}

bool run_folders_told(const struct run *r, const struct run_folders *folders,
                      const struct steps *s) {
    if (s->mark_count == 0) return false;
    if (r->o->checkpoint || s->path_count == 0) return true;
    for (ptrdiff_t i = 0; i < s->path_count; i++) {
        if (run_folders_spare(r, folders, s, s->paths[i].path)) return true;
    }
    for (ptrdiff_t i = 0; i < folders->count; i++) {
        const struct run_folder *f = &folders->items[i];
        if (f->is_checkpoint && run_folder_is_whole(r, folders, f)) return true;
    }
    return false;
}

// --- The log -------------------------------------------------------------------------------------

// A folder into which files were saved one by one later was none; and the files that were in the
// log before it was known for one are parts of it.
bool run_folders_refute(const struct recover_state *s, ptrdiff_t at) {
    struct str path = s->checkpoints[at].file.path;
    for (ptrdiff_t i = at + 1; i < s->checkpoint_count; i++) {
        struct str later = s->checkpoints[i].file.path;
        if (is_below(later, path)) return true;
        if (is_below(path, later)) return true;
    }
    return false;
}
