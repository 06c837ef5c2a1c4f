// SPDX-License-Identifier: Apache-2.0
// Memory of the trainer that plays scenarios: really mapped and touched, or only counted, and the
// texts with which trainings say that there is none left. The texts are formats of PyTorch 2.x
// (c10's CUDACachingAllocator.cpp and alloc_cpu.cpp), of cuBLAS's caller and of libstdc++.
#include "trainer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

static int64_t with_noise(const struct trainer *t, int64_t bytes) {
    return (int64_t)((double)bytes * t->memory_factor + 0.5);
}

int64_t memory_of_weights(const struct trainer *t) {
    return with_noise(t, t->scene->constant_bytes / 2);
}

int64_t memory_of_optimizer(const struct trainer *t) {
    return with_noise(t, t->scene->constant_bytes) - memory_of_weights(t);
}

int64_t memory_of_activations(const struct trainer *t, int64_t batch) {
    int64_t bytes = t->scene->slope_bytes * batch;
    for (int i = 0; i < t->scene->bump_count; i++) {
        const struct bump *b = &t->scene->bumps[i];
        if (batch >= b->from && batch <= b->to) bytes += b->extra_bytes;
    }
    return with_noise(t, bytes);
}

// As c10's format_size.
static const char *size_text(int64_t bytes, char text[32]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; unit < 3 && value > 1024; unit++) value /= 1024;
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text;
}

static int64_t limit_of(const struct trainer *t) {
    const char *cap = getenv("BATCHFIT_MEMORY_CAP");
    int64_t limit = t->scene->limit_bytes, cap_bytes = cap ? strtoll(cap, NULL, 10) : 0;
    bool is_spared = t->scene->oom_rank >= 0 && t->scene->oom_rank != t->steps.rank;
    // Without a figure: less than the weights.
    if (t->scene->oom_rank == t->steps.rank && limit == 0) limit = memory_of_weights(t) / 2 + 1;
    if (limit > 0 && cap_bytes > 0 && cap_bytes < limit) limit = cap_bytes;
    return is_spared ? 0 : limit;
}

static void write_torch(const struct trainer *t, int64_t bytes, char *text, size_t size) {
    char tried[32], total[32], free_now[32], used[32], held[32], idle[32];
    int64_t limit = limit_of(t);
    snprintf(text, size,
             "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which "
             "%s is free. Including non-PyTorch memory, this process has %s memory in use. Of the "
             "allocated memory %s is allocated by PyTorch, and %s is reserved by PyTorch but "
             "unallocated. If reserved but unallocated memory is large try setting "
             "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
             "documentation for Memory Management  "
             "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
             size_text(bytes, tried), t->steps.rank, size_text(limit, total),
             size_text(limit - t->held_bytes, free_now), size_text(t->held_bytes, used),
             size_text(t->held_bytes, held), size_text(0, idle));
}

static void write_cpu(const struct trainer *t, int64_t bytes, char *text, size_t size) {
    (void)t;
    snprintf(text, size,
             "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
             "memory: you tried to allocate %lld bytes. Error code 12 (Cannot allocate memory)",
             (long long)bytes);
}

static void write_cublas(const struct trainer *t, int64_t bytes, char *text, size_t size) {
    (void)t, (void)bytes;
    snprintf(text, size,
             "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
}

static void write_plain(const struct trainer *t, int64_t bytes, char *text, size_t size) {
    (void)t, (void)bytes;
    snprintf(text, size, "out of memory");
}

// Which errors PyTorch's emitter reports as `oom` and which only as the end.
static const struct message {
    const char *name, *type;
    void (*write)(const struct trainer *t, int64_t bytes, char *text, size_t size);
    bool is_told;
} messages[] = {
    {"torch", "torch.OutOfMemoryError", write_torch, true},
    {"cpu", "RuntimeError", write_cpu, true},
    {"cublas", "RuntimeError", write_cublas, false},
    {"plain", "trainer", write_plain, false},
};

static void ask_for_ever(void) {
    const size_t bytes = (size_t)1 << 46;
    while (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
           MAP_FAILED) {
    }
}

static void run_out(struct trainer *t, int64_t bytes, int64_t samples) {
    if (t->scene->message && strcmp(t->scene->message, "spin") == 0) ask_for_ever();
    const char *name = t->scene->message ? t->scene->message : limit_of(t) > 0 ? "torch" : "cpu";
    char text[1000], error[1100];
    if (strcmp(name, "bad_alloc") == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        fprintf(stderr, "terminate called after throwing an instance of 'std::bad_alloc'\n  "
                        "what():  std::bad_alloc\n");
        abort();
    }
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        const struct message *m = &messages[i];
        if (strcmp(name, m->name) != 0) continue;
        m->write(t, bytes, text, sizeof text);
        snprintf(error, sizeof error, "%s: %s", m->type, text);
        fprintf(stderr, "%s\n", error);
        if (m->is_told) batchfit_oom(&t->steps, text, samples);
        batchfit_end(&t->steps, 0, error);
    }
    exit(1);
}

void memory_run_out(struct trainer *t, int64_t samples) {
    run_out(t, t->held_bytes, samples);
}

static bool map(int64_t bytes) {
    if (bytes <= 0) return true;
    char *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    for (int64_t i = 0; i < bytes; i += 4096) memory[i] = 1;
    return true;
}

void memory_take(struct trainer *t, int64_t bytes, int64_t samples) {
    const struct scenario *scene = t->scene;
    int64_t limit = limit_of(t), held = t->held_bytes + bytes;
    if (limit > 0 && held > limit) run_out(t, bytes, samples);
    int64_t on_device =
        scene->spill_bytes > 0 && held > scene->spill_bytes ? scene->spill_bytes : held;
    if (!scene->pretend && !map(on_device - t->real_bytes)) run_out(t, bytes, samples);
    t->held_bytes = held;
    t->real_bytes = on_device;
}

bool memory_spills(const struct trainer *t) {
    int64_t need =
        memory_of_weights(t) + memory_of_activations(t, t->scene->batch) + memory_of_optimizer(t);
    if (need < t->held_bytes) need = t->held_bytes; // it leaks
    return t->scene->spill_bytes > 0 && need > t->scene->spill_bytes;
}

void memory_report(struct trainer *t) {
    const struct scenario *scene = t->scene;
    struct batchfit_steps *s = &t->steps;
    if (!scenario_is_card(scene)) return;
    s->allocated = s->reserved = s->peak_allocated = s->peak_reserved = t->real_bytes;
    if (s->alloc_retries < 0) s->alloc_retries = 0;
    if (scene->retries_from_bytes > 0 && t->held_bytes > scene->retries_from_bytes)
        s->alloc_retries++;
}
