// SPDX-License-Identifier: Apache-2.0
// What starts the training of a shell script says how many processes there are: by its own flags,
// or by a file of accelerate's that it names (beside.c puts that in its place). And what the script
// that it starts takes where no flag says it, and the allocator's settings among its variables.
#include "records/config/dialect_int.h"

static const struct count {
    const char *processes, *machines; // NULL: they are counted over all machines
} counts[] = {
    {"num_processes", NULL},             // accelerate launch
    {"nproc_per_node", "nnodes"},        // torchrun
    {"num_gpus", "num_nodes"},           // deepspeed
    {"ntasks", NULL},                    // srun
    {"ntasks_per_node", "nodes"},        // srun
    {"config_file.num_processes", NULL}, // accelerate launch --config_file
};

static struct place find(struct reader *r, const char *key, struct str *ret_path) {
    struct steps steps;
    struct place p = {0};
    const struct str section = r->scope.prefix; // of several commands one
    *ret_path =
        str_format(r->arena, "%.*s%slauncher.%s", STR_ARG(section), section.len ? "." : "", key);
    if (!config_path_parse(r->arena, *ret_path, &steps, NULL))
        p = config_place_find(r->config, &steps);
    return p;
}

// The number at a key; 0: it is none that is written down.
static int64_t number(const struct reader *r, const struct place *p) {
    const struct config_node *n = config_node_follow(p->value);
    const struct scalar s = config_scalar_read(r->config, n);
    return n->style != STYLE_UNKNOWN && s.type == CONFIG_INT && s.integer > 0 ? s.integer : 0;
}

static bool take(struct reader *r, const struct count *c) {
    struct config_value *v = &r->reading->values[CONFIG_RANKS];
    struct str path, unused;
    const struct place p = find(r, c->processes, &path);
    if (!p.value) return false;
    const struct place m = c->machines ? find(r, c->machines, &unused) : (struct place){0};
    const int64_t machines = m.value ? number(r, &m) : 1;
    *v = config_value_of(r->arena, r->config, &p, path);
    v->type = CONFIG_INT;
    if (__builtin_mul_overflow(number(r, &p), machines, &v->integer)) v->integer = 0;
    v->number = (double)v->integer;
    if (v->integer > 0) return true;
    v->type = CONFIG_SPECIAL;
    if (number(r, &p) > 0)
        v->text = str_format(r->arena, "%.*s on %.*s machines", STR_ARG(v->text),
                             STR_ARG(config_node_follow(m.value)->text));
    config_reader_unknown(r, CONFIG_RANKS, v);
    return true;
}

// transformers 5.23.0, examples/pytorch, DataTrainingArguments of the scripts; those without a
// Trainer take the same.
static const struct {
    const char *script;
    enum config_role role;
    int64_t tokens;
} lengths[] = {{"run_summarization", CONFIG_SEQUENCE_LENGTH, 1024},
               {"run_summarization", CONFIG_TARGET_LENGTH, 128},
               {"run_translation", CONFIG_SEQUENCE_LENGTH, 1024},
               {"run_translation", CONFIG_TARGET_LENGTH, 128}};

void config_reader_script(struct reader *r) {
    struct str path;
    const struct place p = find(r, "script", &path);
    if (!p.value || r->inherits || !str_is(r->dialect->id, "huggingface")) return;
    const struct str script = config_node_follow(p.value)->text;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct config_value *v = &r->reading->values[lengths[i].role];
        if (v->type != CONFIG_ABSENT || v->assumed ||
            str_find(script, str_of(lengths[i].script)) < 0)
            continue;
        v->assumed = true;
        v->file = script;
        v->integer = lengths[i].tokens;
        v->number = (double)v->integer;
        v->text = str_format(r->arena, "%lld", (long long)v->integer);
    }
}

void config_reader_allocator(struct reader *r) {
    struct str path;
    const struct place p = find(r, "alloc_conf", &path);
    if (p.value) r->reading->alloc_conf = config_value_of(r->arena, r->config, &p, path);
}

void config_reader_launcher(struct reader *r) {
    struct str path;
    const struct config_value *v = &r->reading->values[CONFIG_RANKS];
    if (v->line > 0 && v->type == CONFIG_SPECIAL && r->config->format <= CONFIG_JSON) {
        config_reader_warn(r,
                           "line %d: %.*s = %.*s: how many GPUs is not known: counted as one "
                           "(--ranks N)",
                           v->line, STR_ARG(v->path), STR_ARG(v->text));
    }
    if (r->config->format != CONFIG_SHELL || v->line > 0) return;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (take(r, &counts[i])) return;
    }
    const struct place p = find(r, "started_by", &path);
    if (!p.value) return;
    const struct config_node *n = config_node_follow(p.value);
    config_reader_warn(r,
                       "line %d: how many processes %.*s starts is not said there: counted as one "
                       "(--ranks N)",
                       n->line, STR_ARG(n->text));
}
