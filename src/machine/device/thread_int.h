// SPDX-License-Identifier: Apache-2.0
// Threads that may hang in a driver: nobody ever waits for one without a deadline.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// Starts a detached thread; signals stay with the caller's threads. False: the system gives none.
bool device_thread(void *(*run)(void *), void *argument);
// A condition that waits by the monotonic clock, and a moment of that clock.
void device_cond_init(pthread_cond_t *cond);
struct timespec device_deadline(int ms);
// The next of the moments that lie an interval apart, after the last at *next_ns. Those that a slow
// driver has let pass are left out: no burst afterwards.
struct timespec device_next_turn(int64_t *next_ns, int interval_ms);
// Tells the threads to stop; who waits for `changed` looks.
void device_stop(pthread_mutex_t *lock, pthread_cond_t *changed, bool *is_stopped);
// An owner or a thread of its leaves what they share. True: it was the last of them and frees it;
// the lock and the condition are gone.
bool device_leave(pthread_mutex_t *lock, pthread_cond_t *changed, int *users);
