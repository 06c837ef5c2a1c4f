// SPDX-License-Identifier: Apache-2.0
// A config.json into a shape, and back.
#include "base/json.h"
#include "predict/shape/shape_int.h"

#include <string.h>

#include <math.h>

struct reader {
    const struct shape_table *table;
    const json_t *config;
    struct str where;
    const struct shape_family *family;
};

static const json_t *find_said(const struct reader *r, const struct shape_key *key) {
    struct arena *a = r->table->arena;
    const json_t *value = key->path.len > 0 ? shape_at_path(r->config, a, key->path) : NULL;
    bool is_other = !value && key->other.len > 0;
    return is_other ? shape_at_path(r->config, a, key->other) : value;
}

// A number that stands in the file; 0: none does.
static int read_said(const struct reader *r, const struct shape_key *key, int64_t most,
                     int64_t *ret, struct fail *why) {
    const json_t *value = find_said(r, key);
    *ret = 0;
    if (!value || json_is_null(value)) return 0;
    double number = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (number >= 1 && number <= (double)most && number == floor(number)) {
        *ret = (int64_t)number;
        return 0;
    }
    // Integers are read as reals, so that none is too large to be told.
    struct str text = json_is_number(value)
                          ? str_format(r->table->arena, "%.15g", number)
                          : json_bytes(r->table->arena, value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (number == floor(number)) {
        return fail_set(why, FAIL_INPUT, "%.*s: %.*s is %.60s: out of range, 1 to %lld",
                        STR_ARG(r->where), STR_ARG(key->path), str_z(r->table->arena, text),
                        (long long)most);
    }
    return fail_set(why, FAIL_INPUT, "%.*s: %.*s is %.60s: not a whole number from 1 to %lld",
                    STR_ARG(r->where), STR_ARG(key->path), str_z(r->table->arena, text),
                    (long long)most);
}

static int read_size(const struct reader *r, int size, struct shape *s, struct fail *why) {
    const struct shape_key *key = &r->family->keys[size];
    int64_t *to = shape_size_at(s, size);
    int rc = read_said(r, key, shape_sizes[size].most, to, why);
    if (rc < 0 || *to > 0 || key->path.len == 0) return rc;
    // Where a file says null, configuration classes take the number of heads.
    if (to == &s->kv_heads && find_said(r, key)) return 0;
    *to = key->usual == SHAPE_FOUR_HIDDEN ? 4 * s->hidden : key->usual;
    // Of one feed-forward part where there are no experts; the rest follows from other sizes.
    bool may_lack = to == &s->kv_heads || to == &s->head_dim || to == &s->positions ||
                    to == &s->experts || to == &s->active || to == &s->expert_intermediate;
    if (*to > 0 || may_lack) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s: no %.*s, which a config.json of a %.*s has",
                    STR_ARG(r->where), STR_ARG(key->path), STR_ARG(s->type));
}

static bool has_no_head_size(const struct shape_family *f) {
    return str_starts(f->type, STR("deepseek_v")); // of several, by q_lora_rank and others
}

static int check(const struct reader *r, struct shape *s, struct fail *why) {
    const struct shape_key *kv = &r->family->keys[SHAPE_KV_HEADS];
    if (s->kv_heads == 0) s->kv_heads = s->heads;
    if (s->heads % s->kv_heads != 0 && !find_said(r, kv)) {
        fail_set(why, FAIL_INPUT,
                 "%.*s: no %.*s: transformers takes %lld for a %.*s, which %lld "
                 "heads do not share evenly",
                 STR_ARG(r->where), STR_ARG(kv->path), (long long)s->kv_heads, STR_ARG(s->type),
                 (long long)s->heads);
        return fail_hint(why, "write the model's own %.*s into it", STR_ARG(kv->path));
    }
    if (s->heads % s->kv_heads != 0) {
        return fail_set(why, FAIL_INPUT, "%.*s: %lld heads do not share %lld kv heads evenly",
                        STR_ARG(r->where), (long long)s->heads, (long long)s->kv_heads);
    }
    if (s->active > s->experts) {
        return fail_set(why, FAIL_INPUT, "%.*s: %lld experts of a token, of %lld",
                        STR_ARG(r->where), (long long)s->active, (long long)s->experts);
    }
    if (s->head_dim > 0 || has_no_head_size(r->family)) return 0;
    if (s->hidden % s->heads != 0) {
        return fail_set(why, FAIL_INPUT, "%.*s: hidden size %lld is no multiple of %lld heads",
                        STR_ARG(r->where), (long long)s->hidden, (long long)s->heads);
    }
    s->head_dim = s->hidden / s->heads;
    return 0;
}

