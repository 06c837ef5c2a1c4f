// SPDX-License-Identifier: Apache-2.0
// The command of the built-in workload (python/batchfit/workload): a model by its name as people
// write it, or a small network that two numbers describe.
#include "job/grid/grid.h"
#include "predict/forecast/forecast.h"

static void add_text(struct str_words *w, const char *option, struct str text) {
    if (text.len == 0) return;
    str_word_add(w, str_of(option));
    str_word_add(w, grid_literal(w->arena, text));
}

static void add_count(struct str_words *w, const char *option, int64_t value) {
    if (value > 0) add_text(w, option, str_format(w->arena, "%lld", (long long)value));
}

// The network of seed 003's configs is said by two numbers.
static int64_t model_number(struct arena *a, const struct grid_asked *asked, int64_t given,
                            const char *const *paths) {
    for (int i = 0; given <= 0 && paths[i]; i++) {
        struct config_value v = grid_config_value(a, asked, paths[i]);
        if (v.type == CONFIG_INT && v.integer > 0) given = v.integer;
    }
    return given;
}

struct workload {
    struct str model, optimizer;
    int64_t depth, hidden, image_size, sequence_length, classes;
};

// The tapes know which library a name is of. Any other is looked for where it usually comes from;
// the workload says so when it is not there.
static void find_model(struct arena *a, struct workload *w) {
    struct tape_store store;
    struct forecast_model model;
    struct str spelled = w->model;
    if (spelled.len == 0 || str_find(spelled, STR(":")) >= 0) return;
    bool is_known = tape_store_open(a, (struct tape_places){0}, &store, NULL) == 0 &&
                    forecast_find_model(a, &store, spelled, &model, NULL) == 0;
    ptrdiff_t at = 0;
    const struct tape_entry *first = is_known ? tape_store_next(&store, model.name, &at) : NULL;
    if (first) {
        w->model = first->header.model;
        if (w->image_size == 0) w->image_size = model.image_size;
        return;
    }
    const char *source = str_find(spelled, STR("yolo")) >= 0 ? "ultralytics"
                         : str_find(spelled, STR("/")) >= 0  ? "hf"
                                                             : "timm";
    w->model = str_format(a, "%s:%.*s", source, STR_ARG(spelled));
}

static struct workload workload_of(struct arena *a, const struct grid_options *o,
                                   const struct grid_asked *asked) {
    static const char *const depths[] = {"model.depth", "depth", NULL};
    static const char *const hiddens[] = {"model.hidden", "model.hidden_dim", "hidden", NULL};
    const struct config_value *values = asked->reading.values;
    struct workload w = {
        .model = str_of(o->model),
        .optimizer = str_of(o->optimizer),
        .depth = model_number(a, asked, o->depth, depths),
        .hidden = model_number(a, asked, o->hidden, hiddens),
        .image_size =
            o->image_size > 0 ? o->image_size : grid_config_number(asked, CONFIG_IMAGE_SIZE),
        .sequence_length = o->sequence_length > 0
                               ? o->sequence_length
                               : grid_config_number(asked, CONFIG_SEQUENCE_LENGTH),
        .classes = o->classes > 0 ? o->classes : grid_config_number(asked, CONFIG_CLASSES),
    };
    if (w.model.len == 0 && asked->has_config && values[CONFIG_MODEL].type == CONFIG_TEXT) {
        w.model = values[CONFIG_MODEL].text;
    }
    const char *known =
        asked->has_config ? plan_optimizer_find(values[CONFIG_OPTIMIZER].text) : NULL;
    if (w.optimizer.len == 0 && known) w.optimizer = str_of(known);
    find_model(a, &w);
    return w;
}

static void add_model(struct buf *b, const struct workload *w) {
    if (w->model.len > 0) {
        buf_format(b, ", %.*s", STR_ARG(w->model));
        return;
    }
    buf_add(b, STR(", the small network"));
    if (w->depth > 0) buf_format(b, ", depth %lld", (long long)w->depth);
    if (w->hidden > 0) buf_format(b, ", hidden %lld", (long long)w->hidden);
}

