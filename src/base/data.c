// SPDX-License-Identifier: Apache-2.0
#include "base/data.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

const struct data_file *data_embedded(const char *name) {
    int low = 0, high = data_file_count;
    while (low < high) {
        int mid = (low + high) / 2, order = strcmp(data_files[mid].name, name);
        if (order == 0) return &data_files[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

bool data_find_own(struct arena *a, const char *name, struct str *ret_path) {
    const char *own = getenv("BATCHFIT_DATA");
    struct str folder = own && *own ? str_of(own) : os_data_dir(a);
    *ret_path = str_format(a, "%.*s/%s", STR_ARG(folder), name);
    return os_exists(ret_path->p);
}

struct str data_text(const struct data_file *f) {
    return (struct str){(const char *)f->begin, f->end - f->begin};
}

int data_find(struct arena *a, const char *name, struct str *ret_text, struct fail *why) {
    struct str path;
    if (strncmp(name, "data/", 5) == 0 && data_find_own(a, name + 5, &path)) {
        return os_read(a, path.p, INT64_C(1) << 30, ret_text, NULL, why);
    }
    const struct data_file *file = data_embedded(name);
    if (!file) return fail_set(why, FAIL_BUG, "%s: not embedded in this program", name);
    *ret_text = data_text(file);
    return 0;
}

// They stand one behind the other (tools/embed.py).
bool data_is_embedded(struct str text) {
    const unsigned char *at = (const unsigned char *)text.p;
    return at >= data_files[0].begin && at < data_files[data_file_count - 1].end;
}

// Without blanks at both sides, as str_trim; in line, for the tables have 40,000 cells.
static struct str cell_of(const char *begin, const char *end) {
    while (begin < end && (*begin == ' ' || *begin == '\r')) begin++;
    while (begin < end && (end[-1] == ' ' || end[-1] == '\r')) end--;
    return (struct str){begin, end - begin};
}

static int split_cells(struct tsv *t, struct str line, struct str *cells, struct fail *why) {
    const char *at = line.p, *const end = line.p + line.len, *stop;
    for (int n = 0; n < TSV_COLUMNS; at = stop + 1) {
        stop = memchr(at, '\t', (size_t)(end - at));
        cells[n++] = cell_of(at, stop ? stop : end);
        if (!stop) return n;
    }
    return fail_set(why, FAIL_INPUT, "%.*s:%d: more than %d columns", STR_ARG(t->name), t->line,
                    TSV_COLUMNS);
}

bool tsv_line(struct tsv *t, struct str *ret_line) {
    while (t->rest.p) {
        *ret_line = str_line(&t->rest);
        t->line++;
        if (ret_line->len > 0 && ret_line->p[0] != '#') return true;
    }
    return false;
}

int tsv_open(struct tsv *t, struct str name, struct str text, struct fail *why) {
    *t = (struct tsv){.name = name, .rest = text};
    struct str line;
    if (!tsv_line(t, &line)) {
        return fail_set(why, FAIL_INPUT, "%.*s: no line with the column names", STR_ARG(name));
    }
    int n = split_cells(t, line, t->columns, why);
    if (n < 0) return n;
    t->column_count = n;
    return 0;
}

int tsv_find(struct arena *a, const char *name, struct tsv *t, struct fail *why) {
    struct str text;
    int rc = data_find(a, name, &text, why);
    return rc < 0 ? rc : tsv_open(t, str_of(name), text, why);
}

int tsv_split(struct tsv *t, struct str line, struct fail *why) {
    int n = split_cells(t, line, t->cells, why);
    if (n < 0) return n;
    if (n > t->column_count) {
        return fail_set(why, FAIL_INPUT, "%.*s:%d: %d cells for %d columns", STR_ARG(t->name),
                        t->line, n, t->column_count);
    }
    for (int i = n; i < t->column_count; i++) t->cells[i] = (struct str){0};
    return 1;
}

int tsv_next(struct tsv *t, struct fail *why) {
    struct str line;
    return tsv_line(t, &line) ? tsv_split(t, line, why) : 0;
}

bool tsv_within(int value, int low, int high) {
    return (!low || value >= low) && (!high || value <= high);
}

int tsv_column(const struct tsv *t, const char *column) {
    const struct str wanted = str_of(column);
    for (int i = 0; i < t->column_count; i++) {
        const struct str name = t->columns[i]; // in line: the large tables are asked 20,000 times
        if (name.len == wanted.len && name.p[0] == wanted.p[0] &&
            memcmp(name.p, wanted.p, (size_t)wanted.len) == 0)
            return i;
    }
    return -1;
}

struct str tsv_cell(const struct tsv *t, const char *column) {
    int at = tsv_column(t, column);
    return at < 0 ? (struct str){0} : t->cells[at];
}

static bool is_below(const struct data_file *f, const char *prefix) {
    return strncmp(f->name, prefix, strlen(prefix)) == 0;
}

static struct str name_of_version(struct arena *a, const char *prefix, const char *name) {
    uint64_t hash = 0;
    for (int i = 0; i < data_file_count; i++) {
        const struct data_file *f = &data_files[i];
        if (is_below(f, prefix)) hash = hash * 31 + str_hash(data_text(f));
    }
    return str_format(a, "%s-%016llx", name, (unsigned long long)hash);
}

// What lies there already is compared with what it should be, never trusted.
static int lay_out_file(struct arena *a, struct str folder, const struct data_file *f,
                        const char *prefix, struct fail *why) {
    struct str path = str_format(a, "%.*s/%s", STR_ARG(folder), f->name + strlen(prefix)), there;
    if (os_read(a, path.p, data_text(f).len, &there, NULL, NULL) == 0 &&
        str_equal(there, data_text(f))) {
        return 0;
    }
    char *parent = str_z(a, path);
    *strrchr(parent, '/') = 0;
    int rc = os_make_dirs(a, parent, why);
    return rc < 0 ? rc : os_replace(a, path.p, data_text(f), NULL, why);
}

static int lay_out(struct arena *a, const char *prefix, struct str parent, struct str name,
                   struct str *ret_folder, struct fail *why) {
    struct str folder = str_format(a, "%.*s/%.*s", STR_ARG(parent), STR_ARG(name));
    int rc = os_make_dirs(a, folder.p, why);
    if (rc == 0 && !os_trusts(str_z(a, parent), folder.p)) {
        rc = fail_set(why, FAIL_MACHINE, "%s: others can write to it", folder.p);
    }
    for (int i = 0; rc == 0 && i < data_file_count; i++) {
        const struct data_file *f = &data_files[i];
        if (is_below(f, prefix)) rc = lay_out_file(a, folder, f, prefix, why);
    }
    *ret_folder = folder;
    return rc;
}

int data_lay_out(struct arena *a, const char *prefix, const char *name, struct str *ret_folder,
                 struct fail *why) {
    struct str version = name_of_version(a, prefix, name), temporary;
    int rc = lay_out(a, prefix, os_cache_dir(a), version, ret_folder, why);
    if (rc == 0) return 0;
    if (!os_private_dir(a, &temporary)) { // what is in it will be run: for this user alone
        return fail_hint(why, "choose another folder with XDG_CACHE_HOME");
    }
    return lay_out(a, prefix, temporary, version, ret_folder, why);
}
