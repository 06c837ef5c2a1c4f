// SPDX-License-Identifier: Apache-2.0
#include "job/question/question.h"

#include "base/near.h"

enum { SLIP_MOST = 2 }; // letters by which the name of a layer may be missed

static bool is_adapter(const struct config_guard *g) {
    static const char *const names[] = {"LoRA", "QLoRA", "PEFT adapter", NULL};
    return str_is(g->kind, "adapter") && str_is_one_of(g->what, names);
}

#define NF4_TWICE "bnb.nf4-dq" // its scales are quantised, too

// torchtune's: it dequantizes a weight by a table, with more beside it than bitsandbytes.
static bool is_torchao(const struct config_guard *g) {
    return str_is(g->what, "4-bit weights (torchao)");
}

// Four bits in nf4, said by a key or by the model's name; other methods that have four are no nf4,
// and unsloth's dynamic ones leave some layers as they are.
static bool is_four_bit(const struct config_guard *g) {
    static const char *const keys[] = {"load_in_4bit", "use_4bit",         "use_4bit_quantization",
                                       "use_qlora",    "quantization_bit", "qlora",
                                       "load_in_bits", "quant_bit",        NULL};
    bool is_named =
        str_ends(g->value, STR("-bnb-4bit")) && !str_ends(g->value, STR("-unsloth-bnb-4bit"));
    bool is_word = str_is(g->value, "bnb.nf4") || str_is(g->value, NF4_TWICE); // litgpt's
    if (str_is(g->what, "4-bit weights (nf4)") || is_torchao(g))
        return true; // of a trainer that has no others
    return str_is(g->kind, "quantisation") && str_is(g->what, "4-bit weights") &&
           (is_named || is_word || str_is_one_of(str_last(g->path, '.'), keys));
}

bool question_adapter_models(const struct question *q, const struct config_guard *g) {
    if (is_adapter(g)) return q->plan.adapter.len > 0;
    return is_four_bit(g) && q->plan.quant.len > 0;
}

// RANK[:NAMES[:dropout][:bf16]]
static int take_option(struct question *q, const char *spelled, struct fail *why) {
    struct str rest = str_of(spelled), number = str_cut(&rest, ':'), targets = str_cut(&rest, ':');
    int64_t rank = 0;
    if (str_to_i64(number, &rank) && (rest.p == NULL || rest.len > 0))
        q->plan.adapter = plan_adapter(q->arena, rank, targets, rest);
    if (q->plan.adapter.len > 0) return 0;
    fail_set(why, FAIL_USAGE,
             "--lora %s: not RANK, RANK:NAME,NAME or RANK:NAMES:dropout (:bf16 behind it: in bf16)",
             spelled);
    return fail_hint(why, "for example --lora 16, or --lora 16:q_proj,v_proj");
}

static int take_quant(struct question *q, const char *spelled, struct fail *why) {
    if (!str_is_one_of(str_of(spelled), plan_quants))
        return fail_set(why, FAIL_USAGE,
                        "--quant %s: not nf4, nf4-dq, nf4-left, nf4-dq-left or nf4-torchao",
                        spelled);
    if (q->plan.adapter.len == 0) {
        fail_set(why, FAIL_USAGE, "--quant %s: weights in four bits cannot be trained", spelled);
        return fail_hint(why, "train an adapter over them: --lora 16");
    }
    q->plan.quant = str_of(spelled);
    return 0;
}

// "true" is Axolotl's lora_target_linear; what is no name at all is not known.
static struct str config_adapter(const struct question *q) {
    const struct config_value *v = q->reading.values;
    struct str targets = v[CONFIG_LORA_TARGETS].text;
    bool is_known = v[CONFIG_LORA_TARGETS].type == CONFIG_TEXT ||
                    v[CONFIG_LORA_TARGETS].type == CONFIG_BOOL || v[CONFIG_LORA_TARGETS].assumed;
    bool is_switch = v[CONFIG_LORA_TARGETS].type == CONFIG_BOOL; // YAML's "yes", "on"
    if (is_switch) targets = v[CONFIG_LORA_TARGETS].boolean ? STR("true") : STR("false");
    if (str_equal_nocase(targets, STR("true"))) targets = STR("all-linear");
    if (!is_known || str_equal_nocase(targets, STR("false")) || targets.len == 0)
        return (struct str){0};
    return plan_adapter(q->arena, v[CONFIG_LORA_RANK].integer, targets,
                        plan_adapter_more(v[CONFIG_LORA_DROPOUT].number > 0, false));
}

