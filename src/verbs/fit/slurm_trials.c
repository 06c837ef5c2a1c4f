// SPDX-License-Identifier: Apache-2.0
// fit --on slurm -- COMMAND: the same call without --on, as one job for each GPU type of the
// cluster, side by side; each measures on its GPU, and what it answers is a row here. All that must
// outlive the front end lies in a folder of the question: the job's number, its output, its answer.
// So the same call goes on with the jobs of one that was killed or cut off, and what a requeued job
// measured before, its history answers. Ctrl-C cancels the jobs.
#include "base/json.h"
#include "base/os.h"
#include "base/out.h"
#include "base/shell.h"
#include "base/unit.h"
#include "records/store/store.h"
#include "verbs/fit/slurm.h"

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

struct trial_job {
    const struct slurm_type *type;
    int64_t gpus, nodes;
    struct str stem, id, state; // of its files; Slurm's number and word
    int gone;                   // polls in which it was over and had no answer
    bool is_recalled;           // answered by an earlier call
    struct str reason;          // why it has no answer; empty: it has one, or none yet
    json_t *document;           // its answer; NULL: none
};
struct trials {
    struct arena *arena;
    const struct fit_options *options;
    struct slurm cluster;
    struct str folder;
    struct trial_job *jobs;
    ptrdiff_t count;
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number) {
    (void)number;
    is_interrupted = 1;
}

// --- The question --------------------------------------------------------------------------------

// Of the call, what is for the front end alone.
static const struct {
    const char *name;
    bool has_value;
} own[] = {{"--on", true},    {"--gres", true},   {"--partition", true},  {"--job-time", true},
           {"--json", false}, {"--fresh", false}, {"--test-only", false}, {"--save-config", true}};

static bool is_own(const char *word, bool *ret_takes_next) {
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t length = strlen(own[i].name);
        if (strncmp(word, own[i].name, length) != 0) continue;
        *ret_takes_next = own[i].has_value && word[length] == 0;
        if (word[length] == 0 || word[length] == '=') return true;
    }
    return false;
}

// The question is the same with --fresh and without.
static struct str job_command(const struct trials *t, bool is_fresh) {
    const struct cli_options *base = &t->options->o.q.base;
    struct buf b = buf_new(t->arena);
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct str program = {self, length > 0 ? length : 0};
    buf_format(&b, "%.*s fit", STR_ARG(shell_word(t->arena, program)));
    for (char **word = base->words + 1; *word; word++) {
        bool takes_next = false;
        if (is_own(*word, &takes_next)) {
            if (takes_next && word[1]) word++;
            continue;
        }
        buf_byte(&b, ' ');
        buf_add(&b, shell_word(t->arena, str_of(*word)));
    }
    buf_format(&b, "%s --test-only --json --", is_fresh ? " --fresh" : "");
    for (char **word = base->command; *word; word++) {
        buf_byte(&b, ' ');
        buf_add(&b, shell_word(t->arena, str_of(*word)));
    }
    return buf_str(&b);
}

static int open_folder(struct trials *t, struct fail *why) {
    struct arena *a = t->arena;
    const char *config = t->options->o.q.config;
    struct str text = {0}, state = store_folder(a, t->options->o.h.store);
    char *here = getcwd(NULL, 0);
    int rc = config ? os_read_file(a, config, 16 * UNIT_MIB, &text, NULL, why) : 0;
    struct str question = str_format(a, "%s\n%.*s\n%.*s", here ? here : "",
                                     STR_ARG(job_command(t, false)), STR_ARG(text));
    free(here);
    if (rc == 0 && state.len == 0)
        rc = fail_set(why, FAIL_MACHINE, "no folder for what the jobs say: HOME is not set");
    if (rc < 0) return rc;
    t->folder =
        str_format(a, "%.*s/slurm/%016llx", STR_ARG(state), (unsigned long long)str_hash(question));
    return os_make_private_dirs(a, t->folder.p, why);
}

static struct str file_of(const struct trials *t, const struct trial_job *job, const char *suffix) {
    return str_format(t->arena, "%.*s/%.*s%s", STR_ARG(t->folder), STR_ARG(job->stem), suffix);
}

static void open_jobs(struct trials *t) {
    int64_t ranks = t->options->o.q.ranks > 0 ? t->options->o.q.ranks : 1;
    t->jobs = arena_new(t->arena, struct trial_job, t->cluster.count);
    for (ptrdiff_t i = 0; i < t->cluster.count; i++) {
        struct trial_job *job = &t->jobs[t->count++];
        struct buf stem = buf_new(t->arena);
        job->type = &t->cluster.types[i];
        buf_add(&stem, job->type->name.len > 0 ? job->type->name : STR("gpu"));
        for (ptrdiff_t k = 0; k < stem.count; k++) {
            if (!str_is_alnum(stem.items[k]) && stem.items[k] != '.') stem.items[k] = '_';
        }
        job->stem = buf_str(&stem);
        if (job->type->partitions.count == 0)
            job->reason = STR("every node is down, drained or reserved");
        else if (!slurm_place(job->type, ranks, &job->gpus, &job->nodes) || job->nodes > 1)
            job->reason = str_format(t->arena, "not %lld GPUs on one node", (long long)ranks);
    }
}

