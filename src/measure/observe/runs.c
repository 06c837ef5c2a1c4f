// SPDX-License-Identifier: Apache-2.0
// The runs that are watched: registered ones of this user, files and folders that we were pointed
// at, and those of a recorded machine. Each has a slot that is taken when the watch is opened.
#include "measure/observe/observe_int.h"

#include "base/os.h"
#include "base/out.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FILES_MOST = 16, TEXTS_BYTES = 2048, PATH_BYTES = 512 };
// How long a run that has ended is still shown.
#define ENDED_SHOWN_NS INT64_C(30000000000)

enum kind { FREE, REGISTERED, POINTED, RECORDED };

struct slot {
    enum kind kind;
    char path[PATH_BYTES]; // of the steps: a file, or a folder with one of each process
    char texts[TEXTS_BYTES];
    size_t texts_used;
    struct str id;
    struct registry_run run;
    struct file {
        char name[128]; // in the folder; empty: the path itself
        struct tail tail;
    } files[FILES_MOST];
    int file_count;
    struct progress progress;
    int64_t peak_bytes, gone_ns, round;
    bool is_seen;
    int64_t cpu_pid, cpu_ns; // CPU time of the rank that is followed, as last looked at
    double cpu_seconds;
};

struct runs {
    struct arena scratch;
    struct arena_mark scratch_begin;
    char *buffer;
    bool looks_for_registered;
    struct slot slots[OBSERVE_RUNS];
    int unlisted;
    struct owner owner;
    struct observe_run shown[OBSERVE_RUNS];
    struct slot *shown_slots[OBSERVE_RUNS];
};

// --- Slots ---------------------------------------------------------------------------------------

static struct str keep_text(struct slot *s, struct str text) {
    size_t room = sizeof s->texts - s->texts_used;
    size_t length = (size_t)clean_cut(text, (ptrdiff_t)room).len;
    char *at = s->texts + s->texts_used;
    if (length) memcpy(at, text.p, length);
    s->texts_used += length;
    return (struct str){at, (ptrdiff_t)length};
}

static void keep_run(struct slot *s, const struct registry_run *run, struct str id) {
    s->texts_used = 0;
    s->run = *run;
    s->id = keep_text(s, id);
    struct str *texts[] = {&s->run.verb,      &s->run.model,   &s->run.precision, &s->run.device,
                           &s->run.card_uuid, &s->run.standin, &s->run.command};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = keep_text(s, *texts[i]);
}

static void free_slot(struct slot *s) {
    for (int i = 0; i < s->file_count; i++) observe_tail_close(&s->files[i].tail);
    s->kind = FREE;
    s->file_count = 0;
}

// One that is free, or whose run has ended; NULL: none.
static struct slot *take_slot(struct runs *r, enum kind kind, const struct registry_run *run,
                              struct str id, struct str path) {
    struct slot *taken = NULL;
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        struct slot *s = &r->slots[i];
        bool is_better = !taken || (taken->kind != FREE && s->gone_ns < taken->gone_ns);
        if (s->kind == FREE) {
            taken = s;
            break;
        }
        if (s->gone_ns && is_better) taken = s;
    }
    if (!taken || path.len >= PATH_BYTES) return NULL;
    free_slot(taken);
    taken->kind = kind;
    taken->peak_bytes = -1;
    taken->gone_ns = taken->round = 0;
    taken->is_seen = true;
    taken->cpu_pid = -1;
    snprintf(taken->path, sizeof taken->path, "%.*s", STR_ARG(path));
    keep_run(taken, run, id);
    observe_progress_reset(&taken->progress);
    return taken;
}

// --- Steps ---------------------------------------------------------------------------------------

struct reading {
    struct steps steps;
    bool is_recorded;
    double until_s; // of a recording
};

// The time of a line, without reading all of it; NaN: it has none.
static double time_in(struct str line) {
    ptrdiff_t at = str_find(line, STR("\"t\":"));
    if (at < 0) return (double)NAN;
    char number[32];
    struct str rest = str_trim(str_slice(line, at + 4, line.len));
    snprintf(number, sizeof number, "%.*s", (int)(rest.len < 31 ? rest.len : 31), rest.p);
    return strtod(number, NULL);
}

