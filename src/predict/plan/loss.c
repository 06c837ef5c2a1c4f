// SPDX-License-Identifier: Apache-2.0
// Words of the recorder for losses: fused ones, and those of preferences.
#include "predict/plan/plan.h"

// trl's first versions whose kernels score tokens, of all logits and by tiles of them; major * 1000
// + minor.
enum { OF_LOGITS = 1014, BY_TILES = 1015 };

// Every word for a loss of preferences. since: trl's first version that trains so; 0: it is another
// trainer's. form: whose step allocates the same, up to an entry a pair; the first word of a form
// says how it is (python/batchfit/loss_words.py, odds.py).
static const struct {
    const char *said;
    int64_t since;
    const char *form;
    struct plan_preference how;
} words[] = {
    {"dpo", 12, "dpo", {PLAN_STEP_DPO, PLAN_SCORES_WHOLE, false}},
    {"dpo", BY_TILES, "dpo@1.15", {PLAN_STEP_DPO, PLAN_SCORES_NEW, false}},
    {"dpo:precomputed", 12, "dpo:precomputed", {PLAN_STEP_DPO, PLAN_SCORES_WHOLE, true}},
    {"dpo:precomputed", BY_TILES, "dpo:precomputed@1.15", {PLAN_STEP_DPO, PLAN_SCORES_NEW, true}},
    {"dpo:llamafactory", 0, "dpo:llamafactory", {PLAN_STEP_DPO, PLAN_SCORES_LLAMAFACTORY, false}},
    {"orpo", 15, "orpo", {PLAN_STEP_ORPO, PLAN_SCORES_WHOLE, false}},
    {"orpo", OF_LOGITS, "orpo@1.14", {PLAN_STEP_ORPO, PLAN_SCORES_NEW, false}},
    {"orpo:llamafactory",
     0,
     "orpo:llamafactory",
     {PLAN_STEP_ORPO, PLAN_SCORES_LLAMAFACTORY, false}},
    {"cpo", 15, "orpo", {PLAN_STEP_ORPO, PLAN_SCORES_WHOLE, false}},
    {"cpo", OF_LOGITS, "orpo@1.14", {PLAN_STEP_ORPO, PLAN_SCORES_NEW, false}},
    {"cpo-simpo", 15, "orpo", {PLAN_STEP_ORPO, PLAN_SCORES_WHOLE, false}},
    {"cpo-simpo", OF_LOGITS, "orpo@1.14", {PLAN_STEP_ORPO, PLAN_SCORES_NEW, false}},
    {"simpo", 15, "simpo", {PLAN_STEP_SIMPO, PLAN_SCORES_WHOLE, false}},
    {"simpo", OF_LOGITS, "simpo@1.14", {PLAN_STEP_SIMPO, PLAN_SCORES_NEW, false}},
    {"simpo:llamafactory",
     0,
     "orpo:llamafactory",
     {PLAN_STEP_ORPO, PLAN_SCORES_LLAMAFACTORY, false}},
    {"kto", 1000, "kto", {PLAN_STEP_KTO, PLAN_SCORES_WHOLE, false}},
    {"kto", BY_TILES, "kto@1.15", {PLAN_STEP_KTO, PLAN_SCORES_NEW, false}},
    {"grpo", 16, "grpo", {PLAN_STEP_GRPO, PLAN_SCORES_WHOLE, false}},
    {"grpo", BY_TILES, "grpo@1.15", {PLAN_STEP_GRPO, PLAN_SCORES_NEW, false}},
    {"grpo:reference", 16, "grpo:reference", {PLAN_STEP_GRPO, PLAN_SCORES_WHOLE, .refers = true}},
    {"grpo:reference",
     BY_TILES,
     "grpo:reference@1.15",
     {PLAN_STEP_GRPO, PLAN_SCORES_NEW, .refers = true}},
    {"reward", 24, "reward", {PLAN_STEP_REWARD, PLAN_SCORES_WHOLE, false}},
};
enum { WORDS = sizeof words / sizeof *words };

// "1.14", "1.16.0", "0.24"; -1: it is none.
static int64_t version_of(struct str text) {
    struct str first = str_cut(&text, '.'), second = str_cut(&text, '.');
    int64_t major, minor;
    bool is_one = str_to_i64(first, &major) && str_to_i64(second, &minor) && major < 1000;
    return is_one ? major * 1000 + minor : -1;
}

// Of a trainer other than trl no version is known. -1: it is none.
static int find(struct str loss) {
    struct str version = loss, said = str_cut(&version, '@');
    int64_t number = version.p ? version_of(version) : 0;
    int found = -1;
    for (int i = 0; i < WORDS; i++) {
        if (!str_is(said, words[i].said) || (version.p && words[i].since == 0)) continue;
        bool is_first = !version.p && found < 0;
        if (is_first || (version.p && words[i].since <= number)) found = i;
    }
    return found;
}

bool plan_preference_read(struct str loss, struct plan_preference *ret) {
    int found = find(loss);
    if (found >= 0) *ret = words[found].how;
    return found >= 0;
}

bool plan_is_preference(struct str loss) {
    return find(loss) >= 0;
}

struct str plan_preference_word(struct plan_preference p) {
    for (int i = 0; i < WORDS; i++)
        if (words[i].how.step == p.step && words[i].how.scores == p.scores &&
            words[i].how.is_precomputed == p.is_precomputed && words[i].how.refers == p.refers)
            return str_of(words[i].form);
    return (struct str){0};
}

bool plan_has_reference(struct plan_preference p) {
    return p.step == PLAN_STEP_DPO || p.step == PLAN_STEP_KTO || p.refers;
}

struct str plan_loss_form(struct str loss) {
    int found = find(loss);
    return found >= 0 ? str_of(words[found].form) : loss;
}

bool plan_is_of_completions(struct str loss) {
    struct plan_preference how;
    return plan_preference_read(loss, &how) && how.step == PLAN_STEP_GRPO;
}

double plan_engine_share(struct str generator) {
    struct str rest = generator, word = str_cut(&rest, ':'), number = str_cut(&rest, ':');
    double share = 0;
    bool is_one = str_is(word, "vllm") && str_to_double(number, &share) && share > 0 && share <= 1;
    return is_one ? share : 0;
}

bool plan_engine_sleeps(struct str generator) {
    return plan_engine_share(generator) > 0 && str_ends(generator, STR(":sleep"));
}

bool plan_is_loss(struct str text) {
    struct str rest = text, word = str_cut(&rest, '@'), part = word, name = str_cut(&part, ':');
    int64_t chunks = 0;
    if (str_is(name, "liger"))
        return (!part.p || str_is(part, "loss")) && (!rest.p || rest.len > 0);
    if (plan_is_preference(text)) return true;
    if (rest.p) return false;
    if (str_is(name, "chunked") || str_is(name, "linear"))
        return !part.p || (str_to_i64(part, &chunks) && chunks > 0);
    return str_is(text, "cut");
}
