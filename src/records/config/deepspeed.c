// SPDX-License-Identifier: Apache-2.0
// A trainer's config and the DeepSpeed file beside it. Where the file says "auto" the trainer's
// figure counts; another figure than the trainer's makes it stop, and one that is the same would
// be another after an edit of the trainer's alone.
#include "records/config/dialect_int.h"

static const struct pair {
    const char *key;
    enum config_role role;
} pairs[] = {
    {"train_micro_batch_size_per_gpu", CONFIG_BATCH},
    {"gradient_accumulation_steps", CONFIG_ACCUMULATION},
};
static const char *const switches[][2] = {{"bf16", "bf16"}, {"fp16", "fp16"}};

static struct config_node *item(struct config_node *map, const char *key) {
    struct config_node *n =
        map->kind == NODE_MAP ? config_map_find(map, str_of(key), true).value : NULL;
    return n ? config_node_follow(n) : NULL;
}

static void refuse(struct reader *r, const char *text, struct str place) {
    static const enum config_role counts[] = {CONFIG_BATCH, CONFIG_ACCUMULATION};
    for (int i = 0; i < 2; i++) {
        struct config_value *v = &r->reading->values[counts[i]];
        if (v->refusal.len == 0)
            v->refusal = str_format(r->arena, "%.*s: %s", STR_ARG(place), text);
    }
}

static void compare_number(struct reader *r, struct config_node *file, const struct pair *p) {
    struct config_node *n = item(file, p->key);
    const struct config_value *v = &r->reading->values[p->role];
    if (!n || config_scalar_read(r->config, n).type != CONFIG_INT || v->text.len == 0) return;
    const int64_t theirs = config_scalar_read(r->config, n).integer;
    const struct str place = config_node_place(r->arena, r->config, n);
    if (theirs == v->integer) {
        refuse(r, "that file has the figure, too, and is not written: set it to \"auto\" there",
               place);
        return;
    }
    config_reader_refuse(r,
                         "%.*s: %s = %lld, but %s is %.*s%s: the trainer refuses the combination",
                         STR_ARG(place), p->key, (long long)theirs, config_role_name(p->role),
                         STR_ARG(v->text), v->assumed ? " by default" : "");
    refuse(r, "another figure than the trainer's: correct one of the two first", place);
}

static void compare_total(struct reader *r, struct config_node *file) {
    struct config_node *n = item(file, "train_batch_size");
    const int64_t micro = r->reading->values[CONFIG_BATCH].integer,
                  steps = r->reading->values[CONFIG_ACCUMULATION].integer;
    if (!n || config_scalar_read(r->config, n).type != CONFIG_INT) return;
    const int64_t total = config_scalar_read(r->config, n).integer;
    const struct str place = config_node_place(r->arena, r->config, n);
    int64_t step;
    if (micro > 0 && steps > 0 && !__builtin_mul_overflow(micro, steps, &step) && total % step) {
        config_reader_refuse(r,
                             "%.*s: train_batch_size = %lld is no multiple of %lld x %lld: the "
                             "trainer refuses the combination",
                             STR_ARG(place), (long long)total, (long long)micro, (long long)steps);
    }
    refuse(r, "that file has the effective batch and is not written: set it to \"auto\" there",
           place);
}

static void compare_precision(struct reader *r, struct config_node *file, const char *section,
                              const char *type) {
    struct config_node *map = item(file, section), *n = map ? item(map, "enabled") : NULL;
    struct config_value *v = &r->reading->values[CONFIG_PRECISION];
    if (!n || config_scalar_read(r->config, n).type != CONFIG_BOOL || v->word.len == 0) return;
    const bool theirs = config_scalar_read(r->config, n).boolean;
    const bool ours = str_ends(v->word, str_of(type));
    const struct str place = config_node_place(r->arena, r->config, n);
    if (theirs && ours)
        v->bound = str_format(r->arena, "%.*s: %s.enabled = true", STR_ARG(place), section);
    if (theirs == ours || str_is(v->text, "auto")) return;
    config_reader_refuse(
        r, "%.*s: %s.enabled = %s, but precision is %.*s: the trainer refuses the combination",
        STR_ARG(place), section, theirs ? "true" : "false", STR_ARG(v->word));
}

// What DeepSpeed takes (deepspeed/runtime/zero/config.py, 0.19.8): four stages, no sizes below 0;
// one above ELEMENTS_MOST is a slip.
static const double ELEMENTS_MOST = 1LL << 40;

