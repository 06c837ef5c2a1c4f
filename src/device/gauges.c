// SPDX-License-Identifier: Apache-2.0
// The table of all numbers of a card: how recordings call them, and what is a value at all. Limits
// are far beyond any card; they are there to refuse the drivers' marks for "not available" (2^32-1,
// 2^64-1, 2^63-14 and the like), which must never be shown as figures.
#include "device/gauges.h"

#include "device/device_int.h"

#include <math.h>
#include <stdio.h>

#define AT(name) offsetof(struct device_card, name)
#define BYTES_MOST 0x1p60
const struct device_field device_fields[] = {
    {"memory", "total_bytes", AT(now.total_bytes), true, 1, BYTES_MOST},
    {"memory", "used_bytes", AT(now.used_bytes), true, 1, BYTES_MOST},
    {"memory", "reserved_bytes", AT(now.reserved_bytes), true, 1, BYTES_MOST},
    {"memory", "free_bytes", AT(now.free_bytes), true, 1, BYTES_MOST},
    {"gauges", "gpu_percent", AT(now.utilisation), false, 0.01, 100},
    {"gauges", "memory_percent", AT(now.memory_utilisation), false, 0.01, 100},
    {"gauges", "encoder_percent", AT(now.encoder_utilisation), false, 0.01, 100},
    {"gauges", "decoder_percent", AT(now.decoder_utilisation), false, 0.01, 100},
    {"gauges", "sm_active_permille", AT(now.sm_active), false, 0.001, 1000},
    {"gauges", "sm_occupancy_permille", AT(now.sm_occupancy), false, 0.001, 1000},
    {"gauges", "tensor_active_permille", AT(now.tensor_active), false, 0.001, 1000},
    {"gauges", "dram_active_permille", AT(now.dram_active), false, 0.001, 1000},
    {"gauges", "temperature_c", AT(now.temperature_celsius), false, 1, 1000, -273, true},
    {"gauges", "memory_temperature_c", AT(now.memory_temperature_celsius), false, 1, 1000, 1, true},
    {"gauges", "fan_percent", AT(now.fan), false, 0.01, 200, 0, true},
    {"gauges", "power_mw", AT(now.power_watts), false, 0.001, 1e7, 0, true},
    {"gauges", "power_average_mw", AT(now.power_average_watts), false, 0.001, 1e7, 0, true},
    {"gauges", "power_instant_mw", AT(now.power_instant_watts), false, 0.001, 1e7, 0, true},
    {"gauges", "power_limit_mw", AT(now.power_limit_watts), false, 0.001, 1e7, 0, true},
    {"gauges", "energy_mj", AT(now.energy_joules), false, 0.001, 0x1p53, 0, true},
    {"gauges", "sm_clock_mhz", AT(now.sm_clock_mhz), false, 1, 1e5, 0, true},
    {"gauges", "memory_clock_mhz", AT(now.memory_clock_mhz), false, 1, 1e5, 0, true},
    {"gauges", "event_reasons", AT(now.event_reasons), true, 1, 0x1p32, 0, true},
    {"gauges", "power_cap_ns", AT(now.power_cap_seconds), false, 1e-9, 0x1p62, 0, true},
    {"gauges", "sync_boost_ns", AT(now.sync_boost_seconds), false, 1e-9, 0x1p62, 0, true},
    {"gauges", "sw_thermal_ns", AT(now.sw_thermal_seconds), false, 1e-9, 0x1p62, 0, true},
    {"gauges", "hw_thermal_ns", AT(now.hw_thermal_seconds), false, 1e-9, 0x1p62, 0, true},
    {"gauges", "power_brake_ns", AT(now.power_brake_seconds), false, 1e-9, 0x1p62, 0, true},
    {"gauges", "ecc_corrected", AT(now.ecc_corrected), true, 1, 0x1p53, 0, true},
    {"gauges", "ecc_uncorrected", AT(now.ecc_uncorrected), true, 1, 0x1p53, 0, true},
    {"gauges", "remapped_rows", AT(now.remapped_rows), true, 1, 1e6, 0, true},
    {"gauges", "remap_pending", AT(now.remap_pending), true, 1, 1, 0, true},
    {"gauges", "remap_failed", AT(now.remap_failed), true, 1, 1, 0, true},
    {"gauges", "recovery_action", AT(now.recovery_action), true, 1, 100, 0, true},
    {"gauges", "pcie_generation", AT(now.pcie_generation), true, 1, 20, 1, true},
    {"gauges", "pcie_width", AT(now.pcie_width), true, 1, 64, 1, true},
    {"gauges", "pcie_replays", AT(now.pcie_replays), true, 1, 0x1p32 - 2, 0, true},
    {"gauges", "pcie_tx_kb_s", AT(now.pcie_tx_bytes_s), false, 1000, 1e10, 0, true},
    {"gauges", "pcie_rx_kb_s", AT(now.pcie_rx_bytes_s), false, 1000, 1e10, 0, true},
    {"gauges", "xid", AT(now.xid), true, 1, 1e6, 1, true},
    {"facts", "compute_major", AT(facts.compute_major), true, 1, 1000, 1, true},
    {"facts", "compute_minor", AT(facts.compute_minor), true, 1, 1000, 0, true},
    {"facts", "cores", AT(facts.cores), true, 1, 1e7, 1},
    {"facts", "sms", AT(facts.sms), true, 1, 1e5, 1},
    {"facts", "memory_bus_bits", AT(facts.memory_bus_bits), true, 1, 1e6, 1, true},
    {"facts", "power_limit_default_mw", AT(facts.power_limit_default_watts), false, 0.001, 1e7, 1,
     true},
    {"facts", "power_limit_min_mw", AT(facts.power_limit_min_watts), false, 0.001, 1e7, 1, true},
    {"facts", "power_limit_max_mw", AT(facts.power_limit_max_watts), false, 0.001, 1e7, 1, true},
    {"facts", "pcie_generation_max", AT(facts.pcie_generation_max), true, 1, 20, 1, true},
    {"facts", "pcie_width_max", AT(facts.pcie_width_max), true, 1, 64, 1, true},
    {"facts", "sm_clock_max_mhz", AT(facts.sm_clock_max_mhz), false, 1, 1e5, 1, true},
    {"facts", "memory_clock_max_mhz", AT(facts.memory_clock_max_mhz), false, 1, 1e5, 1, true},
    {"facts", "slowdown_c", AT(facts.slowdown_celsius), false, 1, 1000, 1, true},
    {"facts", "shutdown_c", AT(facts.shutdown_celsius), false, 1, 1000, 1, true},
    {"facts", "memory_max_c", AT(facts.memory_max_celsius), false, 1, 1000, 1, true},
    {"facts", "ecc_mode", AT(facts.ecc_mode), true, 1, 1, 0, true},
    {"facts", "persistence_mode", AT(facts.persistence_mode), true, 1, 1, 0, true},
    {"facts", "mig_mode", AT(facts.mig_mode), true, 1, 1, 0, true},
    {"facts", "compute_mode", AT(facts.compute_mode), true, 1, 3, 0, true},
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

static const char *const state_names[] = {
    [DEVICE_WAITS] = "waits", [DEVICE_ANSWERS] = "answers", [DEVICE_ASLEEP] = "asleep",
    [DEVICE_LOST] = "lost",   [DEVICE_HANGS] = "hangs",
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
    snprintf(card->facts.name, sizeof card->facts.name, "%.*s", STR_ARG(d->name));
    snprintf(card->facts.uuid, sizeof card->facts.uuid, "%.*s", STR_ARG(d->uuid));
}
