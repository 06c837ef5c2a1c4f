// SPDX-License-Identifier: Apache-2.0
// Inference of one model by several engines (python/batchfit/engine; doc/engines.md): an axis of
// the benchmark like any other, before which one trial makes what all engines are given alike, and
// after each of which its outputs are judged.
#include "job/grid/grid.h"

#include "base/near.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 50, WARMUP = 5 };

static const char *const engines[] = {
    "torch", "torch-compile", "onnxruntime", "onnxruntime-tensorrt", "trtexec", NULL,
};

// How far from fp32 an output may be, relative to the largest one: half precision has 11 bits, and
// bfloat16 three fewer.
static const struct {
    enum plan_precision precision;
    double relative;
} tolerances[] = {
    {PLAN_FP32, 1e-3}, {PLAN_FP16, 2e-2},     {PLAN_AMP_FP16, 2e-2},
    {PLAN_BF16, 0.16}, {PLAN_AMP_BF16, 0.16},
};

bool grid_is_inference(const struct grid_options *o) {
    return o->inference || o->engines || o->onnx;
}

// --- What is asked -------------------------------------------------------------------------------

static const struct {
    const char *option;
    size_t offset;
    const char *instead; // NULL: leave it out
} of_training[] =
    {
#define OF(name, member, instead) \
    { name, offsetof(struct grid_options, member), instead }
        OF("--num-workers", workers, NULL),
        OF("--pin-memory", pin_memory, NULL),
        OF("--optimizer", optimizer, NULL),
        OF("--data-path", data_path, NULL),
        OF("--data-key", data_key, NULL),
        OF("--compile", compile, "--engine torch torch-compile"),
        OF("--amp", amp, "--precision fp32 fp16"),
},
  of_engines[] = {
      OF("--weights", weights, "--engine torch"),
      OF("--compile-mode", compile_mode, "--engine torch torch-compile"),
      OF("--trtexec", trtexec, "--engine torch trtexec"),
      OF("--keep-engines", keep_engines, "--engine torch onnxruntime"),
#undef OF
};

static const char *text_at(const struct grid_options *o, size_t offset) {
    return *(const char *const *)(const void *)((const char *)o + offset);
}

static int check_options(const struct grid_options *o, struct fail *why) {
    bool is_inference = grid_is_inference(o);
    for (size_t i = 0; is_inference && i < sizeof of_training / sizeof *of_training; i++) {
        if (!text_at(o, of_training[i].offset)) continue;
        fail_set(why, FAIL_USAGE, "%s is for training, and this is inference",
                 of_training[i].option);
        return fail_hint(why, "%s%s", of_training[i].instead ? "write " : "leave it out",
                         of_training[i].instead ? of_training[i].instead : "");
    }
    for (size_t i = 0; !is_inference && i < sizeof of_engines / sizeof *of_engines; i++) {
        if (!text_at(o, of_engines[i].offset)) continue;
        fail_set(why, FAIL_USAGE, "%s needs an inference engine", of_engines[i].option);
        return fail_hint(why, "add %s", of_engines[i].instead);
    }
    if (!is_inference) return 0;
    if (o->l.ranks > 1) return fail_set(why, FAIL_USAGE, "--ranks is for training");
    if (!o->weights || o->model || !o->onnx) return 0;
    fail_set(why, FAIL_USAGE, "--weights is for a model; an ONNX file has its own");
    return fail_hint(
        why, "name the --model that the ONNX file was exported from, or leave out --weights");
}

static int check_file(struct arena *a, const char *option, const char *path, struct fail *why) {
    struct str head;
    if (!path) return 0;
    int rc = os_read_head(a, path, 1, &head, why);
    return rc < 0 ? fail_wrap(why, "%s", option) : 0;
}

int grid_engine_check(struct arena *a, const struct grid_options *o, struct fail *why) {
    int rc = check_options(o, why);
    if (rc == 0) rc = check_file(a, "--onnx", o->onnx, why);
    if (rc == 0) rc = check_file(a, "--weights", o->weights, why);
    if (rc < 0 || !o->trtexec || !strchr(o->trtexec, '/')) return rc;
    if (access(o->trtexec, X_OK) == 0) return 0;
    return fail_set(why, FAIL_INPUT, "--trtexec %s: %s", o->trtexec, strerror(errno));
}

