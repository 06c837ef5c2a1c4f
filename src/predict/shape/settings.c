// SPDX-License-Identifier: Apache-2.0
// Settings of a config.json that are no sizes and yet change what a training allocates: the column
// `fixed` of data/families.tsv says which values templates were recorded with.
#include "predict/shape/shape_int.h"

#include <math.h>
#include <stdlib.h>

const json_t *shape_at_path(const json_t *object, struct arena *a, struct str path) {
    while (path.p && object) object = json_object_get(object, str_z(a, str_cut(&path, '.')));
    return object;
}

// A number, or JSON without quotes; a key of the config stands for its value.
static bool is_value(const json_t *said, struct arena *a, const json_t *config, struct str value) {
    const json_t *other = json_object_get(config, str_z(a, value));
    char *end, *text = str_z(a, value);
    double number = strtod(text, &end);
    if (other) return json_equal(said, other);
    if (json_is_number(said)) return *text && !*end && json_number_value(said) == number;
    struct str json = json_bytes(a, said, JSON_ENCODE_ANY | JSON_COMPACT);
    if (json_is_string(said)) json = str_slice(json, 1, json.len - 1);
    return str_equal(json, value);
}

static bool is_one_of(const json_t *said, struct arena *a, const json_t *config,
                      struct str values) {
    while (values.p)
        if (is_value(said, a, config, str_cut(&values, '|'))) return true;
    return false;
}

static int64_t matrices_of(const json_t *config) {
    const char *how = json_string_value(json_object_get(config, "feed_forward_proj"));
    if (!how) return 0;
    return str_starts(str_of(how), STR("gated-")) ? 3 : 2; // modeling_t5.py: wi_0, wi_1, wo
}

struct shape_extras shape_extras_of(const struct shape_family *f, const json_t *config) {
    const bool has_none = f->biases.len == 0; // of the family's own
    return (struct shape_extras){
        .matrices = matrices_of(config),
        .width = (int64_t)json_number_value(json_object_get(config, "word_embed_proj_dim")),
        .has_attention_bias = has_none && json_is_true(json_object_get(config, "attention_bias")),
        .has_mlp_bias = has_none && json_is_true(json_object_get(config, "mlp_bias"))};
}

// JSON whose integers were read as reals.
static struct str text_of(struct arena *a, const json_t *said) {
    struct buf text = buf_new(a);
    if (json_is_number(said)) return str_format(a, "%.6g", json_number_value(said));
    if (!json_is_array(said)) return json_bytes(a, said, JSON_ENCODE_ANY | JSON_COMPACT);
    for (size_t i = 0; i < json_array_size(said); i++)
        buf_format(&text, "%s%.*s", i > 0 ? "," : "", STR_ARG(text_of(a, json_array_get(said, i))));
    return str_format(a, "[%.*s]", STR_ARG(buf_str(&text)));
}

struct str shape_unlike(struct arena *a, const struct shape_family *f, const json_t *config) {
    for (struct str rest = f->fixed; rest.len > 0;) {
        struct str setting = str_cut(&rest, ',');
        ptrdiff_t bang = str_find(setting, STR("!")),
                  at = bang > 0 ? bang : str_find(setting, STR("="));
        struct str key = str_slice(setting, 0, at);
        const json_t *said = shape_at_path(config, a, key);
        struct str values = str_slice(setting, at + 1, setting.len);
        bool is_needed = str_starts(values, STR("="));
        if (is_needed) values = str_slice(values, 1, values.len);
        if ((!said || json_is_null(said)) && !is_needed) continue;
        if (!said) return str_format(a, "without %.*s", STR_ARG(key));
        if (is_one_of(said, a, config, values) == (bang < 0)) continue;
        return str_format(a, "%.*s %.40s", STR_ARG(key), str_z(a, text_of(a, said)));
    }
    const double layers = json_number_value(shape_at_path(config, a, f->keys[SHAPE_LAYERS].path));
    if (f->cycle > 1 && fmod(layers, (double)f->cycle) != 0)
        return str_format(a, "%.0f layers, which are not taken %lld at a time", layers,
                          (long long)f->cycle);
    const struct shape_extras more = shape_extras_of(f, config);
    if (more.has_attention_bias) return STR("attention_bias true");
    return more.has_mlp_bias ? STR("mlp_bias true") : (struct str){0};
}