// What of the adapter the config leaves open, and how it is said.
static void say_open(struct question *q, bool has_bits) {
    const struct config_value *rank = &q->reading.values[CONFIG_LORA_RANK];
    const struct config_value *targets = &q->reading.values[CONFIG_LORA_TARGETS];
    const char *name = has_bits ? "QLoRA" : "LoRA";
    if (rank->type == CONFIG_ABSENT)
        str_list_format(
            q->arena, &q->notes,
            "%s is not predicted: no known key gives its rank (--key lora_rank=PATH names one)",
            name);
    else if (rank->integer < 1)
        str_list_format(q->arena, &q->notes, "%s is not predicted: %.*s: %.*s is not a rank", name,
                        STR_ARG(rank->path), STR_ARG(rank->text));
    else if (targets->type == CONFIG_ABSENT)
        str_list_format(q->arena, &q->notes,
                        "%s is not predicted: no known key gives its layers (--key "
                        "lora_targets=PATH names one)",
                        name);
    else
        str_list_format(q->arena, &q->notes, "%s is not predicted: %.*s: %.*s does not name layers",
                        name, STR_ARG(targets->path), STR_ARG(targets->text));
}

static void take_config(struct question *q) {
    bool has_adapter = false, has_bits = false, is_torchtunes = false;
    bool is_double = q->reading.values[CONFIG_DOUBLE_QUANT].boolean;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        has_adapter = has_adapter || is_adapter(g);
        has_bits = has_bits || is_four_bit(g) || str_is(g->what, "QLoRA");
        is_double = is_double || str_is(g->value, NF4_TWICE);
        is_torchtunes = is_torchtunes || is_torchao(g);
    }
    if (has_adapter && q->plan.adapter.len == 0) {
        q->plan.adapter = config_adapter(q);
        if (q->plan.adapter.len == 0) say_open(q, has_bits);
    }
    if (!has_bits || q->plan.adapter.len == 0 || q->plan.quant.len > 0) return;
    q->plan.quant = is_torchtunes ? STR("nf4-torchao") : is_double ? STR("nf4-dq") : STR("nf4");
}

// What trainers have no setting for, where it would be another program.
static const struct {
    const char *dialect, *script; // script: the beginning of its name; NULL: any
    unsigned what;
} lacking[] = {
    // nanoGPT's train.py: DDP alone
    {"nanogpt", NULL, PLAN_LACKS_ADAPTERS | PLAN_LACKS_FSDP | PLAN_LACKS_ZERO | PLAN_LACKS_LIGER},
    // megatron/neox_arguments/*.py: DeepSpeed's ZeRO, no adapter; kernels of its own
    {"gptneox", NULL, PLAN_LACKS_ADAPTERS | PLAN_LACKS_FSDP | PLAN_LACKS_LIGER},
    // transformers' examples/pytorch: TrainingArguments, which have no adapter
    {"huggingface", "run_", PLAN_LACKS_ADAPTERS},
};

static unsigned lacks(const struct question *q) {
    struct config_value script = {0};
    if (!q->has_config) return 0;
    (void)config_get(q->arena, &q->config, STR("launcher.script"), &script, NULL);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (str_is(q->reading.dialect, lacking[i].dialect) &&
            (!lacking[i].script ||
             str_starts(str_last(script.text, '/'), str_of(lacking[i].script))))
            return lacking[i].what;
    return 0;
}

int question_adapter(struct question *q, const struct question_options *o, struct fail *why) {
    int rc = 0;
    if (q->plan.inference) return 0;
    if (o->lora) rc = take_option(q, o->lora, why);
    if (rc == 0) take_config(q);
    if (rc == 0 && o->quant) rc = take_quant(q, o->quant, why); // over the config's adapter, too
    q->plan.is_torchtunes = str_is(q->reading.dialect, "torchtune");
    q->plan.lacks = lacks(q);
    return rc;
}

