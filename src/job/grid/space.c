// SPDX-License-Identifier: Apache-2.0
// The grid of a benchmark: lists of values as they are typed, and every setting that they make, in
// the order of the trials: within one combination of everything else the batches rise, so that an
// out-of-memory ends the combination, as the scripts that people write for themselves do.
#include "job/grid/grid.h"

#include "base/near.h"

// Larger than any batch that was ever trained, and small enough for products with it.
static const int64_t largest_number = 1000000000;

void grid_note(struct grid *b, struct str note) {
    str_list_add(b->arena, &b->notes, note);
}

struct config_value grid_config_value(struct arena *a, const struct grid_asked *asked,
                                      const char *path) {
    struct config_value value = {0};
    if (asked->has_config && config_get(a, &asked->config, str_of(path), &value, NULL) < 0) {
        value = (struct config_value){0};
    }
    return value;
}

int64_t grid_config_number(const struct grid_asked *asked, enum config_role role) {
    const struct config_value *v = &asked->reading.values[role];
    return asked->has_config && v->type == CONFIG_INT && v->integer > 0 ? v->integer : 0;
}

struct str grid_literal(struct arena *a, struct str text) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; i < text.len; i++) {
        if (text.p[i] == '{' || text.p[i] == '}') buf_byte(&b, text.p[i]);
        buf_byte(&b, text.p[i]);
    }
    return buf_str(&b);
}

void grid_add_number(struct arena *a, struct grid_numbers *n, int64_t value) {
    ptrdiff_t at = n->count;
    for (ptrdiff_t i = 0; i < n->count; i++) {
        if (n->items[i] == value) return;
    }
    *arena_push(a, &n->items, &n->count, &n->capacity) = value;
    for (; at > 0 && n->items[at - 1] > value; at--) n->items[at] = n->items[at - 1];
    n->items[at] = value;
}

int grid_read_numbers(struct arena *a, const char *option, struct str text, int64_t least,
                      struct grid_numbers *ret_numbers, struct fail *why) {
    *ret_numbers = (struct grid_numbers){0};
    struct str rest = text;
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ','));
        int64_t value;
        if (!str_to_i64(word, &value) || value < least || value > largest_number) {
            fail_set(why, FAIL_USAGE, "%s: '%.*s' is not a whole number of at least %lld", option,
                     STR_ARG(word), (long long)least);
            return fail_hint(why, "give a list: %s 4 8 16", option);
        }
        grid_add_number(a, ret_numbers, value);
    }
    return 0;
}

int grid_read_switch(struct arena *a, const char *option, struct str text,
                     struct grid_numbers *ret_switch, struct fail *why) {
    static const struct {
        const char *word;
        bool off, on;
    } words[] = {{"off", true, false}, {"on", false, true}, {"both", true, true}};
    *ret_switch = (struct grid_numbers){0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_is(text, words[i].word)) continue;
        if (words[i].off) grid_add_number(a, ret_switch, 0);
        if (words[i].on) grid_add_number(a, ret_switch, 1);
        return 0;
    }
    return fail_set(why, FAIL_USAGE, "%s: '%.*s' is not one of on, off, both", option,
                    STR_ARG(text));
}

int grid_read_precisions(struct arena *a, struct str text, struct grid_numbers *ret_precisions,
                         struct fail *why) {
    *ret_precisions = (struct grid_numbers){0};
    struct str rest = text;
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ','));
        enum plan_precision precision = plan_precision_find(word);
        // The name itself: what stands in the answer is what was asked for.
        if (!precision || !str_is(word, plan_precision_name(precision))) {
            struct near near = {.typed = word};
            for (int i = 0; plan_precisions[i]; i++) near_offer(&near, str_of(plan_precisions[i]));
            fail_set(why, FAIL_USAGE,
                     "--precision: '%.*s' is not one of fp32, amp-fp16, amp-bf16, bf16, fp16",
                     STR_ARG(word));
            return near.count ? fail_hint(why, "nearest: %.*s", STR_ARG(near_text(a, &near)))
                              : FAIL_USAGE;
        }
        grid_add_number(a, ret_precisions, precision);
    }
    return 0;
}

// --- Axes ----------------------------------------------------------------------------------------

// What the command gets under these names is not for an axis to say.
static const struct {
    const char *name, *option;
} taken[] = {
    {"batch", "--batch-sizes"},
    {"workers", "--num-workers"},
    {"amp", "--amp"},
    {"precision", "--precision"},
    {"pin_memory", "--pin-memory"},
    {"compile", "--compile"},
    {"engine", "--engine"},
    {"engines", "--engine"},
    {"precisions", "--precision"},
    {"prepared", NULL},
    {"prepare", NULL},
    {"data_path", "--data-path"},
    {"python", "--python"},
    {"device", "--device"},
    {"ranks", "--ranks"},
    {"config", "--config"},
    {"scratch", NULL},
};

static int axis_name_is_free(const struct grid_space *g, struct str name, struct fail *why) {
    if (!str_is_made_of(name, "_") || str_is_digit(name.p[0])) {
        fail_set(why, FAIL_USAGE, "--axis %.*s: a name consists of letters, digits and '_'",
                 STR_ARG(name));
        return fail_hint(why,
                         "for example --axis bucket_mb=10,25,50 with {bucket_mb} in the command");
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (!str_is(name, taken[i].name)) continue;
        fail_set(why, FAIL_USAGE, "--axis %s: the name is reserved", taken[i].name);
        return taken[i].option ? fail_hint(why, "set its values with %s", taken[i].option)
                               : FAIL_USAGE;
    }
    for (ptrdiff_t i = 0; i < g->axis_count; i++) {
        if (!str_equal(g->axes[i].name, name)) continue;
        fail_set(why, FAIL_USAGE, "--axis %.*s is given twice", STR_ARG(name));
        return fail_hint(why, "give all its values at once: --axis %.*s=A,B,C", STR_ARG(name));
    }
    return 0;
}

