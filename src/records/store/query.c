// SPDX-License-Identifier: Apache-2.0
// Looking runs up. A filter becomes a condition of fixed texts with bound values: nothing that a
// user writes is ever part of the SQL, which is the same for both databases.
#include "records/store/store_int.h"

// What narrows: a condition with %d for the number of its value, and the value.
struct term {
    const char *sql;
    bool applies;
    struct store_value value;
};

// As people write names: "rtx3060" is "NVIDIA GeForce RTX 3060".
#define AS_WRITTEN(name) "replace(replace(replace(lower(" name "), ' ', ''), '_', ''), '-', '')"

// Part of a name is looked for among the few distinct names, each found by one step in the index (a
// loose index scan, by recursion), then the rows by their index. A name from which taking the part
// out leaves less has it: the two databases call the search for it otherwise.
#define NAMES(column)                                                               \
    "WITH RECURSIVE names(name) AS (SELECT min(" column ") FROM runs UNION ALL "    \
    "SELECT (SELECT min(" column ") FROM runs WHERE " column " > name) FROM names " \
    "WHERE name IS NOT NULL) "
#define IS_LIKE "replace(" AS_WRITTEN("name") ", " AS_WRITTEN("$%d") ", '') <> " AS_WRITTEN("name")
#define NAMED_LIKE(column) column " IN (" NAMES(column) "SELECT name FROM names WHERE " IS_LIKE ")"

#define TEXT(member) \
    { .is_text = true, .text = f->member }
#define WHOLE(number) \
    { .whole = (number) }

struct str store_column_names(struct arena *a, const char *before) {
    struct buf names = buf_new(a);
    for (const struct store_column *c = store_columns; c->since; c++) {
        if (names.count > 0) buf_add(&names, STR(", "));
        buf_add(&names, str_of(before));
        buf_add(&names, str_of(c->field.name));
    }
    return buf_str(&names);
}

// A condition with the number of its value in it.
static void add_term(struct buf *to, const char *sql, struct store_value value,
                     struct store_query *q) {
    q->values[q->count++] = value;
    for (struct str rest = str_of(sql); rest.len > 0;) {
        ptrdiff_t at = str_find(rest, STR("%d"));
        buf_add(to, at < 0 ? rest : str_slice(rest, 0, at));
        if (at >= 0) buf_format(to, "%d", q->count);
        rest = at < 0 ? (struct str){0} : str_slice(rest, at + 2, rest.len);
    }
}

static struct str conditions(struct arena *a, const struct store_filter *f, bool has_names,
                             struct store_query *q) {
    const struct term terms[] = {
        {"kind = $%d", f->kind.len > 0, TEXT(kind)},
        {"question = $%d", f->question.len > 0, TEXT(question)},
        {"status = $%d", f->status.len > 0, TEXT(status)},
        {"gpu = $%d", f->gpu.len > 0, TEXT(gpu)},
        {"model = $%d", f->model.len > 0, TEXT(model)},
        {NAMED_LIKE("gpu"), f->gpu_like.len > 0, TEXT(gpu_like)},
        {NAMED_LIKE("model"), f->model_like.len > 0 && !has_names, TEXT(model_like)},
        {"at_ms >= $%d", f->since_ms > 0, WHOLE(f->since_ms)},
        {"id = $%d", f->id > 0, WHOLE(f->id)},
        {"id > $%d", f->above_id != 0, WHOLE(f->above_id)},
        {"is_standin = $%d", f->only_real && !f->only_predicted, WHOLE(0)},
        // All but the last as in the index runs_predicted.
        {"predicted_reserved_bytes > 0 AND reserved_bytes > 0 AND is_standin = 0 AND "
         "coalesce(alloc_retries, 0) <= $%d",
         f->only_predicted, WHOLE(0)},
    };
    struct buf where = buf_new(a);
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        if (!terms[i].applies) continue;
        if (where.count > 0) buf_add(&where, STR(" AND "));
        add_term(&where, terms[i].sql, terms[i].value, q);
    }
    return buf_str(&where);
}

// The newest of each such model, and of these the newest. PostgreSQL's planner cannot know how many
// names there will be, and would walk through all runs for a name that none has.
static void by_names(struct buf *sql, const struct store_filter *f, struct str where,
                     struct str limit, struct store_query *q) {
    ARENA_AUTO a = {0};
    buf_format(
        sql,
        NAMES("model") "SELECT id, %.*s FROM names CROSS JOIN LATERAL (SELECT * FROM runs "
                       "WHERE model = name%s%.*s ORDER BY at_ms DESC, id DESC%.*s) AS theirs "
                       "WHERE ",
        STR_ARG(store_column_names(&a, "")), where.len > 0 ? " AND " : "", STR_ARG(where),
        STR_ARG(limit));
    add_term(sql, IS_LIKE, (struct store_value)TEXT(model_like), q);
}

