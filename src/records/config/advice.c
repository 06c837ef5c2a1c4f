// SPDX-License-Identifier: Apache-2.0
// What to type where the file is not ours to edit: the trainer's option, or the line.
#include "records/config/dialect_int.h"

// "{path}" in an option: where the key is, or the first place where it could be.
static struct str filled(struct arena *a, struct str option, struct str path, struct str value) {
    struct buf b = buf_new(a);
    for (;;) {
        const ptrdiff_t hole = str_find(option, STR("{"));
        if (hole < 0) break;
        const struct str rest = str_slice(option, hole, option.len);
        const bool is_path = str_starts(rest, STR("{path}"));
        buf_add(&b, str_slice(option, 0, hole));
        buf_add(&b, is_path ? path : value);
        option = str_slice(rest, is_path ? 6 : 2, rest.len);
    }
    buf_add(&b, option);
    return buf_str(&b);
}

struct str config_option(struct arena *a, const struct config_reading *r, const struct dialect *d,
                         enum config_role role, struct str value) {
    struct str places = d->roles[role].places;
    const struct config_value *v = &r->values[role];
    // The map in which it would be does not take it (_target_), on the command line either.
    bool has_no_place = d->roles[role].insert != INSERT_NO && v->line <= 0 && v->path.len == 0;
    if (v->spelled.len) return str_format(a, "%.*s%.*s", STR_ARG(v->spelled), STR_ARG(value));
    if (d->options[role].len == 0 || has_no_place) return (struct str){0};
    return filled(a, d->options[role], v->path.len ? v->path : str_cut(&places, ' '), value);
}

static void advise(struct buf *b, const struct config_reading *r, const struct dialect *d,
                   enum config_role role, struct str value) {
    static const struct str joining = {"--cfg-options ", 14};
    struct str option = config_option(b->arena, r, d, role, value);
    const struct config_value *v = &r->values[role];
    if (option.len) {
        // Given twice, only the last of these options would count.
        const bool joins = str_starts(option, joining) && str_starts(buf_str(b), joining);
        if (joins) b->items[b->count - 1] = ' ';
        buf_add(b, joins ? str_slice(option, joining.len, option.len) : option);
    } else if (v->path.len) {
        // Hydra adds a key that the tree does not have only with a plus.
        if (r->hydra && v->line <= 0) buf_byte(b, '+');
        const bool assigns = r->format == CONFIG_PYTHON || r->format == CONFIG_TOML;
        const char *sign = assigns ? " = " : r->hydra ? "=" : ": ";
        buf_format(b, "%.*s%s%.*s", STR_ARG(v->path), sign, STR_ARG(value));
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
    const struct config_value *batch = &r->values[CONFIG_BATCH];
    if (r->is_sweep && change->batch >= batch->integer) return (struct str){0};
    if (r->is_sweep) {
        buf_format(&b, "%.*s: nothing above %lld\n", STR_ARG(batch->path),
                   (long long)change->batch);
        return buf_str(&b);
    }
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
