// SPDX-License-Identifier: Apache-2.0
// Precision has no key of its own kind: it is one boolean, two booleans, a boolean with a type
// beside it, or a word of one of several families. Read and written here in the file's own family.
#include "records/config/dialect_int.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    enum spelling spelling;
} spellings[] = {
    {"amp", SPELL_AMP},       {"fp16", SPELL_FP16},         {"bf16", SPELL_BF16},
    {"type", SPELL_TYPE},     {"word", SPELL_WORD},         {"dtype", SPELL_DTYPE},
    {"pure16", SPELL_PURE16}, {"purefp16", SPELL_PUREFP16}, {"scale", SPELL_SCALE},
};

// One family a row: what each precision is called there. The first column that matches a text tells
// the family; NULL: the family cannot say it. Bare half types mean autocast for SPELL_WORD and the
// type of the weights for SPELL_DTYPE.
enum { FP32, AMP_FP16, AMP_BF16, BF16, FP16, PRECISIONS };
#define AMP_WRAPPER "AmpOptimWrapper"
static const char *const names[PRECISIONS] = {"fp32", "amp-fp16", "amp-bf16", "bf16", "fp16"};
static const struct family {
    enum spelling spelling;
    const char *words[PRECISIONS];
} families[] = {
    {SPELL_WORD,
     {"32-true", "16-mixed", "bf16-mixed", "bf16-true", "16-true"}},        // Lightning 2, litgpt
    {SPELL_WORD, {"fp32", "amp_fp16", "amp_bf16", NULL, NULL}},             // Composer
    {SPELL_WORD, {"no", "fp16", "bf16", NULL, NULL}},                       // accelerate
    {SPELL_WORD, {"32", "16", "bf16", NULL, NULL}},                         // Lightning 1
    {SPELL_WORD, {"fp32", "amp-fp16", "amp-bf16", "bf16-true", "16-true"}}, // ours
    {SPELL_WORD, {"fp32", "fp16", "bf16", NULL, NULL}},
    {SPELL_WORD, {"float32", "float16", "bfloat16", NULL, NULL}},
    {SPELL_WORD, {"FLOAT_32", "FLOAT_16", "BFLOAT_16", NULL, NULL}}, // OneTrainer
    {SPELL_WORD, {"NONE", "FP16", "BF16", NULL, NULL}},              // oumi
    {SPELL_WORD, {"full", "half", NULL, NULL, NULL}},
    {SPELL_WORD, {"none", "amp", NULL, NULL, NULL}},
    {SPELL_WORD, {"O0", "O1", NULL, NULL, NULL}},                  // apex
    {SPELL_WORD, {"OptimWrapper", AMP_WRAPPER, NULL, NULL, NULL}}, // MMEngine
    {SPELL_DTYPE, {"fp32", NULL, NULL, "bf16", "fp16"}},
    {SPELL_DTYPE, {"float32", NULL, NULL, "bfloat16", "float16"}},
    {SPELL_DTYPE, {"torch.float32", NULL, NULL, "torch.bfloat16", "torch.float16"}},
    {SPELL_TYPE, {NULL, "float16", "bfloat16", NULL, NULL}},
    {SPELL_TYPE, {NULL, "fp16", "bf16", NULL, NULL}},
    {SPELL_TYPE, {NULL, "half", "bfloat16", NULL, NULL}},
};
enum { FAMILIES = sizeof families / sizeof *families };

static int family_of(enum spelling spelling, struct str text, int *ret_precision) {
    for (int f = 0; f < FAMILIES; f++) {
        if (families[f].spelling != spelling) continue;
        for (int i = 0; i < PRECISIONS; i++) {
            if (families[f].words[i] && str_is(text, families[f].words[i])) {
                *ret_precision = i;
                return f;
            }
        }
    }
    return -1;
}

