// SPDX-License-Identifier: Apache-2.0
// liger-kernel by one switch (transformers' and trl's use_liger_kernel, LLaMA-Factory's
// enable_liger_kernel) or by all four of Axolotl's; cut cross-entropy by its plugin. Some of them
// are another training, and so is one whose objective is another: its loss is no cross-entropy of a
// head. Of those that are losses of preferences.
#include "job/question/question_int.h"

// transformers' liger_kernel_config, which says it kernel by kernel.
static bool is_of_liger_map(const struct config_guard *g) {
    return str_find(g->path, STR("liger_kernel_config.")) >= 0;
}

static bool is_liger(const struct config_guard *g) {
    return str_is(g->kind, "fused") && (str_starts(g->what, STR("Liger")) || is_of_liger_map(g));
}

static bool is_cut(const struct config_guard *g) {
    return str_is(g->what, "cut cross entropy");
}

// --- Preferences ---------------------------------------------------------------------------------

// What settings are called by which loss is trained; the names of runs that say the same, and the
// words of trl's DPOTrainer for its loss, which no other trainer of transformers or trl has.
static const struct {
    const char *what, *loss, *in_names;
} objectives[] = {
    {"DPO", "dpo", "dpo"},        {"IPO", "dpo", "ipo"},
    {"ORPO", "orpo", "orpo"},     {"CPO", "cpo", "cpo"},
    {"SimPO", "simpo", "simpo"},  {"CPO", "cpo-simpo", NULL},
    {"SimPO", "cpo-simpo", NULL}, {"KTO", "kto", "kto"},
    {"GRPO", "grpo", "grpo"},     {"reward modelling", "reward", "reward"},
};
enum { OBJECTIVES = sizeof objectives / sizeof *objectives };
static const char *const losses_of_dpo[] = {
    "sigmoid",  "sigmoid_norm", "hinge",     "ipo",          "exo_pair", "nca_pair",
    "robust",   "bco_pair",     "sppo_hard", "aot",          "aot_pair", "apo_zero",
    "apo_down", "discopop",     "kto_pair",  "aot_unpaired", NULL};

static bool is_of_loss(const struct config_guard *g) {
    return str_is(g->kind, "objective") || str_is(g->kind, "preference");
}

// Of dpo@1.16: dpo.
static struct str bare(struct str loss) {
    struct str rest = loss, word = str_cut(&rest, '@');
    return str_cut(&word, ':');
}

// By which of the counted losses, or whether by this one; NULL: it is not.
static const char *loss_of(const struct config_guard *g, struct str wanted) {
    for (int i = 0; i < OBJECTIVES; i++)
        if (is_of_loss(g) && str_is(g->what, objectives[i].what) &&
            (wanted.len == 0 || str_is(wanted, objectives[i].loss)))
            return objectives[i].loss;
    return NULL;
}

// LLaMA-Factory's stage of all that is trained on pairs; pref_loss says more.
static bool is_stage(const struct config_guard *g) {
    return str_is(str_last(g->path, '.'), "stage");
}

// What says that it is of preferences, and not which.
static bool is_some_preference(const struct question *q, const struct config_guard *g) {
    static const char *const names[] = {"preference training", "a reference model's scores", NULL};
    static const char *const references[] = {"ref_model", "ref_model_name_or_path", NULL};
    if (!is_of_loss(g) || !str_is_one_of(g->what, names)) return false;
    bool is_reference = str_is_one_of(str_last(g->path, '.'), references);
    return !is_reference || str_equal(g->value, q->plan.model); // another model is of another size
}

// The word at the beginning of a part of a name: "zephyr-7b-dpo-full".
static bool has_part(struct str text, const char *word) {
    struct str wanted = str_of(word);
    for (ptrdiff_t at = 0; at + wanted.len <= text.len; at++) {
        bool begins = at == 0 || !str_is_alnum(text.p[at - 1]);
        if (begins && str_equal_nocase(str_slice(text, at, at + wanted.len), wanted)) return true;
    }
    return false;
}

// One of DPOTrainer's losses, or several, which are summed: all are of the same scores of tokens
// (trl's trainer/dpo_trainer.py), a cross-entropy among them, too, which does not say it alone.
static bool is_of_dpo(struct str text) {
    bool is_one = false;
    while (text.p) {
        struct str word = str_trim(str_cut(&text, ','));
        bool is_known = str_is_one_of(word, losses_of_dpo);
        if (!is_known && !str_is(word, "sft")) return false;
        is_one |= is_known;
    }
    return is_one;
}

