// SPDX-License-Identifier: Apache-2.0
// What a benchmark is asked: the command line wins over the config's `benchmark:` section, that
// over the config's own training keys, those over our defaults. A list that the command has no
// placeholder for is an error when it was typed, and left out when a config says it.
#include "job/grid/grid.h"

#include "base/shell.h"
#include "base/unit.h"
#include "job/question/question.h"

#include <unistd.h>

enum { LARGEST_DEFAULT_BATCH = 8192, LARGEST_INFERENCE_BATCH = 64, USUAL_WORKERS = 4 };

// --- The config ----------------------------------------------------------------------------------

static bool has_section(struct arena *a, const struct grid_asked *asked) {
    return grid_config_value(a, asked, "benchmark").type == CONFIG_NESTED;
}

// A list of whole numbers, or one. Leaves *numbers empty when the key is not there.
static int config_numbers(struct arena *a, const struct grid_asked *asked, const char *path,
                          int64_t least, struct grid_numbers *numbers, struct fail *why) {
    for (int i = -1; asked->has_config; i++) {
        struct str at = i < 0 ? str_of(path) : str_format(a, "%s[%d]", path, i);
        struct config_value v = grid_config_value(a, asked, at.p);
        if (i < 0 && v.type == CONFIG_NESTED) continue;
        if (v.type == CONFIG_ABSENT) return 0;
        if (v.type != CONFIG_INT || v.integer < least) {
            return fail_set(why, FAIL_INPUT,
                            "%.*s:%d: %.*s: '%.*s' is not a whole number of at least %lld",
                            STR_ARG(asked->config.name), v.line, STR_ARG(at), STR_ARG(v.text),
                            (long long)least);
        }
        grid_add_number(a, numbers, v.integer);
        if (i < 0) return 0;
    }
    return 0;
}

static int read_roles(struct arena *a, struct grid *b, struct grid_asked *asked, struct fail *why) {
    const struct config_options options = {0};
    struct fail unclear = {0};
    int rc = config_read_roles(a, &asked->config, &options, &asked->reading, &unclear);
    if (rc == 0) return 0;
    asked->reading = (struct config_reading){0};
    if (!has_section(a, asked)) {
        *why = unclear;
        return rc;
    }
    grid_note(b, str_format(a, "only the benchmark section is read: %s", unclear.message));
    return 0;
}

static int read_config(struct arena *a, const struct grid_options *o, struct grid *b,
                       struct grid_asked *asked, struct fail *why) {
    struct str text;
    int rc = os_read_file(a, o->config, CONFIG_MAX_BYTES, &text, NULL, why);
    if (rc == 0) rc = question_parse(a, o->config, text, &asked->config, why);
    if (rc < 0) return rc;
    asked->has_config = true;
    struct config_value steps = grid_config_value(a, asked, "benchmark.steps_per_test");
    if (asked->l.steps <= 0 && steps.type == CONFIG_INT && steps.integer > 0) {
        asked->l.steps = steps.integer;
    }
    return read_roles(a, b, asked, why);
}

// --- Files ---------------------------------------------------------------------------------------

// The signature stands at 0 or at 512 times a power of two (HDF5 File Format Specification 3.0,
// II.A).
static int check_hdf5(struct arena *a, const char *path, struct fail *why) {
    static const char signature[] = "\211HDF\r\n\032\n";
    struct str head = {0};
    int rc = os_read_head(a, path, UNIT_MIB, &head, why);
    if (rc < 0) return rc;
    for (ptrdiff_t at = 0; at + 8 <= head.len; at = at > 0 ? 2 * at : 512) {
        if (str_equal(str_slice(head, at, at + 8), (struct str){signature, 8})) return 0;
    }
    fail_set(why, FAIL_INPUT, "%s: not an HDF5 file", path);
    return fail_hint(why, "the built-in workload reads HDF5, or trains on synthetic data without "
                          "--data-path; your own command can read anything");
}

static int check_files(struct arena *a, const struct grid_options *o, bool is_workload,
                       struct fail *why) {
    int rc = show_report_check(a, bench_files, "output", o->outputs, why);
    if (rc < 0) return rc;
    return o->data_path && is_workload ? check_hdf5(a, o->data_path, why) : 0;
}

