// SPDX-License-Identifier: Apache-2.0
// The answer of a benchmark as a document: doc/formats/bench.md.
#include "job/grid/grid.h"

static json_t *yes_or_no(int value) {
    return value < 0 ? json_null() : value ? json_true() : json_false();
}

static json_t *axes_json(const struct grid *b, const struct grid_setting *s) {
    json_t *axes = json_object();
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        char *name = str_z(b->arena, b->grid.axes[i].name);
        json_object_set_new(axes, name, json_text(s->axes[i]));
    }
    return axes;
}

// The settings of a row, which also stand in "best".
static json_t *setting_json(const struct grid *b, const struct grid_row *r) {
    const struct grid_setting *s = &r->setting;
    json_t *precision = s->precision ? json_string(plan_precision_name(s->precision)) : json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "batch_size", json_size(grid_batch_of(r)),
                     "workers", json_count(s->workers), "precision", precision, "pin_memory",
                     yes_or_no(s->pin_memory), "compile", yes_or_no(s->compile), "axes",
                     axes_json(b, s));
}

static void add_inference(json_t *row, const struct grid_row *r) {
    struct stats_interval median = grid_median_ms(r);
    json_object_set_new(row, "median_ms", json_number(grid_batch_ms(r, 0.5)));
    json_object_set_new(row, "median_ms_ci",
                        json_pack("[o, o]", json_number(median.low), json_number(median.high)));
    json_object_set_new(row, "p99_ms", json_number(grid_p99_ms(r)));
    json_object_set_new(row, "outputs", grid_outputs_json(&r->outputs));
    json_object_set_new(row, "engine_version", json_text(r->engine_version));
}

static json_t *row_json(const struct grid *b, const struct grid_row *r) {
    json_t *row = setting_json(b, r);
    for (int i = 0; row && i < STEP_TIME_COUNT; i++) {
        json_object_set_new(row, step_time_keys[i], json_number(r->times.ms[i]));
    }
    json_t *more = json_pack(
        "{s:s, s:b, s:o, s:[o, o], s:o, s:o, s:I, s:i, s:o, s:o}", "status",
        grid_status_name(r->status), "almost_out_of_memory", r->is_almost_out, "samples_per_s",
        json_number(r->samples_per_s), "samples_per_s_ci", json_number(r->samples_per_s_ci.low),
        json_number(r->samples_per_s_ci.high), "gpu_percent", json_number(100 * r->device_share),
        "memory_bytes", json_size(r->peak_bytes), "steps", (json_int_t)r->steps, "trials",
        (int)r->trial_count, "reason", json_text(r->reason), "hint", json_text(r->hint));
    if (row && more) json_object_update(row, more);
    json_decref(more);
    if (row && b->is_inference) add_inference(row, r);
    return row;
}

static json_t *best_json(const struct grid *b, ptrdiff_t index) {
    if (index < 0) return json_null();
    const struct grid_row *r = &b->rows.items[index];
    json_t *best = setting_json(b, r);
    json_t *more =
        json_pack("{s:I, s:o, s:o, s:o, s:o}", "row", (json_int_t)index, "samples_per_s",
                  json_number(r->samples_per_s), "memory_bytes", json_size(r->peak_bytes),
                  "memory_share", json_number(grid_share_of(r, b->place->capacity_bytes)),
                  "samples_per_s_per_gb", json_number(grid_efficiency(r)));
    if (best && more) json_object_update(best, more);
    json_decref(more);
    return best;
}

static json_t *recommended_json(const struct grid *b) {
    json_t *best = best_json(b, b->best.recommended);
    if (!json_is_object(best)) return best;
    json_object_set_new(best, "is_certain", json_boolean(b->best.is_certain));
    json_object_set_new(best, "is_safe", json_boolean(b->best.is_safe));
    return best;
}

static json_t *findings_json(const struct grid *b) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < b->findings.count; i++) {
        const struct grid_finding *f = &b->findings.items[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o, s:s, s:I}", "id", f->id, "level",
                                        f->level == GRID_WARNING ? "warning" : "info", "what",
                                        f->what, "evidence", json_text(f->evidence), "remedy",
                                        f->remedy, "row", (json_int_t)f->row));
    }
    return list;
}

static json_t *device_json(const struct launch_place *place) {
    return json_pack("{s:s, s:o, s:o, s:b, s:o}", "kind",
                     place->kind == LAUNCH_CUDA ? "cuda" : "cpu", "name", json_text(place->name),
                     "capacity_bytes", json_size(place->capacity_bytes), "is_capped",
                     place->is_capped, "standin", json_text(place->standin));
}

json_t *bench_json(struct grid *b) {
    json_t *rows = json_array();
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        json_array_append_new(rows, row_json(b, &b->rows.items[i]));
    }
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:I}", "rows", rows, "best",
                     "throughput", best_json(b, b->best.throughput), "efficiency",
                     best_json(b, b->best.efficiency), "recommended", recommended_json(b),
                     "diagnosis", findings_json(b), "notes", json_texts(&b->notes), "device",
                     device_json(b->place), "command", json_text(b->title), "reason",
                     json_text(b->reason), "ranks", (json_int_t)b->ranks);
}
