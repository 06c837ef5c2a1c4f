// SPDX-License-Identifier: Apache-2.0
// Lines of progress. A bar of a preparation (a download, a data set that is read) counts up, too: a
// bar counts only where its label is empty or names a training, and validation never does.
#include "measure/steps/steps.h"

#include "base/out.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// In a pattern: # the number, @ the total, ? a number that is neither, * anything, ^ the line's
// beginning; a blank stands for any number of blanks; letters match in both cases. Others stand for
// themselves. The first row that matches a line decides.
static const struct pattern {
    const char *text;
    bool is_step;  // false: only where the line's label names a training, or there is none
    bool is_other; // a sign of life that counts no steps
} patterns[] = {
    {"train epoch: ? [ # / @ (", false, true},    // PyTorch's mnist example: samples
    {"epoch [ ? ][ # / @ ]", true, false},        // mmcv
    {"epoch(train) [ ? ][ # / @ ]", true, false}, // mmengine
    {"epoch: [ ? ] [ # / @ ]", true, false},      // torchvision's references, the imagenet example
    {"train: ? [ # / @ ", true, false},           // timm
    {"iteration # / @ |", true, false},           // Megatron-LM
    {"iter(train) [ # / @ ]", true, false},       // mmengine
    {"step [ # / @ ]", true, false},
    {"epoch ?/? *\xe2\x94\x81 # / @ ", true, false}, // Lightning's rich bar
    {"^ # / @ \xe2\x94\x81", true, false},           // Keras 3
    {"^ # / @ [", true, false},                      // Keras 2
    {"%|*| # / @ [", false, false},                  // tqdm
    {"^ #it [", false, false},                       // tqdm without a total
    {"global_step: #", true, false},
    {"global_step= #", true, false},
    {"global step #", true, false},
    {"num_updates: #", true, false}, // fairseq
    {"iter: #", true, false},        // detectron2
    {"iter #", true, false},         // nanoGPT, litgpt
    {"step # / @", true, false},
    {"step: # / @", true, false},
    {"step: #", true, false}, // torchtitan, flax's examples
    {"step= #", true, false},
    {"step #", true, false},
    {"batch # / @", true, false},
    {"^ [#] *loss", true, false}, // clu
    {"{'loss': ", false, true},   // Hugging Face's Trainer
};

// --- One line ------------------------------------------------------------------------------------

static bool read_number(struct str s, ptrdiff_t *at, int64_t *ret_value) {
    ptrdiff_t begin = *at;
    int64_t value = 0;
    while (*at < s.len && isdigit((unsigned char)s.p[*at]) && *at - begin < 15) {
        value = value * 10 + (s.p[(*at)++] - '0');
    }
    if (ret_value) *ret_value = value;
    return *at > begin;
}

// Whether the pattern matches here.
static bool matches(const char *p, struct str s, ptrdiff_t at, struct printed_line *ret) {
    for (; *p; p++) {
        int64_t *number = *p == '#' ? &ret->number : *p == '@' ? &ret->total : NULL;
        if (*p == '*') {
            for (ptrdiff_t i = at; i <= s.len; i++) {
                if (matches(p + 1, s, i, ret)) return true;
            }
            return false;
        }
        if (*p == ' ') {
            while (at < s.len && (s.p[at] == ' ' || s.p[at] == '\t')) at++;
        } else if (number || *p == '?') {
            if (!read_number(s, &at, number)) return false;
        } else {
            if (at >= s.len || tolower((unsigned char)s.p[at]) != tolower((unsigned char)*p))
                return false;
            at++;
        }
    }
    return true;
}

static bool is_letter(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

static bool find_pattern(const char *pattern, struct str s, ptrdiff_t *ret_at,
                         struct printed_line *ret) {
    bool is_first = *pattern == '^';
    for (ptrdiff_t i = 0; i < (is_first ? 1 : s.len); i++) {
        if (i > 0 && is_letter(s.p[i - 1]) && is_letter(*pattern)) continue; // within a word
        *ret = (struct printed_line){.number = -1, .total = -1};
        if (!matches(pattern + is_first, s, i, ret)) continue;
        *ret_at = i;
        return true;
    }
    return false;
}

static bool has_word(struct str s, const char *const *words) {
    for (; *words; words++) {
        ptrdiff_t n = (ptrdiff_t)strlen(*words);
        for (ptrdiff_t i = 0; i + n <= s.len; i++) {
            if (strncasecmp(s.p + i, *words, (size_t)n) == 0) return true;
        }
    }
    return false;
}

// A number is no label, nor is the bar's own percentage.
static bool has_letters(struct str s) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (isalpha((unsigned char)s.p[i])) return true;
    }
    return false;
}

static uint64_t label_of(struct str s, size_t row) {
    char letters[64];
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < s.len && n < 64; i++) {
        if (is_letter(s.p[i])) letters[n++] = s.p[i];
    }
    return str_hash((struct str){letters, n}) * 31 + row;
}

bool steps_printed_read(struct str line, struct printed_line *ret_line) {
    static const char *const validation[] = {"valid", "eval",   "val ",    "val:", "val_",
                                             "test",  "sanity", "predict", NULL};
    static const char *const training[] = {"train", "epoch", "step", "iter", "batch", NULL};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        ptrdiff_t at = 0;
        struct printed_line found;
        if (!find_pattern(patterns[i].text, line, &at, &found)) continue;
        struct str label = str_slice(line, 0, at);
        found.label = label_of(label, i);
        found.is_validation = has_word(label, validation);
        bool is_named = !has_letters(label) || has_word(label, training);
        found.is_step = !patterns[i].is_other && (patterns[i].is_step || is_named);
        *ret_line = found;
        return true;
    }
    return false;
}

