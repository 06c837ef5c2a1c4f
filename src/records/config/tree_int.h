// SPDX-License-Identifier: Apache-2.0
// Inside of the config room: the tree that keeps where every byte came from. Does not leave the
// room.
#pragma once

#include "records/config/config.h"

enum node_kind { NODE_SCALAR, NODE_ALIAS, NODE_LIST, NODE_MAP };
enum node_style {
    STYLE_PLAIN,
    STYLE_SINGLE,
    STYLE_DOUBLE,
    STYLE_LITERAL,
    STYLE_FOLDED,
    STYLE_EMPTY,
    STYLE_UNKNOWN, // only the program knows the value, or what else is in the list or map
};

// What few nodes have.
struct config_rare {
    struct str anchor, tag;
    struct str spelled; // of a key: as a shell script has it, "--batch-size"
    double expanded;    // of an anchor: nodes below, aliases written out; 0: not counted yet
    struct config_index *index; // of a map with many keys
};

// 64 bytes: a file of 16 MiB may have millions of them.
struct config_node {
    enum node_kind kind : 8;
    enum node_style style : 8; // of a scalar; STYLE_UNKNOWN of all
    bool flow : 1;             // a list or map in brackets
    bool is_key : 1;           // an anchor may stand at a key; an edit never renames one
    bool merges : 1;           // a map with a merge key (<<)
    bool is_replaced : 1;      // a key that comes again in its map: the trainer never sees the pair
    bool replaces : 1;         // a key that was there before
    unsigned char file;        // 0: the config itself; else the place, and 1, in its files
    int line, column;          // from 1, in characters
    int number;                // of the matches that it is in (dialect.c)
    // Bytes of the value itself: inside the quotes of a quoted scalar, after the * of an alias,
    // with the brackets of a flow collection. STYLE_EMPTY: where a value would go; -1 when there is
    // no such place.
    int begin, end;
    int count;       // of items
    struct str text; // decoded scalar; name of the anchor that an alias means
    union {
        struct config_node **items; // of a list; of a map: key, value, key, value, …
        struct config_node *target; // of an alias
    };
    struct config_rare *rare; // NULL: none of it
};
static inline struct str config_node_anchor(const struct config_node *n) {
    return n->rare ? n->rare->anchor : (struct str){0};
}
static inline struct str config_node_tag(const struct config_node *n) {
    return n->rare ? n->rare->tag : (struct str){0};
}

// --- parse.c: the nodes of a text, one by one ----------------------------------------------------

// Of the text in ret_config: each node when it begins, without items; a list or a map once more
// when it ends. What it is given is forgotten afterwards.
typedef int node_visitor(void *self, const struct config_node *n, bool ends);
int config_nodes_visit(struct arena *a, struct config *config, node_visitor *each, void *self,
                       struct fail *why);

// --- json.c: strict JSON ------------------------------------------------------------------------

// false: no JSON, or with something in it that is better left to jansson.
bool config_json_is_plain(struct str text);

// --- data.c: what is no YAML ---------------------------------------------------------------------

// FAIL_INPUT when the values, each written out where it is used, are too many or too deep.
int config_data_tree(struct arena *a, const struct datum *root, struct config *ret_config,
                     struct fail *why);

// --- index.c: the keys of one map ----------------------------------------------------------------

// Built once when the map is complete, so that neither looking for a hundred keys of a dialect nor
// for a pair that is there twice walks a map of a million keys again and again.
struct config_index;
// The index is kept in the map when that has many keys. Of keys that are there twice the last
// counts; the others are marked.
void config_index_build(struct arena *a, struct config_node *map);
// Place of a key in items; -1: the map has none of that name.
ptrdiff_t config_index_find(const struct config_node *map, struct str key);
bool config_node_is_merge(const struct config_node *key);

// --- pyyaml.c: what the trainer's reader does not take -------------------------------------------

// "c.yaml:3:1: a list as a key, ..., which PyYAML does not load"; empty: nothing that is known.
struct str config_pyyaml_refuses(struct arena *a, const struct config *c);

// --- bytes.c: what can be said before parsing ----------------------------------------------------

// Sets *why to "NAME:LINE:COLUMN: message" for a byte offset; below 0 (a node without a place) it
// is the first.
__attribute__((format(printf, 4, 5))) int config_bytes_fail(const struct config *c, ptrdiff_t at,
                                                            struct fail *why, const char *format,
                                                            ...);
int config_bytes_check(const struct config *c, struct fail *why);
// First and one-past-last byte of the line that holds `at`, without its ending.
ptrdiff_t config_bytes_line_begin(struct str text, ptrdiff_t at);
ptrdiff_t config_bytes_line_end(struct str text, ptrdiff_t at);
// The line ending at `at`: "\n", "\r\n", "\r" or empty at the end of the text.
struct str config_bytes_ending(struct str text, ptrdiff_t at);
struct str config_bytes_ending_before(struct str text,
                                      ptrdiff_t line); // of the line above; `line` begins one
