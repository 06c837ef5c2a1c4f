// SPDX-License-Identifier: Apache-2.0
// The reading of a whole file: its dialect, all roles, and what people should know beside them.
#include "records/config/dialect_int.h"

#include "base/near.h"
#include "base/shell.h"

// --- What people should know ---------------------------------------------------------------------

static void note_evaluation(struct reader *r) {
    static const char *const any[] = {"batch_size", "batch_size_per_card", NULL};
    static const char *const own[] = {"per_device_eval_batch_size",
                                      "eval_batch_size",
                                      "val_batch_size",
                                      "test_batch_size",
                                      "valid_batch_size",
                                      NULL};
    const struct config_value *batch = &r->reading->values[CONFIG_BATCH];
    int noted = 0;
    for (ptrdiff_t i = 0; i < r->scope.count && noted < 3; i++) {
        const struct entry *e = &r->scope.entries[i];
        const bool evaluates =
            str_is_one_of(e->key->text, own) || (e->evaluation && str_is_one_of(e->key->text, any));
        if (!evaluates || !config_scope_holds(&r->scope, e)) continue;
        if (e->value->kind != NODE_SCALAR || e->value->line == batch->line) continue;
        struct str path = config_path_join(r->arena, e->path, e->key->text);
        const struct str place = config_node_place(r->arena, r->config, e->key);
        config_reader_warn(r, "%.*s = %.*s (%.*s) " CONFIG_EVAL_STAYS, STR_ARG(path),
                           STR_ARG(e->value->text), STR_ARG(place));
        noted++;
    }
}

static void note_keys(struct reader *r, bool has_deepspeed) {
    static const struct {
        const char *pattern, *text;
        bool needs_true;
    } keys[] = {
        {"**.auto_find_batch_size",
         "the trainer lowers the batch by itself when memory runs out: the effective batch is then "
         "not what the config says",
         true},
        {"**.auto_scale_batch_size",
         "the trainer searches for the batch by itself: the effective batch is then not what the "
         "config says",
         false},
        {"elasticity.enabled", "DeepSpeed chooses the batch by itself, by the number of GPUs",
         true},
        {"@.deepspeed.elasticity.enabled",
         "DeepSpeed chooses the batch by itself, by the number of GPUs", true},
        {"**.sample_packing",
         "every row is padded to the sequence length: memory is at its worst in every step", true},
        {"@.deepspeed", "the batch sizes in that file must match, or be \"auto\"", false},
        {"batch-size", "timm accepts keys with a dash but ignores them: use batch_size", false},
        {"hydra.searchpath", "Hydra looks for groups there, too: those are not read", false},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct matches m = {0};
        config_scope_find(&r->scope, str_of(keys[i].pattern), &m);
        if (m.count == 0 || (has_deepspeed && str_is(str_of(keys[i].pattern), "@.deepspeed")))
            continue;
        const struct config_node *n = config_node_follow(m.items[0].place.value);
        const struct scalar s = config_scalar_read(r->config, n);
        if (s.type == CONFIG_NULL || (s.type == CONFIG_BOOL && !s.boolean) ||
            (keys[i].needs_true && s.type != CONFIG_BOOL))
            continue;
        const struct str place = config_node_place(r->arena, r->config, m.items[0].place.value);
        config_reader_warn(r, "%.*s: %.*s: %s", STR_ARG(place), STR_ARG(m.items[0].path),
                           keys[i].text);
        struct str *refusal = &r->reading->values[CONFIG_BATCH].refusal;
        if (i < 4 && !refusal->len) {
            *refusal = str_format(r->arena, "%.*s: %s (--force-special writes a batch anyway)",
                                  STR_ARG(m.items[0].path), keys[i].text);
        }
    }
}

static void note_quoted_deepspeed(struct reader *r) {
    static const enum config_role counts[] = {CONFIG_BATCH, CONFIG_ACCUMULATION, CONFIG_EFFECTIVE};
    if (!str_is(r->dialect->rule, "deepspeed")) return;
    for (int i = 0; i < 3; i++) {
        struct config_value *v = &r->reading->values[counts[i]];
        if (v->type != CONFIG_INT || v->line == 0) continue;
        struct steps steps;
        if (config_path_parse(r->arena, v->path, &steps, NULL)) continue;
        const struct place p = config_place_find(r->config, &steps);
        if (!p.value ||
            config_scalar_read(r->config, config_node_follow(p.value)).odd != ODD_QUOTED)
            continue;
        v->refusal = str_format(r->arena,
                                "line %d: \"%.*s\" in quotes is not %.*s when the Trainer compares "
                                "them: remove the quotes first",
                                v->line, STR_ARG(v->text), STR_ARG(v->text));
    }
}

