// SPDX-License-Identifier: Apache-2.0
// Parameters from the sizes, for the families whose rows in data/families.tsv say what they are
// made of. tests/unit/shape.c holds each against the count of the model that transformers builds.
#include "predict/shape/shape_int.h"

static bool has_bias(const struct shape_family *f, const char *which) {
    return str_find(f->biases, str_of(which)) >= 0;
}

static int64_t attention(const struct shape_family *f, const struct shape *s, bool is_biased) {
    int64_t all = s->heads * s->head_dim, shared = s->kv_heads * s->head_dim;
    int64_t count = s->hidden * (2 * all + 2 * shared);
    if (is_biased || has_bias(f, "q")) count += all + 2 * shared;
    if (is_biased || has_bias(f, "o")) count += s->hidden;
    if (str_is(f->qk, "head")) count += 2 * s->head_dim;
    if (str_is(f->qk, "all")) count += all + shared;
    return count;
}

static int64_t feed_forward(const struct shape_family *f, const struct shape *s, bool is_biased) {
    int64_t inner =
        s->experts > 0 && s->expert_intermediate > 0 ? s->expert_intermediate : s->intermediate;
    int64_t count = f->matrices * s->hidden * inner;
    if (is_biased || has_bias(f, "m")) count += (f->matrices - 1) * inner + s->hidden;
    return s->experts > 0 ? s->experts * (count + s->hidden) : count; // with the router's row
}

int64_t shape_parameters(const struct shape_family *f, const struct shape *s,
                         const struct shape_extras *more) {
    if (f->matrices == 0 || s->head_dim == 0) return 0;
    bool has_head = str_is(f->kind, "decoder");
    int64_t layer = attention(f, s, more->has_attention_bias) +
                    feed_forward(f, s, more->has_mlp_bias) + f->norms * s->hidden;
    int64_t rows = s->vocabulary + more->types + f->outside;
    if (has_head && !s->tied) rows += s->vocabulary;
    if (f->has_table) rows += s->positions + f->table;
    if (f->is_pooled) rows += s->hidden + 1;
    return s->layers * layer + rows * s->hidden + (has_bias(f, "h") ? s->vocabulary : 0);
}

struct str shape_linear(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    return f ? f->linear : (struct str){0};
}

bool shape_is_plain(const struct shape_table *t, const struct shape *s) {
    const struct shape_extras none = {0};
    const struct shape_family *f = shape_family_find(t, s->type);
    return f && s->parameters > 0 && shape_parameters(f, s, &none) == s->parameters;
}
