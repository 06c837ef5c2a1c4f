// SPDX-License-Identifier: Apache-2.0
// How fit --on slurm looks: the verdict, why this type, sbatch's words, then a row a type.
#include "verbs/fit/fit.h"

#include "base/json.h"
#include "base/out.h"
#include "base/shell.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct str type_name(const struct slurm_type *type) {
    return type->name.len > 0 ? type->name : STR("gpu");
}

static struct str command_of(const struct fit_slurm *s) {
    struct arena *a = s->q->arena;
    struct buf text = buf_new(a);
    const char *script = s->options->s.exec;
    buf_add(&text, STR("sbatch"));
    for (ptrdiff_t i = 0; i < s->words.count; i++)
        buf_format(&text, " %.*s", STR_ARG(shell_word(a, str_of(s->words.items[i]))));
    buf_format(&text, " %.*s",
               STR_ARG(script ? shell_word(a, str_of(script)) : STR("YOUR_SCRIPT")));
    return buf_str(&text);
}

static struct str usd_text(struct arena *a, double usd) {
    return isnan(usd) ? STR("?") : str_format(a, "%.*s", STR_ARG(unit_number(a, usd)));
}

static void add_cheapest(const struct fit_slurm *s, struct buf *text) {
    const struct fit_slurm_row *row = s->chosen;
    const struct gpu_price *p = row->price;
    struct arena *a = s->q->arena;
    struct str name = type_name(row->type);
    buf_format(
        text,
        "%.*s is the cheapest of %td GPU type%s that %s: %.*s USD a million samples (%.*s to "
        "%.*s), at %.*s USD an hour (%.*s%s%.*s)",
        STR_ARG(name), s->compared, s->compared == 1 ? "" : "s",
        s->as_it_stands ? "hold the config as it stands" : "hold it with another batch",
        STR_ARG(usd_text(a, row->usd)), STR_ARG(usd_text(a, row->usd_low)),
        STR_ARG(usd_text(a, row->usd_high)), STR_ARG(unit_number(a, p->usd_per_hour)),
        STR_ARG(p->is_own ? STR("prices.local.tsv") : p->provider), p->date.len > 0 ? ", " : "",
        STR_ARG(p->date));
}

static struct str why_this(const struct fit_slurm *s) {
    const struct slurm_type *type = s->chosen->type;
    struct buf text = buf_new(s->q->arena);
    struct str name = type_name(type);
    if (!isnan(s->chosen->usd))
        add_cheapest(s, &text);
    else if (s->as_it_stands)
        buf_format(&text,
                   "%.*s is the cluster's smallest GPU type that holds the config as it stands",
                   STR_ARG(name));
    else
        buf_format(&text, "%s; %.*s keeps the largest batch of the %s effective one",
                   s->wants_other ? "the config has another effective batch"
                                  : "no GPU type holds the config as it stands",
                   STR_ARG(name), s->wants_other ? "new" : "same");
    buf_format(&text, " (%lld on %lld node%s up, partition%s", (long long)type->gpus,
               (long long)type->nodes, type->nodes == 1 ? "" : "s",
               type->partitions.count == 1 ? "" : "s");
    for (ptrdiff_t i = 0; i < type->partitions.count; i++)
        buf_format(&text, "%s %.*s", i > 0 ? "," : "", STR_ARG(type->partitions.items[i]));
    buf_byte(&text, ')');
    return buf_str(&text);
}

// --- Text ----------------------------------------------------------------------------------------

static int64_t expected_bytes(const struct fit_slurm_row *row) {
    return row->answer ? answer_memory(row->answer).expected_bytes : 0;
}

static void add_row(const struct fit_slurm *s, const struct fit_slurm_row *row,
                    struct show_table *t) {
    enum show_tone tone = row->fits ? SHOW_GOOD : row->is_known ? SHOW_BAD : SHOW_WARN;
    show_table_cell(t, row == s->chosen ? SHOW_STRONG : SHOW_PLAIN, type_name(row->type));
    show_table_known(t, SHOW_PLAIN,
                     row->is_known ? show_gpu_name(row->card.gpu.name) : (struct str){0});
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)row->type->gpus);
    show_table_known(t, SHOW_PLAIN,
                     row->answer ? answer_batch_text(s->q->arena, &row->answer->plan)
                                 : (struct str){0});
    show_table_bytes(t, SHOW_PLAIN, expected_bytes(row));
    show_table_bytes(t, SHOW_PLAIN, row->is_known ? row->card.gpu.usable_bytes : 0);
    if (s->options->s.cheapest) show_table_known(t, SHOW_PLAIN, unit_number(s->q->arena, row->usd));
    show_table_cell(t, tone, str_of(row == s->chosen ? "TAKEN" : row->verdict));
}