static void check_zero(struct reader *r, struct config_node *zero) {
    static const char *const sizes[] = {"reduce_bucket_size",
                                        "allgather_bucket_size",
                                        "stage3_prefetch_bucket_size",
                                        "stage3_param_persistence_threshold",
                                        "stage3_max_live_parameters",
                                        "stage3_max_reuse_distance",
                                        "sub_group_size",
                                        NULL};
    struct config_node *stage = item(zero, "stage");
    struct scalar s = stage ? config_scalar_read(r->config, stage) : (struct scalar){0};
    bool is_number = stage && (s.type == CONFIG_INT || s.type == CONFIG_FLOAT);
    if (is_number && !(s.number >= 0 && s.number <= 3 && s.number == (double)s.integer))
        config_reader_refuse(r, "%.*s: stage = %.*s: DeepSpeed's ZeRO has the stages 0 to 3",
                             STR_ARG(config_node_place(r->arena, r->config, stage)),
                             STR_ARG(stage->text));
    if (is_number && s.integer == 0)
        config_reader_warn(r,
                           "%.*s: stage = 0: DeepSpeed without ZeRO is counted as DDP; its own "
                           "16-bit optimizer differs somewhat",
                           STR_ARG(config_node_place(r->arena, r->config, stage)));
    for (int i = 0; sizes[i]; i++) {
        struct config_node *n = item(zero, sizes[i]);
        if (!n) continue;
        s = config_scalar_read(r->config, n);
        if (s.type != CONFIG_INT && s.type != CONFIG_FLOAT) continue;
        if (s.number >= 0 && s.number <= ELEMENTS_MOST) continue;
        config_reader_refuse(
            r, "%.*s: %s = %.*s: %s", STR_ARG(config_node_place(r->arena, r->config, n)), sizes[i],
            STR_ARG(n->text),
            s.number < 0 ? "DeepSpeed takes no size below 0" : "more elements than any model has");
    }
}

// The first map that stands at one of the places, in another file than the config; NULL: none.
static struct config_node *map_at(struct reader *r, const char *const *places) {
    for (int i = 0; places[i]; i++) {
        struct matches m = {0};
        config_scope_find(&r->scope, str_of(places[i]), &m);
        struct config_node *n = m.count > 0 ? config_node_follow(m.items[0].place.value) : NULL;
        if (n && n->kind == NODE_MAP && n->file > 0) return n;
    }
    return NULL;
}

// accelerate's own figure, where its config has no file of DeepSpeed's: transformers' Trainer
// refuses another than its own (integrations/deepspeed.py, trainer_config_finalize); a loop by hand
// may take it.
static void compare_launchers(struct reader *r) {
    static const char *const places[] = {"launcher.config_file.deepspeed_config", NULL};
    struct config_node *map = map_at(r, places);
    struct config_node *n = map ? item(map, "gradient_accumulation_steps") : NULL;
    const struct config_value *v = &r->reading->values[CONFIG_ACCUMULATION];
    if (!n || config_scalar_read(r->config, n).type != CONFIG_INT) return;
    const struct str place = config_node_place(r->arena, r->config, n);
    const int64_t theirs = config_scalar_read(r->config, n).integer;
    if (theirs == v->integer)
        config_reader_warn(r,
                           "%.*s: gradient_accumulation_steps = %lld is there, too, and that file "
                           "is not written: set it to \"auto\"",
                           STR_ARG(place), (long long)theirs);
    else
        config_reader_warn(r,
                           "%.*s: gradient_accumulation_steps = %lld, but accumulation is %lld%s: "
                           "transformers' Trainer refuses the combination; make it \"auto\"",
                           STR_ARG(place), (long long)theirs, (long long)v->integer,
                           v->assumed ? " by default" : "");
    refuse(r, "that file has the figure, too, and is not written: set it to \"auto\" there", place);
}

static struct config_node *file_of(struct reader *r) {
    static const char *const places[] = {
        "@.deepspeed",
        "@.deepspeed_config",
        "deepspeed_config.deepspeed_config_file",
        "launcher.deepspeed_config_file",
        "launcher.config_file.deepspeed_config.deepspeed_config_file",
        NULL};
    return map_at(r, places);
}

bool config_reader_deepspeed(struct reader *r) {
    struct config_node *file = file_of(r), *own = r->config->root;
    const bool is_own = own && str_is(r->dialect->id, "deepspeed");
    struct config_node *map = is_own ? config_node_follow(own) : file;
    struct config_node *zero = map ? item(map, "zero_optimization") : NULL;
    if (zero) check_zero(r, zero);
    if (!file) {
        compare_launchers(r);
        return false;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) compare_number(r, file, &pairs[i]);
    compare_total(r, file);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        compare_precision(r, file, switches[i][0], switches[i][1]);
    return true;
}