enum plan_precision question_adapter_precision(const struct plan *p) {
    return plan_adapter_is_bf16(p->adapter) ? PLAN_BF16 : PLAN_AMP_BF16;
}

void question_adapter_type(struct question *q) {
    struct plan *p = &q->plan;
    bool follows = q->reading.values[CONFIG_LORA_FOLLOWS].boolean;
    if (p->adapter.len == 0 || !follows || p->precision != PLAN_BF16) return;
    p->adapter =
        plan_adapter(q->arena, plan_adapter_rank(p->adapter), plan_adapter_targets(p->adapter),
                     plan_adapter_more(plan_adapter_has_dropout(p->adapter), true));
}

static struct str nearest_layer(struct str name, struct str layers) {
    struct str nearest = {0};
    for (int least = SLIP_MOST + 1; layers.p;) {
        struct str layer = str_cut(&layers, ',');
        int distance = near_distance(name, layer);
        if (distance < least) nearest = layer, least = distance;
    }
    return nearest;
}

// Of several names peft passes over those that no layer has (tuners_utils.py, inject_adapter): a
// slip of one is said, and not counted. Where there is no other it is for the forecast to refuse;
// what another family has may be a trainer's own name.
static void drop_slips(struct question *q, const struct shape *shape, struct str layers) {
    struct str adapter = q->plan.adapter, more = plan_adapter_rest(adapter);
    struct buf kept = buf_new(q->arena), slips = buf_new(q->arena);
    str_cut(&more, ':');
    for (struct str rest = plan_adapter_targets(adapter); rest.p;) {
        struct str name = str_cut(&rest, ','), meant = nearest_layer(name, layers);
        bool is_slip = meant.len > 0 && !shape_knows_layer(q->tape_cache.shapes, name);
        buf_format(is_slip ? &slips : &kept, "%s%.*s", (is_slip ? slips : kept).count ? "," : "",
                   STR_ARG(name));
        if (is_slip) buf_format(&slips, " (%.*s?)", STR_ARG(meant));
    }
    if (slips.count == 0 || kept.count == 0) return;
    str_list_format(q->arena, &q->notes,
                    "LoRA on %.*s: a %.*s has no such layer, and peft skips it",
                    STR_ARG(buf_str(&slips)), STR_ARG(shape->type));
    q->plan.adapter = plan_adapter(q->arena, plan_adapter_rank(adapter), buf_str(&kept), more);
}

// All layers by their names, where the model's family has those.
static void name_every_layer(struct question *q) {
    const struct shape *shape = NULL;
    struct str layers = {0};
    if (q->plan.adapter.len == 0) return;
    if (forecast_shape(&q->tape_cache, q->plan.model, &shape, NULL) == 0 && shape)
        layers = shape_linear(q->tape_cache.shapes, shape);
    if (layers.len > 0) drop_slips(q, shape, layers);
    // What all-linear is beside the names of layers is more than these where there are experts.
    if (shape && shape->experts > 0) return;
    q->plan.adapter = plan_adapter_short(q->arena, q->plan.adapter, layers);
}

// Where not even full fine-tuning can be predicted, the adapter is what the answer fails for, if it
// is a prediction that was asked for.
void question_adapter_check(struct question *q, const struct question_options *o) {
    struct forecast f;
    struct fail unserved;
    name_every_layer(q);
    struct plan full = q->plan;
    if (o->lora || q->plan.adapter.len == 0) return;
    full.adapter = full.quant = (struct str){0};
    if (q->plan.model.len == 0) {
        q->plan = full;
        return;
    }
    if (forecast_open(&q->tape_cache, &q->plan, &f, &unserved) == 0) return;
    if (forecast_open(&q->tape_cache, &full, &f, NULL) < 0 && !o->model_is_optional) return;
    str_list_format(q->arena, &q->notes, "%s is not predicted: %s",
                    plan_training_name(q->plan.adapter, q->plan.quant), unserved.message);
    q->plan = full;
}
