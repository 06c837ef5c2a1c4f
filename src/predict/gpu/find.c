// SPDX-License-Identifier: Apache-2.0
// From what a person types, or a driver prints, to a GPU. A name is taken apart by rule: vendor's
// words are dropped, memory ("80GB"), form ("SXM4", "PCIe") and "Laptop" are set apart, and what is
// left is the core: small letters and digits. GPUs with the typed core (or alias) are the
// variants; memory, form and laptop, where typed, choose among them, else the usual one is taken
// with a note.
#include "predict/gpu/gpu.h"

#include "base/near.h"
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 96 };
enum form { FORM_SXM = 1, FORM_PCIE = 2, FORM_NVL = 4 };

struct name {
    char whole[NAME_MAX_LEN]; // letters and digits, vendor dropped: "a10080gbpcie"
    char core[NAME_MAX_LEN];  // "a100"
    int gb;                   // 80; 0: not said
    unsigned forms;           // FORM_PCIE
    bool is_laptop;
};

static const char *const vendor_words[] = {"nvidia", "geforce", "tesla",    "amd",
                                           "radeon", "intel",   "instinct", "apple"};
static const char *const empty_words[] = {"gpu", "generation", "edition", "graphics"};
static const char *const laptop_words[] = {"laptop", "mobile", "notebook"};
// Words in front of the number that people leave out or mistake.
static const char *const series_words[] = {"quadro", "rtx", "gtx", "rx", "arc"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) return true;
    }
    return false;
}

// "80gb", "80g", "80gib" → 80; else 0.
static int memory_word(const char *word) {
    char *end;
    long value = strtol(word, &end, 10);
    if (end == word || value <= 0 || value > 4096) return 0;
    bool is_unit = strcmp(end, "gb") == 0 || strcmp(end, "g") == 0 || strcmp(end, "gib") == 0;
    return is_unit ? (int)value : 0;
}

// The form that a word names; ret_is_form also for words that tell nothing ("hbm2e").
static unsigned form_word(const char *word, bool *ret_is_form) {
    static const struct {
        const char *stem;
        unsigned form;
    } stems[] = {{"sxm", FORM_SXM}, {"pcie", FORM_PCIE}, {"nvl", FORM_NVL}, {"hbm", 0}};
    for (size_t i = 0; i < COUNT(stems); i++) {
        size_t length = strlen(stems[i].stem);
        const char *tail = word + length;
        if (strncmp(word, stems[i].stem, length) != 0) continue;
        if (*tail >= '0' && *tail <= '9') tail++;
        if (*tail == 'e') tail++;
        *ret_is_form = *tail == '\0';
        return *ret_is_form ? stems[i].form : 0;
    }
    *ret_is_form = false;
    return 0;
}

static void add_word(char *text, const char *word) {
    size_t used = strlen(text), room = NAME_MAX_LEN - 1 - used, length = strlen(word);
    if (length > room) length = room;
    memcpy(text + used, word, length);
    text[used + length] = '\0';
}

static void take_word(struct name *n, const char *word) {
    if (is_one_of(word, vendor_words, COUNT(vendor_words))) return;
    if (is_one_of(word, empty_words, COUNT(empty_words))) return;
    add_word(n->whole, word);
    bool is_form;
    unsigned form = form_word(word, &is_form);
    int gb = memory_word(word);
    if (is_one_of(word, laptop_words, COUNT(laptop_words)))
        n->is_laptop = true;
    else if (gb)
        n->gb = gb;
    else if (is_form)
        n->forms |= form;
    else
        add_word(n->core, word);
}

// Next run of letters and digits, in small letters. False at the end.
static bool next_word(struct str *rest, char *ret_word) {
    int n = 0;
    while (rest->len > 0) {
        char c = *rest->p;
        if (!str_is_alnum(c) && n > 0) break;
        *rest = str_slice(*rest, 1, rest->len);
        if (str_is_alnum(c) && n < NAME_MAX_LEN - 1) ret_word[n++] = str_lower(c);
    }
    ret_word[n] = '\0';
    return n > 0;
}

static const char *skip_words(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(text, words[i], length) == 0 && text[length]) {
            return skip_words(text + length, words, count);
        }
    }
    return text;
}

// Cuts a word off the end, as in "rtx3060laptop", but never all there is.
static bool cut_end(char *text, const char *word) {
    size_t length = strlen(text), cut = strlen(word);
    if (length <= cut || strcmp(text + length - cut, word) != 0) return false;
    text[length - cut] = '\0';
    return true;
}

// What was written without blanks: "nvidiartx3060laptopgpu", "h100pcie".
static void take_apart_core(struct name *n) {
    static const struct {
        const char *word;
        unsigned form;
    } ends[] = {{"sxm", FORM_SXM},  {"sxm2", FORM_SXM},  {"sxm4", FORM_SXM},
                {"sxm5", FORM_SXM}, {"pcie", FORM_PCIE}, {"nvl", FORM_NVL}};
    const char *start = skip_words(n->core, vendor_words, COUNT(vendor_words));
    memmove(n->core, start, strlen(start) + 1);
    for (size_t i = 0; i < COUNT(empty_words); i++) cut_end(n->core, empty_words[i]);
    for (size_t i = 0; i < COUNT(laptop_words); i++) {
        if (cut_end(n->core, laptop_words[i])) n->is_laptop = true;
    }
    for (size_t i = 0; i < COUNT(ends); i++) {
        if (cut_end(n->core, ends[i].word)) n->forms |= ends[i].form;
    }
}

