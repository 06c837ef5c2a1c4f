// SPDX-License-Identifier: Apache-2.0
#include "verbs/fit/fit.h"

#include "base/json.h"
#include "base/out.h"
#include "job/answer/answer.h"
#include "job/question/question.h"
#include "view/show/show.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

enum { GPUS_OF_NODE = 8 }; // as nodes for training are built (HGX, DGX)

static const struct fit_cloud_engine *find_engine(struct str name, struct fail *why) {
    for (const struct fit_cloud_engine *e = fit_cloud_engines; e->name; e++)
        if (str_is(name, e->name)) return e;
    fail_set(why, FAIL_USAGE, "--on %.*s: not slurm, kubernetes or skypilot", STR_ARG(name));
    fail_hint(why, "for one GPU that is named: --gpu");
    return NULL;
}

// --- Which GPUs ----------------------------------------------------------------------------------

// "8xh100,8xa100": one number for all, as it is one training.
static int take_counts(const char *list, struct question_options *o, struct buf *ret_names,
                       struct fail *why) {
    const struct question_options before = *o, *asked = &before;
    struct str rest = str_of(list);
    int64_t said = 0;
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ',')), name;
        int64_t count;
        if (word.len == 0) continue;
        int rc = question_gpu_word(asked, word, &count, &name, why);
        if (rc < 0) return rc;
        if (count > 0 && said > 0 && count != said) {
            fail_set(why, FAIL_USAGE, "--gpus %s: all must have the same number of GPUs", list);
            return fail_hint(why,
                             "for example --gpus 8xh100,8xa100, or --ranks 8 --gpus h100,a100");
        }
        if (count > 0) o->ranks = said = count;
        o->gpus_in_all |= count > 0;
        buf_format(ret_names, "%.*s,", STR_ARG(name));
    }
    if (ret_names->count > 0) return 0;
    fail_set(why, FAIL_USAGE, "--gpus %s: no GPU is named", list);
    return fail_hint(why, "for example --gpus 8xh100,8xa100, or --ranks 8 --gpus h100,a100");
}

// What clusters and clouds lend: no laptops, no boards, no GPU that shares the CPU's memory.
static bool is_lent(const struct gpu *g) {
    static const char *const markets[] = {"consumer", "workstation", "datacentre", NULL};
    return str_is(g->vendor, "NVIDIA") && !g->is_unified && str_is_one_of(g->market, markets);
}

static int add_gpus(struct fit_cloud *c, const char *names, struct fail *why) {
    struct question *q = c->q;
    struct question_gpus cards = {0};
    int rc = names ? question_gpus_named(q, names, &cards, why) : 0;
    if (rc < 0) return rc;
    c->rows = arena_new(q->arena, struct fit_cloud_row, cards.count + q->gpus.count);
    for (ptrdiff_t i = 0; i < cards.count; i++) c->rows[c->count++].card = cards.items[i];
    for (ptrdiff_t i = 0; !names && i < q->gpus.count; i++) {
        const struct gpu *gpu = &q->gpus.gpus[i];
        if (!is_lent(gpu) || gpu->compute_capability < c->capability) continue;
        question_place(q, *gpu, &c->rows[c->count++].card);
    }
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct gpu *gpu = &c->rows[i].card.gpu;
        if (!str_is(gpu->vendor, "NVIDIA"))
            return fail_set(why, FAIL_USAGE, "--gpus %.*s: only NVIDIA's GPUs can be asked for",
                            STR_ARG(gpu->key));
    }
    return 0;
}

static int by_memory(const void *left, const void *right) {
    const struct gpu *a = &((const struct fit_cloud_row *)left)->card.gpu;
    const struct gpu *b = &((const struct fit_cloud_row *)right)->card.gpu;
    if (a->total_bytes != b->total_bytes) return a->total_bytes < b->total_bytes ? -1 : 1;
    return (a->key.p > b->key.p) - (a->key.p < b->key.p); // the catalogue's order
}

static int judge(struct fit_cloud *c, struct fail *why) {
    int rc = 0;
    qsort(c->rows, (size_t)c->count, sizeof *c->rows, by_memory);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        struct fit_cloud_row *row = &c->rows[i];
        row->as_is.config = c->q->path;
        row->as_is.gpu = row->as_is.key = row->card.gpu.key;
        rc = fit_check_judge(c->q, &c->options->o.q, &row->card, &row->as_is, why);
        if (rc < 0) return rc;
        if (row->as_is.state == FIT_CHECK_UNJUDGED) return fit_check_fail(c->q, &row->as_is, why);
        row->fits = row->as_is.state == FIT_CHECK_PASSES;
        c->fitting += row->fits;
        if (!row->fits && !c->is_named) c->floor = i + 1;
    }
    if (c->floor == c->count) c->fitting = 0; // the largest does not hold it
    return 0;
}

