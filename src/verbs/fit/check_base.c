// SPDX-License-Identifier: Apache-2.0
// What the gate is compared with: the base branch, from the document that --json printed there
// (--base), or judged now as a commit of git has it (--base-ref). It never decides the exit status.
// git is asked for a commit and for blobs only, in plumbing words that run no hook, filter, pager
// or transport, whatever the repository's own settings say.
#include "verbs/fit/fit.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

enum { GIT_MS = 20000, SHA_MOST = 64, DOCUMENT_MOST = 64 << 20 };

static void take(struct fit_check *c, const struct fit_check_list *base) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_known *k = fit_check_find(base, c->rows[i].config, c->rows[i].key);
        if (!k) k = fit_check_find(base, c->rows[i].config, STR("any")); // it could not be read
        if (k) c->rows[i].before = *k;
    }
    c->has_base = true;
}

// --- A document ----------------------------------------------------------------------------------

static int read_document(struct fit_check *c, const char *path, struct fit_check_list *base,
                         struct fail *why) {
    struct str text;
    int rc = os_read(c->arena, path, DOCUMENT_MOST, &text, NULL, why);
    if (rc < 0) return rc;
    json_t *document = json_loadb(text.p ? text.p : "", (size_t)text.len, 0, NULL), *item;
    const json_t *results = json_object_get(document, "results");
    bool is_ours = json_integer_value(json_object_get(document, "gate")) == 1;
    size_t i;
    json_array_foreach(results, i, item) {
        struct fit_check_known k = {
            .config = json_text_at(c->arena, item, "config"),
            .key = json_text_at(c->arena, json_object_get(item, "gpu"), "key"),
            .verdict = json_text_at(c->arena, item, "verdict"),
            .bytes = json_integer_value(json_object_get(item, "expected_bytes"))};
        is_ours = is_ours && str_is_one_of(k.verdict, fit_check_verdicts) && k.bytes >= 0;
        *arena_push(c->arena, &base->items, &base->count, &base->capacity) = k;
    }
    json_decref(document);
    if (is_ours) return 0;
    fail_set(why, FAIL_INPUT, "%s: not a document of fit --check --json", path);
    return fail_hint(why, "on the base branch: batchfit fit --check ... --json >base.json");
}

// --- A commit ------------------------------------------------------------------------------------

struct commit {
    struct arena *arena;
    char *git; // its absolute path
    struct str sha, top;
    struct str config; // the one that is read now
    bool is_new;       // and the commit has no such file
};

// A folder of PATH that is relative may be the repository's own.
static char *find_git(struct arena *a) {
    struct str rest = str_of(getenv("PATH"));
    while (rest.p) {
        struct str folder = str_cut(&rest, ':');
        char *path = str_z(a, str_format(a, "%.*s/git", STR_ARG(folder)));
        if (folder.len > 0 && folder.p[0] == '/' && access(path, X_OK) == 0) return path;
    }
    return NULL;
}

static int ask_git(const struct commit *at, const char *const words[], int64_t most,
                   struct os_captured *ret, struct fail *why) {
    struct str_words argv = {.arena = at->arena};
    str_word_add(&argv, str_of(at->git));
    str_word_add(&argv, STR("--no-replace-objects"));
    for (int i = 0; words[i]; i++) str_word_add(&argv, str_of(words[i]));
    return os_capture(at->arena, argv.items, GIT_MS, most, ret, why);
}

static int no_commit(const struct os_captured *said, const char *ref, struct fail *why) {
    struct str first = said->err;
    first = str_line(&first);
    fail_set(why, FAIL_INPUT, "--base-ref %s: git has no such commit here%s%.*s", ref,
             first.len > 0 ? ": " : "", STR_ARG(first));
    return fail_hint(why, "git fetch origin %s; or --base FILE, the base branch's --json", ref);
}

static int open_commit(struct commit *at, const char *ref, struct fail *why) {
    struct os_captured said = {0};
    at->git = find_git(at->arena);
    if (!at->git) return fail_set(why, FAIL_MACHINE, "--base-ref: there is no git in PATH");
    // A partial clone would fetch what it lacks by the transport that the repository names.
    setenv("GIT_ALLOW_PROTOCOL", "none", 1);
    setenv("GIT_NO_LAZY_FETCH", "1", 1);
    const char *commit = str_format(at->arena, "%s^{commit}", ref).p;
    const char *const verify[] = {"rev-parse",        "--verify", "--quiet",
                                  "--end-of-options", commit,     NULL};
    const char *const top[] = {"rev-parse", "--show-toplevel", NULL};
    int rc = ask_git(at, verify, 4096, &said, why);
    if (rc < 0) return rc;
    struct str sha = str_trim(said.out);
    if (said.status != 0 || !str_is_made_of(sha, "") || sha.len > SHA_MOST)
        return no_commit(&said, ref, why);
    at->sha = sha;
    rc = ask_git(at, top, 8192, &said, why);
    at->top = str_trim(said.out);
    return rc < 0 || at->top.len > 0 ? rc : no_commit(&said, ref, why);
}