static const struct {
    const char *option;
    size_t offset;
} workload_only[] = {
#define ONLY(name, member) \
    { name, offsetof(struct grid_options, member) }
    ONLY("--model", model),
    ONLY("--optimizer", optimizer),
    ONLY("--data-key", data_key),
    ONLY("--engine", engines),
    ONLY("--onnx", onnx),
    ONLY("--weights", weights),
    ONLY("--compile-mode", compile_mode),
    ONLY("--trtexec", trtexec),
#undef ONLY
};

static int check_command(const struct grid_options *o, struct fail *why) {
    for (size_t i = 0; i < sizeof workload_only / sizeof *workload_only; i++) {
        const char *const *given =
            (const char *const *)(const void *)((const char *)o + workload_only[i].offset);
        if (!*given) continue;
        fail_set(why, FAIL_USAGE, "%s applies only to the built-in workload",
                 workload_only[i].option);
        return fail_hint(why, "leave it out, or leave out the command after --");
    }
    if (o->inference) {
        return fail_set(why, FAIL_USAGE, "--inference applies only to the built-in workload");
    }
    return 0;
}

int grid_ask(struct arena *a, const struct grid_options *o, struct grid *b,
             struct grid_asked *ret_asked, struct fail *why) {
    *ret_asked = (struct grid_asked){.l = o->l, .is_workload = !o->base.command};
    b->is_workload = ret_asked->is_workload;
    b->is_inference = grid_is_inference(o) && b->is_workload;
    b->ranks = o->l.ranks > 0 ? o->l.ranks : 1;
    int rc = o->base.command ? check_command(o, why) : 0;
    if (rc == 0) rc = check_files(a, o, ret_asked->is_workload, why);
    if (rc == 0 && !o->base.command) rc = grid_engine_check(a, o, why);
    if (rc == 0 && o->config) rc = read_config(a, o, b, ret_asked, why);
    if (rc < 0) return rc;
    if (b->is_inference && o->bucket_caps) {
        return fail_set(why, FAIL_USAGE,
                        "--bucket-cap-mb is for training: inference has no buckets");
    }
    if (o->bucket_caps) {
        ret_asked->l.environment = grid_buckets_environment(a, ret_asked->l.environment);
    }
    if (b->is_inference) grid_engine_steps(&ret_asked->l);
    if (ret_asked->is_workload) {
        grid_workload(a, o, b, ret_asked);
        return 0;
    }
    ret_asked->command = o->base.command;
    b->title = shell_command(a, o->base.command);
    return 0;
}

// --- The grid ------------------------------------------------------------------------------------

struct asking {
    struct arena *a;
    const struct grid_options *o;
    const struct grid_asked *asked;
    const struct launch *l;
    struct grid *b;
    struct grid_space *grid;
};

static bool takes(const struct asking *k, const char *name) {
    return launch_takes(k->l, str_of(name));
}

static int not_taken(const char *option, const char *name, struct fail *why) {
    fail_set(why, FAIL_USAGE, "%s: the command has no {%s}", option, name);
    return fail_hint(why, "put {%s} where its value belongs, or use --env VARIABLE={%s}", name,
                     name);
}

// {name} by itself needs a value; {name:TEXT} can do without.
static bool needs_value(const struct asking *k, const char *name) {
    struct str braced = str_format(k->a, "{%s}", name);
    for (int i = 0; k->asked->command[i]; i++) {
        if (str_find(str_of(k->asked->command[i]), braced) >= 0) return true;
    }
    return str_find(str_of(k->asked->l.environment), braced) >= 0;
}

static int no_values(const char *option, const char *name, const char *example, struct fail *why) {
    fail_set(why, FAIL_USAGE, "the command has {%s}, but no values are given", name);
    return fail_hint(why, "for example %s %s", option, example);
}

static int default_batches(struct asking *k, struct fail *why) {
    struct grid_numbers *batches = &k->grid->batches;
    int64_t own = grid_config_number(k->asked, CONFIG_BATCH);
    for (int64_t n = 1; k->b->is_inference && n <= LARGEST_INFERENCE_BATCH; n *= 8) {
        grid_add_number(k->a, batches, n);
    }
    if (k->b->is_inference) return 0;
    if (k->asked->has_config && own == 0 && !has_section(k->a, k->asked)) {
        fail_set(why, FAIL_INPUT, "%.*s: no benchmark section and no batch size",
                 STR_ARG(k->asked->config.name));
        return fail_hint(why,
                         "give --batch-sizes 1 2 4 8, or add benchmark: batch_sizes: [1, 2, 4, 8]");
    }
    for (int64_t n = 1; n <= LARGEST_DEFAULT_BATCH; n *= 2) grid_add_number(k->a, batches, n);
    if (own > 0) grid_add_number(k->a, batches, own);
    return 0;
}

