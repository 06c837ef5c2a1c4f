// SPDX-License-Identifier: Apache-2.0
// A live training from outside: its processes and threads in /proc (proc(5)), the GPU's gauges,
// and its steps where it announced itself. Nothing is attached to it and nothing is sent to it.
#include "base/os.h"
#include "measure/observe/observe.h"
#include "stats/stats.h"
#include "verbs/doctor/doctor.h"

#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LOOKS = 1024, PROCESSES = 512, EVERY_MS = 100 };

// A process of the tree.
struct task {
    int64_t pid;
    struct os_stat stat;
};

struct look {
    struct task tasks[PROCESSES];
    int count;
    int64_t resident_bytes, at_ns;
    double seconds; // of all
    bool waits_for_disk;
};

struct looking {
    struct doctor *d;
    int64_t root, trainer;
    struct look first, last;
    double thread_first,
        thread_last; // of the busiest thread, by the one that is busiest at the end
    int64_t thread;
    struct device_gauges *gauges;
    ptrdiff_t looks, disk_looks, busy_looks; // busy: that thread runs, or waits for a CPU
};

// -1 where it is not one.
static int64_t whole(const char *text) {
    int64_t number;
    return str_to_i64(str_of(text), &number) ? number : -1;
}

// All processes, then those below the root: parents come in any order, so until nothing is added.
static void look_at_tree(int64_t root, struct look *ret) {
    static struct task all[1 << 15];
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc)) && count < 1 << 15;) {
        char path[300];
        int64_t pid = whole(e->d_name);
        if (pid <= 0) continue;
        snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
        if (os_stat_read(path, &all[count].stat)) all[count++].pid = pid;
    }
    if (proc) closedir(proc);
    *ret = (struct look){.at_ns = os_now_ns()};
    for (bool grew = true; grew;) {
        grew = false;
        for (int i = 0; i < count; i++) {
            bool is_below = all[i].pid == root;
            for (int k = 0; k < ret->count && !is_below; k++) {
                is_below = ret->tasks[k].pid == all[i].stat.parent;
            }
            if (!is_below || all[i].pid == 0 || ret->count == PROCESSES) continue;
            ret->tasks[ret->count++] = all[i];
            ret->seconds += all[i].stat.cpu_seconds;
            ret->resident_bytes += all[i].stat.resident_bytes;
            ret->waits_for_disk |= all[i].stat.state == 'D';
            all[i].pid = 0;
            grew = true;
        }
    }
}

static const struct task *task_of(const struct look *l, int64_t pid) {
    for (int i = 0; i < l->count; i++) {
        if (l->tasks[i].pid == pid) return &l->tasks[i];
    }
    return NULL;
}

// Which of them trains: the one with most memory (workers share most of theirs, launchers have
// little).
static int64_t trainer_of(const struct look *l) {
    const struct task *best = &l->tasks[0];
    for (int i = 1; i < l->count; i++) {
        if (l->tasks[i].stat.resident_bytes > best->stat.resident_bytes) best = &l->tasks[i];
    }
    return best->pid;
}

static bool thread_stat(int64_t pid, int64_t thread, struct os_stat *ret_stat) {
    char path[96];
    snprintf(path, sizeof path, "/proc/%lld/task/%lld/stat", (long long)pid, (long long)thread);
    return os_stat_read(path, ret_stat);
}

static double thread_seconds(int64_t pid, int64_t thread) {
    struct os_stat s;
    return thread_stat(pid, thread, &s) ? s.cpu_seconds : (double)NAN;
}

static bool thread_is_ready(int64_t pid, int64_t thread) {
    struct os_stat s;
    return thread_stat(pid, thread, &s) && s.state == 'R';
}

// The thread that has used most so far is the one that runs the loop.
static int64_t busiest_thread(int64_t pid) {
    char path[64];
    double most = -1;
    int64_t best = pid;
    snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        int64_t thread = whole(e->d_name);
        double seconds = thread > 0 ? thread_seconds(pid, thread) : -1;
        if (seconds > most) most = seconds, best = thread;
    }
    if (tasks) closedir(tasks);
    return best;
}

