// SPDX-License-Identifier: Apache-2.0
// The monitor: one thread asks a machine's GPUs in turn and shares what they said, guarded by a
// lock that is held for copying only. Who reads looks whether the thread is late, and still is a
// moment later: then the GPU it asks is held to hang, and a new thread goes on with the others; the
// late one ends when the driver lets it. So there are never more threads than GPUs that hang, and
// one more. Whoever leaves last frees what they share. A sampler is a monitor that asks one GPU
// only, and counts.
#include "machine/device/device_int.h"

#include "base/os.h"
#include "base/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000, USUAL_INTERVAL_MS = 1000, NOBODY = -1, OPENING = -2, ALL = -1 };
// After a time in which nobody ran (Ctrl-Z, a virtual machine that was halted) the thread needs a
// moment, too: who was late only because of that has answered by then.
enum { DOUBT_MS = 200 };

struct tally {
    struct device_peaks peaks; // the means are filled in when they are read
    double utilisation_sum;
    int utilisation_count;
};

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users; // the owner and the threads
    bool is_stopped;
    int worker; // the number of the thread that is at work; others are late
    int asked;  // the place of the GPU that it asks; NOBODY, or OPENING
    int64_t asked_since_ns;
    int64_t doubted_ns;    // when somebody first found that late; 0: nobody yet
    bool is_open, is_full; // every GPU was asked once
    struct device_topology topology;
    bool is_hanging; // the driver, while it is opened
    int failed;
    struct fail why;
    struct device_session *session;
    struct device_card *cards;
    bool *is_late; // a GPU that a late thread still waits for
    int count;
    struct tally tally; // of a sampler's GPU
    char *told;         // what the machines tell besides their GPUs; NULL: nothing
    ptrdiff_t told_length;
    // Fixed from the beginning on.
    const struct device_backend *backend;
    const char *machine;
    struct device_watching how;
    int only;           // the place of the one GPU that is asked; ALL
    struct arena arena; // the first thread's while it opens
};

struct device_monitor {
    struct shared *shared;
};

struct worker {
    struct shared *shared;
    int number;
};

static void shared_drop(struct shared *s) {
    if (!device_leave(&s->lock, &s->changed, &s->users)) return;
    if (s->session) s->backend->close(s->session);
    arena_clear(&s->arena);
    free(s->told);
    free(s);
}

static int open_session(struct shared *s) {
    struct device_session *session = NULL;
    struct fail why = {0};
    int failed = s->backend->open(&s->arena, s->machine, &session, &why);
    int count = failed ? 0 : (int)session->list.count;
    struct device_card *cards = arena_new(&s->arena, struct device_card, count + 1);
    bool *is_late = arena_new(&s->arena, bool, count + 1);
    for (int i = 0; i < count; i++) {
        cards[i] = device_card_unknown();
        device_card_name(&cards[i], &session->list.items[i]);
    }
    if (!failed) device_explain_none(&session->list);
    pthread_mutex_lock(&s->lock);
    s->failed = failed;
    s->why = why;
    s->session = session;
    if (session) session->speed = s->how.speed;
    s->cards = cards;
    s->is_late = is_late;
    s->count = count;
    s->is_hanging = session && session->is_hanging;
    s->is_open = !failed;
    s->asked = NOBODY;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return failed;
}

static int wanted_of(const struct shared *s, const struct device_card *card) {
    if (s->only != ALL) return DEVICE_ASK_OFTEN;
    int wanted = DEVICE_ASK_OFTEN | DEVICE_ASK_NOW | DEVICE_ASK_PROCESSES;
    if (s->how.wants_pcie_throughput) wanted |= DEVICE_ASK_PCIE;
    if (s->how.wants_profile) wanted |= DEVICE_ASK_PROFILE;
    return card->now.at_ns == 0 ? wanted | DEVICE_ASK_FACTS : wanted; // the settings, once
}

static void count_in(struct tally *t, const struct device_gauges *now) {
    t->peaks.samples++;
    unit_keep_most(&t->peaks.used_bytes, now->used_bytes);
    if (!isnan(now->utilisation)) {
        t->utilisation_sum += now->utilisation;
        t->utilisation_count++;
    }
}

