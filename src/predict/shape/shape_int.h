// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "predict/shape/shape.h"

// Where config.json has a size ("text_config.hidden_size"; empty: the family has none), where
// other versions write it, and what holds where it has not: 0: nothing does, SHAPE_FOUR_HIDDEN:
// four times hidden.
enum { SHAPE_FOUR_HIDDEN = -4 };
struct shape_key {
    struct str path, other;
    int64_t usual;
};

enum { SHAPE_LAYERS = 1, SHAPE_KV_HEADS = 3, SHAPE_INTERMEDIATE = 5, SHAPE_SIZES = 11 };
struct shape_family {
    struct str type, kind;
    struct shape_key keys[SHAPE_SIZES], types;
    bool tied;
    // What parameters are made of; matrices 0: the sizes do not say it.
    struct str biases, qk;
    struct str linear; // layers, separated by commas
    struct str fixed;  // settings that templates have, separated by commas
    int64_t matrices, norms, outside, tower, table;
    int64_t cycle; // layers that come again in turn; 0: all are alike
    bool has_table, is_pooled;
};

// The sizes of a shape, in the order of a family's keys.
struct shape_size {
    const char *name; // the column of both tables
    size_t offset;    // in struct shape
    int64_t most;     // more is absurd
};
extern const struct shape_size shape_sizes[SHAPE_SIZES];
int64_t *shape_size_at(struct shape *s, int size);

const struct shape_family *shape_family_find(const struct shape_table *t, struct str type);
// What else a config.json says that parameters depend on.
struct shape_extras {
    int64_t types;    // rows of the table of token types
    int64_t matrices; // of a feed-forward part; 0: the family's
    int64_t width;    // of the embedding, where it is not hidden (OPT-350M); 0: it is
    bool has_attention_bias, has_mlp_bias;
};
// The first of the family's fixed settings that the object has another value of, as "KEY VALUE";
// empty: none.
struct str shape_unlike(struct arena *a, const struct shape_family *f, const json_t *config);
const json_t *shape_at_path(const json_t *object, struct arena *a, struct str path); // "a.b"
struct shape_extras shape_extras_of(const struct shape_family *f,
                                    const json_t *config); // without types
// 0: the family's are not computed.
int64_t shape_parameters(const struct shape_family *f, const struct shape *s,
                         const struct shape_extras *more);
