// SPDX-License-Identifier: Apache-2.0
// Every question about one NVIDIA GPU, as rows: which function or field, how it is called, what it
// fills in. A gauge that the GPU, the driver or the mode (MIG, WSL) does not have stays unknown;
// that is never an error. Codes, units and struct versions are those of NVML 13.3.29.
#include "machine/device/nvml_int.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 3 };

static int ask_u32(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned n = 0;
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, unsigned *))f)(h, &n);
    ret_words[0] = n;
    return code;
}

static int ask_u32_of(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned n = 0;
    int code = ((int (*)(struct nvml_handle *, unsigned, unsigned *))f)(h, argument, &n);
    ret_words[0] = n;
    return code;
}

struct pair {
    unsigned first, second; // nvmlUtilization_t: gpu, memory
};

static int ask_pair(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
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

static int ask_temperature(nvml_call f, struct nvml_handle *h, unsigned sensor,
                           int64_t *ret_words) {
    struct temperature t = {.version = (uint32_t)sizeof t | 1u << 24, .sensor = sensor};
    int code = ((int (*)(struct nvml_handle *, struct temperature *))f)(h, &t);
    ret_words[0] = t.celsius;
    return code;
}

// Counters near 2^64 are no values, and come out negative.
static int ask_u64(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    uint64_t n = 0;
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, uint64_t *))f)(h, &n);
    ret_words[0] = (int64_t)n;
    return code;
}

static int ask_two(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned first = 0, second = 0;
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, unsigned *, unsigned *))f)(h, &first, &second);
    ret_words[0] = first;
    ret_words[1] = second;
    return code;
}

// Of the two kinds of errors, since the driver was loaded.
static int ask_ecc(nvml_call f, struct nvml_handle *h, unsigned kind, int64_t *ret_words) {
    uint64_t n = 0;
    int code = ((int (*)(struct nvml_handle *, unsigned, unsigned, uint64_t *))f)(h, kind, 0, &n);
    ret_words[0] = (int64_t)n;
    return code;
}

static int ask_rows(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words) {
    unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, unsigned *, unsigned *, unsigned *, unsigned *))f)(
        h, &corrected, &uncorrected, &is_pending, &has_failed);
    ret_words[0] = (int64_t)corrected + uncorrected;
    ret_words[1] = is_pending;
    ret_words[2] = has_failed;
    return code;
}

struct attributes {
    uint32_t multiprocessors, others[7];
    uint64_t memory_mb;
};
static_assert(sizeof(struct attributes) == 40, "nvmlDeviceAttributes_t");

static int ask_attributes(nvml_call f, struct nvml_handle *h, unsigned argument,
                          int64_t *ret_words) {
    struct attributes attributes = {0};
    (void)argument;
    int code = ((int (*)(struct nvml_handle *, struct attributes *))f)(h, &attributes);
    ret_words[0] = attributes.multiprocessors;
    return code;
}

enum { SENSOR_GPU = 0, CLOCK_SM = 1, CLOCK_MEMORY = 2 };
enum { SHUTDOWN = 0, SLOWDOWN = 1, MEMORY_MAX = 2 }; // nvmlTemperatureThresholds_t
enum { CORRECTED = 0, UNCORRECTED = 1 };             // nvmlMemoryErrorType_t
enum { TX = 0, RX = 1 };                             // nvmlPcieUtilCounter_t
enum {
    OFTEN = DEVICE_ASK_OFTEN,
    NOW = DEVICE_ASK_NOW,
    FACTS = DEVICE_ASK_FACTS,
    PCIE = DEVICE_ASK_PCIE,
};

