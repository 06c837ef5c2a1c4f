// SPDX-License-Identifier: Apache-2.0
// The questions of check --matrix. Models are asked at the precision that suits the GPU, unless
// config or command line say otherwise.
#include "job/answer/answer.h"
#include "verbs/check/check.h"

typedef int ask_one(struct matrix *m, struct question *q, const struct forecast_card *card,
                    struct answer *ret, struct fail *why);

static int ask_training(struct matrix *m, struct question *q, const struct forecast_card *card,
                        struct answer *ret, struct fail *why) {
    int64_t batch = m->check->options->q.batch;
    return m->at_batch ? answer_at(q, card, batch, 1, ret, why) : answer_choose(q, card, ret, why);
}

// Between the epochs of a training, beside its states.
static int ask_evaluation(struct matrix *m, struct question *q, const struct forecast_card *card,
                          struct answer *ret, struct fail *why) {
    struct answer training;
    struct answer_eval *eval;
    int rc = answer_choose(q, card, &training, why);
    const struct plan_range range = q->range;
    if (m->at_batch) q->range.least = q->range.most = m->check->options->q.batch;
    if (rc == 0) rc = answer_eval_choose(q, &training, &eval, why);
    q->range = range;
    if (rc == 0) *ret = eval->answer;
    return rc;
}

// The GPU with the margin of inference, and nothing on it that only a training has.
static int ask_inference(struct matrix *m, struct question *q, const struct forecast_card *card,
                         struct answer *ret, struct fail *why) {
    struct forecast_card placed;
    q->plan.inference = q->plan.generates = true;
    q->plan.checkpointing = q->plan.ema = false;
    q->plan.optimizer = (struct str){0};
    question_place(q, card->gpu, &placed);
    placed.others_bytes = card->others_bytes;
    return ask_training(m, q, &placed, ret, why);
}

static const struct matrix_use {
    const char *name;
    ask_one *ask;
} uses[] = {{"train", ask_training}, {"eval", ask_evaluation}, {"infer", ask_inference}};
enum { USES = sizeof uses / sizeof *uses, TRAIN = 0, INFER = 2 };

const char *check_matrix_use_name(const struct matrix_use *use) {
    return use->name;
}

bool check_matrix_has_uses(const struct matrix *m) {
    return m->check->options->uses != NULL;
}

// --- What is asked -------------------------------------------------------------------------------

static void find_models(struct matrix *m) {
    struct question *q = &m->check->question;
    struct str rest = str_of(m->check->options->models);
    while (rest.p) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (name.len > 0) str_list_add(q->arena, &m->models, name);
    }
    if (m->models.count == 0 && q->plan.model.len > 0) {
        str_list_add(q->arena, &m->models, q->plan.model);
    }
    bool wants_all = m->models.count == 0;
    for (ptrdiff_t i = 0; wants_all && i < q->store.count; i++) {
        struct str model = tape_store_at(&q->store, i)->header.model;
        str_list_add_new(q->arena, &m->models, model);
    }
}

// This machine's GPUs first, then the team's.
static int find_cards(struct matrix *m, struct fail *why) {
    struct check *c = m->check;
    const struct check_options *o = c->options;
    struct question_gpus team = {0};
    if (o->gpus && str_is(str_of(o->gpus), "all"))
        return question_gpus_every(&c->question, &m->cards), 0;
    if (o->gpus) return question_gpus_named(&c->question, o->gpus, &m->cards, why);
    int rc = question_gpus_here(&c->question, NULL, o->machine, &m->cards, why);
    if (rc == 0) rc = question_gpus_of_team(&c->question, &team, why);
    for (ptrdiff_t i = 0; i < team.count; i++) {
        *arena_push(c->arena, &m->cards.items, &m->cards.count, &m->cards.capacity) = team.items[i];
    }
    return rc;
}

// A model that no tape and no template matches, named by the user, is an error as it is for fit.
static int refuse_unknown(const struct matrix *m, struct fail *why) {
    struct question *q = &m->check->question;
    struct forecast_model found;
    const struct shape *shape;
    for (ptrdiff_t i = 0; i < m->models.count && m->check->options->models; i++) {
        const struct str model = m->models.items[i];
        int rc = forecast_shape(&q->tape_cache, model, &shape, why);
        if (rc == 0 && !shape) rc = forecast_find_model(q->arena, &q->store, model, &found, why);
        if (rc < 0) return rc;
    }
    return 0;
}