static bool take_line(void *context, struct str line) {
    struct reading *reading = context;
    if (reading->is_recorded && time_in(line) > reading->until_s) return false;
    steps_line(&reading->steps, line);
    return true;
}

static struct file *file_of(struct slot *s, const char *name) {
    for (int i = 0; i < s->file_count; i++) {
        if (strcmp(s->files[i].name, name) == 0) return &s->files[i];
    }
    if (s->file_count == FILES_MOST || strlen(name) >= sizeof s->files->name) return NULL;
    struct file *f = &s->files[s->file_count++];
    *f = (struct file){.tail = observe_tail_new()};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

// A folder's files are those of the processes: HOST-PID.jsonl.
static void find_files(struct slot *s) {
    struct stat st;
    bool is_folder = s->kind == POINTED && stat(s->path, &st) == 0 && S_ISDIR(st.st_mode);
    DIR *listing = is_folder ? opendir(s->path) : NULL;
    if (!listing) {
        if (!is_folder) (void)file_of(s, "");
        return;
    }
    for (struct dirent *e; (e = readdir(listing));) {
        struct str name = str_of(e->d_name);
        if (name.p[0] != '.' && str_ends(name, STR(".jsonl"))) (void)file_of(s, e->d_name);
    }
    closedir(listing);
}

static struct progress_clock clock_of(const struct slot *s, int64_t now_ns, int64_t wall_ns,
                                      int64_t opened_ns) {
    if (s->kind == RECORDED) {
        double begin = s->run.repeat_s > 0 ? (double)s->round * s->run.repeat_s : 0;
        return (struct progress_clock){now_ns, 1e9, (double)opened_ns + begin * 1e9};
    }
    return (struct progress_clock){now_ns, 1e9, (double)(now_ns - wall_ns)};
}

// A recorded run that is at its end begins again.
static void begin_round(struct slot *s, int64_t now_ns, int64_t opened_ns) {
    if (s->kind != RECORDED || !(s->run.repeat_s > 0)) return;
    int64_t round = (int64_t)((double)(now_ns - opened_ns) * 1e-9 / s->run.repeat_s);
    if (round == s->round) return;
    s->round = round;
    for (int i = 0; i < s->file_count; i++) observe_tail_close(&s->files[i].tail);
    observe_progress_reset(&s->progress);
}

static void read_steps(struct runs *r, struct slot *s, int64_t now_ns, int64_t wall_ns,
                       int64_t opened_ns) {
    begin_round(s, now_ns, opened_ns);
    const struct progress_clock clock = clock_of(s, now_ns, wall_ns, opened_ns);
    struct reading reading = {steps_new(&r->scratch), s->kind == RECORDED,
                              ((double)now_ns - clock.t_offset_ns) / 1e9};
    const struct tail_reader reader = {r->buffer, take_line, &reading, s->kind == REGISTERED};
    bool is_anew = false;
    find_files(s);
    for (int i = 0; i < s->file_count; i++) {
        struct file *f = &s->files[i];
        char path[PATH_BYTES + 80];
        snprintf(path, sizeof path, "%s%s%s", s->path, *f->name ? "/" : "", f->name);
        is_anew |= observe_tail_read(&f->tail, path, &reader);
    }
    if (is_anew && s->kind == POINTED) observe_progress_reset(&s->progress);
    if (reading.steps.count || reading.steps.rank_count) {
        observe_progress_add(&s->progress, &reading.steps, &clock);
    }
    arena_rewind(&r->scratch, r->scratch_begin);
}

// --- Which runs there are ------------------------------------------------------------------------

static struct slot *registered_slot(struct runs *r, const struct registry_found *f) {
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        struct slot *s = &r->slots[i];
        bool is_it = s->kind == REGISTERED && !s->gone_ns && str_equal(s->id, f->id) &&
                     s->run.started_s == f->run.started_s && s->run.batch == f->run.batch;
        if (is_it) return s;
    }
    // A trial that follows another of the same process takes its place.
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        struct slot *s = &r->slots[i];
        if (s->kind == REGISTERED && str_equal(s->id, f->id)) free_slot(s);
    }
    return take_slot(r, REGISTERED, &f->run, f->id, f->steps_path);
}

