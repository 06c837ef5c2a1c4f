// SPDX-License-Identifier: Apache-2.0
// A config for inference has its batch and its precision where a training's has none: in a section
// of its own. What it leaves open, the training's keys answer; but nothing is written to those.
#include "job/question/question.h"

// In the order in which they win.
static const char *const sections[] = {"inference", "infer", "prediction", "predict", "test", NULL};
static const char *const batch_keys[] = {"batch_size", "per_device_eval_batch_size",
                                         "eval_batch_size", NULL};
static const char *const precision_keys[] = {"precision",   "mixed_precision",
                                             "use_amp",     "amp",
                                             "torch_dtype", "dtype",
                                             "fp16",        "bf16",
                                             "half",        NULL};

static const char *const size_keys[] = {"img_size", "image_size", "imgsz", "input_size", NULL};

bool question_infer_key(struct arena *a, const struct config *c, struct str prefix,
                        const char *const *keys, struct str *ret_path) {
    struct config_value value;
    for (int i = 0; sections[i]; i++) {
        for (int k = 0; keys[k]; k++) {
            struct str path = str_format(a, "%.*s%s%s.%s", STR_ARG(prefix), prefix.len ? "." : "",
                                         sections[i], keys[k]);
            int rc = config_get(a, c, path, &value, NULL);
            if (rc < 0 || value.type == CONFIG_ABSENT || value.type == CONFIG_NESTED) continue;
            *ret_path = path;
            return true;
        }
    }
    return false;
}

static bool is_in_file(const struct config_value *v) {
    return v->line > 0;
}

// Where training has its place in the file, a batch without a word of evaluation is the training's.
static bool is_trainings(const struct config_reading *r) {
    const struct config_value *batch = &r->values[CONFIG_BATCH];
    return is_in_file(batch) &&
           (is_in_file(&r->values[CONFIG_LR]) || is_in_file(&r->values[CONFIG_OPTIMIZER]) ||
            str_find(batch->path, STR("train")) >= 0);
}

int question_infer_roles(struct arena *a, const struct config *c,
                         const struct config_options *asked, struct config_reading *ret_reading,
                         bool *ret_is_trainings, struct fail *why) {
    struct config_options options = *asked;
    options.inference = true;
    struct config_reading training = {0};
    struct fail unheard;
    bool has_training = config_read_roles(a, c, asked, &training, &unheard) == 0;
    bool is_named = asked->keys[CONFIG_BATCH].len > 0;
    *ret_is_trainings = false;
    if (!is_named &&
        !question_infer_key(a, c, asked->section, batch_keys, &options.keys[CONFIG_BATCH])) {
        const struct config_value *eval = &training.values[CONFIG_EVAL_BATCH];
        if (has_training && eval->type == CONFIG_INT && is_in_file(eval)) {
            options.keys[CONFIG_BATCH] = eval->path;
        } else {
            // Where there is no key, a new one would be the training's.
            *ret_is_trainings = has_training && (is_trainings(&training) ||
                                                 !is_in_file(&training.values[CONFIG_BATCH]));
        }
    }
    bool has_precision =
        asked->keys[CONFIG_PRECISION].len > 0 ||
        question_infer_key(a, c, asked->section, precision_keys, &options.keys[CONFIG_PRECISION]);
    struct str *size = &options.keys[CONFIG_IMAGE_SIZE];
    if (size->len == 0) (void)question_infer_key(a, c, asked->section, size_keys, size);
    int rc = config_read_roles(a, c, &options, ret_reading, why);
    if (rc < 0 || !has_training || has_precision) return rc;
    // The words of the training's key, without its place: it must not be written.
    struct config_value *precision = &ret_reading->values[CONFIG_PRECISION];
    *precision = training.values[CONFIG_PRECISION];
    precision->path = (struct str){0};
    precision->line = precision->column = 0;
    return 0;
}
