// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/say.h"
#include "base/unit.h"
#include "job/answer/answer_int.h"
#include "job/question/question.h"
#include "view/html/html.h"
#include "view/show/show.h"

#include <math.h>
#include <stdlib.h>

enum { LARGEST = 10, LISTED = 12, PARTS = 5, TIMELINE_POINTS = 1200 };

static struct forecast_tape *tape_of(const struct answer *answer) {
    return forecast_tape_known(&answer->forecast, answer->plan.batch, answer->plan.accumulation);
}

static struct sim_holders holders_of(struct question *q, const struct answer *answer) {
    struct sim_holders h;
    sim_peak_holders(q->arena, tape_of(answer)->sim, answer->plan.batch, answer->plan.classes,
                     SIM_UNLIMITED, LARGEST, &h);
    return h;
}

static struct str tag_title(struct str name) {
    for (int i = 0; i < TAPE_TAG_COUNT; i++) {
        if (str_is(name, tape_tag_names[i])) return str_of(answer_tag_titles[i]);
    }
    return name;
}

struct str answer_plan_text(struct arena *a, const struct plan *p) {
    struct buf text = buf_new(a);
    buf_add(&text, p->model);
    if (p->image_size > 0) buf_format(&text, _(" at %lld px"), (long long)p->image_size);
    if (p->sequence_length > 0) buf_format(&text, ", %lld", (long long)p->sequence_length);
    if (p->target_length > 0) buf_format(&text, "/%lld", (long long)p->target_length);
    if (p->sequence_length > 0) buf_add(&text, STR(" tokens"));
    if (p->adapter.len > 0)
        buf_format(&text, ", %s of rank %lld", plan_training_name(p->adapter, p->quant),
                   (long long)plan_adapter_rank(p->adapter));
    if (p->quant.len > 0) buf_format(&text, " (%.*s)", STR_ARG(p->quant));
    if (p->inference)
        buf_add(&text, STR(", inference"));
    else if (p->optimizer.len > 0)
        buf_format(&text, ", %.*s", STR_ARG(p->optimizer));
    if (p->loss.len > 0) buf_format(&text, ", %.*s loss", STR_ARG(p->loss));
    if (p->checkpointing) buf_add(&text, STR(", checkpointing"));
    if (p->compile) buf_add(&text, STR(", compiled"));
    if (p->shard.len > 0) buf_format(&text, ", %.*s", STR_ARG(p->shard));
    if (p->tensor_parallel > 1)
        buf_format(&text, ", tensor parallel %lld", (long long)p->tensor_parallel);
    return buf_str(&text);
}

void answer_breakdown_headline(const struct question *q, const struct answer *answer,
                               struct show_style style, struct buf *out) {
    struct buf text = buf_new(q->arena);
    const struct plan *p = &answer->plan;
    if (q->has_config)
        buf_format(&text, "%.*s (%.*s): ", STR_ARG(q->path), STR_ARG(q->reading.title));
    buf_format(&text, "%.*s, %s", STR_ARG(answer_plan_text(q->arena, p)),
               plan_precision_name(p->precision));
    if (q->effective > 0) buf_format(&text, _(", effective batch %lld"), (long long)q->effective);
    if (q->plan.batch > 0) {
        buf_format(&text, _(" (now %lld x %lld)"), (long long)q->plan.batch,
                   (long long)plan_micro_steps(&q->plan));
    }
    show_prose(out, style, SHOW_PLAIN, buf_str(&text), 0, 2);
}

// --- The bar -------------------------------------------------------------------------------------

static void add_part(struct answer_parts *parts, struct str name, int64_t bytes) {
    if (bytes <= 0) return;
    parts->items[parts->count++] = (struct show_segment){.name = name, .value = (double)bytes};
}

static int larger_first(const void *a, const void *b) {
    double left = ((const struct show_segment *)a)->value;
    double right = ((const struct show_segment *)b)->value;
    return (left < right) - (left > right);
}

// The largest, and the rest as one.
static void fold(struct answer_parts *parts) {
    double rest = 0;
    int kept = 0;
    qsort(parts->items, (size_t)parts->count, sizeof *parts->items, larger_first);
    for (int i = 0; i < parts->count; i++) {
        bool is_other =
            kept >= PARTS || str_is(parts->items[i].name, answer_tag_titles[TAPE_OTHER]);
        if (is_other)
            rest += parts->items[i].value;
        else
            parts->items[kept++] = parts->items[i];
    }
    parts->count = kept;
    add_part(parts, str_of(answer_tag_titles[TAPE_OTHER]), (int64_t)rest);
}

