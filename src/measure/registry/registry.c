// SPDX-License-Identifier: Apache-2.0
// The run registry (doc/formats/runs.md). The folder is ours alone: one that is somebody else's,
// that others may enter, or that is a symlink is not used. A folder whose process is gone is
// removed by whoever lists them; a process number that was given again is known by when the process
// began, and another container's numbers, which mean nothing here, by their namespace.
#include "measure/registry/registry.h"

#include "base/field.h"
#include "base/json.h"
#include "base/os.h"
#include "base/out.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUNS_MOST = 256, // folders that one look takes in
    RUN_BYTES_MOST = 64 << 10,
    TEXT_MOST = 400,
    STEPS_BYTES_MOST = 1 << 20,
    STEPS_KEPT = 1000, // of the newest, when the file is begun again: about 300 KiB
    RANKS_MOST = 1024,
};

struct registry_entry {
    int folder_fd, runs_fd, steps_fd; // runs/PID, runs, steps.jsonl
    char name[24];
    int64_t bytes;
    int64_t steps; // that were ever seen and are written
    ptrdiff_t ranks;
    struct counted {
        int64_t made, samples;
        bool has_ended;
    } counted[RANKS_MOST];
};

// --- run.json ------------------------------------------------------------------------------------

#define OWN(member) FIELD(struct registry_run, member)
static const struct field fields[] = {
    OWN(verb),
    OWN(model),
    OWN(command),
    OWN(precision),
    OWN(device),
    OWN(card_uuid),
    OWN(standin),
    OWN(pid),
    OWN(card_index),
    OWN(batch),
    OWN(accumulation),
    OWN(predicted_peak_bytes),
    OWN(predicted_upper_bytes),
    OWN(started_s),
};
enum { FIELDS = sizeof fields / sizeof *fields };

struct registry_run registry_unknown(void) {
    struct registry_run run = {.repeat_s = (double)NAN};
    for (int i = 0; i < FIELDS; i++) field_forget(&run, &fields[i]);
    return run;
}

static bool read_object(struct arena *a, const json_t *object, struct registry_run *run) {
    *run = registry_unknown();
    if (json_integer_value(json_object_get(object, "run")) != 1) return false;
    for (int i = 0; i < FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        struct str text = {json_string_value(value), (ptrdiff_t)json_string_length(value)};
        int64_t n = json_is_integer(value) ? json_integer_value(value) : -1;
        if (fields[i].type == FIELD_TEXT)
            field_set_text(run, &fields[i], clean_short(a, text, TEXT_MOST));
        else if (n >= 0 && n <= INT64_C(1) << 60)
            field_set_whole(run, &fields[i], n);
    }
    double repeat = json_number_value(json_object_get(object, "repeat_s"));
    if (repeat >= 1 && repeat <= 1e9) run->repeat_s = repeat;
    return true;
}

bool registry_read(struct arena *a, struct str text, struct registry_run *ret_run) {
    json_t *object = json_loadb(text.p ? text.p : "", (size_t)text.len, JSON_ALLOW_NUL, NULL);
    bool is_one = json_is_object(object) && read_object(a, object, ret_run);
    json_decref(object);
    return is_one;
}

// --- Processes -----------------------------------------------------------------------------------

// When it began, in ticks since the system did. -1: it is gone, or only waits to be reaped.
static int64_t start_of(int64_t pid) {
    char path[64];
    struct os_stat s;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    return os_stat_read(path, &s) && s.state != 'Z' && s.state != 'X' ? s.start_ticks : -1;
}

static void read_namespace(char text[64]) {
    ssize_t length = readlink("/proc/self/ns/pid", text, 63);
    text[length > 0 ? length : 0] = 0;
}

// --- Folders -------------------------------------------------------------------------------------

static bool is_ours_alone(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

static struct str base_folder(struct arena *a) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime == '/') return str_format(a, "%s/batchfit", runtime);
    return str_format(a, "/tmp/batchfit-%ld", (long)geteuid());
}

static int open_folder(int parent, const char *name, bool makes) {
    if (makes) (void)mkdirat(parent, name, 0700);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (is_ours_alone(fd)) return fd;
    os_close(&fd);
    return -1;
}

