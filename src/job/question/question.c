// SPDX-License-Identifier: Apache-2.0
// The command line wins over the config, the config over the trainer's documented default.
#include "job/question/question.h"

#include "base/near.h"
#include "base/out.h"
#include "base/shell.h"
#include "job/question/question_int.h"
#include "predict/sim/sim.h"

#include <stdio.h>

void question_note(struct question *q, struct str note) {
    str_list_add(q->arena, &q->notes, note);
}

void question_say(struct question *q, const char *format, ...) {
    va_list args;
    va_start(args, format);
    question_note(q, str_format_list(q->arena, format, args));
    va_end(args);
}

// "batch=train.bs,model=net.name" into the places of config_options.
static int read_keys(const char *keys, struct config_options *options, struct fail *why) {
    struct str rest = str_of(keys);
    while (rest.p) {
        struct str path = str_cut(&rest, ','), role = str_cut(&path, '=');
        enum config_role which = config_role_find(role);
        if (which == CONFIG_ROLES || path.len == 0) {
            struct near near = {.typed = role};
            for (int i = 0; i < CONFIG_ROLES; i++) {
                near_offer(&near, str_of(config_role_name((enum config_role)i)));
            }
            fail_set(why, FAIL_USAGE, "--key %.*s: not of the form ROLE=PATH", STR_ARG(role));
            return fail_hint(why, "for example --key batch=train.batch_size%s%.*s",
                             near.count ? "; nearest role: " : "",
                             near.count ? (int)near.names[0].len : 0, near.names[0].p);
        }
        options->keys[which] = path;
    }
    return 0;
}

// Empty: there is nothing of the kind.
static struct str guard_text(const struct question *q, bool is_measured) {
    struct str what = question_not_modelled(q);
    const char *way =
        q->plan.inference ? "plain inference" : plan_training_name(q->plan.adapter, q->plan.quant);
    if (what.len == 0) return what;
    what = str_format(q->arena, QUESTION_NOT_MODELLED "%.*s; ", STR_ARG(what));
    if (is_measured) return str_format(q->arena, "%.*sthe trials run it as it is", STR_ARG(what));
    if (q->plan.shard.len == 0 && q->plan.ranks > 1)
        return str_format(q->arena, "%.*sthis counts %s on each of %lld GPUs, whole", STR_ARG(what),
                          way, (long long)q->plan.ranks);
    const char *where = q->plan.shard.len > 0 ? "sharded over its GPUs" : "on one GPU";
    return str_format(q->arena, "%.*sthis counts %s %s", STR_ARG(what), way, where);
}

int question_failed(const struct question *q, int rc) {
    struct str text = guard_text(q, false);
    if (text.len > 0 && q->reading.conflict.len == 0)
        out_say(stderr, "batchfit: %.*s\n", STR_ARG(text));
    return rc;
}

// Before all other notes.
static void note_not_modelled(struct question *q, bool is_measured) {
    struct str text = guard_text(q, is_measured);
    if (text.len == 0) return;
    struct str_list notes = q->notes;
    q->notes = (struct str_list){0};
    question_note(q, text);
    for (ptrdiff_t i = 0; i < notes.count; i++) question_note(q, notes.items[i]);
}

// A config without training is answered as one of inference, whether or not it was asked for.
static int read_roles(struct question *q, struct question_options *o,
                      const struct config_options *options, struct fail *why) {
    int rc = 0;
    if (!o->inference) rc = config_read_roles(q->arena, &q->config, options, &q->reading, why);
    if (rc < 0 || (!o->inference && q->reading.inference.len == 0)) return rc;
    if (!o->inference) {
        question_say(q,
                     "answered as inference: the config has %.*s (--dialect NAME "
                     "reads it as a training)",
                     STR_ARG(q->reading.inference));
    }
    o->inference = true;
    return question_infer_roles(q->arena, &q->config, options, &q->reading, &q->batch_is_trainings,
                                why);
}

