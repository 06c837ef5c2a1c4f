// SPDX-License-Identifier: Apache-2.0
// A model that is a folder or a config.json, or a name that neither tapes nor tables have but the
// Hugging Face cache: the shape that it describes decides, and never what it is called. A name of
// the hub that is nowhere is taken for the model whose name it has under another owner, and said
// so.
#include "job/question/question_int.h"

#include "base/data.h"
#include "base/shell.h"
#include "predict/shape/shape.h"

#include <math.h>
#include <sys/stat.h>

enum { CONFIG_MOST = 1 << 20 };
static const double parameters_alike = 0.01; // heads of other tasks differ by less

static bool names(struct str model, struct str family) {
    for (ptrdiff_t i = 0; i + family.len <= model.len; i++) {
        if (str_equal_nocase(str_slice(model, i, i + family.len), family)) return true;
    }
    return false;
}

// Whether a tape's model has that shape: by the table where it has the model, else (a recording of
// the user's own) by its family and parameters.
static bool is_of_shape(const struct shape_table *shapes, const struct tape_header *h,
                        const struct shape *s) {
    struct str name = h->model, library = str_cut(&name, ':');
    const struct shape *known = name.p && str_is(library, "hf") ? shape_find(shapes, name) : NULL;
    if (known) return shape_is_alike(known, s);
    double off = s->parameters > 0 ? fabs((double)h->parameters / (double)s->parameters - 1) : 1;
    return h->parameters > 0 && names(h->model, s->type) && off <= parameters_alike;
}

// The model of that shape that there is a tape of; empty: none.
static struct str alike(const struct question *q, const struct shape_table *shapes,
                        const struct shape *s) {
    for (ptrdiff_t i = 0; i < q->store.count; i++) {
        const struct tape_header *h = &tape_store_at(&q->store, i)->header;
        if (is_of_shape(shapes, h, s)) return h->model;
    }
    return (struct str){0};
}

static int say_unknown(struct question *q, struct str what, struct str advice, bool is_optional,
                       struct fail *why) {
    q->plan.model = (struct str){0};
    if (is_optional) {
        str_list_format(q->arena, &q->notes, "%.*s; so there is no prediction", STR_ARG(what));
        return 0;
    }
    fail_set(why, FAIL_INPUT, "%.*s", STR_ARG(what));
    return advice.len > 0 ? fail_hint(why, "%.*s", STR_ARG(advice)) : FAIL_INPUT;
}

static struct str record_it(struct arena *a, struct str path) {
    struct str source = shell_word(a, str_format(a, "hf:%.*s", STR_ARG(path)));
    return str_format(a, "record its tape: batchfit record %.*s", STR_ARG(source));
}

// Its size in words: "a gpt2 of 124 million parameters".
static struct str size_text(struct arena *a, const struct shape *s) {
    if (s->parameters == 0) {
        return str_format(a, "a %.*s of %lld layers, %lld wide", STR_ARG(s->type),
                          (long long)s->layers, (long long)s->hidden);
    }
    const bool is_large = s->parameters >= 1000000000;
    return str_format(a, "a %.*s of %.3g %s parameters", STR_ARG(s->type),
                      (double)s->parameters / (is_large ? 1e9 : 1e6),
                      is_large ? "billion" : "million");
}

// Where the config.json of a model is, if it is a folder or a file; empty: it is a name. A word
// without '/' stays a name where a folder happens to have it that holds no config.json.
static struct str config_of(struct arena *a, struct str model, bool *ret_is_folder) {
    struct stat st;
    bool is_there = model.len > 0 && stat(str_z(a, model), &st) == 0;
    *ret_is_folder = is_there && S_ISDIR(st.st_mode);
    if (is_there && S_ISREG(st.st_mode) && str_ends(model, STR(".json"))) return model;
    if (!*ret_is_folder) return (struct str){0};
    struct str folder = model;
    while (folder.len > 1 && str_ends(folder, STR("/"))) folder.len--;
    struct str path = str_format(a, "%.*s/config.json", STR_ARG(folder));
    bool is_name = str_find(model, STR("/")) < 0 && !os_exists(path.p);
    return is_name ? (struct str){0} : path;
}

