// SPDX-License-Identifier: Apache-2.0
// /metrics: the cards, in Prometheus' text format. Names, units and labels follow its conventions:
// base units, ratios from 0 to 1, counters end in _total; what is not known is absent, never 0; a
// card that does not answer has none of its figures of before. Counters are the driver's own, so a
// reset of the driver's is seen as one.
#include "cmd/serve/metrics.h"

#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double metric_value(const void *of, const struct metric_row *row) {
    const char *place = (const char *)of + row->offset;
    if (!row->is_whole) return *(const double *)(const void *)place * row->factor;
    int64_t n = *(const int64_t *)(const void *)place;
    return n < 0 ? (double)NAN : (double)n * row->factor;
}

static void describe(struct metric_sheet *sheet, const char *name, enum metric_kind kind,
                     const char *help) {
    struct str family = str_of(name);
    if (sheet->name && strcmp(sheet->name, name) == 0) return;
    sheet->name = name;
    if (sheet->is_open && kind == METRIC_COUNTER && str_ends(family, STR("_total"))) {
        family.len -= (ptrdiff_t)sizeof "_total" - 1;
    }
    buf_format(&sheet->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", STR_ARG(family), help,
               STR_ARG(family), kind == METRIC_COUNTER ? "counter" : "gauge");
}

void metric_add(struct metric_sheet *sheet, const char *name, enum metric_kind kind,
                const char *help, struct str labels, double value) {
    if (!isfinite(value)) return;
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    describe(sheet, name, kind, help);
    buf_format(&sheet->out, labels.len > 0 ? "%s{%.*s} " : "%s%.*s ", name, STR_ARG(labels));
    buf_format(&sheet->out, is_whole ? "%.0f\n" : "%.12g\n", value);
}

void metric_add_row(struct metric_sheet *sheet, const struct metric_row *row, struct str labels,
                    const void *of) {
    double value = metric_value(of, row);
    if (!isfinite(value)) return;
    char both[1024];
    if (row->label) {
        int size = snprintf(both, sizeof both, "%.*s%s%s", STR_ARG(labels),
                            labels.len > 0 ? "," : "", row->label);
        labels = (struct str){both, size};
        if (size < 0 || size >= (int)sizeof both) return;
    }
    metric_add(sheet, row->name, row->kind, row->help, labels, value);
}

void metric_label(struct buf *labels, const char *name, struct str value) {
    buf_format(labels, "%s%s=\"", labels->count > 0 ? "," : "", name);
    for (ptrdiff_t i = 0; i < value.len; i++) {
        char c = value.p[i];
        if (c == '\\' || c == '"') buf_byte(labels, '\\');
        if (c == '\n')
            buf_add(labels, STR("\\n"));
        else if ((unsigned char)c >= ' ')
            buf_byte(labels, c);
    }
    buf_byte(labels, '"');
}

void metric_label_card(struct arena *a, struct buf *labels, const struct watch_view *view,
                       int card) {
    if (card < 0 || card >= view->devices->count) return;
    const struct device_card *c = &view->devices->cards[card];
    metric_label(labels, "gpu", str_format(a, "%d", c->index));
    if (c->facts.uuid[0]) metric_label(labels, "uuid", str_of(c->facts.uuid));
}

// --- Cards

#define GAUGE(member) offsetof(struct device_card, now.member), false
#define COUNT(member) offsetof(struct device_card, now.member), true
#define FACT(member) offsetof(struct device_card, facts.member), false
#define SETTING(member) offsetof(struct device_card, facts.member), true
static const double MHZ = 1e6;

