// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer_int.h"

#include "base/os.h"
#include "job/question/question.h"

#include <fts.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MOST = 2000, BYTES_MOST = 1 << 20 };

static bool is_word(char c) {
    return str_is_alnum(c) || c == '_';
}

struct look {
    struct arena *arena; // of the answer
    struct str key, section, alike;
    struct answer_project found;
};

// The name in which `at` stands.
static struct str name_at(struct str text, ptrdiff_t at) {
    ptrdiff_t from = at, to = at;
    while (from > 0 && is_word(text.p[from - 1])) from--;
    while (to < text.len && is_word(text.p[to])) to++;
    return str_slice(text, from, to);
}

static bool has_name(struct str text, struct str name) {
    for (ptrdiff_t i = 0; i + name.len <= text.len; i++) {
        const char *at = memmem(text.p + i, (size_t)(text.len - i), name.p, (size_t)name.len);
        if (!at) return false;
        i = at - text.p;
        if (name_at(text, i).len == name.len) return true;
    }
    return false;
}

// **cfg.trainer, **config["trainer"]: every key of the section goes on to the callee.
static bool passes_section(struct str text, struct str section) {
    for (ptrdiff_t i = 0; section.len > 0 && i + 2 < text.len; i++) {
        const char *at = memmem(text.p + i, (size_t)(text.len - i), "**", 2);
        if (!at) return false;
        i = at - text.p + 2;
        ptrdiff_t end = i;
        while (end < text.len && (is_word(text.p[end]) || strchr(".[]'\"", text.p[end]))) end++;
        while (end > i && !is_word(text.p[end - 1])) end--;
        struct str last = end > i ? name_at(text, end - 1) : (struct str){0};
        if (last.len > 0 && str_equal(last, section) && last.p > text.p + i) return true;
    }
    return false;
}

static struct str name_alike(struct str text, struct str alike) {
    for (ptrdiff_t i = 0; i + alike.len <= text.len; i++) {
        if (!str_equal_nocase(str_slice(text, i, i + alike.len), alike)) continue;
        return name_at(text, i);
    }
    return (struct str){0};
}

static void look_into(struct look *l, const char *path) {
    struct arena scratch = {0};
    struct str text;
    l->found.files++;
    if (os_read_file(&scratch, path, BYTES_MOST, &text, NULL, NULL) == 0) {
        if (has_name(text, l->key) || passes_section(text, l->section)) {
            l->found.reads = ANSWER_READS;
        } else if (l->found.other.len == 0) {
            l->found.other = str_copy(l->arena, name_alike(text, l->alike));
        }
    }
    arena_clear(&scratch);
}

static bool is_code(const FTSENT *e) {
    struct str name = str_of(e->fts_name);
    return e->fts_info == FTS_F && (str_ends(name, STR(".py")) || str_ends(name, STR(".ipynb")));
}

// Nothing below is the project's own.
static bool is_foreign(const FTSENT *e) {
    static const char *const names[] = {"node_modules", "site-packages", "__pycache__", NULL};
    if (e->fts_info != FTS_D || e->fts_level == 0) return false;
    for (int i = 0; names[i]; i++) {
        if (!strcmp(e->fts_name, names[i])) return true;
    }
    return e->fts_name[0] == '.';
}

struct answer_project answer_project_look(struct arena *a, struct str config, struct str key,
                                          struct str alike) {
    struct look l = {.arena = a, .key = str_last(key, '.'), .alike = alike};
    ptrdiff_t dot = key.len - l.key.len;
    if (dot > 0) l.section = name_at(key, dot - 2);
    char *roots[] = {str_z(a, question_project(a, str_z(a, config))), NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    for (FTSENT *e; tree && l.found.reads != ANSWER_READS && (e = fts_read(tree));) {
        if (is_foreign(e)) fts_set(tree, e, FTS_SKIP);
        if (!is_code(e)) continue;
        if (l.found.files == FILES_MOST) break;
        look_into(&l, e->fts_path);
    }
    bool is_whole = l.found.files > 0 && l.found.files < FILES_MOST;
    if (tree) fts_close(tree);
    if (l.found.reads != ANSWER_READS && is_whole) l.found.reads = ANSWER_READS_NOT;
    return l.found;
}