// --- Showing -------------------------------------------------------------------------------------

// A document as YAML in blocks: a string in JSON's form is one of YAML's.
static void add_yaml(struct arena *a, json_t *value, int indent, bool in_list, struct buf *out);

static void add_value(struct arena *a, json_t *value, int indent, struct buf *out) {
    if (json_is_object(value) || json_is_array(value)) {
        buf_byte(out, '\n');
        add_yaml(a, value, indent + 2, false, out);
        return;
    }
    buf_byte(out, ' ');
    buf_add(out, json_bytes(a, value, JSON_ENCODE_ANY));
    buf_byte(out, '\n');
}

static void add_yaml(struct arena *a, json_t *value, int indent, bool in_list, struct buf *out) {
    const char *key;
    json_t *item;
    size_t i;
    bool is_first = in_list;
    json_object_foreach(value, key, item) {
        buf_format(out, "%*s%s:", is_first ? 0 : indent, "", key);
        is_first = false;
        add_value(a, item, indent, out);
    }
    json_array_foreach(value, i, item) {
        buf_format(out, "%*s-", indent, "");
        if (json_is_object(item)) {
            buf_byte(out, ' ');
            add_yaml(a, item, indent + 2, true, out);
        } else {
            add_value(a, item, indent, out);
        }
    }
}

static const struct fit_cloud_row *smallest(const struct fit_cloud *c) {
    for (ptrdiff_t i = c->floor; i < c->count; i++)
        if (c->rows[i].fits) return &c->rows[i];
    return NULL;
}

// Whether it is the memory that keeps the config from it.
static bool is_too_small(const struct fit_cloud_row *row) {
    return !row->fits && !fit_check_stops(&row->as_is);
}

// Without --gpus they are many: the largest says it.
static struct str too_small(const struct fit_cloud *c) {
    struct buf names = buf_new(c->q->arena);
    struct str last = {0};
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < (c->is_named ? c->count : c->floor); i++) {
        if (!is_too_small(&c->rows[i])) continue;
        count++;
        last = show_gpu_name(c->rows[i].card.gpu.name);
        if (c->is_named) buf_join(&names, ", ", last);
    }
    if (!c->is_named && count > 0) buf_format(&names, "%td, up to the %.*s", count, STR_ARG(last));
    return buf_str(&names);
}

static void add_comment(struct str text, struct buf *out) {
    while (text.len > 0) {
        struct str line = str_line(&text);
        buf_format(out, "# %.*s\n", STR_ARG(line));
    }
}

// What it would stop on, whatever the memory, and why.
static void add_stopping(struct fit_cloud *c, struct buf *out) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_cloud_row *row = &c->rows[i];
        if (!fit_check_stops(&row->as_is)) continue;
        add_comment(str_format(c->q->arena, "it would stop: %.*s: %.*s",
                               STR_ARG(show_gpu_name(row->card.gpu.name)),
                               STR_ARG(row->as_is.reason)),
                    out);
    }
}

static void add_notes(struct fit_cloud *c, const struct str_list *notes, struct buf *out) {
    for (ptrdiff_t i = 0; i < notes->count; i++)
        add_comment(str_format(c->q->arena, "- %.*s", STR_ARG(notes->items[i])), out);
}

// What is printed is the engine's own file; all else are comments of it.
static void show(struct fit_cloud *c, const struct fit_cloud_engine *engine, json_t *spec) {
    struct arena *a = c->q->arena;
    struct buf out = buf_shown(a);
    const struct fit_cloud_row *least = smallest(c);
    struct str small = too_small(c);
    add_comment(answer_verdict_text(c->q, least->as_is.answer), &out);
    add_comment(str_format(a, "the smallest of %td NVIDIA GPUs that hold the config as it stands",
                           c->is_named ? c->fitting : c->count - c->floor),
                &out);
    if (small.len > 0) add_comment(str_format(a, "too small: %.*s", STR_ARG(small)), &out);
    add_stopping(c, &out);
    add_notes(c, &c->q->notes, &out);
    add_notes(c, &least->as_is.notes, &out);
    add_notes(c, &c->notes, &out);
    add_comment(str_format(a, "%s:", engine->where), &out);
    add_yaml(a, spec, 0, false, &out);
    out_buf(stdout, &out);
}

static void show_none(struct fit_cloud *c, struct answer *answer) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(c->q->arena);
    answer_verdict_show(c->q, answer, false, style, &out);
    answer_loud_notes(&answer->notes, style, &out);
    show_prose(&out, style, SHOW_BAD,
               str_format(c->q->arena,
                          "none of %td NVIDIA GPUs holds it as it stands; above, the largest",
                          c->count),
               0, 2);
    buf_byte(&out, '\n');
    // What would make another training fit says nothing of this one.
    if (answer_is_counted(c->q, answer)) answer_breakdown_remedies(c->q, answer, style, &out);
    answer_quiet_notes(c->q->arena, &c->q->notes, style, &out);
    out_buf(stdout, &out);
}