// NULL: the name says none, or several.
static const char *loss_in_name(struct str text) {
    const char *found = NULL;
    if (is_of_dpo(text)) return "dpo";
    for (int i = 0; i < OBJECTIVES; i++) {
        if (!objectives[i].in_names || !has_part(text, objectives[i].in_names)) continue;
        if (found && found != objectives[i].loss) return NULL;
        found = objectives[i].loss;
    }
    return found;
}

// Trainers that are trl's.
static bool is_trainer_known(const struct question *q) {
    static const char *const names[] = {"trl",  "huggingface",   "axolotl",        "llamafactory",
                                        "oumi", "autotrain_llm", "autotrain_lora", NULL};
    return str_is_one_of(q->reading.dialect, names);
}

// The loss of preferences that the config says; NULL: none, or one that is not counted. ret_some:
// the setting that says only that it is of preferences, where no other says more.
static const char *preference_of(const struct question *q, const struct config_guard **ret_some) {
    const struct config_guard *some = NULL;
    const char *named = NULL, *stage = NULL;
    *ret_some = NULL;
    if (!is_trainer_known(q)) return NULL;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        const char *loss = loss_of(g, (struct str){0});
        if (loss && is_stage(g))
            stage = loss;
        else if (loss && (!named || named == loss || str_is(str_of(named), "cpo")))
            named = loss; // SimPO is one of CPOTrainer's
        else if (is_some_preference(q, g))
            some = g;
        else if (str_is(g->kind, "objective") && !(loss && str_is(str_of(loss), "cpo")))
            return NULL;
    }
    if (named || stage) return named ? named : stage;
    *ret_some = some;
    struct str name = q->reading.values[CONFIG_PREFERENCE].text;
    return some || is_of_dpo(name) ? loss_in_name(name) : NULL;
}

static const char *title_of(const char *loss) {
    int i = 0;
    while (!str_is(str_of(loss), objectives[i].loss)) i++;
    return objectives[i].what;
}

static void say_name(struct question *q) {
    const struct config_value *name = &q->reading.values[CONFIG_PREFERENCE];
    const struct config_guard *some;
    const char *loss = plan_is_preference(q->plan.loss) ? preference_of(q, &some) : NULL;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++)
        if (loss_of(&q->reading.guards[i], (struct str){0})) return; // a setting names it
    if (!loss || loss_in_name(name->text) != loss) return;
    bool is_other = some && !str_equal(some->path, name->path);
    struct str by =
        is_other ? str_format(q->arena, " (%.*s)", STR_ARG(some->path)) : (struct str){0};
    str_list_format(q->arena, &q->notes,
                    "preference training%.*s is counted as %s, which %.*s: %.*s names", STR_ARG(by),
                    title_of(loss), STR_ARG(name->path), STR_ARG(name->text));
}

// CPOTrainer has a cross-entropy beside SimPO's loss unless cpo_alpha is 0; LLaMA-Factory has none.
static struct str word_of(const struct question *q, const char *loss) {
    bool is_simpo = str_is(str_of(loss), "simpo");
    bool is_alone = q->reading.values[CONFIG_CPO_ALPHA].number == 0;
    if (str_is(q->reading.dialect, "llamafactory"))
        return str_format(q->arena, "%s:llamafactory", loss);
    if (is_simpo && !is_alone) return STR("cpo-simpo");
    bool refers = q->reading.values[CONFIG_BETA].number != 0;
    if (str_is(str_of(loss), "grpo")) return refers ? STR("grpo:reference") : STR("grpo");
    bool is_precomputed = q->reading.values[CONFIG_PRECOMPUTED].boolean;
    return str_is(str_of(loss), "dpo") && is_precomputed ? STR("dpo:precomputed") : str_of(loss);
}

static void take_preference(struct question *q) {
    const struct config_guard *some;
    struct plan *p = &q->plan;
    const char *loss = p->loss.len == 0 ? preference_of(q, &some) : NULL;
    struct str word = loss ? word_of(q, loss) : (struct str){0};
    if (plan_is_preference(word)) p->loss = word;
    if (!plan_is_preference(p->loss)) return;
    p->adapter =
        plan_adapter(q->arena, plan_adapter_rank(p->adapter), plan_adapter_targets(p->adapter),
                     plan_adapter_more(false, plan_adapter_is_bf16(p->adapter)));
}