static int ask_batches(struct asking *k, struct fail *why) {
    struct grid_numbers *batches = &k->grid->batches;
    if (k->o->batch_sizes) {
        if (!takes(k, "batch")) return not_taken("--batch-sizes", "batch", why);
        return grid_read_numbers(k->a, "--batch-sizes", str_of(k->o->batch_sizes), 1, batches, why);
    }
    if (!takes(k, "batch")) return 0;
    int rc = config_numbers(k->a, k->asked, "benchmark.batch_sizes", 1, batches, why);
    return rc < 0 || batches->count > 0 ? rc : default_batches(k, why);
}

static int64_t usual_workers(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 && cores < USUAL_WORKERS ? cores : USUAL_WORKERS;
}

static int ask_workers(struct asking *k, struct fail *why) {
    struct grid_numbers *workers = &k->grid->workers;
    if (k->o->workers) {
        if (!takes(k, "workers")) return not_taken("--num-workers", "workers", why);
        return grid_read_numbers(k->a, "--num-workers", str_of(k->o->workers), 0, workers, why);
    }
    if (!takes(k, "workers")) return 0;
    int rc = config_numbers(k->a, k->asked, "benchmark.num_workers_options", 0, workers, why);
    if (rc < 0 || workers->count > 0) return rc;
    int64_t own = grid_config_number(k->asked, CONFIG_WORKERS);
    if (own > 0)
        grid_add_number(k->a, workers, own);
    else if (k->asked->is_workload)
        grid_add_number(k->a, workers, usual_workers());
    else if (needs_value(k, "workers"))
        return no_values("--num-workers", "workers", "4 8 12", why);
    return 0;
}

static enum plan_precision own_precision(const struct asking *k) {
    if (!k->asked->has_config) return PLAN_PRECISION_UNKNOWN;
    return plan_precision_find(k->asked->reading.values[CONFIG_PRECISION].word);
}

// Autocast's type where nobody says it: float16 on a GPU, as torch.cuda.amp has it, and bfloat16
// on the CPU, which has no other.
static enum plan_precision amp_of(const struct asking *k) {
    enum plan_precision own = own_precision(k);
    if (plan_precision_is_amp(own)) return own;
    return k->l->place.kind == LAUNCH_CUDA ? PLAN_AMP_FP16 : PLAN_AMP_BF16;
}

static void amp_switch(struct asking *k, const struct grid_numbers *amp) {
    for (ptrdiff_t i = 0; i < amp->count; i++) {
        grid_add_number(k->a, &k->grid->precisions, amp->items[i] ? amp_of(k) : PLAN_FP32);
    }
}

static int ask_precisions(struct asking *k, struct fail *why) {
    struct grid_numbers amp = {0}, *precisions = &k->grid->precisions;
    bool is_taken = takes(k, "amp") || takes(k, "precision");
    if (k->o->amp && k->o->precisions) {
        return fail_set(why, FAIL_USAGE, "--amp and --precision set the same thing: give only one");
    }
    if (k->o->amp && !is_taken) return not_taken("--amp", "amp", why);
    if (k->o->precisions && !takes(k, "precision"))
        return not_taken("--precision", "precision", why);
    if (k->o->precisions) {
        return grid_read_precisions(k->a, str_of(k->o->precisions), precisions, why);
    }
    struct config_value test = grid_config_value(k->a, k->asked, "benchmark.test_mixed_precision");
    if (k->o->amp) {
        int rc = grid_read_switch(k->a, "--amp", str_of(k->o->amp), &amp, why);
        if (rc < 0) return rc;
    } else if (is_taken && test.type == CONFIG_BOOL) {
        grid_add_number(k->a, &amp, 0);
        if (test.boolean) grid_add_number(k->a, &amp, 1);
    }
    amp_switch(k, &amp);
    if (precisions->count > 0 || !is_taken) return 0;
    enum plan_precision own = own_precision(k);
    if (own)
        grid_add_number(k->a, precisions, own);
    else if (k->asked->is_workload)
        grid_add_number(k->a, precisions, PLAN_FP32);
    else if (needs_value(k, "precision")) {
        return no_values("--precision", "precision", "fp32 amp-bf16", why);
    }
    return 0;
}

