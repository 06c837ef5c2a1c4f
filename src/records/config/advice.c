// SPDX-License-Identifier: Apache-2.0
// What people type where the file is not ours to edit: the trainer's option, or the line.
#include "records/config/dialect_int.h"

// "{path}" in an option: where the key is, or the first place where it could be.
static void fill_in(struct buf *b, struct str option, struct str path, struct str value) {
    for (;;) {
        const ptrdiff_t hole = str_find(option, STR("{"));
        if (hole < 0) break;
        const struct str rest = str_slice(option, hole, option.len);
        const bool is_path = str_starts(rest, STR("{path}"));
        buf_add(b, str_slice(option, 0, hole));
        buf_add(b, is_path ? path : value);
        option = str_slice(rest, is_path ? 6 : 2, rest.len);
    }
    buf_add(b, option);
}

static struct str place_of(const struct config_reading *r, const struct dialect *d,
                           enum config_role role) {
    struct str places = d->roles[role].places;
    return r->values[role].path.len ? r->values[role].path : str_cut(&places, ' ');
}

// The option; empty where there is none, or where the map in which the key would be does not take
// it (_target_), on the command line either.
static struct str option_of(const struct config_reading *r, const struct dialect *d,
                            enum config_role role) {
    const struct config_value *v = &r->values[role];
    bool may_insert = d->editable && d->roles[role].insert != INSERT_NO;
    return may_insert && v->line <= 0 && v->path.len == 0 ? (struct str){0} : d->options[role];
}

struct str config_option(struct arena *a, const struct config_reading *r, const struct dialect *d,
                         enum config_role role, struct str value) {
    struct buf b = buf_new(a);
    fill_in(&b, option_of(r, d, role), place_of(r, d, role), value);
    return buf_str(&b);
}

static void advise(struct buf *b, const struct config_reading *r, const struct dialect *d,
                   enum config_role role, struct str value) {
    static const struct str joining = {"--cfg-options ", 14};
    const struct str option = option_of(r, d, role), path = place_of(r, d, role);
    const struct config_value *v = &r->values[role];
    if (v->spelled.len) {
        buf_add(b, v->spelled);
        buf_add(b, value);
    } else if (option.len) {
        // Given twice, only the last of these options would count.
        const bool joins = str_starts(option, joining) && str_starts(buf_str(b), joining);
        if (joins) b->items[b->count - 1] = ' ';
        fill_in(b, joins ? str_slice(option, joining.len, option.len) : option, path, value);
    } else if (v->path.len) {
        // Hydra adds a key that the tree does not have only with a plus.
        if (r->hydra && v->line == 0) buf_byte(b, '+');
        const bool assigns = r->format == CONFIG_PYTHON || r->format == CONFIG_TOML;
        buf_format(b,
                   assigns    ? "%.*s = %.*s"
                   : r->hydra ? "%.*s=%.*s"
                              : "%.*s: %.*s",
                   STR_ARG(v->path), STR_ARG(value));
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
