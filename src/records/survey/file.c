// SPDX-License-Identifier: Apache-2.0
// A machine's file, JSON Lines (doc/formats/team-results.md): the first line says what it is, each
// further line is a record. Records stand in order and their keys too, so that git sees a changed
// line where something was measured and nowhere else. A line that is no record makes the whole file
// unusable: who wrote it must look at it, the others are not stopped.
#include "records/survey/survey_int.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 200, MACHINE_DIGITS = 16, TIDY_AFTER = 1000 };
// Counts that no training has; three of them multiplied stay below 2^63.
static const int64_t count_most = INT64_C(1) << 20, bytes_most = INT64_C(1) << 60;

struct reader {
    struct arena *arena;
    struct str path;
    int64_t line;
    struct fail *why;
};

static int damaged(const struct reader *r, const char *what, const char *key) {
    fail_set(r->why, FAIL_INPUT, "%.*s:%lld: %s%s%s", STR_ARG(r->path), (long long)r->line, what,
             *key ? " " : "", key);
    return fail_hint(r->why,
                     "restore the file from git, or delete it and let its machine collect again");
}

// --- Values --------------------------------------------------------------------------------------

// Texts of others end up on this user's terminal and in this user's settings.
static bool is_plain(struct str s) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7f) return false;
    }
    json_t *text = s.len <= TEXT_MOST ? json_stringn(s.p ? s.p : "", (size_t)s.len) : NULL;
    json_decref(text); // no UTF-8: there is none
    return text != NULL;
}

bool survey_is_name(struct str s) {
    return s.len > 0 && is_plain(s);
}

static bool is_date(struct str s) {
    static const char shape[] = "0000-00-00T00:00:00Z";
    if (s.len != (ptrdiff_t)sizeof shape - 1) return false;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (shape[i] == '0' ? !str_is_digit(s.p[i]) : s.p[i] != shape[i]) return false;
    }
    return true;
}

static bool is_status(struct str s) {
    static const char *const words[] = {"OK", "ALMOST", "OOM", "SPILLS", NULL};
    return str_is_one_of(s, words);
}

static bool is_machine(struct str s) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (!strchr("0123456789abcdef", s.p[i]) || !s.p[i]) return false;
    }
    return s.len == MACHINE_DIGITS;
}

static bool is_sound(const struct survey_record *r, const struct survey_member *m) {
    const struct field *f = &m->field;
    enum field_type type = field_outside(f);
    if (type == FIELD_REAL)
        return isnan(field_real(r, f)) || (field_real(r, f) > 0 && field_real(r, f) < 1e12);
    if (type == FIELD_TEXT)
        return is_plain(field_text(r, f)) && (field_text(r, f).len > 0 || !m->is_needed);
    int64_t most = str_ends(str_of(f->name), STR("_bytes")) ? bytes_most : count_most;
    return field_whole(r, f) >= (m->is_needed ? 1 : -1) && field_whole(r, f) <= most;
}

const char *survey_unsound(const struct survey_record *r) {
    for (const struct survey_member *m = survey_members; m->field.name; m++) {
        if (!is_sound(r, m)) return m->field.name;
    }
    return !is_date(r->date) ? "date" : !is_status(r->status) ? "status" : NULL;
}

static bool take_text(struct arena *a, const json_t *value, struct str *ret) {
    struct str text = {json_string_value(value), (ptrdiff_t)json_string_length(value)};
    *ret = json_is_string(value) ? str_copy(a, text) : (struct str){0};
    return json_is_string(value) && text.len > 0 && is_plain(text);
}

// Of the right type; whether the value can be is asked later.
static bool take(struct arena *a, const json_t *value, const struct survey_member *m,
                 struct survey_record *record) {
    struct str text;
    if (!value || json_is_null(value)) return !m->is_needed;
    switch (field_outside(&m->field)) {
    case FIELD_TEXT:
        if (!take_text(a, value, &text)) return false;
        field_set_text(record, &m->field, text);
        return true;
    case FIELD_REAL:
        field_set_real(record, &m->field, json_number_value(value));
        return json_is_number(value);
    default:
        field_set_whole(record, &m->field, json_integer_value(value));
        return json_is_integer(value) && json_integer_value(value) >= 0;
    }
}

// --- Lines ---------------------------------------------------------------------------------------

static json_t *parse(struct str line) {
    json_t *object =
        json_loadb(line.p ? line.p : "", (size_t)line.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(object)) return object;
    json_decref(object);
    return NULL;
}

static int read_head(const struct reader *r, struct str line, struct survey_file *file) {
    json_t *object = parse(line);
    const json_t *version = json_object_get(object, "batchfit_team");
    const json_t *name = json_object_get(object, "name");
    int rc = 0;
    if (!json_is_integer(version) || json_integer_value(version) < 1) {
        rc = damaged(r, "not a file of batchfit team --collect", "");
    } else if (json_integer_value(version) > SURVEY_VERSION) {
        fail_set(r->why, FAIL_INPUT,
                 "%.*s: written by a newer batchfit (format %lld, this one reads %d)",
                 STR_ARG(r->path), (long long)json_integer_value(version), SURVEY_VERSION);
        rc = fail_hint(r->why, "update batchfit on this machine");
    } else if (!take_text(r->arena, json_object_get(object, "machine"), &file->machine) ||
               !is_machine(file->machine)) {
        rc = damaged(r, "no valid", "machine");
    } else if (name && !json_is_null(name) && !take_text(r->arena, name, &file->name)) {
        rc = damaged(r, "no valid", "name");
    }
    json_decref(object);
    return rc;
}

