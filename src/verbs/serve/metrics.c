// SPDX-License-Identifier: Apache-2.0
// /metrics: the GPUs, in Prometheus' text format. Names, units and labels follow its conventions:
// base units, ratios from 0 to 1, counters end in _total; what is not known is absent, never 0; a
// GPU that does not answer has none of its figures of before. Counters are the driver's own, so a
// reset of the driver's is seen as one.
#include "verbs/serve/serve.h"

#include "base/os.h"

#include <math.h>

// --- GPUs

static const double MHZ = 1e6;

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

#define WINDOW(member) offsetof(struct observe_card, window.member), false
static const struct serve_metric_row of_window[] = {
    {"batchfit_gpu_throttled_ratio", SERVE_METRIC_GAUGE, NULL, WINDOW(throttled_share), 1,
     "Share of the last minute in which heat or the power brake limited the clocks."},
    {"batchfit_gpu_power_capped_ratio", SERVE_METRIC_GAUGE, NULL, WINDOW(power_cap_share), 1,
     "Share of the last minute in which the power limit limited the clocks."},
    {"batchfit_gpu_clock_lost_ratio", SERVE_METRIC_GAUGE, NULL, WINDOW(clock_lost_share), 1,
     "How far below its maximum the clock was while the GPU was busy, in the last minute."},
    SERVE_METRIC_ROWS_END,
};
static const struct serve_metric_row of_holders[] = {
    {"batchfit_gpu_memory_runs_bytes", SERVE_METRIC_GAUGE, NULL,
     offsetof(struct observe_card, ours_bytes), true, 1,
     "Memory held by runs that batchfit knows."},
    {"batchfit_gpu_memory_others_bytes", SERVE_METRIC_GAUGE, NULL,
     offsetof(struct observe_card, others_bytes), true, 1, "Memory held by all other programs."},
    SERVE_METRIC_ROWS_END,
};

// A GPU (or instance) with its labels, made once for all of its series.
struct labelled {
    const struct device_card *card;
    const struct observe_card *watched;
    struct str labels;       // of what the instance has
    struct str whole_labels; // of what the whole GPU has
    bool is_first;           // of the instances of its GPU
    bool answers;
};

static void label_cards(struct arena *a, const struct observe_view *view, struct labelled *cards) {
    for (int i = 0; i < view->devices->count; i++) {
        const struct device_card *card = &view->devices->cards[i];
        struct buf labels = buf_new(a);
        serve_metric_label(&labels, "gpu", str_format(a, "%d", card->index));
        struct str whole = str_copy(a, buf_str(&labels)); // whose uuid the driver does not tell
        if (card->facts.uuid[0]) serve_metric_label(&labels, "uuid", str_of(card->facts.uuid));
        bool is_first = i == 0 || view->devices->cards[i - 1].index != card->index;
        cards[i] = (struct labelled){card,
                                     &view->cards[i],
                                     buf_str(&labels),
                                     card->is_mig ? whole : buf_str(&labels),
                                     is_first,
                                     card->state == DEVICE_ANSWERS};
    }
}

// The gauges that have a metric, as rows.
static const struct serve_metric_row *gauge_rows(struct arena *a, bool is_of_card) {
    struct serve_metric_row *rows = arena_new(a, struct serve_metric_row, device_field_count + 1),
                            *row = rows;
    for (const struct device_field *f = device_fields; f < device_fields + device_field_count;
         f++) {
        if (!f->metric || f->is_of_card != is_of_card) continue;
        struct str name = str_format(a, "batchfit_gpu_%s", f->metric);
        bool is_counter = str_ends(name, STR("_total")), is_clock = str_ends(name, STR("_hertz"));
        *row++ = (struct serve_metric_row){
            name.p,      is_counter ? SERVE_METRIC_COUNTER : SERVE_METRIC_GAUGE,
            f->label,    f->offset,
            f->is_whole, is_clock ? MHZ : 1,
            f->help};
    }
    return rows;
}

// By row and then by GPU: series of one name must stand together.
static void add_rows(struct serve_metric_sheet *sheet, const struct serve_metric_row *rows,
                     const struct labelled *cards, int count, bool is_whole, bool is_watched) {
    for (const struct serve_metric_row *row = rows; row->name; row++) {
        for (int i = 0; i < count; i++) {
            const struct labelled *c = &cards[i];
            if (!c->answers || (is_whole && !c->is_first)) continue;
            const void *of = is_watched ? (const void *)c->watched : (const void *)c->card;
            serve_metric_add_row(sheet, row, is_whole ? c->whole_labels : c->labels, of);
        }
    }
}

static void add_reasons(struct arena *a, struct serve_metric_sheet *sheet,
                        const struct labelled *cards, int count) {
    for (int i = 0; i < count; i++) {
        int64_t now = cards[i].card->now.event_reasons;
        if (!cards[i].answers || !cards[i].is_first || now < 0) continue;
        for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
            struct str labels = str_format(a, "%.*s,reason=\"%s\"", STR_ARG(cards[i].whole_labels),
                                           reasons[r].label);
            serve_metric_add(sheet, "batchfit_gpu_clock_event", SERVE_METRIC_GAUGE,
                             "1: a reason why the clocks are limited now; idle is normal.", labels,
                             (now & reasons[r].bit) != 0);
        }
    }
}

