// SPDX-License-Identifier: Apache-2.0
// What a trainer itself refuses, and so is no training to be answered; what it calls checkpointing
// and is none; and devices that share each sample.
#include "records/config/dialect_int.h"

#include <math.h>
#include <stdarg.h>

void config_reader_refuse(struct reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct str text = str_format_list(r->arena, format, args);
    va_end(args);
    config_reader_warn(r, "%.*s", STR_ARG(text));
    if (r->reading->conflict.len == 0) r->reading->conflict = text;
}

// Torch's BatchSampler takes no batch below 1, peft no rank (tuners/lora/layer.py, update_layer),
// and nothing is cut to fewer tokens than 1. Above `most` a number is a slip of the pen.
static const struct {
    enum config_role role;
    double most;
} counts[] = {{CONFIG_BATCH, 1 << 24},
              {CONFIG_ACCUMULATION, 1 << 24},
              {CONFIG_SEQUENCE_LENGTH, 1 << 28},
              {CONFIG_TARGET_LENGTH, 1 << 28},
              {CONFIG_LORA_RANK, 1 << 16}};

static bool is_of_interest(const struct reader *r, enum config_role role) {
    const struct config_value *v = &r->reading->values[role];
    // "-1" of older scripts: as long as the model's positions
    static const char *const open[] = {"block_size", "max_seq_length", "max_source_length", NULL};
    if (v->line <= 0 || v->assumed || isnan(v->number)) return false;
    if (v->type != CONFIG_INT && v->type != CONFIG_SPECIAL) return false;
    if (v->number == -1 && str_is_one_of(str_last(v->path, '.'), open)) return false;
    return role != CONFIG_LORA_RANK || config_guard_of(r->reading, "adapter");
}

void config_reader_counts(struct reader *r) {
    static const char *const trainers[] = {"huggingface",  "trl",       "swift",
                                           "llamafactory", "axolotl",   "deepspeed",
                                           "oumi",         "torchtune", NULL};
    if (!str_is_one_of(r->dialect->id, trainers) || r->options->inference) return;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const struct config_value *v = &r->reading->values[counts[i].role];
        if (!is_of_interest(r, counts[i].role)) continue;
        const char *what = v->number > counts[i].most      ? "more than any training has"
                           : v->number < 1                 ? "the trainer takes 1 or more"
                           : v->number != trunc(v->number) ? "the trainer takes whole numbers"
                                                           : NULL;
        if (!what) continue;
        struct str file = v->file.len > 0 ? v->file : r->reading->name;
        config_reader_refuse(r, "%.*s:%d: %.*s = %.*s: %s", STR_ARG(file), v->line,
                             STR_ARG(v->path), STR_ARG(v->text), what);
    }
}

// transformers' TrainingArguments: "At most one of fp16 and bf16 can be True, but not both".
void config_reader_both_types(struct reader *r) {
    static const char *const strict[] = {"huggingface", "trl", "swift", "llamafactory", NULL};
    struct precision_keys keys = {0};
    if (!str_is_one_of(r->dialect->id, strict) || r->options->inference) return;
    config_precision_find(&r->scope, r->dialect->roles[CONFIG_PRECISION].places, &keys);
    const struct precision_key *fp16 = config_precision_both(&r->scope, &keys);
    if (!fp16) return;
    config_reader_refuse(r, "%.*s: %.*s = true, but bf16 is true, too: the trainer takes only one",
                         STR_ARG(config_node_place(r->arena, r->config, fp16->match.place.key)),
                         STR_ARG(fp16->match.path));
}

enum { SPLITS = 6 };

// Degrees of what splits a sample, of which those of data parallelism are what is left; by the
// dialect that a trainer's begin with.
static const struct {
    const char *dialect;
    const char *places[SPLITS];
} splits[] = {
    // distributed/parallel_dims.py
    {"torchtitan",
     {"parallelism.tensor_parallel_degree", "parallelism.pipeline_parallel_degree",
      "parallelism.context_parallel_degree"}},
    // utils/distributed.py; the degree of sequences is what its context's was called before
    {"axolotl", {"tensor_parallel_size", "context_parallel_size", "sequence_parallel_degree"}},
    {"swift", {"sequence_parallel_size"}},
    // utils/deepspeed/deepspeed.py (dp_size), its older options and those with a dot
    {"openrlhf_cli", {"ds.ring_attn_size", "ds.tensor_parallel_size"}},
    {"openrlhf", {"ring_attn_size", "ds_tensor_parallel_size"}},
    // accelerate's, in its own file and in TrainingArguments
    {"",
     {"**.parallelism_config_tp_size", "**.parallelism_config_cp_size",
      "**.parallelism_config_sp_size", "**.parallelism_config.tp_size",
      "**.parallelism_config.cp_size", "**.parallelism_config.sp_size"}},
};

// Whose settings become those of transformers' Trainer.
static const char *const trainers[] = {"huggingface",  "trl",     "swift",
                                       "llamafactory", "axolotl", NULL};

