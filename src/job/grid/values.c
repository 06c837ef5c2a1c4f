// SPDX-License-Identifier: Apache-2.0
// A setting as values for the command, and all that must be the same for the results of two runs to
// belong together.
#include "job/grid/grid.h"

#include "job/history/history.h"

static struct str number(struct arena *a, int64_t value) {
    return str_format(a, "%lld", (long long)value);
}

static bool is_off(struct str value) {
    return str_is(value, "off") || str_is(value, "false") || str_is(value, "no");
}

static bool is_axis(const struct grid *b, const char *name) {
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        if (str_is(b->grid.axes[i].name, name)) return true;
    }
    return false;
}

void grid_values(const struct grid_options *o, const struct grid *b, const struct grid_asked *asked,
                 const struct grid_setting *s, struct launch_values *ret_values) {
    struct arena *a = b->arena;
    struct launch_values *v = ret_values;
    const struct str unset = {0};
    *v = (struct launch_values){0};
    if (s->batch > 0) launch_value(a, v, "batch", number(a, s->batch));
    launch_value(a, v, "workers", s->workers >= 0 ? number(a, s->workers) : unset);
    launch_value(a, v, "precision",
                 s->precision ? str_of(plan_precision_name(s->precision)) : unset);
    launch_switch(a, v, "amp", plan_precision_is_amp(s->precision));
    launch_switch(a, v, "pin_memory", s->pin_memory > 0);
    launch_switch(a, v, "compile", s->compile > 0);
    launch_value(a, v, "data_path", str_of(o->data_path));
    if (b->is_inference) grid_engine_values(b, v);
    int64_t accumulation = grid_config_number(asked, CONFIG_ACCUMULATION);
    if (!is_axis(b, "accumulate"))
        launch_value(a, v, "accumulate", number(a, accumulation > 0 ? accumulation : 1));
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        struct trial_command_value value = {b->grid.axes[i].name, s->axes[i], is_off(s->axes[i])};
        *arena_push(a, &v->items, &v->count, &v->capacity) = value;
    }
}

// --- Identity ------------------------------------------------------------------------------------

static void add_numbers(struct buf *b, const char *name, const struct grid_numbers *n) {
    buf_format(b, "%s", name);
    for (ptrdiff_t i = 0; i < n->count; i++) buf_format(b, " %lld", (long long)n->items[i]);
    buf_byte(b, '\n');
}

static void add_grid(struct buf *b, const struct grid_space *g) {
    add_numbers(b, "batches", &g->batches);
    add_numbers(b, "workers", &g->workers);
    add_numbers(b, "precisions", &g->precisions);
    add_numbers(b, "pins", &g->pins);
    add_numbers(b, "compiles", &g->compiles);
    for (ptrdiff_t i = 0; i < g->axis_count; i++) {
        buf_format(b, "axis %.*s", STR_ARG(g->axes[i].name));
        for (ptrdiff_t j = 0; j < g->axes[i].count; j++) {
            buf_format(b, ",%.*s", STR_ARG(g->axes[i].values[j]));
        }
        buf_byte(b, '\n');
    }
}

struct str grid_identity(const struct grid_options *o, const struct grid *b,
                         const struct grid_asked *asked, const struct launch *l) {
    struct buf id = buf_new(b->arena);
    history_identity_launch(b->arena, &id, asked->command, l, &asked->l);
    history_identity_file(&id, o->data_path);
    history_identity_file(&id, o->onnx);
    history_identity_file(&id, o->weights);
    buf_format(&id, "tolerance %g\n", o->tolerance);
    if (asked->has_config) {
        buf_format(&id, "config %llx\n", (unsigned long long)str_hash(asked->config.text));
        history_identity_files(b->arena, &id, &asked->config);
    }
    add_grid(&id, &b->grid);
    return buf_str(&id);
}
