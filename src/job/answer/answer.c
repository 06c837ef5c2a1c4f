// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/say.h"
#include "base/unit.h"
#include "job/answer/answer_int.h"
#include "predict/search/search.h"
#include "view/show/show.h"

#include <assert.h>
#include <stdarg.h>

__attribute__((format(printf, 3, 4))) static void note(struct answer *answer, struct arena *a,
                                                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    str_list_add(a, &answer->notes, str_format_list(a, format, args));
    va_end(args);
}

struct asking {
    struct answer *answer;
    int64_t effective, ranks;
};

static int fits(void *context, int64_t batch, struct fail *why) {
    struct asking *ask = context;
    return forecast_fits(&ask->answer->forecast, &ask->answer->card, batch,
                         plan_accumulation(ask->effective, batch, ask->ranks), why);
}

static bool may_fit(void *context, int64_t batch) {
    struct asking *ask = context;
    return forecast_may_fit(&ask->answer->forecast, &ask->answer->card, batch,
                            plan_accumulation(ask->effective, batch, ask->ranks));
}

// "convnext_base_384": 384.
static bool name_says(const struct question *q, int64_t size) {
    const struct str name = q->plan.model;
    for (ptrdiff_t i = 0, digits; i < name.len; i += digits + 1) {
        int64_t number = 0;
        for (digits = 0; i + digits < name.len && str_is_digit(name.p[i + digits]);) digits++;
        if (digits > 0 && str_to_i64(str_slice(name, i, i + digits), &number) && number == size)
            return true;
    }
    return false;
}

static bool is_models_own(const struct question *q) {
    return config_is_models_own(&q->reading.values[CONFIG_IMAGE_SIZE]);
}

static bool is_recorded(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    return t && t->template.len == 0;
}

// Sizes that nobody said are the tape's; a config is not changed by such an answer (write.c).
static void note_open_sizes(const struct question *q, struct answer *answer) {
    const struct plan *asked = &q->plan, *is = &answer->forecast.plan;
    if (asked->sequence_length <= 0 && is->sequence_length > 0) {
        note(answer, q->arena,
             "no sequence length is given: taken as %lld tokens%s; --seq-len N sets it",
             (long long)is->sequence_length, is_recorded(answer) ? ", the longest recorded" : "");
    }
    if (asked->image_size <= 0 && is->image_size > 0 && q->has_config) {
        note(answer, q->arena,
             "the image size is not in the config: taken as %lld px, %s; --img-size N sets it",
             (long long)is->image_size,
             name_says(q, is->image_size) ? "as the model's name says"
             : q->is_decided              ? "as the tape has it"
             : is_models_own(q)           ? "the model's own, which the trainer takes"
                                          : "the model's usual one");
    }
}

static void note_needless_sizes(const struct question *q, struct answer *answer) {
    const struct plan *asked = &q->plan, *is = &answer->forecast.plan;
    const struct {
        int64_t asked, is;
        const char *what, *lacks;
    } sizes[] = {
        {asked->image_size, is->image_size, "the image size", "takes no images"},
        {asked->sequence_length, is->sequence_length, "the sequence length", "takes no sequences"},
        {is->generates ? 0 : asked->target_length, is->target_length, "the target length",
         "generates no sequence of its own"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].asked <= 0 || sizes[i].is > 0) continue;
        note(answer, q->arena, "%s %lld has no effect: %.*s %s", sizes[i].what,
             (long long)sizes[i].asked, STR_ARG(is->model), sizes[i].lacks);
    }
}

// A head of as many outputs as the recorded model has.
static void note_open_classes(const struct question *q, const struct tape_header *h,
                              struct answer *answer) {
    const struct str whose = h->library.len > 0 ? h->library : STR("the recorded model");
    if (!q->has_config || q->is_decided || q->plan.classes > 0 || h->classes <= 0) return;
    if (question_head(q)) return;
    note(answer, q->arena,
         "the number of classes is not in the config: counted with %lld, as %.*s has; "
         "--num-classes N sets it",
         (long long)h->classes, STR_ARG(whose));
}