static int no_training(const struct question *q, struct fail *why) {
    fail_set(why, FAIL_INPUT, "%.*s: not a training config but %.*s: %.*s", STR_ARG(q->path),
             STR_ARG(q->reading.title), STR_ARG(q->reading.refusal));
    return fail_hint(why,
                     "give the config that the trainer reads, or name its dialect (--dialect)");
}

static int read_files(struct question *q, const struct question_options *o, struct fail *why) {
    struct str text;
    const struct question_source *source = o->source;
    int rc = source ? source->read(source->self, q->arena, q->path, &text, why)
                    : os_read_file(q->arena, o->config, CONFIG_MAX_BYTES, &text, &q->stamp, why);
    if (rc < 0) return rc;
    if (source) return question_parse_from(q->arena, o->config, text, source, &q->config, why);
    return question_parse(q->arena, o->config, text, &q->config, why);
}

static int read_config(struct question *q, struct question_options *o, struct fail *why) {
    struct config_options options = {.dialect = str_of(o->dialect), .section = str_of(o->section)};
    q->path = str_of(o->config);
    q->section = str_of(o->section);
    int rc = read_keys(o->keys, &options, why);
    if (rc == 0) rc = read_files(q, o, why);
    if (rc < 0) return rc;
    rc = read_roles(q, o, &options, why);
    if (rc < 0) return rc;
    q->has_config = true;
    if (q->reading.stops) return no_training(q, why);
    if (q->reading.conflict.len > 0 && !o->inference) {
        fail_set(why, FAIL_INPUT, "%.*s", STR_ARG(q->reading.conflict));
        return fail_hint(why, "the training would not start: correct it first");
    }
    if (!q->reading.editable && q->reading.refusal.len > 0) question_note(q, q->reading.refusal);
    for (ptrdiff_t i = 0; i < q->reading.warnings.count; i++) {
        question_note(q, q->reading.warnings.items[i]);
    }
    return 0;
}

// A size may be a list or a text of several; elsewhere such a thing is none (classes: [0, 2]).
static bool has_number(const struct config_value *v, bool is_size) {
    const bool is_number = v->type == CONFIG_INT || v->type == CONFIG_FLOAT || v->assumed;
    return v->integer > 0 &&
           (is_number || (is_size && (v->type == CONFIG_NESTED || v->type == CONFIG_TEXT)));
}

// A default of the trainer counts like a value; where it came from is said.
static void say_default(struct question *q, enum config_role role) {
    const struct config_value *v = &q->reading.values[role];
    // A team's own training code has the defaults of what it is made of.
    static const char *const homemade[] = {"none", "flat", "sections", NULL};
    const bool is_ours = str_is_one_of(q->reading.dialect, homemade);
    const bool is_counted = role == CONFIG_OPTIMIZER || role == CONFIG_PRECISION;
    if (!v->assumed || (is_ours && is_counted && q->is_decided)) return;
    const struct str title = v->file.len > 0 ? v->file // a script's own
                             : is_ours       ? STR("PyTorch")
                                             : q->reading.title;
    question_say(q, "%s is not in the config: %.*s, the default of %.*s", config_role_name(role),
                 STR_ARG(v->text.len > 0 ? v->text : v->word), STR_ARG(title));
}

static void take_number(struct question *q, enum config_role role, int64_t *number) {
    const struct config_value *v = &q->reading.values[role];
    const bool is_size = role == CONFIG_IMAGE_SIZE || role == CONFIG_SEQUENCE_LENGTH;
    const bool is_word = v->type == CONFIG_TEXT && v->integer <= 0 && v->text.len > 0 &&
                         str_is_digit(v->text.p[0]) && !v->assumed;
    if (*number <= 0 && is_size && is_word) // "4k"
        question_say(q, "%.*s: \"%.*s\" is not a number and is not read", STR_ARG(v->path),
                     STR_ARG(v->text));
    if (*number > 0 || !has_number(v, is_size)) return;
    *number = v->integer;
    say_default(q, role);
    if (is_size && v->number < (double)v->integer)
        question_say(q, "%.*s has sizes from %.0f to %lld: counted with the largest%s",
                     STR_ARG(v->path), v->number, (long long)v->integer,
                     role == CONFIG_IMAGE_SIZE ? ", as a square" : "");
}

