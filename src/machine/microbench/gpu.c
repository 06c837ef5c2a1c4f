// SPDX-License-Identifier: Apache-2.0
// One GPU through the driver's CUDA: copies to it, from it, both at once, within it, then
// products. What a copy brought back is compared with what was sent.
#include "machine/microbench/microbench_int.h"

#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

enum { TO_DEVICE, TO_HOST, BOTH, PAGEABLE, ON_DEVICE };
static const int64_t copy_most = 256 * UNIT_MIB, device_most = UNIT_GIB;
// Less, and neither copies nor products say anything: a GPU's cache alone is up to 128 MiB.
static const size_t free_least = (size_t)256 << 20;

struct copying {
    struct cuda *cuda;
    int kind;
    void *pageable;
};

// Two streams, of which the second begins after the first's beginning and ends before its end.
static int start_both(struct cuda *c) {
    const struct cuda_api *api = &c->api;
    int code = api->stream_wait_for(c->streams[1], c->begin, 0);
    if (code == CUDA_OK) {
        code = api->to_device(c->buffers[0], c->pinned[0], c->copy_bytes, c->streams[0]);
    }
    if (code == CUDA_OK) {
        code = api->to_host(c->pinned[1], c->buffers[1], c->copy_bytes, c->streams[1]);
    }
    if (code == CUDA_OK) code = api->event_record(c->other, c->streams[1]);
    return code == CUDA_OK ? api->stream_wait_for(c->streams[0], c->other, 0) : code;
}

static int start_copy(const struct copying *x) {
    struct cuda *c = x->cuda;
    const struct cuda_api *api = &c->api;
    switch (x->kind) {
    case BOTH:
        return start_both(c);
    case TO_HOST:
        return api->to_host(c->pinned[1], c->buffers[0], c->copy_bytes, c->streams[0]);
    case PAGEABLE:
        return api->to_device(c->buffers[0], x->pageable, c->copy_bytes, c->streams[0]);
    case ON_DEVICE:
        return api->on_device(c->buffers[1], c->buffers[0], c->device_bytes, c->streams[0]);
    default:
        return api->to_device(c->buffers[0], c->pinned[0], c->copy_bytes, c->streams[0]);
    }
}

// By the GPU's own clock.
static double copy(void *owner) {
    const struct copying *x = owner;
    struct cuda *c = x->cuda;
    float ms = 0;
    int code = c->api.event_record(c->begin, c->streams[0]);
    if (code == CUDA_OK) code = start_copy(x);
    if (code == CUDA_OK) code = c->api.event_record(c->end, c->streams[0]);
    if (code == CUDA_OK) code = c->api.event_wait(c->end);
    if (code == CUDA_OK) code = c->api.event_ms(&ms, c->begin, c->end);
    return microbench_cuda_did(c, code, "a copy") ? (double)ms / 1e3 : -1;
}

// counts: how often what is copied counts; within the GPU it is read and written.
static const struct copy_row {
    const char *id;
    int kind;
    double counts;
    const char *how;
} copies[] = {
    {"rate.h2d", TO_DEVICE, 1, "pinned"},
    {"rate.d2h", TO_HOST, 1, "pinned"},
    {"rate.both", BOTH, 2, "each way, pinned"},
    {"rate.h2d_pageable", PAGEABLE, 1, "ordinary memory"},
    {"rate.device_copy", ON_DEVICE, 2, "read and written"},
};

static void measure_copy(struct cuda *c, const struct copy_row *row, void *pageable) {
    struct copying x = {.cuda = c, .kind = row->kind, .pageable = pageable};
    struct microbench_figure f = microbench_begin(row->id);
    size_t bytes = row->kind == ON_DEVICE ? c->device_bytes : c->copy_bytes;
    c->failed = (struct str){0};
    if (!microbench_repeat(copy, &x, row->counts * (double)bytes, &f)) f.why = c->failed;
    f.how =
        str_format(c->arena, "%.*s, %s", STR_ARG(unit_bytes(c->arena, (int64_t)bytes)), row->how);
    // The second of the rows has just brought back what the first had sent.
    if (row->kind == TO_HOST && f.state == MICROBENCH_MEASURED &&
        memcmp(c->pinned[0], c->pinned[1], c->copy_bytes) != 0) {
        f.state = MICROBENCH_WRONG;
        f.why = STR("the data that came back differs from the data sent to the GPU");
    }
    microbench_cuda_give(c, &f);
}

static size_t at_most(size_t value, int64_t most) {
    size_t mib = (size_t)1 << 20;
    return (value > (size_t)most ? (size_t)most : value) / mib * mib;
}

