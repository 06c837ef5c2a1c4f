// SPDX-License-Identifier: Apache-2.0
// How many tokens a template is filled with. Completions, GRPO's or a model's that predicts: how
// long they are, who generates them, and what that takes.
#include "predict/forecast/forecast_int.h"

#include "base/unit.h"

// trl 1.16.0, GRPOConfig: max_completion_length; and its max_prompt_length while it had one (0.14
// to 0.29).
enum { USUAL_COMPLETION = 512, USUAL_PROMPT = 512 };

// Where nobody says how many; those of T5 are the shipped tapes'.
enum { USUAL_TOKENS = 2048, USUAL_SOURCE = 512, USUAL_TARGET = 256 };

static int64_t completion_of(const struct plan *p) {
    if (p->target_length > 0) return p->target_length;
    bool is_short = p->sequence_length > 0 && p->sequence_length <= USUAL_COMPLETION;
    return is_short ? (p->sequence_length + 1) / 2 : USUAL_COMPLETION;
}

int forecast_completion(const struct plan *p, int64_t *ret_tokens, int64_t *ret_completion,
                        struct fail *why) {
    *ret_tokens = *ret_completion = 0;
    if (!plan_is_of_completions(p->loss) && !p->generates) return 0;
    *ret_completion = completion_of(p);
    *ret_tokens = p->sequence_length > 0 ? p->sequence_length : USUAL_PROMPT + *ret_completion;
    if (*ret_completion < *ret_tokens || !why) return 0;
    fail_set(why, FAIL_INPUT, "a completion of %lld tokens leaves none of %lld for its prompt",
             (long long)*ret_completion, (long long)*ret_tokens);
    return fail_hint(why, "--seq-len covers both, --target-len only the completion");
}

static int64_t padded(int64_t tokens) {
    return (tokens + FORECAST_BIASED_BY - 1) / FORECAST_BIASED_BY * FORECAST_BIASED_BY;
}

void forecast_set_tokens(const struct plan *p, const struct shape *s,
                         int64_t values[TAPE_DIM_COUNT]) {
    int64_t *of_target = &values[TAPE_DIM_TARGET_SEQUENCE], tokens, completion;
    if (forecast_completion(p, &tokens, &completion, NULL) == 0 && completion > 0) {
        values[TAPE_DIM_SEQUENCE] = tokens;
        if (!p->generates) *of_target = completion;
        return;
    }
    bool is_seq2seq = str_is(s->kind, "seq2seq");
    int64_t usual = is_seq2seq || shape_is_encoder(s) ? USUAL_SOURCE : USUAL_TOKENS,
            most = shape_longest(s);
    if (most > 0 && most < usual) usual = most;
    tokens = p->sequence_length > 0 ? p->sequence_length : usual;
    int64_t target = p->target_length > 0 ? p->target_length : USUAL_TARGET;
    values[TAPE_DIM_SEQUENCE] = is_seq2seq ? padded(tokens) : tokens;
    if (is_seq2seq) *of_target = padded(target);
}

// Weights and states, which are there while an engine on the same GPU generates.
static int64_t standing_bytes(const struct tape *t) {
    int64_t sum = 0;
    for (int32_t i = 0; i < t->alloc_count; i++)
        if (t->allocs[i].free_event < 0 && t->allocs[i].k == 0) sum += t->allocs[i].c;
    return sum;
}

struct tape_generation forecast_generation(const struct plan *p, const struct shape *s) {
    struct plan_preference how;
    int64_t tokens, completion;
    (void)forecast_completion(p, &tokens, &completion, NULL);
    bool is_grpo = plan_preference_read(p->loss, &how) && how.step == PLAN_STEP_GRPO;
    if (!is_grpo && !p->generates) return (struct tape_generation){.layers = 0};
    const bool is_fp32 = p->precision == PLAN_FP32 || p->precision == PLAN_PRECISION_UNKNOWN;
    const bool is_autocast = plan_precision_is_amp(p->precision);
    // Adapters are on weights in bf16; of quantised ones peft prepares norms and embedding in fp32.
    return (struct tape_generation){
        .sequences = p->generated,
        .layers = s->layers,
        .hidden = s->hidden,
        .ffn = s->intermediate,
        .vocabulary = s->vocabulary,
        .cached = shape_kv_heads(s) * s->head_dim,
        .prompt = tokens - completion,
        .completion = completion,
        .window = shape_window(s),
        .windowed = shape_windowed_layers(s),
        .bytes = is_fp32 ? 4 : 2,
        .held = is_fp32 || p->quant.len > 0 || (is_autocast && p->adapter.len == 0) ? 4 : 2,
        .is_autocast = is_autocast,
        .whole = p->quant.len > 0 ? s->hidden * s->intermediate : 0,
        .has_reference = is_grpo && how.refers && p->adapter.len == 0,
        .has_reference_scores = is_grpo && how.refers,
        .is_elsewhere = p->generator.len > 0,
        .is_all = p->generates,
    };
}

