// SPDX-License-Identifier: Apache-2.0
// batchfit list runs: what the history holds, the newest first.
#include "verbs/list/list_runs.h"

#include "base/os.h"
#include "base/out.h"
#include "base/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LIMIT = 50 };

// "7d", "36h", "90m", "2w" before now, or a date "2026-11-22" (UTC).
static int read_since(const char *text, int64_t *ret_ms, struct fail *why) {
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    struct str t = str_of(text);
    int64_t count;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (t.len < 2 || t.p[t.len - 1] != units[i].letter) continue;
        if (!str_to_i64(str_slice(t, 0, t.len - 1), &count) || count < 0 || count > 1000000) break;
        *ret_ms = ((int64_t)time(NULL) - count * units[i].seconds) * 1000;
        return 0;
    }
    struct tm date = {0};
    const char *end = strptime(text, "%Y-%m-%d", &date);
    if (end && !*end) {
        *ret_ms = (int64_t)timegm(&date) * 1000;
        return 0;
    }
    fail_set(why, FAIL_USAGE, "--since %s: not a time or a date", text);
    return fail_hint(why, "for example --since 7d (m, h, d, w) or --since 2026-11-22");
}

static void count_cell(struct show_table *t, int64_t value) {
    if (value > 0)
        show_table_format(t, SHOW_PLAIN, "%lld", (long long)value);
    else
        show_table_unknown(t);
}

static void add_row(struct arena *a, struct show_table *t, const struct store_run *run) {
    bool is_good = str_is(run->status, "OK") || str_is(run->status, "FITS");
    show_table_format(t, SHOW_DIM, "%lld", (long long)run->id);
    show_table_cell(t, SHOW_DIM, history_date(a, run->at_ms));
    show_table_format(t, SHOW_PLAIN, "%.*s%s", STR_ARG(run->kind),
                      run->is_standin == 1 ? " (fake)" : "");
    show_table_known(t, SHOW_STRONG, run->plan.model);
    show_table_known(t, SHOW_PLAIN, show_gpu_name(run->gpu));
    count_cell(t, run->plan.batch);
    count_cell(t, run->plan.accumulation);
    show_table_known(t, SHOW_PLAIN, plan_precision_text(run->plan.precision));
    show_table_bytes(t, SHOW_PLAIN, run->peak_bytes);
    show_table_bytes(t, SHOW_PLAIN, run->predicted_bytes);
    show_table_known(t, SHOW_PLAIN, unit_number(a, run->samples_per_s));
    show_table_known(t, is_good ? SHOW_GOOD : SHOW_WARN, run->status);
}

static struct show_table table_of(struct arena *a, const struct store_run *runs, ptrdiff_t count) {
    static const struct show_heading columns[] = {
        {"run", SHOW_RIGHT},       {"when (UTC)", SHOW_LEFT}, {"kind", SHOW_LEFT},
        {"model", SHOW_LEFT},      {"device", SHOW_LEFT},     {"batch", SHOW_RIGHT},
        {"accum.", SHOW_RIGHT},    {"precision", SHOW_LEFT},  {"peak", SHOW_RIGHT},
        {"predicted", SHOW_RIGHT}, {"samples/s", SHOW_RIGHT}, {"status", SHOW_LEFT},
        {NULL, SHOW_LEFT}};
    struct show_table t = show_table_new(a, (struct str){0});
    show_table_columns(&t, columns);
    for (ptrdiff_t i = 0; i < count; i++) add_row(a, &t, &runs[i]);
    return t;
}

static json_t *json_numbers(struct str text) {
    json_t *list = json_array();
    double value;
    while (text.len > 0) {
        if (str_to_double(str_cut(&text, ' '), &value))
            json_array_append_new(list, json_real(value));
    }
    return list;
}

// Every column, by its table: doc/formats/runs-list.md.
static json_t *json_run(const struct store_run *run) {
    json_t *object = json_pack("{s:I}", "id", (json_int_t)run->id);
    for (const struct store_column *c = store_columns; c->since; c++) {
        json_object_set_new(object, c->field.name, json_field(run, &c->field));
    }
    // Kept as a text, and as a number that may be unknown.
    json_object_set_new(object, "each_s", json_numbers(run->each_s));
    if (run->is_standin >= 0)
        json_object_set_new(object, "is_standin", json_boolean(run->is_standin));
    return object;
}