// What it is and where it stands: "NAME is a folder: its config.json describes a llama of 1 billion
// parameters".
struct found {
    struct str model;  // without "hf:"
    struct str source; // what can be recorded
    struct str is;
    struct shape shape;
};

// "lab", "./lab/" and "lab/config.json" are one model.
static struct str bare_path(struct str path) {
    static const struct str file = {"/config.json", 12};
    path = os_plain_path(path);
    while (path.len > 1 && str_ends(path, STR("/"))) path.len--;
    if (str_ends(path, file)) path.len -= file.len;
    return path;
}

// Whether a tape may be of so many parameters beside those of an adapter, whose parts are as high
// as its rank beside each layer; four bits are counted two at a time, a GPU's part alone. A path
// may be of another model by now.
static bool is_as_large(const struct tape_header *h, const struct shape *s) {
    const double all = (double)s->parameters, experts = (double)(s->experts > 0 ? s->experts : 1);
    const double inner = (double)s->intermediate + (double)s->expert_intermediate;
    const double heads = (double)(s->heads * s->head_dim), wide = (double)s->hidden;
    const double rank = h->adapter.len > 0 ? (double)plan_adapter_rank(h->adapter) : 0;
    const double adapter =
        rank * (double)s->layers * (4 * (wide + heads) + experts * 3 * (wide + inner));
    double least = all / (h->quant.len > 0 ? 2 : 1);
    if (h->ranks > 1) least /= (double)h->ranks;
    return (double)h->parameters >= least * (1 - parameters_alike) &&
           (double)h->parameters <= all * (1 + parameters_alike) + adapter;
}

// The model that was recorded of it, as the command that says so calls it; empty: none.
static struct str recording_of(const struct question *q, const struct found *f) {
    const struct str model = bare_path(f->model), source = bare_path(f->source);
    for (ptrdiff_t i = 0; i < q->store.count; i++) {
        const struct tape_header *h = &tape_store_at(&q->store, i)->header;
        struct str name = h->model, library = str_cut(&name, ':');
        if (!name.p || !str_is(library, "hf")) continue;
        name = bare_path(name);
        if (!str_equal(name, model) && !str_equal(name, source)) continue;
        if (f->shape.parameters == 0 || is_as_large(h, &f->shape)) return h->model;
    }
    return (struct str){0};
}

// Weights in few bits are a training's where an adapter is over them and the plan has a word for
// them; else they are not modelled, which the config's own words may have said already.
// MXFP4 cannot be trained: it is made 16 bits before (transformers 5.23.0, quantizer_mxfp4.py,
// is_trainable).
static void take_quant(struct question *q, const struct found *f) {
    struct str quant = f->shape.quant;
    if (quant.len == 0 || q->plan.quant.len > 0) return;
    if (str_is(quant, "MXFP4") && !q->plan.inference) return;
    if (q->plan.adapter.len > 0 && str_is_one_of(quant, plan_quants)) {
        q->plan.quant = quant;
        str_list_format(q->arena, &q->notes, "%.*s has weights in %.*s: counted so",
                        STR_ARG(f->model), STR_ARG(quant));
        return;
    }
    if (config_guard_of(&q->reading, "quantisation")) return;
    config_add_guard(
        q->arena, &q->reading,
        (struct config_guard){
            .kind = STR("quantisation"), .what = quant, .path = STR("model"), .value = f->model});
}