struct plan forecast_trained(const struct plan *p) {
    if (!p->generates) return *p;
    return (struct plan){.model = p->model,
                         .batch = p->batch,
                         .accumulation = 1,
                         .precision = p->precision,
                         .adapter = p->adapter,
                         .quant = p->quant};
}

enum { PAGE = 16 }; // tokens of a block of vLLM's cache on a GPU (vllm/config/cache.py, block_size)

// Bits of a stored weight: bitsandbytes has a scale of 32 bits for 64 weights, quantised again one
// of 8 and little more; MXFP4 one of 8 for 32 (of experts alone: transformers 5.23.0,
// integrations/mxfp4.py); AWQ and GPTQ one of 16 and a zero for a group, mostly of 128.
static const struct stored {
    const char *name;
    double bits;
    bool is_of_experts;
} known_stored[] = {{"nf4", 4.5, false}, {"fp4", 4.5, false},         {"nf4-dq", 4.13, false},
                    {"fp8", 8, false},   {"8-bit weights", 8, false}, {"MXFP4", 4.25, true}};

static struct stored stored_of(struct str quant) {
    for (size_t i = 0; i < sizeof known_stored / sizeof *known_stored; i++)
        if (str_is(quant, known_stored[i].name)) return known_stored[i];
    struct str rest = quant;
    str_cut(&rest, ',');
    struct str words = str_trim(rest), number = str_cut(&words, ' ');
    int64_t bits = 0;
    bool is_said = str_is(words, "bits") && str_to_i64(number, &bits) && bits > 0 && bits < 16;
    return (struct stored){.bits = is_said ? (double)bits + (16.0 + (double)bits) / 128 : 0};
}

// Matrices of layers are stored so, the embedding and the head are not; or only those of experts.
// 0: not known.
static int64_t stored_bytes(const struct shape *s) {
    const struct stored how = stored_of(s->quant);
    const int64_t inner = s->expert_intermediate > 0 ? s->expert_intermediate : s->intermediate;
    const int64_t words = (s->tied ? 1 : 2) * s->vocabulary * s->hidden,
                  experts = s->layers * s->experts * 3 * s->hidden * inner;
    const int64_t plain = how.is_of_experts ? s->parameters - experts : words;
    if (how.bits <= 0 || plain < 0 || s->parameters <= plain) return 0;
    return (int64_t)((double)(s->parameters - plain) * how.bits / 8 + (double)plain * 2);
}

static struct str weights_text(struct forecast *f, const struct shape *s, int64_t whole) {
    struct arena *a = f->arena;
    const int64_t bytes = stored_bytes(s);
    struct str text = unit_bytes(a, whole);
    if (s->quant.len == 0) return text;
    if (bytes <= 0) return str_format(a, "less than %.*s (%.*s)", STR_ARG(text), STR_ARG(s->quant));
    return str_format(a, "about %.*s (%.*s)", STR_ARG(unit_bytes(a, bytes)), STR_ARG(s->quant));
}

static int64_t pages_of(int64_t tokens) {
    return (tokens + PAGE - 1) / PAGE;
}

// What a server with a paged cache makes of the same sizes: blocks of keys and values of all
// layers. Of a layer with a window it frees those before it (vllm/v1/core/single_type_kv_cache_
// manager.py, SlidingWindowManager), which may begin within a block.
static void note_server(struct forecast *f, const struct tape_generation *g, const struct shape *s,
                        struct forecast_tape *t) {
    struct arena *a = f->arena;
    const int64_t page = PAGE * 2 * g->cached * g->held, tokens = g->prompt + g->completion;
    const int64_t all = pages_of(tokens), weights = standing_bytes(t->tape);
    int64_t in_window = pages_of(g->window) + 1;
    if (in_window > all || g->windowed == 0) in_window = all;
    const int64_t bytes = page * ((g->layers - g->windowed) * all + g->windowed * in_window);
    struct str windowed =
        in_window == all
            ? (struct str){0}
            : str_format(a, "; %lld of %lld layers keep %lld blocks, the window",
                         (long long)g->windowed, (long long)g->layers, (long long)in_window);
    t->server_bytes = bytes + (s->quant.len > 0 ? stored_bytes(s) : weights);
    if (s->quant.len > 0 && stored_bytes(s) == 0) t->server_bytes = 0;
    str_list_format(
        a, &t->notes,
        "a server with a paged cache (vLLM): %.*s of weights, and %.*s for each sequence of %lld "
        "tokens (%lld blocks of %d tokens, %.*s each%.*s) in what its share of the GPU "
        "(gpu_memory_utilization) leaves after its own passes; over N GPUs with tensor parallelism "
        "each holds an Nth of both (but keys and values of at least one of %lld heads)",
        STR_ARG(weights_text(f, s, weights)), STR_ARG(unit_bytes(a, bytes)), (long long)tokens,
        (long long)all, PAGE, STR_ARG(unit_bytes(a, g->layers * page)), STR_ARG(windowed),
        (long long)shape_kv_heads(s));
}