// Without "." and "..", which a tree of git has not.
static struct str plain_path(struct arena *a, struct str path) {
    struct str_list parts = {0};
    struct buf plain = buf_new(a);
    while (path.p) {
        struct str part = str_cut(&path, '/');
        if (part.len == 0 || str_is(part, ".")) continue;
        if (!str_is(part, ".."))
            str_list_add(a, &parts, part);
        else if (parts.count > 0)
            parts.count--;
    }
    for (ptrdiff_t i = 0; i < parts.count; i++)
        buf_format(&plain, "%s%.*s", i > 0 ? "/" : "", STR_ARG(parts.items[i]));
    return buf_str(&plain);
}

// "SHA:./path" is relative to the working folder, and git takes its ".." away.
static int name_of(const struct commit *at, struct str path, struct str *ret, struct fail *why) {
    struct str below, top = str_format(at->arena, "%.*s/", STR_ARG(at->top));
    if (!str_starts(path, STR("/"))) {
        *ret = str_format(at->arena, "%.*s:./%.*s", STR_ARG(at->sha), STR_ARG(path));
        return 0;
    }
    below = str_format(at->arena, "/%.*s", STR_ARG(plain_path(at->arena, path)));
    if (!str_starts(below, top))
        return fail_set(why, FAIL_INPUT, "%.*s: not in the repository", STR_ARG(path));
    below = str_slice(below, top.len, below.len);
    *ret = str_format(at->arena, "%.*s:%.*s", STR_ARG(at->sha), STR_ARG(below));
    return 0;
}

static int read_blob(void *self, struct arena *a, struct str path, struct str *ret_text,
                     struct fail *why) {
    struct commit *at = self;
    struct os_captured said;
    struct str name;
    int rc = name_of(at, path, &name, why);
    if (rc < 0) return rc;
    const char *const words[] = {"cat-file", "blob", str_z(a, name), NULL};
    rc = ask_git(at, words, CONFIG_MAX_BYTES, &said, why);
    if (rc < 0) return rc;
    *ret_text = said.out;
    if (said.status == 0) return 0;
    if (str_equal(path, at->config)) at->is_new = true;
    return fail_set(why, FAIL_INPUT, "%.*s: not in %.*s", STR_ARG(path), STR_ARG(at->sha));
}

// The same judgement of what the commit has of these files. A model that is a folder of the
// repository is the working tree's.
static int judge_commit(struct fit_check *c, const char *ref, struct fit_check_list *base,
                        struct fail *why) {
    struct commit at = {.arena = c->arena};
    struct fit_check then = {.arena = c->arena, .options = c->options, .like = c->like};
    const struct question_source source = {read_blob, &at};
    int rc = open_commit(&at, ref, why);
    for (ptrdiff_t i = 0; rc == 0 && i < c->count; i++) {
        ptrdiff_t before = then.count;
        if (i > 0 && str_equal(c->rows[i].config, c->rows[i - 1].config)) continue;
        at.config = c->rows[i].config;
        at.is_new = false;
        rc = fit_check_config(&then, str_z(c->arena, at.config), &source, why);
        for (ptrdiff_t k = before; rc == 0 && !at.is_new && k < then.count; k++) {
            const struct fit_check_row *row = &then.rows[k];
            *arena_push(c->arena, &base->items, &base->count, &base->capacity) =
                (struct fit_check_known){row->config, row->key, str_of(row->verdict),
                                         row->memory.expected_bytes};
        }
    }
    return rc;
}

int fit_check_base(struct fit_check *c, struct fail *why) {
    const char *file = c->options->c.base, *ref = c->options->c.base_ref;
    struct fit_check_list base = {0};
    if (file && ref)
        return fail_set(why, FAIL_USAGE, "--base %s cannot be combined with --base-ref %s", file,
                        ref);
    int rc = file ? read_document(c, file, &base, why) : ref ? judge_commit(c, ref, &base, why) : 0;
    if (rc == 0 && (file || ref)) take(c, &base);
    return rc;
}