// --- Jobs ----------------------------------------------------------------------------------------

// Of a call that was killed between submitting a job and writing its number down.
static bool adopt(struct trials *t, struct trial_job *job, struct str name) {
    struct arena *a = t->arena;
    struct os_captured c;
    struct str_words w = {.arena = a};
    static const char *const asks[] = {"squeue", "-h", "-o", "%A", "-n"};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) str_word_add(&w, str_of(asks[i]));
    str_word_add(&w, name);
    if (os_capture(a, w.items, answer_ms, UNIT_MIB, &c, NULL) < 0 || c.status != 0) return false;
    job->id = str_trim(str_line(&c.out));
    return job->id.len > 0;
}

static int submit(struct trials *t, struct trial_job *job, struct fail *why) {
    struct arena *a = t->arena;
    struct str_words w = {.arena = a};
    struct os_captured c;
    struct str answer = file_of(t, job, ".json");
    const struct fit_slurm_options *o = &t->options->s;
    struct str folder = t->folder;
    while (str_find(folder, STR("/")) >= 0) str_cut(&folder, '/');
    struct str name = str_format(a, "batchfit-%.*s-%.*s", STR_ARG(folder), STR_ARG(job->stem));
    if (adopt(t, job, name)) return os_replace(a, file_of(t, job, ".job").p, job->id, NULL, why);
    str_word_add(&w, STR("sbatch"));
    str_word_add(&w, STR("--parsable"));
    str_word_add(&w, STR("--requeue"));
    str_word_add(&w, STR("--open-mode=append"));
    str_word_add(&w, str_format(a, "--job-name=%.*s", STR_ARG(name)));
    str_word_add(&w, str_format(a, "--gres=gpu:%.*s%s%lld", STR_ARG(job->type->name),
                                job->type->name.len > 0 ? ":" : "", (long long)job->gpus));
    if (o->partition) str_word_add(&w, str_format(a, "--partition=%s", o->partition));
    if (!o->partition && !job->type->is_in_default)
        str_word_add(&w,
                     str_format(a, "--partition=%.*s", STR_ARG(job->type->partitions.items[0])));
    if (o->job_time) str_word_add(&w, str_format(a, "--time=%s", o->job_time));
    str_word_add(&w, str_format(a, "--output=%.*s", STR_ARG(file_of(t, job, ".log"))));
    // 0 and 1 are answers. The name appears with all of it.
    str_word_add(
        &w,
        str_format(a, "--wrap=%.*s >%.*s.new; s=$?; [ $s -gt 1 ] || mv %.*s.new %.*s; exit $s",
                   STR_ARG(job_command(t, t->options->o.h.fresh)), STR_ARG(shell_word(a, answer)),
                   STR_ARG(shell_word(a, answer)), STR_ARG(shell_word(a, answer))));
    int rc = os_capture(a, w.items, answer_ms, UNIT_MIB, &c, why);
    if (rc < 0) return rc;
    struct str said = str_trim(c.out), id = str_cut(&said, ';');
    if (c.status == 0 && !c.timed_out && str_is_made_of(id, "") && id.len > 0) {
        job->id = id;
        return os_replace(a, file_of(t, job, ".job").p, id, NULL, why);
    }
    struct str said_wrong = str_trim(c.err), line = str_line(&said_wrong);
    job->reason = str_format(a, "sbatch %s: %.*s", c.timed_out ? "did not answer" : "refused it",
                             STR_ARG(line));
    return 0;
}

static bool read_answer(struct trials *t, struct trial_job *job) {
    struct str text;
    struct str path = file_of(t, job, ".json");
    if (!os_exists(path.p) || os_read(t->arena, path.p, 16 * UNIT_MIB, &text, NULL, NULL) < 0)
        return false;
    job->document = json_loadb(text.p, (size_t)text.len, 0, NULL);
    return job->document != NULL;
}

static bool is_waited_for(const struct trial_job *job) {
    return !job->document && job->reason.len == 0;
}

static int start(struct trials *t, struct trial_job *job, struct fail *why) {
    struct str path = file_of(t, job, ".job");
    if (t->options->o.h.fresh) {
        unlink(file_of(t, job, ".json").p);
        unlink(path.p);
    }
    job->is_recalled = read_answer(t, job);
    if (!is_waited_for(job)) return 0;
    if (os_exists(path.p) && os_read(t->arena, path.p, 64, &job->id, NULL, NULL) == 0) return 0;
    return submit(t, job, why);
}