static int print(struct arena *a, struct store_number all, const struct store_run *runs,
                 ptrdiff_t count, bool json, struct fail *why) {
    if (json) {
        json_t *list = json_array();
        for (ptrdiff_t i = 0; i < count; i++) json_array_append_new(list, json_run(&runs[i]));
        return json_print(json_pack("{s:I, s:b, s:o}", "stored", (json_int_t)all.runs,
                                    "stored_is_rough", all.is_rough, "runs", list),
                          why);
    }
    static const char *const gives_way[] = {"accum.", "predicted", "precision", "samples/s",
                                            "kind",   "device",    NULL};
    struct buf out = buf_shown(a);
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct show_table t = table_of(a, runs, count);
    show_table_gives_way(&t, gives_way);
    buf_format(&out, "%td of %s%lld runs\n", count, all.is_rough ? "about " : "",
               (long long)all.runs);
    if (count > 0) buf_byte(&out, '\n');
    if (count > 0) show_table_text(&t, style, &out);
    out_buf(stdout, &out);
    return 0;
}

static int check_kind(const char *kind, struct fail *why) {
    static const char *const kinds[] = {"fit", "trial", "bench", "compare", "run"};
    if (!kind) return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i]) == 0) return 0;
    }
    return fail_set(why, FAIL_USAGE, "--kind %s: not one of fit, trial, bench, compare, run", kind);
}

// What is copied is what the same options would list, were it without a limit.
static int copy(struct arena *a, struct store *from, const struct list_options *o,
                const struct store_filter *filter, struct fail *why) {
    struct store *to;
    struct store_copied n;
    int rc = store_open(a, str_of(o->copy_to), &to, why);
    if (rc < 0) return rc;
    struct str name = store_name(to), note = store_note(to);
    rc = str_equal(name, store_name(from))
             ? fail_set(why, FAIL_USAGE, "--copy-to: the runs are there already")
             : store_copy(from, to, filter, &n, why);
    if (note.len > 0) out_say(stderr, "batchfit: %.*s\n", STR_ARG(note));
    store_close(to);
    if (rc < 0) return rc;
    if (o->base.json) {
        return json_print(json_pack("{s:I, s:I, s:o}", "copied", (json_int_t)n.copied, "present",
                                    (json_int_t)n.present, "to", json_text(name)),
                          why);
    }
    out_say(stdout, "runs copied to %.*s: %lld; already there: %lld\n", STR_ARG(name),
            (long long)n.copied, (long long)n.present);
    return 0;
}

// Of a folder: looking makes no history.
static bool is_absent(struct arena *a, struct str place) {
    return place.len > 0 && !store_is_address(place) && !os_exists(str_z(a, place));
}

static int list_stored(struct arena *a, struct store *store, const struct list_options *o,
                       const struct store_filter *filter, struct fail *why) {
    struct store_run *runs = NULL;
    ptrdiff_t count = 0;
    struct store_number all = {0};
    int rc = store_find(store, a, filter, &runs, &count, why);
    if (rc == 0) rc = store_count(store, &all, why);
    return rc < 0 ? rc : print(a, all, runs, count, o->base.json, why);
}

int list_runs(struct arena *a, const struct list_options *o, struct fail *why) {
    struct store_filter filter = {.kind = str_of(o->kind),
                                  .model_like = str_of(o->model),
                                  .gpu_like = str_of(o->gpu),
                                  .limit = o->limit > 0 ? o->limit : LIMIT};
    struct store *store;
    struct str place = store_place(a, o->store);
    int rc = o->since ? read_since(o->since, &filter.since_ms, why) : 0;
    if (rc == 0) rc = check_kind(o->kind, why);
    if (rc == 0 && o->copy_to && o->limit > 0)
        return fail_set(why, FAIL_USAGE, "--copy-to copies all of the runs: leave out --limit");
    if (rc < 0) return rc;
    if (is_absent(a, place) && !o->copy_to)
        return print(a, (struct store_number){0}, NULL, 0, o->base.json, why);
    if (is_absent(a, place))
        return fail_set(why, FAIL_INPUT, "%.*s: there is no history", STR_ARG(place));
    rc = store_open(a, place, &store, why);
    if (rc < 0) return rc;
    rc = o->copy_to ? copy(a, store, o, &filter, why) : list_stored(a, store, o, &filter, why);
    struct str note = store_note(store);
    if (note.len > 0) out_say(stderr, "batchfit: %.*s\n", STR_ARG(note));
    store_close(store);
    return rc;
}
