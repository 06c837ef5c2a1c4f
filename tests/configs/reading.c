// SPDX-License-Identifier: Apache-2.0
// What the config room reads in files, one JSON object a line: tests/configs/collected compares it
// with a table of facts. `reading --time FILE` says also how much CPU time one reading takes;
// `reading --whole FILE` reads the files that it names, too, and says what people are told.
#include "base/arena.h"
#include "base/json.h"
#include "base/os.h"
#include "records/config/config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void set_text(json_t *to, const char *key, struct str text) {
    json_object_set_new(to, key, json_text(text));
}

static void add_values(json_t *to, const struct config_reading *r) {
    for (int i = 0; i < CONFIG_ROLES; i++) {
        const struct config_value *v = &r->values[i];
        if (v->type == CONFIG_ABSENT && !v->assumed) continue;
        json_t *value = json_object();
        if (i == CONFIG_PRECISION) set_text(value, "word", v->word);
        if (v->line) set_text(value, "path", v->path);
        if (v->text.len < 400) set_text(value, "text", v->text);
        if (v->integer) json_object_set_new(value, "integer", json_integer(v->integer));
        if (v->type == CONFIG_BOOL || v->boolean)
            json_object_set_new(value, "boolean", json_boolean(v->boolean));
        if (v->unit) json_object_set_new(value, "unit", json_stringn(&v->unit, 1));
        if (v->assumed) json_object_set_new(value, "assumed", json_true());
        json_object_set_new(to, config_role_name((enum config_role)i), value);
    }
}

static void add_guards(json_t *to, const struct config_reading *r) {
    json_t *guards = json_array();
    for (ptrdiff_t i = 0; i < r->guard_count; i++) {
        const struct config_guard *g = &r->guards[i];
        json_t *guard = json_object();
        set_text(guard, "kind", g->kind);
        set_text(guard, "what", g->what);
        set_text(guard, "path", g->path);
        json_array_append_new(guards, guard);
    }
    json_object_set_new(to, "guards", guards);
    if (r->models.count == 0) return;
    json_t *models = json_array();
    for (ptrdiff_t i = 0; i < r->models.count; i++)
        json_array_append_new(models, json_text(r->models.items[i]));
    json_object_set_new(to, "models", models);
}

static int load(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why) {
    (void)self;
    return os_read_file(a, str_z(a, path), CONFIG_MAX_BYTES, ret_text, NULL, why);
}

static void add_warnings(json_t *to, const struct config_reading *r) {
    json_t *warnings = json_array();
    for (ptrdiff_t i = 0; i < r->warnings.count; i++)
        json_array_append_new(warnings, json_text(r->warnings.items[i]));
    json_object_set_new(to, "warnings", warnings);
}

static int read_one(struct arena *a, const char *path, bool is_whole, json_t *ret) {
    static const struct datum_loader loader = {.read = load};
    struct str text;
    struct config c;
    struct config_reading r;
    struct config_batches b;
    struct fail why = {0}, unsaid = {0};
    int rc = os_read_file(a, path, CONFIG_MAX_BYTES, &text, NULL, &why);
    if (rc == 0) rc = config_parse_with(a, str_of(path), text, is_whole ? &loader : NULL, &c, &why);
    if (rc == 0) rc = config_read_roles(a, &c, NULL, &r, &why);
    if (rc < 0) {
        set_text(ret, "error", str_of(why.message));
        return rc;
    }
    set_text(ret, "dialect", r.dialect);
    if (r.inference.len) set_text(ret, "inference", r.inference);
    if (r.refusal.len) set_text(ret, "refusal", r.refusal);
    if (config_batches(a, &r, 0, &b, &unsaid) == 0) {
        json_object_set_new(ret, "micro", json_integer(b.micro));
        json_object_set_new(ret, "steps", json_integer(b.accumulation));
        json_object_set_new(ret, "effective_batch", json_integer(b.effective));
    } else {
        set_text(ret, "unsaid", str_of(unsaid.message));
    }
    add_values(ret, &r);
    add_guards(ret, &r);
    if (is_whole) add_warnings(ret, &r);
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    const bool timed = argc > 1 && strcmp(argv[1], "--time") == 0;
    const bool whole = argc > 1 && strcmp(argv[1], "--whole") == 0;
    for (int i = timed || whole ? 2 : 1; i < argc; i++) {
        ARENA_AUTO a = {0};
        const double start = now();
        json_t *one = json_object();
        read_one(&a, argv[i], whole, one);
        json_object_set_new(one, "file", json_string(argv[i]));
        if (timed) json_object_set_new(one, "ms", json_real((now() - start) * 1e3));
        json_dumpf(one, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(one);
    }
    return 0;
}