static struct str last_words(struct trials *t, const struct trial_job *job) {
    struct str text, last = {0};
    if (os_read(t->arena, file_of(t, job, ".log").p, UNIT_MIB, &text, NULL, NULL) < 0)
        return STR("its output cannot be read");
    while (text.len > 0) {
        struct str line = str_trim(str_line(&text));
        if (line.len > 0) last = line;
    }
    return last.len > 0 ? last : STR("it said nothing");
}

// Slurm's words for a job that will not run again (squeue(1), JOB STATE CODES).
static bool has_ended(struct str state) {
    static const char *const words[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE",
                                        "FAILED",    "NODE_FAIL", "REVOKED",   "OUT_OF_MEMORY",
                                        "TIMEOUT",   "PREEMPTED", NULL};
    return str_is_one_of(state, words);
}

static struct str list_of(const struct trials *t) {
    struct buf ids = buf_new(t->arena);
    for (ptrdiff_t i = 0; i < t->count; i++) {
        if (!is_waited_for(&t->jobs[i])) continue;
        buf_format(&ids, "%s%.*s", ids.count > 0 ? "," : "", STR_ARG(t->jobs[i].id));
    }
    return buf_str(&ids);
}

static void take_state(struct trials *t, struct trial_job *job, struct str state) {
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
                             STR_ARG(state.len > 0 ? state : STR("is not there any more")),
                             STR_ARG(last_words(t, job)));
    unlink(file_of(t, job, ".job").p); // the next call begins anew
}

// A controller that does not answer says nothing about the jobs.
static void look(struct trials *t) {
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
        struct trial_job *job = &t->jobs[i];
        struct str rest = c.out, state = {0};
        if (!is_waited_for(job)) continue;
        while (rest.len > 0) {
            struct str line = str_line(&rest), id = str_cut(&line, ' ');
            if (str_equal(id, job->id)) state = str_trim(line);
        }
        take_state(t, job, state);
    }
}

static int cancel(struct trials *t, struct fail *why) {
    struct arena *a = t->arena;
    struct str_words w = {.arena = a};
    struct os_captured c;
    struct str ids = list_of(t);
    str_word_add(&w, STR("scancel"));
    for (struct str rest = ids; rest.len > 0;) str_word_add(&w, str_cut(&rest, ','));
    if (ids.len > 0 && os_capture(a, w.items, answer_ms, UNIT_MIB, &c, NULL) == 0 &&
        c.status == 0) {
        for (ptrdiff_t i = 0; i < t->count; i++) {
            if (is_waited_for(&t->jobs[i])) unlink(file_of(t, &t->jobs[i], ".job").p);
        }
        return fail_set(why, FAIL_INTERRUPTED, "interrupted; cancelled: %.*s", STR_ARG(ids));
    }
    return fail_set(why, FAIL_INTERRUPTED, "interrupted; not cancelled: %.*s", STR_ARG(ids));
}

static int wait_for_all(struct trials *t, struct fail *why) {
    struct sigaction act = {.sa_handler = interrupt}, before[2];
    sigaction(SIGINT, &act, &before[0]);
    sigaction(SIGTERM, &act, &before[1]);
    while (!is_interrupted && list_of(t).len > 0) {
        look(t);
        if (list_of(t).len > 0) usleep(POLL_US);
    }
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    return is_interrupted ? cancel(t, why) : 0;
}

// --- What they came to ---------------------------------------------------------------------------

static json_t *result_of(const struct trial_job *job) {
    return json_array_get(json_object_get(job->document, "results"), 0);
}

static bool fits(const struct trial_job *job) {
    return job->document && json_is_true(json_object_get(result_of(job), "fits_budget"));
}

static int64_t whole_of(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : 0;
}

// The last trial of the batch that was chosen.
static json_t *trial_of(json_t *result, int64_t batch) {
    json_t *trials = json_object_get(result, "trials"), *found = NULL, *trial;
    size_t i;
    json_array_foreach(trials, i, trial) {
        if (whole_of(trial, "batch_size") == batch) found = trial;
    }
    return found;
}

static double speed_of(const struct trial_job *job) {
    json_t *result = result_of(job);
    int64_t batch = whole_of(json_object_get(result, "plan"), "batch_size");
    json_t *speed = json_object_get(trial_of(result, batch), "samples_per_s");
    return json_is_number(speed) ? json_number_value(speed) : (double)NAN;
}

