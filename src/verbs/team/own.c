// SPDX-License-Identifier: Apache-2.0
// This machine's file: what the history has of the question, added to what is in the file already.
// A history that was lost takes nothing out of it. No host, user or path goes in: the machine is a
// number that was drawn once and lies beside the history. A history that a fleet shares is one
// machine here: whoever collects from it writes the same file.
#include "job/answer/answer.h"
#include "records/store/store.h"
#include "verbs/team/team.h"

#include <ctype.h>
#include <sys/random.h>
#include <time.h>

enum { FILE_BYTES_MOST = 8 << 20, DIGITS = 16 };
// A trial with --memory had only a part of the GPU: what the driver keeps is far less than this.
static const double least_share = 0.9, most_share = 1.1;

// --- Which GPU -----------------------------------------------------------------------------------

// "tesla_k80_12gb", for a GPU that the catalogue lacks.
static struct str key_of_name(struct arena *a, const struct survey_record *r) {
    struct buf key = buf_new(a);
    for (ptrdiff_t i = 0; i < r->card.len; i++) {
        int c = tolower((unsigned char)r->card.p[i]);
        bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (is_word) buf_byte(&key, (char)c);
        if (!is_word && key.count > 0 && key.items[key.count - 1] != '_') buf_byte(&key, '_');
    }
    buf_format(&key, "%s%.0fgb", key.count > 0 && key.items[key.count - 1] == '_' ? "" : "_",
               (double)r->capacity_bytes / (double)((int64_t)1 << 30));
    return buf_str(&key);
}

void team_collect_place(struct question *q, struct survey_record *r) {
    const struct gpu *gpu = gpu_of_name(&q->gpus, r->card, r->capacity_bytes);
    double share = gpu ? (double)r->capacity_bytes / (double)gpu->usable_bytes : 1;
    r->key = (struct str){0};
    r->adapted = PLAN_PRECISION_UNKNOWN;
    if (share < least_share) return;
    if (!gpu || share > most_share) {
        r->key = key_of_name(q->arena, r);
        return;
    }
    r->key = gpu->key;
    r->adapted = answer_precision(q, gpu);
}

// --- The machine's number ------------------------------------------------------------------------

static bool is_number(struct str s) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (!isxdigit((unsigned char)s.p[i]) || isupper((unsigned char)s.p[i])) return false;
    }
    return s.len == DIGITS;
}

static int draw(struct arena *a, const char *path, struct str *ret, struct fail *why) {
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        return fail_set(why, FAIL_MACHINE, "cannot get random numbers");
    }
    *ret = str_format(a, "%016llx", (unsigned long long)number);
    return os_replace(a, path, str_format(a, "%.*s\n", STR_ARG(*ret)), NULL, why);
}

static int find_machine(struct arena *a, struct str folder, struct str *ret, struct fail *why) {
    const char *path = str_format(a, "%.*s/team-machine", STR_ARG(folder)).p;
    struct str text;
    if (!os_exists(path)) return draw(a, path, ret, why);
    int rc = os_read(a, path, 64, &text, NULL, why);
    if (rc < 0) return rc;
    *ret = str_trim(text);
    if (is_number(*ret)) return 0;
    fail_set(why, FAIL_INPUT, "%s: not 16 hexadecimal digits", path);
    return fail_hint(why, "delete it: another number is drawn, and this machine gets a new file");
}

// --- From the history ----------------------------------------------------------------------------

static struct str iso_date(struct arena *a, int64_t at_ms) {
    char text[32];
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return str_copy(a, str_of(text));
}

static struct survey_record record_of(struct arena *a, const struct store_run *run) {
    return (struct survey_record){
        .date = iso_date(a, run->at_ms),
        .card = run->gpu,
        .version = run->version,
        .torch = run->torch,
        .plan = run->plan,
        .status = run->status,
        .capacity_bytes = run->capacity_bytes,
        .limit_bytes = run->limit_bytes,
        .peak_bytes = run->peak_bytes,
        .reserved_bytes = run->reserved_bytes,
        .charged_bytes = run->charged_bytes,
        .samples_per_s = run->samples_per_s,
    };
}

struct left_out {
    ptrdiff_t on_cpu, standins, capped, unsound;
};

