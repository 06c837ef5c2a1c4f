// SPDX-License-Identifier: Apache-2.0
// Inside of the config room: values while a file that is no YAML is read (Python, TOML, shell).
// Lists and maps are shared as Python shares them: a name is another way to the same map. When the
// file is read, config_data_tree makes of them the tree that the roles and guards are found in.
#ifndef CONFIG_DATUM_INT_H
#define CONFIG_DATUM_INT_H

#include "records/config/tree_int.h"

enum datum_kind {
    DATUM_UNKNOWN, // only the program knows; text: how it is written
    DATUM_NULL,
    DATUM_BOOL,
    DATUM_INT,
    DATUM_FLOAT,
    DATUM_TEXT,
    DATUM_WORD, // a text without quotes, of a shell: 4 is a number
    DATUM_LIST,
    DATUM_MAP,
};
struct datum {
    enum datum_kind kind : 8;
    bool is_open : 1;   // a map: more keys may be in it than are known here
    bool is_tuple : 1;  // a list in round brackets
    bool is_fixed : 1;  // TOML: nothing may be added any more
    bool is_array : 1;  // TOML: a list of tables ([[x]])
    bool is_header : 1; // TOML: a table that has had its header
    bool is_import : 1; // Python: a name of another program's: "torch.optim.AdamW"
    bool is_lazy : 1;   // detectron2's LazyCall of that name
    unsigned char file; // 0: the config; else the place, and 1, in its files
    bool boolean;
    int line, column;
    struct str text;
    union {
        int64_t integer;
        double number;
        struct datum_list *list;
        struct datum_map *map;
    };
};
struct datum_list {
    struct datum **items;
    ptrdiff_t count, capacity;
};
struct datum_pair {
    struct str key;
    int line, column;    // of the key
    struct datum *value; // NULL: deleted
    struct str spelled;  // a flag as it stands in a shell script: "--batch-size"
};
struct datum_map {
    struct datum_pair *pairs;
    ptrdiff_t count, capacity;
    int32_t *slots; // place, and 1; open addressing; NULL: few pairs
    ptrdiff_t slot_count;
};

// What all values of a reading are made in, and how many there are: a file of 16 MiB must not cost
// gigabytes.
struct data {
    struct arena *arena;
    int count;
};
enum { DATA_MAX = 250 * 1000, DATA_DEPTH_MAX = 200 };

struct datum *config_datum_new(struct data *d, enum datum_kind kind, int line, int column);
struct datum *config_datum_integer(struct data *d, int64_t value, const struct datum *at);
struct datum *config_datum_float(struct data *d, double value, const struct datum *at);
// The value itself, of a map and a list too, with another place.
struct datum *config_datum_at(struct data *d, const struct datum *v, int line, int column);
void config_datum_push(struct data *d, struct datum *list, struct datum *item);
// NULL: not there.
struct datum_pair *config_datum_find(const struct datum *map, struct str key);
// The last one wins; the pair keeps its place among the others.
struct datum_pair *config_datum_set(struct data *d, struct datum *map, struct str key,
                                    struct datum *value, int line, int column);
// A list or map of its own with the same items.
struct datum *config_datum_copy(struct data *d, const struct datum *v);
// All of it, down to the scalars.
struct datum *config_datum_deep(struct data *d, const struct datum *v, int depth);

// FAIL_INPUT when the values, each written out where it is used, are too many or too deep.
int config_data_tree(struct data *d, const struct datum *root, struct config *ret_config,
                     struct fail *why);
int config_data_too_many(const struct config *c, struct fail *why);

// Digits of base 16 only; of at most 8.
bool config_text_hex(struct str digits, uint32_t *ret);
void config_text_utf8(struct buf *b, uint32_t character);

// --- The readers: each fills in ret_config->root -------------------------------------------------

int config_toml_read(struct arena *a, struct config *ret_config, struct fail *why);
// A program (a training script) has no root afterwards. `loader` may be NULL: then every file that
// the config is made of is missing.
int config_python_read(struct arena *a, const struct config_loader *loader,
                       struct config *ret_config, struct fail *why);
// A script without a command that trains has no root.
int config_shell_read(struct arena *a, struct config *ret_config, struct fail *why);

#endif
