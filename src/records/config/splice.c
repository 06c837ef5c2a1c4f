// SPDX-License-Identifier: Apache-2.0
// What the ways to edit a config share: the bytes that are replaced, what is said of them, and the
// value that is wanted.
#include "records/config/patch_int.h"

void config_patch_splice(struct patch *p, ptrdiff_t begin, ptrdiff_t end, struct str bytes) {
    struct splice s = {begin, end, bytes, p->splice_count};
    *arena_push(p->arena, &p->splices, &p->splice_count, &p->splice_capacity) = s;
}

void config_patch_change(struct patch *p, int line, struct str path, struct str old,
                         struct str new) {
    str_list_format(p->arena, &p->result.changes, "%.*s:%d: %.*s: %.*s -> %.*s",
                    STR_ARG(p->config->name), line, STR_ARG(path), STR_ARG(old), STR_ARG(new));
}

bool config_patch_same_value(struct scalar old, struct str old_text, struct scalar new,
                             struct str new_text) {
    // "no" in quotes is text, but text that the trainer takes for a boolean.
    if (new.type == CONFIG_BOOL && old.type == CONFIG_TEXT) old = config_scalar_plain(old_text);
    const bool old_number = old.type == CONFIG_INT || old.type == CONFIG_FLOAT;
    const bool new_number = new.type == CONFIG_INT || new.type == CONFIG_FLOAT;
    if (old_number && new_number) return old.number == new.number;
    if (old.type == CONFIG_BOOL && new.type == CONFIG_BOOL) return old.boolean == new.boolean;
    return str_equal(old_text, new_text);
}

struct scalar config_patch_wanted(const struct config_edit *e) {
    struct scalar s = config_scalar_plain(e->value);
    if (e->is_text) s = (struct scalar){.type = CONFIG_TEXT};
    return s;
}

// Text that stands on its own in the file: in quotes where it would mean something else without.
struct str config_patch_quoted(struct patch *p, const struct config_edit *e, struct str text) {
    const bool is_text = config_patch_wanted(e).type == CONFIG_TEXT;
    const bool json = p->config->format == CONFIG_JSON;
    if (is_text && (json || config_scalar_needs_quotes(text))) {
        return str_format(p->arena, "\"%.*s\"", STR_ARG(text));
    }
    return text;
}