static void find_one(const struct scope *s, struct str place, enum spelling spelling,
                     struct precision_keys *keys) {
    struct matches m = {0};
    config_scope_find(s, place, &m);
    for (ptrdiff_t i = 0; i < m.count; i++) {
        const struct config_node *n = config_node_follow(m.items[i].place.value);
        bool known = n->kind != NODE_SCALAR;
        for (ptrdiff_t k = 0; k < keys->count; k++)
            known |= keys->items[k].match.place.value == m.items[i].place.value;
        if (known) continue;
        *arena_push(s->arena, &keys->items, &keys->count, &keys->capacity) =
            (struct precision_key){spelling, m.items[i]};
    }
}

void config_precision_find(const struct scope *s, struct str places,
                           struct precision_keys *ret_keys) {
    while (places.p) {
        struct str pattern = str_cut(&places, ' ');
        const ptrdiff_t equals = str_find(pattern, STR("="));
        if (equals < 0) continue;
        const struct str name = str_slice(pattern, equals + 1, pattern.len);
        struct str_list expanded = {0};
        config_braces_expand(s->arena, str_slice(pattern, 0, equals), &expanded);
        for (size_t k = 0; k < sizeof spellings / sizeof *spellings; k++) {
            if (!str_is(name, spellings[k].name)) continue;
            for (ptrdiff_t i = 0; i < expanded.count; i++) {
                find_one(s, expanded.items[i], spellings[k].spelling, ret_keys);
            }
        }
    }
}

void config_precision_guess(const struct scope *s, const struct match *named,
                            struct precision_keys *ret_keys) {
    const struct str path = named->path;
    const struct config_node *n = config_node_follow(named->place.value);
    const bool is_bool = n->kind == NODE_SCALAR && config_scalar_plain(n->text).type == CONFIG_BOOL;
    const enum spelling spelling = str_ends(path, STR("bf16"))    ? SPELL_BF16
                                   : str_ends(path, STR("fp16"))  ? SPELL_FP16
                                   : str_ends(path, STR("dtype")) ? SPELL_DTYPE
                                   : is_bool                      ? SPELL_AMP
                                                                  : SPELL_WORD;
    if (n->kind != NODE_SCALAR) return;
    *arena_push(s->arena, &ret_keys->items, &ret_keys->count, &ret_keys->capacity) =
        (struct precision_key){spelling, *named};
}

static const struct precision_key *find_key(const struct precision_keys *keys,
                                            enum spelling spelling) {
    for (ptrdiff_t i = 0; i < keys->count; i++) {
        if (keys->items[i].spelling == spelling) return &keys->items[i];
    }
    return NULL;
}

static struct scalar read_key(const struct scope *s, const struct precision_key *k,
                              struct str *ret_text) {
    const struct config_node *n = config_node_follow(k->match.place.value);
    struct scalar r = config_scalar_read(s->config, n);
    *ret_text = n->text;
    // "true" in quotes is text for YAML; trainers convert it.
    if (r.type == CONFIG_TEXT && config_scalar_plain(n->text).type == CONFIG_BOOL)
        r = config_scalar_plain(n->text);
    return r;
}

