// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer_int.h"

#include "base/os.h"
#include "job/question/question.h"

#include <fts.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MOST = 2000, BYTES_MOST = 1 << 20, CALL_MOST = 4000 };

static bool is_word(char c) {
    return str_is_alnum(c) || c == '_';
}

struct look {
    struct arena *arena; // of the answer
    struct str key, section, alike;
    struct str_list callees; // that get the whole section
    struct answer_project found;
};

// The name in which `at` stands.
static struct str name_at(struct str text, ptrdiff_t at) {
    ptrdiff_t from = at, to = at;
    while (from > 0 && is_word(text.p[from - 1])) from--;
    while (to < text.len && is_word(text.p[to])) to++;
    return str_slice(text, from, to);
}

// Where it stands as a whole name, from there on; -1: nowhere.
static ptrdiff_t next_name(struct str text, ptrdiff_t from, struct str name) {
    for (ptrdiff_t i = from; i + name.len <= text.len; i++) {
        const char *at = memmem(text.p + i, (size_t)(text.len - i), name.p, (size_t)name.len);
        if (!at) return -1;
        i = at - text.p;
        if (name_at(text, i).len == name.len) return i;
    }
    return -1;
}

static bool is_defined(struct str text, struct str name) {
    for (ptrdiff_t i = 0; (i = next_name(text, i, name)) >= 0; i++) {
        const struct str before = str_slice(text, 0, i);
        if (str_ends(before, STR("class ")) || str_ends(before, STR("def "))) return true;
    }
    return false;
}

// Who is called with "**cfg.trainer" or "**config["trainer"]", at the stars; empty: nobody by name.
static struct str callee_at(struct str text, ptrdiff_t stars) {
    int open = 0;
    for (ptrdiff_t i = stars; i > 0 && stars - i < CALL_MOST; i--) {
        open += (text.p[i - 1] == ')') - (text.p[i - 1] == '(');
        if (open < 0) return i > 1 ? name_at(text, i - 2) : (struct str){0};
    }
    return (struct str){0};
}

// The section at the end of "cfg.trainer" or "config["trainer"]".
static bool ends_in_section(struct str text, ptrdiff_t at, struct str section) {
    ptrdiff_t end = at;
    while (end < text.len && (is_word(text.p[end]) || strchr(".[]'\"", text.p[end]))) end++;
    while (end > at && !is_word(text.p[end - 1])) end--;
    struct str last = end > at ? name_at(text, end - 1) : (struct str){0};
    return last.len > 0 && str_equal(last, section) && last.p > text.p + at;
}

// Every key of the section goes on to the callee, whoever that is; Hydra's are named in the config.
static void note_callees(struct look *l, struct str text) {
    static const struct str hydra = {"instantiate(", 12};
    for (ptrdiff_t i = 0; l->section.len > 0 && i + 2 < text.len; i++) {
        const struct str rest = str_slice(text, i, text.len);
        if (str_starts(rest, STR("**")) && ends_in_section(text, i + 2, l->section))
            str_list_add(l->arena, &l->callees, str_copy(l->arena, callee_at(text, i)));
        if (str_starts(rest, hydra) && ends_in_section(text, i + hydra.len, l->section))
            l->found.reads = ANSWER_READS;
    }
}

static struct str name_alike(struct str text, struct str alike) {
    for (ptrdiff_t i = 0; i + alike.len <= text.len; i++) {
        if (!str_equal_nocase(str_slice(text, i, i + alike.len), alike)) continue;
        return name_at(text, i);
    }
    return (struct str){0};
}

// What stands behind a # outside of quotes nobody runs.
static struct str without_comments(struct arena *a, struct str text) {
    char *kept = arena_new(a, char, text.len + 1), quote = 0;
    for (ptrdiff_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '\n') quote = 0;
        if (c == '#' && !quote) {
            while (i < text.len && text.p[i] != '\n') kept[i++] = ' ';
            c = '\n';
            if (i == text.len) break;
        } else if (quote && c == '\\' && i + 1 < text.len) {
            kept[i++] = c;
            c = text.p[i];
        } else if (c == '"' || c == '\'') {
            quote = !quote ? c : quote == c ? 0 : quote;
        }
        kept[i] = c;
    }
    return (struct str){kept, text.len};
}

static void look_into(struct look *l, const char *path) {
    struct arena scratch = {0};
    struct str text;
    l->found.files++;
    if (os_read_file(&scratch, path, BYTES_MOST, &text, NULL, NULL) == 0) {
        text = str_ends(str_of(path), STR(".py")) ? without_comments(&scratch, text) : text;
        note_callees(l, text);
        if (next_name(text, 0, l->key) >= 0) {
            l->found.reads = ANSWER_READS;
        } else if (l->found.other.len == 0) {
            l->found.other = str_copy(l->arena, name_alike(text, l->alike));
        }
    }
    arena_clear(&scratch);
}

// Who is defined here and gets the whole section does not know a key that nobody here names.
static void drop_defined(struct look *l, const char *path) {
    struct arena scratch = {0};
    struct str text;
    if (os_read_file(&scratch, path, BYTES_MOST, &text, NULL, NULL) < 0) text = (struct str){0};
    for (ptrdiff_t i = 0; i < l->callees.count; i++) {
        struct str *name = &l->callees.items[i];
        if (name->len > 0 && is_defined(text, *name)) *name = (struct str){0};
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

static void each_file(struct look *l, const char *root, void (*look)(struct look *, const char *)) {
    char *roots[] = {str_z(l->arena, str_of(root)), NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    int count = 0;
    for (FTSENT *e; tree && l->found.reads != ANSWER_READS && (e = fts_read(tree));) {
        if (is_foreign(e)) fts_set(tree, e, FTS_SKIP);
        if (!is_code(e)) continue;
        if (count++ == FILES_MOST) break;
        look(l, e->fts_path);
    }
    if (tree) fts_close(tree);
}

struct answer_project answer_project_look(struct arena *a, struct str config, struct str key,
                                          struct str alike) {
    struct look l = {.arena = a, .key = str_last(key, '.'), .alike = alike};
    ptrdiff_t dot = key.len - l.key.len;
    if (dot > 0) l.section = name_at(key, dot - 2);
    const char *root = str_z(a, question_project(a, str_z(a, config)));
    each_file(&l, root, look_into);
    bool is_whole = l.found.files > 0 && l.found.files < FILES_MOST;
    if (l.found.reads != ANSWER_READS && l.callees.count > 0) each_file(&l, root, drop_defined);
    for (ptrdiff_t i = 0; i < l.callees.count; i++)
        if (l.callees.items[i].len > 0) l.found.reads = ANSWER_READS;
    if (l.found.reads != ANSWER_READS && is_whole) l.found.reads = ANSWER_READS_NOT;
    return l.found;
}