static void find_registered(struct runs *r, int64_t now_ns) {
    struct registry_found *found = NULL;
    int count = r->looks_for_registered ? registry_list(&r->scratch, &found) : 0;
    r->unlisted = 0;
    for (int i = 0; i < OBSERVE_RUNS; i++) r->slots[i].is_seen = r->slots[i].kind != REGISTERED;
    for (int i = 0; i < count; i++) {
        struct slot *s = registered_slot(r, &found[i]);
        if (s) s->is_seen = true;
        r->unlisted += !s;
    }
    arena_rewind(&r->scratch, r->scratch_begin);
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        struct slot *s = &r->slots[i];
        if (s->kind == REGISTERED && !s->is_seen && !s->gone_ns) s->gone_ns = now_ns;
        if (s->gone_ns && now_ns - s->gone_ns > ENDED_SHOWN_NS) free_slot(s);
    }
}

void observe_runs_follow(struct runs *r, int64_t now_ns, int64_t wall_ns, int64_t opened_ns) {
    find_registered(r, now_ns);
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        if (r->slots[i].kind != FREE) read_steps(r, &r->slots[i], now_ns, wall_ns, opened_ns);
    }
}

static void open_pointed(struct runs *r, const char *path) {
    struct registry_run run = registry_unknown();
    struct str whole = str_of(path), name = whole;
    while (name.len > 1 && name.p[name.len - 1] == '/') name.len--;
    if (name.len > 1) name = str_last(name, '/');
    if (!take_slot(r, POINTED, &run, name, whole)) r->unlisted++;
}

static void open_recorded(struct runs *r, struct arena *a, const char *machine) {
    struct str *names;
    ptrdiff_t count = 0;
    const char *folder = str_format(a, "%s/runs", machine).p;
    if (os_list(a, folder, "", &names, &count, NULL)) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        struct registry_run run;
        struct str below = str_format(a, "/runs/%.*s/run.json", STR_ARG(names[i]));
        struct str text = os_read_below(a, machine, below.p, TAIL_LINE_MAX);
        if (!registry_read(a, text, &run)) continue;
        struct str steps = str_format(a, "%s/%.*s/steps.jsonl", folder, STR_ARG(names[i]));
        if (!take_slot(r, RECORDED, &run, names[i], steps)) r->unlisted++;
    }
}

struct runs *observe_runs_open(struct arena *a, const struct observe_options *options) {
    struct runs *r = arena_new(a, struct runs, 1);
    ARENA_AUTO scratch = {0};
    arena_new(&r->scratch, char, 1); // so that a rewind does not give the first chunk back
    r->scratch_begin = arena_mark(&r->scratch);
    r->buffer = arena_new(a, char, TAIL_LINE_MAX);
    r->looks_for_registered = !options->no_runs && !options->machine;
    r->owner.asks_proc = !options->machine;
    for (int i = 0; i < OBSERVE_RUNS; i++) observe_progress_open(&r->slots[i].progress, a);
    for (int i = 0; i < options->steps_count; i++) open_pointed(r, options->steps[i]);
    if (options->machine && !options->no_runs) open_recorded(r, &scratch, options->machine);
    return r;
}

void observe_runs_close(struct runs *r) {
    if (!r) return;
    for (int i = 0; i < OBSERVE_RUNS; i++) free_slot(&r->slots[i]);
    arena_clear(&r->scratch);
}

// --- Which GPUs they are on ----------------------------------------------------------------------

