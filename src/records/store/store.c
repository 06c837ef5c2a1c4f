// SPDX-License-Identifier: Apache-2.0
// The history, whichever database it is in: what goes in, what comes out, and copies from one to
// another.
#include "records/store/store_int.h"

#include <sys/random.h>

enum { UID_BYTES = 16 };

// --- What goes in, what comes out ----------------------------------------------------------------

static struct str hex(struct arena *a, const unsigned char *bytes, int count) {
    struct buf text = buf_new(a);
    for (int i = 0; i < count; i++) buf_format(&text, "%02x", bytes[i]);
    return buf_str(&text);
}

struct str store_new_uid(struct arena *a) {
    unsigned char bytes[UID_BYTES];
    // Without random numbers the run has none, and can be told from its copy by its content only.
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return (struct str){0};
    return hex(a, bytes, UID_BYTES);
}

struct str store_note(const struct store *s) {
    return s->note;
}

struct str store_name(const struct store *s) {
    return s->path;
}

void store_close(struct store *s) {
    if (s) s->engine->close(s);
}

int store_add(struct store *s, const struct store_run *run, int64_t *ret_id, struct fail *why) {
    ARENA_AUTO a = {0};
    struct store_run row = *run;
    struct fail cause = {0};
    if (s->unwritable.len > 0) return fail_set(why, FAIL_MACHINE, "%s", s->unwritable.p);
    if (row.uid.len == 0) row.uid = store_new_uid(&a);
    int rc = s->engine->add(s, &row, 1, ret_id, NULL, &cause);
    if (rc < 0 && s->engine->keep) {
        if (ret_id) *ret_id = -1;
        rc = s->engine->keep(s, &row, &cause);
    }
    if (rc < 0 && why) *why = cause;
    return rc;
}

static int find(struct store *s, struct arena *a, struct store_query q, struct store_run **ret_runs,
                ptrdiff_t *ret_count, struct fail *why) {
    struct store_found found = {0};
    int rc = s->engine->find(s, a, &q, &found, why);
    *ret_runs = found.items;
    *ret_count = found.count;
    return rc;
}

int store_find(struct store *s, struct arena *a, const struct store_filter *filter,
               struct store_run **ret_runs, ptrdiff_t *ret_count, struct fail *why) {
    return find(s, a, store_query_of(a, filter, s->engine->is_lateral), ret_runs, ret_count, why);
}

int store_grouped(struct store *s, struct arena *a, enum store_group by, int64_t since_ms,
                  int64_t busy_since_ms, int64_t limit, struct store_run **ret_runs,
                  ptrdiff_t *ret_count, struct fail *why) {
    return find(s, a, store_query_of_groups(a, by, since_ms, busy_since_ms, limit), ret_runs,
                ret_count, why);
}

int store_count(struct store *s, struct store_number *ret, struct fail *why) {
    return s->engine->count(s, ret, why);
}

// --- Copies --------------------------------------------------------------------------------------

// A run of before version 3: the same each time that it is copied. Its number tells apart those
// that are alike in all else.
static struct str uid_of_old(struct arena *a, const struct store_run *run) {
    struct buf text = buf_new(a);
    buf_format(&text, "%lld", (long long)run->id);
    for (const struct store_column *c = store_columns; c->since; c++) {
        enum field_type type = field_outside(&c->field);
        buf_byte(&text, '\n');
        if (type == FIELD_TEXT) buf_add(&text, field_text(run, &c->field));
        if (type == FIELD_WHOLE) buf_format(&text, "%lld", (long long)field_whole(run, &c->field));
        if (type == FIELD_REAL) buf_format(&text, "%.17g", field_real(run, &c->field));
    }
    return str_format(a, "old-%016llx", (unsigned long long)str_hash(buf_str(&text)));
}

int store_copy(struct store *from, struct store *to, const struct store_filter *filter,
               struct store_copied *ret, struct fail *why) {
    ARENA_AUTO a = {0};
    struct store_filter part = *filter;
    part.above_id = -1;
    part.limit = STORE_AT_ONCE;
    *ret = (struct store_copied){0};
    if (to->unwritable.len > 0) return fail_set(why, FAIL_MACHINE, "%s", to->unwritable.p);
    for (;;) {
        struct arena_mark mark = arena_mark(&a);
        struct store_run *runs;
        ptrdiff_t count, new = 0;
        int rc = store_find(from, &a, &part, &runs, &count, why);
        if (rc < 0 || count == 0) return rc;
        part.above_id = runs[count - 1].id;
        for (ptrdiff_t i = 0; i < count; i++) {
            if (runs[i].uid.len == 0) runs[i].uid = uid_of_old(&a, &runs[i]);
        }
        rc = to->engine->add(to, runs, count, NULL, &new, why);
        if (rc < 0) return rc;
        ret->copied += new;
        ret->present += count - new;
        arena_rewind(&a, mark);
    }
}