static struct name parse(struct str text) {
    struct name n = {0};
    char word[NAME_MAX_LEN];
    while (next_word(&text, word)) take_word(&n, word);
    take_apart_core(&n);
    const char *start = skip_words(n.whole, vendor_words, COUNT(vendor_words));
    memmove(n.whole, start, strlen(start) + 1);
    return n;
}

static bool has_alias(const struct gpu *g, const struct name *typed) {
    struct str rest = g->aliases;
    while (rest.p) {
        struct str alias = str_cut(&rest, ' ');
        if (str_is(alias, typed->core) || str_is(alias, typed->whole)) return true;
    }
    return false;
}

// An alias of it, without the series: "6000" of "rtx6000".
static bool has_number(const struct gpu *g, const char *typed) {
    struct str rest = g->aliases;
    while (rest.p) {
        const struct str alias = str_cut(&rest, ' ');
        for (size_t i = 0; i < COUNT(series_words); i++)
            if (str_starts(alias, str_of(series_words[i])) &&
                str_is(str_slice(alias, (ptrdiff_t)strlen(series_words[i]), alias.len), typed))
                return true;
    }
    return false;
}

// The typed core is the GPU's core with its memory behind it: "a10080gb".
static bool is_core_with_memory(const struct gpu *g, const struct name *card, const char *typed) {
    size_t length = strlen(card->core);
    return strncmp(typed, card->core, length) == 0 && memory_word(typed + length) == g->nominal_gb;
}

// Shorthand of shops: 4080s is the SUPER, 3080m the one for laptops.
static bool is_shorthand(const struct gpu *g, const char *card, const char *typed) {
    size_t length = strlen(typed);
    if (length < 2 || strncmp(card, typed, length - 1) != 0) return false;
    const char *tail = card + length - 1;
    if (typed[length - 1] == 's') return strcmp(tail, "super") == 0;
    return typed[length - 1] == 'm' && *tail == '\0' && str_is(g->market, "laptop");
}

// The first two digits of the number, as in all of a GPU's names: taking names apart costs more.
static bool may_match(const struct gpu *g, const struct name *typed) {
    const char *number = typed->core + strcspn(typed->core, "0123456789");
    struct str digits = {number, (ptrdiff_t)strspn(number, "0123456789")};
    if (digits.len > 2) digits.len = 2;
    return str_find(g->name, digits) >= 0 || str_find(g->key, digits) >= 0 ||
           str_find(g->aliases, digits) >= 0;
}

enum closeness { SAME_NAME, SAME_CORE, SAME_NUMBER, SHORTHAND, NO_MATCH };

static enum closeness compare(const struct gpu *g, const struct name *typed) {
    if (!may_match(g, typed)) return NO_MATCH;
    struct name card = parse(g->name), key = parse(g->key);
    if (strcmp(card.whole, typed->whole) == 0 || strcmp(key.whole, typed->whole) == 0) {
        return SAME_NAME;
    }
    bool fits = (!typed->gb || typed->gb == g->nominal_gb) &&
                (typed->forms & card.forms) == typed->forms &&
                (!typed->is_laptop || str_is(g->market, "laptop"));
    if (has_alias(g, typed) && (!typed->gb || typed->gb == g->nominal_gb)) return SAME_CORE;
    if (!fits) return NO_MATCH;
    if (strcmp(card.core, typed->core) == 0 || is_core_with_memory(g, &card, typed->core)) {
        return SAME_CORE;
    }
    const char *mine = skip_words(card.core, series_words, COUNT(series_words));
    const char *theirs = skip_words(typed->core, series_words, COUNT(series_words));
    snprintf(card.core, sizeof card.core, "%s", mine);
    if (strcmp(card.core, theirs) == 0 || is_core_with_memory(g, &card, theirs)) return SAME_NUMBER;
    if (has_number(g, theirs)) return SAME_NUMBER;
    return is_shorthand(g, card.core, theirs) ? SHORTHAND : NO_MATCH;
}

// Among variants: not a laptop's, then the usual one, then the first of the catalogue.
static int preference(const struct gpu *g) {
    return 2 * !str_is(g->market, "laptop") + g->is_usual;
}

static const struct gpu *choose(const struct gpu_catalogue *c, const struct name *typed,
                                enum closeness *ret_closeness) {
    const struct gpu *best = NULL;
    enum closeness best_closeness = NO_MATCH;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        enum closeness how = compare(&c->gpus[i], typed);
        if (how == NO_MATCH || how > best_closeness) continue;
        bool is_better = how < best_closeness || preference(&c->gpus[i]) > preference(best);
        if (is_better) best = &c->gpus[i], best_closeness = how;
    }
    *ret_closeness = best_closeness;
    return best;
}