// --- Both ----------------------------------------------------------------------------------------

// Of the same scores of tokens from the trl on that does not recompute them from all logits.
static bool is_of_scores(const struct question *q, const struct config_guard *g) {
    struct plan_preference how;
    return str_is(g->what, "SFT's loss beside") && plan_preference_read(q->plan.loss, &how) &&
           how.step == PLAN_STEP_DPO && how.scores == PLAN_SCORES_NEW;
}

bool question_loss_models(const struct question *q, const struct config_guard *g) {
    if (is_of_scores(q, g)) return true;
    if (plan_is_preference(q->plan.loss))
        return loss_of(g, bare(q->plan.loss)) || is_some_preference(q, g) ||
               (is_stage(g) && loss_of(g, (struct str){0}));
    return (is_liger(g) && str_starts(q->plan.loss, STR("liger"))) ||
           (is_cut(g) && str_is(q->plan.loss, "cut"));
}

// The layers that liger's switch leaves alone by liger_kernel_config. Absent from it they are on,
// as the fused loss is (liger-kernel's transformers/monkey_patch.py).
static const char *const liger_layers[] = {"rope", "rms_norm", "swiglu", "geglu", NULL};
enum { LIGER_LAYERS = 3 }; // rope, rms_norm and one of the last two

// Which of liger's kernels the guards say: all, the loss alone, or ones that no word stands for.
// Smoothed labels are made of all logits.
static const char *liger_word(const struct question *q) {
    static const char *const switches[] = {"use_liger_kernel", "enable_liger_kernel", NULL};
    static const char *const parts[] = {"liger_rope", "liger_rms_norm", "liger_glu_activation",
                                        "liger_fused_linear_cross_entropy", NULL};
    bool has_switch = false, is_other = false;
    int part_count = 0, left_count = 0;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        const struct str key = str_last(g->path, '.');
        const bool is_left = str_is_one_of(key, liger_layers);
        is_other |= is_of_loss(g) || (g->traits & CONFIG_ALL_LOGITS);
        if (!is_liger(g)) continue;
        left_count += is_left;
        is_other |= is_of_liger_map(g) && !is_left && !str_is(g->what, "fused cross entropy");
        has_switch |= str_is_one_of(key, switches);
        part_count += str_is_one_of(key, parts);
    }
    if (is_other || !(has_switch || part_count == 4)) return NULL;
    if (left_count == 0) return "liger";
    return left_count == LIGER_LAYERS ? "liger:loss" : NULL;
}

static bool has_cut(const struct question *q) {
    bool is_cut_cross_entropy = false, is_other = false;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        is_cut_cross_entropy |= is_cut(&q->reading.guards[i]);
        is_other |= is_of_loss(&q->reading.guards[i]);
    }
    return is_cut_cross_entropy && !is_other;
}

// torchtune's (torchtune/modules/loss)
static const struct {
    const char *name, *word;
} classes[] = {{"LinearCrossEntropyLoss", "linear"}, {"CEWithChunkedOutputLoss", "chunked"}};
enum { CLASSES = sizeof classes / sizeof *classes };

static void take_class(struct question *q) {
    for (int i = 0; i < CLASSES; i++)
        if (str_ends(q->reading.values[CONFIG_LOSS].text, str_of(classes[i].name)))
            q->plan.loss = str_of(classes[i].word);
}

static void say_class(struct question *q) {
    for (int i = 0; i < CLASSES; i++)
        if (str_is(q->plan.loss, classes[i].word))
            str_list_format(q->arena, &q->notes,
                            "%s is counted as a loss of all logits at once, which needs more",
                            classes[i].name);
}

// From trl 1.7 on (trainer/sft_config.py, loss_type).
static void say_chunks(struct question *q) {
    if (!str_is(q->reading.dialect, "trl") || q->plan.loss.len > 0) return;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++)
        if (is_of_loss(&q->reading.guards[i])) return;
    str_list_add(q->arena, &q->notes,
                 STR("all logits are counted at once: trl from 1.7 on makes the loss of SFT by "
                     "chunks of tokens, and needs less"));
}