static bool is_hydra(const struct reader *r) {
    if (r->config->format > CONFIG_JSON) return false;
    if (str_find(r->config->text, STR("# @package")) >= 0) return true;
    for (ptrdiff_t i = 0; i < r->scope.count; i++) {
        const struct entry *e = &r->scope.entries[i];
        // MONAI's bundles are JSON with such keys, too.
        if (r->config->format == CONFIG_YAML && str_is(e->key->text, "_target_")) return true;
        if (e->path.len == 0 && str_is(e->key->text, "defaults") && e->value->kind == NODE_LIST)
            return true;
        if (e->value->kind == NODE_SCALAR && str_find(e->value->text, STR("${")) >= 0) return true;
    }
    return false;
}

static void note_origins(struct reader *r) {
    for (int i = 0; i < CONFIG_ROLES; i++) {
        const struct config_value *v = &r->reading->values[i];
        if (v->file.len == 0 || v->type == CONFIG_SPECIAL || v->assumed) continue;
        if (i == CONFIG_PREFERENCE) continue; // a name that may say it
        str_list_add(r->arena, &r->others,
                     str_format(r->arena, "%s %.*s (%.*s:%d)",
                                config_role_name((enum config_role)i), STR_ARG(v->text),
                                STR_ARG(v->file), v->line));
    }
    struct str_list *to = &r->reading->warnings;
    if (r->unknown.count > 0) {
        str_list_add(r->arena, to,
                     str_format(r->arena, "not a plain value, so not read: %.*s",
                                STR_ARG(str_list_text(r->arena, &r->unknown))));
    }
    if (r->unread.count > 0) {
        str_list_add(r->arena, to,
                     str_format(r->arena,
                                "may be in what was not read, so nothing is assumed: %.*s",
                                STR_ARG(str_list_text(r->arena, &r->unread))));
    }
    if (r->others.count > 0) {
        str_list_add(r->arena, to,
                     str_format(r->arena, "from other files: %.*s",
                                STR_ARG(str_list_text(r->arena, &r->others))));
    }
}

// --- Several files, models, devices --------------------------------------------------------------

static void find_bases(struct reader *r, const struct dialect *every) {
    // They are followed, where somebody reads them for us.
    const bool is_followed = r->config->format == CONFIG_PYTHON || r->config->is_layered;
    r->inherits = r->config->is_partial;
    struct str keys = every && !is_followed ? every->inherit : (struct str){0};
    while (keys.len > 0 && !r->inherits) {
        struct matches m = {0};
        const struct str key = str_cut(&keys, ' ');
        config_scope_find(&r->scope, key, &m);
        if (m.count == 0) continue;
        const struct config_node *n = config_node_follow(m.items[0].place.value);
        if (n->kind == NODE_LIST ? n->count == 0 || !config_node_follow(n->items[0])->text.len
                                 : n->text.len == 0)
            continue;
        r->inherits = true;
        config_reader_warn(r,
                           "line %d: %.*s names other files, which are not read: what this file "
                           "leaves out is not known",
                           m.items[0].place.value->line, STR_ARG(key));
    }
}

// The number at a path; 1 when it is not there, 0 when it is no number.
static int64_t factor(struct reader *r, struct str path) {
    struct matches m = {0};
    config_scope_find(&r->scope, path, &m);
    if (m.count == 0) return 1;
    const struct config_node *n = config_node_follow(m.items[0].place.value);
    if (n->kind == NODE_LIST) return n->count;
    const struct scalar s = config_scalar_read(r->config, n);
    return s.type == CONFIG_NULL ? 1 : s.type == CONFIG_INT && s.integer > 0 ? s.integer : 0;
}

