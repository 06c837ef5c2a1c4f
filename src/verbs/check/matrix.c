// SPDX-License-Identifier: Apache-2.0
// check --matrix: models by GPUs. A cell says the largest batch that the GPU's budget takes or,
// of a given batch, whether it fits. Models are asked at the precision that suits the GPU, unless
// config or command line say otherwise.
#include "verbs/check/check.h"

#include "base/clean.h"
#include "base/out.h"
#include "job/answer/verdict.h"
#include "view/html/html.h"
#include "view/show/prose.h"

#include <stdio.h>
#include <unistd.h>

struct cell {
    bool is_known;
    struct str why; // not known
    struct answer answer;
};
struct matrix {
    struct check *check;
    struct str_list models;
    struct question_gpus cards;
    struct cell *cells; // row by row, a row a model
    bool at_batch;      // --batch-size
};

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
        struct str model = q->store.entries[i].header.model;
        if (!str_list_has(&m->models, model)) str_list_add(q->arena, &m->models, model);
    }
}

static void add_catalogue(struct question *q, struct question_gpus *cards) {
    for (ptrdiff_t i = 0; i < q->gpus.count; i++) {
        question_place(q, q->gpus.gpus[i],
                       arena_push(q->arena, &cards->items, &cards->count, &cards->capacity));
    }
}

// This machine's GPUs first, then the team's.
static int find_cards(struct matrix *m, struct fail *why) {
    struct check *c = m->check;
    const struct check_options *o = c->options;
    struct question_gpus team = {0};
    if (o->gpus && str_is(str_of(o->gpus), "all")) return add_catalogue(&c->question, &m->cards), 0;
    if (o->gpus) return question_gpus_named(&c->question, o->gpus, &m->cards, why);
    int rc = question_gpus_here(&c->question, NULL, o->machine, &m->cards, why);
    if (rc == 0) rc = question_gpus_of_team(&c->question, &team, why);
    for (ptrdiff_t i = 0; i < team.count; i++) {
        *arena_push(c->arena, &m->cards.items, &m->cards.count, &m->cards.capacity) = team.items[i];
    }
    return rc;
}

// --- Answers -------------------------------------------------------------------------------------

static void ask(struct matrix *m, const struct forecast_card *card, struct cell *cell) {
    struct question *q = &m->check->question;
    int64_t batch = m->check->options->q.batch;
    struct fail why = {0};
    int rc = m->at_batch ? answer_at(q, card, batch, 1, &cell->answer, &why)
                         : answer_choose(q, card, &cell->answer, &why);
    cell->is_known = rc == 0;
    if (rc < 0) cell->why = str_copy(q->arena, str_of(why.message));
}

static void fill(struct matrix *m) {
    struct question *q = &m->check->question;
    const struct plan asked = q->plan;
    const int64_t effective = q->effective;
    const bool is_open = q->precision_is_open;
    m->cells = arena_new(q->arena, struct cell, m->models.count * m->cards.count + 1);
    for (ptrdiff_t i = 0; i < m->models.count; i++) {
        q->plan = asked;
        q->plan.model = m->models.items[i];
        q->effective = 0; // the largest batch is asked for, not one that keeps something
        q->precision_is_open = !q->has_config && !q->precision_fixed;
        for (ptrdiff_t j = 0; j < m->cards.count; j++) {
            ask(m, &m->cards.items[j], &m->cells[i * m->cards.count + j]);
        }
    }
    q->plan = asked;
    q->effective = effective;
    q->precision_is_open = is_open;
}

// A model that no tape matches, named by the user, is an error as it is for fit.
static int refuse_unknown(const struct matrix *m, struct fail *why) {
    struct question *q = &m->check->question;
    struct forecast_model found;
    for (ptrdiff_t i = 0; i < m->models.count && m->check->options->models; i++) {
        int rc = forecast_find_model(q->arena, &q->store, m->models.items[i], &found, why);
        if (rc < 0) return rc;
    }
    return 0;
}

// --- Showing -------------------------------------------------------------------------------------

// The document's word.
static const char *verdict(const struct cell *cell) {
    if (!cell->is_known) return NULL;
    return cell->answer.fits ? forecast_verdict_name(cell->answer.peak.verdict) : "OOM";
}

