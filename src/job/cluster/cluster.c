// SPDX-License-Identifier: Apache-2.0
#include "job/cluster/cluster.h"

#include "base/json.h"
#include "base/os.h"
#include "base/out.h"
#include "base/shell.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "records/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { POLL_US = 500000, GONE_POLLS = 6 };
static const int64_t answer_ms = 60000;

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number) {
    (void)number;
    is_interrupted = 1;
}

// --- The question --------------------------------------------------------------------------------

// Of the call, what is for the front end alone.
static const char own[] = "on partition job-time json fresh";

// The question is the same with --fresh and without. `part`: words more, for the shell; or NULL.
static struct str job_command(const struct cluster *t, bool is_fresh, const char *part) {
    const struct cluster_question *q = t->question;
    struct str_words kept = cli_words_without(t->arena, q->base, own, q->own);
    struct buf b = buf_new(t->arena);
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct str program = {self, length > 0 ? length : 0};
    buf_add(&b, shell_word(t->arena, program));
    for (ptrdiff_t i = 0; i < kept.count; i++)
        buf_format(&b, " %.*s", STR_ARG(shell_word(t->arena, str_of(kept.items[i]))));
    buf_format(&b, "%s%s%s --json", is_fresh ? " --fresh" : "", q->job_words ? " " : "",
               q->job_words ? q->job_words : "");
    if (part && q->parts > 1) buf_format(&b, " --share %s/%lld", part, (long long)q->parts);
    if (q->base->command) buf_add(&b, STR(" --"));
    for (char **word = q->base->command; word && *word; word++)
        buf_format(&b, " %.*s", STR_ARG(shell_word(t->arena, str_of(*word))));
    return buf_str(&b);
}

static int open_folder(struct cluster *t, struct fail *why) {
    struct arena *a = t->arena;
    const struct cluster_question *q = t->question;
    struct str state = store_folder(a, q->store);
    struct buf question = buf_new(a);
    char *here = getcwd(NULL, 0);
    int rc = 0;
    buf_format(&question, "%s\n%.*s", here ? here : "", STR_ARG(job_command(t, false, "all")));
    free(here);
    for (size_t i = 0; rc == 0 && i < sizeof q->files / sizeof *q->files; i++) {
        struct str text = {0};
        if (q->files[i]) rc = os_read_file(a, q->files[i], 16 * UNIT_MIB, &text, NULL, why);
        buf_format(&question, "\n%.*s", STR_ARG(text));
    }
    if (rc == 0 && state.len == 0)
        rc = fail_set(why, FAIL_MACHINE, "no folder for what the jobs print: HOME is not set");
    if (rc < 0) return rc;
    t->folder = str_format(a, "%.*s/slurm/%016llx", STR_ARG(state),
                           (unsigned long long)str_hash(buf_str(&question)));
    return os_make_private_dirs(a, t->folder.p, why);
}

static struct str file_of(const struct cluster *t, const struct cluster_job *job,
                          const char *suffix) {
    return str_format(t->arena, "%.*s/%.*s%s", STR_ARG(t->folder), STR_ARG(job->stem), suffix);
}

static void open_jobs(struct cluster *t) {
    int64_t ranks = t->question->ranks > 0 ? t->question->ranks : 1;
    t->jobs = arena_new(t->arena, struct cluster_job, t->slurm.count);
    for (ptrdiff_t i = 0; i < t->slurm.count; i++) {
        struct cluster_job *job = &t->jobs[t->count++];
        struct buf stem = buf_new(t->arena);
        job->type = &t->slurm.types[i];
        buf_add(&stem, job->type->name.len > 0 ? job->type->name : STR("gpu"));
        for (ptrdiff_t k = 0; k < stem.count; k++) {
            if (!str_is_alnum(stem.items[k]) && stem.items[k] != '.') stem.items[k] = '_';
        }
        job->stem = buf_str(&stem);
        if (job->type->partitions.count == 0)
            job->reason = STR("every node is down, drained or reserved");
        else if (!slurm_place(t->arena, job->type, ranks, &job->place))
            job->reason = str_format(t->arena, "not %lld GPUs at once", (long long)ranks);
        else if (job->place.nodes > 1 && slurm_slice_bytes(job->type->name) > 0)
            job->reason = STR("slices of a GPU do not train together");
    }
}

// --- Jobs ----------------------------------------------------------------------------------------