// Precision of one key: an index of `names`, -1 when the key says nothing (false), -2 when it says
// something we do not know.
static int one_precision(const struct scope *s, const struct precision_keys *keys,
                         const struct precision_key *k) {
    struct str text, type_text;
    int precision = -2;
    const struct scalar r = read_key(s, k, &text);
    if (k->spelling == SPELL_WORD || k->spelling == SPELL_DTYPE) {
        if (r.type == CONFIG_NULL) return -1;
        if (r.type == CONFIG_BOOL && k->spelling == SPELL_WORD) return r.boolean ? AMP_FP16 : FP32;
        return family_of(k->spelling, text, &precision) < 0 ? -2 : precision;
    }
    if (r.type == CONFIG_NULL || (r.type == CONFIG_BOOL && !r.boolean)) return -1;
    switch (k->spelling) {
    case SPELL_AMP: {
        const struct precision_key *type = find_key(keys, SPELL_TYPE);
        if (r.type == CONFIG_TEXT && !(type && str_is(text, AMP_WRAPPER))) {
            if (family_of(SPELL_WORD, text, &precision) < 0) return -2;
            return precision == FP32 ? -1 : precision; // "none": another key may say more
        }
        if (type) read_key(s, type, &type_text);
        if (type && family_of(SPELL_TYPE, type_text, &precision) >= 0) return precision;
        if (r.type == CONFIG_TEXT) return AMP_FP16;
        return r.type == CONFIG_BOOL || r.integer == 1 ? AMP_FP16 : -2;
    }
    case SPELL_FP16:
        return r.type == CONFIG_BOOL ? AMP_FP16 : -2;
    case SPELL_BF16:
        // DeepSpeed's auto is whatever the training arguments say; others ask the GPU.
        if (str_is(text, "auto")) return str_ends(k->match.path, STR(".enabled")) ? -2 : AMP_BF16;
        return r.type == CONFIG_BOOL ? AMP_BF16 : str_is(text, "full") ? BF16 : -2;
    case SPELL_SCALE: // of the loss: mmcv's fp16 = dict(loss_scale=512.0)
        return AMP_FP16;
    case SPELL_PURE16:
        return BF16;
    case SPELL_PUREFP16:
        return FP16;
    default:
        return -1;
    }
}

struct config_value config_precision_read(const struct scope *s, const struct precision_keys *keys,
                                          struct str assumed) {
    struct config_value v = {.number = NAN};
    const struct precision_key *first = NULL;
    bool unknown = false, says_no = false;
    int precision = -1;
    for (ptrdiff_t i = 0; i < keys->count && precision < 0; i++) {
        const struct precision_key *k = &keys->items[i];
        if (k->spelling == SPELL_TYPE) continue;
        const int p = one_precision(s, keys, k);
        if (!first || p >= 0) first = k;
        unknown |= p == -2;
        says_no |= p == -1;
        precision = p;
    }
    if (first) v = config_value_of(s->arena, s->config, &first->match.place, first->match.path);
    if (precision >= 0)
        v.word = str_of(names[precision]);
    else if (unknown)
        v.word = (struct str){0};
    // Both booleans false, or amp false: that is said, not assumed.
    else if (says_no)
        v.word = STR("fp32");
    else
        v.word = assumed;
    v.assumed = !first && assumed.len > 0;
    return v;
}

const struct precision_key *config_precision_both(const struct scope *s,
                                                  const struct precision_keys *keys) {
    static const enum spelling types[] = {SPELL_BF16, SPELL_FP16};
    const struct precision_key *key = NULL;
    for (int i = 0; i < 2; i++) {
        struct str text;
        key = find_key(keys, types[i]);
        if (!key) return NULL;
        const struct scalar r = read_key(s, key, &text);
        if (r.type != CONFIG_BOOL || !r.boolean) return NULL;
    }
    return key;
}

// The word for the precision in the family of the text that stands there; NULL: it has none.
static const char *word_for(enum spelling spelling, struct str text, int precision,
                            bool *ret_number) {
    int old;
    const int f = family_of(spelling, text, &old);
    const char *word = f >= 0 ? families[f].words[precision] : NULL;
    *ret_number = word && config_scalar_plain(str_of(word)).type == CONFIG_INT;
    return word;
}

// The precisions, beside fp32, that a key can say: those at which a boolean is true; words say all
// of them, and the type beside a boolean none by itself.
static const unsigned says[] = {
    [SPELL_AMP] = 1u << AMP_FP16 | 1u << AMP_BF16,
    [SPELL_FP16] = 1u << AMP_FP16,
    [SPELL_BF16] = 1u << AMP_BF16,
    [SPELL_TYPE] = 0,
    [SPELL_WORD] = ~0u,
    [SPELL_DTYPE] = ~0u,
    [SPELL_PURE16] = 1u << BF16,
    [SPELL_PUREFP16] = 1u << FP16,
    [SPELL_SCALE] = 1u << AMP_FP16,
};
_Static_assert(sizeof says / sizeof *says == SPELL_SCALE + 1, "a row for every spelling");