struct answer_parts answer_parts(struct question *q, const struct answer *answer) {
    struct answer_parts found = {.count = 0}, *parts = &found;
    struct sim_holders h;
    int64_t extra = forecast_extra(&answer->card, tape_of(answer));
    sim_peak_tags(q->arena, tape_of(answer)->sim, answer->plan.batch, answer->plan.classes,
                  SIM_UNLIMITED, &h);
    for (ptrdiff_t i = 0; i < h.tags.count; i++) {
        add_part(parts, tag_title(h.tags.items[i].name), h.tags.items[i].bytes);
    }
    add_part(parts, STR("not on the tape"), extra);
    add_part(parts, STR("fragmentation"), answer->peak.needed_bytes - h.allocated_bytes - extra);
    const struct gpu_overhead *overhead = &answer->card.overhead;
    add_part(parts, STR("CUDA and libraries"), overhead->bytes - overhead->engine_bytes);
    add_part(parts, STR("vLLM"), overhead->engine_bytes);
    add_part(parts, STR("held by others"), answer->card.others_bytes);
    fold(parts);
    const struct answer_memory m = answer_memory(answer);
    for (int i = 0; i < parts->count; i++) {
        struct show_segment *s = &parts->items[i];
        s->name = say_str(s->name);
        s->text = str_format(q->arena, "%s %.0f %%", unit_bytes(q->arena, (int64_t)s->value).p,
                             100 * s->value / (double)m.expected_bytes);
    }
    return found;
}

void answer_breakdown_bar(struct question *q, struct answer *answer, struct show_style style,
                          struct buf *out) {
    struct arena *a = q->arena;
    const struct answer_memory m = answer_memory(answer);
    const struct answer_parts parts = answer_parts(q, answer);
    const struct show_bar bar = {
        .name = show_gpu_name(answer->card.gpu.name),
        .segments = parts.items,
        .segment_count = parts.count,
        .capacity = (double)m.usable_bytes,
        .mark = (double)m.usable_bytes * (1 - answer->card.margin),
        .mark_text = str_format(a, _("margin: %.0f %% kept free"), answer->card.margin * 100),
        .text = unit_bytes(a, m.usable_bytes),
        .tone = answer_word(q, answer).tone,
    };
    buf_byte(out, '\n');
    show_bar(&bar, style, out);
}

void answer_breakdown_memory(struct question *q, const struct answer *answer,
                             struct show_style style, struct buf *out) {
    struct arena *a = q->arena;
    const struct answer_memory m = answer_memory(answer);
    struct buf speed = buf_new(a);
    struct str text =
        str_format(a, _("memory: expected %s, worst case %s, usable %s, headroom %s"),
                   unit_bytes(a, m.expected_bytes).p, unit_bytes(a, m.worst_bytes).p,
                   unit_bytes(a, m.usable_bytes).p,
                   m.headroom_bytes > 0 ? unit_bytes(a, m.headroom_bytes).p : _("none"));
    show_prose(out, style, SHOW_PLAIN, text, 0, 2);
    text = answer_host_text(a, answer);
    if (text.len > 0)
        show_prose(out, style, answer_host_is_short(answer) ? SHOW_BAD : SHOW_PLAIN, text, 0, 2);
    answer_speed_text(&answer->speed, &speed);
    show_prose_lines(out, style, buf_str(&speed));
}

void answer_breakdown_details(struct question *q, const struct answer *answer,
                              struct show_style style, struct buf *out) {
    struct arena *a = q->arena;
    const struct forecast_peak *peak = &answer->peak;
    struct buf text = buf_new(a);
    buf_format(&text,
               _("allocated %s, reserved without pressure %s, needed %s%s, budget %s; nvidia-smi "
                 "would show about %s, at most %s\n"),
               unit_bytes(a, peak->allocated_bytes).p, unit_bytes(a, peak->reserved_bytes).p,
               unit_bytes(a, peak->needed_bytes).p, peak->needed_is_exact ? "" : _(" or less"),
               unit_bytes(a, answer->budget_bytes).p,
               unit_bytes(a, peak->reserved_bytes + peak->overhead_bytes).p,
               unit_bytes(a, peak->upper_bytes).p);
    buf_format(&text, _("outside the allocator: %.*s\n"), STR_ARG(answer->card.overhead.source));
    buf_byte(out, '\n');
    show_prose_lines(out, style, buf_str(&text));
}