// Of a card or an instance of its own; one name after the other, so that its series stand together.
static const struct metric_row of_instance[] = {
    {"batchfit_gpu_memory_total_bytes", METRIC_GAUGE, NULL, COUNT(total_bytes), 1,
     "Memory of the card, as the driver says."},
    {"batchfit_gpu_memory_used_bytes", METRIC_GAUGE, NULL, COUNT(used_bytes), 1,
     "Memory that programs hold; without the driver's reserve, where that is told apart."},
    {"batchfit_gpu_memory_reserved_bytes", METRIC_GAUGE, NULL, COUNT(reserved_bytes), 1,
     "Memory that the driver and the firmware keep for themselves."},
    {"batchfit_gpu_memory_free_bytes", METRIC_GAUGE, NULL, COUNT(free_bytes), 1,
     "Memory that is free."},
    {"batchfit_gpu_utilization_ratio", METRIC_GAUGE, NULL, GAUGE(utilisation), 1,
     "Share of the time in which some kernel ran."},
    {"batchfit_gpu_memory_utilization_ratio", METRIC_GAUGE, NULL, GAUGE(memory_utilisation), 1,
     "Share of the time in which device memory was read or written."},
    {"batchfit_gpu_encoder_utilization_ratio", METRIC_GAUGE, NULL, GAUGE(encoder_utilisation), 1,
     "Share of the time in which the video encoder ran."},
    {"batchfit_gpu_decoder_utilization_ratio", METRIC_GAUGE, NULL, GAUGE(decoder_utilisation), 1,
     "Share of the time in which the video decoder ran."},
    {"batchfit_gpu_sm_active_ratio", METRIC_GAUGE, NULL, GAUGE(sm_active), 1,
     "Share of the time in which a multiprocessor had work, mean of all (--profile)."},
    {"batchfit_gpu_sm_occupancy_ratio", METRIC_GAUGE, NULL, GAUGE(sm_occupancy), 1,
     "How full of warps the multiprocessors were (--profile)."},
    {"batchfit_gpu_tensor_active_ratio", METRIC_GAUGE, NULL, GAUGE(tensor_active), 1,
     "Share of the time in which the tensor cores worked (--profile)."},
    {"batchfit_gpu_dram_active_ratio", METRIC_GAUGE, NULL, GAUGE(dram_active), 1,
     "Share of the time in which the memory interface was busy (--profile)."},
    METRIC_ROWS_END,
};

#define THROTTLED                                                                                 \
    "Time in which the clocks were held back, by reason, since the driver was loaded; the power " \
    "cap is usual at full load."
