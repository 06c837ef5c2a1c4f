// SPDX-License-Identifier: Apache-2.0
// Where tapes come from: the bundles shipped with the program (data/tapes, embedded) and the user's
// own recordings (os_data_dir()/tapes or $BATCHFIT_TAPES). Lists what there is, tells what equals a
// query, loads one; which tape may stand in for another is for the caller to decide.
#pragma once

#include "predict/tape/template.h"

// One tape that can be loaded. For shipped tapes only the columns of index.tsv are known.
struct tape_entry {
    struct str file;        // "data/tapes/resnet50.tapes.zst", or the path of a recording
    int64_t offset, length; // of the text inside a bundle; -1: the whole file
    bool shipped;
    struct str aliases;        // other names of the model, separated by commas
    struct tape_header header; // what selects it
    struct tape_bound image;   // the sizes of a template; most <= 0: it is a recording
};

// A recording that could not be read: said, not hidden.
struct tape_broken {
    struct str file, message;
};

// A row of index.tsv, read when its entry is asked for first.
struct tape_row {
    struct str text;
    const struct tape_entry *entry; // NULL: not yet
};
struct tape_index;
struct tape_store {
    struct arena *arena;
    struct str folder; // where bundles are; empty: the program's own data
    struct tape_index *index;
    struct tape_row *rows;
    ptrdiff_t count, capacity;
    struct tape_broken *broken;
    ptrdiff_t broken_count, broken_capacity;
};

// NULL stands for the usual place; tests and `--tapes` give folders of their own. An absent folder
// of recordings, or data without data/tapes, is an empty store and no error.
struct tape_places {
    const char *bundles;  // a folder with index.tsv
    const char *recorded; // a folder with *.tape
};
// Recordings come first: the user's own tape wins over a shipped one.
int tape_store_open(struct arena *a, struct tape_places places, struct tape_store *ret,
                    struct fail *why);
// A store of one tape.
struct tape_store tape_store_of(struct arena *a, const struct tape_entry *entry);
// From 0 to count - 1. Its address stays.
const struct tape_entry *tape_store_at(const struct tape_store *s, ptrdiff_t at);
// The first of the model from *at on (tape_entry_is_model), and in *at the place behind it; NULL:
// there is no more. For all of a model: ptrdiff_t at = 0; while ((e = tape_store_next(s, m, &at)))
const struct tape_entry *tape_store_next(const struct tape_store *s, struct str model,
                                         ptrdiff_t *at);
// Memory used on the way is a few hundred KiB plus the tape itself: a bundle is decompressed only
// as far as the wanted tape.
int tape_store_load(struct arena *a, const struct tape_store *s, const struct tape_entry *e,
                    struct tape *ret, struct fail *why);
// Of an entry that is a template: tape_instantiate makes its tapes.
int tape_store_load_template(struct arena *a, const struct tape_store *s,
                             const struct tape_entry *e, struct tape_template **ret,
                             struct fail *why);

// The model's name or one of its aliases, with or without its "timm:".
bool tape_entry_is_model(const struct tape_entry *e, struct str model);
