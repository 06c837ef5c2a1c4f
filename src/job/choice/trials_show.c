// SPDX-License-Identifier: Apache-2.0
// What the trials showed, for people.
#include "job/choice/choice_int.h"

#include "base/unit.h"
#include "job/answer/answer.h"
#include "job/answer/tta.h"
#include "view/show/show.h"

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
                                                   " samples/s",
                                                   SHOW_RIGHT},
                                                  {"took", SHOW_RIGHT},
                                                  {"status", SHOW_LEFT}};
    struct show_table t = show_table_new(m->q->arena, (struct str){0});
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        bool ascii = !style.utf8 && columns[i].name[0] == '\xc2';
        show_table_column(&t, ascii ? "+- samples/s" : columns[i].name, columns[i].align);
    }
    show_table_wrapping(&t, "why");
    for (ptrdiff_t i = 0; i < m->trial_count; i++) add_row(&t, m->q->arena, i + 1, &m->trials[i]);
    show_table_text(&t, style, out);
    if (!m->fastest) return; // no figure to explain
    buf_format(out, "%s: half the width of the mean's 95 %% confidence interval.\n",
               style.utf8 ? "\xc2\xb1" : "+-");
}

// For people, in the order of step_cover_names.
static const char *const covered_words[] = {
    "forward",          "backward",        "second optimizer step",
    "evaluation",       "checkpoint save", "the smaller last batch",
    "the longest batch"};

static void show_covered(const struct choice_measured *m, struct buf *out) {
    struct buf yes = buf_new(m->q->arena), no = buf_new(m->q->arena);
    unsigned not_covered = choice_not_covered(m);
    for (size_t i = 0; i < sizeof covered_words / sizeof *covered_words; i++) {
        bool is_covered = m->best->result.covered & (1u << i);
        struct buf *b = is_covered ? &yes : &no;
        if (!is_covered && !(not_covered & (1u << i))) continue;
        buf_format(b, "%s%s", b->count ? ", " : "", covered_words[i]);
    }
    buf_format(out, "The trial covered %s.\n", buf_z(&yes));
    if (m->q->plan.inference && no.count == 0) return;
    buf_format(out, "Not covered by this trial: %s%s%s.\n", buf_z(&no),
               m->q->plan.inference ? ""
               : no.count           ? ", "
                                    : "",
               m->q->plan.inference ? "" : "resuming");
}

// A batch that ran, but may not be the answer, was faster than all that may.
static void show_faster(const struct choice_measured *m, struct buf *out) {
    if (!m->fastest || m->fastest->result.status == LAUNCH_OK || !m->best) return;
    double ratio = m->fastest->result.samples_per_s / m->best->result.samples_per_s;
    if (!(ratio > 1.02)) return;
    buf_format(out,
               "Batch %lld ran %.3g times as fast, but left less memory free: a smaller "
               "--safety-margin or more memory would allow it.\n",
               (long long)m->fastest->plan.batch, ratio);
}

// The search ended at its own end, not at the memory's or the effective batch's.
bool choice_is_capped(const struct choice_measured *m) {
    if (m->cap <= 0 || m->found.largest != m->cap) return false;
    return m->q->effective <= 0 || m->cap * m->q->plan.ranks < m->q->effective;
}

static void show_cap(const struct choice_measured *m, struct buf *out) {
    if (!choice_is_capped(m)) return;
    buf_format(out,
               "%lld is the largest batch the search may try, and it fits: --max-batch-size raises "
               "the limit.\n",
               (long long)m->cap);
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

// The answer, in the words of a prediction; the figures are measured.
static void show_choice(const struct choice_measured *m, struct show_style style, struct buf *out) {
    struct arena *a = m->q->arena;
    enum answer_verdict verdict = m->best ? ANSWER_FITS : ANSWER_NOT;
    struct str name = str_of(answer_verdict_name(verdict));
    struct buf text = buf_new(a);
    show_text(out, style, m->best && !m->confirmed ? SHOW_WARN : answer_verdict_tone(verdict),
              name);
    buf_add(out, STR("  "));
    if (m->best) {
        buf_format(&text, "batch %.*s on %.*s", STR_ARG(answer_batch_text(a, &m->chosen.plan)),
                   STR_ARG(show_gpu_name(m->launch.place.name)));
        if (m->best->result.peak_bytes > 0) {
            buf_format(&text, ": %s of %s", unit_bytes(a, m->best->result.peak_bytes).p,
                       unit_bytes(a, m->launch.place.capacity_bytes).p);
        }
        buf_format(&text, " (%.0f %% kept free), %s.", 100 * m->margin,
                   m->confirmed ? "confirmed by its own trial" : "but it made no second step");
    } else {
        buf_format(&text, "no batch runs in %s of %.*s.", unit_bytes(a, m->budget_bytes).p,
                   STR_ARG(show_gpu_name(m->launch.place.name)));
    }
    show_prose(out, style, SHOW_PLAIN, buf_str(&text), show_width(name) + 2, 2);
}

// What to do, or what the answer means in time.
static void show_meaning(const struct choice_measured *m, struct buf *out) {
    if (!m->best && !m->is_predicted) {
        buf_add(out, STR("Gradient checkpointing, mixed precision, a smaller image or sequence, or "
                         "an optimizer with fewer states would help; batchfit explain says by how "
                         "much, for a model with a tape (batchfit record).\n"));
    }
    double rate = m->best ? m->best->result.samples_per_s : 0;
    if (!(rate > 0)) return;
    buf_format(out, "A step takes %.3g s; a million samples take %.3g hours.\n",
               (double)plan_effective(&m->chosen.plan) / rate, 1e6 / rate / 3600);
}

static void show_prediction(const struct choice_measured *m, struct buf *out) {
    if (!m->is_predicted || !m->best) return;
    buf_format(
        out, "Predicted for batch %lld: %s needed.\n", (long long)m->predicted.plan.batch,
        unit_bytes(m->q->arena, m->predicted.peak.needed_bytes + m->predicted.peak.overhead_bytes)
            .p);
}

void choice_show_trials(const struct choice_measured *m, struct show_style style, struct buf *out) {
    struct buf text = buf_new(m->q->arena);
    show_choice(m, style, out);
    show_meaning(m, &text);
    show_prose_lines(out, style, buf_str(&text));
    buf_byte(out, '\n');
    show_text(out, style, SHOW_STRONG, show_gpu_name(m->launch.place.name));
    buf_format(out, ": %td trial%s, %d out of memory\n\n", m->trial_count,
               m->trial_count == 1 ? "" : "s", m->found.out_of_memory);
    show_trials(m, style, out);
    buf_byte(out, '\n');
    text = buf_new(m->q->arena);
    show_prediction(m, &text);
    if (m->best) {
        show_knee(m, &text);
        show_faster(m, &text);
        show_cap(m, &text);
        show_covered(m, &text);
    }
    show_prose_lines(out, style, buf_str(&text));
    answer_notes(&m->launch.notes, style, out);
    answer_notes(&m->q->notes, style, out);
    answer_notes(&m->history->notes, style, out);
    if (m->chosen.tta) answer_tta_show(m->q->arena, m->chosen.tta, style, out);
    if (!m->best && m->is_predicted) {
        struct answer answer = m->predicted;
        answer_breakdown_remedies(m->q, &answer, style, out);
    }
}