int question_loss(struct question *q, const struct question_options *o, struct fail *why) {
    if (q->plan.inference) return 0;
    if (o->loss && !plan_is_loss(str_of(o->loss))) {
        fail_set(why, FAIL_USAGE,
                 "--loss %s: not liger, liger:loss, liger@VERSION, chunked, chunked:N, linear, "
                 "linear:N, cut, dpo, dpo:precomputed, dpo@VERSION (from 0.12 on), "
                 "dpo:llamafactory, orpo, cpo, "
                 "cpo-simpo, simpo (@VERSION from 0.15 on), orpo:llamafactory, "
                 "simpo:llamafactory, kto, kto@VERSION (from 1.0 on), reward, grpo, "
                 "grpo:reference or grpo@VERSION (from 0.16 on)",
                 o->loss);
        return fail_hint(why, "for example --loss liger --checkpointing; without --loss all logits "
                              "are counted at once");
    }
    const char *liger = liger_word(q);
    if (o->loss)
        q->plan.loss = str_of(o->loss);
    else if (liger)
        q->plan.loss = str_of(liger);
    else if (has_cut(q))
        q->plan.loss = STR("cut");
    else
        take_class(q);
    take_preference(q);
    say_chunks(q);
    return 0;
}

// Who generates the completions of GRPO, and how many at a time.
static void take_completions(struct question *q) {
    const struct config_value *v = q->reading.values;
    struct plan *p = &q->plan;
    if (!plan_is_of_completions(p->loss)) return;
    if (p->target_length <= 0 && !v[CONFIG_COMPLETION].assumed)
        p->target_length = v[CONFIG_COMPLETION].integer;
    int64_t steps = v[CONFIG_GENERATION_STEPS].integer, all = v[CONFIG_GENERATION_BATCH].integer;
    if (steps <= 0) steps = p->accumulation > 0 ? p->accumulation : 1;
    p->generated = all > 0 && p->ranks > 0 ? all / p->ranks : p->batch * steps;
    if (!v[CONFIG_ENGINE].boolean) return;
    if (v[CONFIG_ENGINE_MODE].assumed)
        str_list_add(q->arena, &q->notes,
                     STR("vllm_mode is not in the config: taken as colocate, the default from trl "
                         "1.0 on (before: a server, which uses none of this GPU's memory)"));
    if (str_is(v[CONFIG_ENGINE_MODE].text, "server"))
        p->generator = STR("server");
    else
        p->generator = str_format(q->arena, "vllm:%g%s", v[CONFIG_ENGINE_SHARE].number,
                                  v[CONFIG_ENGINE_SLEEPS].boolean ? ":sleep" : "");
}

int64_t question_group(const struct question *q) {
    const int64_t group = q->reading.values[CONFIG_GENERATION_GROUP].integer;
    return group <= INT16_MAX && plan_is_of_completions(q->plan.loss) ? group : 0;
}

static struct str group_said(const struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_GENERATION_GROUP];
    const struct str file = v->file.len > 0 ? v->file : q->reading.name;
    if (v->assumed)
        return str_format(q->arena, "%.*s: num_generations is not set: %lld, trl's default",
                          STR_ARG(file), (long long)v->integer);
    return str_format(q->arena, "%.*s:%d: %.*s = %lld", STR_ARG(file), v->line, STR_ARG(v->path),
                      (long long)v->integer);
}

// trl's GRPOConfig takes whole groups of completions only (trainer/grpo_config.py, __post_init__):
// as many as are generated at a time, by default those of a step.
int question_groups(struct question *q, const struct question_options *o, struct fail *why) {
    const struct config_value *v = q->reading.values;
    const struct plan *p = &q->plan;
    const int64_t group = question_group(q), steps = v[CONFIG_GENERATION_STEPS].integer;
    const struct str said = group_said(q);
    int64_t at_once = v[CONFIG_GENERATION_BATCH].integer;
    if (group <= 1 || o->ranks_are_open) return 0;
    if (at_once <= 0) at_once = steps > 0 ? p->batch * steps * p->ranks : q->effective;
    if (at_once <= 0 || at_once % group == 0) return 0;
    struct str text =
        str_format(q->arena,
                   "%.*s, but %lld completions are generated at a time: the trainer takes "
                   "whole groups",
                   STR_ARG(said), (long long)at_once);
    if (p->ranks > 1 || v[CONFIG_GENERATION_BATCH].integer > 0) {
        fail_set(why, FAIL_INPUT, "%.*s", STR_ARG(text));
        return fail_hint(why, "the training would not start: correct it first");
    }
    str_list_format(q->arena, &q->notes,
                    "%.*s, so it refuses this on one GPU (--gpus says how many there are)",
                    STR_ARG(text));
    return 0;
}