// False: this thread is late, or told to stop.
static bool ask_card(struct shared *s, int place, int number) {
    pthread_mutex_lock(&s->lock);
    bool is_mine = s->worker == number && !s->is_stopped;
    if (is_mine && s->is_late[place]) {
        pthread_mutex_unlock(&s->lock);
        return true;
    }
    struct device_card card = s->cards[place];
    if (is_mine) s->asked = place;
    if (is_mine) s->asked_since_ns = os_now_ns();
    if (is_mine) s->doubted_ns = 0;
    pthread_mutex_unlock(&s->lock);
    if (!is_mine) return false;
    struct device_gauges before = card.now;
    int wanted = wanted_of(s, &card);
    device_card_renew(&card);
    s->backend->sample(s->session, place, wanted, &card);
    if (card.state == DEVICE_HANGS)
        card.now = before; // said by a recording
    else if (card.state == DEVICE_ANSWERS || s->only != ALL)
        card.now.at_ns = os_now_ns();
    pthread_mutex_lock(&s->lock);
    s->cards[place] = card;
    s->is_late[place] = false;
    count_in(&s->tally, &card.now);
    is_mine = s->worker == number;
    if (is_mine) s->asked = NOBODY;
    pthread_mutex_unlock(&s->lock);
    return is_mine;
}

// False: told to stop, or late.
static bool wait_for_turn(struct shared *s, int number, int64_t *next_ns) {
    struct timespec end = device_next_turn(next_ns, s->how.interval_ms);
    pthread_mutex_lock(&s->lock);
    int late = 0;
    while (!s->is_stopped && s->worker == number && !late) {
        late = pthread_cond_timedwait(&s->changed, &s->lock, &end);
    }
    bool goes_on = !s->is_stopped && s->worker == number;
    pthread_mutex_unlock(&s->lock);
    return goes_on;
}

// Once, of the GPUs that have answered; the lock is not held while the driver is asked.
static void ask_topology(struct shared *s) {
    ARENA_AUTO a = {0};
    struct device_topology found;
    if (!s->how.wants_topology || s->topology.count > 0) return;
    struct device_card *cards = arena_new(&a, struct device_card, s->count + 1);
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->count; i++) cards[i] = s->cards[i];
    pthread_mutex_unlock(&s->lock);
    device_topology_ask(s->backend, s->session, cards, s->count, &found);
    pthread_mutex_lock(&s->lock);
    s->topology = found;
    pthread_mutex_unlock(&s->lock);
}

static void ask_told(struct shared *s) {
    ARENA_AUTO a = {0};
    struct buf told = buf_new(&a);
    if (!s->backend->tell) return;
    s->backend->tell(s->session, &told);
    char *copy = malloc((size_t)told.count + 1), *before;
    if (copy && told.count > 0) memcpy(copy, told.items, (size_t)told.count);
    pthread_mutex_lock(&s->lock);
    before = s->told;
    s->told = copy;
    s->told_length = copy ? told.count : 0;
    pthread_mutex_unlock(&s->lock);
    free(before);
}

static void ask_until_stopped(struct shared *s, int number) {
    int64_t next_ns = os_now_ns();
    do {
        for (int i = 0; i < s->count; i++) {
            if ((s->only == ALL || s->only == i) && !ask_card(s, i, number)) return;
        }
        ask_topology(s);
        ask_told(s);
        pthread_mutex_lock(&s->lock);
        s->is_full = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    } while (wait_for_turn(s, number, &next_ns));
}

static void *run(void *argument) {
    struct worker w = *(struct worker *)argument;
    free(argument);
    int failed = w.number == 0 ? open_session(w.shared) : 0;
    if (!failed) ask_until_stopped(w.shared, w.number);
    shared_drop(w.shared);
    return NULL;
}

// Takes part in what is shared: s->users is counted before.
static bool start_worker(struct shared *s, int number) {
    struct worker *w = malloc(sizeof *w);
    if (!w) return false;
    *w = (struct worker){s, number};
    if (device_thread(run, w)) return true;
    free(w);
    return false;
}

