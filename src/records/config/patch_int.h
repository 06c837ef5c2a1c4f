// SPDX-License-Identifier: Apache-2.0
// Inside of the config room: what the files of the patcher (patch.c, insert.c, verify.c) share.
#pragma once

#include "records/config/tree_int.h"

struct splice {
    ptrdiff_t begin, end;
    struct str bytes;
    ptrdiff_t order; // among those at the same place
};
// A node that may differ afterwards, and must say what its edit says.
struct target {
    const struct config_node *node;
    const struct config_edit *edit;
};
// A pair that the map has afterwards and had not before.
struct insertion {
    const struct config_node *map;
    struct str key;
    const struct config_edit *edit;
};

struct patch {
    struct arena *arena;
    const struct config *config;
    struct fail *why;
    unsigned flags;
    struct splice *splices;
    ptrdiff_t splice_count, splice_capacity;
    struct target *targets;
    ptrdiff_t target_count, target_capacity;
    struct insertion *insertions;
    ptrdiff_t insertion_count, insertion_capacity;
    struct config_patched result;
};

// insert.c: puts the pair into the map, behind the edit's sibling or the last pair.
int config_patch_insert(struct patch *p, struct config_node *map, struct str key,
                        const struct config_edit *e);
// verify.c: parses the result and compares it with the original.
int config_patch_verify(struct patch *p);

bool config_patch_same_value(struct scalar old, struct str old_text, struct scalar new,
                             struct str new_text);
void config_patch_splice(struct patch *p, ptrdiff_t begin, ptrdiff_t end, struct str bytes);
void config_patch_change(struct patch *p, int line, struct str path, struct str old,
                         struct str new);
struct scalar config_patch_wanted(const struct config_edit *e);
// The value as it stands on its own in the file: in quotes where it would mean something else
// without.
struct str config_patch_quoted(struct patch *p, const struct config_edit *e, struct str text);