#define ECC "Errors of the memory since the driver was loaded."
// Of the whole card: once, however many instances it is divided into.
static const struct metric_row of_card[] = {
    {"batchfit_gpu_temperature_celsius", METRIC_GAUGE, NULL, GAUGE(temperature_celsius), 1,
     "Temperature of the chip."},
    {"batchfit_gpu_memory_temperature_celsius", METRIC_GAUGE, NULL,
     GAUGE(memory_temperature_celsius), 1, "Temperature of the memory."},
    {"batchfit_gpu_slowdown_temperature_celsius", METRIC_GAUGE, NULL, FACT(slowdown_celsius), 1,
     "Temperature from which the card slows down."},
    {"batchfit_gpu_shutdown_temperature_celsius", METRIC_GAUGE, NULL, FACT(shutdown_celsius), 1,
     "Temperature at which the card switches itself off."},
    {"batchfit_gpu_fan_speed_ratio", METRIC_GAUGE, NULL, GAUGE(fan), 1,
     "Fan speed that the card intends, as share of the most."},
    {"batchfit_gpu_power_draw_watts", METRIC_GAUGE, NULL, GAUGE(power_watts), 1,
     "Power that the card draws: from Ampere on the mean of a second."},
    {"batchfit_gpu_power_draw_average_watts", METRIC_GAUGE, NULL, GAUGE(power_average_watts), 1,
     "Power, mean of a second."},
    {"batchfit_gpu_power_draw_instant_watts", METRIC_GAUGE, NULL, GAUGE(power_instant_watts), 1,
     "Power at the moment of the reading."},
    {"batchfit_gpu_power_limit_watts", METRIC_GAUGE, NULL, GAUGE(power_limit_watts), 1,
     "Power limit that is enforced now."},
    {"batchfit_gpu_power_limit_default_watts", METRIC_GAUGE, NULL, FACT(power_limit_default_watts),
     1, "Power limit that the card comes with."},
    {"batchfit_gpu_power_limit_max_watts", METRIC_GAUGE, NULL, FACT(power_limit_max_watts), 1,
     "Highest power limit that can be set."},
    {"batchfit_gpu_energy_joules_total", METRIC_COUNTER, NULL, GAUGE(energy_joules), 1,
     "Energy that the card has drawn since the driver was loaded."},
    {"batchfit_gpu_sm_clock_hertz", METRIC_GAUGE, NULL, GAUGE(sm_clock_mhz), MHZ,
     "Clock of the multiprocessors."},
    {"batchfit_gpu_sm_clock_max_hertz", METRIC_GAUGE, NULL, FACT(sm_clock_max_mhz), MHZ,
     "Highest clock of the multiprocessors."},
    {"batchfit_gpu_memory_clock_hertz", METRIC_GAUGE, NULL, GAUGE(memory_clock_mhz), MHZ,
     "Clock of the memory."},
    {"batchfit_gpu_memory_clock_max_hertz", METRIC_GAUGE, NULL, FACT(memory_clock_max_mhz), MHZ,
     "Highest clock of the memory."},
    {"batchfit_gpu_throttled_seconds_total", METRIC_COUNTER, "reason=\"power_cap\"",
     GAUGE(power_cap_seconds), 1, THROTTLED},
    {"batchfit_gpu_throttled_seconds_total", METRIC_COUNTER, "reason=\"sync_boost\"",
     GAUGE(sync_boost_seconds), 1, THROTTLED},
    {"batchfit_gpu_throttled_seconds_total", METRIC_COUNTER, "reason=\"sw_thermal\"",
     GAUGE(sw_thermal_seconds), 1, THROTTLED},
    {"batchfit_gpu_throttled_seconds_total", METRIC_COUNTER, "reason=\"hw_thermal\"",
     GAUGE(hw_thermal_seconds), 1, THROTTLED},
    {"batchfit_gpu_throttled_seconds_total", METRIC_COUNTER, "reason=\"power_brake\"",
     GAUGE(power_brake_seconds), 1, THROTTLED},
    {"batchfit_gpu_ecc_errors_total", METRIC_COUNTER, "type=\"corrected\"", COUNT(ecc_corrected), 1,
     ECC},
    {"batchfit_gpu_ecc_errors_total", METRIC_COUNTER, "type=\"uncorrected\"",
     COUNT(ecc_uncorrected), 1, ECC},
    {"batchfit_gpu_remapped_rows", METRIC_GAUGE, NULL, COUNT(remapped_rows), 1,
     "Rows of the memory that were replaced by spare ones."},
    {"batchfit_gpu_row_remap_pending", METRIC_GAUGE, NULL, COUNT(remap_pending), 1,
     "1: rows will be replaced at the next reset."},
    {"batchfit_gpu_row_remap_failed", METRIC_GAUGE, NULL, COUNT(remap_failed), 1,
     "1: a row could not be replaced; the card belongs back to its maker."},
    {"batchfit_gpu_recovery_action", METRIC_GAUGE, NULL, COUNT(recovery_action), 1,
     "What the driver asks for: 0 nothing, 1 reset the card, 2 reboot, 3 drain, 4 drain and "
     "reset."},
    {"batchfit_gpu_pcie_link_generation", METRIC_GAUGE, NULL, COUNT(pcie_generation), 1,
     "PCIe generation of the link now; lower when idle, to save power."},
    {"batchfit_gpu_pcie_link_generation_max", METRIC_GAUGE, NULL, SETTING(pcie_generation_max), 1,
     "Highest PCIe generation that card and slot can."},
    {"batchfit_gpu_pcie_link_width", METRIC_GAUGE, NULL, COUNT(pcie_width), 1,
     "PCIe lanes of the link now."},
    {"batchfit_gpu_pcie_link_width_max", METRIC_GAUGE, NULL, SETTING(pcie_width_max), 1,
     "Most PCIe lanes that card and slot can."},
    {"batchfit_gpu_pcie_replays_total", METRIC_COUNTER, NULL, COUNT(pcie_replays), 1,
     "PCIe packets that had to be sent again."},
    {"batchfit_gpu_pcie_transmit_bytes_per_second", METRIC_GAUGE, NULL, GAUGE(pcie_tx_bytes_s), 1,
     "From the card, over 20 ms; with --pcie."},
    {"batchfit_gpu_pcie_receive_bytes_per_second", METRIC_GAUGE, NULL, GAUGE(pcie_rx_bytes_s), 1,
     "To the card, over 20 ms; with --pcie."},
    {"batchfit_gpu_last_xid", METRIC_GAUGE, NULL, COUNT(xid), 1,
     "Number of the newest Xid error since serve was started; absent: there was none."},
    {"batchfit_gpu_ecc_enabled", METRIC_GAUGE, NULL, SETTING(ecc_mode), 1, "1: ECC is on."},
    {"batchfit_gpu_persistence_enabled", METRIC_GAUGE, NULL, SETTING(persistence_mode), 1,
     "1: the driver stays loaded while nobody uses the card."},
    METRIC_ROWS_END,
};

