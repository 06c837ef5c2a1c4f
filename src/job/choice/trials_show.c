// SPDX-License-Identifier: Apache-2.0
// What the trials showed, for people and as a document (doc/formats/fit.md).
#include "job/choice/trials.h"

#include "base/unit.h"
#include "job/answer/breakdown.h"
#include "job/answer/tta.h"

#include <math.h>

static enum show_tone tone_of(enum launch_status status) {
    return status == LAUNCH_OK ? SHOW_GOOD : status == LAUNCH_ALMOST ? SHOW_WARN : SHOW_BAD;
}

static void rate_cells(struct show_table *t, const struct launch_result *r) {
    show_table_known(t, SHOW_PLAIN, unit_number(t->arena, r->samples_per_s));
    double half = (r->samples_per_s_ci.high - r->samples_per_s_ci.low) / 2;
    if (isnan(half))
        show_table_unknown(t);
    else
        show_table_format(t, SHOW_DIM, "%.2g", half);
}

// Enough of a message to see what it is; the document has all of it.
static struct str shortened(struct arena *a, struct str reason) {
    enum { COLUMNS = 64 };
    if (show_width(reason) <= COLUMNS) return reason;
    return str_format(a, "%.*s ...", STR_ARG(show_fit(reason, COLUMNS)));
}

static void add_row(struct show_table *t, struct arena *a, ptrdiff_t number,
                    const struct choice_trial *trial) {
    const struct launch_result *r = &trial->result;
    show_table_format(t, SHOW_DIM, "%td", number);
    show_table_format(t, SHOW_STRONG, "%lld", (long long)trial->plan.batch);
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)trial->plan.accumulation);
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)r->made);
    show_table_bytes(t, SHOW_PLAIN, r->peak_bytes);
    rate_cells(t, r);
    if (trial->is_recalled)
        show_table_cell(t, SHOW_DIM, STR("stored"));
    else
        show_table_format(t, SHOW_DIM, "%.1f s", r->trial.seconds);
    show_table_cell(t, tone_of(r->status), str_of(launch_status_name(r->status)));
    show_table_cell(t, SHOW_DIM, shortened(a, r->reason));
}

static void show_trials(const struct choice_measured *m, struct show_style style, struct buf *out) {
    static const struct show_heading columns[] = {{"trial", SHOW_RIGHT},
                                                  {"batch", SHOW_RIGHT},
                                                  {"accum.", SHOW_RIGHT},
                                                  {"steps", SHOW_RIGHT},
                                                  {"peak", SHOW_RIGHT},
                                                  {"samples/s", SHOW_RIGHT},
                                                  {"\xc2\xb1"
                                                   "95 %",
                                                   SHOW_RIGHT},
                                                  {"took", SHOW_RIGHT},
                                                  {"status", SHOW_LEFT}};
    struct show_table t = show_table_new(m->q->arena, (struct str){0});
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        bool ascii = !style.utf8 && columns[i].name[0] == '\xc2';
        show_table_column(&t, ascii ? "+-95 %" : columns[i].name, columns[i].align);
    }
    show_table_wrapping(&t, "why");
    for (ptrdiff_t i = 0; i < m->trial_count; i++) add_row(&t, m->q->arena, i + 1, &m->trials[i]);
    show_table_text(&t, style, out);
}

static void show_covered(const struct choice_measured *m, struct buf *out) {
    struct buf yes = buf_new(m->q->arena), no = buf_new(m->q->arena);
    unsigned wanted = m->q->plan.inference ? STEPS_COVER_FORWARD | STEPS_COVER_LAST_BATCH : ~0u;
    for (int i = 0; step_cover_names[i]; i++) {
        if (!(wanted & (1u << i))) continue;
        struct buf *b = m->best->result.covered & (1u << i) ? &yes : &no;
        buf_format(b, "%s%s", b->count ? ", " : "", step_cover_names[i]);
    }
    for (struct buf *b = &yes;; b = &no) {
        for (ptrdiff_t i = 0; i < b->count; i++) {
            if (b->items[i] == '_') b->items[i] = ' ';
        }
        if (b == &no) break;
    }
    buf_format(out, "The trial covered %s", buf_z(&yes));
    if (no.count > 0) buf_format(out, "; not %s", buf_z(&no));
    buf_add(out, STR(".\n"));
}

static void show_knee(const struct choice_measured *m, struct buf *out) {
    if (m->knee_batch <= 0) return;
    long long knee = m->knee_batch, largest = m->found.largest;
    if (knee == largest) {
        buf_format(out,
                   "Of the batches tried, %lld is also the smallest within 2 %% of the best "
                   "throughput.\n",
                   largest);
        return;
    }
    buf_format(out,
               "Batch %lld is as fast within 2 %%%s and leaves more memory free: --prefer knee "
               "takes it.\n",
               knee, m->knee_is_certain ? "" : " (not certain: the steps vary)");
}