// --- Tables --------------------------------------------------------------------------------------

static struct show_table share_table(struct question *q, const char *title,
                                     const struct sim_shares *shares, int64_t whole, bool is_tag) {
    struct show_table t = show_table_new(q->arena, str_of(title));
    show_table_column(&t, "what", SHOW_LEFT);
    show_table_column(&t, "bytes", SHOW_RIGHT);
    show_table_column(&t, "share", SHOW_RIGHT);
    show_table_column(&t, "tensors", SHOW_RIGHT);
    for (ptrdiff_t i = 0; i < shares->count && i < LISTED; i++) {
        const struct sim_share *s = &shares->items[i];
        show_table_cell(&t, SHOW_PLAIN, is_tag ? tag_title(s->name) : s->name);
        show_table_cell(&t, SHOW_STRONG, unit_bytes(q->arena, s->bytes));
        show_table_format(&t, SHOW_DIM, "%.1f %%", 100.0 * (double)s->bytes / (double)whole);
        show_table_format(&t, SHOW_DIM, "%d", s->count);
    }
    return t;
}

static struct show_table largest_table(struct question *q, const struct answer *answer,
                                       const struct sim_holders *h) {
    const struct tape *tape = tape_of(answer)->tape;
    struct show_table t = show_table_new(q->arena, STR("Largest tensors"));
    show_table_column(&t, "bytes", SHOW_RIGHT);
    show_table_column(&t, "kind", SHOW_LEFT);
    show_table_column(&t, "operation", SHOW_LEFT);
    show_table_wrapping(&t, "module");
    for (int i = 0; i < h->largest_count; i++) {
        const struct tape_alloc *alloc = h->largest[i].alloc;
        show_table_cell(&t, SHOW_STRONG, unit_bytes(q->arena, h->largest[i].bytes));
        show_table_cell(&t, SHOW_PLAIN, str_of(answer_tag_titles[alloc->tag]));
        show_table_known(&t, SHOW_PLAIN, tape->strings[alloc->op]);
        show_table_known(&t, SHOW_PLAIN, tape->strings[alloc->module]);
    }
    return t;
}

static struct str peak_sentence(struct question *q, const struct sim_holders *h) {
    return str_format(q->arena, _("peak: %s, %s, step %d%s%.*s%s%s%.*s"),
                      unit_bytes(q->arena, h->allocated_bytes).p, tape_phase_names[h->phase],
                      (int)h->step, h->op.len ? ", `" : "", STR_ARG(h->op), h->op.len ? "`" : "",
                      h->module.len ? _(" in ") : "", STR_ARG(h->module));
}

void answer_breakdown_tables(struct question *q, struct answer *answer, struct show_style style,
                             struct buf *out) {
    struct sim_holders h = holders_of(q, answer);
    int64_t whole = h.allocated_bytes > 0 ? h.allocated_bytes : 1;
    const struct show_table tables[] = {
        share_table(q, "By kind", &h.tags, whole, true),
        share_table(q, "By part of the model", &h.tops, whole, false),
        share_table(q, "By operation", &h.ops, whole, false),
        largest_table(q, answer, &h),
    };
    show_prose(out, style, SHOW_PLAIN, peak_sentence(q, &h), 0, 2);
    buf_byte(out, '\n');
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        show_table_text(&tables[i], style, out);
        buf_byte(out, '\n');
    }
}