static json_t *rows_json(const struct fit_cloud *c) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct fit_cloud_row *row = &c->rows[i];
        json_array_append_new(
            list,
            json_pack("{s:o, s:o, s:I, s:o, s:s, s:b, s:o}", "name", json_text(row->card.gpu.name),
                      "key", json_text(row->card.gpu.key), "total_bytes",
                      (json_int_t)row->card.gpu.total_bytes, "expected_bytes",
                      json_size(row->as_is.memory.expected_bytes), "verdict", row->as_is.verdict,
                      "fits", row->fits, "reason", json_text(row->as_is.reason)));
    }
    return list;
}

static int print_json(struct fit_cloud *c, const struct fit_cloud_engine *engine,
                      const struct answer *answer, json_t *spec, struct fail *why) {
    json_t *document = answer_document(c->q, answer, 1);
    json_t *own = json_pack("{s:I, s:I, s:o, s:o, s:o}", "gpus_of_node", (json_int_t)c->gpus,
                            "nodes", (json_int_t)c->nodes, "gpus", rows_json(c), "notes",
                            json_texts(&c->notes), "spec", spec ? spec : json_null());
    if (document) json_object_set_new(document, engine->name, own);
    return json_print(document, why);
}

static int answer_it(struct fit_cloud *c, const struct fit_cloud_engine *engine, struct fail *why) {
    const struct fit_cloud_row *least = c->fitting > 0 ? smallest(c) : NULL;
    const struct fit_check_row *row = &(least ? least : &c->rows[c->count - 1])->as_is;
    struct answer *answer = row->answer;
    json_t *spec = NULL;
    assert(answer);
    int rc = least ? engine->spec(c, &spec, why) : answer_ways(c->q, answer, why);
    if (rc < 0) return rc;
    if (least && !spec) return fail_set(why, FAIL_BUG, "the answer could not be built");
    answer->not_written = least                  ? "not_asked"
                          : fit_check_stops(row) ? "not_modelled"
                                                 : "does_not_fit";
    if (c->options->o.q.base.json)
        rc = print_json(c, engine, answer, spec, why);
    else if (least)
        show(c, engine, spec);
    else
        show_none(c, answer);
    if (!c->options->o.q.base.json) json_decref(spec);
    return rc < 0 || least ? rc : FAIL_NO;
}

int fit_cloud(struct arena *a, const struct fit_options *options, struct fail *why) {
    struct fit_cloud c = {.options = options, .q = arena_new(a, struct question, 1)};
    struct question_options asked = options->o.q;
    struct fit_check_row config = {0};
    struct buf names = buf_new(a);
    const struct fit_cloud_engine *engine = find_engine(str_of(options->on), why);
    if (!engine) return FAIL_USAGE;
    if (asked.base.command) {
        fail_set(why, FAIL_USAGE, "--on %s predicts, and takes no command", engine->name);
        return fail_hint(why, "trials as jobs: --on slurm -- COMMAND");
    }
    c.is_named = asked.gpus != NULL;
    asked.gpus = NULL;
    int rc = c.is_named ? take_counts(options->o.q.gpus, &asked, &names, why) : 0;
    if (rc == 0) rc = question_open(a, &asked, c.q, why);
    if (rc == 0) rc = fit_check_find_batch(c.q, why);
    if (rc == 0 && fit_check_is_unjudged(c.q, &asked, &config))
        rc = fit_check_fail(c.q, &config, why);
    if (rc < 0) return rc;
    int64_t effective = plan_effective(&c.q->plan);
    if (c.q->effective > 0 && c.q->effective != effective) {
        fail_set(why, FAIL_USAGE, "as it stands its effective batch is %lld, not %lld",
                 (long long)effective, (long long)c.q->effective);
        return fail_hint(why, "--on %s changes no config: fit --gpu NAME does, then ask again",
                         engine->name);
    }
    c.capability = answer_capability(c.q, &c.asks);
    const int64_t devices = plan_devices(&c.q->plan);
    c.gpus = devices < GPUS_OF_NODE ? devices : GPUS_OF_NODE;
    while (devices % c.gpus != 0) c.gpus--;
    c.nodes = devices / c.gpus;
    rc = add_gpus(&c, c.is_named ? buf_z(&names) : NULL, why);
    if (rc == 0) rc = judge(&c, why);
    if (rc == 0) rc = answer_it(&c, engine, why);
    return rc < 0 && rc != FAIL_NO ? question_failed(c.q, rc) : rc;
}