static int read_extras(const struct reader *r, struct shape_extras *more, struct fail *why) {
    *more = shape_extras_of(r->family, r->config);
    int rc = read_said(r, &r->family->types, 1 << 20, &more->types, why);
    if (rc == 0 && more->types == 0) more->types = r->family->types.usual;
    return rc;
}

static int read_family(struct reader *r, struct shape *s, struct fail *why) {
    s->type = json_text_at(r->table->arena, r->config, "model_type");
    if (s->type.len == 0) {
        fail_set(why, FAIL_INPUT, "%.*s: no model_type, so no config.json of transformers",
                 STR_ARG(r->where));
        return fail_hint(why, "give the one that transformers saved beside the weights, or the "
                              "model's name on the hub");
    }
    r->family = shape_family_find(r->table, s->type);
    if (r->family) return 0;
    fail_set(why, FAIL_INPUT, "%.*s: its config.json describes no known model family (%.*s)",
             STR_ARG(r->where), STR_ARG(s->type));
    return fail_hint(why, "write a function in FILE.py that returns the model, then "
                          "batchfit record python:FILE:FUNCTION");
}

static void put(struct arena *a, json_t *object, struct str path, json_t *value) {
    struct str key = str_cut(&path, '.');
    while (path.p) {
        char *folder = str_z(a, key);
        if (!json_object_get(object, folder)) json_object_set_new(object, folder, json_object());
        object = json_object_get(object, folder);
        key = str_cut(&path, '.');
    }
    json_object_set_new(object, str_z(a, key), value);
}

// What a shape of the table would have in `more`: a window below the sequence makes a mask.
static struct str read_more(const struct reader *r) {
    static const char *const paths[] = {"sliding_window",    "text_config.sliding_window",
                                        "layer_types",       "text_config.layer_types",
                                        "feed_forward_proj", "vision_config",
                                        "type_vocab_size",   "attention_bias",
                                        "mlp_bias",          "word_embed_proj_dim"};
    json_t *more = json_object();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const json_t *value = shape_at_path(r->config, r->table->arena, str_of(paths[i]));
        if (value) put(r->table->arena, more, str_of(paths[i]), json_deep_copy(value));
    }
    struct str text = json_object_size(more) > 0 ? json_bytes(r->table->arena, more, JSON_COMPACT)
                                                 : (struct str){0};
    json_decref(more);
    return text;
}

// "awq, 4 bits": of AWQ, GPTQ and their kind.
static struct str in_bits(struct arena *a, const json_t *how, struct str method) {
    const json_t *bits = json_object_get(how, "bits");
    if (method.len == 0) method = STR("quantised weights");
    return json_is_number(bits) ? str_format(a, "%.*s, %lld bits", STR_ARG(method),
                                             (long long)json_number_value(bits))
                                : method;
}

