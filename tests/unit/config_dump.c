// SPDX-License-Identifier: Apache-2.0
// Prints what is read of each config, a JSON document a line, for tests that compare it with what
// another reader makes of the file (tests/configs_foreign.py). Values that only the program knows
// are {"?": TEXT}, a map of which not all is known has the key "?".
#include "base/os.h"
#include "records/config/tree_int.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *text_of(struct str s) {
    json_t *v = json_stringn(s.p ? s.p : "", (size_t)s.len);
    return v ? v : json_string("not UTF-8");
}

static json_t *scalar(const struct config *c, const struct config_node *n) {
    const struct scalar s = config_scalar_read(c, n);
    if (n->style == STYLE_UNKNOWN) return json_pack("{s:o}", "?", text_of(n->text));
    if (n->style == STYLE_SINGLE) return text_of(n->text);
    switch (s.type) {
    case CONFIG_INT:
        return json_integer(s.integer);
    case CONFIG_FLOAT:
        return json_real(s.number);
    case CONFIG_BOOL:
        return json_boolean(s.boolean);
    case CONFIG_NULL:
        return json_null();
    default:
        return text_of(n->text);
    }
}

static json_t *tree(const struct config *c, struct config_node *node) {
    const struct config_node *n = config_node_follow(node);
    json_t *v;
    if (n->kind == NODE_SCALAR) return scalar(c, n);
    if (n->kind == NODE_LIST) {
        v = json_array();
        for (int i = 0; i < n->count; i++) json_array_append_new(v, tree(c, n->items[i]));
        return v;
    }
    v = json_object();
    for (int i = 0; i + 1 < n->count; i += 2) {
        json_object_setn_new(v, n->items[i]->text.p, (size_t)n->items[i]->text.len,
                             tree(c, n->items[i + 1]));
    }
    if (n->style == STYLE_UNKNOWN) json_object_set_new(v, "?", json_true());
    return v;
}

static json_t *texts(const struct str_list *list) {
    json_t *v = json_array();
    for (ptrdiff_t i = 0; i < list->count; i++) json_array_append_new(v, text_of(list->items[i]));
    return v;
}

static int load(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why) {
    (void)self;
    return os_read_file(a, str_z(a, path), CONFIG_MAX_BYTES, ret_text, NULL, why);
}

// What the roles come to, for a look at many files.
static json_t *roles(struct arena *a, const struct config *c) {
    struct config_reading r;
    struct fail why = {0};
    if (config_read_roles(a, c, NULL, &r, &why)) return json_string(why.message);
    json_t *v = json_pack("{s:o}", "dialect", text_of(r.dialect));
    for (int i = 0; i < CONFIG_ROLES; i++) {
        const struct config_value *value = &r.values[i];
        if (value->line == 0 && !value->assumed) continue;
        json_object_set_new(v, config_role_name((enum config_role)i),
                            json_pack("[o,i,o,b]", text_of(value->text), value->line,
                                      text_of(value->path), value->assumed));
    }
    json_object_set_new(v, "warnings", texts(&r.warnings));
    return v;
}

static void print(const char *name) {
    ARENA_AUTO a = {0};
    struct str text;
    struct fail why = {0};
    struct config c = {0};
    const struct datum_loader loader = {.read = load};
    json_t *document = json_pack("{s:s}", "file", name);
    int status = os_read_file(&a, name, CONFIG_MAX_BYTES, &text, NULL, &why);
    if (!status) status = config_parse_with(&a, str_of(name), text, &loader, &c, &why);
    if (status) {
        json_object_set_new(document, "error", json_string(why.message));
    } else {
        json_object_set_new(document, "tree", c.root ? tree(&c, c.root) : json_null());
        json_object_set_new(document, "notes", texts(&c.notes));
        json_object_set_new(document, "files", texts(&c.files));
        json_object_set_new(document, "roles", roles(&a, &c));
    }
    char *line = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(17));
    printf("%s\n", line ? line : "{}");
    free(line);
    json_decref(document);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) print(argv[i]);
    return 0;
}