static void set_owner(struct runs *r) {
    struct owner_root roots[OWNER_ROOTS];
    int count = 0;
    memset(roots, 0, sizeof roots);
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        const struct slot *s = &r->slots[i];
        if (s->kind == FREE || s->gone_ns) continue;
        if (s->run.pid > 1 && count < OWNER_ROOTS) {
            roots[count++] = (struct owner_root){.pid = s->run.pid, .run = i};
        }
        for (int k = 0; k < s->progress.rank_count && count < OWNER_ROOTS; k++) {
            int64_t pid = s->progress.ranks[k].pid;
            if (pid > 1) roots[count++] = (struct owner_root){.pid = pid, .run = i};
        }
    }
    observe_owner_set(&r->owner, roots, count);
}

static int card_by_uuid(const struct device_snapshot *d, struct str uuid) {
    for (int i = 0; i < d->count && uuid.len > 0; i++) {
        if (str_equal(str_of(d->cards[i].facts.uuid), uuid)) return i;
    }
    return -1;
}

static int card_by_index(const struct device_snapshot *d, int64_t index) {
    int found = -1;
    for (int i = 0; i < d->count; i++) {
        if (d->cards[i].index != index) continue;
        if (found >= 0) return -1; // instances of one GPU
        found = i;
    }
    return found;
}

// "cuda:N" counts within CUDA_VISIBLE_DEVICES, which we do not know: it tells only where there is
// one GPU.
static int card_by_device(const struct device_snapshot *d, const char *device) {
    return d->count == 1 && strncmp(device, "cuda", 4) == 0 ? 0 : -1;
}

struct held {
    int64_t bytes[OBSERVE_RUNS]; // of the GPU, by each run; -1: not told
    bool is_there[OBSERVE_RUNS];
};

static struct held held_of(struct runs *r, const struct device_card *card, int64_t now_ns) {
    struct held held = {0};
    for (int i = 0; i < card->process_count; i++) {
        const struct device_process *p = &card->processes[i];
        int run = observe_owner_of(&r->owner, p->pid, now_ns);
        if (run < 0) continue;
        held.is_there[run] = true;
        bool is_known = p->used_bytes >= 0 && held.bytes[run] >= 0;
        held.bytes[run] = is_known ? held.bytes[run] + p->used_bytes : -1;
    }
    return held;
}

static void show_memory(const struct runs *r, const struct device_card *card, int place,
                        const int *cards_of, const struct held *held, struct observe_card *shown) {
    int64_t ours = 0;
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        const struct slot *s = &r->slots[i];
        // A run on this GPU that is not among its processes: another container's numbers.
        bool is_hidden = s->kind != FREE && !s->gone_ns && cards_of[i] == place &&
                         !held->is_there[i] && s->progress.count > 0;
        if (held->bytes[i] < 0 || is_hidden) ours = -1;
        if (ours >= 0) ours += held->bytes[i];
    }
    if (!card->has_processes) ours = -1;
    shown->ours_bytes = ours;
    bool is_known = ours >= 0 && card->now.used_bytes >= 0;
    shown->others_bytes = !is_known                     ? -1
                          : card->now.used_bytes > ours ? card->now.used_bytes - ours
                                                        : 0;
}

static int first_guess(const struct slot *s, const struct device_snapshot *d) {
    int card = card_by_uuid(d, s->run.card_uuid);
    return card < 0 && s->run.card_uuid.len == 0 && s->run.card_index >= 0
               ? card_by_index(d, s->run.card_index)
               : card;
}

static void show_run(const struct slot *s, int card, const struct observe_card *cards,
                     int64_t now_ns, struct observe_run *shown) {
    *shown = (struct observe_run){
        .id = s->id,
        .verb = s->run.verb,
        .model = s->run.model,
        .command = s->run.command,
        .precision = s->run.precision,
        .standin = s->run.standin,
        .pid = s->run.pid,
        .batch = s->run.batch,
        .accumulation = s->run.accumulation,
        .card = card,
        .predicted_peak_bytes = s->run.predicted_peak_bytes,
        .predicted_upper_bytes = s->run.predicted_upper_bytes,
        .peak_bytes = s->peak_bytes,
        .samples_per_joule = (double)NAN,
    };
    if (s->progress.is_standin && shown->standin.len == 0) {
        shown->standin = STR("the program plays a scenario; nothing is trained");
    }
    observe_progress_show(&s->progress, shown);
    shown->state = s->gone_ns ? OBSERVE_RUN_ENDED : observe_progress_state(&s->progress, now_ns);
    if (card < 0) return;
    shown->samples_per_joule = observe_progress_samples_per_joule(&s->progress, cards[card].history,
                                                                  cards[card].history_count);
}