// The number of classes may stand in no size of a recording: then another one is not counted.
static void note_fixed_classes(const struct question *q, const struct tape *t,
                               struct answer *answer) {
    const int64_t asked = answer->plan.classes, is = t->header.classes;
    if (asked <= 0 || is <= 0 || asked == is || tape_counts_classes(t)) return;
    note(answer, q->arena,
         "%lld classes are counted as %lld: no size in the recording depends on them%s",
         (long long)asked, (long long)is, asked > is ? ", so more is needed than this says" : "");
}

// What a head for masked words needs beside one for classes.
static void note_masked_words(const struct question *q, struct answer *answer) {
    const struct plan *p = &answer->plan;
    const int64_t bytes = answer_masked_words(q, answer);
    if (bytes <= 0) return;
    note(answer, q->arena,
         "not counted: the logits of a head for masked words, %lld x %lld tokens x %lld words x 4 "
         "bytes = %.*s a copy, of which there are three when backward begins (themselves, their "
         "logarithms and the gradient)",
         (long long)p->batch, (long long)p->sequence_length,
         (long long)answer->forecast.shape->vocabulary, STR_ARG(unit_bytes(q->arena, bytes)));
}

const struct answer_open *answer_open_size(const struct question *q, const struct answer *answer) {
    static const struct answer_open length = {"sequence length", "--seq-len"},
                                    image = {"image size", "--img-size"};
    const struct plan *asked = &q->plan, *is = &answer->plan;
    if (asked->sequence_length <= 0 && is->sequence_length > 0) return &length;
    if (asked->image_size > 0 || is->image_size <= 0 || !q->has_config || q->is_decided)
        return NULL;
    return is_models_own(q) || name_says(q, is->image_size) ? NULL : &image;
}

bool answer_stands_in(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    return t && t->is_larger;
}

static const char *verdict_basis(const struct question *q, const struct answer *answer) {
    if (question_not_modelled(q).len > 0 || !answer_has_all(q, answer)) return "not_modelled";
    if (answer_open_size(q, answer)) return "assumed_size";
    return answer_stands_in(answer) ? "stand_in" : "counted";
}

int answer_open_on(struct question *q, const struct gpu *gpu, struct plan *plan,
                   struct forecast *ret_forecast, struct fail *why) {
    plan->precision = answer_precision(q, gpu);
    plan->lacks_flash = !gpu_has(gpu, GPU_FLASH);
    if (!gpu_has(gpu, GPU_TRITON)) plan->lacks |= PLAN_LACKS_LIGER;
    int rc = forecast_open(&q->tape_cache, plan, ret_forecast, why);
    if (rc == 0 || !q->precision_is_open || plan->precision == q->plan.precision) return rc;
    plan->precision = q->plan.precision;
    return forecast_open(&q->tape_cache, plan, ret_forecast, why);
}

static int open_answer(struct question *q, const struct forecast_card *card, struct answer *answer,
                       struct fail *why) {
    int64_t budget = forecast_budget(card);
    // Others may hold more than that: then nothing is left, which is not less than nothing.
    *answer =
        (struct answer){.card = *card, .plan = q->plan, .budget_bytes = budget > 0 ? budget : 0};
    answer->plan.accumulation = 1;
    int rc = answer_open_on(q, &card->gpu, &answer->plan, &answer->forecast, why);
    if (rc < 0) return rc;
    const struct str lacks = answer_lacks(q, answer, NULL);
    if (lacks.len > 0) str_list_add(q->arena, &answer->notes, lacks);
    struct str said = answer_precision_note(q, &card->gpu, answer->plan.precision);
    if (said.len > 0) str_list_add(q->arena, &answer->notes, said);
    if (card->gpu.is_unified)
        note(answer, q->arena,
             "the GPU shares the machine's memory: what the system, Python and data loaders take "
             "is not counted (--other-processes)");
    int64_t ranks = answer->plan.ranks;
    note_open_sizes(q, answer);
    note_needless_sizes(q, answer);
    answer->plan = answer->forecast.plan;
    answer->plan.ranks = ranks;
    return 0;
}

