// SPDX-License-Identifier: Apache-2.0
// One table a kind of object: its members by their keys. The gauges of GPUs are those of
// device_fields.
#include "measure/observe/document.h"

#include "base/json.h"

#include <stddef.h>
#include <string.h>

static json_t *chars(const char *text) {
    return json_text(str_of(text));
}

// --- GPUs ----------------------------------------------------------------------------------------

static void add_fields(json_t *to, const struct device_card *card, const char *group) {
    for (const struct device_field *f = device_fields; f < device_fields + device_field_count;
         f++) {
        if (strcmp(f->group, group) != 0) continue;
        const struct field row = {f->name, f->is_whole ? FIELD_WHOLE : FIELD_REAL, f->offset, NULL};
        json_object_set_new(to, f->name, json_field(card, &row));
    }
}

#define W(member) FIELD(struct observe_window, member)
static const struct field window[] = {
    W(seconds),          W(throttled_share),  W(power_cap_share),   W(sync_boost_share),
    W(sw_thermal_share), W(hw_thermal_share), W(power_brake_share), W(clock_lost_share),
    W(utilisation_mean), W(power_mean_watts), W(energy_joules),     W(energy_is_integrated),
    {.name = NULL},
};
#undef W

static const struct {
    int kind;
    const char *name;
} process_kinds[] = {
    {DEVICE_COMPUTE, "compute"}, {DEVICE_GRAPHICS, "graphics"}, {DEVICE_MPS, "mps"}};

#define P(member) FIELD(struct device_process, member)
static const struct field process_fields[] = {
    P(used_bytes), P(utilisation), P(host_bytes), P(age_s), {.name = NULL},
};
#undef P

static json_t *process_of(const struct device_process *p) {
    json_t *kinds = json_array();
    for (size_t i = 0; i < sizeof process_kinds / sizeof *process_kinds; i++) {
        if (p->kinds & process_kinds[i].kind) {
            json_array_append_new(kinds, json_string(process_kinds[i].name));
        }
    }
    json_t *process = json_object();
    json_object_set_new(process, "pid", json_integer(p->pid));
    json_object_set_new(process, "name", chars(p->name));
    json_object_set_new(process, "kinds", kinds);
    json_object_set_new(process, "user", chars(p->user));
    json_object_set_new(process, "command", chars(p->command));
    json_add_fields(process, p, process_fields);
    return process;
}

static json_t *processes_of(const struct device_card *card) {
    if (!card->has_processes) return json_null();
    json_t *list = json_array();
    for (int i = 0; i < card->process_count; i++) {
        json_array_append_new(list, process_of(&card->processes[i]));
    }
    return list;
}

static json_t *facts_of(const struct device_card *card) {
    json_t *made = json_object();
    json_object_set_new(made, "pci_bus_id", chars(card->facts.pci_bus_id));
    json_object_set_new(made, "vbios", chars(card->facts.vbios));
    add_fields(made, card, "facts");
    return made;
}

static json_t *card_of(const struct device_card *card, const struct observe_card *watched) {
    static const struct field owners[] = {FIELD(struct observe_card, ours_bytes),
                                          FIELD(struct observe_card, others_bytes),
                                          {.name = NULL}};
    json_t *made = json_object(), *bytes = json_object(), *gauges = json_object();
    add_fields(bytes, card, "memory");
    json_add_fields(bytes, watched, owners);
    add_fields(gauges, card, "gauges");
    json_object_set_new(made, "index", json_integer(card->index));
    json_object_set_new(made, "name", chars(card->facts.name));
    json_object_set_new(made, "uuid", chars(card->facts.uuid));
    json_object_set_new(made, "is_mig", json_boolean(card->is_mig));
    json_object_set_new(made, "is_unified", json_boolean(card->is_unified));
    json_object_set_new(made, "state", json_string(device_state_name(card->state)));
    json_object_set_new(made, "reason", chars(card->reason));
    json_object_set_new(made, "facts", facts_of(card));
    json_object_set_new(made, "memory", bytes);
    json_object_set_new(made, "gauges", gauges);
    json_object_set_new(made, "window", json_fields(&watched->window, window));
    json_object_set_new(made, "since", json_fields(&watched->since, window));
    json_object_set_new(made, "processes", processes_of(card));
    json_object_set_new(made, "processes_unlisted", json_integer(card->processes_unlisted));
    return made;
}

// --- Runs ----------------------------------------------------------------------------------------

#define R(member) FIELD(struct observe_run, member)
static const struct field run[] = {
    R(id),
    R(pid),
    R(verb),
    R(model),
    R(command),
    R(precision),
    R(standin),
    R(card),
    R(batch),
    R(accumulation),
    R(ranks),
    {"steps", FIELD_WHOLE, offsetof(struct observe_run, steps_done), NULL},
    {"samples", FIELD_WHOLE, offsetof(struct observe_run, samples_done), NULL},
    R(alloc_retries),
    {"samples_per_second", FIELD_REAL, offsetof(struct observe_run, samples_per_s), NULL},
    R(samples_per_joule),
    R(predicted_peak_bytes),
    R(predicted_upper_bytes),
    R(peak_bytes),
    {.name = NULL},
};
#undef R

