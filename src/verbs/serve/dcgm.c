// SPDX-License-Identifier: Apache-2.0
// /metrics with --dcgm-names: the series that dcgm-exporter (etc/default-counters.csv of 4.x)
// gives, with its names, units and labels, so that what was made for it (Grafana's dashboard 12239)
// fills. Both spellings of the host's label are there: it was Hostname until dcgm-exporter's change
// #655.
#include "verbs/serve/serve.h"

#include <sys/utsname.h>

#define GAUGE(member) offsetof(struct device_card, now.member), false
#define COUNT(member) offsetof(struct device_card, now.member), true
static const double PERCENT = 100, MIB = 1.0 / 1048576, MILLI = 1000, MICRO = 1e6;

// Of an instance of a divided GPU, too; the rest is the whole GPU's.
enum { INSTANCE_ROWS = 5 };
static const struct serve_metric_row rows[] = {
    {"DCGM_FI_DEV_FB_FREE", SERVE_METRIC_GAUGE, NULL, COUNT(free_bytes), MIB,
     "Free memory (in MiB)."},
    {"DCGM_FI_DEV_FB_USED", SERVE_METRIC_GAUGE, NULL, COUNT(used_bytes), MIB,
     "Used memory (in MiB)."},
    {"DCGM_FI_DEV_FB_RESERVED", SERVE_METRIC_GAUGE, NULL, COUNT(reserved_bytes), MIB,
     "Memory reserved by the driver (in MiB)."},
    {"DCGM_FI_DEV_GPU_UTIL", SERVE_METRIC_GAUGE, NULL, GAUGE(utilisation), PERCENT,
     "GPU utilization (in %)."},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", SERVE_METRIC_GAUGE, NULL, GAUGE(utilisation), 1,
     "Share of time in which a kernel ran; here from the driver's utilization."},
    {"DCGM_FI_DEV_SM_CLOCK", SERVE_METRIC_GAUGE, NULL, GAUGE(sm_clock_mhz), 1,
     "SM clock (in MHz)."},
    {"DCGM_FI_DEV_MEM_CLOCK", SERVE_METRIC_GAUGE, NULL, GAUGE(memory_clock_mhz), 1,
     "Memory clock (in MHz)."},
    {"DCGM_FI_DEV_MEMORY_TEMP", SERVE_METRIC_GAUGE, NULL, GAUGE(memory_temperature_celsius), 1,
     "Memory temperature (in C)."},
    {"DCGM_FI_DEV_GPU_TEMP", SERVE_METRIC_GAUGE, NULL, GAUGE(temperature_celsius), 1,
     "GPU temperature (in C)."},
    {"DCGM_FI_DEV_POWER_USAGE", SERVE_METRIC_GAUGE, NULL, GAUGE(power_watts), 1,
     "Power draw (in W)."},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", SERVE_METRIC_COUNTER, NULL, GAUGE(energy_joules),
     MILLI, "Energy since the driver was loaded (in mJ)."},
    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", SERVE_METRIC_COUNTER, NULL, COUNT(pcie_replays), 1,
     "PCIe packets sent again."},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", SERVE_METRIC_GAUGE, NULL, GAUGE(memory_utilisation), PERCENT,
     "Memory utilization (in %)."},
    {"DCGM_FI_DEV_ENC_UTIL", SERVE_METRIC_GAUGE, NULL, GAUGE(encoder_utilisation), PERCENT,
     "Encoder utilization (in %)."},
    {"DCGM_FI_PROF_SM_ACTIVE", SERVE_METRIC_GAUGE, NULL, GAUGE(sm_active), 1,
     "The ratio of cycles an SM has at least 1 warp assigned."},
    {"DCGM_FI_PROF_SM_OCCUPANCY", SERVE_METRIC_GAUGE, NULL, GAUGE(sm_occupancy), 1,
     "The ratio of number of warps resident on an SM."},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", SERVE_METRIC_GAUGE, NULL, GAUGE(tensor_active), 1,
     "Ratio of cycles the tensor (HMMA) pipe is active."},
    {"DCGM_FI_PROF_DRAM_ACTIVE", SERVE_METRIC_GAUGE, NULL, GAUGE(dram_active), 1,
     "Ratio of cycles the device memory interface is active."},
    {"DCGM_FI_DEV_DEC_UTIL", SERVE_METRIC_GAUGE, NULL, GAUGE(decoder_utilisation), PERCENT,
     "Decoder utilization (in %)."},
    {"DCGM_FI_DEV_XID_ERRORS", SERVE_METRIC_GAUGE, NULL, COUNT(xid), 1,
     "Number of the last Xid error."},
    {"DCGM_FI_DEV_POWER_VIOLATION", SERVE_METRIC_COUNTER, NULL, GAUGE(power_cap_seconds), MICRO,
     "Time throttled by the power limit (in us)."},
    {"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", SERVE_METRIC_COUNTER, NULL, GAUGE(sync_boost_seconds),
     MICRO, "Time throttled by sync boost (in us)."},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", SERVE_METRIC_COUNTER, NULL, COUNT(ecc_corrected), 1,
     "Corrected memory errors since the driver was loaded."},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", SERVE_METRIC_COUNTER, NULL, COUNT(ecc_uncorrected), 1,
     "Uncorrected memory errors since the driver was loaded."},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", SERVE_METRIC_GAUGE, NULL, COUNT(remap_failed), 1,
     "Whether a row replacement failed."},
};

static struct str labels_of(struct arena *a, const struct device_card *card, const char *host) {
    struct buf labels = buf_new(a);
    serve_metric_label(&labels, "gpu", str_format(a, "%d", card->index));
    if (card->facts.uuid[0]) serve_metric_label(&labels, "UUID", str_of(card->facts.uuid));
    if (card->facts.pci_bus_id[0])
        serve_metric_label(&labels, "pci_bus_id", str_of(card->facts.pci_bus_id));
    serve_metric_label(&labels, "device", str_format(a, "nvidia%d", card->index));
    serve_metric_label(&labels, "modelName", str_of(card->facts.name));
    serve_metric_label(&labels, "Hostname", str_of(host));
    serve_metric_label(&labels, "hostname", str_of(host));
    return buf_str(&labels);
}

void serve_metrics_of_dcgm(struct arena *a, struct serve_metric_sheet *sheet,
                           const struct observe_view *view) {
    struct utsname system = {0};
    const struct device_snapshot *d = view->devices;
    struct str *labels = arena_new(a, struct str, d->count + 1);
    uname(&system);
    for (int i = 0; i < d->count; i++) labels[i] = labels_of(a, &d->cards[i], system.nodename);
    for (int r = 0; r < (int)(sizeof rows / sizeof *rows); r++) {
        for (int i = 0; i < d->count; i++) {
            bool is_first = i == 0 || d->cards[i - 1].index != d->cards[i].index;
            if (d->cards[i].state != DEVICE_ANSWERS || (r >= INSTANCE_ROWS && !is_first)) continue;
            serve_metric_add_row(sheet, &rows[r], labels[i], &d->cards[i]);
        }
    }
}