// Also "offload" and "unsloth", and a default: config_read_roles knows what they mean.
static void take_switch(struct question *q, enum config_role role, bool *is_on) {
    const struct config_value *v = &q->reading.values[role];
    if (*is_on || !v->boolean) return;
    *is_on = true;
    say_default(q, role);
}

static int unknown_optimizer(struct question *q, struct str name, struct fail *why) {
    struct near near = {.typed = name};
    for (int i = 0; plan_optimizers[i]; i++) near_offer(&near, str_of(plan_optimizers[i]));
    fail_set(why, FAIL_USAGE,
             "--optimizer %.*s: not one of sgd, adam, adamw, adafactor, lion, adamw8bit, "
             "adamw32bit, lion32bit, adamw_torch_fused",
             STR_ARG(name));
    if (near.count == 0) return FAIL_USAGE;
    return fail_hint(why, "nearest: %.*s", STR_ARG(near_text(q->arena, &near)));
}

// The command line says one of our names, or transformers' for how AdamW runs; a config anything.
static int take_optimizer(struct question *q, const char *option, struct fail *why) {
    static const char *const of_torch[] = {"adamw_torch", "adamw_torch_fused", NULL};
    const struct config_value *v = &q->reading.values[CONFIG_OPTIMIZER];
    struct str spelled = option ? str_of(option) : v->text;
    if (!option) say_default(q, CONFIG_OPTIMIZER);
    if (spelled.len == 0 && q->has_config && !q->is_decided)
        question_say(q, "the optimizer is not in the config: counted as adamw; --optimizer NAME "
                        "sets it");
    if (spelled.len == 0) return 0;
    q->plan.fused = str_find(spelled, STR("fused")) >= 0 || str_find(spelled, STR("paged")) >= 0 ||
                    (!option && question_says_fused(q));
    for (int i = 0; option && plan_optimizers[i]; i++) {
        if (!str_equal_nocase(spelled, str_of(plan_optimizers[i]))) continue;
        q->plan.optimizer = str_of(plan_optimizers[i]);
        return 0;
    }
    if (option && !str_is_one_of(spelled, of_torch)) return unknown_optimizer(q, spelled, why);
    const char *known = plan_optimizer_find(spelled);
    if (!known) {
        question_say(q, "unknown optimizer '%.*s': sized as AdamW, two states of each weight",
                     STR_ARG(spelled));
    }
    q->plan.optimizer = str_of(known ? known : "adamw");
    return 0;
}

// A config without training that says no precision: a language model writes on as it is published,
// which is not known before its shape is.
static bool leaves_precision(const struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_PRECISION];
    return q->plan.generates && q->reading.inference.len > 0 && (v->assumed || v->text.len == 0);
}

static bool has_open_adapter(const struct question *q) {
    return q->plan.adapter.len > 0 && q->reading.values[CONFIG_PRECISION].type == CONFIG_ABSENT;
}

static void say_open_precision(struct question *q, bool is_taken) {
    const bool is_absent = q->reading.values[CONFIG_PRECISION].type == CONFIG_ABSENT;
    say_default(q, CONFIG_PRECISION);
    if (is_taken && q->has_config && is_absent && !q->is_decided)
        question_say(q,
                     "the precision is not in the config: counted as %s, %s; --precision sets it",
                     plan_precision_name(q->plan.precision),
                     has_open_adapter(q) ? "as adapters are trained" : "PyTorch's default");
}