// Of a call that was killed between submitting a job and writing its number down.
static bool adopt(struct cluster *t, struct str name, struct str *ret_id) {
    struct arena *a = t->arena;
    struct os_captured c;
    struct str_words w = {.arena = a};
    static const char *const asks[] = {"squeue", "-h", "-o", "%F", "-n"};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) str_word_add(&w, str_of(asks[i]));
    str_word_add(&w, name);
    if (os_capture(a, w.items, answer_ms, UNIT_MIB, &c, NULL) < 0 || c.status != 0) return false;
    *ret_id = str_trim(str_line(&c.out));
    return ret_id->len > 0;
}

static void add_place(struct cluster *t, const struct cluster_job *job, struct str_words *w) {
    struct arena *a = t->arena;
    const struct cluster_options *o = t->question->options;
    const struct slurm_place *place = &job->place;
    struct str type = job->type->name;
    struct str partitions = o->partition ? str_of(o->partition) : place->partitions;
    str_word_add(w, str_format(a, "--gres=gpu:%.*s%s%lld", STR_ARG(type), type.len > 0 ? ":" : "",
                               (long long)place->gpus));
    if (place->nodes > 1) {
        str_word_add(w, str_format(a, "--nodes=%lld", (long long)place->nodes));
        str_word_add(w, STR("--ntasks-per-node=1"));
    }
    if (partitions.len > 0) str_word_add(w, str_format(a, "--partition=%.*s", STR_ARG(partitions)));
    if (o->job_time) str_word_add(w, str_format(a, "--time=%s", o->job_time));
}

// sbatch with these words more and this script; a job of that name that is there already is taken.
// An empty number: refused, with the reason.
static int submit_as(struct cluster *t, struct cluster_job *job, struct str suffix,
                     const struct str_words *more, struct str script, struct str *ret_id,
                     struct fail *why) {
    struct arena *a = t->arena;
    struct str_words w = {.arena = a};
    struct os_captured c;
    struct str folder = str_last(t->folder, '/');
    struct str name = str_format(a, "batchfit-%.*s-%.*s%.*s", STR_ARG(folder), STR_ARG(job->stem),
                                 STR_ARG(suffix));
    if (adopt(t, name, ret_id)) return 0;
    str_word_add(&w, STR("sbatch"));
    str_word_add(&w, STR("--parsable"));
    str_word_add(&w, STR("--requeue"));
    str_word_add(&w, STR("--open-mode=append"));
    str_word_add(&w, str_format(a, "--job-name=%.*s", STR_ARG(name)));
    add_place(t, job, &w);
    for (ptrdiff_t i = 0; i < more->count; i++) str_word_add(&w, str_of(more->items[i]));
    str_word_add(&w, str_format(a, "--wrap=%.*s", STR_ARG(script)));
    int rc = os_capture(a, w.items, answer_ms, UNIT_MIB, &c, why);
    if (rc < 0) return rc;
    struct str said = str_trim(c.out), id = str_cut(&said, ';');
    if (c.status == 0 && !c.timed_out && str_is_made_of(id, "") && id.len > 0) {
        *ret_id = id;
        return 0;
    }
    struct str said_wrong = str_trim(c.err), line = str_line(&said_wrong);
    job->reason = str_format(a, "sbatch %s: %.*s", c.timed_out ? "did not answer" : "refused it",
                             STR_ARG(line));
    return 0;
}

// What a trial's processes on other nodes share with ours lies where all of them see it.
static struct str command_of(const struct cluster *t, const struct cluster_job *job,
                             const char *part) {
    struct arena *a = t->arena;
    struct str command = job_command(t, t->question->fresh, part);
    if (job->place.nodes < 2) return command;
    return str_format(a, "TMPDIR=%.*s %.*s", STR_ARG(shell_word(a, t->folder)), STR_ARG(command));
}

static int submit_parts(struct cluster *t, struct cluster_job *job, struct fail *why) {
    struct arena *a = t->arena;
    struct str_words more = {.arena = a};
    str_word_add(&more, str_format(a, "--array=1-%lld", (long long)t->question->parts));
    str_word_add(&more, str_format(a, "--output=%.*s", STR_ARG(file_of(t, job, ".part-%a.log"))));
    struct str script =
        str_format(a, "exec %.*s >/dev/null", STR_ARG(command_of(t, job, "$SLURM_ARRAY_TASK_ID")));
    return submit_as(t, job, STR("-parts"), &more, script, &job->parts_id, why);
}