// The folder "runs"; -1: there is none that is ours.
static int open_runs(struct arena *a, bool makes) {
    OS_FD base = open_folder(AT_FDCWD, str_z(a, base_folder(a)), makes);
    return base < 0 ? -1 : open_folder(base, "runs", makes);
}

struct str registry_folder(struct arena *a) {
    OS_FD fd = open_runs(a, false);
    if (fd < 0) return (struct str){0};
    return str_format(a, "%.*s/runs", STR_ARG(base_folder(a)));
}

// What we and nobody else put there.
static void remove_run(int runs_fd, const char *name) {
    static const char *const files[] = {"run.json", "run.json.new", "steps.jsonl",
                                        "steps.jsonl.new"};
    OS_FD fd = openat(runs_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) (void)unlinkat(fd, files[i], 0);
    (void)unlinkat(runs_fd, name, AT_REMOVEDIR);
}

// --- Announcing ----------------------------------------------------------------------------------

static int create(int folder_fd, const char *name) {
    return openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
                  0600);
}

static json_t *object_of(const struct registry_run *run, int64_t pid) {
    char space[64];
    json_t *object = json_pack("{s:i}", "run", 1);
    for (int i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        ARENA_AUTO scratch = {0};
        struct str text = f->type == FIELD_TEXT ? field_text(run, f) : (struct str){0};
        int64_t n = f->type == FIELD_WHOLE ? field_whole(run, f) : -1;
        if (text.len > 0) text = clean_short(&scratch, text, TEXT_MOST);
        if (text.len > 0)
            json_object_set_new(object, f->name, json_stringn(text.p, (size_t)text.len));
        if (n >= 0) json_object_set_new(object, f->name, json_integer(n));
    }
    read_namespace(space);
    json_object_set_new(object, "pid_start_ticks", json_integer(start_of(pid)));
    json_object_set_new(object, "pid_namespace", json_string(space));
    return object;
}

static bool write_run(int folder_fd, const struct registry_run *run, int64_t pid) {
    ARENA_AUTO scratch = {0};
    struct str text = json_take(&scratch, object_of(run, pid), JSON_INDENT(1));
    OS_FD fd = create(folder_fd, "run.json.new");
    bool is_written = text.len > 0 && fd >= 0 && os_write(fd, text) == 0;
    return is_written && renameat(folder_fd, "run.json.new", folder_fd, "run.json") == 0;
}

struct registry_entry *registry_open(struct arena *a, const struct registry_run *run) {
    struct registry_entry *n = arena_new(a, struct registry_entry, 1);
    *n = (struct registry_entry){.folder_fd = -1, .steps_fd = -1, .runs_fd = open_runs(a, true)};
    if (n->runs_fd < 0) return NULL;
    int64_t pid = run->pid >= 0 ? run->pid : getpid();
    snprintf(n->name, sizeof n->name, "%lld", (long long)pid);
    remove_run(n->runs_fd, n->name); // of an earlier process of this number, or our last trial
    n->folder_fd = open_folder(n->runs_fd, n->name, true);
    if (n->folder_fd >= 0) n->steps_fd = create(n->folder_fd, "steps.jsonl");
    if (n->steps_fd >= 0 && write_run(n->folder_fd, run, pid)) return n;
    registry_close(n);
    return NULL;
}

void registry_close(struct registry_entry *n) {
    if (!n) return;
    remove_run(n->runs_fd, n->name);
    os_close(&n->steps_fd);
    os_close(&n->folder_fd);
    os_close(&n->runs_fd);
}

// --- Steps ---------------------------------------------------------------------------------------

static void add_time(struct buf *b, const char *key, double ms) {
    if (!isnan(ms)) buf_format(b, ",\"%s\":%.6g", key, ms);
}
static void add_count(struct buf *b, const char *key, int64_t n) {
    if (n >= 0) buf_format(b, ",\"%s\":%lld", key, (long long)n);
}