// "trainer.devices*trainer.num_nodes/model.tensor_model_parallel_size": data-parallel devices are
// those that are left when the others share a model.
static void count_ranks(struct reader *r) {
    struct config_value *v = &r->reading->values[CONFIG_RANKS];
    struct str rest = r->dialect->ranks_of;
    if (rest.len == 0 || v->type != CONFIG_INT) return;
    int64_t above = 1, below = 1;
    for (char sign = '*'; rest.len > 0;) {
        ptrdiff_t end = 0;
        while (end < rest.len && !(rest.p[end] == '*' || rest.p[end] == '/')) end++;
        const int64_t value = factor(r, str_slice(rest, 0, end));
        int64_t *to = sign == '*' ? &above : &below;
        if (__builtin_mul_overflow(*to, value, to)) *to = 0;
        sign = end < rest.len ? rest.p[end] : '*';
        rest = str_slice(rest, end + (end < rest.len), rest.len);
    }
    v->integer = below > 0 ? above / below : 0;
    if (v->integer < 1) v->integer = above > 0 && below > 0 ? 1 : 0;
    v->number = (double)v->integer;
    if (v->integer < 1) v->type = CONFIG_SPECIAL;
}

static void note_sweep(struct reader *r) {
    const struct config_value *v = &r->reading->values[CONFIG_BATCH];
    r->reading->is_sweep = v->integer > 0;
    if (v->integer > 0)
        config_reader_warn(r, "line %d: of %.*s the largest, %lld, must fit", v->line,
                           STR_ARG(v->path), (long long)v->integer);
}

// --- The reading ---------------------------------------------------------------------------------

static const struct dialect *dialect_named(const struct dialects *all, struct str id) {
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (str_equal(all->items[i].id, id)) return &all->items[i];
    }
    return NULL;
}

static int unknown_dialect(struct reader *r, const struct dialects *all) {
    struct near near = {.typed = r->options->dialect};
    for (ptrdiff_t i = 0; i < all->count; i++) {
        if (all->items[i].editable) near_offer(&near, all->items[i].id);
    }
    struct str names = near_text(r->arena, &near);
    fail_set(r->why, FAIL_USAGE, "no dialect '%.*s'", STR_ARG(r->options->dialect));
    return names.len ? fail_hint(r->why, "did you mean %.*s?", STR_ARG(names))
                     : fail_hint(r->why, "batchfit list dialects lists them");
}

static int open_section(struct reader *r) {
    const struct str section = r->options->section;
    struct config_value v;
    if (!section.len) return 0;
    struct steps steps;
    int status = config_path_parse(r->arena, section, &steps, r->why);
    if (status) return status;
    struct place p = config_place_find(r->config, &steps);
    v = config_value_of(r->arena, r->config, &p, section);
    if (p.value && config_node_follow(p.value)->kind == NODE_MAP) {
        r->scope.root = config_node_follow(p.value);
        r->scope.prefix = section;
        return 0;
    }
    struct near near = {.typed = section};
    for (ptrdiff_t i = 0; i < r->scope.count; i++) {
        if (r->scope.entries[i].path.len == 0) near_offer(&near, r->scope.entries[i].key->text);
    }
    struct str names = near_text(r->arena, &near);
    fail_set(r->why, FAIL_USAGE, "%.*s: %s section '%.*s'", STR_ARG(r->config->name),
             v.line ? "not a" : "there is no", STR_ARG(section));
    return names.len ? fail_hint(r->why, "did you mean %.*s?", STR_ARG(names))
                     : fail_hint(r->why, "name a key of the top level");
}

static int find_dialect(struct reader *r, const struct dialects *all) {
    struct config_reading *to = r->reading;
    if (r->options->dialect.len) {
        r->dialect = dialect_named(all, r->options->dialect);
        if (!r->dialect || !r->dialect->detect.len) return unknown_dialect(r, all);
        to->because = STR("--dialect");
    } else {
        r->dialect = config_dialect_detect(&r->scope, all, &to->because);
        // In a file of several runs the whole may be recognised by what the section lacks.
        if (!r->dialect && r->scope.prefix.len) {
            struct scope whole = r->scope;
            whole.root = r->config->root;
            whole.prefix = (struct str){0};
            r->dialect = config_dialect_detect(&whole, all, &to->because);
        }
        if (!r->dialect && r->options->keys[CONFIG_BATCH].len)
            r->dialect = dialect_named(all, STR("sections"));
    }
    return 0;
}

