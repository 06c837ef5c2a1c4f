// SPDX-License-Identifier: Apache-2.0
// The shape of a transformer: the sizes that its config.json says. From a config.json, or from the
// table of the models that people name most (data/shapes.tsv); data/families.tsv says under which
// keys a family has them. The recorder's hf_shapes.py reads the same two tables.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// Numbers are 0 where the model has no such size, or nobody says it.
struct shape {
    struct str ids;  // names on the hub, separated by commas; empty: read from a file
    struct str type; // model_type
    struct str kind; // decoder, encoder, seq2seq, vision, speech or two-tower
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, positions;
    int64_t experts, active, expert_intermediate; // mixture of experts: all, and of one token
    bool tied;                                    // the head has the embedding's weights
    int64_t parameters;
    int64_t tower;     // of these, those of a part that sees, beside the text model
    struct str unlike; // of a config.json that was read: see shape_setting
    struct str more;   // further keys of config.json that are not the family's defaults, as JSON
    struct str quant;  // how the weights are stored: nf4, nf4-dq, or in words that no plan has
                       // ("GPTQ"); empty: as they are computed with
    struct str dtype;  // of a config.json that was read: as the weights are stored ("bfloat16");
                       // empty: unsaid
    struct str head; // of a config.json that was read: "MaskedLM" of BertForMaskedLM; empty: unsaid
    struct str source; // where the sizes were read
};

// A row of the table, of which a question wants one at most: read when it is asked for.
struct shape_row {
    struct str ids, text;
    const struct shape *shape; // NULL: not yet
};
struct shape_files;
struct shape_table {
    struct arena *arena;
    struct shape_files *files;
    struct shape_row *rows;
    ptrdiff_t count, capacity;
};

int shape_load(struct arena *a, struct shape_table *ret_table, struct fail *why);
// From 0 to count - 1. Its address stays.
const struct shape *shape_at(const struct shape_table *t, ptrdiff_t at);

// The row of a hub's name ("Qwen/Qwen3-8B"), or of one without its owner that only one shape has.
// NULL: there is none.
const struct shape *shape_find(const struct shape_table *t, struct str name);
// The row whose name a hub's name has under another owner, with another's ending for weights in few
// bits or with one for instructions: "NousResearch/Meta-Llama-3-8B", "unsloth/llama-3-8b-bnb-4bit",
// "Qwen/Qwen2-1.5B-Instruct". *ret: that row's shape, its ids the name that it is, its quant what
// the ending says. NULL: there is none, or several.
const struct shape *shape_find_copy(const struct shape_table *t, struct str name,
                                    struct shape *ret);
struct str shape_id(const struct shape *s); // the first of the names

// Reads a config.json; `where` is its name in errors. FAIL_INPUT with one clear line: no JSON, a
// family that the table does not have, a size that is missing, no whole number or absurd.
int shape_read(const struct shape_table *t, struct str where, struct str text, struct shape *ret,
               struct fail *why);
// The config.json of a shape: what transformers' AutoConfig needs, and shape_read takes.
struct str shape_config(const struct shape_table *t, const struct shape *s);

// Whether two are one architecture of one size, heads of other tasks and vocabularies aside as far
// as they make no more than 1 % of the parameters.
bool shape_is_alike(const struct shape *a, const struct shape *b);

// From how many tokens on attention looks at a window only; 0: never, or the family has none.
int64_t shape_window(const struct shape *s);
int64_t shape_windowed_layers(const struct shape *s); // that do; 0: there is no window
// The heads of keys and values, which are all where a family has no number of them.
int64_t shape_kv_heads(const struct shape *s);
// Its linear layers but the head, separated by commas, in a layer's order; empty: not known.
struct str shape_linear(const struct shape_table *t, const struct shape *s);
bool shape_knows_layer(const struct shape_table *t, struct str name); // of any family
// "KEY VALUE": a setting besides the sizes that no template has; empty: there is none.
struct str shape_setting(const struct shape_table *t, const struct shape *s);
// Positions of a table that is learned, which no sequence can be longer than; 0: there is none.
int64_t shape_table_rows(const struct shape_table *t, const struct shape *s);
int64_t shape_longest(const struct shape *s); // tokens that its positions are for; 0: not known
bool shape_is_encoder(const struct shape *s); // alone, with a small head or none
// How many of its layers are one of its template's: those that differ and come again in turn.
int64_t shape_cycle(const struct shape_table *t, const struct shape *s);
// The family whose templates it has.
struct str shape_template(const struct shape_table *t, const struct shape *s);
// Whether the sizes say all of its layers: no biases or norms besides the family's own.
bool shape_is_plain(const struct shape_table *t, const struct shape *s);

// The config.json of a model in the Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/...):
// that of its main branch, else any. False: it is not there.
bool shape_cached(struct arena *a, struct str name, struct str *ret_path);
// Whether a name can be one of the hub: OWNER/NAME.
bool shape_is_id(struct str name);
