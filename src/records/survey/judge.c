// SPDX-License-Identifier: Apache-2.0
// What the machines' records come to. Of one machine and GPU only what was measured with the
// PyTorch of its newest record counts, and a batch that ran once and ran out of memory later is no
// answer. Of several machines with one GPU the smallest batch is the safe one: it ran everywhere
// that it was tried, and the larger one did not, or was not tried.
#include "records/survey/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- Which records are of the question -----------------------------------------------------------

#define PLAN(member) PLAN_FIELD(0, member)
static const struct asked {
    const char *what;
    struct field field; // of the plan
} asked[] = {
    {"image size", PLAN(image_size)},       {"sequence length", PLAN(sequence_length)},
    {"target length", PLAN(target_length)}, {"checkpointing", PLAN(checkpointing)},
    {"moving average", PLAN(ema)},          {"inference", PLAN(inference)},
    {"optimizer", PLAN(optimizer)},         {"layout", PLAN(layout)},
    {"precision", PLAN(precision)},
};
enum { ASKED = sizeof asked / sizeof *asked };

static struct str said(struct arena *a, const struct plan *p, const struct field *f) {
    if (field_outside(f) == FIELD_TEXT) {
        struct str text = field_text(p, f);
        return text.len > 0 ? text : STR("not given");
    }
    int64_t n = field_whole(p, f);
    return n > 0 ? str_format(a, "%lld", (long long)n) : STR("not given");
}

static bool is_asked(const struct survey_record *r, const struct survey_question *q,
                     const struct field *f) {
    const struct plan *p = &r->plan;
    if (f->type == FIELD_WORD && (!q->plan.precision || (r->adapted && p->precision == r->adapted)))
        return true;
    return field_outside(f) == FIELD_TEXT ? str_equal(field_text(p, f), field_text(&q->plan, f))
                                          : field_whole(p, f) == field_whole(&q->plan, f);
}

// How the record is another question; empty: it is not.
static struct str difference(struct arena *a, const struct survey_record *r,
                             const struct survey_question *q) {
    struct str model = r->plan.model;
    bool is_model =
        str_equal(model, q->plan.model) || (q->also.len > 0 && str_equal(model, q->also));
    if (!is_model) return str_format(a, "model %.*s", STR_ARG(model));
    for (int i = 0; i < ASKED; i++) {
        const struct field *f = &asked[i].field;
        if (is_asked(r, q, f)) continue;
        return str_format(a, "%s %.*s, here %.*s", asked[i].what, STR_ARG(said(a, &r->plan, f)),
                          STR_ARG(said(a, &q->plan, f)));
    }
    if (r->key.len == 0) return STR("only part of the GPU's memory (--memory)");
    return (struct str){0};
}

// Dates have one shape.
static bool is_newer(const struct survey_record *a, const struct survey_record *b) {
    return !b || strncmp(a->date.p, b->date.p, 20) > 0;
}

static struct survey_part part_of(struct arena *a, const struct survey_file *file,
                                  const struct survey_question *q) {
    const struct survey_record *newest = NULL, *other = NULL;
    struct survey_part part = {.file = file};
    for (ptrdiff_t i = 0; i < file->count; i++) {
        const struct survey_record *r = &file->records[i];
        if (difference(a, r, q).len > 0) {
            if (is_newer(r, other)) other = r;
            continue;
        }
        part.used++;
        if (is_newer(r, newest)) newest = r;
    }
    if (newest) part.effective = plan_effective(&newest->plan);
    part.differs = newest && q->effective > 0 && part.effective != q->effective;
    if (!newest) part.reason = other ? difference(a, other, q) : STR("no records");
    return part;
}

// --- One machine, one GPU ------------------------------------------------------------------------

// The records of one machine that are of the question and keep the effective batch.
struct view {
    const struct survey_file *file;
    const struct survey_question *q;
    const struct survey_record **records;
    ptrdiff_t count;
    struct str key, torch; // of the GPU that is looked at
};

static struct view view_of(struct arena *a, const struct survey_file *file,
                           const struct survey_question *q) {
    struct view v = {file, q,   arena_new(a, const struct survey_record *, file->count + 1),
                     0,    {0}, {0}};
    for (ptrdiff_t i = 0; i < file->count; i++) {
        const struct survey_record *r = &file->records[i];
        bool keeps = q->effective <= 0 || plan_effective(&r->plan) == q->effective;
        if (keeps && difference(a, r, q).len == 0) v.records[v.count++] = r;
    }
    return v;
}

static bool ran(const struct view *v, const struct survey_record *r) {
    if (!str_is(r->status, "OK")) return false;
    if (isnan(v->q->margin)) return true;
    double budget = (double)r->capacity_bytes * (1 - v->q->margin);
    return r->charged_bytes > 0 && (double)r->charged_bytes <= budget;
}

static bool counts(const struct view *v, const struct survey_record *r) {
    return str_equal(r->key, v->key) && str_equal(r->torch, v->torch);
}

// A smaller or equal batch did not run since.
static bool is_refuted(const struct view *v, const struct survey_record *r) {
    for (ptrdiff_t i = 0; i < v->count; i++) {
        const struct survey_record *other = v->records[i];
        bool is_same = counts(v, other) && other->plan.precision == r->plan.precision;
        if (is_same && !ran(v, other) && other->plan.batch <= r->plan.batch && is_newer(other, r))
            return true;
    }
    return false;
}