static struct shared *shared_new(const char *machine, const struct device_watching *how, int only) {
    struct shared *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    pthread_mutex_init(&s->lock, NULL);
    device_cond_init(&s->changed);
    s->users = 2;
    s->asked = OPENING;
    s->asked_since_ns = os_now_ns();
    s->machine = machine ? str_z(&s->arena, str_of(machine)) : NULL;
    if (how) s->how = *how;
    if (s->how.interval_ms < 1) s->how.interval_ms = USUAL_INTERVAL_MS;
    if (s->how.deadline_ms < 1) s->how.deadline_ms = DEVICE_DEADLINE_MS;
    s->only = only;
    s->tally.peaks.used_bytes = -1;
    s->backend = device_backend_of(s->machine);
    return s;
}

static void hang(struct device_card *card, int deadline_ms) {
    card->state = DEVICE_HANGS;
    snprintf(card->reason, sizeof card->reason,
             "no answer within %g s: it hangs (see dmesg) or is waking up", deadline_ms / 1000.0);
}

// Under the lock. How long it takes until a call can be held to hang; 0: it can now; -1: not late.
static int doubt_left_ms(struct shared *s) {
    int64_t now = os_now_ns();
    if (s->asked == NOBODY || now - s->asked_since_ns <= (int64_t)s->how.deadline_ms * MS)
        return -1;
    if (!s->doubted_ns) s->doubted_ns = now;
    int64_t left_ns = (int64_t)DOUBT_MS * MS - (now - s->doubted_ns);
    return left_ns > 0 ? (int)((left_ns + MS - 1) / MS) : 0;
}

// Under the lock. The GPUs after the one that hangs get a thread of their own.
static void replace_late(struct shared *s) {
    if (doubt_left_ms(s) != 0) return;
    if (s->asked == OPENING) {
        s->is_hanging = !s->is_open;
        return;
    }
    hang(&s->cards[s->asked], s->how.deadline_ms);
    s->is_late[s->asked] = true;
    s->asked = NOBODY;
    s->worker++;
    s->users++;
    if (!start_worker(s, s->worker)) s->users--;
}

// Under the lock.
static void wait_until_full(struct shared *s, int ms) {
    struct timespec end = device_deadline(ms);
    int late = 0;
    while (!late && !s->failed && !s->is_full) {
        late = pthread_cond_timedwait(&s->changed, &s->lock, &end);
    }
}

static bool wait_for_first(struct shared *s, struct fail *why) {
    pthread_mutex_lock(&s->lock);
    wait_until_full(s, s->how.deadline_ms);
    int doubt_ms = s->failed || s->is_full ? -1 : doubt_left_ms(s);
    if (doubt_ms > 0) wait_until_full(s, doubt_ms);
    bool has_failed = s->failed != 0;
    if (has_failed && why) *why = s->why;
    replace_late(s);
    pthread_mutex_unlock(&s->lock);
    return !has_failed;
}

static void stop(struct shared *s) {
    device_stop(&s->lock, &s->changed, &s->is_stopped);
    shared_drop(s);
}

static int open_machine(struct arena *a, const char *machine, const struct device_watching *how,
                        int only, struct device_monitor **ret_monitor, struct fail *why) {
    struct shared *s = shared_new(machine, how, only);
    if (!s || !start_worker(s, 0)) {
        if (s) s->users = 1;
        if (s) shared_drop(s);
        return fail_set(why, FAIL_MACHINE, "cannot start a thread to watch the GPUs");
    }
    if (!wait_for_first(s, why)) {
        int code = s->why.code;
        stop(s);
        return code;
    }
    *ret_monitor = arena_new(a, struct device_monitor, 1);
    (*ret_monitor)->shared = s;
    return 0;
}

int device_monitor_open(struct arena *a, const char *machine, const struct device_watching *how,
                        struct device_monitor **ret_monitor, struct fail *why) {
    return open_machine(a, machine, how, ALL, ret_monitor, why);
}