// The switch at a place of the section, where it is on.
static const struct match *switched_on(struct reader *r, const char *place, struct matches *m) {
    *m = (struct matches){0};
    config_scope_find(&r->scope, str_of(place), m);
    if (m->count == 0) return NULL;
    const struct scalar s =
        config_scalar_read(r->config, config_node_follow(m->items[0].place.value));
    return s.type == CONFIG_BOOL && s.boolean ? &m->items[0] : NULL;
}

// A sample is told from the others of its micro-batch: of 64 samples in 32 steps each has one to be
// told from, not 63.
static void find_negatives(struct reader *r) {
    struct config_reading *to = r->reading;
    for (ptrdiff_t i = 0; i < to->guard_count && to->negatives.len == 0; i++) {
        const struct config_guard *g = &to->guards[i];
        if (g->traits & CONFIG_NEGATIVES)
            to->negatives = g->value.len > 0 ? str_format(r->arena, "%.*s: %.*s", STR_ARG(g->path),
                                                          STR_ARG(g->value))
                                             : g->path;
    }
}

// Each refuses more than one micro-step where every layer is updated in the backward pass:
// torchtune's recipes/full_finetune_single_device.py, LLaMA-Factory's train/trainer_utils.py,
// transformers' trainer_optimizer.py.
void config_reader_unaccumulated(struct reader *r) {
    static const struct {
        const char *dialect, *place;
    } switches[] = {{"torchtune", "optimizer_in_bwd"},
                    {"llamafactory", "galore_layerwise"},
                    {"llamafactory", "apollo_layerwise"}};
    const struct config_value *optimizer = &r->reading->values[CONFIG_OPTIMIZER];
    const struct config_value *steps = &r->reading->values[CONFIG_ACCUMULATION];
    struct str *by = &r->reading->unaccumulated;
    struct matches m;
    if (r->options->inference) return;
    find_negatives(r);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const bool is_its = str_is(r->dialect->id, switches[i].dialect);
        const struct match *on = is_its ? switched_on(r, switches[i].place, &m) : NULL;
        if (on) *by = str_format(r->arena, "%.*s: true", STR_ARG(on->path));
    }
    if (str_is_one_of(r->dialect->id, trainers) && str_ends(optimizer->text, STR("layerwise")))
        *by =
            str_format(r->arena, "%.*s: %.*s", STR_ARG(optimizer->path), STR_ARG(optimizer->text));
    if (by->len == 0 || steps->type != CONFIG_INT || steps->integer < 2) return;
    config_reader_refuse(r, "%.*s:%d: %.*s = %.*s, but %.*s: the trainer takes only one of them",
                         STR_ARG(steps->file.len > 0 ? steps->file : r->reading->name), steps->line,
                         STR_ARG(steps->path), STR_ARG(steps->text), STR_ARG(*by));
}

// With split_batches the batch of a transformers Trainer is that of all devices
// (training_args.py, __post_init__).
void config_reader_split(struct reader *r) {
    struct config_value *batch = &r->reading->values[CONFIG_BATCH];
    struct matches m;
    if (!str_is_one_of(r->dialect->id, trainers) || batch->unit != 'D') return;
    const struct match *on = switched_on(r, "@.accelerator_config.split_batches", &m);
    if (!on) return;
    batch->unit = 'G';
    config_reader_warn(r, "line %d: %.*s: the batch is split over the GPUs", on->place.value->line,
                       STR_ARG(on->path));
}

// Megatron-LM's arguments.py, which NeMo and ms-swift pass on: "selective", which
// --recompute-activations is short for, recomputes only the attention scores.
void config_reader_selective(struct reader *r) {
    static const char *const dialects[] = {"megatron", "swift_megatron", "nemo", NULL};
    static const char *const switches[] = {"recompute_activations", "recompute-activations", NULL};
    struct config_value *v = &r->reading->values[CONFIG_CHECKPOINTING];
    const bool is_short = v->boolean && str_is_one_of(str_last(v->path, '.'), switches);
    if (!str_is_one_of(r->dialect->id, dialects)) return;
    if (!is_short && !str_equal_nocase(v->text, STR("selective"))) return;
    v->boolean = false;
    config_reader_warn(r,
                       "line %d: %.*s = %.*s: only the attention scores are recomputed, which "
                       "flash and fused attention do not keep: counted as no checkpointing",
                       v->line, STR_ARG(v->path), STR_ARG(v->text));
}

void config_reader_sharing(struct reader *r) {
    int trainer = 0;
    while (!str_starts(r->dialect->id, str_of(splits[trainer].dialect))) trainer++;
    const char *const *places = splits[trainer].places;
    struct config_value *ranks = &r->reading->values[CONFIG_RANKS];
    int64_t *by = &r->reading->sharing;
    *by = 1;
    for (int i = 0; i < SPLITS && places[i]; i++) {
        struct matches m = {0};
        config_scope_find(&r->scope, str_of(places[i]), &m);
        if (m.count == 0) continue;
        struct scalar s = config_scalar_read(r->config, config_node_follow(m.items[0].place.value));
        if (s.type == CONFIG_INT && s.integer > 1 && s.integer <= INT16_MAX) *by *= s.integer;
    }
    if (*by < 2 || ranks->type != CONFIG_INT || ranks->integer % *by != 0) return;
    ranks->integer /= *by;
    ranks->number = (double)ranks->integer;
}