// A tape that was checked from batch 2 on may miss copies that vanish at 1.
static void note_unchecked_batch(struct arena *a, const struct forecast_tape *t,
                                 struct answer *answer) {
    const struct tape_header *h = &t->tape->header;
    int64_t least = INT64_MAX;
    for (int i = 0; i < h->batch_count; i++) {
        if (h->batches[i] < least) least = h->batches[i];
    }
    if (answer->plan.batch >= least || h->batch_count == 0) return;
    note(answer, a,
         "the tape was checked from batch %lld up; below that the figures may be slightly high",
         (long long)least);
}

static int measure(struct question *q, struct answer *answer, struct fail *why) {
    struct forecast_tape *t = NULL;
    const struct plan *p = &answer->plan;
    int rc = forecast_at(&answer->forecast, &answer->card, p->batch, p->accumulation, &answer->peak,
                         why);
    if (rc == 0) rc = forecast_tape(&answer->forecast, p->batch, p->accumulation, &t, why);
    if (rc < 0) return rc;
    assert(t);
    for (ptrdiff_t i = 0; i < t->notes.count; i++)
        note(answer, q->arena, "%.*s", STR_ARG(t->notes.items[i]));
    answer->verdict_basis = verdict_basis(q, answer);
    note_open_classes(q, &t->tape->header, answer);
    note_masked_words(q, answer);
    note_fixed_classes(q, t->tape, answer);
    note_unchecked_batch(q->arena, t, answer);
    answer_speed_predict(q, answer);
    return 0;
}

static void note_choice(struct question *q, struct answer *answer) {
    long long batch = answer->plan.batch, largest = answer->largest_batch;
    if (!answer->effective_kept || largest <= batch || answer->plan.batch == 0) return;
    if (answer->plan.accumulation == 1) {
        note(answer, q->arena,
             "batch %lld is the whole effective batch; %lld would fit "
             "(--effective-batch-size)",
             batch, largest);
        return;
    }
    note(answer, q->arena,
         "%lld would fit but does not divide the effective batch %lld: keeping it exact costs %.0f "
         "%% of the batch",
         largest, (long long)q->effective, 100.0 * (double)(largest - batch) / (double)largest);
}

// The largest of a falling list that fits. Which of two batches needs more is known only where both
// accumulate or neither does: FSDP keeps the whole gradients of a micro-step that is not the last
// (no_sync), so that a batch of three may fit where three of one do not.
static int largest(struct asking *ask, struct plan_batches list, int64_t *ret_batch,
                   struct fail *why) {
    int at_once = 0;
    while (at_once < list.count &&
           plan_accumulation(ask->effective, list.values[at_once], ask->ranks) == 1)
        at_once++;
    int found = search_largest(list.values, at_once, may_fit, fits, ask, ret_batch, why);
    if (found != 0) return found;
    return search_largest(list.values + at_once, list.count - at_once, may_fit, fits, ask,
                          ret_batch, why);
}

// Multiples are fast on tensor cores, but not at the price of more than a quarter of the memory.
static const double least_of_largest = 0.75;

// The largest that keeps the effective batch: a multiple, or any divisor where multiples waste the
// memory (of 90 samples, 30 times 3 where 5 times 18 fits).
static int choose_kept(struct question *q, struct asking *ask, struct plan_batches every,
                       struct fail *why) {
    struct answer *answer = ask->answer;
    int64_t *batch = &answer->plan.batch, whole = q->effective / ask->ranks, any;
    struct plan_batches kept = plan_keeping(q->arena, every, q->effective, ask->ranks);
    int found = largest(ask, kept, batch, why);
    int64_t most = answer->largest_batch < whole ? answer->largest_batch : whole;
    bool is_enough = found > 0 && (double)*batch >= least_of_largest * (double)most;
    if (found < 0 || is_enough || q->range.multiple > 0) return found;
    struct plan_range range = q->range;
    range.multiple = 1;
    kept = plan_every_batch(q->arena, &range);
    kept = plan_keeping(q->arena, kept, q->effective, ask->ranks);
    found = largest(ask, kept, &any, why);
    if (found > 0) *batch = any;
    return found;
}

