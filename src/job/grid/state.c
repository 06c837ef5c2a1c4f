// SPDX-License-Identifier: Apache-2.0
// The trials of a benchmark that is under way, one JSON object a line, in the cache folder under a
// name made from all that identifies the run. A line is one write; what an interrupt or a full disk
// left half written is passed over and counted. Two runs of one command do not share a file: the
// second keeps nothing. A part of a grid has a file of its own, "HASH.2-4.jsonl".
#include "job/grid/grid.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, MAX_BYTES = 256 << 20 };

// --- Reading -------------------------------------------------------------------------------------

static int64_t count_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool read_samples(struct arena *a, const json_t *object, struct grid_trial *t) {
    const json_t *list = json_object_get(object, "seconds_per_sample");
    t->seconds_per_sample = arena_new(a, double, (ptrdiff_t)json_array_size(list) + 1);
    for (size_t i = 0; i < json_array_size(list); i++) {
        double seconds = json_number_value(json_array_get(list, i));
        if (!(seconds > 0)) return false;
        t->seconds_per_sample[t->sample_count++] = seconds;
    }
    return json_is_array(list);
}

static const struct field outputs_fields[] = {
    FIELD(struct steps_outputs, reference), FIELD(struct steps_outputs, samples),
    FIELD(struct steps_outputs, max_abs),   FIELD(struct steps_outputs, mean_abs),
    FIELD(struct steps_outputs, max_rel),   FIELD(struct steps_outputs, mean_rel),
    FIELD(struct steps_outputs, top1),      {.name = NULL},
};
static const struct field trial_fields[] = {
    FIELD(struct grid_trial, reason),         FIELD(struct grid_trial, hint),
    FIELD(struct grid_trial, steps),          FIELD(struct grid_trial, seen_batch),
    FIELD(struct grid_trial, peak_bytes),     FIELD(struct grid_trial, charged_bytes),
    FIELD(struct grid_trial, device_share),   FIELD(struct grid_trial, differs),
    FIELD(struct grid_trial, engine_version), {.name = NULL},
};

static bool read_trial(struct arena *a, const json_t *object, struct grid_trial *t) {
    const json_t *outputs = json_object_get(object, "outputs");
    *t = (struct grid_trial){.outputs.is_said = json_is_object(outputs)};
    json_read_fields(a, object, t, trial_fields);
    json_read_fields(a, outputs, &t->outputs, outputs_fields);
    for (int i = 0; i < STEP_TIME_COUNT; i++)
        t->times.ms[i] = json_number_at(object, step_time_keys[i]);
    struct str status = str_of(json_string_value(json_object_get(object, "status")));
    return launch_status_find(status, &t->status) && read_samples(a, object, t) && t->steps >= 0;
}

static bool read_line(struct arena *a, struct str line, struct grid_rows *rows) {
    json_t *object = json_loadb(line.p, (size_t)line.len, 0, NULL);
    struct grid_trial trial;
    int64_t row = count_of(object, "row");
    bool is_good = row >= 0 && row < rows->count && read_trial(a, object, &trial);
    if (is_good) grid_row_add(a, &rows->items[row], &trial);
    json_decref(object);
    return is_good;
}

// The first line says whose trials these are: the name is only a hash.
static bool read_head(struct arena *a, struct str line, struct str identity,
                      struct str *ret_began) {
    json_t *object = json_loadb(line.p, (size_t)line.len, 0, NULL);
    bool is_ours = count_of(object, "bench_state") == VERSION &&
                   str_equal(json_text_at(a, object, "identity"), identity);
    *ret_began = json_text_at(a, object, "began");
    json_decref(object);
    return is_ours;
}

static bool read_state(struct arena *a, struct str text, struct str identity,
                       struct grid_rows *rows, struct grid_state *s) {
    if (!read_head(a, str_cut(&text, '\n'), identity, &s->began)) return false;
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        if (line.len > 0 && !read_line(a, line, rows)) s->broken_lines++;
    }
    return true;
}

static ptrdiff_t count_tried(const struct grid_rows *rows) {
    ptrdiff_t tried = 0;
    for (ptrdiff_t i = 0; i < rows->count; i++) tried += rows->items[i].trial_count > 0;
    return tried;
}

static struct str path_of(struct arena *a, struct str identity, struct grid_part part) {
    struct str cache = os_cache_dir(a), name = {0};
    if (part.index > 0)
        name = str_format(a, ".%lld-%lld", (long long)part.index, (long long)part.count);
    return str_format(a, "%.*s/bench/%016llx%.*s.jsonl", STR_ARG(cache),
                      (unsigned long long)str_hash(identity), STR_ARG(name));
}

static void read_parts(struct arena *a, struct str identity, int64_t count, struct grid_rows *rows,
                       struct grid_state *s) {
    const struct str began = s->began;
    for (int64_t i = 1; i <= count; i++) {
        struct str text, path = path_of(a, identity, (struct grid_part){i, count});
        if (!os_exists(path.p) || os_read(a, path.p, MAX_BYTES, &text, NULL, NULL) < 0) continue;
        if (read_state(a, text, identity, rows, s)) str_list_add(a, &s->parts, path);
    }
    s->joined = count_tried(rows);
    s->began = began;
}

