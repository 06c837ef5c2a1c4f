// SPDX-License-Identifier: Apache-2.0
// A fake for the driver's libcuda.so.1, for tests of `check --benchmark`: one GPU whose memory
// is the CPU's and whose clock is reckoned. A copy takes the time that its bytes take at the
// bandwidth that is played; products (libcublas.c) likewise, and only those elements are computed
// that are read. BATCHFIT_STANDIN_CUDA says what is played, as KEY=VALUE with commas between:
//   link, memory (GB/s)
//   free, total (MiB), capability (86), driver (12040), GPUs (0: none is seen)
//   fail=NAME:CODE  this function answers with the code      hang=NAME  it never returns
//   die=NAME  it ends the process                            wrong=copy|product  a result is not
//   right
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 64 };

struct stream {
    double now_s;
};
struct event {
    double at_s;
};

static struct {
    char *begin;
    size_t size;
} blocks[BLOCKS]; // of the GPU; never given back but for the count
static size_t used;
static struct stream streams[4];
static struct event events[8];
static int stream_count, event_count;
static struct standin_product product;

const char *standin_text(const char *key) {
    static char text[64];
    const char *at = getenv("BATCHFIT_STANDIN_CUDA");
    size_t length = strlen(key);
    while (at && *at) {
        size_t end = strcspn(at, ",");
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            snprintf(text, sizeof text, "%.*s", (int)(end - length - 1), at + length + 1);
            return text;
        }
        at += end + (at[end] == ',');
    }
    return NULL;
}

double standin_number(const char *key, double otherwise) {
    const char *text = standin_text(key);
    return text ? atof(text) : otherwise;
}

int standin_play(const char *function) {
    const char *text = standin_text("hang");
    while (text && strcmp(text, function) == 0) sleep(1);
    text = standin_text("die");
    if (text && strcmp(text, function) == 0) abort();
    text = standin_text("fail");
    size_t length = strlen(function);
    bool fails = text && strncmp(text, function, length) == 0 && text[length] == ':';
    return fails ? atoi(text + length + 1) : 0;
}

EXPORT const char *batchfit_standin(void);
EXPORT const char *batchfit_standin(void) {
    return "fake for CUDA, its rates are played";
}

#define PLAY()                             \
    do {                                   \
        int code = standin_play(__func__); \
        if (code) return code;             \
    } while (0)

// --- The GPU -------------------------------------------------------------------------------------

EXPORT int cuInit(unsigned flags) {
    (void)flags;
    PLAY();
    return 0;
}

EXPORT int cuDriverGetVersion(int *version) {
    PLAY();
    *version = (int)standin_number("driver", 12040);
    return 0;
}

EXPORT int cuDeviceGetCount(int *count) {
    PLAY();
    *count = (int)standin_number("cards", 1);
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    PLAY();
    *device = ordinal;
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = (int)standin_number("capability", 86);
    (void)device;
    PLAY();
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int one;
    (void)device;
    PLAY();
    *context = &one;
    return 0;
}

EXPORT int cuCtxSetCurrent(void *context) {
    (void)context;
    PLAY();
    return 0;
}

EXPORT int cuGetErrorString(int code, const char **text) {
    *text = code == 2     ? "out of memory"
            : code == 700 ? "an illegal memory access was encountered"
                          : "unknown error";
    return 0;
}

// --- Memory --------------------------------------------------------------------------------------

static size_t capacity(void) {
    return (size_t)standin_number("free", 256) << 20;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    PLAY();
    *free_bytes = capacity() - used;
    *total = (size_t)standin_number("total", 12288) << 20;
    return 0;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size) {
    PLAY();
    if (size > capacity() - used) return 2;
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].begin) continue;
        blocks[i].begin = malloc(size);
        blocks[i].size = size;
        if (!blocks[i].begin) return 2;
        used += size;
        *address = (uint64_t)(uintptr_t)blocks[i].begin;
        return 0;
    }
    return 2;
}

EXPORT int cuMemFree_v2(uint64_t address) {
    PLAY();
    for (int i = 0; i < BLOCKS; i++) {
        if ((uint64_t)(uintptr_t)blocks[i].begin != address || address == 0) continue;
        used -= blocks[i].size;
        free(blocks[i].begin);
        blocks[i].begin = NULL;
        return 0;
    }
    return 1;
}

EXPORT int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    (void)flags;
    PLAY();
    *memory = malloc(size);
    return *memory ? 0 : 2;
}

EXPORT int cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t size) {
    PLAY();
    memset((void *)(uintptr_t)address, byte, size);
    return 0;
}

static void take_time(struct stream *stream, double bytes, const char *key, double gbs) {
    stream->now_s += bytes / (standin_number(key, gbs) * 1e9);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, struct stream *stream) {
    PLAY();
    memcpy((void *)(uintptr_t)to, from, size);
    take_time(stream, (double)size, "link", 26);
    return 0;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, struct stream *stream) {
    PLAY();
    if (!standin_read_product(&product, to, from, size)) {
        memcpy(to, (const void *)(uintptr_t)from, size);
    }
    const char *wrong = standin_text("wrong");
    if (wrong && strcmp(wrong, "copy") == 0) ((char *)to)[size / 2] ^= 1;
    take_time(stream, (double)size, "link", 26);
    return 0;
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, struct stream *stream) {
    PLAY();
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    take_time(stream, 2 * (double)size, "memory", 300);
    return 0;
}

// --- Time ----------------------------------------------------------------------------------------

EXPORT int cuStreamCreate(struct stream **stream, unsigned flags) {
    (void)flags;
    PLAY();
    if (stream_count == 4) return 2;
    *stream = &streams[stream_count++];
    return 0;
}

EXPORT int cuStreamSynchronize(struct stream *stream) {
    (void)stream;
    PLAY();
    return 0;
}

EXPORT int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    (void)flags;
    PLAY();
    if (stream->now_s < event->at_s) stream->now_s = event->at_s;
    return 0;
}

EXPORT int cuEventCreate(struct event **event, unsigned flags) {
    (void)flags;
    PLAY();
    if (event_count == 8) return 2;
    *event = &events[event_count++];
    return 0;
}

EXPORT int cuEventRecord(struct event *event, struct stream *stream) {
    PLAY();
    event->at_s = stream->now_s;
    return 0;
}

EXPORT int cuEventSynchronize(struct event *event) {
    (void)event;
    PLAY();
    return 0;
}

EXPORT int cuEventElapsedTime(float *ms, struct event *begin, struct event *end) {
    PLAY();
    *ms = (float)((end->at_s - begin->at_s) * 1e3);
    return 0;
}

// --- For the fake of cuBLAS ------------------------------------------------------------------

EXPORT void batchfit_standin_multiply(const struct standin_product *p, void *stream,
                                      double tflops) {
    struct stream *s = stream;
    double n = p->n;
    product = *p;
    s->now_s += 2 * n * n * n / (tflops * 1e12);
}
EXPORT double batchfit_standin_number(const char *key, double otherwise) {
    return standin_number(key, otherwise);
}
EXPORT int batchfit_standin_play(const char *function) {
    return standin_play(function);
}