// By its own tape or a template, or by the tape of a model of that shape.
static int take(struct question *q, const struct shape_table *shapes, struct found *f,
                bool is_optional, struct fail *why) {
    struct str recorded = alike(q, shapes, &f->shape), own = recording_of(q, f);
    const struct shape *covered;
    q->shape = f->shape;
    q->tape_cache.own_name = f->model;
    q->tape_cache.own_shape = &q->shape;
    int rc = forecast_shape(&q->tape_cache, f->model, &covered, why);
    if (rc < 0) return rc;
    take_quant(q, f);
    if (covered && (recorded.len == 0 || own.len > 0 || q->plan.adapter.len > 0)) {
        q->tape_cache.own_recorded = own;
        str_list_format(q->arena, &q->notes, "%.*s", STR_ARG(f->is));
        q->plan.model = f->model;
        return 0;
    }
    if (own.len > 0) recorded = own;
    if (recorded.len == 0) {
        struct str what = str_format(q->arena, "%.*s, which has no tape", STR_ARG(f->is));
        return say_unknown(q, what, record_it(q->arena, f->source), is_optional, why);
    }
    str_list_format(q->arena, &q->notes, "%.*s, treated as %.*s", STR_ARG(f->is),
                    STR_ARG(recorded));
    q->plan.model = recorded;
    return 0;
}

// Of a family that is not known there may be a tape, or can be.
static int take_unread(struct question *q, const struct found *f, const struct fail *unread,
                       bool is_optional, struct fail *why) {
    const struct found unshaped = {.model = f->model, .source = f->source};
    const struct str own = recording_of(q, &unshaped);
    struct str advice = str_copy(q->arena, str_of(unread->hint));
    if (own.len > 0) {
        q->plan.model = own;
        return 0;
    }
    if (str_find(str_of(unread->message), STR("no known model family")) >= 0)
        advice = record_it(q->arena, f->source);
    return say_unknown(q, str_copy(q->arena, str_of(unread->message)), advice, is_optional, why);
}

// What a config.json says; `place`: "is a folder".
static int take_file(struct question *q, struct str model, struct str path, const char *place,
                     bool is_optional, struct fail *why) {
    struct arena *a = q->arena;
    struct shape_table shapes;
    struct found f = {.model = model, .source = model};
    struct fail unread = {0};
    struct str text;
    int rc = os_read(a, str_z(a, path), CONFIG_MOST, &text, NULL, why);
    if (rc == 0) rc = shape_load(a, &shapes, why);
    if (rc < 0) return rc;
    rc = shape_read(&shapes, path, text, &f.shape, &unread);
    if (rc < 0) return take_unread(q, &f, &unread, is_optional, why);
    f.is = str_format(a, "%.*s %s: its config.json describes %.*s", STR_ARG(model), place,
                      STR_ARG(size_text(a, &f.shape)));
    return take(q, &shapes, &f, is_optional, why);
}

// The folder that a config names is on the machine that trains:
// checkpoints/meta-llama/Llama-2-7b-hf ends in a name of the hub, /data/Qwen2.5-7B in one without
// its owner. Empty: it is no path.
static struct str end_of_path(struct str path) {
    struct str last = {0}, before = {0};
    if (str_find(path, STR("/")) < 0 || shape_is_id(path)) return (struct str){0};
    while (path.p) {
        struct str part = str_cut(&path, '/');
        if (part.len == 0) continue;
        before = last;
        last = part;
    }
    if (before.len == 0) return last;
    return (struct str){before.p, last.p + last.len - before.p};
}

// The model whose name it has, under another owner, at the end of a path, or as it was before it
// was taught to follow instructions. NULL: there is none, or several.
static const struct shape *namesake(const struct shape_table *shapes, struct str model,
                                    struct shape *ret) {
    struct str id = end_of_path(model);
    if (id.len == 0) return shape_find_copy(shapes, model, ret);
    const struct shape *known = shape_find(shapes, id);
    if (known) *ret = *known;
    if (known && shape_is_id(id)) ret->ids = id;
    return known ? known : shape_find_copy(shapes, id, ret);
}