static int check(int64_t pid, struct fail *why) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%lld", (long long)pid);
    if (stat(path, &st) < 0)
        return fail_set(why, FAIL_INPUT, "--pid %lld: no such process", (long long)pid);
    if (st.st_uid != geteuid() && geteuid() != 0) {
        fail_set(why, FAIL_MACHINE, "--pid %lld: belongs to another user", (long long)pid);
        return fail_hint(why, "run this as that user, or as root");
    }
    return 0;
}

static void count_files(int64_t pid, struct cause_process *p) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%lld/fd", (long long)pid);
    DIR *folder = opendir(path);
    if (folder) {
        p->open_files = 0;
        for (struct dirent *e; (e = readdir(folder));) p->open_files += e->d_name[0] != '.';
        closedir(folder);
    }
    snprintf(path, sizeof path, "/proc/%lld/limits", (long long)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "Max open files", 14) == 0) {
            struct str rest = str_trim(str_of(line + 14));
            int64_t limit;
            if (str_to_i64(str_cut(&rest, ' '), &limit)) p->open_files_limit = limit;
        }
    }
    if (f) fclose(f);
}

static void count_shm(struct cause_process *p) {
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) < 0) return;
    p->shm_total_bytes = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    p->shm_free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

static void sum_up(struct looking *w, int64_t trainer) {
    struct cause_process *p = &w->d->facts.process;
    double workers = 0;
    p->seconds = (double)(w->last.at_ns - w->first.at_ns) * 1e-9;
    p->looks = w->looks;
    p->disk_share = (double)w->disk_looks / (double)w->looks;
    p->cpus = fmax(w->last.seconds - w->first.seconds, 0) / p->seconds;
    // On a machine whose cores others use, too, a thread that wants one all the time is as busy.
    double used = (w->thread_last - w->thread_first) / p->seconds;
    p->main_thread = fmax(used, (double)w->busy_looks / (double)w->looks);
    p->workers = 0;
    for (int i = 0; i < w->last.count; i++) {
        const struct task *now = &w->last.tasks[i], *then = task_of(&w->first, now->pid);
        if (now->stat.parent != trainer || !then) continue;
        p->workers++;
        workers += (now->stat.cpu_seconds - then->stat.cpu_seconds) / p->seconds;
    }
    if (p->workers > 0) p->workers_busy = workers / p->workers;
    count_files(trainer, p);
    count_shm(p);
}

// Memory that grows while we look, by the rule for a GPU's memory over time.
static void judge_size(struct looking *w, struct findings *ret_findings) {
    struct trend_stretch stretch = {
        .gauges = w->gauges, .gauge_count = w->looks, .state = DEVICE_ANSWERS};
    struct findings found = {0};
    stretch.sm_clock_max_mhz = NAN;
    trend_judge(w->d->arena, &stretch, -1, &found);
    for (ptrdiff_t i = 0; i < found.count; i++) {
        struct finding f = found.items[i];
        if (strcmp(f.id, "trend.leak") != 0) continue;
        f.evidence = str_format(w->d->arena, "resident %.*s", STR_ARG(f.evidence));
        *arena_push(w->d->arena, &ret_findings->items, &ret_findings->count,
                    &ret_findings->capacity) = f;
    }
}

static bool holds(const struct look *l, const struct device_card *card) {
    for (int i = 0; i < card->process_count; i++) {
        if (task_of(l, card->processes[i].pid)) return true;
    }
    return false;
}