static int check_engine(struct arena *a, struct str word, struct fail *why) {
    struct near near = {.typed = word};
    for (int i = 0; engines[i]; i++) {
        if (str_is(word, engines[i])) return 0;
        near_offer(&near, str_of(engines[i]));
    }
    fail_set(why, FAIL_USAGE,
             "--engine: '%.*s' is not one of torch, torch-compile, onnxruntime, "
             "onnxruntime-tensorrt, trtexec",
             STR_ARG(word));
    return near.count ? fail_hint(why, "nearest: %.*s", STR_ARG(near_text(a, &near))) : FAIL_USAGE;
}

// The first axis, so that its column stands before the figures of every table.
int grid_engine_axis(const struct grid_options *o, struct grid *b, struct fail *why) {
    const char *usual = o->onnx && !o->model ? "onnxruntime" : "torch";
    struct grid_axis axis = {.name = STR("engine")};
    struct str rest = str_of(o->engines ? o->engines : usual);
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ','));
        int rc = check_engine(b->arena, word, why);
        if (rc < 0) return rc;
        if (!grid_axis_has(&axis, word))
            *arena_push(b->arena, &axis.values, &axis.count, &axis.capacity) = word;
    }
    struct grid_space *g = &b->grid;
    *arena_push(b->arena, &g->axes, &g->axis_count, &g->axis_capacity) = axis;
    return 0;
}

// --- The command ---------------------------------------------------------------------------------

static void add_word(struct str_words *w, const char *option, const char *text) {
    if (!text) return;
    str_word_add(w, str_of(option));
    str_word_add(w, grid_literal(w->arena, str_of(text)));
}

void grid_engine_steps(struct launch_options *l) {
    if (l->steps <= 0) l->steps = STEPS;
    if (l->warmup <= 0) l->warmup = WARMUP;
}

void grid_engine_words(const struct grid_options *o, const struct grid_asked *asked,
                       struct str_words *w) {
    long long steps = launch_warmup(&asked->l) + launch_steps(&asked->l);
    str_word_add(w, STR("--steps"));
    str_word_add(w, str_format(w->arena, "%lld", steps));
    add_word(w, "--onnx", o->onnx);
    add_word(w, "--weights", o->weights);
    add_word(w, "--compile-mode", o->compile_mode);
    add_word(w, "--trtexec", o->trtexec);
    add_word(w, "--keep", o->keep_engines);
}

void grid_engine_values(const struct grid *b, struct launch_values *v) {
    struct buf names = buf_new(b->arena), precisions = buf_new(b->arena);
    const struct grid_space *g = &b->grid;
    for (ptrdiff_t i = 0; b->is_inference && i < g->axes[0].count; i++) {
        buf_join(&names, ",", g->axes[0].values[i]);
    }
    for (ptrdiff_t i = 0; i < g->precisions.count; i++) {
        enum plan_precision precision = (enum plan_precision)g->precisions.items[i];
        buf_format(&precisions, "%s%s", i ? "," : "", plan_precision_name(precision));
    }
    launch_value(b->arena, v, "engines", buf_str(&names));
    launch_value(b->arena, v, "precisions", buf_str(&precisions));
    launch_value(b->arena, v, "prepared", b->prepared);
    launch_switch(b->arena, v, "prepare", b->is_preparing);
}

// --- The folder ----------------------------------------------------------------------------------