static int64_t needed(struct asking *ask, int64_t batch) {
    struct forecast_peak peak;
    int rc = forecast_at(&ask->answer->forecast, &ask->answer->card, batch,
                         plan_accumulation(ask->effective, batch, ask->ranks), &peak, NULL);
    return rc < 0 ? INT64_MAX : peak.needed_bytes;
}

// What needs least where nothing fits: the smallest batch, or the smallest that need not
// accumulate.
static int64_t choose_least(struct asking *ask, struct plan_batches every) {
    const int64_t least = every.values[every.count - 1], whole = ask->effective / ask->ranks;
    bool is_there = false;
    for (int i = 0; i < every.count; i++) is_there |= every.values[i] == whole;
    return is_there && whole > least && needed(ask, whole) < needed(ask, least) ? whole : least;
}

// Without a known effective batch every batch is as good as another: the largest.
static int choose_batch(struct question *q, struct answer *answer, struct fail *why) {
    struct asking ask = {answer, q->effective, answer->plan.ranks};
    struct plan_batches every = plan_every_batch(q->arena, &q->range);
    if (every.count == 0) {
        return fail_set(why, FAIL_USAGE, "no batch between --min-batch-size and --max-batch-size");
    }
    int found = largest(&ask, every, &answer->largest_batch, why);
    if (found < 0) return found;
    answer->plan.batch = answer->largest_batch;
    if (q->effective > 0) found = choose_kept(q, &ask, every, why);
    if (found < 0) return found;
    answer->fits = found > 0;
    answer->effective_kept = q->effective > 0 && answer->fits;
    if (!answer->fits) answer->plan.batch = choose_least(&ask, every);
    answer->plan.accumulation = plan_accumulation(q->effective, answer->plan.batch, ask.ranks);
    if (!answer->fits && answer->largest_batch > 0) {
        // It fits, but no batch that fits divides the effective batch: said, not hidden.
        answer->plan.batch = answer->largest_batch;
        answer->plan.accumulation = plan_accumulation(q->effective, answer->plan.batch, ask.ranks);
        answer->fits = true;
        const int64_t group = question_group(q);
        while (group > 1 && plan_effective(&answer->plan) % group != 0)
            answer->plan.accumulation++; // trl wants whole groups of completions
        note(answer, q->arena,
             "no allowed batch that fits divides the effective batch %lld: it becomes %lld",
             (long long)q->effective, (long long)plan_effective(&answer->plan));
    }
    return 0;
}

int answer_choose_alone(struct question *q, const struct forecast_card *card, struct answer *ret,
                        struct fail *why) {
    int rc = open_answer(q, card, ret, why);
    if (rc == 0) rc = choose_batch(q, ret, why);
    if (rc == 0) rc = measure(q, ret, why);
    if (rc == 0) note_choice(q, ret);
    if (rc == 0 && ret->fits && ret->plan.batch == PLAN_BATCH_MOST && q->range.most <= 0)
        note(ret, q->arena,
             "%d is the largest batch that is tried; --max-batch-size N tries larger ones",
             PLAN_BATCH_MOST);
    return rc;
}

int answer_at(struct question *q, const struct forecast_card *card, int64_t batch,
              int64_t accumulation, struct answer *ret, struct fail *why) {
    int rc = open_answer(q, card, ret, why);
    if (rc < 0) return rc;
    ret->plan.batch = batch;
    ret->plan.accumulation = accumulation;
    rc = forecast_fits(&ret->forecast, card, batch, accumulation, why);
    if (rc < 0) return rc;
    ret->fits = rc > 0;
    return measure(q, ret, why);
}

