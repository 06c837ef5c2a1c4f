// SPDX-License-Identifier: Apache-2.0
// The table of all numbers of a GPU: what recordings, documents and Prometheus call them, and what
// is a value at all. Limits are far beyond any GPU; they are there to refuse the drivers' marks
// for "not available" (2^32-1, 2^64-1, 2^63-14 and the like), which must never be shown as figures.
#include "machine/device/device.h"

#include "base/out.h"
#include "machine/device/device_int.h"

#include <math.h>

#define NOW(member) #member, offsetof(struct device_card, now.member)
#define FACT(member) #member, offsetof(struct device_card, facts.member)
#define METRIC(name, what) .metric = (name), .help = (what)
#define SERIES(name, labels, what) .metric = (name), .label = (labels), .help = (what)
#define THROTTLED                                                                                \
    "Time with limited clocks, by reason, since the driver was loaded; the power cap is normal " \
    "at full load."
#define ECC "Memory errors since the driver was loaded."
#define BYTES_MOST 0x1p60
const struct device_field device_fields[] = {
    {"memory", "total_bytes", NOW(total_bytes), true, 1, BYTES_MOST,
     METRIC("memory_total_bytes", "Memory of the GPU, as reported by the driver.")},
    {"memory", "used_bytes", NOW(used_bytes), true, 1, BYTES_MOST,
     METRIC("memory_used_bytes",
            "Memory held by programs; without the driver's reserve where it is reported.")},
    {"memory", "reserved_bytes", NOW(reserved_bytes), true, 1, BYTES_MOST,
     METRIC("memory_reserved_bytes", "Memory reserved by the driver and the firmware.")},
    {"memory", "free_bytes", NOW(free_bytes), true, 1, BYTES_MOST,
     METRIC("memory_free_bytes", "Free memory.")},
    {"gauges", "gpu_percent", NOW(utilisation), false, 0.01, 100,
     METRIC("utilization_ratio", "Share of time in which a kernel ran.")},
    {"gauges", "memory_percent", NOW(memory_utilisation), false, 0.01, 100,
     METRIC("memory_utilization_ratio",
            "Share of time in which device memory was read or written.")},
    {"gauges", "encoder_percent", NOW(encoder_utilisation), false, 0.01, 100,
     METRIC("encoder_utilization_ratio", "Share of time in which the video encoder ran.")},
    {"gauges", "decoder_percent", NOW(decoder_utilisation), false, 0.01, 100,
     METRIC("decoder_utilization_ratio", "Share of time in which the video decoder ran.")},
    {"gauges", "sm_active_permille", NOW(sm_active), false, 0.001, 1000,
     METRIC("sm_active_ratio",
            "Share of time in which a multiprocessor was busy, mean over all (--profile).")},
    {"gauges", "sm_occupancy_permille", NOW(sm_occupancy), false, 0.001, 1000,
     METRIC("sm_occupancy_ratio", "Occupancy of the multiprocessors by warps (--profile).")},
    {"gauges", "tensor_active_permille", NOW(tensor_active), false, 0.001, 1000,
     METRIC("tensor_active_ratio",
            "Share of time in which the tensor cores were busy (--profile).")},
    {"gauges", "dram_active_permille", NOW(dram_active), false, 0.001, 1000,
     METRIC("dram_active_ratio",
            "Share of time in which the memory interface was busy (--profile).")},
    {"gauges", "temperature_c", NOW(temperature_celsius), false, 1, 1000, -273, true,
     METRIC("temperature_celsius", "Temperature of the chip.")},
    {"gauges", "memory_temperature_c", NOW(memory_temperature_celsius), false, 1, 1000, 1, true,
     METRIC("memory_temperature_celsius", "Temperature of the memory.")},
    {"gauges", "fan_percent", NOW(fan), false, 0.01, 200, 0, true,
     METRIC("fan_speed_ratio", "Intended fan speed, as a share of the maximum.")},
    {"gauges", "power_mw", NOW(power_watts), false, 0.001, 1e7, 0, true,
     METRIC("power_draw_watts", "Power draw; from Ampere on, the mean over a second.")},
    {"gauges", "power_average_mw", NOW(power_average_watts), false, 0.001, 1e7, 0, true,
     METRIC("power_draw_average_watts", "Power draw, mean over a second.")},
    {"gauges", "power_instant_mw", NOW(power_instant_watts), false, 0.001, 1e7, 0, true,
     METRIC("power_draw_instant_watts", "Power draw at the moment of the reading.")},
    {"gauges", "power_limit_mw", NOW(power_limit_watts), false, 0.001, 1e7, 0, true,
     METRIC("power_limit_watts", "Power limit in force.")},
    {"gauges", "energy_mj", NOW(energy_joules), false, 0.001, 0x1p53, 0, true,
     METRIC("energy_joules_total", "Energy drawn since the driver was loaded.")},
    {"gauges", "sm_clock_mhz", NOW(sm_clock_mhz), false, 1, 1e5, 0, true,
     METRIC("sm_clock_hertz", "Clock of the multiprocessors.")},
    {"gauges", "memory_clock_mhz", NOW(memory_clock_mhz), false, 1, 1e5, 0, true,
     METRIC("memory_clock_hertz", "Clock of the memory.")},
    {"gauges", "event_reasons", NOW(event_reasons), true, 1, 0x1p32, 0, true},
    {"gauges", "power_cap_ns", NOW(power_cap_seconds), false, 1e-9, 0x1p62, 0, true,
     SERIES("throttled_seconds_total", "reason=\"power_cap\"", THROTTLED)},
    {"gauges", "sync_boost_ns", NOW(sync_boost_seconds), false, 1e-9, 0x1p62, 0, true,
     SERIES("throttled_seconds_total", "reason=\"sync_boost\"", THROTTLED)},
    {"gauges", "sw_thermal_ns", NOW(sw_thermal_seconds), false, 1e-9, 0x1p62, 0, true,
     SERIES("throttled_seconds_total", "reason=\"sw_thermal\"", THROTTLED)},
    {"gauges", "hw_thermal_ns", NOW(hw_thermal_seconds), false, 1e-9, 0x1p62, 0, true,
     SERIES("throttled_seconds_total", "reason=\"hw_thermal\"", THROTTLED)},
    {"gauges", "power_brake_ns", NOW(power_brake_seconds), false, 1e-9, 0x1p62, 0, true,
     SERIES("throttled_seconds_total", "reason=\"power_brake\"", THROTTLED)},
    {"gauges", "ecc_corrected", NOW(ecc_corrected), true, 1, 0x1p53, 0, true,
     SERIES("ecc_errors_total", "type=\"corrected\"", ECC)},
    {"gauges", "ecc_uncorrected", NOW(ecc_uncorrected), true, 1, 0x1p53, 0, true,
     SERIES("ecc_errors_total", "type=\"uncorrected\"", ECC)},
    {"gauges", "remapped_rows", NOW(remapped_rows), true, 1, 1e6, 0, true,
     METRIC("remapped_rows", "Memory rows replaced by spare ones.")},
    {"gauges", "remap_pending", NOW(remap_pending), true, 1, 1, 0, true,
     METRIC("row_remap_pending", "1: rows will be replaced at the next reset.")},
    {"gauges", "remap_failed", NOW(remap_failed), true, 1, 1, 0, true,
     METRIC("row_remap_failed", "1: a row could not be replaced; return the GPU.")},
    {"gauges", "recovery_action", NOW(recovery_action), true, 1, 100, 0, true,
     METRIC("recovery_action",
            "What the driver asks for: 0 nothing, 1 reset the GPU, 2 reboot, 3 drain, 4 drain and "
            "reset.")},
    {"gauges", "pcie_generation", NOW(pcie_generation), true, 1, 20, 1, true,
     METRIC("pcie_link_generation", "Current PCIe generation; lower when idle, to save power.")},
    {"gauges", "pcie_width", NOW(pcie_width), true, 1, 64, 1, true,
     METRIC("pcie_link_width", "Current PCIe lanes.")},
    {"gauges", "pcie_replays", NOW(pcie_replays), true, 1, 0x1p32 - 2, 0, true,
     METRIC("pcie_replays_total", "PCIe packets sent again.")},
    {"gauges", "pcie_tx_kb_s", NOW(pcie_tx_bytes_s), false, 1000, 1e10, 0, true,
     METRIC("pcie_transmit_bytes_per_second", "From the GPU, over 20 ms; with --pcie.")},
    {"gauges", "pcie_rx_kb_s", NOW(pcie_rx_bytes_s), false, 1000, 1e10, 0, true,
     METRIC("pcie_receive_bytes_per_second", "To the GPU, over 20 ms; with --pcie.")},
    {"gauges", "xid", NOW(xid), true, 1, 1e6, 1, true,
     METRIC("last_xid", "Number of the newest Xid error since serve was started; absent if none.")},
    {"facts", "compute_major", FACT(compute_major), true, 1, 1000, 1, true},
    {"facts", "compute_minor", FACT(compute_minor), true, 1, 1000, 0, true},
    {"facts", "cores", FACT(cores), true, 1, 1e7, 1},
    {"facts", "sms", FACT(sms), true, 1, 1e5, 1},
    {"facts", "memory_bus_bits", FACT(memory_bus_bits), true, 1, 1e6, 1, true},
    {"facts", "power_limit_default_mw", FACT(power_limit_default_watts), false, 0.001, 1e7, 1, true,
     METRIC("power_limit_default_watts", "Default power limit.")},
    {"facts", "power_limit_min_mw", FACT(power_limit_min_watts), false, 0.001, 1e7, 1, true},
    {"facts", "power_limit_max_mw", FACT(power_limit_max_watts), false, 0.001, 1e7, 1, true,
     METRIC("power_limit_max_watts", "Highest power limit allowed.")},
    {"facts", "pcie_generation_max", FACT(pcie_generation_max), true, 1, 20, 1, true,
     METRIC("pcie_link_generation_max", "Highest PCIe generation of GPU and slot.")},
    {"facts", "pcie_width_max", FACT(pcie_width_max), true, 1, 64, 1, true,
     METRIC("pcie_link_width_max", "Highest number of PCIe lanes of GPU and slot.")},
    {"facts", "sm_clock_max_mhz", FACT(sm_clock_max_mhz), false, 1, 1e5, 1, true,
     METRIC("sm_clock_max_hertz", "Highest clock of the multiprocessors.")},
    {"facts", "memory_clock_max_mhz", FACT(memory_clock_max_mhz), false, 1, 1e5, 1, true,
     METRIC("memory_clock_max_hertz", "Highest clock of the memory.")},
    {"facts", "slowdown_c", FACT(slowdown_celsius), false, 1, 1000, 1, true,
     METRIC("slowdown_temperature_celsius", "Temperature at which the GPU slows down.")},
    {"facts", "shutdown_c", FACT(shutdown_celsius), false, 1, 1000, 1, true,
     METRIC("shutdown_temperature_celsius", "Temperature at which the GPU shuts down.")},
    {"facts", "memory_max_c", FACT(memory_max_celsius), false, 1, 1000, 1, true},
    {"facts", "ecc_mode", FACT(ecc_mode), true, 1, 1, 0, true,
     METRIC("ecc_enabled", "1: ECC is on.")},
    {"facts", "persistence_mode", FACT(persistence_mode), true, 1, 1, 0, true,
     METRIC("persistence_enabled", "1: the driver stays loaded while the GPU is unused.")},
    {"facts", "mig_mode", FACT(mig_mode), true, 1, 1, 0, true},
    {"facts", "compute_mode", FACT(compute_mode), true, 1, 3, 0, true},
};
const int device_field_count = sizeof device_fields / sizeof *device_fields;