static void not_recognised(struct reader *r) {
    static const char *const keys[] = {"batch_size", "per_device_train_batch_size",
                                       "micro_batch_size", NULL};
    struct config_reading *to = r->reading;
    to->dialect = STR("none");
    to->title = STR("not a known config");
    to->refusal = STR("no key is a known trainer's batch size; name it with --key batch=PATH");
    for (int i = 0; keys[i]; i++) {
        if (str_find(r->config->text, str_of(keys[i])) < 0) continue;
        struct str hint = config_bytes_hint(r->arena, r->config->text, str_of(keys[i]));
        if (hint.len) config_reader_warn(r, "%.*s", STR_ARG(hint));
    }
    int noted = 0;
    for (ptrdiff_t i = 0; i < r->scope.count && noted < 3; i++) {
        const struct entry *e = &r->scope.entries[i];
        if (!str_is(e->key->text, "batch_size") && !str_is(e->key->text, "train_batch_size"))
            continue;
        struct str path = config_path_join(r->arena, e->path, e->key->text);
        const struct config_node *value = config_node_follow(e->value);
        if (noted == 0 && value && (value->kind == NODE_LIST || value->kind == NODE_MAP)) {
            to->refusal =
                str_format(r->arena, "%.*s:%d:%d: %.*s is a list or a map, expected one number",
                           STR_ARG(r->config->name), value->line, value->column, STR_ARG(path));
        }
        config_reader_warn(r, "line %d: is it %.*s? then use --key batch=%.*s", e->key->line,
                           STR_ARG(path), STR_ARG(shell_word(r->arena, path)));
        noted++;
    }
    to->hydra = r->config->root && is_hydra(r);
    if (to->hydra)
        config_reader_warn(r, "Hydra: the batch size may be in another file of the tree; "
                              "data.batch_size=N on the command line overrides it");
}

// A file without training. Who names the dialect says that it is one.
static void find_inference(struct reader *r, const struct dialect *d) {
    struct str terms;
    for (ptrdiff_t i = 0; d && i < d->inference_count; i++) {
        if (r->options->dialect.len || r->reading->inference.len) return;
        if (config_scope_is(&r->scope, d->inferences[i].when, &terms))
            r->reading->inference = d->inferences[i].why;
    }
}

static const char *const not_edited[] = {
    [CONFIG_PYTHON] = "a Python config is read, not edited",
    [CONFIG_TOML] = "a TOML config is read, not edited",
    [CONFIG_SHELL] = "a script's command line is read, not edited",
    [CONFIG_FOREIGN] = NULL,
};

static void judge(struct reader *r) {
    struct config_reading *to = r->reading;
    const struct dialect *d = r->dialect;
    to->dialect = d->id;
    to->origin = d;
    to->title = d->title;
    const char *foreign = not_edited[r->config->format];
    to->editable = d->editable && !d->refuse.len && !foreign;
    to->refusal = d->refuse.len || !foreign ? d->refuse : str_of(foreign);
    to->unnamed = d->unnamed;
    to->several = (struct config_guard){STR("sharding"), d->several, .path = d->several_where};
    to->stops = d->stops && !r->options->dialect.len;
    struct matches record = {0};
    if (d->record.len && !r->options->dialect.len) config_scope_find(&r->scope, d->record, &record);
    if (record.count && config_node_follow(record.items[0].place.value)->text.len &&
        config_scalar_read(r->config, config_node_follow(record.items[0].place.value)).type ==
            CONFIG_TEXT) {
        to->editable = false;
        to->refusal = str_format(
            r->arena, "the record of a finished run (it has %.*s); --dialect %.*s edits it anyway",
            STR_ARG(d->record), STR_ARG(d->id));
    }
    if (to->editable && r->config->unwritable.len) {
        to->editable = false;
        to->refusal = r->config->unwritable;
    }
    if (d->note.len) config_reader_warn(r, "%.*s", STR_ARG(d->note));
}

static int check_repeated(struct reader *r) {
    const struct config_repeated *twice = r->config->repeated;
    if (!twice) return 0;
    if (r->dialect && r->dialect->is_strict) return config_refuse_repeated(r->config, r->why);
    config_reader_warn(r,
                       "line %d: %.*s appears twice (first in line %d): PyYAML and json take the "
                       "last one, OmegaConf refuses the file",
                       twice->line, STR_ARG(twice->key), twice->first);
    return 0;
}

static void note_readers(struct reader *r) {
    struct str refused = r->config->unwritable;
    if (refused.len == 0) refused = config_pyyaml_refuses(r->arena, r->config);
    if (refused.len > 0) config_reader_warn(r, "%.*s", STR_ARG(refused));
    for (ptrdiff_t i = 0; i < r->config->notes.count; i++)
        str_list_add(r->arena, &r->reading->warnings, r->config->notes.items[i]);
}