// What transformers would load the weights as; the words of bitsandbytes 0.43 and later.
static struct str read_quant(const struct reader *r) {
    struct arena *a = r->table->arena;
    const json_t *how = json_object_get(r->config, "quantization_config");
    struct str method = how ? json_text_at(a, how, "quant_method") : (struct str){0};
    if (!json_is_object(how)) return (struct str){0};
    if (str_is(method, "mxfp4")) return STR("MXFP4"); // of experts; nothing else is said
    bool is_bitsandbytes = method.len == 0 || str_is(method, "bitsandbytes");
    if (is_bitsandbytes && json_is_true(json_object_get(how, "load_in_8bit")))
        return STR("8-bit weights");
    if (!is_bitsandbytes || !json_is_true(json_object_get(how, "load_in_4bit")))
        return in_bits(a, how, method);
    if (!str_is(json_text_at(a, how, "bnb_4bit_quant_type"), "nf4")) return STR("fp4");
    bool is_double = json_is_true(json_object_get(how, "bnb_4bit_use_double_quant"));
    return is_double ? STR("nf4-dq") : STR("nf4");
}

// Of architectures: ["BertForMaskedLM"], which is the checkpoint's.
static struct str read_head(const struct reader *r) {
    static const struct str sign = {"For", 3};
    const json_t *first = json_array_get(json_object_get(r->config, "architectures"), 0);
    const struct str name = str_of(json_is_string(first) ? json_string_value(first) : "");
    const ptrdiff_t at = str_find(name, sign);
    return at < 0 ? (struct str){0}
                  : str_copy(r->table->arena, str_slice(name, at + sign.len, name.len));
}

// transformers 5 writes "dtype", before it was "torch_dtype".
static struct str read_dtype(const struct reader *r) {
    const json_t *said = json_object_get(r->config, "dtype");
    if (!said) said = json_object_get(r->config, "torch_dtype");
    return str_copy(r->table->arena, str_of(json_is_string(said) ? json_string_value(said) : ""));
}

static int read_object(struct reader *r, struct shape *s, struct fail *why) {
    struct shape_extras more;
    int rc = read_family(r, s, why);
    for (int i = 0; rc == 0 && i < SHAPE_SIZES; i++) rc = read_size(r, i, s, why);
    if (rc == 0) rc = check(r, s, why);
    if (rc == 0) rc = read_extras(r, &more, why);
    if (rc < 0) return rc;
    const json_t *tied = json_object_get(r->config, "tie_word_embeddings");
    s->kind = r->family->kind;
    s->tower = r->family->tower;
    s->tied = json_is_boolean(tied) ? json_is_true(tied) : r->family->tied;
    s->source = r->where;
    s->unlike = shape_unlike(r->table->arena, r->family, r->config);
    s->more = read_more(r);
    s->quant = read_quant(r);
    s->head = read_head(r);
    s->dtype = read_dtype(r);
    s->parameters = shape_parameters(r->family, s, &more);
    return 0;
}

int shape_read(const struct shape_table *t, struct str where, struct str text, struct shape *ret,
               struct fail *why) {
    json_error_t error;
    json_t *config = json_loadb(text.p, (size_t)text.len, JSON_DECODE_INT_AS_REAL, &error);
    struct shape s = {.ids = {0}};
    struct reader r = {.table = t, .config = config, .where = where};
    int rc = 0;
    if (!config) {
        rc = fail_set(why, FAIL_INPUT, "%.*s:%d: not JSON: %s", STR_ARG(where), error.line,
                      error.text);
    } else if (!json_is_object(config)) {
        rc = fail_set(why, FAIL_INPUT, "%.*s: not a JSON object", STR_ARG(where));
    }
    if (rc == 0) rc = read_object(&r, &s, why);
    json_decref(config);
    if (rc == 0) *ret = s;
    return rc;
}

// What the families' configuration classes have (transformers 5.23.0); those of other families have
// a switch, off. Of so many layers that come in turn the last looks at all tokens: 0: none does.
static const struct windowed {
    const char *type;
    int64_t window, cycle;
} windows[] = {{"mistral", 4096, 0}, {"gemma2", 4096, 2}, {"gemma3_text", 4096, 6},
               {"gemma3", 4096, 6},  {"phi3", 0, 0},      {"mixtral", 0, 0},
               {"starcoder2", 0, 0}, {"olmo3", 4096, 4},  {"cohere2", 4096, 4},
               {"gpt_oss", 128, 2}};

