// SPDX-License-Identifier: Apache-2.0
// batchfit.lock (doc/formats/lock.md): what each config is expected to need on each GPU, a line
// each, sorted, so that a change of memory is a changed line of a pull request and two branches
// merge. What changes by more than the band is a fault until somebody takes it (--update-lock).
#include "verbs/fit/fit.h"

#include "base/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_MOST = 16 << 20, CELLS = 4 };
static const char first_line[] = "# batchfit.lock 1: the memory that each config is expected to "
                                 "need (batchfit fit --check --lock; --update-lock writes it)";
static const double usual_band = 0.02;

// A word of the file for each verdict: "FITS_TIGHTLY".
static struct str word_of(struct arena *a, struct str verdict) {
    char *word = str_z(a, verdict);
    for (char *p = word; *p; p++) *p = *p == ' ' ? '_' : *p;
    return str_of(word);
}

static bool read_verdict(struct arena *a, struct str word, struct str *ret) {
    for (int i = 0; fit_check_verdicts[i]; i++) {
        *ret = str_of(fit_check_verdicts[i]);
        if (str_equal(word, word_of(a, *ret))) return true;
    }
    return false;
}

// --- Names of files ------------------------------------------------------------------------------

// What would be another cell or line, and '%' and '#', as %XX.
static struct str escaped(struct arena *a, struct str name) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.p[i];
        if (c <= ' ' || c == '%' || c == '#' || c == 0x7f)
            buf_format(&b, "%%%02X", c);
        else
            buf_byte(&b, (char)c);
    }
    return buf_str(&b);
}

static int hex_of(char c) {
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool unescaped(struct arena *a, struct str cell, struct str *ret) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; i < cell.len; i++) {
        int high, low;
        if (cell.p[i] != '%') {
            buf_byte(&b, cell.p[i]);
            continue;
        }
        if (i + 2 >= cell.len || (high = hex_of(cell.p[i + 1])) < 0 ||
            (low = hex_of(cell.p[i + 2])) < 0)
            return false;
        buf_byte(&b, (char)(high * 16 + low));
        i += 2;
    }
    *ret = buf_str(&b);
    return ret->len > 0;
}

// --- Reading -------------------------------------------------------------------------------------

static bool read_line(struct arena *a, struct str line, struct fit_check_known *ret) {
    struct str cells[CELLS] = {0};
    int64_t mib = 0;
    int n = 0;
    while (line.p && n < CELLS) {
        struct str cell = str_cut(&line, ' ');
        if (cell.len > 0) cells[n++] = cell;
    }
    bool is_known = n == CELLS && line.p == NULL && read_verdict(a, cells[2], &ret->verdict) &&
                    unescaped(a, cells[0], &ret->config) && unescaped(a, cells[1], &ret->key);
    if (!is_known) return false;
    if (!str_is(cells[3], "-") && (!str_to_i64(cells[3], &mib) || mib < 1 || mib > INT64_MAX >> 20))
        return false;
    ret->bytes = mib * UNIT_MIB;
    return true;
}

static int bad_line(const char *path, int line, struct fail *why) {
    fail_set(why, FAIL_INPUT, "%s:%d: not a line of batchfit.lock 1", path, line);
    return fail_hint(why, "after a merge that left both sides: keep either, then --update-lock");
}

int fit_check_lock_read(struct arena *a, const char *path, struct str text,
                        struct fit_check_list *list, double *band, struct fail *why) {
    *band = usual_band;
    if (!str_starts(text, STR("# batchfit.lock 1:"))) return bad_line(path, 1, why);
    for (int number = 1; text.len > 0; number++) {
        struct str line = str_trim(str_line(&text)), cell = line;
        struct fit_check_known known = {0};
        if (line.len == 0 || line.p[0] == '#') continue;
        if (str_is(str_cut(&cell, ' '), "band")) {
            if (!unit_parse_share(str_trim(cell), band)) return bad_line(path, number, why);
            continue;
        }
        if (!read_line(a, line, &known)) return bad_line(path, number, why);
        *arena_push(a, &list->items, &list->count, &list->capacity) = known;
    }
    return 0;
}