// What the watch saw of the GPUs on which a process of the tree is, and of its own run.
static void take_watch(struct looking *w, const struct observe_view *view,
                       struct findings *findings) {
    struct cause_facts *f = &w->d->facts;
    for (int i = 0; i < view->devices->count; i++) {
        const struct observe_card *card = &view->cards[i];
        double *busy = arena_new(w->d->arena, double, card->history_count + 1);
        if (!holds(&w->last, &view->devices->cards[i])) continue;
        for (ptrdiff_t k = 0; k < card->history_count; k++) busy[k] = card->history[k].utilisation;
        f->utilisation = stats_median(busy, card->history_count);
        f->gauge_count = card->history_count;
        for (ptrdiff_t k = 0; k < view->findings.count; k++) {
            struct finding one = view->findings.items[k];
            if (one.card != i) continue;
            one.evidence = str_copy(w->d->arena, one.evidence);
            one.remedy = str_copy(w->d->arena, one.remedy);
            *arena_push(w->d->arena, &findings->items, &findings->count, &findings->capacity) = one;
        }
    }
    for (int i = 0; i < view->run_count; i++) {
        const struct observe_run *run = &view->runs[i];
        if (!task_of(&w->last, run->pid)) continue;
        f->phases = run->phases;
        f->phase_steps = run->step_count;
    }
}

static int look_on(struct looking *w, struct watch *watch, double seconds, struct fail *why) {
    int64_t end = w->first.at_ns + (int64_t)(seconds * 1e9);
    ptrdiff_t most = (ptrdiff_t)(seconds * 1000 / EVERY_MS);
    int every_ms = most > LOOKS ? (int)(seconds * 1000 / LOOKS) : EVERY_MS;
    while (os_now_ns() < end && w->looks < LOOKS) {
        poll(NULL, 0, every_ms);
        look_at_tree(w->root, &w->last);
        if (w->last.count == 0) {
            fail_set(why, FAIL_INPUT, "--pid %lld: ended while being observed", (long long)w->root);
            return fail_hint(why, "batchfit doctor on its log shows why");
        }
        if (watch) observe_update(watch);
        struct device_gauges *g = &w->gauges[w->looks++];
        *g = (struct device_gauges){.at_ns = w->last.at_ns,
                                    .used_bytes = w->last.resident_bytes,
                                    .free_bytes = -1,
                                    .total_bytes = -1,
                                    .xid = -1};
        g->sw_thermal_seconds = g->hw_thermal_seconds = g->power_brake_seconds =
            g->power_cap_seconds = g->utilisation = g->sm_clock_mhz = NAN;
        g->ecc_corrected = g->ecc_uncorrected = g->pcie_replays = -1;
        w->disk_looks += w->last.waits_for_disk;
        w->busy_looks += thread_is_ready(w->trainer, w->thread);
    }
    return 0;
}

int doctor_look(struct doctor *d, int64_t pid, double seconds, struct fail *why) {
    struct looking *w = arena_new(d->arena, struct looking, 1);
    struct findings findings = {0};
    struct watch *watch = NULL;
    struct fail ignored = {0};
    int rc = check(pid, why);
    if (rc < 0) return rc;
    w->d = d;
    w->root = pid;
    w->gauges = arena_new(d->arena, struct device_gauges, LOOKS);
    look_at_tree(pid, &w->first);
    if (w->first.count == 0)
        return fail_set(why, FAIL_INPUT, "--pid %lld: no such process", (long long)pid);
    int64_t trainer = trainer_of(&w->first);
    w->trainer = trainer;
    w->thread = busiest_thread(trainer);
    w->thread_first = thread_seconds(trainer, w->thread);
    // A machine without a GPU, or whose driver does not answer, still has processes.
    if (observe_open(d->arena, &(struct observe_options){0}, &watch, &ignored) < 0) watch = NULL;
    rc = look_on(w, watch, seconds, why);
    w->thread_last = thread_seconds(trainer, w->thread);
    if (rc == 0) {
        sum_up(w, trainer);
        judge_size(w, &findings);
        if (watch) take_watch(w, observe_view(watch), &findings);
    }
    if (watch) observe_close(watch);
    d->facts.trends = findings.items;
    d->facts.trend_count = findings.count;
    d->source = str_format(d->arena, "process %lld", (long long)pid);
    d->kind = STR("process");
    d->read = str_format(d->arena, "%d process%s, %.0f s", w->last.count,
                         w->last.count == 1 ? "" : "es", seconds);
    return rc;
}
