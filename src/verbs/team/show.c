// SPDX-License-Identifier: Apache-2.0
// How team --collect looks: a row a GPU, then who disagrees, who differs and what was left out
// (doc/formats/team-results.md for the document).
#include "verbs/team/team.h"

#include "base/json.h"
#include "base/out.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

// Two machines with the same GPU and batch should be as fast within this share.
static const double much_slower = 0.8;

// --- The table -----------------------------------------------------------------------------------

static void plan_cells(struct show_table *t, int64_t batch, int64_t accumulation, int64_t effective,
                       struct str precision) {
    show_table_format(t, SHOW_STRONG, "%lld", (long long)batch);
    show_table_format(t, SHOW_STRONG, "%lld", (long long)accumulation);
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)effective);
    show_table_known(t, SHOW_PLAIN, precision);
}

static void use_cells(struct arena *a, struct show_table *t, int64_t bytes, int64_t capacity,
                      double samples_per_s, const char *about) {
    if (bytes > 0) {
        show_table_cell(t, SHOW_PLAIN, unit_bytes(a, bytes));
        show_table_format(t, SHOW_DIM, "%.0f %%", 100.0 * (double)bytes / (double)capacity);
    } else {
        show_table_unknown(t);
        show_table_unknown(t);
    }
    if (samples_per_s > 0)
        show_table_format(t, SHOW_PLAIN, "%s%.4g", about, samples_per_s);
    else
        show_table_unknown(t);
}

static void measured_cells(struct arena *a, struct show_table *t,
                           const struct survey_choice *taken) {
    const struct survey_record *r = taken->record;
    plan_cells(t, r->plan.batch, r->plan.accumulation, plan_effective(&r->plan),
               plan_precision_text(r->plan.precision));
    use_cells(a, t, r->peak_bytes, r->capacity_bytes, r->samples_per_s, "");
    show_table_cell(t, SHOW_GOOD, STR("measured"));
    show_table_cell(t, SHOW_PLAIN, survey_called(taken->file));
    show_table_cell(t, SHOW_DIM, str_slice(r->date, 0, 10));
}

static void predicted_cells(struct arena *a, struct show_table *t,
                            const struct team_collect_row *row) {
    const struct answer *p = &row->predicted;
    plan_cells(t, p->plan.batch, p->plan.accumulation, plan_effective(&p->plan),
               str_of(plan_precision_name(p->plan.precision)));
    use_cells(a, t, p->peak.needed_bytes + p->peak.overhead_bytes, p->card.gpu.usable_bytes,
              p->speed.row ? p->speed.samples_per_s : (double)NAN, "~");
    show_table_format(t, p->fits ? SHOW_WARN : SHOW_BAD, "predicted%s%s", p->fits ? "" : ": ",
                      p->fits ? "" : answer_verdict_name(answer_verdict(p)));
    show_table_unknown(t);
    show_table_unknown(t);
}

static void nothing_cells(struct show_table *t, const struct team_collect_row *row) {
    for (int i = 0; i < 7; i++) show_table_unknown(t);
    show_table_cell(t, row->measured ? SHOW_BAD : SHOW_WARN,
                    row->measured ? STR("measured: nothing ran") : STR("unknown"));
    show_table_unknown(t);
    show_table_unknown(t);
}

static void add_row(struct arena *a, struct show_table *t, const struct team_collect_row *row) {
    const struct survey_choice *taken = team_collect_taken(row);
    show_table_cell(t, SHOW_STRONG, show_gpu_name(row->card.gpu.name));
    show_table_cell(t, SHOW_PLAIN, unit_bytes(a, row->card.gpu.total_bytes));
    if (taken)
        measured_cells(a, t, taken);
    else if (row->is_predicted && !row->is_refuted)
        predicted_cells(a, t, row);
    else
        nothing_cells(t, row);
}

