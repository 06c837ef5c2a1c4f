// SPDX-License-Identifier: Apache-2.0
// The few lines that the threads of this room have in common: how they begin, wait and end.
#include "machine/device/device_int.h"

#include "base/os.h"

#include <signal.h>

enum { MS = 1000000 };

bool device_thread(void *(*run)(void *), void *argument) {
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &detached, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return !failed;
}

void device_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec device_deadline(int ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + ms * (int64_t)MS;
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    return end;
}

struct timespec device_next_turn(int64_t *next_ns, int interval_ms) {
    int64_t now = os_now_ns();
    *next_ns += (int64_t)interval_ms * MS;
    if (*next_ns < now) *next_ns = now;
    int64_t ms = (*next_ns - now + MS - 1) / MS;
    return device_deadline((int)(ms < INT32_MAX ? ms : INT32_MAX));
}

void device_stop(pthread_mutex_t *lock, pthread_cond_t *changed, bool *is_stopped) {
    pthread_mutex_lock(lock);
    *is_stopped = true;
    pthread_cond_broadcast(changed);
    pthread_mutex_unlock(lock);
}

bool device_leave(pthread_mutex_t *lock, pthread_cond_t *changed, int *users) {
    pthread_mutex_lock(lock);
    bool is_last = --*users == 0;
    pthread_mutex_unlock(lock);
    if (!is_last) return false;
    pthread_cond_destroy(changed);
    pthread_mutex_destroy(lock);
    return true;
}
