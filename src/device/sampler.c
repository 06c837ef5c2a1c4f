// SPDX-License-Identifier: Apache-2.0
// The sampler: a thread of its own asks the back end, keeps the newest answer and what was the
// most, and sleeps until the next moment. It shares one allocation with the owner, guarded by a
// lock that is held for copying only, never while the driver is asked; so neither reading nor
// closing can wait for a card that hangs. Whoever of the two is later frees it.
#include "device/sampler.h"

#include "base/os.h"
#include "base/unit.h"
#include "device/device_int.h"
#include "device/thread_int.h"

#include <math.h>
#include <stdlib.h>

enum opening { OPENING, OPENED, REFUSED };

struct tally {
    struct device_peaks peaks; // the means are filled in when they are read
    double utilisation_sum, power_sum;
    int utilisation_count, power_count;
};

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed; // opened, first sample, stop
    int users;              // the owner and the thread
    bool is_stopped;
    enum opening opening;
    struct fail why;
    struct device_sample newest;
    struct tally tally;
    // The thread's alone.
    const struct device_backend *backend;
    const char *machine;
    int card, interval_ms;
    struct arena arena;
};

struct device_sampler {
    struct shared *shared;
};

static struct shared *shared_new(const char *machine, int card, int interval_ms) {
    struct shared *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    pthread_mutex_init(&s->lock, NULL);
    device_cond_init(&s->changed);
    s->users = 2;
    s->newest = device_sample_unknown();
    s->tally.peaks.used_bytes = -1;
    s->machine = machine ? str_z(&s->arena, str_of(machine)) : NULL;
    s->card = card;
    s->interval_ms = interval_ms < 1 ? 1 : interval_ms;
    s->backend = device_backend_of(machine != NULL);
    return s;
}

static void shared_drop(struct shared *s) {
    if (!device_leave(&s->lock, &s->changed, &s->users)) return;
    arena_clear(&s->arena);
    free(s);
}

static void count_in(struct tally *t, const struct device_sample *sample) {
    t->peaks.samples++;
    unit_keep_most(&t->peaks.used_bytes, sample->used_bytes);
    if (!isnan(sample->utilisation)) {
        t->utilisation_sum += sample->utilisation;
        t->utilisation_count++;
    }
    if (!isnan(sample->power_watts)) {
        t->power_sum += sample->power_watts;
        t->power_count++;
    }
}

// False: told to stop.
static bool wait_for_turn(struct shared *s, int64_t *next_ns) {
    struct timespec end = device_next_turn(next_ns, s->interval_ms);
    pthread_mutex_lock(&s->lock);
    int late = 0;
    while (!s->is_stopped && !late) late = pthread_cond_timedwait(&s->changed, &s->lock, &end);
    bool is_stopped = s->is_stopped;
    pthread_mutex_unlock(&s->lock);
    return !is_stopped;
}

static void sample_until_stopped(struct shared *s, struct device_session *session) {
    int64_t next_ns = os_now_ns();
    do {
        struct device_card card = device_card_unknown();
        s->backend->sample(session, s->card, DEVICE_ASK_OFTEN, &card);
        card.now.at_ns = os_now_ns();
        struct device_sample sample = device_sample_of(&card);
        pthread_mutex_lock(&s->lock);
        s->newest = sample;
        count_in(&s->tally, &sample);
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    } while (wait_for_turn(s, &next_ns));
}

static void *run(void *argument) {
    struct shared *s = argument;
    struct device_session *session = NULL;
    struct fail why = {0};
    int failed = s->backend->open(&s->arena, s->machine, &session, &why);
    if (!failed && (s->card < 0 || s->card >= session->list.count)) {
        failed = device_no_card(s->card, &session->list, &why);
        s->backend->close(session);
    }
    pthread_mutex_lock(&s->lock);
    s->opening = failed ? REFUSED : OPENED;
    s->why = why;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (!failed) {
        sample_until_stopped(s, session);
        s->backend->close(session);
    }
    shared_drop(s);
    return NULL;
}

static void stop(struct shared *s) {
    device_stop(&s->lock, &s->changed, &s->is_stopped);
    shared_drop(s);
}

// Waits for the first sample too, so that the caller has a figure from before its own doings.
static int wait_for_opening(struct shared *s, int deadline_ms, struct fail *why) {
    struct timespec end = device_deadline(deadline_ms);
    pthread_mutex_lock(&s->lock);
    int late = 0;
    while (!late && s->opening != REFUSED && s->newest.at_ns == 0) {
        late = pthread_cond_timedwait(&s->changed, &s->lock, &end);
    }
    enum opening opening = s->opening;
    if (opening == REFUSED && why) *why = s->why;
    int code = opening == REFUSED ? s->why.code : 0;
    pthread_mutex_unlock(&s->lock);
    if (opening != OPENING) return code;
    ARENA_AUTO a = {0};
    struct str text = device_code_text(&a, NVML_TIMEOUT);
    return fail_set(why, FAIL_MACHINE, "%.*s", STR_ARG(text));
}

int device_sampler_open_within(struct arena *a, int deadline_ms, const char *machine, int card,
                               int interval_ms, struct device_sampler **ret_sampler,
                               struct fail *why) {
    struct shared *s = shared_new(machine, card, interval_ms);
    if (!s || !device_thread(run, s)) {
        if (s) s->users = 1;
        if (s) shared_drop(s);
        return fail_set(why, FAIL_MACHINE, "the system gives no thread to watch the card with");
    }
    int failed = wait_for_opening(s, deadline_ms, why);
    if (failed) {
        stop(s);
        return failed;
    }
    *ret_sampler = arena_new(a, struct device_sampler, 1);
    (*ret_sampler)->shared = s;
    return 0;
}

int device_sampler_open(struct arena *a, const char *machine, int card, int interval_ms,
                        struct device_sampler **ret_sampler, struct fail *why) {
    return device_sampler_open_within(a, DEVICE_DEADLINE_MS, machine, card, interval_ms,
                                      ret_sampler, why);
}

struct device_sample device_sampler_read(const struct device_sampler *s) {
    pthread_mutex_lock(&s->shared->lock);
    struct device_sample newest = s->shared->newest;
    pthread_mutex_unlock(&s->shared->lock);
    return newest;
}

struct device_peaks device_sampler_peaks(const struct device_sampler *s) {
    pthread_mutex_lock(&s->shared->lock);
    struct tally t = s->shared->tally;
    pthread_mutex_unlock(&s->shared->lock);
    t.peaks.utilisation_mean =
        t.utilisation_count ? t.utilisation_sum / t.utilisation_count : (double)NAN;
    t.peaks.power_mean_watts = t.power_count ? t.power_sum / t.power_count : (double)NAN;
    return t.peaks;
}

void device_sampler_reset(struct device_sampler *s) {
    pthread_mutex_lock(&s->shared->lock);
    s->shared->tally = (struct tally){.peaks = {.used_bytes = -1}};
    pthread_mutex_unlock(&s->shared->lock);
}

void device_sampler_close(struct device_sampler *s) {
    if (!s || !s->shared) return;
    stop(s->shared);
    s->shared = NULL;
}
