// SPDX-License-Identifier: Apache-2.0
// Words of the recorder for losses: fused ones, and those of preferences.
#include "predict/plan/plan.h"

// trl's versions, major * 1000 + minor: the first that is known here, the first without all logits.
enum { WHOLE_FROM = 12, TILED_FROM = 1014 };

// "1.14", "1.16.0", "0.24"; -1: it is none.
static int64_t version_of(struct str text) {
    struct str first = str_cut(&text, '.'), second = str_cut(&text, '.');
    int64_t major, minor;
    bool is_one = str_to_i64(first, &major) && str_to_i64(second, &minor) && major < 1000;
    return is_one ? major * 1000 + minor : -1;
}

bool plan_preference_read(struct str loss, struct plan_preference *ret) {
    struct str version = loss, word = str_cut(&version, '@'), part = word;
    struct str name = str_cut(&part, ':');
    bool is_other = str_is(part, "llamafactory");
    int64_t number = version.p ? version_of(version) : WHOLE_FROM;
    *ret = (struct plan_preference){.is_precomputed = str_is(part, "precomputed")};
    if (!str_is(name, "dpo") || (part.p && !ret->is_precomputed && !is_other)) return false;
    if (number < WHOLE_FROM || (is_other && version.p)) return false;
    ret->scores = is_other               ? PLAN_SCORES_LLAMAFACTORY
                  : number >= TILED_FROM ? PLAN_SCORES_TILED
                                         : PLAN_SCORES_WHOLE;
    return true;
}

bool plan_is_preference(struct str loss) {
    struct plan_preference p;
    return plan_preference_read(loss, &p);
}

struct str plan_preference_word(struct plan_preference p) {
    static const char *const words[][2] = {
        [PLAN_SCORES_WHOLE] = {"dpo", "dpo:precomputed"},
        [PLAN_SCORES_TILED] = {"dpo@1.14", "dpo:precomputed@1.14"},
        [PLAN_SCORES_LLAMAFACTORY] = {"dpo:llamafactory", "dpo:llamafactory"}};
    return str_of(words[p.scores][p.is_precomputed]);
}

struct str plan_loss_form(struct str loss) {
    struct plan_preference p;
    return plan_preference_read(loss, &p) ? plan_preference_word(p) : loss;
}

bool plan_is_loss(struct str text) {
    struct str rest = text, word = str_cut(&rest, '@'), part = word, name = str_cut(&part, ':');
    int64_t chunks = 0;
    if (str_is(name, "liger"))
        return (!part.p || str_is(part, "loss")) && (!rest.p || rest.len > 0);
    if (plan_is_preference(text)) return true;
    if (rest.p) return false;
    if (str_is(name, "chunked")) return !part.p || (str_to_i64(part, &chunks) && chunks > 0);
    return str_is(text, "cut");
}
