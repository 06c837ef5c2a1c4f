// SPDX-License-Identifier: Apache-2.0
// batchfit list: the GPUs, models and dialects that this program knows, and what it has done.
#include "base/out.h"
#include "base/unit.h"
#include "predict/gpu/gpu.h"
#include "predict/shape/shape.h"
#include "predict/tape/store.h"
#include "records/config/config.h"
#include "view/show/show.h"

#include "base/json.h"
#include "cli/cli.h"
#include "verbs/list/list_runs.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

// One list: as a table for people, or as an array for --json.
struct listing {
    struct arena *arena;
    struct show_table table;
    json_t *rows; // NULL: a table is asked for
};

static void columns(struct listing *l, const char *const *names, const char *right) {
    l->table = show_table_new(l->arena, (struct str){0});
    for (int i = 0; names[i]; i++) {
        show_table_column(&l->table, names[i], right[i] == 'r' ? SHOW_RIGHT : SHOW_LEFT);
    }
}

static json_t *gpu_json(const struct gpu *g) {
    return json_pack("{s:o, s:o, s:I, s:I, s:b, s:o, s:s, s:b, s:b, s:o}", "key", json_text(g->key),
                     "name", json_text(g->name), "total_bytes", (json_int_t)g->total_bytes,
                     "usable_bytes", (json_int_t)g->usable_bytes, "total_is_verified",
                     g->total_is_verified, "arch", json_text(g->arch), "tier",
                     gpu_tier_name(gpu_tier(g)), "tensor_cores", g->has_tensor_cores, "bf16",
                     g->has_bf16, "bandwidth_bytes_per_second", json_number(g->bandwidth));
}

static void add_gpu(struct listing *l, const struct gpu *g) {
    show_table_cell(&l->table, SHOW_STRONG, g->key);
    show_table_cell(&l->table, SHOW_PLAIN, g->name);
    show_table_cell(&l->table, SHOW_PLAIN, unit_bytes(l->arena, g->total_bytes));
    show_table_cell(&l->table, SHOW_PLAIN, g->arch);
    show_table_cell(&l->table, SHOW_PLAIN, str_of(gpu_tier_name(gpu_tier(g))));
    show_table_cell(&l->table, SHOW_PLAIN, g->has_tensor_cores ? STR("yes") : STR("no"));
    show_table_cell(&l->table, SHOW_PLAIN, g->has_bf16 ? STR("yes") : STR("no"));
    if (isnan(g->bandwidth))
        show_table_unknown(&l->table);
    else
        show_table_format(&l->table, SHOW_PLAIN, "%.0f GB/s", g->bandwidth / 1e9);
}

static int list_gpus(struct listing *l, struct fail *why) {
    static const char *const names[] = {"card",         "name",      "memory",
                                        "architecture", "tier",      "tensor cores",
                                        "bf16",         "bandwidth", NULL};
    static const char *const gives_way[] = {"name", "architecture", "tensor cores",
                                            "tier", "bf16",         NULL};
    struct gpu_catalogue catalogue;
    int rc = gpu_load(l->arena, &catalogue, why);
    if (rc < 0) return rc;
    columns(l, names, "llrllllr");
    show_table_gives_way(&l->table, gives_way);
    for (ptrdiff_t i = 0; i < catalogue.count; i++) {
        const struct gpu *g = &catalogue.gpus[i];
        if (l->rows)
            json_array_append_new(l->rows, gpu_json(g));
        else
            add_gpu(l, g);
    }
    return 0;
}

static struct str size_text(struct arena *a, const struct tape_entry *e) {
    const struct tape_header *h = &e->header;
    if (e->image.most > 0) {
        return str_format(a, "%lld to %lld px, every %lld", (long long)e->image.least,
                          (long long)e->image.most, (long long)e->image.step);
    }
    if (h->image_size > 0) return str_format(a, "%lld px", (long long)h->image_size);
    if (h->target_length > 0) {
        return str_format(a, "%lld/%lld tokens", (long long)h->sequence_length,
                          (long long)h->target_length);
    }
    if (h->sequence_length > 0) return str_format(a, "%lld tokens", (long long)h->sequence_length);
    return (struct str){0};
}

// [least, most, step] of a template
static json_t *sizes_json(const struct tape_bound *b) {
    return b->most > 0 ? json_pack("[I, I, I]", (json_int_t)b->least, (json_int_t)b->most,
                                   (json_int_t)b->step)
                       : json_null();
}

static json_t *model_json(const struct tape_entry *e, int tapes) {
    const struct tape_header *h = &e->header;
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:i, s:o, s:b}", "model", json_text(h->model),
                     "image_size", json_size(h->image_size), "image_sizes", sizes_json(&e->image),
                     "sequence_length", json_size(h->sequence_length), "parameters",
                     (json_int_t)h->parameters, "tapes", tapes, "library", json_text(h->library),
                     "shipped", e->shipped);
}

