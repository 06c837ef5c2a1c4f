// SPDX-License-Identifier: Apache-2.0
// check --matrix: models by GPUs, as a table and as files (what is asked is in matrix_ask.c). A
// cell says the largest batch that the GPU's budget takes or, of a given batch, whether it fits.
#include "verbs/check/check.h"

#include "base/out.h"
#include "job/answer/answer.h"
#include "view/html/html.h"
#include "view/show/show.h"

#include <stdio.h>
#include <unistd.h>

// --- Showing -------------------------------------------------------------------------------------

// The document's word.
static const char *verdict(const struct matrix_cell *cell) {
    return cell->is_known ? forecast_verdict_name(cell->answer.peak.verdict) : NULL;
}

static void show_cell(const struct matrix *m, struct show_table *t,
                      const struct matrix_cell *cell) {
    const struct answer *x = &cell->answer;
    const struct answer_word *word = &cell->word;
    if (!cell->is_known)
        show_table_unknown(t);
    else if (m->at_batch || !x->fits || !cell->is_counted)
        show_table_cell(t, word->tone, str_of(word->name));
    else if (answer_verdict(x) == ANSWER_FITS)
        show_table_format(t, word->tone, "%lld", (long long)x->plan.batch);
    else
        show_table_format(t, word->tone, "%lld %s", (long long)x->plan.batch, word->name);
}

// Of the first cell that is known: it is the same for all GPUs.
static void show_size(const struct matrix *m, struct show_table *t, ptrdiff_t row) {
    for (ptrdiff_t j = 0; j < m->cards.count; j++) {
        const struct matrix_cell *cell = &m->cells[row * m->cards.count + j];
        const struct plan *p = &cell->answer.plan;
        bool is_image = p->image_size > 0;
        if (!cell->is_known) continue;
        show_table_format(t, SHOW_PLAIN, "%lld %s",
                          (long long)(is_image ? p->image_size : p->sequence_length),
                          is_image ? "px" : "tokens");
        return;
    }
    if (m->rows[row].size > 0)
        show_table_format(t, SHOW_PLAIN, "%lld", (long long)m->rows[row].size);
    else
        show_table_unknown(t);
}