// --- As it comes ---------------------------------------------------------------------------------

static struct printed_bar *bar_of(struct printed *p, uint64_t label) {
    for (int i = 0; i < p->count; i++) {
        if (p->bars[i].label == label) return &p->bars[i];
    }
    if (p->count == PRINTED_BARS) return NULL;
    p->bars[p->count] = (struct printed_bar){.label = label, .number = -1};
    return &p->bars[p->count++];
}

static void count(struct printed *p, const struct printed_line *line, struct str text,
                  int64_t now_ns) {
    struct printed_bar *bar = bar_of(p, line->label);
    if (!bar || line->number == bar->number) return;
    if (bar->number >= 0 && line->number > bar->number) {
        int64_t steps = line->number - bar->number;
        struct printed_span span = {steps, (double)(now_ns - bar->last_ns) / 1e6};
        bar->made += steps;
        if (bar->count < PRINTED_SPANS) bar->spans[bar->count++] = span;
    }
    bar->number = line->number; // a smaller one: the next epoch
    bar->last_ns = now_ns;
    clean_keep(bar->example, sizeof bar->example, text);
}

// Drops ESC [ … letter (ECMA-48) where it stands; the new length.
static ptrdiff_t without_escapes(char *line, ptrdiff_t length) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < length; i++) {
        if (line[i] == 033 && i + 1 < length && line[i + 1] == '[') {
            for (i += 2; i < length && !isalpha((unsigned char)line[i]);) i++;
        } else if (line[i] != '\b') {
            line[kept++] = line[i];
        }
    }
    return kept;
}

static void end_line(struct printed *p, struct printed_source *source, int64_t now_ns) {
    struct printed_line line;
    struct str text =
        str_trim((struct str){source->line, without_escapes(source->line, source->length)});
    source->length = 0;
    if (text.len == 0 || !steps_printed_read(text, &line)) return;
    p->lines++;
    if (line.is_step && !line.is_validation && line.number >= 0) count(p, &line, text, now_ns);
}

void steps_printed_feed(struct printed *p, struct printed_source *source, struct str bytes,
                        int64_t now_ns) {
    for (ptrdiff_t i = 0; i < bytes.len; i++) {
        char c = bytes.p[i];
        if (c == '\n' || c == '\r') {
            if (source->length > 0) end_line(p, source, now_ns);
        } else if (source->length < PRINTED_LINE_BYTES) {
            source->line[source->length++] = c;
        }
    }
    // A bar is drawn before its line ends: "\r 12/100 [...]" is whole when nothing more comes.
    if (source->length > 0 && source->length < PRINTED_LINE_BYTES && p->lines > 0) {
        struct printed_source drawn = *source;
        end_line(p, &drawn, now_ns);
    }
}

// --- Its steps -----------------------------------------------------------------------------------

enum { SPANS_LEAST = 3 };
static const double regular_factor = 4, regular_share = .75;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_regular(const struct printed_bar *bar) {
    double each[PRINTED_SPANS];
    ptrdiff_t near = 0;
    if (bar->count < SPANS_LEAST) return false;
    for (ptrdiff_t i = 0; i < bar->count; i++) {
        each[i] = bar->spans[i].ms / (double)bar->spans[i].steps;
    }
    qsort(each, (size_t)bar->count, sizeof *each, by_value);
    double median = each[bar->count / 2];
    for (ptrdiff_t i = 0; i < bar->count; i++) {
        near += each[i] <= median * regular_factor && each[i] >= median / regular_factor;
    }
    return (double)near >= regular_share * (double)bar->count;
}

const struct printed_bar *steps_printed_best(const struct printed *p) {
    const struct printed_bar *best = NULL;
    for (int i = 0; i < p->count; i++) {
        const struct printed_bar *bar = &p->bars[i];
        if (is_regular(bar) && (!best || bar->made > best->made)) best = bar;
    }
    return best;
}

void steps_printed_take(const struct printed_bar *bar, int64_t samples, struct steps *steps) {
    struct step_rank *r =
        arena_push(steps->arena, &steps->ranks, &steps->rank_count, &steps->rank_capacity);
    *r = (struct step_rank){.pid = -1,
                            .state = STEPS_RANK_STARTED,
                            .steps = bar->made,
                            .samples = samples > 0 ? samples * bar->made : -1,
                            .samples_began = -1};
    int64_t made = 0;
    for (ptrdiff_t i = 0; i < bar->count; i++) {
        struct step *step =
            arena_push(steps->arena, &steps->items, &steps->count, &steps->capacity);
        *step = (struct step){.samples = samples > 0 ? samples * bar->spans[i].steps : -1,
                              .micro_batch = -1,
                              .micro_count = -1,
                              .allocated_bytes = -1,
                              .reserved_bytes = -1,
                              .peak_allocated_bytes = -1,
                              .peak_reserved_bytes = -1,
                              .alloc_retries = -1,
                              .t_s = (double)NAN,
                              .made = -1,
                              .made_samples = -1,
                              .rank_samples = -1};
        for (int t = 0; t < STEP_TIME_COUNT; t++) step->times.ms[t] = (double)NAN;
        step->times.total_ms = bar->spans[i].ms;
        step->number = step->rank_steps = made += bar->spans[i].steps;
    }
    if (bar->made > 1) steps->covered |= STEPS_COVER_SECOND_STEP;
}