static const struct gpu *least(const struct gpu_catalogue *c, const struct name *typed,
                               const struct gpu *chosen, enum closeness how) {
    const struct gpu *best = chosen;
    for (ptrdiff_t i = 0; i < c->count && how != SAME_NAME; i++) {
        const struct gpu *g = &c->gpus[i];
        bool is_meant = compare(g, typed) == how && str_equal(g->market, chosen->market);
        if (is_meant && g->usable_bytes < best->usable_bytes) best = g;
    }
    return best;
}

// Which other GPUs the same words could mean; only those whose memory differs matter here.
static struct str note_of_variants(struct arena *a, const struct gpu_catalogue *c,
                                   const struct name *typed, const struct gpu *chosen,
                                   enum closeness how) {
    struct buf others = buf_new(a);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct gpu *g = &c->gpus[i];
        if (g == chosen || g->nominal_gb == chosen->nominal_gb) continue;
        enum closeness theirs = compare(g, typed);
        if (theirs == NO_MATCH || (theirs > how && how != SAME_NAME)) continue;
        buf_format(&others, "%s%.*s (%d GB)", others.count ? ", " : "", STR_ARG(g->key),
                   g->nominal_gb);
    }
    if (!others.count) return (struct str){0};
    return str_format(a, "taken as %.*s with %d GB; other versions: %.*s", STR_ARG(chosen->name),
                      chosen->nominal_gb, STR_ARG(buf_str(&others)));
}

// "rtx3060" equals the whole name of the 12 GB GPU, but says nothing of the memory either.
static bool is_explicit(const struct name *typed, const struct gpu *chosen) {
    struct name card = parse(chosen->name);
    return typed->gb || typed->is_laptop ||
           (strcmp(card.whole, typed->whole) == 0 && strcmp(card.core, card.whole) != 0);
}

static int not_found(struct arena *a, const struct gpu_catalogue *c, struct str typed,
                     const struct name *name, struct fail *why) {
    fail_set(why, FAIL_INPUT, "no GPU \"%.*s\" in the catalogue", STR_ARG(typed));
    if (name->gb && !*name->core) {
        return fail_hint(
            why, "a memory size names no GPU: --gpu-memory %dGiB answers for any that has it",
            name->gb);
    }
    int64_t number;
    if (str_to_digits(typed, 10, &number) && number < 100)
        return fail_hint(why, "--gpu takes a name (rtx3090), --gpu-ids a number of this machine's");
    struct near near = {.typed = str_of(name->core)};
    struct name without_memory = *name;
    without_memory.gb = 0;
    struct buf variants = buf_new(a);
    for (ptrdiff_t i = 0; i < c->count; i++) {
        near_offer(&near, c->gpus[i].key);
        if (!name->gb || compare(&c->gpus[i], &without_memory) >= SHORTHAND) continue;
        buf_join(&variants, ", ", c->gpus[i].key);
    }
    if (variants.count) {
        return fail_hint(why,
                         "no version with %d GB, but %.*s; for other memory sizes use --gpu-memory",
                         name->gb, STR_ARG(buf_str(&variants)));
    }
    struct str names = near_text(a, &near);
    if (names.len) {
        return fail_hint(
            why,
            "did you mean %.*s? `batchfit list gpus` lists all; for another GPU use --gpu-memory",
            STR_ARG(names));
    }
    return fail_hint(why, "`batchfit list gpus` lists all; for another GPU use --gpu-memory, for "
                          "example --gpu-memory 12GiB");
}

int gpu_find(struct arena *a, const struct gpu_catalogue *c, struct str typed,
             struct gpu_match *ret_match, struct fail *why) {
    struct name name = parse(typed);
    enum closeness how = NO_MATCH;
    const struct gpu *g = name.core[0] ? choose(c, &name, &how) : NULL;
    if (!g) return not_found(a, c, typed, &name, why);
    struct str note = {0};
    if (!is_explicit(&name, g)) note = note_of_variants(a, c, &name, g, how);
    *ret_match = (struct gpu_match){g, note, least(c, &name, g, how)};
    return 0;
}

const struct gpu *gpu_of_name(const struct gpu_catalogue *c, struct str name, int64_t total_bytes) {
    struct name driver = parse(name);
    const struct gpu *best = NULL;
    int64_t best_distance = INT64_MAX;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct gpu *g = &c->gpus[i];
        struct name card = parse(g->name);
        bool is_same = strcmp(card.whole, driver.whole) == 0;
        bool may_be = strcmp(card.core, driver.core) == 0 && card.is_laptop == driver.is_laptop &&
                      (!driver.gb || driver.gb == g->nominal_gb || is_same) &&
                      (driver.forms & card.forms) == driver.forms;
        if (!is_same && !may_be) continue;
        int64_t distance = total_bytes ? llabs(g->total_bytes - total_bytes) : 0;
        distance = distance / UNIT_GIB * 2 + !is_same;
        if (distance < best_distance) best = g, best_distance = distance;
    }
    return best;
}
