// SPDX-License-Identifier: Apache-2.0
// The CPU's memory: copy and triad as in McCalpin's STREAM (bytes are counted as there: what
// is read and what is written, not what the cache reads to be written over), and /dev/shm, where
// loader workers leave their batches. Each thread first touches what it works on; beyond that
// nothing is done about NUMA.
#include "machine/microbench/microbench_int.h"

#include "base/os.h"
#include "base/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ARRAYS = 3, CACHES = 4, THREADS_MOST = 1024 };
static const int64_t array_least = 64 * UNIT_MIB, array_most = 512 * UNIT_MIB;

enum work { WORK_TOUCH, WORK_COPY, WORK_TRIAD, WORK_END };

struct crew;
struct worker {
    struct crew *crew;
    pthread_t thread;
    int core;
    double *arrays[ARRAYS];
};
struct crew {
    struct worker *workers;
    int count;
    ptrdiff_t length; // numbers in an array of each
    enum work work;
    pthread_barrier_t begin, end;
};

static void triad(double *restrict a, const double *restrict b, const double *restrict c,
                  ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

static void touch(struct worker *w) {
    for (int k = 0; k < ARRAYS; k++) {
        for (ptrdiff_t i = 0; i < w->crew->length; i++) w->arrays[k][i] = 1.0 + k;
    }
}

static void *labour(void *argument) {
    struct worker *w = argument;
    struct crew *crew = w->crew;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)w->core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); // it works without
    for (;;) {
        pthread_barrier_wait(&crew->begin);
        enum work work = crew->work;
        if (work == WORK_TOUCH) touch(w);
        if (work == WORK_COPY) {
            memcpy(w->arrays[0], w->arrays[1], (size_t)crew->length * sizeof(double));
        }
        if (work == WORK_TRIAD) triad(w->arrays[0], w->arrays[1], w->arrays[2], crew->length);
        pthread_barrier_wait(&crew->end);
        if (work == WORK_END) return NULL;
    }
}

static double run_crew(void *owner) {
    struct crew *crew = owner;
    int64_t begin_ns = os_now_ns();
    pthread_barrier_wait(&crew->begin);
    pthread_barrier_wait(&crew->end);
    return (double)(os_now_ns() - begin_ns) / 1e9;
}

static double run_work(struct crew *crew, enum work work) {
    crew->work = work;
    return run_crew(crew);
}

// Cores that we may run on, in their order.
static int list_cores(int *cores, int most) {
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return 0;
    for (int i = 0; i < CPU_SETSIZE && count < most; i++) {
        if (CPU_ISSET((size_t)i, &set)) cores[count++] = i;
    }
    return count;
}

// Threads that wait at a barrier for one that could not be started are left behind: the process
// ends.
static bool start_crew(struct arena *a, struct crew *crew, char *memory, const int *cores) {
    crew->workers = arena_new(a, struct worker, crew->count);
    pthread_barrier_init(&crew->begin, NULL, (unsigned)crew->count + 1);
    pthread_barrier_init(&crew->end, NULL, (unsigned)crew->count + 1);
    for (int i = 0; i < crew->count; i++) {
        struct worker *w = &crew->workers[i];
        *w = (struct worker){.crew = crew, .core = cores[i]};
        for (int k = 0; k < ARRAYS; k++) {
            w->arrays[k] = (double *)(void *)memory + (i * ARRAYS + k) * crew->length;
        }
        if (pthread_create(&w->thread, NULL, labour, w)) return false;
    }
    run_work(crew, WORK_TOUCH);
    return true;
}

static void end_crew(struct crew *crew) {
    run_work(crew, WORK_END);
    for (int i = 0; i < crew->count; i++) pthread_join(crew->workers[i].thread, NULL);
    pthread_barrier_destroy(&crew->begin);
    pthread_barrier_destroy(&crew->end);
}

static int64_t cache_bytes(void) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? bytes : 32 * UNIT_MIB;
}

// Of each of the three: several times the cache, as far as a fifteenth of the free memory goes.
static int64_t array_bytes(const struct microbench_host *host) {
    int64_t bytes = CACHES * cache_bytes();
    if (bytes < array_least) bytes = array_least;
    if (bytes > array_most) bytes = array_most;
    if (host->available_bytes >= 0 && bytes > host->available_bytes / 15) {
        bytes = host->available_bytes / 15;
    }
    return bytes;
}