static struct show_table remedy_table(struct question *q, const struct answer *answer) {
    static const char *const gives_way[] = {"saves", NULL};
    const struct answer_memory m = answer_memory(answer);
    struct show_table t =
        show_table_new(q->arena, answer->fits ? str_of(_("What would save memory"))
                                              : str_of(_("Ways to make it fit")));
    show_table_wrapping(&t, "way");
    show_table_column(&t, "saves", SHOW_RIGHT);
    show_table_column(&t, "expected then", SHOW_RIGHT);
    show_table_column(&t, "enough", SHOW_LEFT);
    show_table_wrapping(&t, "cost");
    show_table_gives_way(&t, gives_way);
    for (ptrdiff_t i = 0; i < answer->remedies.count; i++) {
        const struct forecast_remedy *r = &answer->remedies.items[i];
        show_table_cell(&t, SHOW_PLAIN, answer_way_text(q->arena, r->what));
        show_table_cell(&t, SHOW_STRONG, unit_bytes(q->arena, r->saved_bytes));
        show_table_cell(&t, SHOW_PLAIN, unit_bytes(q->arena, m.expected_bytes - r->saved_bytes));
        show_table_cell(&t, r->is_enough ? SHOW_GOOD : SHOW_DIM,
                        str_of(r->is_enough ? _("yes") : _("no")));
        show_table_cell(&t, SHOW_DIM, say_str(r->cost));
    }
    return t;
}

void answer_breakdown_remedies(struct question *q, struct answer *answer, struct show_style style,
                               struct buf *out) {
    if (answer->remedies.count == 0) {
        show_prose(out, style, SHOW_PLAIN,
                   str_of(_("None of the remedies that have a tape would help.")), 0, 2);
        return;
    }
    struct show_table t = remedy_table(q, answer);
    show_table_text(&t, style, out);
}

static json_t *shares_json(const struct sim_shares *shares) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < shares->count; i++) {
        const struct sim_share *s = &shares->items[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:i}", "name", json_text(s->name), "bytes",
                                        (json_int_t)s->bytes, "tensors", (int)s->count));
    }
    return list;
}

static json_t *largest_json(const struct answer *answer, const struct sim_holders *h) {
    const struct tape *tape = tape_of(answer)->tape;
    json_t *list = json_array();
    for (int i = 0; i < h->largest_count; i++) {
        const struct tape_alloc *alloc = h->largest[i].alloc;
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:o, s:o}", "bytes", (json_int_t)h->largest[i].bytes, "tag",
                            tape_tag_names[alloc->tag], "op", json_text(tape->strings[alloc->op]),
                            "module", json_text(tape->strings[alloc->module])));
    }
    return list;
}

json_t *answer_breakdown_json(struct question *q, struct answer *answer) {
    struct sim_holders h = holders_of(q, answer);
    json_t *at = json_pack("{s:s, s:i, s:i, s:o, s:o}", "phase", tape_phase_names[h.phase], "step",
                           (int)h.step, "event", (int)h.event, "op", json_text(h.op), "module",
                           json_text(h.module));
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "result",
                     answer_json(answer), "not_modelled", answer_not_modelled_json(q), "at", at,
                     "allocated_bytes", (json_int_t)h.allocated_bytes, "requested_bytes",
                     (json_int_t)h.requested_bytes, "by_tag", shares_json(&h.tags), "by_part",
                     shares_json(&h.tops), "by_module", shares_json(&h.modules), "by_op",
                     shares_json(&h.ops), "largest", largest_json(answer, &h));
}

static struct chart_span *spans_of(struct question *q, const struct sim_timeline *line,
                                   int *count) {
    struct chart_span *spans = arena_new(q->arena, struct chart_span, line->phase_count + 1);
    *count = 0;
    for (int i = 0; i < line->phase_count; i++) {
        double end = i + 1 < line->phase_count ? line->phases[i + 1].event
                                               : line->points[line->count - 1].event;
        spans[(*count)++] = (struct chart_span){str_format(q->arena, "%s %d",
                                                           tape_phase_names[line->phases[i].phase],
                                                           (int)line->phases[i].step),
                                                line->phases[i].event, end};
    }
    return spans;
}