static const struct windowed *windowed_of(const struct shape *s) {
    size_t i = 0, count = sizeof windows / sizeof *windows;
    while (i < count && !str_is(s->type, windows[i].type)) i++;
    return i < count ? &windows[i] : NULL;
}

// What a config.json says of its text model beside the sizes; the object is the caller's.
static const json_t *said_of(const json_t *more, const char *key) {
    const json_t *of_text = json_object_get(more, "text_config");
    return json_object_get(of_text ? of_text : more, key);
}

static json_t *more_of(const struct shape *s) {
    return json_loadb(s->more.p ? s->more.p : "", (size_t)s->more.len, 0, NULL);
}

int64_t shape_window(const struct shape *s) {
    const struct windowed *usual = windowed_of(s);
    if (!usual) return 0;
    json_t *more = more_of(s);
    const json_t *said = said_of(more, "sliding_window");
    int64_t window = usual->window;
    if (said) window = json_is_number(said) ? (int64_t)json_number_value(said) : 0;
    json_decref(more);
    return window;
}

int64_t shape_windowed_layers(const struct shape *s) {
    const struct windowed *usual = windowed_of(s);
    if (shape_window(s) <= 0) return 0;
    json_t *more = more_of(s);
    const json_t *types = said_of(more, "layer_types");
    int64_t count = usual->cycle > 0 ? s->layers - s->layers / usual->cycle : s->layers;
    if (json_is_array(types)) count = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && strcmp(type, "sliding_attention") == 0) count++;
    }
    json_decref(more);
    return count < s->layers ? count : s->layers;
}

struct str shape_config(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    struct shape sizes = *s;
    json_t *config = json_object();
    json_object_set_new(config, "model_type", json_text(s->type));
    for (int i = 0; f && i < SHAPE_SIZES; i++) {
        int64_t size = *shape_size_at(&sizes, i);
        if (size > 0 && f->keys[i].path.len > 0)
            put(t->arena, config, f->keys[i].path, json_integer(size));
    }
    json_object_set_new(config, "tie_word_embeddings", json_boolean(s->tied));
    json_t *more = json_loadb(s->more.p, (size_t)s->more.len, 0, NULL);
    if (more) json_object_update_recursive(config, more);
    json_decref(more);
    return json_document(t->arena, config);
}

struct str shape_setting(const struct shape_table *t, const struct shape *s) {
    if (s->ids.len == 0) return s->unlike;
    struct str text = shape_config(t, s);
    json_t *config = json_loadb(text.p, (size_t)text.len, JSON_DECODE_INT_AS_REAL, NULL);
    struct str unlike = shape_unlike(t->arena, shape_family_find(t, s->type), config);
    json_decref(config);
    return unlike;
}

bool shape_is_encoder(const struct shape *s) {
    return str_is(s->kind, "encoder");
}

bool shape_is_alike(const struct shape *a, const struct shape *b) {
    static const double parameters_alike = 0.01; // heads of other tasks differ by less
    bool is_same = str_equal(a->type, b->type) && a->hidden == b->hidden &&
                   a->layers == b->layers && a->heads == b->heads && a->head_dim == b->head_dim &&
                   a->intermediate == b->intermediate && a->experts == b->experts &&
                   (a->kv_heads == b->kv_heads || a->kv_heads == 0 || b->kv_heads == 0);
    if (!is_same || a->parameters == 0 || b->parameters == 0)
        return is_same && a->vocabulary == b->vocabulary && a->tied == b->tied;
    return fabs((double)a->parameters / (double)b->parameters - 1) <= parameters_alike;
}