int grid_read_part(const char *text, struct grid_part *ret_part, struct fail *why) {
    struct str rest = str_of(text), index = str_cut(&rest, '/');
    struct grid_part p = {0};
    bool is_read = str_to_i64(rest, &p.count) && p.count > 0 && p.count <= 1000;
    bool is_all = str_is(index, "all");
    if (is_read && !is_all)
        is_read = str_to_i64(index, &p.index) && p.index > 0 && p.index <= p.count;
    *ret_part = p;
    if (is_read) return 0;
    fail_set(why, FAIL_USAGE, "--share %s: not I/N or all/N", text);
    return fail_hint(why, "--share 2/4 measures the second of four parts, --share all/4 puts them "
                          "together");
}

void grid_keep_part(struct grid_rows *rows, struct grid_part part) {
    ptrdiff_t kept = 0, combinations = 0;
    if (part.index == 0) return;
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        ptrdiff_t combination = rows->items[i].setting.combination;
        if (combination >= combinations) combinations = combination + 1;
    }
    for (ptrdiff_t i = 0; i < rows->count; i++) {
        const struct grid_row *row = &rows->items[i];
        ptrdiff_t unit = combinations < part.count ? row->index : row->setting.combination;
        if (unit % part.count == part.index - 1) rows->items[kept++] = *row;
    }
    rows->count = kept;
}

json_t *grid_outputs_json(const struct steps_outputs *o) {
    return o->is_said ? json_fields(o, outputs_fields) : json_null();
}

// --- Writing -------------------------------------------------------------------------------------

static struct str now_text(struct arena *a) {
    time_t now = time(NULL);
    struct tm local;
    char text[32] = "";
    localtime_r(&now, &local);
    return str_copy(
        a, (struct str){text, (ptrdiff_t)strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local)});
}

// The line in one write.
static void put(struct grid_state *s, struct arena *a, json_t *object) {
    struct str text = json_take(a, object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    struct str line = str_format(a, "%.*s\n", STR_ARG(text));
    ssize_t n = write(s->fd, line.p, (size_t)line.len);
    if (n == line.len) return;
    close(s->fd); // a full disk: what is there is still good
    s->fd = -1;
}

void grid_state_add(struct grid_state *s, struct arena *a, ptrdiff_t row,
                    const struct grid_trial *trial) {
    if (s->fd < 0 || !launch_status_is_kept(trial->status)) return;
    json_t *samples = json_array();
    for (ptrdiff_t i = 0; i < trial->sample_count; i++) {
        json_array_append_new(samples, json_real(trial->seconds_per_sample[i]));
    }
    json_t *object = json_pack("{s:I, s:s, s:o, s:o}", "row", (json_int_t)row, "status",
                               launch_status_name(trial->status), "outputs",
                               grid_outputs_json(&trial->outputs), "seconds_per_sample", samples);
    json_add_fields(object, trial, trial_fields);
    for (int i = 0; i < STEP_TIME_COUNT; i++)
        json_object_set_new(object, step_time_keys[i], json_number(trial->times.ms[i]));
    put(s, a, object);
    s->added++;
}

static void begin(struct grid_state *s, struct arena *a, struct str identity) {
    s->began = (struct str){0};
    s->taken = s->broken_lines = 0;
    if (ftruncate(s->fd, 0) < 0) return;
    put(s, a,
        json_pack("{s:i, s:o, s:o}", "bench_state", VERSION, "began", json_text(now_text(a)),
                  "identity", json_text(identity)));
}

static void no_state(struct grid_state *s, struct str *ret_note, struct str note) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    *ret_note = note;
}

void grid_state_open(struct arena *a, struct str identity, struct grid_part part, bool fresh,
                     struct grid_rows *rows, struct grid_state *ret_state, struct str *ret_note) {
    struct grid_state *s = ret_state;
    struct str folder = str_format(a, "%.*s/bench", STR_ARG(os_cache_dir(a))), text = {0};
    struct fail why = {0};
    *s = (struct grid_state){.fd = -1, .is_part = part.index > 0};
    *ret_note = (struct str){0};
    s->path = path_of(a, identity, part);
    if (part.index == 0 && part.count > 0) read_parts(a, identity, part.count, rows, s);
    if (os_make_private_dirs(a, folder.p, &why) < 0) {
        no_state(s, ret_note,
                 str_format(a, "this run cannot be resumed if interrupted: %s", why.message));
        return;
    }
    s->fd = open(s->path.p, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (s->fd < 0) {
        no_state(s, ret_note,
                 str_format(a, "this run cannot be resumed if interrupted: %s: %s", s->path.p,
                            strerror(errno)));
        return;
    }
    if (flock(s->fd, LOCK_EX | LOCK_NB) < 0) {
        no_state(s, ret_note,
                 STR("the same benchmark is already running: this one cannot be resumed if "
                     "interrupted, and each distorts the other's times"));
        return;
    }
    bool is_read = !fresh && os_read(a, s->path.p, MAX_BYTES, &text, NULL, &why) == 0;
    if (!is_read || text.len == 0 || !read_state(a, text, identity, rows, s)) {
        begin(s, a, identity);
        return;
    }
    s->taken = count_tried(rows) - s->joined;
    // A line that was cut short must not take the next with it.
    if (text.p[text.len - 1] != '\n') (void)!write(s->fd, "\n", 1);
    if (s->broken_lines > 0) {
        *ret_note = str_format(a, "%s: %d broken line%s measured again", s->path.p, s->broken_lines,
                               s->broken_lines == 1 ? " is" : "s are");
    }
}

void grid_state_close(struct grid_state *s, bool done) {
    if (s->fd < 0) return;
    if ((done && !s->is_part) || s->taken + s->added == 0) unlink(s->path.p);
    for (ptrdiff_t i = 0; done && i < s->parts.count; i++) unlink(s->parts.items[i].p);
    close(s->fd);
    s->fd = -1;
}