struct store_query store_query_of(struct arena *a, const struct store_filter *f, bool is_lateral) {
    struct store_query q = {0};
    struct buf sql = buf_new(a);
    bool has_names = is_lateral && f->model_like.len > 0 && !f->above_id;
    struct str where = conditions(a, f, has_names, &q), limit = {0};
    if (f->limit > 0) {
        q.values[q.count++] = (struct store_value)WHOLE(f->limit);
        limit = str_format(a, " LIMIT $%d", q.count);
    }
    if (has_names)
        by_names(&sql, f, where, limit, &q);
    else
        buf_format(&sql, "SELECT id, %.*s FROM runs%s%.*s", STR_ARG(store_column_names(a, "")),
                   where.len > 0 ? " WHERE " : "", STR_ARG(where));
    buf_add(&sql, f->above_id ? STR(" ORDER BY id") : STR(" ORDER BY at_ms DESC, id DESC"));
    buf_add(&sql, limit);
    q.sql = str_of(buf_z(&sql));
    return q;
}

// --- Groups --------------------------------------------------------------------------------------

// A group is a row like any other, so that both databases read it as they read a run: what a column
// holds of it. $1: from when on their time counts; $2: from when on they ended. In this order they
// come, as SQLite numbers them.
#define ENDED "at_ms >= CAST($2 AS BIGINT)"
#define COUNTED                                                                     \
    "(CASE WHEN at_ms < CAST($1 AS BIGINT) THEN 0.0 WHEN at_ms - seconds * 1000 < " \
    "CAST($1 AS BIGINT) THEN (at_ms - CAST($1 AS BIGINT)) / 1000.0 ELSE seconds END)"
static const struct {
    const char *column, *sql;
} of_group[] = {
    {"at_ms", "max(at_ms)"},
    {"seconds", "sum(" COUNTED ")"},
    {"device_share",
     "sum(device_share * " COUNTED
     ") / nullif(sum(CASE WHEN device_share IS NULL THEN 0.0 ELSE " COUNTED " END), 0.0)"},
    {"peak_bytes", "max(peak_bytes)"},
    {"capacity_bytes", "max(capacity_bytes)"},
    {"limit_bytes", "max(limit_bytes)"},
};
static const struct {
    const char *keys, *more; // what the runs are grouped by; a further condition
} groups[STORE_GROUPS] = {
    [STORE_BY_MODEL] = {"model gpu", ""},
    [STORE_BY_CARD] = {"gpu gpu_hash", ""},
    [STORE_BY_SPARE] = {"model gpu",
                        " AND kind = 'run' AND peak_bytes > 0 AND peak_bytes * 2 <= CASE WHEN "
                        "limit_bytes > 0 THEN limit_bytes ELSE capacity_bytes END"},
};

static void add_column(struct buf *sql, const char *name, const char *keys) {
    const char *is = str_has_word(str_of(keys), str_of(name)) ? name : "NULL";
    for (size_t i = 0; i < sizeof of_group / sizeof *of_group; i++)
        if (str_is(str_of(name), of_group[i].column)) is = of_group[i].sql;
    buf_format(sql, ", %s", is);
}

struct store_query store_query_of_groups(struct arena *a, enum store_group by, int64_t since_ms,
                                         int64_t busy_since_ms, int64_t limit) {
    struct store_query q = {.count = 3};
    struct buf sql = buf_new(a);
    const char *keys = groups[by].keys;
    struct str rest = str_of(keys), first = str_cut(&rest, ' ');
    q.values[0] = (struct store_value)WHOLE(busy_since_ms);
    q.values[1] = (struct store_value)WHOLE(since_ms);
    q.values[2] = (struct store_value)WHOLE(limit);
    buf_add(&sql, STR("SELECT count(*)"));
    for (const struct store_column *c = store_columns; c->since; c++)
        add_column(&sql, c->field.name, keys);
    buf_format(&sql,
               " FROM runs WHERE " ENDED " AND is_standin = 0 AND device = 'cuda' AND kind IN "
               "('run', 'trial', 'bench')%s GROUP BY %.*s, %.*s ORDER BY coalesce(sum(" COUNTED
               "), 0.0) DESC, count(*) DESC, %.*s LIMIT $3",
               groups[by].more, STR_ARG(first), STR_ARG(rest), STR_ARG(first));
    q.sql = str_of(buf_z(&sql));
    return q;
}
