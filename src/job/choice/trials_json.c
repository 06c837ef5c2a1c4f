// SPDX-License-Identifier: Apache-2.0
// What the trials showed, as a document (doc/formats/fit.md).
#include "job/choice/choice_int.h"

#include "job/answer/tta.h"

static json_t *json_covered(unsigned covered) {
    json_t *list = json_array();
    for (int i = 0; step_cover_names[i]; i++) {
        if (covered & (1u << i)) json_array_append_new(list, json_string(step_cover_names[i]));
    }
    return list;
}

static json_t *json_trial(const struct choice_trial *t) {
    const struct launch_result *r = &t->result;
    const struct failure_signature *s = r->trial.ending.signature;
    return json_pack(
        "{s:I, s:I, s:s, s:I, s:o, s:o, s:[o, o], s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, "
        "s:I, s:b}",
        "batch_size", (json_int_t)t->plan.batch, "gradient_accumulation_steps",
        (json_int_t)t->plan.accumulation, "status", launch_status_name(r->status), "steps",
        (json_int_t)r->made, "peak_bytes", json_size(r->peak_bytes), "samples_per_s",
        json_number(r->samples_per_s), "samples_per_s_ci", json_number(r->samples_per_s_ci.low),
        json_number(r->samples_per_s_ci.high), "covered", json_covered(r->covered), "total_ms",
        json_number(r->times.total_ms), "torch_allocated_bytes",
        json_size(r->torch_allocated_bytes), "torch_reserved_bytes",
        json_size(r->torch_reserved_bytes), "reason", json_text(r->reason), "seconds",
        json_number(r->trial.seconds), "ending", s->id, "exit_status",
        json_count(r->trial.ending.exit_status), "signal", json_size(r->trial.ending.signal),
        "killed_strays", (json_int_t)r->trial.killed_strays, "is_recalled", t->is_recalled);
}

static json_t *json_trials(const struct choice_measured *m) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        json_array_append_new(list, json_trial(&m->trials[i]));
    }
    return list;
}

// A trial never resumes.
static json_t *json_not_covered(const struct choice_measured *m) {
    json_t *list = json_covered(choice_not_covered(m));
    if (!m->q->plan.inference) json_array_append_new(list, json_string("resume"));
    return list;
}

static json_t *json_effective(const struct choice_measured *m) {
    static const char *const from[] = {NULL, "asked", "default"};
    const struct choice_effective *e = &m->effective;
    return json_pack("{s:o, s:o, s:o, s:o}", "before", json_size(e->before), "after",
                     json_size(e->after), "from", json_text(str_of(from[e->from])), "is_kept",
                     e->before > 0 && e->after > 0 ? json_boolean(e->before == e->after)
                                                   : json_null());
}

// What the trials say stands in the result, beside what was predicted.
static void add_measured(json_t *to, const struct choice_measured *m) {
    json_object_set_new(to, "trials", json_trials(m));
    json_object_set_new(to, "launches", json_integer(m->found.launches));
    json_object_set_new(to, "out_of_memory", json_integer(m->found.out_of_memory));
    json_object_set_new(to, "confirmed", json_boolean(m->confirmed));
    json_object_set_new(to, "knee_batch_size", json_size(m->knee_batch));
    json_object_set_new(to, "knee_is_certain", json_boolean(m->knee_is_certain));
    json_object_set_new(to, "largest_batch_size", json_size(m->found.largest));
    json_object_set_new(to, "is_capped", json_boolean(choice_is_capped(m)));
    json_object_set_new(to, "not_covered", json_not_covered(m));
    json_object_set_new(to, "effective_batch_size", json_effective(m));
    json_object_set_new(to, "prediction_is_refuted", json_boolean(m->is_refuted));
    json_object_set_new(to, "device", json_text(m->launch.place.name));
}

static json_t *json_result(const struct choice_measured *m) {
    const struct gpu *gpu = &m->card.gpu;
    json_t *result = m->is_predicted ? answer_json(&m->predicted) : json_object();
    json_object_set_new(result, "gpu",
                        json_pack("{s:o, s:I, s:I, s:s}", "name", json_text(gpu->name),
                                  "total_bytes", (json_int_t)gpu->total_bytes, "usable_bytes",
                                  (json_int_t)gpu->usable_bytes, "tier",
                                  gpu_tier_name(gpu_tier(gpu))));
    json_object_set_new(result, "plan", answer_plan_json(&m->chosen.plan));
    json_object_set_new(result, "budget_bytes", json_integer(m->budget_bytes));
    json_object_set_new(result, "capacity_bytes", json_integer(m->launch.place.capacity_bytes));
    json_object_set_new(result, "safety_margin", json_real(m->margin));
    json_object_set_new(result, "verdict", json_string(m->best ? "FITS" : "OOM"));
    json_object_set_new(result, "verdict_basis", json_string("measured"));
    json_object_set_new(result, "fits_budget", json_boolean(m->best != NULL));
    json_object_set_new(result, "margin_kept", json_boolean(m->best != NULL));
    json_object_set_new(result, "config_written", json_boolean(m->chosen.config_written));
    const char *unwritten = m->chosen.not_written ? m->chosen.not_written : "not_asked";
    json_object_set_new(result, "not_written",
                        m->chosen.config_written ? json_null() : json_string(unwritten));
    if (!m->is_predicted) json_object_set_new(result, "peak", json_null());
    add_measured(result, m);
    if (m->chosen.tta) answer_tta_json(result, m->chosen.tta);
    return result;
}

json_t *choice_trials_json(const struct choice_measured *m) {
    json_t *notes = json_texts(&m->q->notes), *more = json_texts(&m->launch.notes);
    json_t *of_history = json_texts(&m->history->notes);
    json_array_extend(notes, more);
    json_array_extend(notes, of_history);
    json_decref(more);
    json_decref(of_history);
    json_t *document = json_pack("{s:[o], s:o, s:o}", "results", json_result(m), "not_modelled",
                                 answer_not_modelled_json(m->q), "notes", notes);
    if (document && m->q->config.files.count > 0)
        json_object_set_new(document, "files", json_texts(&m->q->config.files));
    if (document && m->chosen.tta) answer_tta_json(document, m->chosen.tta);
    if (document) add_measured(document, m); // for scripts that look at one result only
    return document;
}