static void table(const struct team_collect *c, struct show_style style, struct buf *out) {
    static const struct show_heading columns[] = {
        {"GPU", SHOW_LEFT},     {"memory", SHOW_RIGHT},    {"batch", SHOW_RIGHT},
        {"accum.", SHOW_RIGHT}, {"effective", SHOW_RIGHT}, {"precision", SHOW_LEFT},
        {"peak", SHOW_RIGHT},   {"of GPU", SHOW_RIGHT},    {"samples/s", SHOW_RIGHT},
        {"source", SHOW_LEFT},  {"machine", SHOW_LEFT},    {"on (UTC)", SHOW_LEFT},
        {NULL, SHOW_LEFT}};
    struct show_table t = show_table_new(c->q->arena, (struct str){0});
    static const char *const gives_way[] = {"of GPU", "effective", "on (UTC)", "memory",
                                            "peak",   "precision", "machine",  NULL};
    show_table_columns(&t, columns);
    show_table_gives_way(&t, gives_way);
    for (ptrdiff_t i = 0; i < c->row_count; i++) add_row(c->q->arena, &t, &c->rows[i]);
    if (c->row_count > 0) show_table_text(&t, style, out);
}

// --- Who disagrees -------------------------------------------------------------------------------

static void say_choice(const struct survey_choice *choice, int64_t most, struct buf *out) {
    const struct survey_record *r = choice->record, *stopped = choice->stopped;
    struct str name = survey_called(choice->file);
    if (r) {
        buf_format(out, "%.*s %lld %.*s", STR_ARG(name), (long long)r->plan.batch,
                   STR_ARG(plan_precision_text(r->plan.precision)));
        if (r->plan.batch < most) {
            buf_format(out, " (%.0f %% less)",
                       100.0 * (double)(most - r->plan.batch) / (double)most);
        }
    } else {
        buf_format(out, "%.*s: nothing ran", STR_ARG(name));
    }
    if (stopped && stopped->plan.batch <= most) {
        buf_format(out, ", %lld was %.*s there", (long long)stopped->plan.batch,
                   STR_ARG(stopped->status));
    }
}

static struct str conflict_text(struct arena *a, const struct team_collect_row *row) {
    const struct survey_card *card = row->measured;
    const struct survey_choice *taken = team_collect_taken(row);
    struct buf out = buf_new(a);
    int64_t most = 0;
    for (ptrdiff_t i = 0; i < card->count; i++) {
        const struct survey_record *r = card->choices[i].record;
        if (r && r->plan.batch > most) most = r->plan.batch;
    }
    buf_format(&out, "%.*s: the machines disagree on the batch: ",
               STR_ARG(show_gpu_name(row->card.gpu.name)));
    for (ptrdiff_t i = 0; i < card->count; i++) {
        if (i) buf_add(&out, STR("; "));
        say_choice(&card->choices[i], most, &out);
    }
    if (taken) {
        buf_format(&out, ". Taken: %lld, by %.*s (--prefer safest, newest or fastest)",
                   (long long)taken->record->plan.batch, STR_ARG(survey_called(taken->file)));
    }
    return buf_str(&out);
}

// Of those with the same batch and precision.
static const struct survey_choice *fastest_like(const struct survey_card *card,
                                                const struct survey_record *like) {
    const struct survey_choice *best = NULL;
    for (ptrdiff_t i = 0; i < card->count; i++) {
        const struct survey_record *r = card->choices[i].record;
        bool is_like =
            r && r->plan.batch == like->plan.batch && r->plan.precision == like->plan.precision;
        if (!is_like || !(r->samples_per_s > 0)) continue;
        if (!best || r->samples_per_s > best->record->samples_per_s) best = &card->choices[i];
    }
    return best;
}

static void add_slow(struct arena *a, const struct team_collect_row *row, struct str_list *list) {
    const struct survey_card *card = row->measured;
    for (ptrdiff_t i = 0; i < card->count; i++) {
        const struct survey_record *r = card->choices[i].record;
        const struct survey_choice *best = r ? fastest_like(card, r) : NULL;
        if (!best) continue;
        double share = r->samples_per_s / best->record->samples_per_s;
        if (!(share < much_slower)) continue;
        str_list_format(a, list,
                        "%.*s: %.*s makes %.0f %% of the samples/s of %.*s with the same "
                        "batch (batchfit check, batchfit doctor)",
                        STR_ARG(show_gpu_name(row->card.gpu.name)),
                        STR_ARG(survey_called(card->choices[i].file)), 100 * share,
                        STR_ARG(survey_called(best->file)));
    }
}