static struct str inference_title(struct arena *a, const struct workload *w,
                                  const struct grid_options *o) {
    struct buf b = buf_new(a);
    buf_add(&b, STR("inference"));
    if (o->onnx) buf_format(&b, ", %s", o->onnx);
    if (w->model.len > 0 || !o->onnx) add_model(&b, w);
    if (w->image_size > 0) buf_format(&b, ", %lld px", (long long)w->image_size);
    return buf_str(&b);
}

static struct str workload_title(struct arena *a, const struct workload *w, const char *data) {
    struct buf b = buf_new(a);
    buf_add(&b, STR("built-in workload"));
    add_model(&b, w);
    if (w->image_size > 0) buf_format(&b, ", %lld px", (long long)w->image_size);
    buf_format(&b, ", %s", data ? data : "synthetic data");
    return buf_str(&b);
}

void grid_workload(struct arena *a, const struct grid_options *o, struct grid *b,
                   struct grid_asked *asked) {
    static const char *const training[] = {"{python}",
                                           "{shipped}/start.py",
                                           "batchfit.workload",
                                           "--batch-size",
                                           "{batch}",
                                           "--num-workers",
                                           "{workers}",
                                           "--precision",
                                           "{precision}",
                                           "{pin_memory:--pin-memory}",
                                           "{compile:--compile}",
                                           "--device",
                                           "{device}",
                                           NULL};
    static const char *const inference[] = {"{python}",
                                            "{shipped}/start.py",
                                            "batchfit.engine",
                                            "--batch-size",
                                            "{batch}",
                                            "--engine",
                                            "{engine}",
                                            "--precision",
                                            "{precision}",
                                            "--engines",
                                            "{engines}",
                                            "--precisions",
                                            "{precisions}",
                                            "--folder",
                                            "{prepared}",
                                            "{prepare:--prepare}",
                                            "--device",
                                            "{device}",
                                            NULL};
    const char *const *fixed = b->is_inference ? inference : training;
    struct str_words w = {.arena = a};
    struct workload of = workload_of(a, o, asked);
    for (int i = 0; fixed[i]; i++) str_word_add(&w, str_of(fixed[i]));
    add_text(&w, "--model", of.model);
    if (!b->is_inference) add_text(&w, "--optimizer", of.optimizer);
    add_text(&w, "--data-path", str_of(o->data_path));
    add_text(&w, "--data-key", str_of(o->data_key));
    add_count(&w, "--depth", of.depth);
    add_count(&w, "--hidden", of.hidden);
    add_count(&w, "--img-size", of.image_size);
    add_count(&w, "--seq-len", of.sequence_length);
    add_count(&w, "--num-classes", of.classes);
    if (b->is_inference) grid_engine_words(o, asked, &w);
    asked->command = w.items;
    b->title = b->is_inference ? inference_title(a, &of, o) : workload_title(a, &of, o->data_path);
}

void grid_workload_failure(struct arena *a, const struct launch_result *result,
                           struct grid_trial *trial) {
    // 4 as ours: a library or the device lacks what was asked for; 6: the engine is not installed.
    enum { EXIT_MACHINE = 4, EXIT_ABSENT = 6 };
    static const char *const marks[] = {"batchfit.workload: ", "batchfit.engine: "};
    const struct failure *ending = &result->trial.ending;
    struct str rest = ending->last_lines;
    if (trial->status != LAUNCH_FAILED) return;
    while (rest.len > 0) {
        struct str line = str_trim(str_line(&rest));
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            struct str mark = str_of(marks[i]);
            if (!str_starts(line, mark)) continue;
            trial->reason = str_copy(a, str_slice(line, mark.len, line.len));
            trial->is_absent = ending->exit_status == EXIT_ABSENT;
            trial->input_is_bad = ending->exit_status != EXIT_MACHINE && !trial->is_absent;
            trial->hint = trial->last_lines = (struct str){0};
        }
    }
}
