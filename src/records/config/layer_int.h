// SPDX-License-Identifier: Apache-2.0
// Inside of the config room: the other files of a YAML or JSON config, while it is put together.
#pragma once

#include "records/config/tree_int.h"

struct layer_file {
    struct str path, text;
    struct config_node *root;
    struct config_node *whole; // with what it is laid over; NULL: not read yet
    bool is_open;              // what it is laid over is being read
};
struct layers {
    struct arena *arena;
    const struct datum_loader *loader;
    layer_reader *parse;
    struct config *config;
    struct fail *why;
    struct layer_file *files;
    ptrdiff_t file_count, file_capacity;
    int nodes;     // that were made: each file may say everything again
    bool is_deep;  // more maps in one another, or merged into one another, than are followed
    bool composes; // Hydra's groups, any of which may be a list
};

// The file at a path, as it stands, with the place of each node in it. *ret NULL: it is not at
// hand, `because` says why. Fails where it is at hand and cannot be read.
int config_layer_load(struct layers *l, struct str path, struct layer_file **ret,
                      struct str *ret_because);
// What a file that is not at hand might say is not known from here on.
void config_layer_missing(struct layers *l, struct str path, struct str because);
// A map with the pairs of `base` and those of `over` laid on them; neither is changed. NULL: too
// many values. base may be NULL.
struct config_node *config_layer_merge(struct layers *l, struct config_node *base,
                                       struct config_node *over);
struct config_node *config_layer_map(struct layers *l, const struct config_node *at);
// An item of the map; the last with that key counts.
void config_layer_add(struct layers *l, struct config_node *map, struct config_node *key,
                      struct config_node *value);
int config_layer_circle(struct layers *l, struct str from, const struct config_node *at,
                        struct str path);

// A file of DeepSpeed's or accelerate's that the config names is put where its name stands.
int config_layer_beside(struct layers *l, struct config_node **root);
// Hydra's defaults: the groups that they name, in their order, into ret_config->root.
int config_hydra_compose(struct layers *l, const struct config_node *defaults);