static struct str_list remarks(const struct team_collect *c) {
    struct arena *a = c->q->arena;
    struct str_list list = {0};
    for (ptrdiff_t i = 0; i < c->row_count; i++) {
        const struct team_collect_row *row = &c->rows[i];
        if (!row->measured) continue;
        if (row->measured->is_conflict) str_list_add(a, &list, conflict_text(a, row));
        add_slow(a, row, &list);
    }
    for (ptrdiff_t i = 0; i < c->merged.part_count; i++) {
        const struct survey_part *p = &c->merged.parts[i];
        if (p->used > 0) continue;
        str_list_format(a, &list, "%.*s has not measured this training; its newest record: %.*s",
                        STR_ARG(survey_called(p->file)), STR_ARG(p->reason));
    }
    for (ptrdiff_t i = 0; i < c->files.left_count; i++) {
        str_list_format(a, &list, "skipped: %.*s", STR_ARG(c->files.left[i].reason));
    }
    return list;
}

static void say_differing(const struct team_collect *c, struct show_style style, struct buf *out) {
    if (c->merged.differing == 0) return;
    struct str head = str_format(c->q->arena,
                                 "another effective batch: %lld is requested, and these machines "
                                 "measured with another, so they are not used:\n",
                                 (long long)c->asked.effective);
    show_text(out, style, SHOW_BAD, str_trim(head));
    buf_byte(out, '\n');
    for (ptrdiff_t i = 0; i < c->merged.part_count; i++) {
        const struct survey_part *p = &c->merged.parts[i];
        if (!p->differs) continue;
        show_text(out, style, SHOW_PLAIN,
                  str_format(c->q->arena, "  %.*s: %lld", STR_ARG(survey_called(p->file)),
                             (long long)p->effective));
        buf_byte(out, '\n');
    }
}

// The answer in a line: of how many GPUs something is known, and the range of the batches.
static void say_answer(const struct team_collect *c, struct show_style style, struct buf *out) {
    struct buf text = buf_new(c->q->arena);
    int64_t least = 0, most = 0;
    ptrdiff_t measured = 0, predicted = 0;
    for (ptrdiff_t i = 0; i < c->row_count; i++) {
        const struct survey_choice *taken = team_collect_taken(&c->rows[i]);
        int64_t batch = taken                    ? taken->record->plan.batch
                        : c->rows[i].is_answered ? c->rows[i].predicted.plan.batch
                                                 : 0;
        measured += taken != NULL;
        predicted += !taken && batch > 0;
        if (batch > 0 && (least == 0 || batch < least)) least = batch;
        if (batch > most) most = batch;
    }
    buf_format(&text, "%td of %td GPU%s measured", measured, c->row_count,
               c->row_count == 1 ? "" : "s");
    if (predicted > 0) buf_format(&text, ", %td predicted", predicted);
    if (most > 0) buf_format(&text, ": batch %lld", (long long)least);
    if (most > least) buf_format(&text, " to %lld", (long long)most);
    show_prose(out, style, SHOW_STRONG, buf_str(&text), 0, 2);
    buf_byte(out, '\n');
}

void team_collect_show(const struct team_collect *c, const struct buf *report) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(c->q->arena);
    struct str_list said = remarks(c);
    say_answer(c, style, &out);
    table(c, style, &out);
    say_differing(c, style, &out);
    answer_notes(&said, style, &out);
    answer_notes(&c->q->notes, style, &out);
    buf_format(&out, "%td machine%s in %.*s", c->files.count, c->files.count == 1 ? "" : "s",
               STR_ARG(c->folder));
    if (c->own.count > 0) {
        buf_format(&out, "; %s: %.*s, %td records", c->is_written ? "written" : "this machine's",
                   STR_ARG(c->path), c->own.count);
    }
    buf_byte(&out, '\n');
    buf_add(&out, buf_str(report));
    out_buf(stdout, &out);
}

// --- The document --------------------------------------------------------------------------------