static void note_all(struct reader *r, const struct dialect *every) {
    config_reader_launcher(r);
    config_reader_allocator(r);
    config_reader_script(r);
    config_reader_sharing(r);
    config_reader_split(r);
    config_reader_selective(r);
    note_quoted_deepspeed(r);
    note_keys(r, config_reader_deepspeed(r));
    config_reader_counts(r);
    config_reader_both_types(r);
    config_reader_unaccumulated(r);
    note_evaluation(r);
    if (r->dialect->roles[CONFIG_BATCH].places.len > 0 && !str_is(r->dialect->rule, "largest"))
        config_reader_maybe(r, every);
    note_origins(r);
    r->reading->hydra = is_hydra(r);
    if (r->reading->hydra) {
        const bool is_whole = r->config->is_composed && !r->config->is_partial;
        config_reader_warn(
            r, "Hydra or OmegaConf: %s the command line (KEY=VALUE) override%s this file",
            is_whole ? "beyond the groups of its defaults," : "other files and",
            is_whole ? "s" : "");
    }
}

static int read_others(struct reader *r) {
    int status = 0;
    for (int i = 0; i < CONFIG_ROLES && !status; i++) {
        if (i != CONFIG_BATCH) status = config_reader_role(r, (enum config_role)i);
    }
    return status;
}

// Whoever answers for a program of which nothing is known answers another question.
static void note_unread(struct reader *r) {
    if (r->reading->guard_count > 0) return;
    for (int i = 0; i < CONFIG_ROLES; i++) {
        const struct config_value *v = &r->reading->values[i];
        if (v->type != CONFIG_ABSENT && !v->assumed) return;
    }
    config_add_guard(r->arena, r->reading,
                     (struct config_guard){.kind = STR("settings"),
                                           .what = STR("what the file says"),
                                           .path = r->config->name,
                                           .value = STR("nothing of it is read"),
                                           .traits = CONFIG_UNREAD});
}

int config_read_roles(struct arena *a, const struct config *c, const struct config_options *options,
                      struct config_reading *ret_reading, struct fail *why) {
    static const struct config_options none;
    struct fail unheard;
    struct config_reading reading = {.name = c->name, .format = c->format};
    struct dialects all;
    struct reader r = {.arena = a,
                       .config = c,
                       .options = options ? options : &none,
                       .reading = &reading,
                       .why = why ? why : &unheard};
    int status = 0;
    if (c->dialects)
        all = *c->dialects;
    else
        status = config_dialects_load(a, &all, r.why);
    if (status) return status;
    config_scope_open(a, c, &r.scope);
    status = open_section(&r);
    if (!status) status = find_dialect(&r, &all);
    if (status) return status;
    const struct dialect *every = dialect_named(&all, STR("*"));
    const bool is_known = r.dialect != NULL;
    // What an unknown file says (model, image size, precision) stands where teams put it.
    if (!is_known) r.dialect = dialect_named(&all, STR("sections"));
    status = check_repeated(&r);
    if (status) return status;
    find_bases(&r, every);
    find_inference(&r, r.dialect);
    find_inference(&r, every);
    config_reader_guards(&r, every);
    note_readers(&r);
    if (!is_known) {
        not_recognised(&r);
        if (c->root && r.dialect) status = read_others(&r);
        if (c->root && r.dialect && !status) {
            config_reader_model(&r, every);
            config_reader_maybe(&r, every);
        }
        if (!status) *ret_reading = reading;
        return status;
    }
    judge(&r);
    if (c->root) {
        status = config_reader_batch(&r);
        const struct str batch = reading.values[CONFIG_BATCH].path;
        if (str_find(reading.because, STR("of{")) >= 0 && batch.len) reading.because = batch;
        if (!status) status = read_others(&r);
        if (!status && str_is(r.dialect->rule, "largest")) note_sweep(&r);
        if (!status) config_reader_model(&r, every);
        if (!status) count_ranks(&r);
        if (!status) note_all(&r, every);
    }
    if (str_is(r.dialect->id, "foreign")) note_unread(&r);
    if (!status) *ret_reading = reading;
    return status;
}

struct scope config_reading_scope(struct arena *a, const struct config *c,
                                  const struct config_reading *r) {
    struct scope s;
    config_scope_open(a, c, &s);
    s.home = r->section;
    return s;
}
