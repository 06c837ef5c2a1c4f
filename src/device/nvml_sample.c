// SPDX-License-Identifier: Apache-2.0
// One NVIDIA card asked again and again: memory, and the gauges of the table below. A gauge that
// the card, the driver or the mode (MIG, WSL) does not have stays NaN; that is never an error.
// Codes, units and struct versions are those of NVML 13.3.29.
#include "device/nvml_int.h"
#include "device/sampler.h"

#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

typedef void (*call)(void); // a symbol's address, before its row says what it takes
enum { WORDS = 2 };

static int ask_u32(call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned n = 0;
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, unsigned *))f)(h, &n);
    ret_words[0] = n;
    return code;
}

static int ask_u32_of(call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned n = 0;
    int code = ((int (*)(struct nvml_handle *, unsigned, unsigned *))f)(h, argument, &n);
    ret_words[0] = n;
    return code;
}

struct pair {
    unsigned first, second; // nvmlUtilization_t: gpu, memory
};

static int ask_pair(call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    struct pair pair = {0};
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, struct pair *))f)(h, &pair);
    ret_words[0] = pair.first;
    ret_words[1] = pair.second;
    return code;
}

struct temperature {
    uint32_t version, sensor;
    int32_t celsius;
};
static_assert(sizeof(struct temperature) == 12, "nvmlTemperature_v1_t");

static int ask_temperature(call f, struct nvml_handle *h, unsigned sensor, int64_t *ret_words) {
    struct temperature t = {.version = (uint32_t)sizeof t | 1u << 24, .sensor = sensor};
    int code = ((int (*)(struct nvml_handle *, struct temperature *))f)(h, &t);
    ret_words[0] = t.celsius;
    return code;
}

enum { SENSOR_GPU = 0, CLOCK_SM = 1 };

// Every gauge, all of them optional. Where several rows fill one field, the first that answers
// does; rows of one symbol and argument stand together and share its answer.
static const struct gauge {
    const char *symbol;
    int (*ask)(call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words);
    unsigned argument;
    int word;      // of the answer
    size_t field;  // a double of struct device_sample
    double factor; // from the driver's unit to the field's
    double most;   // more than this in the driver's unit is no value
} gauges[] = {
#define FIELD(name) offsetof(struct device_sample, name)
    // Per cent of the last 1/6 to 1 s.
    {"nvmlDeviceGetUtilizationRates", ask_pair, 0, 0, FIELD(utilisation), 0.01, 100},
    {"nvmlDeviceGetUtilizationRates", ask_pair, 0, 1, FIELD(memory_utilisation), 0.01, 100},
    {"nvmlDeviceGetPowerUsage", ask_u32, 0, 0, FIELD(power_watts), 0.001, 1e7},
    {"nvmlDeviceGetTemperatureV", ask_temperature, SENSOR_GPU, 0, FIELD(temperature_celsius), 1,
     1000},
    {"nvmlDeviceGetTemperature", ask_u32_of, SENSOR_GPU, 0, FIELD(temperature_celsius), 1, 1000},
    {"nvmlDeviceGetClockInfo", ask_u32_of, CLOCK_SM, 0, FIELD(sm_clock_mhz), 1, 1e5},
#undef FIELD
};
enum { GAUGES = sizeof gauges / sizeof *gauges };

struct device_session {
    struct nvml nvml;
    struct nvml_handle *handle;
    call calls[GAUGES]; // NULL: this driver lacks it
};

static void find_gauges(struct device_session *s) {
    for (int i = 0; i < GAUGES; i++) {
        void *address = dlsym(s->nvml.library, gauges[i].symbol);
        memcpy(&s->calls[i], &address, sizeof address);
    }
}

static bool is_same_question(const struct gauge *a, const struct gauge *b) {
    return strcmp(a->symbol, b->symbol) == 0 && a->argument == b->argument;
}

static void read_gauges(const struct device_session *s, struct device_sample *sample) {
    int64_t words[WORDS] = {0};
    int code = NVML_NO_FUNCTION;
    for (int i = 0; i < GAUGES; i++) {
        const struct gauge *g = &gauges[i];
        double *field = (double *)(void *)((char *)sample + g->field);
        if (!isnan(*field)) continue;
        if (i == 0 || !is_same_question(g, g - 1)) {
            code =
                s->calls[i] ? g->ask(s->calls[i], s->handle, g->argument, words) : NVML_NO_FUNCTION;
        }
        if (code == NVML_OK && (double)words[g->word] <= g->most) {
            *field = (double)words[g->word] * g->factor;
        }
    }
}

static void read_memory(const struct device_session *s, struct device_sample *sample) {
    struct device d;
    device_nvml_memory(&s->nvml, s->handle, &d);
    sample->used_bytes = d.used_bytes;
    sample->total_bytes = d.total_bytes;
    sample->free_bytes = d.free_bytes;
}

void device_nvml_sample(struct device_session *s, struct device_sample *sample) {
    read_memory(s, sample);
    read_gauges(s, sample);
}

void device_nvml_session_close(struct device_session *s) {
    device_nvml_close(&s->nvml);
}

int device_nvml_open(struct arena *a, const char *machine, int card,
                     struct device_session **ret_session, struct fail *why) {
    struct device_session *s = arena_new(a, struct device_session, 1);
    struct nvml_devices devices = {0};
    (void)machine;
    int code = device_nvml_load(&s->nvml);
    if (!code) code = device_nvml_start(&s->nvml);
    if (!code) code = device_nvml_find(a, &s->nvml, &devices);
    if (!code && card >= 0 && card < devices.handle_count) {
        s->handle = devices.handles[card];
        find_gauges(s);
        *ret_session = s;
        return 0;
    }
    struct str text = code ? device_nvml_why(a, &s->nvml, code) : (struct str){0};
    device_nvml_close(&s->nvml);
    if (code) return fail_set(why, FAIL_MACHINE, "%.*s", STR_ARG(text));
    return device_no_card(card, &devices.list, why);
}