static int read_record(const struct reader *r, struct str line, struct survey_record *record) {
    json_t *object = parse(line);
    const char *bad = NULL;
    *record = survey_record_unknown();
    for (const struct survey_member *m = survey_members; object && m->field.name && !bad; m++) {
        if (!take(r->arena, json_object_get(object, m->field.name), m, record)) bad = m->field.name;
    }
    if (object && !bad) bad = survey_unsound(record);
    int rc = !object ? damaged(r, "this line is not a JSON object", "")
             : bad   ? damaged(r, "a record with no valid", bad)
                     : 0;
    json_decref(object);
    return rc;
}

static bool is_marker(struct str line) {
    static const char *const markers[] = {"<<<<<<<", "=======", ">>>>>>>", "|||||||", NULL};
    return str_starts_one_of(line, markers);
}

static int check_markers(struct reader *r, struct str text) {
    for (r->line = 1; text.len > 0; r->line++) {
        if (!is_marker(str_line(&text))) continue;
        fail_set(r->why, FAIL_INPUT, "%.*s:%lld: a git conflict marker: a merge was not finished",
                 STR_ARG(r->path), (long long)r->line);
        return fail_hint(r->why, "keep the lines of both sides and delete the markers");
    }
    return 0;
}

// --- Several of them -----------------------------------------------------------------------------

static int by_age(const struct survey_record *x, const struct survey_record *y) {
    int order = strncmp(x->date.p, y->date.p, 20);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_identity(const void *a, const void *b) {
    int order = survey_compare(a, b);
    return order ? order : by_age(a, b);
}

static int newest_first(const void *a, const void *b) {
    return by_age(b, a);
}

// Sorted, and of several that are known by the same the newest: git joins what two branches added.
static void tidy(struct survey_file *file) {
    ptrdiff_t kept = 0;
    if (file->count == 0) return;
    qsort(file->records, (size_t)file->count, sizeof *file->records, by_identity);
    for (ptrdiff_t i = 0; i < file->count; i++) {
        bool has_newer =
            i + 1 < file->count && survey_compare(&file->records[i], &file->records[i + 1]) == 0;
        if (!has_newer) file->records[kept++] = file->records[i];
    }
    file->count = file->tidied = kept;
}

void survey_add(struct arena *a, struct survey_file *file, const struct survey_record *record) {
    struct survey_record *new = arena_push(a, &file->records, &file->count, &file->capacity);
    *new = *record;
    new->number = file->came++;
    if (file->count > 2 * file->tidied + TIDY_AFTER) tidy(file);
}

ptrdiff_t survey_drop_oldest(struct survey_file *file) {
    tidy(file);
    const ptrdiff_t over = file->count - SURVEY_RECORDS_MOST;
    if (over <= 0) return 0;
    qsort(file->records, (size_t)file->count, sizeof *file->records, newest_first);
    file->count = SURVEY_RECORDS_MOST;
    return over;
}

static int read_lines(struct reader *r, struct str text, struct survey_file *file) {
    struct survey_record record;
    r->line = 1;
    int rc = read_head(r, str_line(&text), file);
    while (rc == 0 && text.len > 0) {
        struct str line = str_trim(str_line(&text));
        r->line++;
        if (line.len == 0) continue;
        rc = read_record(r, line, &record);
        if (rc == 0) survey_add(r->arena, file, &record);
    }
    return rc;
}

int survey_read(struct arena *a, struct str path, struct str text, struct survey_file *ret_file,
                int64_t *ret_line, struct fail *why) {
    struct fail unheard;
    struct reader r = {a, path, 0, why ? why : &unheard};
    *ret_file = (struct survey_file){0};
    int rc = check_markers(&r, text);
    if (rc == 0) rc = read_lines(&r, text, ret_file);
    if (rc == 0) tidy(ret_file);
    if (ret_line) *ret_line = rc < 0 ? r.line : 0;
    return rc;
}

// --- Writing -------------------------------------------------------------------------------------

static void put(struct buf *b, json_t *object) {
    buf_add(b, json_take(b->arena, object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6)));
    buf_byte(b, '\n');
}

struct str survey_write(struct arena *a, struct survey_file *file) {
    struct buf b = buf_new(a);
    tidy(file);
    put(&b, json_pack("{s:i, s:o, s:o}", "batchfit_team", SURVEY_VERSION, "machine",
                      json_text(file->machine), "name", json_text(file->name)));
    for (ptrdiff_t i = 0; i < file->count; i++) {
        json_t *object = json_object();
        for (const struct survey_member *m = survey_members; m->field.name; m++) {
            const struct survey_record *r = &file->records[i];
            json_t *value = m->field.type == FIELD_SWITCH // the format has 0 and 1
                                ? json_integer(field_whole(r, &m->field))
                                : json_field(r, &m->field);
            json_object_set_new(object, m->field.name, value);
        }
        put(&b, object);
    }
    return buf_str(&b);
}