// What a config leaves open is PyTorch's default, but nobody trains an adapter in fp32 unsaid.
static void take_open_precision(struct question *q) {
    struct plan *p = &q->plan;
    const bool is_taken = !p->precision;
    if (is_taken) p->precision = has_open_adapter(q) ? question_adapter_precision(p) : PLAN_FP32;
    if (!leaves_precision(q)) say_open_precision(q, is_taken);
}

static int take_precision(struct question *q, const char *spelled, struct fail *why) {
    const struct config_value *v = &q->reading.values[CONFIG_PRECISION];
    if (!spelled) {
        q->plan.precision = plan_precision_find(v->word);
        if (v->type != CONFIG_ABSENT && q->plan.precision == PLAN_PRECISION_UNKNOWN) {
            if (v->type == CONFIG_SPECIAL)
                question_say(q, "the precision is not known: taken as fp32; --precision sets it");
            else
                question_say(q, "unknown precision '%.*s': taken as fp32", STR_ARG(v->text));
        }
        take_open_precision(q);
        if (str_is(v->text, "auto") && q->plan.precision == PLAN_AMP_BF16)
            question_say(q, "%.*s: auto: bf16 where the GPU has it, else fp16", STR_ARG(v->path));
        question_weights(q);
        return 0;
    }
    q->plan.precision = plan_precision_find(str_of(spelled));
    q->precision_fixed = true;
    if (q->plan.precision) return 0;
    return fail_set(why, FAIL_USAGE,
                    "--precision %s: not one of fp32, amp-fp16, amp-bf16, bf16, fp16", spelled);
}

static int fill_plan(struct question *q, const struct question_options *o, struct fail *why) {
    const struct config_value *values = q->reading.values;
    struct plan *p = &q->plan;
    *p = (struct plan){
        .model = o->model ? str_of(o->model) : values[CONFIG_MODEL].text,
        .image_size = o->image_size,
        .sequence_length = o->sequence_length,
        .target_length = o->target_length,
        .classes = o->classes,
        .checkpointing = o->checkpointing,
        .compile = o->compile,
        .ema = o->ema,
        .inference = o->inference,
        .generates = p->generates,
        .layout = o->channels_last ? STR("nhwc") : (struct str){0},
    };
    take_number(q, CONFIG_IMAGE_SIZE, &p->image_size);
    take_number(q, CONFIG_SEQUENCE_LENGTH, &p->sequence_length);
    take_number(q, CONFIG_TARGET_LENGTH, &p->target_length);
    take_number(q, CONFIG_CLASSES, &p->classes);
    if (!o->inference) take_switch(q, CONFIG_CHECKPOINTING, &p->checkpointing);
    p->ema |= !p->inference && question_has_guard(q, "average");
    take_switch(q, CONFIG_EMA, &p->ema);
    bool is_nhwc = p->layout.len > 0;
    take_switch(q, CONFIG_CHANNELS_LAST, &is_nhwc);
    if (is_nhwc) p->layout = STR("nhwc");
    p->compile |= question_has_guard(q, "compile");
    take_switch(q, CONFIG_COMPILE, &p->compile);
    int rc = o->inference ? 0 : take_optimizer(q, o->optimizer, why);
    if (rc == 0) rc = question_adapter(q, o, why);
    if (rc == 0) rc = question_loss(q, o, why);
    if (rc == 0) rc = question_shard(q, o, why);
    if (rc == 0) rc = take_precision(q, o->precision, why);
    if (rc == 0) question_adapter_type(q);
    if (rc == 0) question_say_paged(q);
    if (rc == 0) question_frozen(q);
    return rc;
}