// Every gauge, all of them optional. Where several rows fill one field, the first that answers
// does; rows of one symbol and argument stand together and share its answer.
static const struct gauge {
    const char *symbol;
    int (*ask)(nvml_call f, struct nvml_handle *h, unsigned argument, int64_t *ret_words);
    unsigned argument;
    int word; // of the answer
    int when; // of enum device_ask
    size_t field;
} gauges[] = {
#define NOW(name) offsetof(struct device_card, now.name)
#define FACT(name) offsetof(struct device_card, facts.name)
    // Per cent of the last 1/6 to 1 s.
    {"nvmlDeviceGetUtilizationRates", ask_pair, 0, 0, OFTEN, NOW(utilisation)},
    {"nvmlDeviceGetUtilizationRates", ask_pair, 0, 1, OFTEN, NOW(memory_utilisation)},
    {"nvmlDeviceGetPowerUsage", ask_u32, 0, 0, OFTEN, NOW(power_watts)},
    {"nvmlDeviceGetTemperatureV", ask_temperature, SENSOR_GPU, 0, OFTEN, NOW(temperature_celsius)},
    {"nvmlDeviceGetTemperature", ask_u32_of, SENSOR_GPU, 0, OFTEN, NOW(temperature_celsius)},
    {"nvmlDeviceGetClockInfo", ask_u32_of, CLOCK_SM, 0, OFTEN, NOW(sm_clock_mhz)},
    {"nvmlDeviceGetClockInfo", ask_u32_of, CLOCK_MEMORY, 0, NOW, NOW(memory_clock_mhz)},
    {"nvmlDeviceGetEncoderUtilization", ask_two, 0, 0, NOW, NOW(encoder_utilisation)},
    {"nvmlDeviceGetDecoderUtilization", ask_two, 0, 0, NOW, NOW(decoder_utilisation)},
    {"nvmlDeviceGetFanSpeed", ask_u32, 0, 0, NOW, NOW(fan)},
    {"nvmlDeviceGetEnforcedPowerLimit", ask_u32, 0, 0, NOW, NOW(power_limit_watts)},
    {"nvmlDeviceGetTotalEnergyConsumption", ask_u64, 0, 0, OFTEN, NOW(energy_joules)},
    {"nvmlDeviceGetCurrentClocksEventReasons", ask_u64, 0, 0, NOW, NOW(event_reasons)},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", ask_u64, 0, 0, NOW, NOW(event_reasons)},
    {"nvmlDeviceGetTotalEccErrors", ask_ecc, CORRECTED, 0, NOW, NOW(ecc_corrected)},
    {"nvmlDeviceGetTotalEccErrors", ask_ecc, UNCORRECTED, 0, NOW, NOW(ecc_uncorrected)},
    {"nvmlDeviceGetRemappedRows", ask_rows, 0, 0, NOW, NOW(remapped_rows)},
    {"nvmlDeviceGetRemappedRows", ask_rows, 0, 1, NOW, NOW(remap_pending)},
    {"nvmlDeviceGetRemappedRows", ask_rows, 0, 2, NOW, NOW(remap_failed)},
    {"nvmlDeviceGetCurrPcieLinkGeneration", ask_u32, 0, 0, NOW, NOW(pcie_generation)},
    {"nvmlDeviceGetCurrPcieLinkWidth", ask_u32, 0, 0, NOW, NOW(pcie_width)},
    {"nvmlDeviceGetPcieReplayCounter", ask_u32, 0, 0, NOW, NOW(pcie_replays)},
    {"nvmlDeviceGetPcieThroughput", ask_u32_of, TX, 0, PCIE, NOW(pcie_tx_bytes_s)},
    {"nvmlDeviceGetPcieThroughput", ask_u32_of, RX, 0, PCIE, NOW(pcie_rx_bytes_s)},
    {"nvmlDeviceGetCudaComputeCapability", ask_two, 0, 0, FACTS, FACT(compute_major)},
    {"nvmlDeviceGetCudaComputeCapability", ask_two, 0, 1, FACTS, FACT(compute_minor)},
    {"nvmlDeviceGetNumGpuCores", ask_u32, 0, 0, FACTS, FACT(cores)},
    {"nvmlDeviceGetAttributes_v2", ask_attributes, 0, 0, FACTS, FACT(sms)},
    {"nvmlDeviceGetMemoryBusWidth", ask_u32, 0, 0, FACTS, FACT(memory_bus_bits)},
    {"nvmlDeviceGetPowerManagementDefaultLimit", ask_u32, 0, 0, FACTS,
     FACT(power_limit_default_watts)},
    {"nvmlDeviceGetPowerManagementLimitConstraints", ask_two, 0, 0, FACTS,
     FACT(power_limit_min_watts)},
    {"nvmlDeviceGetPowerManagementLimitConstraints", ask_two, 0, 1, FACTS,
     FACT(power_limit_max_watts)},
    {"nvmlDeviceGetMaxPcieLinkGeneration", ask_u32, 0, 0, FACTS, FACT(pcie_generation_max)},
    {"nvmlDeviceGetMaxPcieLinkWidth", ask_u32, 0, 0, FACTS, FACT(pcie_width_max)},
    {"nvmlDeviceGetMaxClockInfo", ask_u32_of, CLOCK_SM, 0, FACTS, FACT(sm_clock_max_mhz)},
    {"nvmlDeviceGetMaxClockInfo", ask_u32_of, CLOCK_MEMORY, 0, FACTS, FACT(memory_clock_max_mhz)},
    {"nvmlDeviceGetTemperatureThreshold", ask_u32_of, SHUTDOWN, 0, FACTS, FACT(shutdown_celsius)},
    {"nvmlDeviceGetTemperatureThreshold", ask_u32_of, SLOWDOWN, 0, FACTS, FACT(slowdown_celsius)},
    {"nvmlDeviceGetTemperatureThreshold", ask_u32_of, MEMORY_MAX, 0, FACTS,
     FACT(memory_max_celsius)},
    {"nvmlDeviceGetEccMode", ask_two, 0, 0, FACTS, FACT(ecc_mode)},
    {"nvmlDeviceGetPersistenceMode", ask_u32, 0, 0, FACTS, FACT(persistence_mode)},
    {"nvmlDeviceGetMigMode", ask_two, 0, 0, FACTS, FACT(mig_mode)},
    {"nvmlDeviceGetComputeMode", ask_u32, 0, 0, FACTS, FACT(compute_mode)},
};
enum { GAUGES = sizeof gauges / sizeof *gauges };
static_assert((int)GAUGES <= (int)NVML_QUESTIONS, "as many as struct nvml_calls holds");