// A line that was probably meant to be "key: …" but is not: full-width colon, no-break space, no
// blank after the colon. key empty: any key. Returns advice or an empty view.
struct str config_bytes_hint(struct arena *a, struct str text, struct str key);
// By the ending of the name, else by "#!/bin/bash".
enum config_format config_bytes_format(struct str name, struct str text);
// Where PyYAML stops although libfyaml goes on: tabs between tokens, line ends that only one of
// them knows. Empty when there is nothing. `nodes` are the scalars in the order of the text.
struct str config_bytes_unwritable(struct arena *a, const struct config *c,
                                   struct config_node *const *scalars, ptrdiff_t count);

// --- value.c: what a scalar means ----------------------------------------------------------------

enum odd {
    ODD_NONE,
    ODD_QUOTED,     // '16'
    ODD_UNDERSCORE, // 1_000
    ODD_FLOAT,      // 16.0
    ODD_EXPONENT,   // 1e3, text for PyYAML
    ODD_OCTAL,      // 016
    ODD_BASE,       // 0x10, 0b100
    ODD_OCTAL12,    // 0o20
    ODD_ZERO,       // 08
    ODD_SIXTY,      // 12:30
    ODD_DATE,       // 2026-01-01
    ODD_GLUED,      // "16# c"
    ODD_COMMA,      // "16,"
    ODD_WIDE,       // full-width digits
    ODD_BLOCK,      // block scalar or several lines
    ODD_TEMPLATE,   // {{ x }}
};
struct scalar {
    enum config_type type;
    enum odd odd;
    int64_t integer;
    double number;
    bool boolean;
};
struct scalar config_scalar_read(const struct config *c, const struct config_node *n);
// The same for a text that would be written plain.
struct scalar config_scalar_plain(struct str text);
// What stands in a value: of a list, its texts.
struct str config_node_text(struct arena *a, const struct config_node *n, char between);
// What an odd spelling means, for messages: "016 is octal for PyYAML and means 14".
struct str config_scalar_meaning(struct arena *a, struct scalar s, struct str text);
// The text spelled as the old value is: True for true where it says False, 8.0 for 8 where it says
// 16.0.
struct str config_scalar_spell(struct arena *a, struct scalar old, struct str old_text,
                               struct str value);
// A key of letters, digits, _ and - that needs no quotes and is no number, boolean or null.
bool config_scalar_is_key(struct str text);
// Whether a text may be written as a value: one line without quotes, backslashes and control bytes;
// and whether it needs quotes, as it would mean something else without.
bool config_scalar_is_text(struct str text);
bool config_scalar_needs_quotes(struct str text);
bool config_node_is_template(const struct config_node *n);

// --- path.c: where a key is ----------------------------------------------------------------------

struct step {
    struct str key;
    int64_t index; // >= 0: list item; -1: key
};
struct steps {
    struct step *items;
    ptrdiff_t count, capacity;
};
int config_path_parse(struct arena *a, struct str path, struct steps *ret_steps, struct fail *why);
struct str config_path_join(struct arena *a, struct str path,
                            struct str key); // quotes a dotted key

struct place {
    struct config_node *map, *key, *value; // value NULL: absent; map: where the pair is
    struct config_node *owner;             // the map that was asked; differs from map after a merge
    struct config_node *shared; // alias or merged map passed on the way: others see it too
    bool inherited;             // the last key was found in the base of a merge
    ptrdiff_t missing;          // absent: number of steps that were found
};
struct place config_place_find(const struct config *c, const struct steps *steps);
// Own key or, when `merges`, one of the merged bases, as the trainer sees it.
struct place config_map_find(struct config_node *map, struct str key, bool merges);
struct config_node *config_node_follow(struct config_node *n); // alias -> what it means
// Calls `each` for every pair of every map, aliases not followed. `path` is the map's.
typedef void pair_visitor(void *self, struct str path, struct config_node *map,
                          struct config_node *key, struct config_node *value);
void config_tree_walk(struct arena *a, const struct config *c, pair_visitor *each, void *self);
// End of a node with its quotes or brackets; of a block collection, of its last item.
ptrdiff_t config_node_outer_end(const struct config *c, const struct config_node *n);
ptrdiff_t config_node_outer_begin(const struct config_node *n);
// Paths of the aliases that follow an anchor: "val.batch_size, test.batch_size".
struct str config_anchor_users(struct arena *a, const struct config *c,
                               const struct config_node *n);
struct config_value config_value_of(struct arena *a, const struct config *c, const struct place *p,
                                    struct str path);

// --- layer.c: the files that a YAML or JSON config is laid over ---------------------------------

// The text of a config -> its tree.
typedef int layer_reader(struct arena *a, struct config *config, struct fail *why);
int config_layers_read(struct arena *a, const struct datum_loader *loader, layer_reader *parse,
                       struct config *config, struct fail *why);
// "line 3", "base.yaml:3": for people.
struct str config_node_place(struct arena *a, const struct config *c, const struct config_node *n);
// The config as its own file has it.
struct config config_own(const struct config *c);
// The edit as the config's own file takes it: a value of another file gets a line of its own here.
// FAIL_INPUT: there is no place for one that would win.
int config_layer_edit(struct arena *a, const struct config *c, struct config_edit *e,
                      struct fail *why);
int config_layer_edits(struct arena *a, const struct config *c, struct config_edits *edits,
                       struct fail *why);