static void show_cell(const struct matrix *m, struct show_table *t, const struct cell *cell) {
    const struct answer *x = &cell->answer;
    enum answer_verdict is = cell->is_known ? answer_verdict(x) : ANSWER_NOT;
    enum show_tone tone = answer_verdict_tone(is);
    if (!cell->is_known)
        show_table_unknown(t);
    else if (m->at_batch || !x->fits)
        show_table_cell(t, tone, str_of(answer_verdict_name(is)));
    else if (is == ANSWER_FITS)
        show_table_format(t, tone, "%lld", (long long)x->plan.batch);
    else
        show_table_format(t, tone, "%lld %s", (long long)x->plan.batch, answer_verdict_name(is));
}

// Of the first cell that is known: it is the same for all GPUs.
static void show_size(const struct matrix *m, struct show_table *t, ptrdiff_t row) {
    for (ptrdiff_t j = 0; j < m->cards.count; j++) {
        const struct cell *cell = &m->cells[row * m->cards.count + j];
        const struct plan *p = &cell->answer.plan;
        bool is_image = p->image_size > 0;
        if (!cell->is_known) continue;
        show_table_format(t, SHOW_PLAIN, "%lld %s",
                          (long long)(is_image ? p->image_size : p->sequence_length),
                          is_image ? "px" : "tokens");
        return;
    }
    show_table_unknown(t);
}

static struct show_table table_of(const struct matrix *m) {
    struct arena *a = m->check->arena;
    struct show_table t = show_table_new(a, (struct str){0});
    show_table_column(&t, "model", SHOW_LEFT);
    show_table_column(&t, "size", SHOW_RIGHT);
    for (ptrdiff_t j = 0; j < m->cards.count; j++) {
        struct str name = m->cards.items[j].gpu.key;
        if (m->cards.items[j].others_bytes > 0) name = show_gpu_name(m->cards.items[j].gpu.name);
        show_table_column(&t, str_z(a, name), SHOW_RIGHT);
    }
    for (ptrdiff_t i = 0; i < m->models.count; i++) {
        show_table_cell(&t, SHOW_STRONG, m->models.items[i]);
        show_size(m, &t, i);
        for (ptrdiff_t j = 0; j < m->cards.count; j++) {
            show_cell(m, &t, &m->cells[i * m->cards.count + j]);
        }
    }
    return t;
}

static struct str title_of(const struct matrix *m) {
    struct arena *a = m->check->arena;
    if (!m->at_batch)
        return STR("The largest batch that fits, keeping the margin of the GPU's tier free");
    return str_format(a, "Does a batch of %lld fit?", (long long)m->check->options->q.batch);
}

// What the rows have in common, and why cells are empty, once.
static void collect_notes(const struct matrix *m, struct str_list *notes) {
    struct question *q = &m->check->question;
    str_list_format(
        q->arena, notes, "%s on GPUs with tensor cores, fp32 on the others; optimizer %.*s",
        q->has_config || q->precision_fixed ? "the config's precision"
                                            : "mixed precision (bf16 in hardware, else fp16)",
        STR_ARG(q->plan.optimizer.len ? q->plan.optimizer : STR("adamw, or the tape's own")));
    for (ptrdiff_t i = 0; i < m->models.count * m->cards.count; i++) {
        const struct cell *cell = &m->cells[i];
        if (!cell->is_known && !str_list_has(notes, cell->why))
            str_list_add(q->arena, notes, cell->why);
    }
    for (ptrdiff_t i = 0; i < q->notes.count; i++) str_list_add(q->arena, notes, q->notes.items[i]);
}

static json_t *matrix_json(const struct matrix *m) {
    json_t *rows = json_array();
    for (ptrdiff_t i = 0; i < m->models.count; i++) {
        for (ptrdiff_t j = 0; j < m->cards.count; j++) {
            const struct cell *cell = &m->cells[i * m->cards.count + j];
            const struct answer *x = &cell->answer;
            bool fits = cell->is_known && x->fits;
            json_array_append_new(
                rows, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model",
                                json_text(m->models.items[i]), "card",
                                json_text(m->cards.items[j].gpu.key), "name",
                                json_text(m->cards.items[j].gpu.name), "batch_size",
                                fits ? json_integer(x->plan.batch) : json_null(), "verdict",
                                json_text(str_of(verdict(cell))), "precision",
                                cell->is_known ? json_string(plan_precision_name(x->plan.precision))
                                               : json_null(),
                                "reason", json_text(cell->why)));
        }
    }
    return json_pack("{s:o, s:o}", "matrix", rows, "notes",
                     answer_notes_json(&m->check->question.notes));
}