static json_t *json_choice(const struct survey_card *card, ptrdiff_t i) {
    const struct survey_choice *choice = &card->choices[i];
    const struct survey_record *r = choice->record;
    json_t *object = json_pack(
        "{s:o, s:o, s:b, s:o}", "machine", json_text(choice->file->machine), "name",
        json_text(choice->file->name), "is_taken", i == card->taken, "stopped_at_batch_size",
        choice->stopped ? json_integer(choice->stopped->plan.batch) : json_null());
    if (!r) return object;
    json_object_update_new(
        object, json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "batch_size",
                          (json_int_t)r->plan.batch, "gradient_accumulation_steps",
                          (json_int_t)r->plan.accumulation, "effective_batch_size",
                          (json_int_t)plan_effective(&r->plan), "precision",
                          json_text(plan_precision_text(r->plan.precision)), "peak_bytes",
                          json_size(r->peak_bytes), "samples_per_s", json_number(r->samples_per_s),
                          "date", json_text(r->date), "torch", json_text(r->torch), "version",
                          json_text(r->version)));
    return object;
}

static json_t *json_plan(const struct team_collect_row *row) {
    const struct survey_choice *taken = team_collect_taken(row);
    const struct survey_record *r = taken ? taken->record : NULL;
    const struct plan *p = row->is_answered ? &row->predicted.plan : NULL;
    struct str precision = r   ? plan_precision_text(r->plan.precision)
                           : p ? str_of(plan_precision_name(p->precision))
                               : (struct str){0};
    return json_pack("{s:o, s:o, s:o, s:o}", "batch_size",
                     json_size(r   ? r->plan.batch
                               : p ? p->batch
                                   : 0),
                     "gradient_accumulation_steps",
                     json_size(r   ? r->plan.accumulation
                               : p ? p->accumulation
                                   : 0),
                     "effective_batch_size",
                     json_size(r   ? plan_effective(&r->plan)
                               : p ? plan_effective(p)
                                   : 0),
                     "precision", json_text(precision));
}

static json_t *json_card(const struct team_collect_row *row) {
    const struct survey_card *m = row->measured;
    json_t *object = json_plan(row), *measured = json_array();
    for (ptrdiff_t i = 0; m && i < m->count; i++)
        json_array_append_new(measured, json_choice(m, i));
    const char *source = team_collect_taken(row) ? "measured"
                         : row->is_answered      ? "predicted"
                                                 : NULL;
    json_object_update_new(
        object,
        json_pack("{s:o, s:o, s:I, s:o, s:b, s:o, s:o}", "card", json_text(row->card.gpu.key),
                  "gpu", json_text(row->card.gpu.name), "total_bytes",
                  (json_int_t)row->card.gpu.total_bytes, "known_by", json_text(str_of(source)),
                  "is_conflict", m && m->is_conflict, "measured", measured, "predicted",
                  row->is_predicted ? answer_json(&row->predicted) : json_null()));
    return object;
}

static json_t *json_parts(const struct team_collect *c) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < c->merged.part_count; i++) {
        const struct survey_part *p = &c->merged.parts[i];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:I, s:I, s:o, s:b, s:o}", "machine",
                            json_text(p->file->machine), "name", json_text(p->file->name),
                            "records", (json_int_t)p->file->count, "of_this_training",
                            (json_int_t)p->used, "effective_batch_size", json_size(p->effective),
                            "differs", p->differs, "other", json_text(p->reason)));
    }
    return list;
}

static json_t *json_left(const struct team_collect *c) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < c->files.left_count; i++) {
        const struct survey_left *left = &c->files.left[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:o}", "file", json_text(left->file), "line",
                                        json_size(left->line), "reason", json_text(left->reason)));
    }
    return list;
}

int team_collect_print_json(const struct team_collect *c, const char *settings, struct fail *why) {
    json_t *cards = json_array();
    struct str_list notes = remarks(c);
    for (ptrdiff_t i = 0; i < c->row_count; i++)
        json_array_append_new(cards, json_card(&c->rows[i]));
    for (ptrdiff_t i = 0; i < c->q->notes.count; i++) {
        str_list_add(c->q->arena, &notes, c->q->notes.items[i]);
    }
    return json_print(json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:b, s:o, s:o, s:o, s:o, s:o}",
                                "not_modelled", answer_not_modelled_json(c->q), "folder",
                                json_text(c->folder), "machine", json_text(c->machine), "file",
                                json_text(c->own.count > 0 ? c->path : (struct str){0}),
                                "is_written", c->is_written, "effective_batch_size",
                                json_size(c->asked.effective), "is_same_effective",
                                c->merged.differing == 0, "cards", cards, "machines", json_parts(c),
                                "left_out", json_left(c), "settings", json_text(str_of(settings)),
                                "notes", json_texts(&notes)),
                      why);
}