// Named by the process, so that a later call removes what a killed one has left.
static void remove_folder(struct arena *a, const char *path) {
    struct str *names;
    ptrdiff_t count;
    if (os_list(a, path, "", &names, &count, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        unlink(str_format(a, "%s/%.*s", path, STR_ARG(names[i])).p);
    }
    rmdir(path);
}

static void sweep(struct arena *a, const char *parent) {
    struct str *names;
    ptrdiff_t count;
    if (os_list(a, parent, "", &names, &count, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < count; i++) {
        int64_t pid;
        if (!str_to_i64(names[i], &pid) || pid <= 0 || pid > INT32_MAX) continue;
        if (kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        remove_folder(a, str_format(a, "%s/%.*s", parent, STR_ARG(names[i])).p);
    }
}

int grid_engine_folder(struct grid *b, struct fail *why) {
    struct str parent = str_format(b->arena, "%.*s/engines", STR_ARG(os_cache_dir(b->arena)));
    sweep(b->arena, parent.p);
    b->prepared = str_format(b->arena, "%s/%d", parent.p, (int)getpid());
    remove_folder(b->arena, b->prepared.p);
    return os_make_dirs(b->arena, b->prepared.p, why);
}

void grid_engine_forget(const struct grid *b) {
    if (b->prepared.len > 0) remove_folder(b->arena, b->prepared.p);
}

// --- What it showed ------------------------------------------------------------------------------

static double tolerance_of(const struct grid_options *o, enum plan_precision precision) {
    if (o->tolerance >= 0) return o->tolerance;
    for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++) {
        if (tolerances[i].precision == precision) return tolerances[i].relative;
    }
    return tolerances[0].relative;
}

void grid_engine_judge(struct arena *a, const struct grid_options *o, const struct grid_setting *s,
                       const struct launch_result *result, struct grid_trial *trial) {
    const struct steps *steps = &result->trial.steps;
    const struct steps_outputs *out = &steps->outputs;
    if (steps->rank_count > 0) {
        trial->engine_version = str_copy(a, steps->ranks[0].framework_version);
    }
    trial->outputs = *out;
    trial->outputs.is_said = out->is_said && out->problem.len == 0;
    trial->outputs.reference = str_copy(a, out->reference);
    trial->outputs.problem = (struct str){0};
    bool ran = trial->status == LAUNCH_OK || trial->status == LAUNCH_ALMOST;
    double most = tolerance_of(o, s->precision);
    if (!ran || !out->is_said || (out->problem.len == 0 && out->max_rel <= most)) return;
    trial->differs = true;
    trial->reason = out->problem.len > 0
                        ? str_format(a, "wrong outputs: %.*s (%.*s)", STR_ARG(out->problem),
                                     STR_ARG(out->reference))
                        : str_format(a,
                                     "outputs differ by %.3g (relative to the largest), more than "
                                     "%.3g; reference: %.*s",
                                     out->max_rel, most, STR_ARG(out->reference));
}

bool grid_engine_is_absent(const struct grid *b, const struct grid_setting *s) {
    for (ptrdiff_t i = 0; b->is_inference && i < b->rows.count; i++) {
        const struct grid_row *r = &b->rows.items[i];
        bool is_same = str_equal(r->setting.axes[0], s->axes[0]);
        if (r->status == GRID_ABSENT && is_same) return true;
    }
    return false;
}

void grid_engine_notes(const struct grid_options *o, struct grid *b) {
    bool is_compared = false, has_run = false;
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        is_compared = is_compared || b->rows.items[i].outputs.is_said ||
                      b->rows.items[i].status == GRID_DIFFERS;
        has_run = has_run || b->rows.items[i].sample_count > 0;
    }
    if ((o->model || !o->onnx) && !o->weights) {
        grid_note(b, STR("the weights are random: fine for speed and for comparing engines, not "
                         "for results (--weights FILE)"));
    }
    if (has_run && !is_compared) {
        grid_note(b, STR("outputs were not compared: the reference of an ONNX file needs "
                         "onnxruntime or onnx (pip install onnxruntime)"));
    }
}

void grid_engine_findings(struct grid *b) {
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        if (b->rows.items[i].status != GRID_DIFFERS) continue;
        struct grid_finding finding = {
            .id = "outputs-differ",
            .what = "the outputs are wrong",
            .remedy = "use fp32 or bf16 with this engine, keep layers that overflow in fp32, or "
                      "export again; raise --tolerance if the difference is acceptable",
            .level = GRID_WARNING,
            .evidence = str_format(
                b->arena, "%.*s: %.*s",
                STR_ARG(grid_setting_text(b->arena, &b->grid, &b->rows.items[i].setting, true)),
                STR_ARG(b->rows.items[i].reason)),
            .row = i,
        };
        *arena_push(b->arena, &b->findings.items, &b->findings.count, &b->findings.capacity) =
            finding;
    }
}