// A prompt that stands alone or has the others' length has none (transformers 5.23, sdpa).
static void note_mask(struct forecast *f, int64_t prompt, struct forecast_tape *t) {
    const int64_t bytes = prompt * prompt;
    if (bytes < UNIT_GIB) return;
    str_list_format(f->arena, &t->notes,
                    "the mask of padded prompts is counted, %s each: a single sequence, or prompts "
                    "of one length, have none and need that much less",
                    unit_bytes(f->arena, bytes).p);
}

void forecast_note_generator(struct forecast *f, const struct plan *p, const struct shape *s,
                             struct forecast_tape *t) {
    const struct tape_generation g = forecast_generation(p, s);
    str_list_format(
        f->arena, &t->notes,
        "a batch is of sequences that transformers' generate continues: %lld tokens after a prompt "
        "of %lld%s; keys and values of all of them, a pass over the prompts and what is sampled "
        "are counted; gaps that the growing cache leaves are not",
        (long long)g.completion, (long long)g.prompt,
        p->target_length > 0 ? "" : " (assumed: --target-len)");
    if (g.windowed > 0 && g.window < g.prompt + g.completion)
        str_list_format(
            f->arena, &t->notes,
            "%lld of %lld layers look at %lld tokens: their cache holds the whole prompt until the "
            "first token is there, as transformers has it, and then the window",
            (long long)g.windowed, (long long)g.layers, (long long)g.window);
    note_mask(f, g.prompt, t);
    note_server(f, &g, s, t);
}

static void note_generator(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    const double share = plan_engine_share(p->generator);
    struct arena *a = f->arena;
    if (p->generator.len == 0) {
        struct str count = p->generated > 0 ? str_format(a, "%lld", (long long)p->generated)
                                            : STR("as many as the batch");
        str_list_format(
            a, &t->notes,
            "completions are generated by transformers' generate, %.*s at a time "
            "(batch x steps_per_generation): keys and values of all their tokens, a pass "
            "over the prompts and what is sampled are counted; gaps that the growing "
            "cache leaves are not",
            STR_ARG(count));
    } else if (share == 0) {
        str_list_add(a, &t->notes,
                     STR("completions come from a server (vllm_mode: server), which uses none of "
                         "this GPU's memory"));
    } else if (plan_engine_sleeps(p->generator)) {
        str_list_format(a, &t->notes,
                        "vLLM on this GPU gives its memory back while the training steps "
                        "(vllm_enable_sleep_mode); while it generates it takes %.0f %% of the GPU "
                        "beside weights and states of %.*s, which has to fit, too",
                        100 * share, STR_ARG(unit_bytes(a, standing_bytes(t->tape))));
    } else {
        str_list_format(a, &t->notes,
                        "vLLM on this GPU takes %.0f %% of it all the time "
                        "(vllm_gpu_memory_utilization), its copy of the weights among it",
                        100 * share);
    }
}

void forecast_note_completions(struct forecast *f, const struct plan *p, struct forecast_tape *t) {
    struct arena *a = f->arena;
    struct plan_preference how;
    int64_t tokens, completion;
    (void)forecast_completion(p, &tokens, &completion, NULL);
    if (!plan_preference_read(p->loss, &how)) return;
    str_list_format(
        a, &t->notes,
        "a batch is of completions: %lld tokens that are scored after %lld of a prompt%s",
        (long long)completion, (long long)(tokens - completion),
        p->target_length > 0 ? "" : " (assumed: --target-len)");
    str_list_add(
        a, &t->notes,
        !how.refers ? STR("there is no reference (beta: 0, trl's default); the scores of the model "
                          "that generated come with the batch")
        : p->adapter.len > 0
            ? STR("the reference is the model with its adapter switched off, before the step")
            : STR("a second model is the reference, in the type of the weights, and scores "
                  "before the step"));
    str_list_add(
        a, &t->notes,
        how.scores == PLAN_SCORES_NEW
            ? STR("tokens are scored by tiles of logits, as trl does from 1.15 on: earlier "
                  "versions need more (--loss grpo)")
            : STR("all logits of the completions are counted several times, as in trl 0.16 to "
                  "1.13: 1.14 needs less, from 1.15 on much less (--loss grpo@1.15)"));
    note_generator(f, p, t);
}