const struct device_field *device_field_at(size_t offset) {
    int i = 0;
    while (device_fields[i].offset != offset) i++;
    return &device_fields[i];
}

static void *place_of(struct device_card *card, const struct device_field *field) {
    return (char *)card + field->offset;
}

double device_field_value(const struct device_card *card, const struct device_field *field) {
    const void *place = (const char *)card + field->offset;
    if (!field->is_whole) return *(const double *)place;
    int64_t n = *(const int64_t *)place;
    return n < 0 ? (double)NAN : (double)n;
}

void device_field_set(struct device_card *card, const struct device_field *field, double value) {
    bool is_value = value >= field->least && value <= field->most; // false for NaN
    if (field->is_whole) {
        *(int64_t *)place_of(card, field) = is_value ? (int64_t)value : -1;
    } else {
        *(double *)place_of(card, field) = is_value ? value * field->factor : (double)NAN;
    }
}

struct device_card device_card_unknown(void) {
    struct device_card card = {.state = DEVICE_WAITS};
    for (int i = 0; i < device_field_count; i++) {
        device_field_set(&card, &device_fields[i], (double)NAN);
    }
    return card;
}

static const char *const state_names[DEVICE_STATES] = {
    [DEVICE_WAITS] = "waits", [DEVICE_ANSWERS] = "answers", [DEVICE_ASLEEP] = "asleep",
    [DEVICE_LOST] = "lost",   [DEVICE_HANGS] = "hangs",     [DEVICE_UNREACHABLE] = "unreachable",
};

const char *device_state_name(enum device_state state) {
    return state_names[state];
}

void device_card_renew(struct device_card *card) {
    struct device_card unknown = device_card_unknown();
    card->now = unknown.now;
    card->state = DEVICE_ANSWERS;
    card->reason[0] = 0;
}

void device_card_name(struct device_card *card, const struct device *d) {
    card->index = d->index;
    card->is_mig = d->is_mig;
    clean_keep(card->facts.name, sizeof card->facts.name, d->name);
    clean_keep(card->facts.uuid, sizeof card->facts.uuid, d->uuid);
}
