// SPDX-License-Identifier: Apache-2.0
// What to type where the file is not ours to edit.
#include "records/config/dialect_int.h"

struct str config_option(struct arena *a, const struct config_reading *r, const struct dialect *d,
                         enum config_role role, struct str value) {
    struct str option = d->options[role];
    const struct config_value *v = &r->values[role];
    // The map in which it would be does not take it (_target_), on the command line either.
    bool has_no_place = d->roles[role].insert != INSERT_NO && v->line <= 0 && v->path.len == 0;
    const ptrdiff_t hole = str_find(option, STR("{}"));
    if (option.len == 0 || has_no_place) return (struct str){0};
    if (hole < 0) return option;
    return str_format(a, "%.*s%.*s%.*s", STR_ARG(str_slice(option, 0, hole)), STR_ARG(value),
                      STR_ARG(str_slice(option, hole + 2, option.len)));
}

static void advise(struct buf *b, const struct config_reading *r, const struct dialect *d,
                   enum config_role role, struct str value) {
    struct str option = config_option(b->arena, r, d, role, value);
    const struct config_value *v = &r->values[role];
    if (option.len) {
        buf_add(b, option);
    } else if (v->path.len) {
        // Hydra adds a key that the tree does not have only with a plus.
        if (r->hydra && v->line <= 0) buf_byte(b, '+');
        buf_format(b, r->hydra ? "%.*s=%.*s" : "%.*s: %.*s", STR_ARG(v->path), STR_ARG(value));
    } else {
        return;
    }
    buf_byte(b, '\n');
}

struct str config_advice(struct arena *a, const struct config_reading *r,
                         const struct config_change *change) {
    const struct dialect *d;
    struct buf b = buf_shown(a);
    if (config_dialect_of(a, r, &d, NULL)) return (struct str){0};
    const int64_t ranks = change->ranks > 0 ? change->ranks : 1;
    const int64_t steps = change->accumulation > 0 ? change->accumulation : 1;
    const bool global = r->values[CONFIG_BATCH].unit == 'G' || str_is(d->id, "yolo_hyp");
    const struct {
        enum config_role role;
        int64_t value;
    } numbers[] = {
        {CONFIG_BATCH, global ? change->batch * ranks : change->batch},
        {CONFIG_ACCUMULATION, change->accumulation},
        {CONFIG_EFFECTIVE, d->options[CONFIG_EFFECTIVE].len ? change->batch * steps * ranks : 0},
        {CONFIG_EVAL_BATCH, change->eval_batch},
        {CONFIG_IMAGE_SIZE, change->image_size},
        {CONFIG_SEQUENCE_LENGTH, change->sequence_length},
        {CONFIG_WORKERS, change->workers},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value > 0)
            advise(&b, r, d, numbers[i].role, str_format(a, "%lld", (long long)numbers[i].value));
    }
    const bool half = change->precision.len && !str_is(change->precision, "fp32");
    if (half && d->options[CONFIG_PRECISION].len)
        advise(&b, r, d, CONFIG_PRECISION, change->precision);
    return buf_str(&b);
}