static void add_row(struct trials *t, const struct trial_job *job, struct show_table *table) {
    struct arena *a = t->arena;
    json_t *result = result_of(job), *plan = json_object_get(result, "plan");
    int64_t batch = whole_of(plan, "batch_size");
    const char *gpu = json_string_value(json_object_get(json_object_get(result, "gpu"), "name"));
    const char *verdict = json_string_value(json_object_get(result, "verdict"));
    json_t *peak = json_object_get(trial_of(result, batch), "peak_bytes");
    show_table_cell(table, SHOW_STRONG, job->stem);
    show_table_known(table, SHOW_PLAIN, str_of(gpu));
    show_table_known(table, SHOW_PLAIN,
                     batch > 0
                         ? str_format(a, "%lld x %lld", (long long)batch,
                                      (long long)whole_of(plan, "gradient_accumulation_steps"))
                         : (struct str){0});
    show_table_bytes(table, SHOW_PLAIN, json_is_integer(peak) ? json_integer_value(peak) : 0);
    show_table_known(table, SHOW_PLAIN, unit_number(a, speed_of(job)));
    show_table_cell(table, fits(job) ? SHOW_GOOD : SHOW_WARN,
                    job->document ? str_of(verdict) : STR("NOT MEASURED"));
}

static const struct trial_job *fastest(const struct trials *t) {
    const struct trial_job *best = NULL;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct trial_job *job = &t->jobs[i];
        if (fits(job) && (!best || speed_of(job) > speed_of(best))) best = job;
    }
    return best;
}

static void show(struct trials *t) {
    static const struct show_heading headings[] = {
        {"type", SHOW_LEFT},  {"measured on", SHOW_LEFT}, {"batch", SHOW_RIGHT},
        {"peak", SHOW_RIGHT}, {"samples/s", SHOW_RIGHT},  {"verdict", SHOW_LEFT},
        {NULL, SHOW_LEFT}};
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct show_table table = show_table_new(t->arena, (struct str){0});
    struct buf out = buf_shown(t->arena);
    const struct trial_job *best = fastest(t);
    ptrdiff_t measured = 0;
    show_table_columns(&table, headings);
    for (ptrdiff_t i = 0; i < t->count; i++) {
        measured += t->jobs[i].document != NULL;
        add_row(t, &t->jobs[i], &table);
    }
    if (measured > 0)
        buf_format(&out, "%s  measured on %td of %td GPU types", best ? "FITS" : "DOES NOT FIT",
                   measured, t->count);
    else
        buf_format(&out, "NOT MEASURED  on any of %td GPU types", t->count);
    if (best)
        buf_format(&out, "; the fastest: %.*s, batch %lld", STR_ARG(best->stem),
                   (long long)whole_of(json_object_get(result_of(best), "plan"), "batch_size"));
    buf_add(&out, STR("\n\n"));
    show_table_text(&table, style, &out);
    buf_byte(&out, '\n');
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct trial_job *job = &t->jobs[i];
        if (job->reason.len > 0)
            buf_format(&out, "%.*s: %.*s\n", STR_ARG(job->stem), STR_ARG(job->reason));
        if (job->is_recalled)
            buf_format(&out, "%.*s: measured by an earlier call; --fresh measures again\n",
                       STR_ARG(job->stem));
    }
    out_buf(stdout, &out);
}

static int print_json(struct trials *t, struct fail *why) {
    json_t *types = json_array();
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct trial_job *job = &t->jobs[i];
        json_array_append_new(
            types, json_pack("{s:o, s:o, s:b, s:o, s:O?}", "type", json_text(job->type->name),
                             "job", json_text(job->id), "is_recalled", job->is_recalled, "reason",
                             json_text(job->reason), "answer", job->document));
    }
    return json_print(json_pack("{s:o}", "types", types), why);
}

int fit_slurm_trials(struct arena *a, const struct fit_options *options, struct fail *why) {
    struct trials t = {.arena = a, .options = options};
    int rc = slurm_read(a, options->s.partition, &t.cluster, why);
    if (rc == 0) rc = open_folder(&t, why);
    if (rc < 0) return rc;
    OS_FD lock =
        open(str_format(a, "%.*s/lock", STR_ARG(t.folder)).p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail_set(why, FAIL_MACHINE, "another batchfit waits for the same trials");
    open_jobs(&t);
    for (ptrdiff_t i = 0; rc == 0 && i < t.count; i++) {
        if (t.jobs[i].reason.len == 0) rc = start(&t, &t.jobs[i], why);
    }
    if (rc == 0) rc = wait_for_all(&t, why);
    if (rc < 0) return rc;
    if (options->o.q.base.json)
        rc = print_json(&t, why);
    else
        show(&t);
    ptrdiff_t measured = 0;
    for (ptrdiff_t i = 0; i < t.count; i++) measured += t.jobs[i].document != NULL;
    const bool is_good = fastest(&t);
    for (ptrdiff_t i = 0; i < t.count; i++) json_decref(t.jobs[i].document);
    if (rc < 0 || is_good) return rc;
    return measured > 0 ? FAIL_NO : fail_set(why, FAIL_MACHINE, "nothing was measured");
}