static int add_sizes(struct matrix *m, struct str model, const struct matrix_use *use,
                     struct fail *why) {
    struct str rest = str_of(m->check->options->sizes);
    struct matrix_row row = {.model = model, .use = use};
    bool is_open = !rest.p;
    while (is_open || rest.p) {
        struct str word = is_open ? (struct str){0} : str_trim(str_cut(&rest, ','));
        if (!is_open && (!str_to_i64(word, &row.size) || row.size <= 0 || row.size > 1 << 20)) {
            return fail_set(why, FAIL_USAGE, "--sizes: \"%.*s\" is no size in pixels or tokens",
                            STR_ARG(word));
        }
        *arena_push(m->check->arena, &m->rows, &m->row_count, &m->row_capacity) = row;
        is_open = false;
    }
    return 0;
}

static const struct matrix_use *use_named(struct str name) {
    for (int i = 0; i < USES; i++) {
        if (str_is(name, uses[i].name)) return &uses[i];
    }
    return NULL;
}

static int add_uses(struct matrix *m, struct str model, struct fail *why) {
    bool is_inference = m->check->question.plan.inference;
    struct str rest = str_of(m->check->options->uses);
    if (!rest.p) return add_sizes(m, model, &uses[is_inference ? INFER : TRAIN], why);
    while (rest.p) {
        struct str name = str_trim(str_cut(&rest, ','));
        const struct matrix_use *use = use_named(name);
        if (!use) {
            return fail_set(why, FAIL_USAGE, "--uses: \"%.*s\" is not train, eval or infer",
                            STR_ARG(name));
        }
        int rc = add_sizes(m, model, use, why);
        if (rc < 0) return rc;
    }
    return 0;
}

int check_matrix_open(struct matrix *m, struct fail *why) {
    find_models(m);
    int rc = refuse_unknown(m, why);
    for (ptrdiff_t i = 0; rc == 0 && i < m->models.count; i++) {
        rc = add_uses(m, m->models.items[i], why);
    }
    return rc == 0 ? find_cards(m, why) : rc;
}

// --- Answers -------------------------------------------------------------------------------------

// Pixels or tokens: what the model's usual tape has.
static void set_size(struct question *q, int64_t size) {
    struct forecast usual;
    if (size == 0 || forecast_open(&q->tape_cache, &q->plan, &usual, NULL) < 0) return;
    if (usual.plan.image_size > 0)
        q->plan.image_size = size;
    else
        q->plan.sequence_length = size;
}

// While the question is still that of the row.
static void judge(struct question *q, struct matrix_cell *cell) {
    cell->word = answer_word(q, &cell->answer);
    cell->is_counted = answer_is_counted(q, &cell->answer);
    if (!cell->is_counted) cell->why = answer_why_not_counted(q, &cell->answer);
}

static void ask_row(struct matrix *m, ptrdiff_t row) {
    struct question *q = &m->check->question;
    const struct matrix_row *r = &m->rows[row];
    const struct plan asked = q->plan;
    const bool is_open = q->precision_is_open;
    q->plan.model = r->model;
    if (is_open && question_is_of_bf16(q)) {
        q->plan.precision = PLAN_BF16;
        q->precision_is_open = false;
    }
    set_size(q, r->size);
    const struct plan sized = q->plan;
    for (ptrdiff_t j = 0; j < m->cards.count; j++) {
        struct matrix_cell *cell = &m->cells[row * m->cards.count + j];
        struct fail why = {0};
        q->plan = sized;
        cell->is_known = r->use->ask(m, q, &m->cards.items[j], &cell->answer, &why) == 0;
        if (cell->is_known)
            judge(q, cell);
        else
            cell->why = str_copy(q->arena, str_of(why.message));
    }
    q->plan = asked;
    q->precision_is_open = is_open;
}

void check_matrix_fill(struct matrix *m) {
    struct question *q = &m->check->question;
    const int64_t effective = q->effective;
    const bool is_open = q->precision_is_open;
    m->cells = arena_new(q->arena, struct matrix_cell, m->row_count * m->cards.count + 1);
    q->effective = 0; // the largest batch is asked for, not one that keeps something
    q->precision_is_open = !q->has_config && !q->precision_fixed;
    for (ptrdiff_t i = 0; i < m->row_count; i++) ask_row(m, i);
    q->effective = effective;
    q->precision_is_open = is_open;
}