static int no_model(const struct question *q, struct fail *why) {
    const struct str reason = q->reading.unnamed;
    const struct str_list *unread = &q->config.notes; // of files that are not at hand
    struct str where = {0};
    if (reason.len > 0) where = str_format(q->arena, ": %.*s", STR_ARG(reason));
    for (ptrdiff_t i = 0; reason.len == 0 && where.len == 0 && i < unread->count; i++) {
        if (str_ends(unread->items[i], STR("is not known")))
            where =
                str_format(q->arena, " in what could be read (%.*s)", STR_ARG(unread->items[i]));
    }
    fail_set(why, FAIL_INPUT, "%.*s%sno model is named%.*s", STR_ARG(q->path),
             q->has_config ? ": " : "", STR_ARG(where));
    const struct str_list *likely = &q->reading.likely_models;
    if (reason.len == 0 && likely->count > 0) {
        return fail_hint(why, "is it %.*s? then --key model=%.*s; else name it with --model NAME",
                         STR_ARG(likely->items[0]),
                         STR_ARG(shell_word(q->arena, likely->items[0])));
    }
    if (q->config.format == CONFIG_PYTHON)
        return fail_hint(why, "a Python program is not run: instead of the file, give what it "
                              "sets: --model NAME, --seq-len N, --lora, --quant, --checkpointing");
    return fail_hint(
        why, "name it with --model NAME (batchfit list models), or its key with --key model=PATH");
}

// What the learning sees now, and so has to be kept.
static int fill_batches(struct question *q, const struct question_options *o, struct fail *why) {
    struct plan *p = &q->plan;
    if (question_titan_ranks(q, o, &p->ranks, why) < 0) return FAIL_INPUT;
    if (question_tape_ranks(q, o, why) < 0) return FAIL_USAGE;
    if (q->has_config && !p->inference) {
        struct fail unsaid;
        int rc = config_batches(q->arena, &q->reading, p->ranks, &q->batches, &unsaid);
        const struct config_value *total = &q->reading.values[CONFIG_EFFECTIVE];
        if (rc < 0 && o->effective <= 0 && q->batches.effective > 0)
            question_say(q, "%s; the effective batch is %.*s = %lld", unsaid.message,
                         STR_ARG(total->path), (long long)q->batches.effective);
        else if (rc < 0 && o->effective <= 0)
            question_say(q, "%s: any batch may be chosen (--effective-batch-size keeps one)",
                         unsaid.message);
    }
    p->batch = q->batches.micro;
    if (p->batch > 0 && p->batch == q->reading.values[CONFIG_BATCH].integer)
        say_default(q, CONFIG_BATCH);
    if (p->inference && !q->batch_is_trainings) take_number(q, CONFIG_BATCH, &p->batch);
    p->accumulation = q->batches.accumulation;
    if (p->ranks <= 0) p->ranks = q->batches.ranks > 0 ? q->batches.ranks : 1;
    q->effective = q->reading.is_sweep ? 0 : q->batches.effective; // each of a sweep has its own
    if (o->effective > 0) q->effective = o->effective;
    return question_check_ranks(q, o, why);
}

// Each question has its own list of the tapes that they share.
static void take_tapes(struct question *q, const struct question *like) {
    q->tape_cache = like->tape_cache;
    q->tape_cache.store = &q->store;
    q->tape_cache.own_name = q->tape_cache.own_recorded = (struct str){0};
    q->tape_cache.own_shape = NULL;
    q->tape_cache.capacity = q->tape_cache.count;
}

static int fill_sim(struct question *q, const struct question_options *o, struct fail *why) {
    int rc = 0;
    if (o->like) {
        take_tapes(q, o->like);
    } else {
        q->tape_cache = (struct forecast_cache){.arena = q->arena, .store = &q->store};
        rc = sim_alloc_conf_read(o->alloc_conf, &q->tape_cache.options, why);
    }
    q->plan.expandable = q->tape_cache.options.expandable_segments;
    if (rc == 0 && !o->alloc_conf) question_allocator(q);
    return rc;
}