static void add_info(struct arena *a, struct serve_metric_sheet *sheet,
                     const struct labelled *cards, int count) {
    for (int i = 0; i < count; i++) {
        const struct device_facts *f = &cards[i].card->facts;
        struct buf labels = buf_new(a);
        buf_add(&labels, cards[i].labels);
        serve_metric_label(&labels, "name", str_of(f->name));
        if (f->pci_bus_id[0]) serve_metric_label(&labels, "pci_bus_id", str_of(f->pci_bus_id));
        if (f->vbios[0]) serve_metric_label(&labels, "vbios", str_of(f->vbios));
        if (f->compute_major >= 0 && f->compute_minor >= 0) {
            serve_metric_label(&labels, "compute_capability",
                               str_format(a, "%lld.%lld", (long long)f->compute_major,
                                          (long long)f->compute_minor));
        }
        serve_metric_label(&labels, "mig", cards[i].card->is_mig ? STR("1") : STR("0"));
        serve_metric_label(&labels, "unified", cards[i].card->is_unified ? STR("1") : STR("0"));
        serve_metric_add(sheet, "batchfit_gpu_info", SERVE_METRIC_GAUGE,
                         "A GPU or GPU instance; always 1. Join it by uuid.", buf_str(&labels), 1);
    }
}

// How old the figures are, in real time also where a recording is played faster.
static double age_s(const struct serve *s, int64_t at_ns) {
    double speed = s->watching.machine && s->watching.speed > 0 ? s->watching.speed : 1;
    int64_t began = s->view->started_ns;
    double real_ns = (double)began + (double)(at_ns - began) / speed;
    return fmax(((double)os_now_ns() - real_ns) / 1e9, 0);
}

static void add_states(const struct serve *s, struct serve_metric_sheet *sheet,
                       const struct labelled *cards, int count) {
    for (int i = 0; i < count; i++) {
        if (cards[i].card->state == DEVICE_WAITS) continue;
        serve_metric_add(
            sheet, "batchfit_gpu_up", SERVE_METRIC_GAUGE,
            "1: the GPU answers; 0: it is lost, hangs or sleeps, and has no figures here.",
            cards[i].labels, cards[i].answers);
    }
    for (int i = 0; i < count; i++) {
        int64_t at_ns = cards[i].card->now.at_ns;
        serve_metric_add(sheet, "batchfit_gpu_reading_age_seconds", SERVE_METRIC_GAUGE,
                         "Time since the GPU was last read.", cards[i].labels,
                         at_ns > 0 ? age_s(s, at_ns) : (double)NAN);
    }
}

static void add_cards(struct arena *a, struct serve_metric_sheet *sheet, const struct serve *s) {
    int count = s->view->devices->count;
    struct labelled *cards = arena_new(a, struct labelled, count + 1);
    label_cards(a, s->view, cards);
    add_info(a, sheet, cards, count);
    add_states(s, sheet, cards, count);
    add_rows(sheet, gauge_rows(a, false), cards, count, false, false);
    add_rows(sheet, of_holders, cards, count, false, true);
    add_rows(sheet, gauge_rows(a, true), cards, count, true, false);
    add_rows(sheet, of_window, cards, count, true, true);
    add_reasons(a, sheet, cards, count);
}

// --- Findings

static void add_findings(struct arena *a, struct serve_metric_sheet *sheet,
                         const struct observe_view *view) {
    for (ptrdiff_t i = 0; i < view->findings.count; i++) {
        const struct finding *f = &view->findings.items[i];
        if (f->severity < FINDING_WARNING) continue;
        struct buf labels = buf_new(a);
        serve_metric_label(&labels, "id", str_of(f->id));
        serve_metric_label(&labels, "severity", str_of(finding_severity_name(f->severity)));
        serve_metric_label_card(a, &labels, view, f->card);
        serve_metric_add(sheet, "batchfit_finding", SERVE_METRIC_GAUGE,
                         "Current findings of batchfit's rules; absent if fine.", buf_str(&labels),
                         1);
    }
}

struct str serve_metrics(struct arena *a, struct serve *s, bool is_open) {
    int64_t begin = os_now_ns();
    struct serve_metric_sheet sheet = {buf_new(a), is_open, NULL};
    add_cards(a, &sheet, s);
    serve_metrics_of_host(a, &sheet, s);
    serve_metrics_of_runs(a, &sheet, s->view);
    add_findings(a, &sheet, s->view);
    serve_metrics_of_fleet(a, &sheet, s);
    if (s->options->dcgm_names) serve_metrics_of_dcgm(a, &sheet, s->view);
    s->own.metrics_rendered++;
    s->own.metrics_seconds = (double)(os_now_ns() - begin) / 1e9;
    serve_metrics_of_serve(a, &sheet, s);
    if (is_open) buf_add(&sheet.out, STR("# EOF\n"));
    return buf_str(&sheet.out);
}