static bool make_buffers(struct cuda *c) {
    c->copy_bytes = at_most(c->free_bytes / 8, copy_most);
    c->device_bytes = at_most(c->free_bytes / 4, device_most);
    for (int i = 0; i < 2; i++) {
        if (!microbench_cuda_did(c, c->api.alloc(&c->buffers[i], c->device_bytes),
                                 "allocating on the GPU") ||
            !microbench_cuda_did(c, c->api.host_alloc(&c->pinned[i], c->copy_bytes, 0),
                                 "pinning memory")) {
            return false;
        }
    }
    for (size_t i = 0; i < c->copy_bytes; i++) {
        ((unsigned char *)c->pinned[0])[i] = (unsigned char)(microbench_element(0, (int64_t)i) + 3);
    }
    memset(c->pinned[1], 0, c->copy_bytes);
    return microbench_cuda_did(c, c->api.set_bytes(c->buffers[1], 0, c->device_bytes),
                               "filling memory");
}

static bool open_device(struct cuda *c) {
    const struct cuda_api *api = &c->api;
    int count = 0, device = 0, major = 0, minor = 0;
    struct cuda_context *context;
    if (!microbench_cuda_did(c, api->init(0), "starting CUDA") ||
        !microbench_cuda_did(c, api->driver_version(&c->driver_version),
                             "querying CUDA's version") ||
        !microbench_cuda_did(c, api->count(&count), "counting the GPUs")) {
        return false;
    }
    if (count < 1) {
        c->failed = STR("CUDA does not see this GPU");
        return false;
    }
    if (!microbench_cuda_did(c, api->device(&device, 0), "finding the GPU") ||
        !microbench_cuda_did(c, api->attribute(&major, CUDA_CAPABILITY_MAJOR, device),
                             "querying the GPU") ||
        !microbench_cuda_did(c, api->attribute(&minor, CUDA_CAPABILITY_MINOR, device),
                             "querying the GPU")) {
        return false;
    }
    c->compute_capability = 10 * major + minor;
    return microbench_cuda_did(c, api->retain(&context, device), "creating a context on the GPU") &&
           microbench_cuda_did(c, api->set_current(context), "creating a context on the GPU");
}

static bool open_card(struct cuda *c) {
    const struct cuda_api *api = &c->api;
    size_t total = 0;
    if (!microbench_cuda_load(c) || !open_device(c) ||
        !microbench_cuda_did(c, api->memory(&c->free_bytes, &total), "querying the GPU's memory")) {
        return false;
    }
    if (c->free_bytes < free_least) {
        c->failed = str_format(c->arena, "the GPU is full: %.*s of %.*s free, %.*s needed",
                               STR_ARG(unit_bytes(c->arena, (int64_t)c->free_bytes)),
                               STR_ARG(unit_bytes(c->arena, (int64_t)total)),
                               STR_ARG(unit_bytes(c->arena, (int64_t)free_least)));
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (!microbench_cuda_did(c, api->stream_new(&c->streams[i], CUDA_STREAM_NON_BLOCKING),
                                 "a stream")) {
            return false;
        }
    }
    return microbench_cuda_did(c, api->event_new(&c->begin, 0), "an event") &&
           microbench_cuda_did(c, api->event_new(&c->end, 0), "an event") &&
           microbench_cuda_did(c, api->event_new(&c->other, 0), "an event") && make_buffers(c);
}

// Numbers are the driver's order only with CUDA_DEVICE_ORDER; and tf32 must not come instead of
// fp32.
static void prepare_environment(struct arena *a, const struct microbench_place *place) {
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_VISIBLE_DEVICES", str_z(a, place->card), 1);
    unsetenv("NVIDIA_TF32_OVERRIDE");
}

void microbench_card(struct arena *a, const struct microbench_place *place,
                     const struct microbench_sink *sink) {
    struct cuda c = {.arena = a, .sink = sink};
    prepare_environment(a, place);
    if (!open_card(&c)) {
        for (int i = 0; i < microbench_measure_count; i++) {
            struct microbench_figure f = microbench_begin(microbench_measures[i].id);
            f.why = c.failed;
            if (microbench_measures[i].is_of_card) microbench_cuda_give(&c, &f);
        }
        return;
    }
    char *pageable = malloc(c.copy_bytes);
    if (pageable) memset(pageable, 1, c.copy_bytes);
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        if (copies[i].kind != PAGEABLE || pageable) measure_copy(&c, &copies[i], pageable);
    }
    free(pageable);
    for (int i = 0; i < 2; i++) c.api.free(c.buffers[i]);
    microbench_cuda_products(&c, place->folders);
}