// Where nobody says a precision, a language model trains as it is published: in bf16; others as
// suits the GPU. A command of trials says it itself.
static void take_unsaid_precision(struct question *q, const struct question_options *o) {
    const bool is_left = leaves_precision(q);
    bool is_said = o->precision || o->tape || (o->config && !is_left);
    if (is_said || q->plan.adapter.len > 0) return;
    q->precision_is_open = !o->is_measured && !q->plan.inference;
    if (!question_is_of_bf16(q)) {
        if (is_left) say_open_precision(q, true);
        return;
    }
    q->precision_is_open = false;
    bool is_fsdp = plan_fsdp(q->plan.shard) > 0 || plan_is_titan(q->plan.shard);
    bool is_whole = q->plan.shard.len == 0 || plan_is_tune(q->plan.shard);
    q->plan.precision = is_whole ? PLAN_BF16 : PLAN_AMP_BF16;
    const char *what = is_fsdp     ? "shards are fp32, arithmetic is bf16 (amp-bf16)"
                       : !is_whole ? "weights and arithmetic are bf16, with a master copy in fp32"
                       : q->plan.inference
                           ? "weights and cache are counted in bf16 (fp16 takes as much)"
                           : "weights, gradients and optimizer states are counted in bf16";
    question_say(q, "no --precision: %s", what);
}

static int open_tables(struct question *q, const struct question *like, struct fail *why) {
    if (like) {
        q->gpus = like->gpus;
        q->speeds = like->speeds;
        q->tokens = like->tokens;
        return 0;
    }
    int rc = gpu_load(q->arena, &q->gpus, why);
    if (rc == 0) rc = speed_load(q->arena, &q->speeds, why);
    return rc < 0 ? rc : speed_tokens_load(q->arena, &q->tokens, why);
}

int question_open(struct arena *a, const struct question_options *o, struct question *ret,
                  struct fail *why) {
    struct question *q = ret;
    *q = (struct question){.arena = a,
                           .is_decided = o->is_measured || o->tape,
                           .margin = o->margin,
                           .overhead_bytes = o->overhead_bytes,
                           .others_bytes = o->others_bytes,
                           .host_bytes = o->host_bytes};
    struct question_options asked = *o;
    if (o->model || o->config || o->tape) arena_reserve();
    int rc = o->config ? read_config(q, &asked, why) : 0;
    question_answered(q, o);
    q->plan.generates = o->inference; // asked for: a config that is found to be one may evaluate
    if (rc == 0) rc = fill_plan(q, &asked, why);
    if (rc == 0) rc = question_store(q, o, why);
    if (rc == 0) rc = fill_sim(q, o, why);
    if (rc == 0 && !o->tape) rc = question_local(q, o->model_is_optional, why);
    if (rc == 0 && q->plan.model.len == 0 && !o->model_is_optional) rc = no_model(q, why);
    if (rc == 0) take_unsaid_precision(q, o);
    if (rc == 0) question_weights(q); // now that its checkpoint is known
    if (rc == 0) rc = fill_batches(q, o, why);
    if (rc == 0) question_loss_check(q, o);
    if (rc == 0) rc = question_groups(q, o, why);
    if (rc == 0) rc = question_shard_check(q, o, why);
    if (rc == 0) rc = open_tables(q, o->like, why);
    if (rc == 0 && !o->model && !o->tape) rc = question_several(q, why);
    if (rc < 0) return rc;
    question_adapter_check(q, o);
    question_frozen_check(q);
    if (!o->tape) question_model_check(q);
    q->range = (struct plan_range){o->least, o->most, o->multiple, q->plan.batch};
    if (question_tape_range(q, o, why) < 0) return FAIL_USAGE;
    question_keep_generations(q);
    question_keep_whole(q);
    note_not_modelled(q, o->is_measured);
    for (ptrdiff_t i = 0; i < q->store.broken_count; i++)
        question_say(q, "skipped: %.*s", STR_ARG(q->store.broken[i].message));
    return 0;
}
