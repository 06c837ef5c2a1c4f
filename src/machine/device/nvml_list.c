// SPDX-License-Identifier: Apache-2.0
// The list of NVIDIA GPUs within a deadline. A driver with a hanging GPU can block for minutes,
// so all of the talk is done by a thread of its own that is left behind when it is late.
#include "machine/device/device_int.h"
#include "machine/device/nvml_int.h"

#include <stdlib.h>

// What the asking thread and the caller share. Whoever is later frees it. The list is the
// thread's until is_done; only its label may be read before, under the lock.
struct job {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_done, is_abandoned;
    struct arena arena;
    struct device_list list;
};

static void label(struct job *job, const char *text) {
    pthread_mutex_lock(&job->lock);
    job->list.standin = str_copy(&job->arena, str_of(text));
    pthread_mutex_unlock(&job->lock);
}

static void list_now(struct job *job) {
    struct nvml n = {0};
    struct nvml_devices devices = {0};
    int code = device_nvml_load(&n);
    if (!code && n.api.standin) label(job, n.api.standin());
    if (!code) code = device_nvml_start(&n);
    if (!code) code = device_nvml_find(&job->arena, &n, &devices);
    devices.list.standin = job->list.standin;
    pthread_mutex_lock(&job->lock);
    job->list = devices.list;
    if (code) job->list.why_none = device_nvml_why(&job->arena, &n, code);
    job->list.driver_is_absent = device_nvml_is_absent(&n, code);
    pthread_mutex_unlock(&job->lock);
    device_nvml_close(&n);
}

static struct job *job_new(void) {
    struct job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    pthread_mutex_init(&job->lock, NULL);
    device_cond_init(&job->ended);
    return job;
}

static void job_drop(struct job *job) {
    pthread_cond_destroy(&job->ended);
    pthread_mutex_destroy(&job->lock);
    arena_clear(&job->arena);
    free(job);
}

static void *job_run(void *argument) {
    struct job *job = argument;
    list_now(job);
    pthread_mutex_lock(&job->lock);
    bool is_abandoned = job->is_abandoned;
    job->is_done = true;
    pthread_cond_signal(&job->ended);
    pthread_mutex_unlock(&job->lock);
    if (is_abandoned) job_drop(job);
    return NULL;
}

static void copy_list(struct arena *a, const struct device_list *from, struct device_list *list) {
    list->driver_version = str_copy(a, from->driver_version);
    list->why_none = str_copy(a, from->why_none);
    list->left_out = str_copy(a, from->left_out);
    list->driver_is_absent = from->driver_is_absent;
    for (ptrdiff_t i = 0; i < from->count; i++) {
        struct device d = from->items[i];
        d.name = str_copy(a, d.name);
        d.uuid = str_copy(a, d.uuid);
        *arena_push(a, &list->items, &list->count, &list->capacity) = d;
    }
}

// False: the thread was late and owns the job from now on.
static bool job_wait(struct job *job, int deadline_ms, struct arena *a, struct device_list *list) {
    struct timespec end = device_deadline(deadline_ms);
    pthread_mutex_lock(&job->lock);
    int late = 0;
    while (!job->is_done && !late) late = pthread_cond_timedwait(&job->ended, &job->lock, &end);
    bool is_done = job->is_done;
    job->is_abandoned = !is_done;
    list->standin = str_copy(a, job->list.standin);
    if (is_done) copy_list(a, &job->list, list);
    pthread_mutex_unlock(&job->lock);
    return is_done;
}

void device_nvml_list_within(struct arena *a, int deadline_ms, struct device_list *list) {
    struct job *job = job_new();
    if (!job || !device_thread(job_run, job)) {
        if (job) job_drop(job);
        list->why_none = STR("cannot start a thread to ask the NVIDIA driver");
    } else if (job_wait(job, deadline_ms, a, list)) {
        job_drop(job);
    } else {
        list->why_none = device_code_text(a, NVML_TIMEOUT);
    }
}

int device_nvml_list(struct arena *a, const char *machine, struct device_list *list,
                     struct fail *why) {
    (void)machine;
    (void)why;
    device_nvml_list_within(a, DEVICE_DEADLINE_MS, list);
    return 0;
}