static bool keep_batch(struct question *q) {
    if (q->range.own <= 0 || q->range.least > 0 || q->range.most > 0) return false;
    q->range.least = q->range.most = q->range.own;
    return true;
}

// trl takes a batch only where the completions that are generated at a time are whole groups, and
// whole batches (trainer/grpo_config.py, __post_init__).
void question_keep_generations(struct question *q) {
    const struct config_value *v = q->reading.values, *steps = &v[CONFIG_GENERATION_STEPS],
                              *said = steps->integer > 0 ? steps : &v[CONFIG_GENERATION_BATCH];
    if (!plan_is_of_completions(q->plan.loss) || said->integer <= 0 || !keep_batch(q)) return;
    str_list_format(q->arena, &q->notes,
                    "%.*s = %.*s: the batch stays, as trl wants whole groups of completions to be "
                    "generated at a time (--max-batch-size N tries other batches)",
                    STR_ARG(said->path), STR_ARG(said->text));
}

static void keep_negatives(struct question *q) {
    const struct str by = q->reading.negatives;
    if (by.len == 0 || !keep_batch(q)) return;
    str_list_format(q->arena, &q->notes,
                    "%.*s: the batch stays, as its samples are each other's negatives: smaller "
                    "ones that are accumulated are another training (--max-batch-size N tries "
                    "other batches)",
                    STR_ARG(by));
}

void question_keep_whole(struct question *q) {
    const struct str by = q->reading.unaccumulated;
    if (q->plan.inference) return;
    keep_negatives(q);
    if (by.len == 0) return;
    if (keep_batch(q))
        str_list_format(q->arena, &q->notes,
                        "%.*s: the batch stays, as the trainer refuses to accumulate with it "
                        "(another is --effective-batch-size N --max-batch-size N)",
                        STR_ARG(by));
    else
        str_list_format(q->arena, &q->notes,
                        "%.*s: the trainer refuses to accumulate with it: only a batch without "
                        "accumulation runs",
                        STR_ARG(by));
}

void question_add_engine(const struct plan *p, const struct gpu *gpu, struct gpu_overhead *o) {
    if (plan_engine_sleeps(p->generator)) return;
    o->engine_bytes = (int64_t)((double)gpu->total_bytes * plan_engine_share(p->generator));
    o->bytes += o->engine_bytes;
    o->low_bytes += o->engine_bytes;
    o->high_bytes += o->engine_bytes;
}

// What a config shares or moves away only takes bytes off a GPU: where a loss is counted without
// it, that is what is left out (question_shard_check), and the figures are bounds.
static bool is_covered(struct question *q, const struct question_options *o, struct fail *why) {
    struct forecast f;
    struct plan whole = q->plan;
    if (q->plan.model.len == 0) return false;
    if (forecast_open(&q->tape_cache, &q->plan, &f, why) == 0) return true;
    whole.shard = (struct str){0};
    whole.tensor_parallel = whole.shard_ranks = 0;
    bool is_by_config = q->plan.shard.len > 0 && !o->shard && plan_is_preference(q->plan.loss);
    return is_by_config && forecast_open(&q->tape_cache, &whole, &f, NULL) == 0;
}

void question_loss_check(struct question *q, const struct question_options *o) {
    struct fail why = {0};
    take_completions(q);
    struct plan without = q->plan;
    if (o->loss || o->tape || q->plan.loss.len == 0) return;
    without.loss = (struct str){0};
    if (is_covered(q, o, &why)) {
        say_name(q);
        return;
    }
    if (plan_is_preference(q->plan.loss) && why.hint[0])
        str_list_format(q->arena, &q->notes, "%s; %s", why.message, why.hint);
    say_class(q);
    q->plan = without;
    question_weights(q);
    say_name(q);
}