static int submit(struct cluster *t, struct cluster_job *job, struct fail *why) {
    struct arena *a = t->arena;
    struct str_words more = {.arena = a};
    struct str answer = shell_word(a, file_of(t, job, ".json"));
    if (t->question->parts > 1) {
        int rc = submit_parts(t, job, why);
        if (rc < 0 || job->reason.len > 0) return rc;
        str_word_add(&more, str_format(a, "--dependency=afterany:%.*s", STR_ARG(job->parts_id)));
    }
    str_word_add(&more, str_format(a, "--output=%.*s", STR_ARG(file_of(t, job, ".log"))));
    // 0 and 1 are answers. The name appears with all of it.
    struct str script = str_format(
        a, "%.*s >%.*s.new; s=$?; [ $s -gt 1 ] || mv %.*s.new %.*s; exit $s",
        STR_ARG(command_of(t, job, "all")), STR_ARG(answer), STR_ARG(answer), STR_ARG(answer));
    int rc = submit_as(t, job, (struct str){0}, &more, script, &job->id, why);
    if (rc < 0 || job->id.len == 0) return rc;
    return os_replace(a, file_of(t, job, ".job").p,
                      str_format(a, "%.*s %.*s", STR_ARG(job->id), STR_ARG(job->parts_id)), NULL,
                      why);
}

static bool read_answer(struct cluster *t, struct cluster_job *job) {
    struct str text;
    struct str path = file_of(t, job, ".json");
    if (!os_exists(path.p) || os_read(t->arena, path.p, 16 * UNIT_MIB, &text, NULL, NULL) < 0)
        return false;
    job->document = json_loadb(text.p, (size_t)text.len, 0, NULL);
    return job->document != NULL;
}

static bool is_waited_for(const struct cluster_job *job) {
    return !job->document && job->reason.len == 0;
}

static int start(struct cluster *t, struct cluster_job *job, struct fail *why) {
    struct str path = file_of(t, job, ".job");
    if (t->question->fresh) {
        unlink(file_of(t, job, ".json").p);
        unlink(path.p);
    }
    job->is_recalled = read_answer(t, job);
    if (!is_waited_for(job)) return 0;
    struct str ids;
    if (!os_exists(path.p) || os_read(t->arena, path.p, 64, &ids, NULL, NULL) < 0)
        return submit(t, job, why);
    job->id = str_cut(&ids, ' ');
    job->parts_id = ids;
    return 0;
}

static struct str last_words(struct cluster *t, const struct cluster_job *job) {
    struct str text, last = {0};
    if (os_read(t->arena, file_of(t, job, ".log").p, UNIT_MIB, &text, NULL, NULL) < 0)
        return STR("its output cannot be read");
    while (text.len > 0) {
        struct str line = str_trim(str_line(&text));
        if (line.len > 0) last = line;
    }
    return last.len > 0 ? last : STR("it printed nothing");
}

// Slurm's words for a job that will not run again (squeue(1), JOB STATE CODES).
static bool has_ended(struct str state) {
    static const char *const words[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE",
                                        "FAILED",    "NODE_FAIL", "REVOKED",   "OUT_OF_MEMORY",
                                        "TIMEOUT",   "PREEMPTED", NULL};
    return str_is_one_of(state, words);
}

static struct str list_of(const struct cluster *t) {
    struct buf ids = buf_new(t->arena);
    for (ptrdiff_t i = 0; i < t->count; i++) {
        if (!is_waited_for(&t->jobs[i]) || t->jobs[i].id.len == 0) continue;
        buf_join(&ids, ",", t->jobs[i].id);
    }
    return buf_str(&ids);
}

static void take_state(struct cluster *t, struct cluster_job *job, struct str state) {
    struct arena *a = t->arena;
    bool is_new = !str_equal(state, job->state);
    job->state = str_copy(a, state);
    bool is_over = state.len == 0 || has_ended(state);
    job->gone = is_over ? job->gone + 1 : 0;
    if (is_new && state.len > 0) {
        out_say(stderr, "batchfit: %.*s: job %.*s is %.*s\n", STR_ARG(job->stem), STR_ARG(job->id),
                STR_ARG(state));
    }
    // What a job has written is seen on another machine a little later.
    if (!is_over || read_answer(t, job) || job->gone < GONE_POLLS) return;
    job->reason = str_format(a, "job %.*s %.*s: %.*s", STR_ARG(job->id),
                             STR_ARG(state.len > 0 ? state : STR("no longer exists")),
                             STR_ARG(last_words(t, job)));
    unlink(file_of(t, job, ".job").p); // the next call starts over
}