// A name that no row of the tables has; one that is nowhere stays as it is.
static int take_name(struct question *q, struct str model, bool is_optional, struct fail *why) {
    struct arena *a = q->arena;
    struct shape_table shapes;
    struct found f = {.model = model};
    struct str path;
    if (str_find(model, STR("/")) < 0) return 0;
    int rc = shape_load(a, &shapes, why);
    const struct shape *known = rc < 0 ? NULL : shape_find(&shapes, model);
    if (known) {
        f.shape = *known;
        take_quant(q, &f);
    }
    if (rc < 0 || known) return rc;
    if (shape_is_id(model) && shape_cached(a, model, &path))
        return take_file(q, model, path, "is in the Hugging Face cache", is_optional, why);
    const struct shape *original = namesake(&shapes, model, &f.shape);
    if (!original) return 0;
    f.source = shape_id(&f.shape);
    f.is = str_format(a, "%.*s is taken as %.*s, by its name (its own config.json was not read)",
                      STR_ARG(model), STR_ARG(f.source));
    return take(q, &shapes, &f, is_optional, why);
}

// Of a builder of torchtune's, "torchtune.models.llama3_1.qlora_llama3_1_8b": the name of the hub
// whose shape it has, and what of it is otherwise. Empty: it is none that is known, or builds
// another head.
static int find_builder(struct arena *a, struct str model, struct str *ret_id, bool *ret_is_apart,
                        struct fail *why) {
    static const char *const adapters[] = {"lora_", "qlora_", "dora_", "qdora_", NULL};
    struct str name = str_last(model, '.');
    struct tsv t;
    *ret_id = (struct str){0};
    if (!str_starts(model, STR("torchtune.models."))) return 0;
    for (int i = 0; adapters[i]; i++) {
        const struct str prefix = str_of(adapters[i]);
        if (str_starts(name, prefix)) name = str_slice(name, prefix.len, name.len);
    }
    int rc = tsv_find(a, "data/builders.tsv", &t, why);
    while (rc >= 0 && ret_id->len == 0 && (rc = tsv_next(&t, why)) > 0) {
        struct str builder = tsv_cell(&t, "builder");
        if (str_ends(builder, STR("_base")) && !str_ends(name, STR("_base"))) builder.len -= 5;
        if (!str_equal(builder, name) || tsv_cell(&t, "outputs").len > 0) continue;
        *ret_id = tsv_cell(&t, "model");
        *ret_is_apart = str_is(tsv_cell(&t, "differs"), "apart");
    }
    return rc < 0 ? rc : 0;
}

static int take_built(struct question *q, struct str id, bool is_apart, bool is_optional,
                      struct fail *why) {
    struct shape_table shapes;
    struct found f = {.model = q->plan.model, .source = id};
    int rc = shape_load(q->arena, &shapes, why);
    const struct shape *shape = rc < 0 ? NULL : shape_find(&shapes, id);
    if (!shape) return rc;
    f.shape = *shape;
    f.is = str_format(q->arena, "%.*s has the shape of %.*s%s", STR_ARG(f.model), STR_ARG(id),
                      is_apart ? ", apart from its fused layers" : "");
    return take(q, &shapes, &f, is_optional, why);
}

int question_local(struct question *q, bool is_optional, struct fail *why) {
    struct str model = q->plan.model;
    bool is_folder;
    if (str_starts(model, STR("hf:"))) model = str_slice(model, 3, model.len);
    struct str path = config_of(q->arena, model, &is_folder), id;
    bool is_apart = false;
    int rc = find_builder(q->arena, model, &id, &is_apart, why);
    if (rc < 0) return rc;
    if (id.len > 0) return take_built(q, id, is_apart, is_optional, why);
    if (path.len == 0) return take_name(q, model, is_optional, why);
    if (os_exists(str_z(q->arena, path)))
        return take_file(q, model, path, is_folder ? "is a folder" : "is a file", is_optional, why);
    struct str what =
        str_format(q->arena, "%.*s is a folder without a config.json", STR_ARG(model));
    return say_unknown(q, what, (struct str){0}, is_optional, why);
}