static struct show_table table_of(const struct matrix *m) {
    struct arena *a = m->check->arena;
    struct show_table t = show_table_new(a, (struct str){0});
    show_table_column(&t, "model", SHOW_LEFT);
    if (check_matrix_has_uses(m)) show_table_column(&t, "use", SHOW_LEFT);
    show_table_column(&t, "size", SHOW_RIGHT);
    for (ptrdiff_t j = 0; j < m->cards.count; j++) {
        struct str name = m->cards.items[j].gpu.key;
        if (m->cards.items[j].others_bytes > 0) name = show_gpu_name(m->cards.items[j].gpu.name);
        show_table_column(&t, str_z(a, name), SHOW_RIGHT);
    }
    for (ptrdiff_t i = 0; i < m->row_count; i++) {
        show_table_cell(&t, SHOW_STRONG, m->rows[i].model);
        if (check_matrix_has_uses(m))
            show_table_cell(&t, SHOW_PLAIN, str_of(check_matrix_use_name(m->rows[i].use)));
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

static void note_stand_ins(const struct matrix *m, struct str_list *notes) {
    for (ptrdiff_t i = 0; i < m->row_count * m->cards.count; i++) {
        const struct matrix_cell *cell = &m->cells[i];
        const struct plan *p = &cell->answer.plan;
        if (!cell->is_known || !answer_stands_in(&cell->answer)) continue;
        struct str note = str_format(
            m->check->arena, "%.*s at %lld: a recording of a larger one stands in, so more may fit",
            STR_ARG(m->rows[i / m->cards.count].model),
            (long long)(p->image_size > 0 ? p->image_size : p->sequence_length));
        str_list_add_new(m->check->arena, notes, note);
    }
}

// Why a cell has no figure; what is not modelled is said of all.
static void note_cell(const struct matrix *m, const struct matrix_cell *cell, const struct gpu *gpu,
                      struct str_list *notes) {
    struct arena *a = m->check->arena;
    const struct str name = show_gpu_name(gpu->name);
    struct str text = cell->why;
    if (text.len == 0 || str_starts(text, STR(QUESTION_NOT_MODELLED))) return;
    if (cell->is_known) text = str_format(a, "%.*s: %.*s", STR_ARG(name), STR_ARG(text));
    str_list_add_new(a, notes, text);
}

// What the rows have in common, and why cells are empty, once.
static void collect_notes(const struct matrix *m, struct str_list *notes) {
    struct question *q = &m->check->question;
    bool is_of_bf16 = false;
    str_list_format(
        q->arena, notes, "%s on GPUs with tensor cores, fp32 on the others; optimizer %.*s",
        q->has_config || q->precision_fixed ? "the config's precision"
                                            : "mixed precision (bf16 in hardware, else fp16)",
        STR_ARG(q->plan.optimizer.len ? q->plan.optimizer : STR("adamw, or the tape's own")));
    for (ptrdiff_t i = 0; i < m->row_count * m->cards.count; i++) {
        const struct matrix_cell *cell = &m->cells[i];
        note_cell(m, cell, &m->cards.items[i % m->cards.count].gpu, notes);
        is_of_bf16 |= cell->is_known && cell->answer.plan.precision == PLAN_BF16;
    }
    if (is_of_bf16 && !q->has_config && !q->precision_fixed)
        str_list_add(q->arena, notes, STR("language models that are published in bf16: in bf16"));
    note_stand_ins(m, notes);
    for (ptrdiff_t i = 0; i < q->notes.count; i++) str_list_add(q->arena, notes, q->notes.items[i]);
    if (!check_matrix_has_uses(m)) return;
    str_list_add(
        q->arena, notes,
        STR("train: with accumulation 1; eval: between the epochs of that training, beside "
            "its states; infer: the model alone"));
}

static json_t *cell_json(const struct matrix *m, ptrdiff_t row, ptrdiff_t column) {
    const struct matrix_cell *cell = &m->cells[row * m->cards.count + column];
    const struct answer *x = &cell->answer;
    const struct gpu *gpu = &m->cards.items[column].gpu;
    bool fits = cell->is_known && x->fits && cell->is_counted;
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "model",
                     json_text(m->rows[row].model), "use", check_matrix_use_name(m->rows[row].use),
                     "image_size", json_size(cell->is_known ? x->plan.image_size : 0),
                     "sequence_length", json_size(cell->is_known ? x->plan.sequence_length : 0),
                     "card", json_text(gpu->key), "name", json_text(gpu->name), "batch_size",
                     fits ? json_integer(x->plan.batch) : json_null(), "verdict",
                     json_text(str_of(verdict(cell))), "precision",
                     cell->is_known ? json_string(plan_precision_name(x->plan.precision))
                                    : json_null(),
                     "counted", cell->is_known ? json_boolean(cell->is_counted) : json_null(),
                     "reason", json_text(cell->why));
}

static json_t *matrix_json(const struct matrix *m) {
    json_t *cells = json_array();
    for (ptrdiff_t i = 0; i < m->row_count * m->cards.count; i++) {
        json_array_append_new(cells, cell_json(m, i / m->cards.count, i % m->cards.count));
    }
    return json_pack("{s:o, s:o}", "matrix", cells, "notes", json_texts(&m->check->question.notes));
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

static void csv_size(struct buf *b, int64_t size) {
    if (size > 0) buf_format(b, "%lld", (long long)size);
}

static struct str csv_text(const struct matrix *m) {
    struct buf b = buf_new(m->check->arena);
    buf_add(
        &b,
        STR("model,card,batch_size,verdict,precision,use,image_size,sequence_length,counted\n"));
    for (ptrdiff_t i = 0; i < m->row_count * m->cards.count; i++) {
        const struct matrix_cell *cell = &m->cells[i];
        const struct answer *x = &cell->answer;
        const struct matrix_row *row = &m->rows[i / m->cards.count];
        clean_csv(&b, row->model);
        buf_byte(&b, ',');
        clean_csv(&b, m->cards.items[i % m->cards.count].gpu.key);
        buf_byte(&b, ',');
        if (cell->is_known && x->fits && cell->is_counted)
            buf_format(&b, "%lld", (long long)x->plan.batch);
        buf_format(&b, ",%s,%s,%s,", cell->is_known ? verdict(cell) : "",
                   cell->is_known ? plan_precision_name(x->plan.precision) : "",
                   check_matrix_use_name(row->use));
        csv_size(&b, cell->is_known ? x->plan.image_size : 0);
        buf_byte(&b, ',');
        csv_size(&b, cell->is_known ? x->plan.sequence_length : 0);
        buf_format(&b, ",%s\n", !cell->is_known ? "" : cell->is_counted ? "true" : "false");
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
    int rc = check_matrix_open(&m, why);
    if (rc < 0) return rc;
    check_matrix_fill(&m);
    if (c->options->output) rc = write_output(&m, c->options->output, why);
    if (rc < 0) return rc;
    if (c->options->q.base.json) return json_print(matrix_json(&m), why);
    print(&m);
    return 0;
}