// A controller that does not answer says nothing about the jobs.
static void look(struct cluster *t) {
    struct arena *a = t->arena;
    struct str_words w = {.arena = a};
    struct os_captured c;
    static const char *const asks[] = {"squeue", "-h", "-t", "all", "-o", "%A %T", "-j"};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) str_word_add(&w, str_of(asks[i]));
    str_word_add(&w, list_of(t));
    if (os_capture(a, w.items, answer_ms, UNIT_MIB, &c, NULL) < 0 || c.timed_out) return;
    bool is_unknown = str_find(c.err, STR("Invalid job id")) >= 0;
    if (c.status != 0 && !is_unknown) return;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        struct cluster_job *job = &t->jobs[i];
        struct str rest = c.out, state = {0};
        if (!is_waited_for(job)) continue;
        while (rest.len > 0) {
            struct str line = str_line(&rest), id = str_cut(&line, ' ');
            if (str_equal(id, job->id)) state = str_trim(line);
        }
        take_state(t, job, state);
    }
}

static int cancel(struct cluster *t, struct fail *why) {
    struct arena *a = t->arena;
    struct str_words w = {.arena = a};
    struct os_captured c;
    struct str ids = list_of(t);
    if (ids.len == 0) return fail_set(why, FAIL_INTERRUPTED, "interrupted; no job was submitted");
    str_word_add(&w, STR("scancel"));
    for (struct str rest = ids; rest.len > 0;) str_word_add(&w, str_cut(&rest, ','));
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct cluster_job *job = &t->jobs[i];
        if (is_waited_for(job) && job->parts_id.len > 0) str_word_add(&w, job->parts_id);
    }
    if (os_capture(a, w.items, answer_ms, UNIT_MIB, &c, NULL) == 0 && c.status == 0) {
        for (ptrdiff_t i = 0; i < t->count; i++) {
            if (is_waited_for(&t->jobs[i])) unlink(file_of(t, &t->jobs[i], ".job").p);
        }
        return fail_set(why, FAIL_INTERRUPTED, "interrupted; cancelled: %.*s", STR_ARG(ids));
    }
    return fail_set(why, FAIL_INTERRUPTED, "interrupted; not cancelled: %.*s", STR_ARG(ids));
}

static int wait_for_all(struct cluster *t, struct fail *why) {
    while (!is_interrupted && list_of(t).len > 0) {
        look(t);
        if (list_of(t).len > 0) usleep(POLL_US);
    }
    return is_interrupted ? cancel(t, why) : 0;
}

// Ctrl-C counts from the first job on that is submitted.
static int start_all(struct cluster *t, struct fail *why) {
    struct sigaction act = {.sa_handler = interrupt}, before[2];
    int rc = 0;
    sigaction(SIGINT, &act, &before[0]);
    sigaction(SIGTERM, &act, &before[1]);
    for (ptrdiff_t i = 0; rc == 0 && !is_interrupted && i < t->count; i++)
        if (t->jobs[i].reason.len == 0) rc = start(t, &t->jobs[i], why);
    if (rc == 0) rc = wait_for_all(t, why);
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    return rc;
}

// --- The call ------------------------------------------------------------------------------------

int cluster_check(const struct cluster_options *o, struct fail *why) {
    if (!o->on && (o->partition || o->job_time)) {
        fail_set(why, FAIL_USAGE, "--%s needs --on slurm", o->partition ? "partition" : "job-time");
        return fail_hint(why, "--on slurm measures as a job on each GPU type");
    }
    if (!o->on || str_is(str_of(o->on), "slurm")) return 0;
    fail_set(why, FAIL_USAGE, "--on %s: not slurm", o->on);
    return fail_hint(why, "without --on it is measured here");
}