static void add_step(struct buf *b, const struct step *s, const struct counted *c, double t) {
    buf_format(b, "{\"v\":1,\"event\":\"step\",\"rank\":%d,\"t\":%.6f", s->rank, t);
    add_count(b, "step", s->number);
    add_count(b, "samples", s->samples);
    add_count(b, "made", c->made);
    add_count(b, "made_samples", c->samples);
    for (int i = 0; i < STEP_TIME_COUNT; i++) add_time(b, step_time_keys[i], s->times.ms[i]);
    add_count(b, "allocated", s->allocated_bytes);
    add_count(b, "reserved", s->reserved_bytes);
    add_count(b, "peak_allocated", s->peak_allocated_bytes);
    add_count(b, "peak_reserved", s->peak_reserved_bytes);
    add_count(b, "alloc_retries", s->alloc_retries);
    buf_add(b, STR("}\n"));
}

static void add_start(struct buf *b, const struct step_rank *r, int64_t world) {
    json_t *object = json_pack("{s:i,s:s,s:i}", "v", 1, "event", "start", "rank", r->rank);
    if (r->pid >= 0) json_object_set_new(object, "pid", json_integer(r->pid));
    if (world > 0) json_object_set_new(object, "world", json_integer(world));
    json_object_set_new(
        object, "framework",
        json_stringn(r->framework.p ? r->framework.p : "", (size_t)r->framework.len));
    json_object_set_new(object, "device",
                        json_stringn(r->device.p ? r->device.p : "", (size_t)r->device.len));
    struct str text = json_take(b->arena, object, JSON_COMPACT);
    if (text.len > 0) buf_format(b, "%.*s\n", STR_ARG(text));
}

// The times at which the steps from `from` on ended: the newest of a rank now, those before it as
// much earlier as they took.
static void add_steps(struct buf *b, struct registry_entry *n, const struct steps *steps,
                      ptrdiff_t from) {
    ARENA_AUTO scratch = {0};
    double now = (double)os_wall_ns() * 1e-9,
           *t = arena_new(&scratch, double, steps->count - from + 1);
    double *later = arena_new(&scratch, double, RANKS_MOST);
    struct counted *counted = arena_new(&scratch, struct counted, RANKS_MOST);
    for (ptrdiff_t i = steps->count - 1; i >= from; i--) {
        const struct step *s = &steps->items[i];
        int rank = s->rank % RANKS_MOST;
        t[i - from] = now - later[rank];
        later[rank] += s->times.total_ms >= 0 ? s->times.total_ms / 1e3 : 1e-3;
        counted[rank].made++;
        counted[rank].samples += s->samples > 0 ? s->samples : 0;
    }
    // What is written again was counted before.
    bool is_again = steps->forgotten + from < n->steps;
    for (int k = 0; k < RANKS_MOST && is_again; k++) {
        n->counted[k].made -= counted[k].made;
        n->counted[k].samples -= counted[k].samples;
    }
    for (ptrdiff_t i = from; i < steps->count; i++) {
        const struct step *s = &steps->items[i];
        struct counted *c = &n->counted[s->rank % RANKS_MOST];
        c->made++;
        c->samples += s->samples > 0 ? s->samples : 0;
        add_step(b, s, c, t[i - from]);
    }
    n->steps = steps->forgotten + steps->count;
}

static void add_ends(struct buf *b, struct registry_entry *n, const struct steps *steps) {
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) {
        const struct step_rank *r = &steps->ranks[i];
        struct counted *c = &n->counted[r->rank % RANKS_MOST];
        if (r->state < STEPS_RANK_ENDED_WELL || c->has_ended) continue;
        c->has_ended = true;
        buf_format(b, "{\"v\":1,\"event\":\"end\",\"rank\":%d,\"ok\":%s}\n", r->rank,
                   r->state == STEPS_RANK_ENDED_WELL ? "true" : "false");
    }
}