static void table(const struct fit_slurm *s, struct show_style style, struct buf *out) {
    static const char *const gives_way[] = {"up", "batch", NULL};
    static const struct show_heading headings[] = {
        {"type", SHOW_LEFT},  {"taken for", SHOW_LEFT}, {"up", SHOW_RIGHT}, {"batch", SHOW_LEFT},
        {"peak", SHOW_RIGHT}, {"usable", SHOW_RIGHT},   {NULL, SHOW_LEFT}};
    struct show_table t = show_table_new(s->q->arena, (struct str){0});
    show_table_columns(&t, headings);
    if (s->options->s.cheapest) show_table_column(&t, "USD/1M samples", SHOW_RIGHT);
    show_table_column(&t, "verdict", SHOW_LEFT);
    show_table_gives_way(&t, gives_way);
    for (ptrdiff_t i = 0; i < s->count; i++) add_row(s, &s->rows[i], &t);
    show_table_text(&t, style, out);
}

// Why a type could not be judged, or the training would stop there; that one is too small, the
// table says.
static void add_reasons(const struct fit_slurm *s, struct show_style style, struct buf *out) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct fit_slurm_row *row = &s->rows[i];
        bool is_small = row->answer && answer_is_counted(s->q, row->answer);
        if (row->reason.len == 0 || (is_small && row->place.gpus > 0)) continue;
        show_prose(out, style, SHOW_WARN,
                   str_format(s->q->arena, "%.*s: %.*s", STR_ARG(type_name(row->type)),
                              STR_ARG(row->reason)),
                   0, 2);
    }
}

void fit_slurm_show(struct fit_slurm *s, const struct buf *report) {
    struct question *q = s->q;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(q->arena);
    bool changes = s->chosen && !s->as_it_stands && q->has_config;
    if (s->answer) {
        answer_verdict_show(q, s->answer, changes, style, &out);
        answer_loud_notes(&q->notes, style, &out);
        answer_loud_notes(&s->answer->notes, style, &out);
    }
    if (s->chosen) {
        show_prose(&out, style, SHOW_PLAIN, why_this(s), 0, 2);
        buf_format(&out, "\n%.*s\n\n", STR_ARG(command_of(s)));
    } else {
        show_prose(&out, style, SHOW_BAD,
                   s->answer ? STR("no GPU type of the cluster holds it, at any batch that "
                                   "keeps the effective one; above, the largest")
                             : STR("NOT JUDGED  none of the cluster's GPU types can be asked for"),
                   0, 2);
        buf_byte(&out, '\n');
    }
    table(s, style, &out);
    buf_byte(&out, '\n');
    // What would make another training fit says nothing of this one.
    if (!s->chosen && s->answer && answer_is_counted(q, s->answer)) {
        answer_breakdown_remedies(q, s->answer, style, &out);
        buf_byte(&out, '\n');
    }
    add_reasons(s, style, &out);
    answer_quiet_notes(q->arena, &q->notes, style, &out);
    if (s->answer) answer_quiet_notes(q->arena, &s->answer->notes, style, &out);
    show_prose_lines(&out, style, buf_str(report));
    if (s->submitted.len > 0) buf_format(&out, "%.*s\n", STR_ARG(s->submitted));
    out_buf(stdout, &out);
}

// --- The document --------------------------------------------------------------------------------

static json_t *row_json(const struct fit_slurm *s, const struct fit_slurm_row *row) {
    const struct slurm_type *t = row->type;
    json_t *gpu = row->is_known
                      ? json_pack("{s:o, s:o, s:I}", "name", json_text(row->card.gpu.name), "key",
                                  json_text(row->card.gpu.key), "usable_bytes",
                                  (json_int_t)row->card.gpu.usable_bytes)
                      : json_null();
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:s, s:b, s:o, s:o, s:o}", "type",
        json_text(t->name), "gpu", gpu, "gpus", (json_int_t)t->gpus, "nodes", (json_int_t)t->nodes,
        "nodes_away", (json_int_t)t->nodes_away, "partitions", json_texts(&t->partitions),
        "batch_size", json_size(row->answer ? row->answer->plan.batch : 0), "expected_bytes",
        json_size(expected_bytes(row)), "verdict", row->verdict, "taken", row == s->chosen,
        "reason", json_text(row->reason), "usd_per_hour",
        json_number(row->price ? row->price->usd_per_hour : (double)NAN), "usd_per_million_samples",
        json_pack("[o, o, o]", json_number(row->usd), json_number(row->usd_low),
                  json_number(row->usd_high)));
}

static json_t *words_json(const struct fit_slurm *s) {
    json_t *words = json_array();
    for (ptrdiff_t i = 0; i < s->words.count; i++)
        json_array_append_new(words, json_string(s->words.items[i]));
    return words;
}

static json_t *chosen_json(const struct fit_slurm *s, json_t *types) {
    const struct fit_slurm_row *row = s->chosen;
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "type",
                     row ? json_text(row->type->name) : json_null(), "gres", json_text(s->gres),
                     "partition", json_text(s->partition), "nodes_asked",
                     json_size(row ? row->place.nodes : 0), "as_it_stands", s->as_it_stands,
                     "sbatch", words_json(s), "submitted", json_text(s->submitted), "types", types);
}

int fit_slurm_json(struct fit_slurm *s, struct fail *why) {
    json_t *types = json_array();
    for (ptrdiff_t i = 0; i < s->count; i++) json_array_append_new(types, row_json(s, &s->rows[i]));
    json_t *document = answer_document(s->q, s->answer, s->answer != NULL);
    if (document) json_object_set_new(document, "slurm", chosen_json(s, types));
    return json_print(document, why);
}