static void add_chart(struct question *q, struct answer *answer, struct buf *page) {
    struct sim_timeline line;
    sim_timeline(q->arena, tape_of(answer)->sim, answer->plan.batch, answer->plan.classes,
                 SIM_UNLIMITED, TIMELINE_POINTS, &line);
    if (line.count == 0) return;
    double *x = arena_new(q->arena, double, line.count);
    struct chart_series series[TAPE_TAG_COUNT];
    for (int i = 0; i < line.count; i++) x[i] = line.points[i].event;
    int series_count = 0;
    for (int s = 0; s < TAPE_TAG_COUNT; s++) {
        double *y = arena_new(q->arena, double, line.count), most = 0;
        for (int i = 0; i < line.count; i++) {
            y[i] = (double)line.points[i].tags[answer_area_order[s]];
            most = fmax(most, y[i]);
        }
        if (most <= 0) continue; // fp32 has no mixed-precision copies
        series[series_count++] =
            (struct chart_series){str_of(answer_tag_titles[answer_area_order[s]]), y};
    }
    int span_count;
    const struct chart_span *spans = spans_of(q, &line, &span_count);
    const struct chart chart = {.kind = CHART_AREAS,
                                .unit = CHART_BYTES,
                                .title = STR("Allocated memory over two steps"),
                                .x_name = STR("tape events"),
                                .y_name = STR("allocated"),
                                .x = x,
                                .point_count = line.count,
                                .series = series,
                                .series_count = series_count,
                                .spans = spans,
                                .span_count = span_count,
                                .limit = (double)forecast_capacity(&answer->card),
                                .budget = (double)answer->budget_bytes,
                                .limit_name = STR("GPU memory"),
                                .budget_name = STR("budget")};
    html_chart(page, &chart, q->arena);
}

static void add_figures(struct question *q, const struct answer *answer, struct buf *page) {
    const struct answer_memory m = answer_memory(answer);
    const struct html_figure figures[] = {
        {STR("expected"), unit_bytes(q->arena, m.expected_bytes),
         STR("whole GPU, in which the step runs"), SHOW_STRONG},
        {STR("worst case"), unit_bytes(q->arena, m.worst_bytes),
         STR("if the prediction errs by its band"), SHOW_PLAIN},
        {STR("usable"), unit_bytes(q->arena, m.usable_bytes), STR("what CUDA gives to programs"),
         SHOW_PLAIN},
        {STR("headroom"), unit_bytes(q->arena, m.headroom_bytes), STR("usable less expected"),
         SHOW_PLAIN},
    };
    html_figures(page, figures, (int)(sizeof figures / sizeof *figures));
}

struct str answer_breakdown_html(struct question *q, struct answer *answer) {
    const struct answer_word word = answer_word(q, answer);
    struct sim_holders h = holders_of(q, answer);
    int64_t whole = h.allocated_bytes > 0 ? h.allocated_bytes : 1;
    struct buf page = buf_new(q->arena);
    const struct plan *p = &answer->plan;
    struct answer_live live = answer_live_of(answer);
    html_open_live(&page, str_format(q->arena, "Memory of %s", answer_plan_text(q->arena, p).p),
                   str_format(q->arena, "%.*s, batch %lld, accumulation %lld, %s",
                              STR_ARG(answer->card.gpu.name), (long long)p->batch,
                              (long long)p->accumulation, plan_precision_name(p->precision)),
                   live.scripts, live.script_count);
    html_verdict(&page, word.tone, str_of(word.name), peak_sentence(q, &h));
    if (question_not_modelled(q).len > 0) html_paragraph(&page, SHOW_WARN, q->notes.items[0]);
    add_figures(q, answer, &page);
    add_chart(q, answer, &page);
    answer_live_section(&live, &page);
    const struct show_table tables[] = {
        share_table(q, "By kind", &h.tags, whole, true),
        share_table(q, "By part of the model", &h.tops, whole, false),
        share_table(q, "By operation", &h.ops, whole, false),
        largest_table(q, answer, &h),
        remedy_table(q, answer),
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) html_table(&page, &tables[i]);
    html_section(&page, STR("How this was computed"));
    html_paragraph(&page, SHOW_PLAIN,
                   str_format(q->arena,
                              "Predicted without a GPU from a recording of two steps of %.*s "
                              "(%.*s, torch %.*s), replayed through PyTorch's caching "
                              "allocator. Error: %s.",
                              STR_ARG(tape_of(answer)->tape->header.model),
                              STR_ARG(tape_of(answer)->tape->header.library),
                              STR_ARG(tape_of(answer)->tape->header.torch),
                              answer->card.correction.runs > 0 ? "runs measured on this GPU"
                                                               : forecast_band_source));
    if (answer->notes.count > 0) {
        html_list(&page, answer->notes.items, (int)answer->notes.count);
    }
    answer_live_scripts(&live, &page);
    html_close(&page, STR("batchfit " BATCHFIT_VERSION));
    return buf_str(&page);
}