static void add_model(struct listing *l, const struct tape_entry *e, int tapes) {
    const struct tape_header *h = &e->header;
    show_table_cell(&l->table, SHOW_STRONG, h->model);
    show_table_known(&l->table, SHOW_PLAIN, size_text(l->arena, e));
    show_table_known(&l->table, SHOW_PLAIN,
                     h->parameters > 0 ? unit_count(l->arena, h->parameters) : (struct str){0});
    show_table_format(&l->table, SHOW_PLAIN, "%d", tapes);
    show_table_cell(&l->table, SHOW_DIM, h->library);
    show_table_cell(&l->table, SHOW_DIM, e->shipped ? STR("shipped") : e->file);
}

static bool same_model(const struct tape_entry *a, const struct tape_entry *b) {
    return a->shipped == b->shipped && str_equal(a->header.model, b->header.model) &&
           a->header.image_size == b->header.image_size && a->image.least == b->image.least &&
           a->image.most == b->image.most && a->image.step == b->image.step &&
           a->header.sequence_length == b->header.sequence_length &&
           a->header.target_length == b->header.target_length;
}

// The tapes of one model and size, in the order in which the first of each comes.
struct model_row {
    const struct tape_entry *first;
    int tapes;
};
struct model_rows {
    struct model_row *items;
    ptrdiff_t count, capacity;
};

// From the last on: what belongs together stands together in the index.
static void count_tape(struct arena *a, struct model_rows *rows, const struct tape_entry *e) {
    ptrdiff_t i = rows->count;
    while (i > 0 && !same_model(rows->items[i - 1].first, e)) i--;
    if (i > 0)
        rows->items[i - 1].tapes++;
    else
        *arena_push(a, &rows->items, &rows->count, &rows->capacity) = (struct model_row){e, 1};
}

static int list_models(struct listing *l, struct fail *why) {
    static const char *const names[] = {"model",   "size", "parameters", "tapes",
                                        "library", "from", NULL};
    struct tape_store store;
    int rc = tape_store_open(l->arena, (struct tape_places){0}, &store, why);
    if (rc < 0) return rc;
    static const char *const gives_way[] = {"library", "tapes", NULL};
    struct model_rows rows = {0};
    columns(l, names, "llrrll");
    show_table_gives_way(&l->table, gives_way);
    for (ptrdiff_t i = 0; i < store.count; i++)
        count_tape(l->arena, &rows, tape_store_at(&store, i));
    for (ptrdiff_t i = 0; i < rows.count; i++) {
        const struct model_row *row = &rows.items[i];
        if (l->rows)
            json_array_append_new(l->rows, model_json(row->first, row->tapes));
        else
            add_model(l, row->first, row->tapes);
    }
    return 0;
}

static json_t *shape_json(const struct shape *s) {
    json_t *names = json_array();
    for (struct str rest = s->ids; rest.p;)
        json_array_append_new(names, json_text(str_cut(&rest, ',')));
    return json_pack(
        "{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "models",
        names, "model_type", json_text(s->type), "parameters", (json_int_t)s->parameters, "layers",
        json_size(s->layers), "hidden", json_size(s->hidden), "heads", json_size(s->heads),
        "kv_heads", json_size(s->kv_heads), "head_dim", json_size(s->head_dim), "intermediate",
        json_size(s->intermediate), "vocabulary", json_size(s->vocabulary), "positions",
        json_size(s->positions), "experts", json_size(s->experts), "active_experts",
        json_size(s->active), "tied", s->tied, "source", json_text(s->source));
}

static void add_shape(struct listing *l, const struct shape *s) {
    show_table_cell(&l->table, SHOW_STRONG, shape_id(s));
    show_table_cell(&l->table, SHOW_PLAIN, s->type);
    show_table_cell(&l->table, SHOW_PLAIN, unit_count(l->arena, s->parameters));
    show_table_format(&l->table, SHOW_PLAIN, "%lld", (long long)s->layers);
    show_table_format(&l->table, SHOW_PLAIN, "%lld", (long long)s->hidden);
    show_table_cell(&l->table, SHOW_DIM, s->source);
}

// Models whose config.json is known, recorded or not.
static int list_shapes(struct listing *l, struct fail *why) {
    static const char *const names[] = {"model",  "family",     "parameters", "layers",
                                        "hidden", "shape from", NULL};
    static const char *const gives_way[] = {"shape from", "hidden", "layers", NULL};
    struct shape_table shapes;
    int rc = shape_load(l->arena, &shapes, why);
    if (rc < 0) return rc;
    columns(l, names, "llrrrl");
    show_table_gives_way(&l->table, gives_way);
    for (ptrdiff_t i = 0; i < shapes.count; i++) {
        const struct shape *s = shape_at(&shapes, i);
        if (l->rows)
            json_array_append_new(l->rows, shape_json(s));
        else
            add_shape(l, s);
    }
    return 0;
}

