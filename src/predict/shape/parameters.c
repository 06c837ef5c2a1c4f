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
    if (has_bias(f, "s")) count += s->heads;
    if (str_is(f->qk, "head")) count += 2 * s->head_dim;
    if (str_is(f->qk, "all")) count += all + shared;
    return count;
}

// Qwen2-MoE has one expert for all tokens, whose width is its own, and a row that weighs it.
static bool has_shared_expert(const struct shape_family *f) {
    return str_starts(f->keys[SHAPE_INTERMEDIATE].path, STR("shared_expert"));
}

static int64_t feed_forward(const struct shape_family *f, const struct shape *s,
                            const struct shape_extras *more) {
    int64_t inner =
        s->experts > 0 && s->expert_intermediate > 0 ? s->expert_intermediate : s->intermediate;
    int64_t matrices = more->matrices > 0 ? more->matrices : f->matrices;
    int64_t count = matrices * s->hidden * inner;
    if (more->has_mlp_bias || has_bias(f, "m")) count += (matrices - 1) * inner + s->hidden;
    if (s->experts == 0) return count;
    count = s->experts * (count + s->hidden + has_bias(f, "r")); // with the router's row
    return has_shared_expert(f) ? count + matrices * s->hidden * s->intermediate + s->hidden
                                : count;
}

// Of T5's making (modeling_t5.py): relative positions are a table of the first layers, a decoder's
// layer looks at the encoder too.
static int64_t seq2seq(const struct shape_family *f, const struct shape *s,
                       const struct shape_extras *more) {
    static const int64_t position_buckets = 32; // relative_attention_num_buckets
    struct shape whole = *s;
    whole.kv_heads = s->heads;
    int64_t look = attention(f, &whole, false), think = feed_forward(f, s, more);
    int64_t layer = 3 * look + 2 * think + 5 * s->hidden; // one of either side
    return s->layers * layer + 2 * position_buckets * s->heads + 2 * s->hidden +
           (s->tied ? 1 : 2) * s->vocabulary * s->hidden;
}

int64_t shape_parameters(const struct shape_family *f, const struct shape *s,
                         const struct shape_extras *more) {
    if (f->matrices == 0 || s->head_dim == 0) return 0;
    if (more->width > 0 && more->width != s->hidden) return 0;
    if (str_is(f->kind, "seq2seq")) return seq2seq(f, s, more);
    bool has_head = str_is(f->kind, "decoder");
    int64_t layer =
        attention(f, s, more->has_attention_bias) + feed_forward(f, s, more) + f->norms * s->hidden;
    int64_t rows = s->vocabulary + more->types + f->outside;
    if (has_head && !s->tied) rows += s->vocabulary;
    if (f->has_table) rows += s->positions + f->table;
    if (f->is_pooled) rows += s->hidden + 1;
    return s->layers * layer + rows * s->hidden + (has_bias(f, "h") ? s->vocabulary : 0) + f->tower;
}

struct str shape_linear(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    return f ? f->linear : (struct str){0};
}

int64_t shape_kv_heads(const struct shape *s) {
    return s->kv_heads > 0 ? s->kv_heads : s->heads;
}

static struct shape_extras said(const struct shape *s, const struct shape_family *f) {
    json_t *more = json_loadb(s->more.p ? s->more.p : "", (size_t)s->more.len, 0, NULL);
    const json_t *types = f ? json_object_get(more, "type_vocab_size") : NULL;
    struct shape_extras own = f ? shape_extras_of(f, more) : (struct shape_extras){0};
    if (f) own.types = types ? (int64_t)json_number_value(types) : f->types.usual;
    json_decref(more);
    return own;
}

bool shape_is_plain(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    const struct shape_extras own = said(s, f);
    struct shape whole = *s;
    whole.kv_heads = shape_kv_heads(s);
    return f && s->parameters > 0 && shape_parameters(f, &whole, &own) == s->parameters;
}

int64_t shape_cycle(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    return f && f->cycle > 0 ? f->cycle : 1;
}

int64_t shape_table_rows(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    return f && f->has_table ? s->positions + f->table : 0;
}

// Families whose code is another's, and rows of the table of positions that no token has: the first
// one has that behind pad_token_id's (transformers 5.23.0, modeling_roberta.py).
static const struct {
    const char *type, *code;
    int64_t unused;
} kin[] = {{"roberta", "roberta", 2}, {"xlm-roberta", "roberta", 2}, {"camembert", "roberta", 2}};
enum { KIN = sizeof kin / sizeof *kin };

static int kin_of(const struct shape *s) {
    int i = 0;
    while (i < KIN && !str_is(s->type, kin[i].type)) i++;
    return i;
}

int64_t shape_longest(const struct shape *s) {
    int i = kin_of(s);
    return s->positions - (i < KIN && s->positions > kin[i].unused ? kin[i].unused : 0);
}

struct str shape_template(const struct shape_table *t, const struct shape *s) {
    const struct shape_family *f = shape_family_find(t, s->type);
    int i = kin_of(s);
    if (i < KIN) return str_of(kin[i].code);
    if (!f || !str_is(f->kind, "seq2seq")) return s->type;
    // mT5's code is T5's; its feed-forward part is gated unless told otherwise.
    int64_t own = said(s, f).matrices, matrices = own > 0 ? own : f->matrices;
    return matrices == 3 ? STR("t5-gated") : STR("t5");
}