static const struct reason {
    int64_t bit;
    const char *label;
} reasons[] = {
    {DEVICE_REASON_IDLE, "idle"},
    {DEVICE_REASON_APPLICATION_CLOCKS, "application_clocks"},
    {DEVICE_REASON_POWER_CAP, "power_cap"},
    {DEVICE_REASON_HW_SLOWDOWN, "hw_slowdown"},
    {DEVICE_REASON_SYNC_BOOST, "sync_boost"},
    {DEVICE_REASON_SW_THERMAL, "sw_thermal"},
    {DEVICE_REASON_HW_THERMAL, "hw_thermal"},
    {DEVICE_REASON_POWER_BRAKE, "power_brake"},
    {DEVICE_REASON_DISPLAY_CLOCKS, "display_clocks"},
};

#define WINDOW(member) offsetof(struct watch_card, window.member), false
static const struct metric_row of_window[] = {
    {"batchfit_gpu_throttled_ratio", METRIC_GAUGE, NULL, WINDOW(throttled_share), 1,
     "Share of the last minute in which heat or the power brake held the clocks back."},
    {"batchfit_gpu_power_capped_ratio", METRIC_GAUGE, NULL, WINDOW(power_cap_share), 1,
     "Share of the last minute in which the power limit held the clocks back."},
    {"batchfit_gpu_clock_lost_ratio", METRIC_GAUGE, NULL, WINDOW(clock_lost_share), 1,
     "How far below its maximum the clock was while the card was busy, in the last minute."},
    METRIC_ROWS_END,
};
static const struct metric_row of_holders[] = {
    {"batchfit_gpu_memory_runs_bytes", METRIC_GAUGE, NULL, offsetof(struct watch_card, ours_bytes),
     true, 1, "Memory held by the runs that batchfit knows."},
    {"batchfit_gpu_memory_others_bytes", METRIC_GAUGE, NULL,
     offsetof(struct watch_card, others_bytes), true, 1, "Memory held by all other programs."},
    METRIC_ROWS_END,
};

// A card (or instance) with its labels, made once for all of its series.
struct labelled {
    const struct device_card *card;
    const struct watch_card *watched;
    struct str labels;       // of what the instance has
    struct str whole_labels; // of what the whole card has
    bool is_first;           // of the instances of its card
    bool answers;
};

static void label_cards(struct arena *a, const struct watch_view *view, struct labelled *cards) {
    for (int i = 0; i < view->devices->count; i++) {
        const struct device_card *card = &view->devices->cards[i];
        struct buf labels = buf_new(a);
        metric_label(&labels, "gpu", str_format(a, "%d", card->index));
        struct str whole = str_copy(a, buf_str(&labels)); // whose uuid the driver does not tell
        if (card->facts.uuid[0]) metric_label(&labels, "uuid", str_of(card->facts.uuid));
        bool is_first = i == 0 || view->devices->cards[i - 1].index != card->index;
        cards[i] = (struct labelled){card,
                                     &view->cards[i],
                                     buf_str(&labels),
                                     card->is_mig ? whole : buf_str(&labels),
                                     is_first,
                                     card->state == DEVICE_ANSWERS};
    }
}

// By row and then by card: series of one name must stand together.
static void add_rows(struct metric_sheet *sheet, const struct metric_row *rows,
                     const struct labelled *cards, int count, bool is_whole, bool is_watched) {
    for (const struct metric_row *row = rows; row->name; row++) {
        for (int i = 0; i < count; i++) {
            const struct labelled *c = &cards[i];
            if (!c->answers || (is_whole && !c->is_first)) continue;
            const void *of = is_watched ? (const void *)c->watched : (const void *)c->card;
            metric_add_row(sheet, row, is_whole ? c->whole_labels : c->labels, of);
        }
    }
}

static void add_reasons(struct arena *a, struct metric_sheet *sheet, const struct labelled *cards,
                        int count) {
    for (int i = 0; i < count; i++) {
        int64_t now = cards[i].card->now.event_reasons;
        if (!cards[i].answers || !cards[i].is_first || now < 0) continue;
        for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
            struct str labels = str_format(a, "%.*s,reason=\"%s\"", STR_ARG(cards[i].whole_labels),
                                           reasons[r].label);
            metric_add(sheet, "batchfit_gpu_clock_event", METRIC_GAUGE,
                       "1: this is why the clocks are not higher now; idle is no trouble.", labels,
                       (now & reasons[r].bit) != 0);
        }
    }
}