// What only nvmlDeviceGetFieldValues tells; one call for all of them. The ids are those of the
// header, NVML_FI_DEV_*.
static const struct {
    uint32_t id;
    size_t field;
} field_ids[] = {
    {82, NOW(memory_temperature_celsius)}, {74, NOW(power_cap_seconds)},
    {76, NOW(sync_boost_seconds)},         {269, NOW(sw_thermal_seconds)},
    {270, NOW(hw_thermal_seconds)},        {271, NOW(power_brake_seconds)},
    {185, NOW(power_average_watts)},       {186, NOW(power_instant_watts)},
    {230, NOW(recovery_action)},
#undef NOW
#undef FACT
};
enum { FIELDS = sizeof field_ids / sizeof *field_ids };

struct field_value {
    uint32_t id, scope;
    int64_t timestamp_us, latency_us;
    int32_t type, code;
    union {
        double real;
        uint32_t u32;
        uint64_t u64;
        int64_t i64;
        int32_t i32;
        uint16_t u16;
    } value;
};
static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

// nvmlValueType_t: 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long,
// 5 int, 6 unsigned short.
static double number_of(const struct field_value *v) {
    const double numbers[] = {
        v->value.real,        v->value.u32, (double)v->value.u64, (double)v->value.u64,
        (double)v->value.i64, v->value.i32, v->value.u16,
    };
    bool is_known = v->type >= 0 && v->type < (int)(sizeof numbers / sizeof *numbers);
    return is_known ? numbers[v->type] : (double)NAN;
}