static struct str markdown_text(const struct matrix *m) {
    struct buf b = buf_new(m->check->arena);
    struct show_table t = table_of(m);
    buf_format(&b, "# %.*s\n\n", STR_ARG(title_of(m)));
    show_table_markdown(&t, &b);
    struct str_list notes = {0};
    collect_notes(m, &notes);
    buf_byte(&b, '\n');
    for (ptrdiff_t i = 0; i < notes.count; i++) {
        buf_format(&b, "- %.*s\n", STR_ARG(notes.items[i]));
    }
    return buf_str(&b);
}

static struct str html_text(const struct matrix *m) {
    struct buf b = buf_new(m->check->arena);
    struct show_table t = table_of(m);
    struct str_list notes = {0};
    collect_notes(m, &notes);
    html_open(&b, STR("Models and GPUs"), title_of(m));
    html_table(&b, &t);
    html_list(&b, notes.items, (int)notes.count);
    html_close(&b, STR("batchfit " BATCHFIT_VERSION));
    return buf_str(&b);
}

static struct str csv_text(const struct matrix *m) {
    struct buf b = buf_new(m->check->arena);
    buf_add(&b, STR("model,card,batch_size,verdict,precision\n"));
    for (ptrdiff_t i = 0; i < m->models.count * m->cards.count; i++) {
        const struct cell *cell = &m->cells[i];
        const struct answer *x = &cell->answer;
        clean_csv(&b, m->models.items[i / m->cards.count]);
        buf_byte(&b, ',');
        clean_csv(&b, m->cards.items[i % m->cards.count].gpu.key);
        buf_byte(&b, ',');
        if (cell->is_known && x->fits) buf_format(&b, "%lld", (long long)x->plan.batch);
        buf_format(&b, ",%s,%s\n", cell->is_known ? verdict(cell) : "",
                   cell->is_known ? plan_precision_name(x->plan.precision) : "");
    }
    return buf_str(&b);
}

static struct str json_text_of(const struct matrix *m) {
    return json_document(m->check->arena, matrix_json(m));
}

static const struct {
    const char *suffix;
    struct str (*text)(const struct matrix *m);
} files[] = {
    {".md", markdown_text}, {".html", html_text}, {".csv", csv_text}, {".json", json_text_of}};

static int write_output(const struct matrix *m, const char *path, struct fail *why) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!str_ends(str_of(path), str_of(files[i].suffix))) continue;
        return os_replace(m->check->arena, path, files[i].text(m), NULL, why);
    }
    return fail_set(why, FAIL_USAGE, "--output %s: its name must end in .md, .html, .csv or .json",
                    path);
}

static void print(const struct matrix *m) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(m->check->arena);
    struct show_table t = table_of(m);
    show_prose(&out, style, SHOW_PLAIN, title_of(m), 0, 2);
    buf_byte(&out, '\n');
    show_table_text(&t, style, &out);
    buf_byte(&out, '\n');
    struct str_list notes = {0};
    collect_notes(m, &notes);
    answer_notes(&notes, style, &out);
    if (m->check->options->output) buf_format(&out, "written: %s\n", m->check->options->output);
    out_buf(stdout, &out);
}

int check_matrix(struct check *c, struct fail *why) {
    struct matrix m = {.check = c, .at_batch = c->options->q.batch > 0};
    find_models(&m);
    int rc = refuse_unknown(&m, why);
    if (rc == 0) rc = find_cards(&m, why);
    if (rc < 0) return rc;
    fill(&m);
    if (c->options->output) rc = write_output(&m, c->options->output, why);
    if (rc < 0) return rc;
    if (c->options->q.base.json) return json_print(matrix_json(&m), why);
    print(&m);
    return 0;
}
