// SPDX-License-Identifier: Apache-2.0
// What a comparison is asked: the metrics, the files to write, two configs that train the same.
#include "verbs/compare/compare.h"

#include <unistd.h>

enum { USUAL_WORKERS = 4 };

void compare_note(struct compare *c, struct str note) {
    str_list_add(c->arena, &c->notes, note);
}

// --- Words ---------------------------------------------------------------------------------------

static int find_metric(struct str word) {
    for (int i = 0; i < COMPARE_METRICS; i++) {
        const struct compare_metric_row *m = &compare_metrics[i];
        if (str_is(word, m->name) || (m->alias && str_is(word, m->alias))) return i;
    }
    return -1;
}

static int read_metrics(struct compare *c, struct fail *why) {
    const char *text = c->options->metrics;
    struct str rest = str_of(text ? text : "throughput,memory,energy");
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ','));
        int metric = find_metric(word);
        if (metric < 0) {
            fail_set(why, FAIL_USAGE, "--metrics %.*s: no such metric", STR_ARG(word));
            return fail_hint(why, "throughput, memory, energy, time");
        }
        c->results[metric].is_asked = true;
    }
    return 0;
}

static int check_numbers(struct compare *c, struct fail *why) {
    const struct compare_options *o = c->options;
    c->pairs_asked = o->pairs > 0 ? o->pairs : COMPARE_PAIRS;
    if (o->pairs > 0 && o->pairs < COMPARE_PAIRS_LEAST) {
        fail_set(why, FAIL_USAGE, "--pairs %lld: fewer than %d pairs cannot show a difference",
                 (long long)o->pairs, COMPARE_PAIRS_LEAST);
        return fail_hint(why,
                         "the rank test of 3 against 3 never has p below 0.1; the default is 10");
    }
    if (o->l.steps > 0 && o->l.steps < COMPARE_STEPS_LEAST) {
        fail_set(why, FAIL_INPUT, "--steps %lld: a figure needs at least %d measured steps",
                 (long long)o->l.steps, COMPARE_STEPS_LEAST);
        return fail_hint(why, "the default is 10");
    }
    return 0;
}

// --- Two configs ---------------------------------------------------------------------------------

static const char hint_alike[] = "a comparison changes how it is trained, not what: make this the "
                                 "same in both, and compare again";

static const struct config_value *value_of(const struct compare *c, int side,
                                           enum config_role role) {
    return &c->sides[side].asked.reading.values[role];
}

// Roles that say what is trained. One that only one config says is no difference.
static int check_alike(const struct compare *c, struct fail *why) {
    static const struct {
        enum config_role role;
        const char *word;
    } roles[] = {{CONFIG_MODEL, "models"},
                 {CONFIG_IMAGE_SIZE, "samples: image sizes"},
                 {CONFIG_SEQUENCE_LENGTH, "samples: sequence lengths"},
                 {CONFIG_TARGET_LENGTH, "samples: target lengths"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const struct config_value *a = value_of(c, COMPARE_A, roles[i].role);
        const struct config_value *b = value_of(c, COMPARE_B, roles[i].role);
        if (a->text.len == 0 || b->text.len == 0 || str_equal(a->text, b->text)) continue;
        fail_set(why, FAIL_INPUT, "%.*s:%d and %.*s:%d train different %s: %.*s, %.*s",
                 STR_ARG(c->sides[COMPARE_A].name), a->line, STR_ARG(c->sides[COMPARE_B].name),
                 b->line, roles[i].word, STR_ARG(a->text), STR_ARG(b->text));
        return fail_hint(why, "%s", hint_alike);
    }
    const struct compare_side *a = &c->sides[COMPARE_A], *b = &c->sides[COMPARE_B];
    if (!a->bench.is_workload || str_equal(a->bench.title, b->bench.title)) return 0;
    fail_set(why, FAIL_INPUT, "the sides train different things: %.*s; %.*s",
             STR_ARG(a->bench.title), STR_ARG(b->bench.title));
    return fail_hint(why, "%s", hint_alike);
}

static void read_plan(struct compare_side *side) {
    const struct config_value *values = side->asked.reading.values;
    const struct config_value *model = &values[CONFIG_MODEL];
    side->batch = grid_config_number(&side->asked, CONFIG_BATCH);
    side->plan = (struct plan){
        .model = model->type == CONFIG_TEXT ? model->text : (struct str){0},
        .batch = side->batch,
        .accumulation = grid_config_number(&side->asked, CONFIG_ACCUMULATION),
        .image_size = grid_config_number(&side->asked, CONFIG_IMAGE_SIZE),
        .sequence_length = grid_config_number(&side->asked, CONFIG_SEQUENCE_LENGTH),
        .precision = plan_precision_find(values[CONFIG_PRECISION].word),
        .optimizer = values[CONFIG_OPTIMIZER].text,
    };
}

static int read_side(struct compare *c, int index, const char *path, struct fail *why) {
    struct compare_side *side = &c->sides[index];
    const struct compare_options *o = c->options;
    struct grid_options *asked = arena_new(c->arena, struct grid_options, 1);
    *asked = (struct grid_options){.base = o->base, .l = o->l, .config = path};
    asked->data_path = o->data_path;
    asked->data_key = o->data_key;
    side->name = str_of(path);
    side->bench = (struct grid){.arena = c->arena};
    int rc = grid_ask(c->arena, asked, &side->bench, &side->asked, why);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < side->bench.notes.count; i++) {
        compare_note(c,
                     str_format(c->arena, "%s: %.*s", path, STR_ARG(side->bench.notes.items[i])));
    }
    read_plan(side);
    return 0;
}

