// SPDX-License-Identifier: Apache-2.0
// Threads that may hang in a driver: nobody ever waits for one without a deadline.
#ifndef DEVICE_THREAD_INT_H
#define DEVICE_THREAD_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

// Starts a detached thread; signals stay with the caller's threads. False: the system gives none.
bool device_thread(void *(*run)(void *), void *argument);
// A condition that waits by the monotonic clock, and a moment of that clock.
void device_cond_init(pthread_cond_t *cond);
struct timespec device_deadline(int ms);

#endif