static void read_fields(const struct nvml_calls *calls, struct nvml_place place,
                        struct device_card *card) {
    struct field_value values[FIELDS] = {0};
    struct nvml_handle *handle = place.parent ? place.parent : place.handle;
    if (!calls->field_values) return;
    for (int i = 0; i < FIELDS; i++) {
        values[i].id = field_ids[i].id;
        values[i].code = NVML_NOT_SUPPORTED;
    }
    int code = ((int (*)(struct nvml_handle *, int, struct field_value *))calls->field_values)(
        handle, FIELDS, values);
    for (int i = 0; !code && i < FIELDS; i++) {
        double number = values[i].code ? (double)NAN : number_of(&values[i]);
        device_field_set(card, device_field_at(field_ids[i].field), number);
    }
}

// An instance is asked first, then the GPU for what only the GPU has.
static int ask(const struct gauge *g, nvml_call f, struct nvml_place place, bool is_of_card,
               int64_t *ret_words) {
    if (!f) return NVML_NO_FUNCTION;
    int code = g->ask(f, place.handle, g->argument, ret_words);
    if (code && place.parent && is_of_card) {
        code = g->ask(f, place.parent, g->argument, ret_words);
    }
    return code;
}

static void read_gauges(const struct nvml_calls *calls, struct nvml_place place, int asked,
                        struct device_card *card) {
    int64_t words[WORDS] = {0};
    int code = NVML_NO_FUNCTION;
    for (int i = 0; i < GAUGES; i++) {
        const struct gauge *g = &gauges[i];
        const struct device_field *field = device_field_at(g->field);
        bool is_known = !isnan(device_field_value(card, field));
        if (!(asked & g->when) || is_known) continue;
        bool is_asked =
            i > 0 && strcmp(g->symbol, g[-1].symbol) == 0 && g->argument == g[-1].argument;
        if (!is_asked) {
            code = ask(g, calls->gauges[i], place, field->is_of_card, words);
        }
        if (code == NVML_OK) device_field_set(card, field, (double)words[g->word]);
    }
}

static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t, version 3");

static void read_texts(const struct nvml_calls *calls, struct nvml_place place,
                       struct device_card *card) {
    struct nvml_handle *handle = place.parent ? place.parent : place.handle;
    struct device_facts *facts = &card->facts;
    struct nvml_pci pci = {0};
    int code =
        calls->pci_info
            ? ((int (*)(struct nvml_handle *, struct nvml_pci *))calls->pci_info)(handle, &pci)
            : NVML_NO_FUNCTION;
    if (!code) snprintf(facts->pci_bus_id, sizeof facts->pci_bus_id, "%.31s", pci.bus_id);
    code = calls->vbios ? ((int (*)(struct nvml_handle *, char *, unsigned))calls->vbios)(
                              handle, facts->vbios, sizeof facts->vbios)
                        : NVML_NO_FUNCTION;
    if (code) facts->vbios[0] = 0;
}

void device_nvml_gauges(const struct nvml_calls *calls, struct nvml_place place, int asked,
                        struct device_card *card) {
    read_gauges(calls, place, asked, card);
    if (asked & DEVICE_ASK_NOW) read_fields(calls, place, card);
    if (asked & DEVICE_ASK_FACTS) read_texts(calls, place, card);
}

void device_nvml_find_calls(const struct nvml *n, struct str driver_version,
                            struct nvml_calls *ret_calls) {
    struct nvml_calls calls = {0};
    for (int i = 0; i < GAUGES; i++) calls.gauges[i] = device_nvml_symbol(n, gauges[i].symbol);
    calls.field_values = device_nvml_symbol(n, "nvmlDeviceGetFieldValues");
    calls.pci_info = device_nvml_symbol(n, "nvmlDeviceGetPciInfo_v3");
    calls.vbios = device_nvml_symbol(n, "nvmlDeviceGetVbiosVersion");
    device_nvml_find_processes(n, driver_version, &calls);
    device_nvml_find_profile(n, &calls.profile);
    *ret_calls = calls;
}