static void show_choice(const struct choice_measured *m, struct show_style style, struct buf *out) {
    struct arena *a = m->q->arena;
    const struct plan *p = &m->chosen.plan;
    if (!m->best) {
        show_text(out, style, SHOW_BAD, STR("No batch fits"));
        buf_format(out, " in %s of %.*s.\n", unit_bytes(a, m->budget_bytes).p,
                   STR_ARG(m->launch.place.name));
        if (!m->is_predicted) {
            buf_add(
                out,
                STR("Gradient checkpointing, mixed precision, a smaller image or sequence, or an "
                    "optimizer with fewer\nstates would help; how much of it, batchfit explain "
                    "says for a model with a tape (batchfit record).\n"));
        }
        return;
    }
    show_text(out, style, SHOW_GOOD, str_format(a, "Batch %lld", (long long)p->batch));
    if (!p->inference) {
        buf_format(out, " x %lld accumulation = %lld samples per step", (long long)p->accumulation,
                   (long long)plan_effective(p));
    }
    if (m->best->result.peak_bytes > 0) {
        buf_format(out, ", %s of %s", unit_bytes(a, m->best->result.peak_bytes).p,
                   unit_bytes(a, m->launch.place.capacity_bytes).p);
    }
    buf_format(out, " (%.0f %% kept free), %s.\n", 100 * m->margin,
               m->confirmed ? "confirmed by its own trial" : "but it made no second step");
    double rate = m->best->result.samples_per_s;
    if (rate > 0) {
        buf_format(out, "Such a step takes %.3g s; a million samples %.3g hours.\n",
                   (double)plan_effective(p) / rate, 1e6 / rate / 3600);
    }
}

static void show_prediction(const struct choice_measured *m, struct buf *out) {
    if (!m->is_predicted || !m->best) return;
    buf_format(
        out, "Predicted for batch %lld: %s needed.\n", (long long)m->predicted.plan.batch,
        unit_bytes(m->q->arena, m->predicted.peak.needed_bytes + m->predicted.peak.overhead_bytes)
            .p);
}

void choice_show_trials(const struct choice_measured *m, struct show_style style, struct buf *out) {
    show_text(out, style, SHOW_STRONG, m->launch.place.name);
    buf_format(out, ": %td trial%s, %d out of memory\n\n", m->trial_count,
               m->trial_count == 1 ? "" : "s", m->found.out_of_memory);
    show_trials(m, style, out);
    buf_byte(out, '\n');
    show_choice(m, style, out);
    show_prediction(m, out);
    if (m->best) {
        show_knee(m, out);
        show_covered(m, out);
    }
    answer_notes(&m->launch.notes, style, out);
    answer_notes(&m->q->notes, style, out);
    answer_notes(&m->history->notes, style, out);
    if (m->chosen.tta) answer_tta_show(m->q->arena, m->chosen.tta, style, out);
    if (!m->best && m->is_predicted) {
        struct answer answer = m->predicted;
        answer_breakdown_remedies(m->q, &answer, style, out);
    }
}

// --- JSON ----------------------------------------------------------------------------------------

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
        r->trial.ending.exit_status >= 0 ? json_integer(r->trial.ending.exit_status) : json_null(),
        "signal", r->trial.ending.signal > 0 ? json_integer(r->trial.ending.signal) : json_null(),
        "killed_strays", (json_int_t)r->trial.killed_strays, "is_recalled", t->is_recalled);
}

static json_t *json_trials(const struct choice_measured *m) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < m->trial_count; i++) {
        json_array_append_new(list, json_trial(&m->trials[i]));
    }
    return list;
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
    json_object_set_new(result, "fits_budget", json_boolean(m->best != NULL));
    json_object_set_new(result, "config_written", json_boolean(m->chosen.config_written));
    if (!m->is_predicted) json_object_set_new(result, "peak", json_null());
    add_measured(result, m);
    if (m->chosen.tta) answer_tta_json(result, m->chosen.tta);
    return result;
}

json_t *choice_trials_json(const struct choice_measured *m) {
    json_t *notes = answer_notes_json(&m->q->notes), *more = answer_notes_json(&m->launch.notes);
    json_t *of_history = answer_notes_json(&m->history->notes);
    json_array_extend(notes, more);
    json_array_extend(notes, of_history);
    json_decref(more);
    json_decref(of_history);
    json_t *document = json_pack("{s:[o], s:o, s:o}", "results", json_result(m), "not_modelled",
                                 answer_not_modelled_json(m->q), "notes", notes);
    if (document && m->chosen.tta) answer_tta_json(document, m->chosen.tta);
    if (document) add_measured(document, m); // for scripts that look at one result only
    return document;
}