static bool edit_key(const struct scope *s, const struct precision_keys *keys,
                     const struct precision_key *k, int wanted, struct config_edits *edits) {
    struct str text;
    bool number;
    const struct scalar r = read_key(s, k, &text);
    struct config_edit e = {.path = k->match.path, .value = STR("false")};
    const bool says_amp = wanted == AMP_FP16 || wanted == AMP_BF16;
    if (k->spelling == SPELL_SCALE) return wanted == AMP_FP16; // its number is no switch
    if (k->spelling == SPELL_WORD || k->spelling == SPELL_DTYPE || k->spelling == SPELL_TYPE ||
        (k->spelling == SPELL_AMP && r.type == CONFIG_TEXT)) {
        if (k->spelling == SPELL_TYPE && !says_amp) return true;
        const char *word =
            word_for(k->spelling == SPELL_AMP ? SPELL_WORD : k->spelling, text, wanted, &number);
        if (!word) return false;
        e.value = str_of(word);
        e.is_text = !number;
        config_edits_add(s->arena, edits, e);
        return true;
    }
    const bool on = says[k->spelling] >> wanted & 1;
    // A lone "amp: true" means fp16; without a type beside it, bf16 cannot be said.
    if (k->spelling == SPELL_AMP && wanted == AMP_BF16 && !find_key(keys, SPELL_TYPE)) return false;
    if (on) e.value = STR("true");
    // auto or null in the key that is to be off anyway stays as it is.
    if (!on && r.type != CONFIG_BOOL)
        return r.type == CONFIG_NULL || one_precision(s, keys, k) == -1;
    config_edits_add(s->arena, edits, e);
    return true;
}

// A key of the table that the file lacks and that would say it: "@.bf16=bf16".
static bool insert_key(const struct scope *s, const struct role_row *row, struct str after,
                       int wanted, struct config_edits *edits) {
    static const struct {
        int precision;
        const char *ending, *value;
    } ways[] = {{AMP_FP16, "=fp16", "true"},
                {AMP_BF16, "=bf16", "true"},
                {BF16, "=pure16", "true"},
                {AMP_FP16, "=amp", "true"}};
    struct str places = row->places;
    while (row->insert == INSERT_YES && places.p) {
        struct str pattern = str_cut(&places, ' ');
        if (memchr(pattern.p, '{', (size_t)pattern.len) ||
            memchr(pattern.p, '*', (size_t)pattern.len))
            continue;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (ways[i].precision != wanted || !str_ends(pattern, str_of(ways[i].ending))) continue;
            struct str place = str_slice(pattern, 0, str_find(pattern, STR("=")));
            const bool home = str_starts(place, STR("@."));
            if (home) place = str_slice(place, 2, place.len);
            if (home && s->home.len)
                place = str_format(s->arena, "%.*s.%.*s", STR_ARG(s->home), STR_ARG(place));
            config_edits_add(
                s->arena, edits,
                (struct config_edit){
                    .path = place, .value = str_of(ways[i].value), .insert = true, .after = after});
            return true;
        }
    }
    return false;
}

bool config_precision_edits(const struct scope *s, const struct precision_keys *keys,
                            const struct role_row *row, struct str after, struct str wanted,
                            struct config_edits *edits) {
    int target = -1;
    for (int i = 0; i < PRECISIONS; i++) {
        if (str_is(wanted, names[i])) target = i;
    }
    if (target < 0) return false;
    bool said = target == FP32;
    for (ptrdiff_t i = 0; i < keys->count; i++) {
        const struct precision_key *k = &keys->items[i];
        if (!edit_key(s, keys, k, target, edits)) return false;
        said |= says[k->spelling] >> target & 1;
    }
    if (keys->count == 0 && target == FP32) return str_is(row->assumed, "fp32");
    return said || insert_key(s, row, after, target, edits);
}