// A new file with the ranks and the newest steps takes the old one's place.
static void begin_again(struct registry_entry *n, const struct steps *steps) {
    ARENA_AUTO scratch = {0};
    struct buf b = buf_new(&scratch);
    ptrdiff_t from = steps->count > STEPS_KEPT ? steps->count - STEPS_KEPT : 0;
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) add_start(&b, &steps->ranks[i], steps->world);
    add_steps(&b, n, steps, from);
    int fd = create(n->folder_fd, "steps.jsonl.new");
    bool is_written = fd >= 0 && os_write(fd, buf_str(&b)) == 0 &&
                      renameat(n->folder_fd, "steps.jsonl.new", n->folder_fd, "steps.jsonl") == 0;
    if (!is_written) {
        os_close(&fd);
        return;
    }
    os_close(&n->steps_fd);
    n->steps_fd = fd;
    n->bytes = b.count;
}

void registry_steps(struct registry_entry *n, const struct steps *steps) {
    if (!n || n->steps_fd < 0) return;
    ARENA_AUTO scratch = {0};
    struct buf b = buf_new(&scratch);
    for (; n->ranks < steps->rank_count; n->ranks++) {
        add_start(&b, &steps->ranks[n->ranks], steps->world);
    }
    int64_t from = n->steps - steps->forgotten;
    if (from < steps->count) add_steps(&b, n, steps, from > 0 ? (ptrdiff_t)from : 0);
    add_ends(&b, n, steps);
    if (b.count == 0) return;
    if (n->bytes + b.count > STEPS_BYTES_MOST) {
        begin_again(n, steps);
        return;
    }
    if (os_write(n->steps_fd, buf_str(&b)) < 0) { // a full disk: no more of it
        os_close(&n->steps_fd);
        n->steps_fd = -1;
    }
    n->bytes += b.count;
}

// --- Finding -------------------------------------------------------------------------------------

enum life { LIVES, IS_GONE, IS_ELSEWHERE };

// Whose run.json cannot be read may just be at work on it, if its process lives.
static enum life life_of(const json_t *object, int64_t pid) {
    char space[64];
    read_namespace(space);
    const char *its = json_string_value(json_object_get(object, "pid_namespace"));
    if (its && *its && *space && strcmp(its, space) != 0) return IS_ELSEWHERE;
    int64_t start = start_of(pid);
    const json_t *was = json_object_get(object, "pid_start_ticks");
    if (start < 0) return IS_GONE;
    return json_is_integer(was) && json_integer_value(was) != start ? IS_GONE : LIVES;
}

static bool read_run(struct arena *a, int runs_fd, struct str folder, const char *name,
                     struct registry_found *found) {
    int64_t pid;
    if (!str_to_i64(str_of(name), &pid) || pid <= 0) return false;
    struct str path = str_format(a, "%.*s/%s", STR_ARG(folder), name), text = {0};
    (void)os_read(a, str_format(a, "%.*s/run.json", STR_ARG(path)).p, RUN_BYTES_MOST, &text, NULL,
                  NULL);
    json_t *object = json_loadb(text.p ? text.p : "", (size_t)text.len, 0, NULL);
    enum life life = life_of(object, pid);
    bool is_one = life == LIVES && json_is_object(object) && read_object(a, object, &found->run);
    json_decref(object);
    if (life == IS_GONE) remove_run(runs_fd, name);
    found->run.pid = pid;
    found->id = str_copy(a, str_of(name));
    found->steps_path = str_format(a, "%.*s/steps.jsonl", STR_ARG(path));
    return is_one;
}

int registry_list(struct arena *a, struct registry_found **ret_found) {
    int runs_fd = open_runs(a, false), count = 0;
    DIR *listing = runs_fd >= 0 ? fdopendir(runs_fd) : NULL;
    struct str folder = {0};
    *ret_found = NULL;
    if (!listing) {
        os_close(&runs_fd);
        return 0;
    }
    folder = str_format(a, "%.*s/runs", STR_ARG(base_folder(a)));
    struct registry_found *found = arena_new(a, struct registry_found, RUNS_MOST);
    for (struct dirent *e; count < RUNS_MOST && (e = readdir(listing));) {
        if (e->d_name[0] == '.') continue;
        count += read_run(a, runs_fd, folder, e->d_name, &found[count]);
    }
    closedir(listing);
    *ret_found = found;
    return count;
}