static int read_lock(struct fit_check *c, const char *path, struct fit_check_list *list,
                     struct fail *why) {
    struct str text;
    int rc = os_read(c->arena, path, LOCK_MOST, &text, NULL, why);
    return rc < 0 ? rc : fit_check_lock_read(c->arena, path, text, list, &c->band, why);
}

// --- Comparing -----------------------------------------------------------------------------------

static bool is_as_locked(const struct fit_check *c, const struct fit_check_row *row,
                         const struct fit_check_known *k) {
    double off = fabs((double)(row->memory.expected_bytes - k->bytes));
    return str_is(k->verdict, row->verdict) && off <= c->band * (double)k->bytes + (double)UNIT_MIB;
}

static void compare(struct fit_check *c, const struct fit_check_list *list) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        struct fit_check_row *row = &c->rows[i];
        const struct fit_check_known *k = fit_check_find(list, row->config, row->key);
        row->lock = !k ? "new" : is_as_locked(c, row, k) ? "same" : "changed";
        if (k) row->locked = *k;
    }
    c->has_lock = true;
}

// --- Writing -------------------------------------------------------------------------------------

static int by_name(const void *left, const void *right) {
    const struct str *a = left, *b = right;
    ptrdiff_t common = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->p, b->p, (size_t)common);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

struct str fit_check_lock_line(struct arena *a, const struct fit_check_known *k) {
    struct str peak = STR("-"), name = escaped(a, k->config), key = escaped(a, k->key);
    if (k->bytes > 0)
        peak = str_format(a, "%lld", (long long)((k->bytes + UNIT_MIB / 2) / UNIT_MIB));
    return str_format(a, "%.*s %.*s %.*s %.*s", STR_ARG(name), STR_ARG(key),
                      STR_ARG(word_of(a, k->verdict)), STR_ARG(peak));
}

// Whether somebody asked for this config now.
static bool is_asked(const struct fit_check *c, struct str config) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        if (str_equal(c->rows[i].config, config)) return true;
    }
    return false;
}

// What was judged now, and the lines of other configs that are still there.
static int write_lock(struct fit_check *c, const char *path, const struct fit_check_list *before,
                      struct fail *why) {
    struct arena *a = c->arena;
    struct str_list lines = {0};
    struct buf text = buf_new(a);
    for (ptrdiff_t i = 0; i < before->count; i++) {
        const struct fit_check_known *k = &before->items[i];
        if (!is_asked(c, k->config) && os_exists(str_z(a, k->config)))
            str_list_add(a, &lines, fit_check_lock_line(a, k));
    }
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_check_row *row = &c->rows[i];
        const struct fit_check_known k = {row->config, row->key, str_of(row->verdict),
                                          row->memory.expected_bytes};
        str_list_add(a, &lines, fit_check_lock_line(a, &k));
    }
    if (lines.count > 0) qsort(lines.items, (size_t)lines.count, sizeof *lines.items, by_name);
    buf_format(&text, "%s\nband %.4g%%\n", first_line, 100 * c->band);
    for (ptrdiff_t i = 0; i < lines.count; i++)
        buf_format(&text, "%.*s\n", STR_ARG(lines.items[i]));
    int rc = os_replace(a, path, buf_str(&text), NULL, why);
    if (rc == 0) str_list_format(a, &c->notes, "written: %s, %td lines", path, lines.count);
    return rc;
}

int fit_check_lock(struct fit_check *c, struct fail *why) {
    const struct fit_check_options *o = &c->options->c;
    const char *path = o->lock ? o->lock : o->updates_lock ? "batchfit.lock" : NULL;
    struct fit_check_list list = {0};
    if (!path) return 0;
    c->band = usual_band;
    if (o->updates_lock && !os_exists(path)) return write_lock(c, path, &list, why);
    int rc = read_lock(c, path, &list, why);
    if (rc < 0 && !os_exists(path)) return fail_hint(why, "--update-lock writes it");
    if (rc < 0) return rc;
    if (o->updates_lock) return write_lock(c, path, &list, why);
    compare(c, &list);
    return 0;
}
