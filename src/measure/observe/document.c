// SPDX-License-Identifier: Apache-2.0
// One table a kind of object: its members by their keys. The gauges of GPUs are those of
// device_fields.
#include "measure/observe/observe.h"
#include "measure/observe/observe_int.h"

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

#define P(member) FIELD(struct device_process, member)
static const struct field process_fields[] = {
    P(used_bytes), P(utilisation), P(host_bytes), P(age_s), {.name = NULL},
};
#undef P

static json_t *process_of(const struct device_process *p) {
    json_t *kinds = json_array();
    for (int i = 0; i < DEVICE_PROCESS_KINDS; i++) {
        const struct device_kind_name *known = &device_process_kinds[i];
        if (p->kinds & known->kind) json_array_append_new(kinds, json_string(known->name));
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

#define D(member) FIELD(struct observe_day, member)
static const struct field day_fields[] = {
    D(seconds), D(throttled_seconds), D(idle_seconds), D(energy_joules), {.name = NULL},
};
#undef D

static json_t *day_of(const struct observe_card *watched) {
    struct observe_day day = observe_day_of(watched);
    return day.seconds > 0 ? json_fields(&day, day_fields) : json_null();
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
    json_object_set_new(made, "day", day_of(watched));
    json_object_set_new(made, "processes", processes_of(card));
    json_object_set_new(made, "processes_unlisted", json_integer(card->processes_unlisted));
    return made;
}

// --- Runs ----------------------------------------------------------------------------------------

static json_t *run_of(const struct observe_run *r) {
    json_t *made = json_fields(r, observe_run_fields);
    json_object_set_new(made, "state", json_string(observe_run_state_name(r->state)));
    json_object_set_new(made, "phases_ms", json_fields(&r->phases, observe_phase_fields));
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

static json_t *findings_of(const struct findings *findings) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->items[i];
        json_t *made = finding_json(f, f->card);
        json_object_set_new(made, "since_ms", json_size(f->since_ms));
        json_array_append_new(list, made);
    }
    return list;
}

static json_t *resolved_of(const struct observe_view *view) {
    json_t *list = json_array();
    for (int i = 0; i < view->resolved_count; i++) {
        const struct observe_resolved *r = &view->resolved[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:I, s:I}", "id", r->id,
                                              "severity", finding_severity_name(r->severity),
                                              "card", json_count(r->card), "what", r->what,
                                              "since_ms", (json_int_t)r->since_ms, "until_ms",
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
    json_object_set_new(made, "watched_ms", json_integer(view->watched_ms));
    json_object_set_new(made, "standin", json_text(devices->standin));
    json_object_set_new(made, "driver", driver_of(devices));
    json_object_set_new(made, "cpu", cpu_of(view));
    json_object_set_new(made, "cards", cards);
    json_object_set_new(made, "runs", runs);
    json_object_set_new(made, "runs_unlisted", json_integer(view->runs_unlisted));
    json_object_set_new(made, "findings", findings_of(&view->findings));
    json_object_set_new(made, "resolved", resolved_of(view));
    json_object_set_new(made, "cost_per_hour",
                        view->cost_per_hour > 0 ? json_real(view->cost_per_hour) : json_null());
    return made;
}