// The precision that suits the GPU comes first, then what was asked for.
static bool is_better(const struct view *v, const struct survey_record *a,
                      const struct survey_record *b) {
    if (!b) return true;
    bool suits_a = a->plan.precision == a->adapted, suits_b = b->plan.precision == b->adapted;
    if (suits_a != suits_b) return suits_a;
    if (v->q->prefer == SURVEY_FASTEST) {
        double x = isnan(a->samples_per_s) ? 0 : a->samples_per_s;
        double y = isnan(b->samples_per_s) ? 0 : b->samples_per_s;
        if (x > y || x < y) return x > y;
    }
    return a->plan.batch != b->plan.batch ? a->plan.batch > b->plan.batch : is_newer(a, b);
}

static struct survey_choice choose(struct view *v) {
    const struct survey_record *newest = NULL;
    struct survey_choice choice = {.file = v->file};
    for (ptrdiff_t i = 0; i < v->count; i++) {
        const struct survey_record *r = v->records[i];
        if (str_equal(r->key, v->key) && is_newer(r, newest)) newest = r;
    }
    v->torch = newest ? newest->torch : (struct str){0};
    for (ptrdiff_t i = 0; i < v->count; i++) {
        const struct survey_record *r = v->records[i];
        if (!counts(v, r)) continue;
        if (!ran(v, r)) {
            if (!choice.stopped || r->plan.batch < choice.stopped->plan.batch) choice.stopped = r;
        } else if (!is_refuted(v, r) && is_better(v, r, choice.record)) {
            choice.record = r;
        }
    }
    return choice;
}

// --- All of them ---------------------------------------------------------------------------------

static struct survey_card *card_of(struct arena *a, struct survey_merged *m, struct str key) {
    for (ptrdiff_t i = 0; i < m->count; i++) {
        if (str_equal(m->cards[i].key, key)) return &m->cards[i];
    }
    struct survey_card *card = arena_push(a, &m->cards, &m->count, &m->capacity);
    *card = (struct survey_card){.key = key, .taken = -1};
    return card;
}

static bool has_choice_of(const struct survey_card *card, const struct survey_file *file) {
    for (ptrdiff_t i = 0; i < card->count; i++) {
        if (card->choices[i].file == file) return true;
    }
    return false;
}

static void add_choices(struct arena *a, struct survey_merged *m, const struct survey_file *file,
                        const struct survey_question *q) {
    struct view v = view_of(a, file, q);
    for (ptrdiff_t i = 0; i < v.count; i++) {
        struct survey_card *card = card_of(a, m, v.records[i]->key);
        if (has_choice_of(card, file)) continue;
        v.key = v.records[i]->key;
        *arena_push(a, &card->choices, &card->count, &card->capacity) = choose(&v);
    }
}

static bool is_preferred(const struct survey_record *a, const struct survey_record *b,
                         enum survey_prefer prefer) {
    if (!b) return true;
    if (prefer == SURVEY_FASTEST &&
        (a->samples_per_s > b->samples_per_s || a->samples_per_s < b->samples_per_s)) {
        return a->samples_per_s > b->samples_per_s;
    }
    if (prefer != SURVEY_NEWEST && a->plan.batch != b->plan.batch) {
        return (a->plan.batch < b->plan.batch) == (prefer == SURVEY_SAFEST);
    }
    return is_newer(a, b);
}

static bool is_same_answer(const struct survey_record *a, const struct survey_record *b) {
    if (!a || !b) return a == b;
    return a->plan.batch == b->plan.batch && a->plan.precision == b->plan.precision;
}

static void settle(struct survey_card *card, enum survey_prefer prefer) {
    const struct survey_record *best = NULL;
    for (ptrdiff_t i = 0; i < card->count; i++) {
        const struct survey_record *r = card->choices[i].record;
        card->is_conflict |= !is_same_answer(r, card->choices[0].record);
        if (!r || !is_preferred(r, best, prefer)) continue;
        best = r;
        card->taken = i;
    }
}

static int by_key(const void *a, const void *b) {
    const struct survey_card *x = a, *y = b;
    ptrdiff_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = memcmp(x->key.p, y->key.p, (size_t)len);
    return order ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

void survey_judge(struct arena *a, const struct survey_folder *folder,
                  const struct survey_question *q, struct survey_merged *ret_merged) {
    struct survey_merged *m = ret_merged;
    *m = (struct survey_merged){.parts = arena_new(a, struct survey_part, folder->count + 1),
                                .part_count = folder->count};
    for (ptrdiff_t i = 0; i < folder->count; i++) {
        m->parts[i] = part_of(a, &folder->files[i], q);
        m->differing += m->parts[i].differs;
        if (!m->parts[i].differs) add_choices(a, m, &folder->files[i], q);
    }
    for (ptrdiff_t i = 0; i < m->count; i++) settle(&m->cards[i], q->prefer);
    if (m->count > 0) qsort(m->cards, (size_t)m->count, sizeof *m->cards, by_key);
}