static void add_info(struct arena *a, struct metric_sheet *sheet, const struct labelled *cards,
                     int count) {
    for (int i = 0; i < count; i++) {
        const struct device_facts *f = &cards[i].card->facts;
        struct buf labels = buf_new(a);
        buf_add(&labels, cards[i].labels);
        metric_label(&labels, "name", str_of(f->name));
        if (f->pci_bus_id[0]) metric_label(&labels, "pci_bus_id", str_of(f->pci_bus_id));
        if (f->vbios[0]) metric_label(&labels, "vbios", str_of(f->vbios));
        if (f->compute_major >= 0 && f->compute_minor >= 0) {
            metric_label(&labels, "compute_capability",
                         str_format(a, "%lld.%lld", (long long)f->compute_major,
                                    (long long)f->compute_minor));
        }
        metric_label(&labels, "mig", cards[i].card->is_mig ? STR("1") : STR("0"));
        metric_label(&labels, "unified", cards[i].card->is_unified ? STR("1") : STR("0"));
        metric_add(sheet, "batchfit_gpu_info", METRIC_GAUGE,
                   "A card, or an instance of one; always 1. Join it by uuid.", buf_str(&labels),
                   1);
    }
}

// How old the figures are, in real time also where a recording is played faster.
static double age_s(const struct serve *s, int64_t at_ns) {
    double speed = s->watching.machine && s->watching.speed > 0 ? s->watching.speed : 1;
    int64_t began = s->view->started_ns;
    double real_ns = (double)began + (double)(at_ns - began) / speed;
    return fmax(((double)os_now_ns() - real_ns) / 1e9, 0);
}

static void add_states(const struct serve *s, struct metric_sheet *sheet,
                       const struct labelled *cards, int count) {
    for (int i = 0; i < count; i++) {
        if (cards[i].card->state == DEVICE_WAITS) continue;
        metric_add(sheet, "batchfit_gpu_up", METRIC_GAUGE,
                   "1: the card answers; 0: it is lost, hangs or sleeps, and has no figures here.",
                   cards[i].labels, cards[i].answers);
    }
    for (int i = 0; i < count; i++) {
        int64_t at_ns = cards[i].card->now.at_ns;
        metric_add(sheet, "batchfit_gpu_reading_age_seconds", METRIC_GAUGE,
                   "Since the card was last read.", cards[i].labels,
                   at_ns > 0 ? age_s(s, at_ns) : (double)NAN);
    }
}

static void add_cards(struct arena *a, struct metric_sheet *sheet, const struct serve *s) {
    int count = s->view->devices->count;
    struct labelled *cards = arena_new(a, struct labelled, count + 1);
    label_cards(a, s->view, cards);
    add_info(a, sheet, cards, count);
    add_states(s, sheet, cards, count);
    add_rows(sheet, of_instance, cards, count, false, false);
    add_rows(sheet, of_holders, cards, count, false, true);
    add_rows(sheet, of_card, cards, count, true, false);
    add_rows(sheet, of_window, cards, count, true, true);
    add_reasons(a, sheet, cards, count);
}

// --- Findings

static void add_findings(struct arena *a, struct metric_sheet *sheet,
                         const struct watch_view *view) {
    for (ptrdiff_t i = 0; i < view->findings.count; i++) {
        const struct insight_finding *f = &view->findings.items[i];
        if (f->severity < INSIGHT_WARNING) continue;
        struct buf labels = buf_new(a);
        metric_label(&labels, "id", str_of(f->id));
        metric_label(&labels, "severity", str_of(insight_severity_name(f->severity)));
        metric_label_card(a, &labels, view, f->card);
        metric_add(sheet, "batchfit_finding", METRIC_GAUGE,
                   "What is wrong now, by batchfit's rules; absent when it is not.",
                   buf_str(&labels), 1);
    }
}

struct str serve_metrics(struct arena *a, struct serve *s, bool is_open) {
    int64_t begin = os_now_ns();
    struct metric_sheet sheet = {buf_new(a), is_open, NULL};
    add_cards(a, &sheet, s);
    metrics_of_host(a, &sheet, s);
    metrics_of_runs(a, &sheet, s->view);
    add_findings(a, &sheet, s->view);
    if (s->options->dcgm_names) metrics_of_dcgm(a, &sheet, s->view);
    s->own.metrics_rendered++;
    s->own.metrics_seconds = (double)(os_now_ns() - begin) / 1e9;
    metrics_of_serve(a, &sheet, s);
    if (is_open) buf_add(&sheet.out, STR("# EOF\n"));
    return buf_str(&sheet.out);
}
