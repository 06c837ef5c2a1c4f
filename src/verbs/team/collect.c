// SPDX-License-Identifier: Apache-2.0
// All machines' files, judged, and a row for each GPU: measured where a machine of the team did,
// else predicted.
#include "verbs/team/team.h"

#include <assert.h>
#include <string.h>

static const char default_folder[] = ".batchfit/team";

static int read_prefer(const char *word, enum survey_prefer *ret, struct fail *why) {
    static const char *const words[] = {
        [SURVEY_SAFEST] = "safest", [SURVEY_NEWEST] = "newest", [SURVEY_FASTEST] = "fastest"};
    *ret = SURVEY_SAFEST;
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *ret = (enum survey_prefer)i;
        return 0;
    }
    if (!word) return 0;
    return fail_set(why, FAIL_USAGE, "--prefer %s: not one of safest, newest, fastest", word);
}

static int ask(struct question *q, const struct team_collect_options *o,
               struct survey_question *ret, struct fail *why) {
    const struct plan *p = &q->plan;
    struct forecast_model model;
    *ret = (struct survey_question){
        .plan = *p,
        .effective = p->inference ? 0 : q->effective,
        .margin = q->margin,
    };
    if (forecast_find_model(q->arena, &q->store, p->model, &model, NULL) == 0)
        ret->also = model.name;
    return read_prefer(o->prefer, &ret->prefer, why);
}

// What this machine would write counts also where it does not (--test-only).
static void put_own(struct team_collect *c) {
    struct survey_folder *f = &c->files;
    if (c->own.count == 0) return;
    for (ptrdiff_t i = 0; i < f->count; i++) {
        if (!str_equal(f->files[i].machine, c->own.machine)) continue;
        f->files[i] = c->own;
        return;
    }
    *arena_push(c->q->arena, &f->files, &f->count, &f->capacity) = c->own;
}

static void judge(struct team_collect *c) {
    struct survey_folder *f = &c->files;
    for (ptrdiff_t i = 0; i < f->count; i++) {
        for (ptrdiff_t k = 0; k < f->files[i].count; k++) {
            team_collect_place(c->q, &f->files[i].records[k]);
        }
    }
    survey_judge(c->q->arena, f, &c->asked, &c->merged);
}

// --- Rows ----------------------------------------------------------------------------------------

static struct team_collect_row *add_row(struct team_collect *c, const struct forecast_card *card) {
    struct team_collect_row *row =
        arena_push(c->q->arena, &c->rows, &c->row_count, &c->row_capacity);
    *row = (struct team_collect_row){.card = *card};
    return row;
}

static const struct survey_record *any_record(const struct survey_card *card) {
    for (ptrdiff_t i = 0; i < card->count; i++) {
        if (card->choices[i].record) return card->choices[i].record;
        if (card->choices[i].stopped) return card->choices[i].stopped;
    }
    return NULL;
}

static const struct gpu *known_card(const struct question *q, struct str key) {
    for (ptrdiff_t i = 0; i < q->gpus.count; i++) {
        if (str_equal(q->gpus.gpus[i].key, key)) return &q->gpus.gpus[i];
    }
    return NULL;
}

static void add_measured(struct team_collect *c, const struct survey_card *measured) {
    const struct survey_record *r = any_record(measured);
    const struct gpu *known = known_card(c->q, measured->key);
    struct forecast_card card;
    for (ptrdiff_t i = 0; i < c->row_count; i++) {
        if (!str_equal(c->rows[i].card.gpu.key, measured->key)) continue;
        c->rows[i].measured = measured;
        return;
    }
    if (!r) return;
    struct gpu gpu = known ? *known : gpu_custom(NULL, r->capacity_bytes);
    gpu.key = measured->key;
    if (!known) gpu.name = r->card;
    question_place(c->q, gpu, &card);
    add_row(c, &card)->measured = measured;
}

const struct survey_choice *team_collect_taken(const struct team_collect_row *row) {
    if (!row->measured || row->measured->taken < 0) return NULL;
    return &row->measured->choices[row->measured->taken];
}

// A machine of the team knows better than a prediction what does not run.
static bool is_refuted(const struct survey_card *measured, int64_t batch) {
    for (ptrdiff_t i = 0; measured && i < measured->count; i++) {
        const struct survey_record *stopped = measured->choices[i].stopped;
        if (stopped && stopped->plan.batch <= batch) return true;
    }
    return false;
}

// Without a tape there is no prediction; what was measured is shown all the same.
static void predict(struct team_collect *c) {
    struct fail why = {0};
    for (ptrdiff_t i = 0; i < c->row_count; i++) {
        struct team_collect_row *row = &c->rows[i];
        row->is_predicted = answer_choose(c->q, &row->card, &row->predicted, &why) == 0;
        row->is_refuted = row->is_predicted && is_refuted(row->measured, row->predicted.plan.batch);
        row->is_answered = row->is_predicted && row->predicted.fits && !row->is_refuted &&
                           !team_collect_taken(row);
        if (row->is_predicted) continue;
        question_say(c->q, "no prediction: %s", why.message);
        return;
    }
}

int team_collect(struct question *q, const struct team_collect_options *o,
                 const struct question_gpus *cards, struct team_collect *ret, struct fail *why) {
    struct team_collect *c = ret;
    *c = (struct team_collect){.q = q, .folder = str_of(o->folder ? o->folder : default_folder)};
    int rc = ask(q, o, &c->asked, why);
    if (rc == 0) rc = team_collect_own(c, o, why);
    if (rc == 0) rc = survey_open(q->arena, c->folder, &c->files, why);
    if (rc < 0) return rc;
    put_own(c);
    judge(c);
    for (ptrdiff_t i = 0; i < cards->count; i++) add_row(c, &cards->items[i]);
    for (ptrdiff_t i = 0; i < c->merged.count; i++) add_measured(c, &c->merged.cards[i]);
    predict(c);
    if (c->asked.effective <= 0 && !q->plan.inference) {
        question_note(q, STR("no effective batch given (--effective-batch-size): whether the "
                             "machines keep the same one was not checked"));
    }
    return 0;
}
