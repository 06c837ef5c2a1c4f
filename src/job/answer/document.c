// SPDX-License-Identifier: Apache-2.0
// The answers of --json.
#include "job/answer/answer.h"
#include "job/answer/tta.h"

json_t *answer_not_modelled_json(const struct question *q) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!question_counts_out(q, g)) continue;
        json_t *guard = json_pack("{s:o, s:o, s:o, s:o, s:i}", "kind", json_text(g->kind), "what",
                                  json_text(g->what), "key", json_text(g->path), "value",
                                  json_text(g->value), "line", g->line);
        if (g->file.len > 0) json_object_set_new(guard, "file", json_text(g->file));
        json_array_append_new(list, guard);
    }
    return list;
}

static json_t *json_remedies(const struct forecast_remedies *remedies) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < remedies->count; i++) {
        const struct forecast_remedy *r = &remedies->items[i];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:I, s:I, s:b}", "what", json_text(r->what), "cost",
                            json_text(r->cost), "needed_bytes", (json_int_t)r->needed_bytes,
                            "saved_bytes", (json_int_t)r->saved_bytes, "is_enough", r->is_enough));
    }
    return list;
}

json_t *answer_plan_json(const struct plan *p) {
    struct str precision = {0};
    if (p->precision) precision = str_of(plan_precision_name(p->precision));
    json_t *plan = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:b}", "model",
        json_text(p->model), "image_size", json_size(p->image_size), "sequence_length",
        json_size(p->sequence_length), "target_length", json_size(p->target_length), "batch_size",
        (json_int_t)p->batch, "gradient_accumulation_steps", (json_int_t)p->accumulation,
        "effective_batch_size", (json_int_t)plan_effective(p), "ranks", (json_int_t)p->ranks,
        "precision", json_text(precision), "optimizer", json_text(p->optimizer), "checkpointing",
        p->checkpointing, "inference", p->inference);
    if (p->adapter.len > 0) json_object_set_new(plan, "adapter", json_text(p->adapter));
    if (p->quant.len > 0) json_object_set_new(plan, "quant", json_text(p->quant));
    if (p->loss.len > 0) json_object_set_new(plan, "loss", json_text(p->loss));
    if (p->compile) json_object_set_new(plan, "compile", json_true());
    if (p->shard.len > 0) json_object_set_new(plan, "shard", json_text(p->shard));
    if (p->tensor_parallel > 1)
        json_object_set_new(plan, "tensor_parallel", json_integer(p->tensor_parallel));
    return plan;
}

static json_t *json_peak(const struct forecast_peak *peak) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "allocated_bytes",
                     (json_int_t)peak->allocated_bytes, "reserved_bytes",
                     (json_int_t)peak->reserved_bytes, "needed_bytes",
                     (json_int_t)peak->needed_bytes, "overhead_bytes",
                     (json_int_t)peak->overhead_bytes, "upper_bytes", (json_int_t)peak->upper_bytes,
                     "needed_is_exact", peak->needed_is_exact, "in_gap", peak->is_in_gap);
}

static json_t *json_memory(const struct answer *answer) {
    const struct answer_memory m = answer_memory(answer);
    return json_pack("{s:I, s:I, s:I, s:I}", "expected_bytes", (json_int_t)m.expected_bytes,
                     "worst_bytes", (json_int_t)m.worst_bytes, "usable_bytes",
                     (json_int_t)m.usable_bytes, "headroom_bytes", (json_int_t)m.headroom_bytes);
}

static json_t *json_correction(const struct forecast_correction *c) {
    if (c->runs <= 0) return json_null();
    return json_pack("{s:I, s:I, s:f, s:f, s:f}", "runs", (json_int_t)c->runs, "models",
                     (json_int_t)c->models, "factor", c->factor, "fit_factor", c->fit_factor,
                     "upper_factor", c->upper_factor);
}

json_t *answer_json(const struct answer *answer) {
    const struct gpu *gpu = &answer->card.gpu;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, answer->plan.batch, answer->plan.accumulation);
    json_t *object = json_pack(
        "{s:{s:o, s:I, s:I, s:s}, s:o, s:o, s:o, s:I, s:I, s:f, s:s, s:b, s:b, s:o, s:{s:o, s:o, "
        "s:o}, s:s, s:o, s:o, s:o}",
        "gpu", "name", json_text(gpu->name), "total_bytes", (json_int_t)gpu->total_bytes,
        "usable_bytes", (json_int_t)gpu->usable_bytes, "tier", gpu_tier_name(gpu_tier(gpu)), "plan",
        answer_plan_json(&answer->plan), "peak", json_peak(&answer->peak), "speed",
        answer_speed_json(&answer->speed), "budget_bytes", (json_int_t)answer->budget_bytes,
        "capacity_bytes", (json_int_t)forecast_capacity(&answer->card), "safety_margin",
        answer->card.margin, "verdict", forecast_verdict_name(answer->peak.verdict), "fits_budget",
        answer->fits, "config_written", answer->config_written, "largest_batch_size",
        json_size(answer->largest_batch), "tape", "model", json_text(t->entry->header.model),
        "torch", json_text(t->tape->header.torch), "library", json_text(t->tape->header.library),
        "band",
        answer->card.correction.runs > 0 ? "runs measured on this GPU" : forecast_band_source,
        "correction", json_correction(&answer->card.correction), "notes",
        json_texts(&answer->notes), "remedies", json_remedies(&answer->remedies));
    const char *unwritten = answer->not_written ? answer->not_written : "not_asked";
    json_object_set_new(object, "memory", json_memory(answer));
    json_object_set_new(object, "host", answer_host_json(answer));
    json_object_set_new(object, "verdict_basis", json_string(answer->verdict_basis));
    if (t->template.len > 0)
        json_object_set_new(json_object_get(object, "tape"), "template", json_text(t->template));
    json_object_set_new(object, "margin_kept", json_boolean(answer_margin_kept(answer)));
    json_object_set_new(object, "not_written",
                        answer->config_written ? json_null() : json_string(unwritten));
    json_object_set_new(object, "eval", answer_eval_json(answer->eval));
    if (answer->tta) answer_tta_json(object, answer->tta);
    return object;
}

json_t *answer_document(struct question *q, const struct answer *answers, int count) {
    json_t *results = json_array();
    for (int i = 0; i < count; i++) {
        const struct answer *of = &answers[i];
        json_t *result = answer_json(of);
        json_object_set_new(result, "headline", json_text(answer_verdict_text(q, of)));
        json_object_set_new(result, "counted", json_boolean(answer_is_counted(q, of)));
        json_array_append_new(results, result);
    }
    json_t *document = json_pack("{s:o, s:o, s:o}", "results", results, "not_modelled",
                                 answer_not_modelled_json(q), "notes", json_texts(&q->notes));
    if (document && q->config.files.count > 0)
        json_object_set_new(document, "files", json_texts(&q->config.files));
    // For scripts that look at one result only.
    if (document && count == 1 && answers[0].tta) answer_tta_json(document, answers[0].tta);
    return document;
}

int answer_print_json(struct question *q, const struct answer *answers, int count,
                      struct fail *why) {
    return json_print(answer_document(q, answers, count), why);
}