static int list_dialects(struct listing *l, struct fail *why) {
    static const char *const names[] = {"id", "dialect", "batch keys", "edited", NULL};
    static const char *const gives_way[] = {"edited", NULL};
    struct config_dialect_row *rows;
    int count;
    int rc = config_dialects(l->arena, &rows, &count, why);
    if (rc < 0) return rc;
    columns(l, names, "llll");
    show_table_gives_way(&l->table, gives_way);
    for (int i = 0; i < count; i++) {
        const struct config_dialect_row *row = &rows[i];
        if (l->rows) {
            json_array_append_new(
                l->rows, json_pack("{s:o, s:o, s:o, s:o}", "id", json_text(row->id), "title",
                                   json_text(row->title), "batch_keys", json_text(row->batch_keys),
                                   "edited", json_text(row->edit)));
            continue;
        }
        show_table_cell(&l->table, SHOW_STRONG, row->id);
        show_table_cell(&l->table, SHOW_PLAIN, row->title);
        show_table_cell(&l->table, SHOW_PLAIN, row->batch_keys);
        show_table_cell(&l->table, SHOW_PLAIN, row->edit);
    }
    return 0;
}

static const struct {
    const char *what;
    int (*fill)(struct listing *l, struct fail *why);
} lists[] = {{"gpus", list_gpus},
             {"models", list_models},
             {"shapes", list_shapes},
             {"dialects", list_dialects}};

static int print(struct listing *l, struct fail *why) {
    if (l->rows) return json_print(json_incref(l->rows), why);
    struct buf out = buf_shown(l->arena);
    show_table_text(&l->table, show_style_of(STDOUT_FILENO), &out);
    out_buf(stdout, &out);
    return 0;
}

static int list_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct str what = str_of(options->argument_count > 0 ? options->arguments[0] : "");
    const struct list_options *o = (const struct list_options *)options;
    if (options->argument_count > 1)
        return fail_set(why, FAIL_USAGE,
                        "'%s': list takes one word: gpus, models, shapes, dialects or runs",
                        options->arguments[1]);
    if (str_is(what, "runs")) return list_runs(a, o, why);
    if (o->model || o->gpu || o->kind || o->since || o->store || o->copy_to || o->limit > 0) {
        return fail_set(why, FAIL_USAGE, "these options work only with list runs");
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!str_is(what, lists[i].what)) continue;
        struct listing l = {.arena = a, .rows = options->json ? json_array() : NULL};
        int rc = lists[i].fill(&l, why);
        if (rc == 0) rc = print(&l, why);
        json_decref(l.rows);
        return rc;
    }
    return fail_set(why, FAIL_USAGE, "list gpus, models, shapes, dialects or runs");
}

#define AT(member) offsetof(struct list_options, member)
static const struct cli_row rows[] = {
    {"model", "TEXT", CLI_TEXT, AT(model), "runs: models with this in their name", "models"},
    {"gpu", "TEXT", CLI_TEXT, AT(gpu), "runs: GPUs with this in their name", "gpus"},
    {"kind", "WORD", CLI_TEXT, AT(kind), "runs: fit, trial, bench, compare or run",
     "fit trial bench compare run"},
    {"since", "TIME", CLI_TEXT, AT(since), "runs: since 7d (m, h, d, w ago) or 2026-11-22"},
    {"limit", "N", CLI_COUNT, AT(limit), "runs: list at most N, newest first (default 50)"},
    {"store", "DIR", CLI_TEXT, AT(store),
     "runs: folder or postgresql:// address of the history (default $BATCHFIT_STORE, else "
     "~/.local/state/batchfit)",
     "file"},
    {"copy-to", "DIR", CLI_TEXT, AT(copy_to),
     "runs: copy them into the history in this folder or at this postgresql:// address; what is "
     "there already is left alone",
     "file"},
    {.name = NULL},
};

const struct cli_verb list_verb = {
    .name = "list",
    .summary = "list the known GPUs, models and config dialects, and past runs",
    .arguments = "gpus|models|shapes|dialects|runs",
    .description =
        "GPUs come from data/gpus.tsv. Models are those with a shipped tape and those "
        "you recorded. Shapes are the models of the Hugging Face hub whose sizes "
        "are known, so that record hf:NAME needs no network. Dialects are the config "
        "files that fit can read and change. Runs are what fit, bench, compare and run measured or "
        "predicted on this machine, or in a fleet that shares a PostgreSQL database, newest first."
        "",
    .examples = "batchfit list gpus\nbatchfit list models --json\n"
                "batchfit list runs --model resnet --since 7d\n"
                "batchfit list runs --copy-to postgresql://db.example.org/batchfit",
    .options = rows,
    .options_size = sizeof(struct list_options),
    .run = list_run,
};