static void copy_texts(struct arena *a, const struct device_session *session,
                       struct device_snapshot *snapshot) {
    const struct device_list *list = &session->list;
    snapshot->driver_version = str_copy(a, list->driver_version);
    snapshot->cuda_version = str_copy(a, session->cuda_version);
    snapshot->is_wsl = session->is_wsl;
    snapshot->why_none = str_copy(a, list->why_none);
    snapshot->left_out = str_copy(a, list->left_out);
    snapshot->standin = str_copy(a, list->standin);
    snapshot->driver_is_absent = list->driver_is_absent;
}

void device_monitor_read(struct arena *a, struct device_monitor *m,
                         struct device_snapshot *ret_snapshot) {
    struct shared *s = m->shared;
    struct device_snapshot snapshot = {0};
    pthread_mutex_lock(&s->lock);
    replace_late(s);
    snapshot.state = s->is_hanging ? DEVICE_HANGS : s->is_open ? DEVICE_ANSWERS : DEVICE_WAITS;
    snapshot.count = s->count;
    snapshot.cards = arena_new(a, struct device_card, s->count + 1);
    if (s->count) memcpy(snapshot.cards, s->cards, (size_t)s->count * sizeof *s->cards);
    if (s->session) copy_texts(a, s->session, &snapshot);
    snapshot.topology = s->topology;
    snapshot.told = str_copy(a, (struct str){s->told, s->told_length});
    pthread_mutex_unlock(&s->lock);
    if (snapshot.state == DEVICE_HANGS) snapshot.why_none = device_code_text(a, NVML_TIMEOUT);
    *ret_snapshot = snapshot;
}

const char *device_monitor_root(struct device_monitor *m) {
    pthread_mutex_lock(&m->shared->lock);
    const struct device_session *session = m->shared->session;
    const char *root = session && session->root ? session->root : "";
    pthread_mutex_unlock(&m->shared->lock);
    return root;
}

void device_monitor_close(struct device_monitor *m) {
    if (!m || !m->shared) return;
    stop(m->shared);
    m->shared = NULL;
}

int device_snapshot_take(struct arena *a, const char *machine, struct device_snapshot *ret_snapshot,
                         struct fail *why) {
    struct device_monitor *m;
    int failed = device_monitor_open(a, machine, NULL, &m, why);
    if (failed) return failed;
    device_monitor_read(a, m, ret_snapshot);
    device_monitor_close(m);
    return 0;
}

// --- One GPU -------------------------------------------------------------------------------------

// 0: the GPU is there and asked.
static int check_card(struct shared *s, struct fail *why) {
    int failed = 0;
    pthread_mutex_lock(&s->lock);
    if (!s->is_open) {
        ARENA_AUTO a = {0};
        failed = fail_set(why, FAIL_MACHINE, "%.*s", STR_ARG(device_code_text(&a, NVML_TIMEOUT)));
    } else if (s->only < 0 || s->only >= s->count) {
        failed = device_no_card(s->only, &s->session->list, why);
    }
    pthread_mutex_unlock(&s->lock);
    return failed;
}

int device_sampler_open(struct arena *a, const char *machine, int card,
                        const struct device_watching *how, struct device_monitor **ret_sampler,
                        struct fail *why) {
    struct device_monitor *s = NULL;
    int failed = open_machine(a, machine, how, card, &s, why);
    if (failed || !s) return failed;
    failed = check_card(s->shared, why);
    if (failed)
        device_monitor_close(s);
    else
        *ret_sampler = s;
    return failed;
}

struct device_gauges device_sampler_read(const struct device_monitor *s) {
    pthread_mutex_lock(&s->shared->lock);
    struct device_gauges newest = s->shared->cards[s->shared->only].now;
    pthread_mutex_unlock(&s->shared->lock);
    return newest;
}

struct device_peaks device_sampler_peaks(const struct device_monitor *s) {
    pthread_mutex_lock(&s->shared->lock);
    struct tally t = s->shared->tally;
    pthread_mutex_unlock(&s->shared->lock);
    t.peaks.utilisation_mean =
        t.utilisation_count ? t.utilisation_sum / t.utilisation_count : (double)NAN;
    return t.peaks;
}

void device_sampler_reset(struct device_monitor *s) {
    pthread_mutex_lock(&s->shared->lock);
    s->shared->tally = (struct tally){.peaks = {.used_bytes = -1}};
    pthread_mutex_unlock(&s->shared->lock);
}