static int ask_pins(struct asking *k, struct fail *why) {
    struct grid_numbers *pins = &k->grid->pins;
    if (k->o->pin_memory) {
        if (!takes(k, "pin_memory")) return not_taken("--pin-memory", "pin_memory", why);
        return grid_read_switch(k->a, "--pin-memory", str_of(k->o->pin_memory), pins, why);
    }
    if (!takes(k, "pin_memory")) return 0;
    struct config_value test = grid_config_value(k->a, k->asked, "benchmark.test_pin_memory");
    if (test.type == CONFIG_BOOL || k->asked->is_workload) grid_add_number(k->a, pins, 0);
    if (test.type != CONFIG_BOOL || !test.boolean) return 0;
    if (k->l->place.kind == LAUNCH_CUDA)
        grid_add_number(k->a, pins, 1);
    else
        grid_note(k->b, STR("pin_memory makes no difference without a GPU: not varied "
                            "(--pin-memory both varies it)"));
    return 0;
}

static int ask_compile(struct asking *k, struct fail *why) {
    struct grid_numbers *compiles = &k->grid->compiles;
    if (k->o->compile && !takes(k, "compile")) return not_taken("--compile", "compile", why);
    if (k->o->compile) {
        return grid_read_switch(k->a, "--compile", str_of(k->o->compile), compiles, why);
    }
    if (k->asked->is_workload && takes(k, "compile")) grid_add_number(k->a, compiles, 0);
    return 0;
}

// A collective's algorithm cannot matter where the ranks talk by gloo: what its values differ in is
// chance.
static void mark_idle_axes(struct asking *k) {
    struct str rest = str_of(k->l->options->environment);
    if (k->l->place.kind == LAUNCH_CUDA) return;
    while (rest.p) {
        struct str value = str_cut(&rest, '\n'), name = str_cut(&value, '=');
        if (!str_starts(name, STR("NCCL_"))) continue;
        for (ptrdiff_t i = 0; i < k->grid->axis_count; i++) {
            struct grid_axis *axis = &k->grid->axes[i];
            if (str_find(value, str_format(k->a, "{%.*s}", STR_ARG(axis->name))) < 0) continue;
            axis->is_idle = true;
            grid_note(k->b, str_format(k->a,
                                       "%.*s has no effect here: on the CPU, ranks use gloo, not "
                                       "NCCL; differences between its values are chance",
                                       STR_ARG(axis->name)));
        }
    }
}

static int ask_axes(struct asking *k, struct fail *why) {
    int rc = k->b->is_inference ? grid_engine_axis(k->o, k->b, why) : 0;
    if (rc == 0) rc = grid_buckets_read(k->a, k->o->bucket_caps, k->grid, why);
    if (rc == 0) rc = grid_read_axes(k->a, k->o->axes, k->grid, why);
    for (ptrdiff_t i = 0; rc == 0 && i < k->grid->axis_count; i++) {
        const char *name = str_z(k->a, k->grid->axes[i].name);
        if (!takes(k, name)) {
            rc = not_taken(str_format(k->a, "--axis %s", name).p, name, why);
        }
    }
    if (rc == 0 && k->o->data_path && !k->asked->is_workload && !takes(k, "data_path")) {
        rc = not_taken("--data-path", "data_path", why);
    }
    return rc;
}

// The column says Yes and No when there is but one kind of AMP to speak of.
static bool says_amp(const struct grid_numbers *precisions) {
    int kinds = 0;
    for (ptrdiff_t i = 0; i < precisions->count; i++) {
        enum plan_precision p = (enum plan_precision)precisions->items[i];
        if (p != PLAN_FP32 && p != PLAN_AMP_FP16 && p != PLAN_AMP_BF16) return false;
        kinds += p != PLAN_FP32;
    }
    return kinds <= 1;
}

int grid_ask_grid(const struct grid_options *o, const struct grid_asked *asked,
                  const struct launch *l, struct grid *b, struct fail *why) {
    struct asking k = {b->arena, o, asked, l, b, &b->grid};
    static int (*const parts[])(struct asking *, struct fail *) = {
        ask_batches, ask_workers, ask_precisions, ask_pins, ask_compile, ask_axes};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int rc = parts[i](&k, why);
        if (rc < 0) return rc;
    }
    mark_idle_axes(&k);
    b->grid.by_amp = !b->is_inference && says_amp(&b->grid.precisions);
    return 0;
}
