// SPDX-License-Identifier: Apache-2.0
// Where templates come from: the bundles shipped with the program (data/templates, embedded). Lists
// what there is and loads one; which of them covers a training is for the caller to decide.
#pragma once

#include "predict/tape/store.h"
#include "predict/tape/template.h"

// A row of data/templates/index.tsv.
struct tape_catalogue_entry {
    struct tape_entry entry; // file, place and header; the header's adapter has R as its rank
    struct str name;         // "llama-qlora-checkpointing"
    struct str family;       // the model_type of a config.json: "llama"
    bool is_grouped;         // several query heads share a key-value head
    bool is_tied;            // embedding and head are one matrix
    bool is_single;          // for batch 1, where some copies vanish
    bool is_fused;           // the optimizer
};
struct tape_catalogue {
    struct tape_catalogue_entry *entries;
    ptrdiff_t count, capacity;
};

// Those of one family, or of all where it is empty: the table has thousands of rows. The folder
// NULL stands for the program's own; a program built without data/templates has none.
int tape_catalogue_open(struct arena *a, const char *folder, struct str family,
                        struct tape_catalogue *ret, struct fail *why);
// An entry of that folder's catalogue.
int tape_catalogue_load(struct arena *a, const char *folder, const struct tape_catalogue_entry *e,
                        struct tape_template **ret, struct fail *why);