#define P(member) \
    { #member, FIELD_REAL, offsetof(struct step_times, member##_ms), NULL }
static const struct field phases[] = {STEP_TIMES(P), {.name = NULL}};
#undef P

static json_t *run_of(const struct observe_run *r) {
    json_t *made = json_fields(r, run);
    json_object_set_new(made, "state", json_string(observe_run_state_name(r->state)));
    json_object_set_new(made, "phases_ms", json_fields(&r->phases, phases));
    return made;
}

// --- Document ------------------------------------------------------------------------------------

static json_t *driver_of(const struct device_snapshot *s) {
#define D(key, member) \
    { key, FIELD_TEXT, offsetof(struct device_snapshot, member), NULL }
    static const struct field texts[] = {D("version", driver_version),
                                         D("cuda", cuda_version),
                                         D("why_none", why_none),
                                         D("left_out", left_out),
                                         FIELD(struct device_snapshot, is_wsl),
                                         {.name = NULL}};
#undef D
    json_t *made = json_object();
    json_object_set_new(made, "state", json_string(device_state_name(s->state)));
    json_add_fields(made, s, texts);
    return made;
}

static json_t *cpu_of(const struct observe_view *view) {
#define C(member) FIELD(struct device_cpu_gauges, member)
    static const struct field rows[] = {
        C(utilisation),         C(io_wait),         C(load),
        C(total_bytes),         C(available_bytes), C(swap_total_bytes),
        C(swap_used_bytes),     C(power_watts),     C(energy_joules),
        C(temperature_celsius), C(memory_stalled),  {.name = NULL}};
#undef C
    if (!view->has_cpu) return json_null();
    json_t *made = json_object();
    json_object_set_new(made, "cores", json_size(view->cpu.cores));
    json_add_fields(made, &view->cpu, rows);
    return made;
}

json_t *observe_document_findings(const struct findings *findings) {
    // check's words: a note is ok, a warning warn, a problem fail.
    static const char *const statuses[] = {
        [FINDING_OK] = "ok",        [FINDING_NOTE] = "ok",      [FINDING_UNKNOWN] = "unknown",
        [FINDING_WARNING] = "warn", [FINDING_PROBLEM] = "fail",
    };
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->items[i];
        json_t *made = json_object();
        json_object_set_new(made, "id", json_string(f->id));
        json_object_set_new(made, "status", json_string(statuses[f->severity]));
        json_object_set_new(made, "severity", json_string(finding_severity_name(f->severity)));
        json_object_set_new(made, "card", f->card >= 0 ? json_integer(f->card) : json_null());
        json_object_set_new(made, "what", json_string(f->what));
        json_object_set_new(made, "value", json_text(f->value));
        json_object_set_new(made, "evidence", json_text(f->evidence));
        json_object_set_new(made, "remedy", json_text(f->remedy));
        json_object_set_new(made, "since_ms",
                            f->since_ms > 0 ? json_integer(f->since_ms) : json_null());
        json_array_append_new(list, made);
    }
    return list;
}

static json_t *resolved_of(const struct observe_view *view) {
    json_t *list = json_array();
    for (int i = 0; i < view->resolved_count; i++) {
        const struct observe_resolved *r = &view->resolved[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:s, s:I, s:I}", "id", r->id, "severity",
                                        finding_severity_name(r->severity), "card",
                                        r->card >= 0 ? json_integer(r->card) : json_null(), "what",
                                        r->what, "since_ms", (json_int_t)r->since_ms, "until_ms",
                                        (json_int_t)r->until_ms));
    }
    return list;
}

json_t *observe_document(const struct observe_view *view) {
    const struct device_snapshot *devices = view->devices;
    json_t *cards = json_array(), *runs = json_array(), *made = json_object();
    for (int i = 0; i < devices->count; i++) {
        json_array_append_new(cards, card_of(&devices->cards[i], &view->cards[i]));
    }
    for (int i = 0; i < view->run_count; i++) json_array_append_new(runs, run_of(&view->runs[i]));
    json_object_set_new(made, "watch", json_integer(1));
    json_object_set_new(made, "at_ms", json_integer(view->at_ms));
    json_object_set_new(made, "standin", json_text(devices->standin));
    json_object_set_new(made, "driver", driver_of(devices));
    json_object_set_new(made, "cpu", cpu_of(view));
    json_object_set_new(made, "cards", cards);
    json_object_set_new(made, "runs", runs);
    json_object_set_new(made, "runs_unlisted", json_integer(view->runs_unlisted));
    json_object_set_new(made, "findings", observe_document_findings(&view->findings));
    json_object_set_new(made, "resolved", resolved_of(view));
    return made;
}