static void add_row(struct show_table *t, const struct question *q, const struct answer *answer) {
    struct arena *a = q->arena;
    const struct plan *p = &answer->plan;
    const struct answer_memory m = answer_memory(answer);
    const struct answer_word word = answer_word(q, answer);
    show_table_cell(t, SHOW_STRONG, show_gpu_name(answer->card.gpu.name));
    show_table_format(t, SHOW_STRONG, "%lld", (long long)p->batch);
    show_table_format(t, SHOW_STRONG, "%lld", (long long)p->accumulation);
    show_table_format(t, SHOW_PLAIN, "%lld", (long long)plan_effective(p));
    show_table_cell(t, SHOW_PLAIN, str_of(plan_precision_name(p->precision)));
    show_table_cell(t, SHOW_PLAIN, unit_bytes(a, m.expected_bytes));
    show_table_cell(t, SHOW_DIM, unit_bytes(a, m.worst_bytes));
    show_table_cell(t, SHOW_PLAIN, unit_bytes(a, m.usable_bytes));
    show_table_cell(t, SHOW_PLAIN, unit_bytes(a, m.headroom_bytes));
    show_table_cell(t, word.tone, str_of(say(word.name)));
}

void answer_table(const struct question *q, const struct answer *answers, int count,
                  struct show_style style, struct buf *out) {
    static const struct show_heading columns[] = {
        {"GPU", SHOW_LEFT},         {"batch", SHOW_RIGHT},    {"accum.", SHOW_RIGHT},
        {"effective", SHOW_RIGHT},  {"precision", SHOW_LEFT}, {"expected", SHOW_RIGHT},
        {"worst case", SHOW_RIGHT}, {"usable", SHOW_RIGHT},   {"headroom", SHOW_RIGHT},
        {"verdict", SHOW_LEFT},     {NULL, SHOW_LEFT}};
    static const char *const gives_way[] = {"headroom", "effective", "worst case", "precision",
                                            NULL};
    struct show_table t = show_table_new(q->arena, (struct str){0});
    show_table_columns(&t, columns);
    show_table_gives_way(&t, gives_way);
    for (int i = 0; i < count; i++) add_row(&t, q, &answers[i]);
    show_table_text(&t, style, out);
}

// Documents have the whole names of GPUs in their notes; people the short ones. A name begins with
// a capital, unlike the words in "the NVIDIA driver", and is not the GPUs of "84 NVIDIA GPUs".
static struct str with_short_names(struct arena *a, struct str note) {
    static const struct str maker = {"NVIDIA ", 7};
    struct buf text = buf_new(a);
    for (ptrdiff_t at = str_find(note, maker); at >= 0; at = str_find(note, maker)) {
        struct str name = str_slice(note, at + maker.len, note.len);
        bool is_name =
            name.len > 0 && name.p[0] >= 'A' && name.p[0] <= 'Z' && !str_starts(name, STR("GPU"));
        buf_add(&text, str_slice(note, 0, is_name ? at : at + maker.len));
        note = is_name ? show_gpu_name(str_slice(note, at, note.len)) : name;
    }
    buf_add(&text, note);
    return buf_str(&text);
}

static bool is_loud_note(struct str note) {
    static const char *const loud[] = {QUESTION_NOT_MODELLED, ANSWER_OVERFLOWS, ANSWER_LACKS};
    size_t i = 0;
    while (i < sizeof loud / sizeof *loud && !str_starts(note, str_of(loud[i]))) i++;
    return i < sizeof loud / sizeof *loud;
}

void answer_loud_notes(const struct str_list *notes, struct show_style style, struct buf *out) {
    for (ptrdiff_t i = 0; i < notes->count; i++) {
        if (is_loud_note(notes->items[i])) show_prose(out, style, SHOW_WARN, notes->items[i], 0, 2);
    }
}

void answer_quiet_notes(struct arena *a, const struct str_list *notes, struct show_style style,
                        struct buf *out) {
    struct str_list quiet = {0};
    for (ptrdiff_t i = 0; i < notes->count; i++) {
        if (!is_loud_note(notes->items[i])) str_list_add(a, &quiet, notes->items[i]);
    }
    answer_notes(&quiet, style, out);
}

void answer_notes(const struct str_list *notes, struct show_style style, struct buf *out) {
    for (ptrdiff_t i = 0; i < notes->count; i++) {
        const bool is_loud = is_loud_note(notes->items[i]);
        if (!is_loud) show_text(out, style, SHOW_DIM, STR("- "));
        show_prose(out, style, is_loud ? SHOW_WARN : SHOW_PLAIN,
                   with_short_names(out->arena, notes->items[i]), is_loud ? 0 : 2, 2);
    }
}