static struct str memory_how(struct arena *a, const struct crew *crew) {
    int64_t bytes = (int64_t)crew->length * crew->count * (int64_t)sizeof(double);
    int64_t cache = cache_bytes();
    return str_format(a, "%d thread%s, arrays of %.*s%s%.*s", crew->count,
                      crew->count == 1 ? "" : "s", STR_ARG(unit_bytes(a, bytes)),
                      bytes >= CACHES * cache ? ", cache " : ", which is small for a cache of ",
                      STR_ARG(unit_bytes(a, cache)));
}

static void give_memory(struct arena *a, struct crew *crew, enum work work, const char *id,
                        const struct microbench_sink *sink) {
    struct microbench_figure f = microbench_begin(id);
    double numbers = (double)crew->length * crew->count, words = work == WORK_COPY ? 2 : 3;
    crew->work = work;
    microbench_repeat(run_crew, crew, numbers * words * sizeof(double), &f);
    f.how = memory_how(a, crew);
    microbench_give(sink, &f);
}

static struct str measure_memory(struct arena *a, const struct microbench_host *host, int threads,
                                 const struct microbench_sink *sink) {
    int cores[THREADS_MOST];
    int found = list_cores(cores, threads);
    struct crew crew = {.count = found > 0 ? found : 1};
    crew.length = array_bytes(host) / (int64_t)sizeof(double) / crew.count / 8 * 8;
    size_t size = (size_t)crew.length * (size_t)crew.count * ARRAYS * sizeof(double);
    if (crew.length < 4096) return STR("not enough free memory");
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return STR("cannot allocate memory");
    madvise(memory, size, MADV_HUGEPAGE);
    if (!start_crew(a, &crew, memory, cores)) return STR("cannot start a thread");
    if (threads > 1) {
        give_memory(a, &crew, WORK_COPY, "rate.cpu_copy", sink);
        give_memory(a, &crew, WORK_TRIAD, "rate.cpu_triad", sink);
    } else {
        give_memory(a, &crew, WORK_COPY, "rate.cpu_copy_one", sink);
    }
    end_crew(&crew);
    munmap(memory, size);
    return (struct str){0};
}

// --- /dev/shm ------------------------------------------------------------------------------------

struct shm {
    int fd;
    char *source;
    size_t size;
};

// Into new pages each time, as a batch is.
static double write_shm(void *owner) {
    const struct shm *s = owner;
    size_t done = 0;
    if (ftruncate(s->fd, 0) < 0) return -1;
    int64_t begin_ns = os_now_ns();
    while (done < s->size) {
        ssize_t n = pwrite(s->fd, s->source + done, s->size - done, (off_t)done);
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    return (double)(os_now_ns() - begin_ns) / 1e9;
}

static void measure_shm(struct arena *a, const struct microbench_sink *sink) {
    struct microbench_figure f = microbench_begin("rate.shm");
    OS_FD fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct statvfs room;
    if (fd < 0 || fstatvfs(fd, &room) < 0) {
        microbench_give_unknown(sink, "rate.shm", STR("/dev/shm is not writable"));
        return;
    }
    int64_t free_bytes = (int64_t)(room.f_bavail * room.f_frsize);
    int64_t size = free_bytes / 4 < 64 * UNIT_MIB ? free_bytes / 4 : 64 * UNIT_MIB;
    struct shm s = {.fd = fd, .size = (size_t)size};
    if (size < UNIT_MIB) {
        microbench_give_unknown(sink, "rate.shm", STR("/dev/shm is full"));
        return;
    }
    s.source = arena_new(a, char, size);
    memset(s.source, 1, s.size);
    if (!microbench_repeat(write_shm, &s, (double)size, &f)) f.why = STR("/dev/shm is full");
    f.how = str_format(a, "one thread, %.*s into new pages", STR_ARG(unit_bytes(a, size)));
    microbench_give(sink, &f);
}

void microbench_cpu(struct arena *a, const struct microbench_host *host,
                    const struct microbench_sink *sink) {
    int threads = host->cores < 1 ? 1 : host->cores > THREADS_MOST ? THREADS_MOST : host->cores;
    struct str why = (struct str){0};
    if (threads > 1) why = measure_memory(a, host, threads, sink);
    if (threads > 1 && why.len > 0) {
        microbench_give_unknown(sink, "rate.cpu_copy", why);
        microbench_give_unknown(sink, "rate.cpu_triad", why);
    }
    why = measure_memory(a, host, 1, sink);
    if (why.len > 0) microbench_give_unknown(sink, "rate.cpu_copy_one", why);
    measure_shm(a, sink);
    microbench_blas(a, threads, sink);
}