// Trials of fit only: they alone have the plan's effective batch and the margin. They are known by
// their question; FAILED says nothing of memory.
static void take_run(struct team_collect *c, const struct store_run *run, struct survey_file *file,
                     struct left_out *left) {
    struct survey_record record = record_of(c->q->arena, run);
    if (run->question.len == 0 || str_is(run->status, "FAILED")) return;
    team_collect_place(c->q, &record);
    if (run->is_standin != 0)
        left->standins++;
    else if (!str_is(run->device, "cuda"))
        left->on_cpu++;
    else if (survey_unsound(&record))
        left->unsound++;
    else if (record.key.len == 0)
        left->capped++;
    else
        survey_add(c->q->arena, file, &record);
}

static int take_model(struct team_collect *c, struct store *store, struct str model,
                      struct survey_file *file, struct left_out *left, struct fail *why) {
    struct store_filter filter = {.kind = STR("trial"), .model = model};
    struct store_run *runs;
    ptrdiff_t count;
    if (model.len == 0) return 0;
    int rc = store_find(store, c->q->arena, &filter, &runs, &count, why);
    for (ptrdiff_t i = count - 1; rc == 0 && i >= 0; i--) take_run(c, &runs[i], file, left);
    return rc;
}

static void note_left(struct team_collect *c, const struct left_out *left) {
    const struct {
        ptrdiff_t count;
        const char *what;
    } rows[] = {
        {left->on_cpu, "on the CPU"},
        {left->standins, "on fakes"},
        {left->capped, "with part of the GPU's memory (--memory)"},
        {left->unsound, "whose names are not valid UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].count == 0) continue;
        question_say(c->q, "not collected: %td trials %s", rows[i].count, rows[i].what);
    }
}

static int take_history(struct team_collect *c, struct store *store, struct survey_file *file,
                        struct fail *why) {
    struct left_out left = {0};
    int rc = take_model(c, store, c->asked.plan.model, file, &left, why);
    if (rc == 0 && !str_equal(c->asked.plan.model, c->asked.also)) {
        rc = take_model(c, store, c->asked.also, file, &left, why);
    }
    struct str note = store_note(store);
    if (note.len > 0) question_note(c->q, note);
    note_left(c, &left);
    return rc;
}

// --- The file ------------------------------------------------------------------------------------

static int check_name(const char *name, struct fail *why) {
    if (!name || survey_is_name(str_of(name))) return 0;
    return fail_set(why, FAIL_USAGE,
                    "--name: not a text of 1 to 200 bytes without control characters");
}

static int update_file(struct team_collect *c, const struct team_collect_options *o,
                       struct store *store, struct fail *why) {
    struct arena *a = c->q->arena;
    struct str before = {0};
    struct os_stamp stamp = {0};
    struct survey_file *file = &c->own;
    int rc = 0;
    c->path = survey_path(a, c->folder, c->machine);
    bool exists = os_exists(c->path.p);
    if (exists) rc = os_read(a, c->path.p, FILE_BYTES_MOST, &before, &stamp, why);
    if (rc == 0 && exists) rc = survey_read(a, c->path, before, file, NULL, why);
    file->machine = c->machine;
    if (o->name) file->name = str_of(o->name);
    if (rc == 0) rc = take_history(c, store, file, why);
    if (rc < 0 || file->count == 0) return rc;
    const ptrdiff_t dropped = survey_drop_oldest(file);
    if (dropped > 0)
        question_say(c->q, "not collected: the %td oldest trials: a machine's file holds %d",
                     dropped, SURVEY_RECORDS_MOST);
    struct str text = survey_write(a, file);
    if (o->test_only || str_equal(text, before)) return 0;
    rc = os_make_dirs(a, str_z(a, c->folder), why);
    if (rc == 0) rc = os_replace(a, c->path.p, text, &stamp, why);
    c->is_written = rc == 0;
    return rc;
}

int team_collect_own(struct team_collect *c, const struct team_collect_options *o,
                     struct fail *why) {
    struct arena *a = c->q->arena;
    struct str place = store_place(a, o->store), folder = store_folder(a, o->store);
    struct store *store = NULL;
    int rc = check_name(o->name, why);
    if (rc < 0 || o->no_history) return rc;
    bool is_shared = store_is_address(place);
    if (!is_shared && folder.len > 0) rc = os_make_dirs(a, str_z(a, folder), why);
    if (rc == 0 && !is_shared) rc = find_machine(a, folder, &c->machine, why);
    if (rc == 0) rc = store_open(a, place, &store, why);
    if (rc == 0 && is_shared) {
        uint64_t number = str_hash(store_name(store));
        c->machine = str_format(a, "%016llx", (unsigned long long)number);
    }
    if (rc == 0) rc = update_file(c, o, store, why);
    store_close(store);
    return rc;
}