bool grid_axis_has(const struct grid_axis *axis, struct str value) {
    for (ptrdiff_t i = 0; i < axis->count; i++) {
        if (str_equal(axis->values[i], value)) return true;
    }
    return false;
}

static int read_axis(struct arena *a, struct str line, struct grid_space *g, struct fail *why) {
    struct str values = line, name = str_cut(&values, '=');
    int rc = axis_name_is_free(g, name, why);
    if (rc < 0) return rc;
    struct grid_axis axis = {.name = name};
    while (values.p) {
        struct str value = str_cut(&values, ',');
        if (value.len == 0 || grid_axis_has(&axis, value)) continue;
        *arena_push(a, &axis.values, &axis.count, &axis.capacity) = value;
    }
    if (axis.count == 0) {
        fail_set(why, FAIL_USAGE, "--axis %.*s has no values", STR_ARG(name));
        return fail_hint(why, "for example --axis %.*s=10,25,50", STR_ARG(name));
    }
    *arena_push(a, &g->axes, &g->axis_count, &g->axis_capacity) = axis;
    return 0;
}

int grid_read_axes(struct arena *a, const char *lines, struct grid_space *grid, struct fail *why) {
    struct str rest = str_of(lines);
    while (rest.p) {
        int rc = read_axis(a, str_cut(&rest, '\n'), grid, why);
        if (rc < 0) return rc;
    }
    return 0;
}

// --- Settings ------------------------------------------------------------------------------------

static ptrdiff_t at_least_one(ptrdiff_t count) {
    return count > 0 ? count : 1;
}

// Takes a digit off a mixed-radix number: which value of a list it is, or `absent` for a list
// without values.
static int64_t take_value(ptrdiff_t *number, const struct grid_numbers *n, int64_t absent) {
    ptrdiff_t count = at_least_one(n->count), digit = *number % count;
    *number /= count;
    return n->count > 0 ? n->items[digit] : absent;
}

static struct grid_setting setting_of(struct arena *a, const struct grid_space *g,
                                      ptrdiff_t combination) {
    struct grid_setting s = {.combination = combination};
    struct str *axes = arena_new(a, struct str, g->axis_count + 1);
    ptrdiff_t number = combination;
    // The first digit changes fastest: workers, which cost no change of kernels.
    s.workers = take_value(&number, &g->workers, -1);
    s.pin_memory = (int)take_value(&number, &g->pins, -1);
    s.precision = (enum plan_precision)take_value(&number, &g->precisions, PLAN_PRECISION_UNKNOWN);
    s.compile = (int)take_value(&number, &g->compiles, -1);
    for (ptrdiff_t i = 0; i < g->axis_count; i++) {
        axes[i] = g->axes[i].values[number % g->axes[i].count];
        number /= g->axes[i].count;
    }
    s.axes = axes;
    return s;
}

ptrdiff_t grid_settings(struct arena *a, const struct grid_space *grid,
                        struct grid_setting **ret_settings) {
    ptrdiff_t combinations = at_least_one(grid->workers.count) * at_least_one(grid->pins.count) *
                             at_least_one(grid->precisions.count) *
                             at_least_one(grid->compiles.count);
    for (ptrdiff_t i = 0; i < grid->axis_count; i++) combinations *= grid->axes[i].count;
    ptrdiff_t batches = at_least_one(grid->batches.count), n = 0;
    struct grid_setting *settings = arena_new(a, struct grid_setting, combinations * batches);
    for (ptrdiff_t c = 0; c < combinations; c++) {
        struct grid_setting s = setting_of(a, grid, c);
        for (ptrdiff_t b = 0; b < batches; b++) {
            s.batch = grid->batches.count > 0 ? grid->batches.items[b] : 0;
            settings[n++] = s;
        }
    }
    *ret_settings = settings;
    return n;
}

static void add_part(struct buf *b, struct str text) {
    buf_join(b, ", ", text);
}

struct str grid_setting_text(struct arena *a, const struct grid_space *grid,
                             const struct grid_setting *s, bool with_batch) {
    struct buf b = buf_new(a);
    if (with_batch && s->batch > 0) buf_format(&b, "batch %lld", (long long)s->batch);
    if (s->workers >= 0) add_part(&b, str_format(a, "workers %lld", (long long)s->workers));
    if (s->precision) add_part(&b, str_of(plan_precision_name(s->precision)));
    if (s->pin_memory >= 0 && grid->pins.count > 1) {
        add_part(&b, s->pin_memory ? STR("pinned") : STR("not pinned"));
    }
    if (s->compile >= 0 && (s->compile > 0 || grid->compiles.count > 1)) {
        add_part(&b, s->compile ? STR("compiled") : STR("not compiled"));
    }
    for (ptrdiff_t i = 0; i < grid->axis_count; i++) {
        add_part(&b, str_format(a, "%.*s %.*s", STR_ARG(grid->axes[i].name), STR_ARG(s->axes[i])));
    }
    if (b.count == 0) return STR("the command as given");
    return buf_str(&b);
}