void observe_runs_show(struct runs *r, const struct device_snapshot *devices,
                       struct observe_card *cards, int64_t now_ns, struct observe_view *view) {
    int cards_of[OBSERVE_RUNS];
    set_owner(r);
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        struct slot *s = &r->slots[i];
        cards_of[i] = s->kind == FREE ? -1 : first_guess(s, devices);
    }
    for (int c = 0; c < devices->count; c++) {
        const struct held held = held_of(r, &devices->cards[c], now_ns);
        for (int i = 0; i < OBSERVE_RUNS; i++) {
            struct slot *s = &r->slots[i];
            if (held.is_there[i] && cards_of[i] < 0) cards_of[i] = c;
            if (held.is_there[i] && held.bytes[i] > s->peak_bytes) s->peak_bytes = held.bytes[i];
        }
        show_memory(r, &devices->cards[c], c, cards_of, &held, &cards[c]);
    }
    view->run_count = 0;
    for (int i = 0; i < OBSERVE_RUNS; i++) {
        const struct slot *s = &r->slots[i];
        if (s->kind == FREE) continue;
        if (cards_of[i] < 0) cards_of[i] = card_by_device(devices, s->progress.device);
        r->shown_slots[view->run_count] = &r->slots[i];
        show_run(s, cards_of[i], cards, now_ns, &r->shown[view->run_count++]);
    }
    view->runs = r->shown;
    view->runs_unlisted = r->unlisted;
}

// --- For the verdicts ----------------------------------------------------------------------------

static int64_t followed_pid(const struct slot *s) {
    for (int i = 0; i < s->progress.rank_count; i++) {
        if (s->progress.ranks[i].rank == s->progress.followed) return s->progress.ranks[i].pid;
    }
    return -1;
}

// Processors that it kept busy since the last look; 0: not known.
static double cpus_of(struct slot *s, int64_t now_ns) {
    int64_t pid = followed_pid(s), before_ns = s->cpu_ns;
    double seconds = observe_owner_cpu_seconds(pid), before = s->cpu_seconds;
    bool is_same = pid > 1 && pid == s->cpu_pid && now_ns > before_ns;
    s->cpu_pid = pid;
    s->cpu_ns = now_ns;
    s->cpu_seconds = seconds;
    double cpus = (seconds - before) / ((double)(now_ns - before_ns) * 1e-9);
    return is_same && cpus >= 0 ? cpus : 0;
}

void observe_runs_tell(struct runs *r, const struct observe_view *view, int card, int64_t now_ns,
                       struct trend_stretch *stretch) {
    for (int i = 0; i < view->run_count; i++) {
        const struct observe_run *run = &view->runs[i];
        struct slot *s = view->runs == r->shown ? r->shown_slots[i] : NULL;
        if (run->card != card || run->state == OBSERVE_RUN_ENDED) continue;
        stretch->predicted_peak_bytes = run->predicted_peak_bytes;
        stretch->predicted_upper_bytes = run->predicted_upper_bytes;
        stretch->peak_bytes = run->peak_bytes;
        stretch->alloc_retries = run->alloc_retries;
        if (!s) return; // another machine's
        stretch->steps = run->steps;
        stretch->step_count = run->step_count;
        stretch->steps_before = run->steps_done - run->step_count;
        stretch->earlier_most_bytes = s->progress.earlier_most_bytes;
        if (s->kind != RECORDED) stretch->process_cpus = cpus_of(s, now_ns);
        return;
    }
}
