// SPDX-License-Identifier: Apache-2.0
// The fake driver's gauges: what each function of the driver takes, and the key of the machine
// that it plays.
#include "nvml.h"

#include <string.h>
#include <time.h>

static int gauge_of(const json_t *device, const char *function, const char *group, const char *key,
                    int64_t *ret) {
    int code = standin_play(device, function);
    int known = standin_number(device, group, key, ret);
    return code ? code : known;
}

static int gauge(const json_t *device, const char *function, const char *key, unsigned *ret) {
    int64_t n = 0;
    int code = gauge_of(device, function, "gauges", key, &n);
    *ret = (unsigned)n;
    return code;
}

struct utilization {
    unsigned gpu, memory;
};

EXPORT int nvmlDeviceGetUtilizationRates(const json_t *device, struct utilization *rates);
EXPORT int nvmlDeviceGetUtilizationRates(const json_t *device, struct utilization *rates) {
    int code = gauge(device, "nvmlDeviceGetUtilizationRates", "gpu_percent", &rates->gpu);
    const json_t *memory = standin_value(device, "gauges", "memory_percent");
    rates->memory = (unsigned)json_integer_value(memory);
    return code;
}

// One unsigned number.
#define NUMBER(function, group, key)                            \
    EXPORT int function(const json_t *device, unsigned *ret);   \
    EXPORT int function(const json_t *device, unsigned *ret) {  \
        int64_t n = 0;                                          \
        int code = gauge_of(device, #function, group, key, &n); \
        *ret = (unsigned)n;                                     \
        return code;                                            \
    }
#define COUNTER(function, key)                                     \
    EXPORT int function(const json_t *device, uint64_t *ret);      \
    EXPORT int function(const json_t *device, uint64_t *ret) {     \
        int64_t n = 0;                                             \
        int code = gauge_of(device, #function, "gauges", key, &n); \
        *ret = (uint64_t)n;                                        \
        return code;                                               \
    }
// Two unsigned numbers; the first decides whether it is known.
#define TWO(function, group, first, second)                                                \
    EXPORT int function(const json_t *device, unsigned *ret_first, unsigned *ret_second);  \
    EXPORT int function(const json_t *device, unsigned *ret_first, unsigned *ret_second) { \
        int64_t one = 0, two = 0;                                                          \
        int code = gauge_of(device, #function, group, first, &one);                        \
        standin_number(device, group, second, &two);                                       \
        *ret_first = (unsigned)one;                                                        \
        *ret_second = (unsigned)two;                                                       \
        return code;                                                                       \
    }

NUMBER(nvmlDeviceGetPowerUsage, "gauges", "power_mw")
NUMBER(nvmlDeviceGetFanSpeed, "gauges", "fan_percent")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "gauges", "power_limit_mw")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "gauges", "pcie_generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "gauges", "pcie_width")
NUMBER(nvmlDeviceGetPcieReplayCounter, "gauges", "pcie_replays")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "facts", "power_limit_default_mw")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "facts", "pcie_generation_max")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "facts", "pcie_width_max")
NUMBER(nvmlDeviceGetPersistenceMode, "facts", "persistence_mode")
NUMBER(nvmlDeviceGetComputeMode, "facts", "compute_mode")
COUNTER(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
COUNTER(nvmlDeviceGetCurrentClocksThrottleReasons, "event_reasons")
TWO(nvmlDeviceGetEncoderUtilization, "gauges", "encoder_percent", "")
TWO(nvmlDeviceGetDecoderUtilization, "gauges", "decoder_percent", "")
TWO(nvmlDeviceGetCudaComputeCapability, "facts", "compute_major", "compute_minor")
TWO(nvmlDeviceGetPowerManagementLimitConstraints, "facts", "power_limit_min_mw",
    "power_limit_max_mw")
TWO(nvmlDeviceGetEccMode, "facts", "ecc_mode", "ecc_mode")
#ifndef STANDIN_OLD
COUNTER(nvmlDeviceGetCurrentClocksEventReasons, "event_reasons")
NUMBER(nvmlDeviceGetNumGpuCores, "facts", "cores")
NUMBER(nvmlDeviceGetMemoryBusWidth, "facts", "memory_bus_bits")
#endif

EXPORT int nvmlDeviceGetTemperature(const json_t *device, unsigned sensor, unsigned *celsius);
EXPORT int nvmlDeviceGetTemperature(const json_t *device, unsigned sensor, unsigned *celsius) {
    if (sensor != 0) return INVALID_ARGUMENT;
    return gauge(device, "nvmlDeviceGetTemperature", "temperature_c", celsius);
}

// Of one of several: by the number that the driver gives it.
static int one_of(const json_t *device, const char *function, const char *group,
                  const char *const *keys, unsigned count, unsigned which, unsigned *ret) {
    int64_t n = 0;
    if (which >= count) return INVALID_ARGUMENT;
    int code = gauge_of(device, function, group, keys[which], &n);
    *ret = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetClockInfo(const json_t *device, unsigned type, unsigned *mhz);
EXPORT int nvmlDeviceGetClockInfo(const json_t *device, unsigned type, unsigned *mhz) {
    static const char *const keys[] = {"sm_clock_mhz", "sm_clock_mhz", "memory_clock_mhz"};
    return one_of(device, "nvmlDeviceGetClockInfo", "gauges", keys, 3, type, mhz);
}

EXPORT int nvmlDeviceGetMaxClockInfo(const json_t *device, unsigned type, unsigned *mhz);
EXPORT int nvmlDeviceGetMaxClockInfo(const json_t *device, unsigned type, unsigned *mhz) {
    static const char *const keys[] = {"sm_clock_max_mhz", "sm_clock_max_mhz",
                                       "memory_clock_max_mhz"};
    return one_of(device, "nvmlDeviceGetMaxClockInfo", "facts", keys, 3, type, mhz);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(const json_t *device, unsigned type, unsigned *c);
EXPORT int nvmlDeviceGetTemperatureThreshold(const json_t *device, unsigned type, unsigned *c) {
    static const char *const keys[] = {"shutdown_c", "slowdown_c", "memory_max_c"};
    return one_of(device, "nvmlDeviceGetTemperatureThreshold", "facts", keys, 3, type, c);
}

EXPORT int nvmlDeviceGetPcieThroughput(const json_t *device, unsigned counter, unsigned *kb_s);
EXPORT int nvmlDeviceGetPcieThroughput(const json_t *device, unsigned counter, unsigned *kb_s) {
    static const char *const keys[] = {"pcie_tx_kb_s", "pcie_rx_kb_s"};
    struct timespec pause = {.tv_nsec = 20000000}; // as the driver does
    nanosleep(&pause, NULL);
    return one_of(device, "nvmlDeviceGetPcieThroughput", "gauges", keys, 2, counter, kb_s);
}

EXPORT int nvmlDeviceGetTotalEccErrors(const json_t *device, unsigned kind, unsigned since,
                                       uint64_t *count);
EXPORT int nvmlDeviceGetTotalEccErrors(const json_t *device, unsigned kind, unsigned since,
                                       uint64_t *count) {
    static const char *const keys[] = {"ecc_corrected", "ecc_uncorrected"};
    int64_t n = 0;
    if (kind > 1 || since != 0) return NOT_SUPPORTED; // only those since the driver was loaded
    int code = gauge_of(device, "nvmlDeviceGetTotalEccErrors", "gauges", keys[kind], &n);
    *count = (uint64_t)n;
    return code;
}

#ifndef STANDIN_OLD
struct temperature {
    uint32_t version, sensor;
    int32_t celsius;
};

EXPORT int nvmlDeviceGetTemperatureV(const json_t *device, struct temperature *temperature);
EXPORT int nvmlDeviceGetTemperatureV(const json_t *device, struct temperature *temperature) {
    if (temperature->version != 0x0100000c) return VERSION_MISMATCH;
    unsigned celsius = 0;
    int code = gauge(device, "nvmlDeviceGetTemperatureV", "temperature_c", &celsius);
    temperature->celsius = (int32_t)celsius;
    return code;
}

struct attributes {
    uint32_t multiprocessors, others[7];
    uint64_t memory_mb;
};

EXPORT int nvmlDeviceGetAttributes_v2(const json_t *device, struct attributes *attributes);
EXPORT int nvmlDeviceGetAttributes_v2(const json_t *device, struct attributes *attributes) {
    int64_t n = 0;
    int code = gauge_of(device, "nvmlDeviceGetAttributes_v2", "facts", "sms", &n);
    attributes->multiprocessors = (uint32_t)n;
    return code;
}

EXPORT int nvmlDeviceGetRemappedRows(const json_t *device, unsigned *corrected,
                                     unsigned *uncorrected, unsigned *pending, unsigned *failure);
EXPORT int nvmlDeviceGetRemappedRows(const json_t *device, unsigned *corrected,
                                     unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    int64_t rows = 0, is_pending = 0, has_failed = 0;
    int code = gauge_of(device, "nvmlDeviceGetRemappedRows", "gauges", "remapped_rows", &rows);
    standin_number(device, "gauges", "remap_pending", &is_pending);
    standin_number(device, "gauges", "remap_failed", &has_failed);
    *corrected = 0;
    *uncorrected = (unsigned)rows;
    *pending = (unsigned)is_pending;
    *failure = (unsigned)has_failed;
    return code;
}
#endif

struct field_value {
    uint32_t id, scope;
    int64_t timestamp_us, latency_us;
    int32_t type, code;
    union {
        uint32_t u32;
        uint64_t u64;
    } value;
};
enum { TYPE_U32 = 1, TYPE_U64 = 3 };

static const struct {
    uint32_t id;
    int32_t type;
    const char *key;
} fields[] = {
    {74, TYPE_U64, "power_cap_ns"},         {76, TYPE_U64, "sync_boost_ns"},
    {82, TYPE_U32, "memory_temperature_c"}, {185, TYPE_U32, "power_average_mw"},
    {186, TYPE_U32, "power_instant_mw"},    {230, TYPE_U32, "recovery_action"},
    {269, TYPE_U64, "sw_thermal_ns"},       {270, TYPE_U64, "hw_thermal_ns"},
    {271, TYPE_U64, "power_brake_ns"},
};

static void answer_field(const json_t *device, struct field_value *v) {
    int64_t n = 0;
    v->code = NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].id != v->id || v->scope != 0) continue;
        v->code = standin_number(device, "gauges", fields[i].key, &n);
        v->type = fields[i].type;
        memset(&v->value, 0xa5, sizeof v->value); // what is not of the type is not to be read
        if (v->type == TYPE_U32)
            v->value.u32 = (uint32_t)n;
        else
            v->value.u64 = (uint64_t)n;
    }
}

EXPORT int nvmlDeviceGetFieldValues(const json_t *device, int count, struct field_value *values);
EXPORT int nvmlDeviceGetFieldValues(const json_t *device, int count, struct field_value *values) {
    int code = standin_play(device, "nvmlDeviceGetFieldValues");
    for (int i = 0; !code && i < count; i++) answer_field(device, &values[i]);
    return code;
}