static int check_command(struct compare *c, struct fail *why) {
    const struct compare_options *o = c->options;
    if (o->l.config_keys) {
        fail_set(why, FAIL_USAGE, "--config-key: compare takes both configs as they are");
        return fail_hint(why, "put the values into A and B");
    }
    if (!o->base.command) return 0;
    bool is_told = trial_command_mentions(o->base.command, STR("config")) ||
                   str_find(str_of(o->l.environment), STR("{config")) >= 0;
    if (is_told) return 0;
    fail_set(why, FAIL_USAGE, "the command has no {config}: both sides would run the same");
    return fail_hint(
        why, "put {config} where the config's path belongs: -- python train.py --config {config}");
}

int compare_ask(struct compare *c, struct fail *why) {
    const struct compare_options *o = c->options;
    int rc = check_numbers(c, why);
    if (rc == 0) rc = read_metrics(c, why);
    if (rc == 0)
        rc = show_report_check(c->arena, compare_files, "report", c->options->reports, why);
    if (rc == 0 && o->runs && (o->a || o->b || o->base.command)) {
        fail_set(why, FAIL_USAGE, "--runs compares runs of the history: nothing is trained");
        return fail_hint(why, "leave out --a, --b and the command, or leave out --runs");
    }
    if (rc < 0 || o->runs) return rc;
    if (!o->a || !o->b) {
        fail_set(why, FAIL_USAGE, "comparing needs two configs: %s is missing",
                 o->a ? "--b" : "--a");
        return fail_hint(why, "compare --a A.yaml --b B.yaml -- COMMAND with {config}, or "
                              "compare --runs N M");
    }
    rc = check_command(c, why);
    if (rc == 0) rc = read_side(c, COMPARE_A, o->a, why);
    if (rc == 0) rc = read_side(c, COMPARE_B, o->b, why);
    return rc == 0 ? check_alike(c, why) : rc;
}

// --- The built-in workload -----------------------------------------------------------------------

static void set_number(struct compare *c, struct compare_side *side, const char *name,
                       int64_t value) {
    launch_value(c->arena, &side->values, name, str_format(c->arena, "%lld", (long long)value));
}

static int64_t workers_of(const struct compare_side *side) {
    const struct config_value *own = &side->asked.reading.values[CONFIG_WORKERS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (own->type == CONFIG_INT && own->integer >= 0) return own->integer;
    return cores > 0 && cores < USUAL_WORKERS ? cores : USUAL_WORKERS;
}

int compare_values(struct compare *c, struct compare_side *side, struct fail *why) {
    const struct config_value *values = side->asked.reading.values;
    enum plan_precision precision = side->plan.precision ? side->plan.precision : PLAN_FP32;
    const struct config_value *compile = &values[CONFIG_COMPILE];
    launch_value(c->arena, &side->values, "config", side->name);
    if (!side->asked.is_workload) return 0;
    if (side->batch <= 0) {
        fail_set(why, FAIL_INPUT, "%.*s: no batch size for the built-in workload",
                 STR_ARG(side->name));
        return fail_hint(why, "add batch_size: 32, or give your own command after --");
    }
    set_number(c, side, "batch", side->batch);
    set_number(c, side, "workers", workers_of(side));
    launch_value(c->arena, &side->values, "precision", str_of(plan_precision_name(precision)));
    launch_switch(c->arena, &side->values, "pin_memory", false);
    launch_switch(c->arena, &side->values, "compile",
                  compile->type == CONFIG_BOOL && compile->boolean);
    return 0;
}