static int take_lock(struct cluster *t, struct fail *why) {
    struct str path = str_format(t->arena, "%.*s/lock", STR_ARG(t->folder));
    t->lock = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (t->lock < 0 || flock(t->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return 0;
    return fail_set(why, FAIL_MACHINE, "another batchfit waits for the same trials");
}

static int measure(struct arena *a, const struct cluster_question *q, struct cluster *ret,
                   struct fail *why) {
    *ret = (struct cluster){.arena = a, .question = q, .lock = -1};
    int rc = slurm_read(a, q->options->partition, &ret->slurm, why);
    if (rc == 0) rc = open_folder(ret, why);
    if (rc == 0) rc = take_lock(ret, why);
    if (rc < 0) return rc;
    open_jobs(ret);
    rc = start_all(ret, why);
    for (ptrdiff_t i = 0; i < ret->count; i++) ret->measured += ret->jobs[i].document != NULL;
    return rc;
}

// --- What they came to ---------------------------------------------------------------------------

json_t *cluster_at(json_t *document, const char *path) {
    struct str rest = str_of(path);
    while (document && rest.len > 0) {
        struct str name = str_cut(&rest, '.');
        char key[64];
        int64_t index;
        if (name.len >= (ptrdiff_t)sizeof key) return NULL;
        memcpy(key, name.p, (size_t)name.len);
        key[name.len] = 0;
        document = str_to_i64(name, &index) ? json_array_get(document, (size_t)index)
                                            : json_object_get(document, key);
    }
    return document;
}

int64_t cluster_whole(json_t *document, const char *path) {
    json_t *value = cluster_at(document, path);
    return json_is_integer(value) ? json_integer_value(value) : 0;
}

double cluster_number(json_t *document, const char *path) {
    json_t *value = cluster_at(document, path);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

struct str cluster_text(json_t *document, const char *path) {
    return str_of(json_string_value(cluster_at(document, path)));
}

static int print_json(const struct cluster *c, struct fail *why) {
    json_t *types = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct cluster_job *job = &c->jobs[i];
        json_array_append_new(
            types, json_pack("{s:o, s:o, s:b, s:o, s:O?}", "type", json_text(job->type->name),
                             "job", json_text(job->id), "is_recalled", job->is_recalled, "reason",
                             json_text(job->reason), "answer", job->document));
    }
    return json_print(json_pack("{s:o}", "types", types), why);
}

// A line for each job without an answer, and for each that an earlier call measured.
static void add_reasons(const struct cluster *c, struct buf *out) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct cluster_job *job = &c->jobs[i];
        if (job->reason.len > 0)
            buf_format(out, "%.*s: %.*s\n", STR_ARG(job->stem), STR_ARG(job->reason));
        if (job->is_recalled)
            buf_format(out, "%.*s: measured by an earlier call; --fresh measures again\n",
                       STR_ARG(job->stem));
    }
}

static const struct cluster_job *best_of(const struct cluster *c, const struct cluster_view *view) {
    const struct cluster_job *best = NULL;
    for (ptrdiff_t i = 0; view->figure && i < c->count; i++) {
        double figure = view->figure(&c->jobs[i]);
        if (!isnan(figure) && (!best || figure > view->figure(best))) best = &c->jobs[i];
    }
    return best;
}

static void show(struct cluster *c, const struct cluster_view *view,
                 const struct cluster_job *best) {
    struct show_table table = show_table_new(c->arena, (struct str){0});
    struct buf out = buf_shown(c->arena);
    show_table_columns(&table, view->headings);
    if (view->gives_way) show_table_gives_way(&table, view->gives_way);
    for (ptrdiff_t i = 0; i < c->count; i++) view->add(c, &c->jobs[i], best, &table);
    view->say(c, best, &out);
    buf_add(&out, STR("\n\n"));
    show_table_text(&table, show_style_of(STDOUT_FILENO), &out);
    buf_byte(&out, '\n');
    add_reasons(c, &out);
    out_buf(stdout, &out);
}

int cluster_answer(struct arena *a, const struct cluster_question *q,
                   const struct cluster_view *view, struct fail *why) {
    struct cluster c;
    int rc = measure(a, q, &c, why);
    const struct cluster_job *best = rc == 0 ? best_of(&c, view) : NULL;
    if (rc == 0 && q->base->json)
        rc = print_json(&c, why);
    else if (rc == 0)
        show(&c, view, best);
    if (rc == 0 && c.measured == 0) rc = fail_set(why, FAIL_MACHINE, "nothing was measured");
    if (rc == 0 && view->figure && !best) rc = FAIL_NO;
    for (ptrdiff_t i = 0; i < c.count; i++) json_decref(c.jobs[i].document);
    if (c.lock >= 0) close(c.lock);
    return rc;
}
