// SPDX-License-Identifier: Apache-2.0
// A setting as values for the command, and all that must be the same for the results of two runs to
// belong together.
#include "cmd/bench.h"

#include <stdlib.h>
#include <unistd.h>

static struct str number(struct arena *a, int64_t value) {
    return str_format(a, "%lld", (long long)value);
}

static bool is_off(struct str value) {
    return str_is(value, "off") || str_is(value, "false") || str_is(value, "no");
}

static bool is_axis(const struct bench *b, const char *name) {
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        if (str_is(b->grid.axes[i].name, name)) return true;
    }
    return false;
}

static int64_t accumulation_of(const struct bench_asked *asked) {
    const struct config_value *v = &asked->reading.values[CONFIG_ACCUMULATION];
    return asked->has_config && v->type == CONFIG_INT && v->integer > 0 ? v->integer : 1;
}

void bench_values(const struct bench_options *o, const struct bench *b,
                  const struct bench_asked *asked, const struct bench_setting *s,
                  struct launch_values *ret_values) {
    struct arena *a = b->arena;
    struct launch_values *v = ret_values;
    const struct str unset = {0};
    *v = (struct launch_values){0};
    if (s->batch > 0) launch_value(a, v, "batch", number(a, s->batch));
    launch_value(a, v, "workers", s->workers >= 0 ? number(a, s->workers) : unset);
    launch_value(a, v, "precision",
                 s->precision ? str_of(plan_precision_name(s->precision)) : unset);
    launch_switch(a, v, "amp", s->precision == PLAN_AMP_FP16 || s->precision == PLAN_AMP_BF16);
    launch_switch(a, v, "pin_memory", s->pin_memory > 0);
    launch_switch(a, v, "compile", s->compile > 0);
    launch_value(a, v, "data_path", str_of(o->data_path));
    if (!is_axis(b, "accumulate"))
        launch_value(a, v, "accumulate", number(a, accumulation_of(asked)));
    for (ptrdiff_t i = 0; i < b->grid.axis_count; i++) {
        struct command_value value = {b->grid.axes[i].name, s->axes[i], is_off(s->axes[i])};
        *arena_push(a, &v->items, &v->count, &v->capacity) = value;
    }
}

// --- Identity ------------------------------------------------------------------------------------

static void add_line(struct buf *b, const char *name, struct str text) {
    buf_format(b, "%s=%.*s\n", name, STR_ARG(text));
}

// A script that was changed in between is another program.
static void add_file(struct buf *b, const char *path) {
    struct stat st;
    if (!path || stat(path, &st) < 0 || !S_ISREG(st.st_mode)) return;
    buf_format(b, "%s %lld %lld.%09ld\n", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
               st.st_mtim.tv_nsec);
}

// The one that PATH leads to: what it is named does not say which Python it belongs to.
static void add_program(struct arena *a, struct buf *b, struct str name) {
    struct str rest = str_of(getenv("PATH"));
    if (name.len == 0 || str_find(name, STR("/")) >= 0) {
        add_file(b, str_z(a, name));
        return;
    }
    while (rest.p) {
        struct str folder = str_cut(&rest, ':');
        struct str path = str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
        if (access(path.p, X_OK) < 0) continue;
        add_file(b, path.p);
        return;
    }
}

static void add_numbers(struct buf *b, const char *name, const struct bench_numbers *n) {
    buf_format(b, "%s", name);
    for (ptrdiff_t i = 0; i < n->count; i++) buf_format(b, " %lld", (long long)n->items[i]);
    buf_byte(b, '\n');
}

static void add_grid(struct buf *b, const struct bench_grid *g) {
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

struct str bench_identity(const struct bench_options *o, const struct bench *b,
                          const struct bench_asked *asked, const struct launch *l) {
    static const char *const variables[] = {"PYTHONPATH",
                                            "VIRTUAL_ENV",
                                            "CONDA_PREFIX",
                                            "CUDA_VISIBLE_DEVICES",
                                            "PYTORCH_CUDA_ALLOC_CONF",
                                            "OMP_NUM_THREADS",
                                            NULL};
    struct buf id = buf_new(b->arena);
    char folder[4096];
    add_line(&id, "version", STR(BATCHFIT_VERSION));
    add_line(&id, "folder", str_of(getcwd(folder, sizeof folder)));
    add_line(&id, "command", command_text(b->arena, asked->command));
    for (int i = 0; asked->command[i]; i++) add_file(&id, asked->command[i]);
    add_file(&id, o->data_path);
    add_program(b->arena, &id, str_of(asked->command[0]));
    add_line(&id, "python", l->python);
    add_program(b->arena, &id, l->python);
    add_line(&id, "layout", l->layout);
    add_line(&id, "env", str_of(asked->l.environment));
    add_line(&id, "keys", str_of(asked->l.config_keys));
    if (asked->has_config) {
        buf_format(&id, "config %llx\n", (unsigned long long)str_hash(asked->config.text));
    }
    for (int i = 0; variables[i]; i++) add_line(&id, variables[i], str_of(getenv(variables[i])));
    add_line(&id, "device", l->place.name);
    buf_format(&id, "memory %lld steps %lld warmup %lld ranks %lld\n",
               (long long)asked->l.memory_bytes, (long long)asked->l.steps,
               (long long)asked->l.warmup, (long long)asked->l.ranks);
    add_grid(&id, &b->grid);
    return buf_str(&id);
}