// --- History -------------------------------------------------------------------------------------

struct span {
    const struct observe_view *view;
    int64_t from_ns;
    int points;
};

// Which items of `count` are shown, oldest first: every `stride`-th, always the newest.
static ptrdiff_t stride_of(const struct span *span, ptrdiff_t count) {
    return span->points > 0 && count > span->points ? (count + span->points - 1) / span->points : 1;
}

static json_t *series(const struct span *span, const char *items, ptrdiff_t count, size_t size,
                      const struct field *row) {
    json_t *list = json_array();
    ptrdiff_t stride = stride_of(span, count), first = count ? (count - 1) % stride : 0;
    for (ptrdiff_t i = first; i < count; i += stride) {
        json_array_append_new(list, json_field(items + i * (ptrdiff_t)size, row));
    }
    return list;
}

// Times on the clock of the watch as milliseconds since 1970.
static json_t *times(const struct span *span, const char *items, ptrdiff_t count, size_t size) {
    json_t *list = json_array();
    ptrdiff_t stride = stride_of(span, count), first = count ? (count - 1) % stride : 0;
    for (ptrdiff_t i = first; i < count; i += stride) {
        int64_t at_ns = *(const int64_t *)(const void *)(items + i * (ptrdiff_t)size);
        int64_t ago_ms = (span->view->at_ns - at_ns) / 1000000;
        json_array_append_new(list, json_integer(span->view->at_ms - ago_ms));
    }
    return list;
}

// The part of items (which begin with their at_ns) that is in the span.
static ptrdiff_t begin_of(const struct span *span, const char *items, ptrdiff_t count,
                          size_t size) {
    ptrdiff_t begin = count;
    while (begin > 0) {
        const char *at = items + (begin - 1) * (ptrdiff_t)size;
        if (*(const int64_t *)(const void *)at < span->from_ns) break;
        begin--;
    }
    return begin;
}

static json_t *all_series(const struct span *span, const void *all, ptrdiff_t count, size_t size,
                          const struct field *rows) {
    ptrdiff_t begin = begin_of(span, all, count, size);
    const char *items = (const char *)all + begin * (ptrdiff_t)size;
    json_t *made = json_object();
    json_object_set_new(made, "at_ms", times(span, items, count - begin, size));
    for (; rows->name; rows++) {
        json_object_set_new(made, rows->name, series(span, items, count - begin, size, rows));
    }
    return made;
}

static const struct field card_series[] = {
    FIELD(struct device_gauges, utilisation),
    FIELD(struct device_gauges, used_bytes),
    FIELD(struct device_gauges, power_watts),
    FIELD(struct device_gauges, temperature_celsius),
    FIELD(struct device_gauges, sm_clock_mhz),
    FIELD(struct device_gauges, memory_utilisation),
    {.name = NULL},
};
static const struct field step_series[] = {
    {"total_ms", FIELD_REAL, offsetof(struct trend_step, times.total_ms), NULL},
    {"io_ms", FIELD_REAL, offsetof(struct trend_step, times.io_ms), NULL},
    {.name = NULL},
};

json_t *observe_document_history(const struct observe_view *view, double seconds, int points) {
    int64_t back_ns = seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : INT64_MAX / 2;
    const struct span span = {view, view->at_ns - back_ns, points};
    static const struct field ours = {"ours_bytes", FIELD_WHOLE, 0, NULL};
    json_t *cards = json_array(), *runs = json_array(), *made = json_object();
    for (int i = 0; i < view->devices->count; i++) {
        const struct observe_card *c = &view->cards[i];
        json_t *one =
            all_series(&span, c->history, c->history_count, sizeof *c->history, card_series);
        ptrdiff_t begin =
            begin_of(&span, (const char *)c->history, c->history_count, sizeof *c->history);
        json_object_set_new(one, "ours_bytes",
                            series(&span, (const char *)(c->ours_history + begin),
                                   c->history_count - begin, sizeof *c->ours_history, &ours));
        json_array_append_new(cards, one);
    }
    for (int i = 0; i < view->run_count; i++) {
        const struct observe_run *r = &view->runs[i];
        json_t *one = all_series(&span, r->steps, r->step_count, sizeof *r->steps, step_series);
        json_object_set_new(one, "id", json_text(r->id));
        json_array_append_new(runs, one);
    }
    json_object_set_new(made, "history", json_integer(1));
    json_object_set_new(made, "interval_ms", json_integer(view->interval_ms));
    json_object_set_new(made, "at_ms", json_integer(view->at_ms));
    json_object_set_new(made, "cards", cards);
    json_object_set_new(made, "runs", runs);
    return made;
}
