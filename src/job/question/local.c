// SPDX-License-Identifier: Apache-2.0
#include "job/question/local.h"

#include "base/json.h"
#include "base/shell.h"
#include "base/unit.h"

#include <math.h>

enum { CONFIG_MOST = 1 << 20 };
static const double parameters_alike = 0.01; // heads of other tasks differ by less

// Where the families' config.json says their sizes (transformers' configuration_*.py), and what a
// layer is made of. NULL: it has no such key.
static const struct family {
    const char *type, *hidden, *layers, *inner, *positions;
    bool is_gated;  // three matrices in the feed-forward part, no biases there, no position table
    bool has_types; // token types and a pooler, as in BERT
} families[] = {
    {"gpt2", "n_embd", "n_layer", "n_inner", "n_positions", false, false},
    {"bert", "hidden_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings",
     false, true},
    {"roberta", "hidden_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings",
     false, true},
    {"distilbert", "dim", "n_layers", "hidden_dim", "max_position_embeddings", false, false},
    {"llama", "hidden_size", "num_hidden_layers", "intermediate_size", NULL, true, false},
    {"mistral", "hidden_size", "num_hidden_layers", "intermediate_size", NULL, true, false},
    {"qwen2", "hidden_size", "num_hidden_layers", "intermediate_size", NULL, true, false},
};

static double number_or(const json_t *config, const char *key, double usual) {
    double number = key ? json_number_at(config, key) : (double)NAN;
    return number > 0 ? number : usual;
}

static double plain_parameters(const struct family *f, const json_t *config, double hidden,
                               double layers) {
    double inner = number_or(config, f->inner, 4 * hidden);
    double table = number_or(config, "vocab_size", 0) + number_or(config, f->positions, 0);
    double layer = 4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner;
    double more = f->has_types
                      ? number_or(config, "type_vocab_size", 0) * hidden + hidden * hidden + hidden
                      : 0;
    return table * hidden + layers * layer + 2 * hidden + more;
}

static double gated_parameters(const struct family *f, const json_t *config, double hidden,
                               double layers) {
    double inner = number_or(config, f->inner, 4 * hidden);
    double heads = number_or(config, "num_attention_heads", 1);
    double shared = number_or(config, "num_key_value_heads", heads);
    double width = number_or(config, "head_dim", hidden / heads);
    double tables = json_is_true(json_object_get(config, "tie_word_embeddings")) ? 1 : 2;
    double layer =
        2 * hidden * heads * width + 2 * hidden * shared * width + 3 * hidden * inner + 2 * hidden;
    return tables * number_or(config, "vocab_size", 0) * hidden + layers * layer + hidden;
}

// Parameters of the model that a config.json describes, and its family; NaN: that cannot be told.
static double parameters_of(const json_t *config, struct str type, const struct family **ret) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *f = &families[i];
        if (!str_is(type, f->type)) continue;
        double hidden = number_or(config, f->hidden, 0), layers = number_or(config, f->layers, 0);
        *ret = f;
        if (hidden <= 0 || layers <= 0) return (double)NAN;
        return f->is_gated ? gated_parameters(f, config, hidden, layers)
                           : plain_parameters(f, config, hidden, layers);
    }
    return (double)NAN;
}

static bool names(struct str model, struct str family) {
    for (ptrdiff_t i = 0; i + family.len <= model.len; i++) {
        if (str_equal_nocase(str_slice(model, i, i + family.len), family)) return true;
    }
    return false;
}

// The model of that family and size that there is a tape of; empty: none.
static struct str alike(const struct question *q, const struct family *f, double parameters) {
    for (ptrdiff_t i = 0; i < q->store.count; i++) {
        const struct tape_header *h = &q->store.entries[i].header;
        double off = fabs((double)h->parameters / parameters - 1);
        bool is_family = names(h->model, str_of(f->type));
        if (h->parameters > 0 && is_family && off <= parameters_alike) return h->model;
    }
    return (struct str){0};
}

static int say_unknown(struct question *q, struct str folder, struct str what, bool is_optional,
                       struct fail *why) {
    q->plan.model = (struct str){0};
    if (is_optional) {
        str_list_format(q->arena, &q->notes, "%.*s is a folder: %.*s; so there is no prediction",
                        STR_ARG(folder), STR_ARG(what));
        return 0;
    }
    fail_set(why, FAIL_INPUT, "%.*s is a folder: %.*s", STR_ARG(folder), STR_ARG(what));
    struct str source = str_format(q->arena, "hf:%.*s", STR_ARG(folder));
    source = shell_word(q->arena, source);
    return fail_hint(why, "record its tape: batchfit record %.*s", STR_ARG(source));
}

int question_local(struct question *q, bool is_optional, struct fail *why) {
    struct arena *a = q->arena;
    struct str folder = q->plan.model, text;
    if (folder.len == 0) return 0;
    const char *path = str_format(a, "%.*s/config.json", STR_ARG(folder)).p;
    if (!os_exists(path)) return 0; // a name; also where some folder happens to have it
    int rc = os_read(a, path, CONFIG_MOST, &text, NULL, why);
    if (rc < 0) return rc;
    json_t *config = json_loadb(text.p, (size_t)text.len, JSON_DECODE_INT_AS_REAL, NULL);
    const struct family *family = NULL;
    struct str type = json_text_at(a, config, "model_type");
    double parameters = parameters_of(config, type, &family);
    json_decref(config);
    if (isnan(parameters)) {
        return say_unknown(q, folder, STR("its config.json describes no known model family"),
                           is_optional, why);
    }
    struct str model = alike(q, family, parameters);
    struct str size = str_format(a, "its config.json describes a %.*s of %.3g million parameters",
                                 STR_ARG(type), parameters / 1e6);
    if (model.len == 0) {
        return say_unknown(q, folder, str_format(a, "%.*s, which has no tape", STR_ARG(size)),
                           is_optional, why);
    }
    str_list_format(a, &q->notes, "%.*s is a folder: %.*s, treated as %.*s", STR_ARG(folder),
                    STR_ARG(size), STR_ARG(model));
    q->plan.model = model;
    return 0;
}
