// SPDX-License-Identifier: Apache-2.0
// The gate's judgement: each config with its own batch, accumulation, precision and sizes, one
// question a config (a second one only where "8xh100" names other ranks), one answer a GPU.
#include "verbs/fit/fit.h"

#include "base/out.h"
#include "base/shell.h"
#include "job/question/question.h"

#include <assert.h>
#include <math.h>

enum { TOO_TIGHT = 2, DOES_NOT_RUN = 4, NOT_JUDGED };
const char *const fit_check_verdicts[] = {
    "FITS", "FITS TIGHTLY", "TOO TIGHT", "DOES NOT FIT", "DOES NOT RUN", "NOT JUDGED", NULL};

bool fit_check_stops(const struct fit_check_row *row) {
    return row->verdict == fit_check_verdicts[DOES_NOT_RUN];
}

const struct fit_check_known *fit_check_find(const struct fit_check_list *list, struct str config,
                                             struct str key) {
    for (ptrdiff_t i = 0; i < list->count; i++) {
        const struct fit_check_known *k = &list->items[i];
        if (str_equal(k->config, config) && str_equal(k->key, key)) return k;
    }
    return NULL;
}

static struct fit_check_row *add_row(struct fit_check *c, const char *config) {
    struct fit_check_row *row = arena_push(c->arena, &c->rows, &c->count, &c->capacity);
    *row = (struct fit_check_row){.config = str_of(config),
                                  .gpu = STR("any GPU"),
                                  .key = STR("any"),
                                  .verdict = fit_check_verdicts[NOT_JUDGED]};
    row->state = FIT_CHECK_UNJUDGED;
    return row;
}

static void unjudged(struct fit_check_row *row, struct str reason, struct str hint) {
    row->state = FIT_CHECK_UNJUDGED;
    row->verdict = fit_check_verdicts[NOT_JUDGED];
    row->reason = reason;
    row->hint = hint;
    row->memory.expected_bytes = 0;
    row->basis = NULL;
}

// The file is named beside it anyway.
static void unjudged_by(struct arena *a, struct fit_check_row *row, struct fail *why) {
    struct str reason = str_of(why->message);
    struct str name = str_format(a, "%.*s: ", STR_ARG(clean_text(a, row->config)));
    if (str_starts(reason, name)) reason = str_slice(reason, name.len, reason.len);
    unjudged(row, str_copy(a, reason), str_copy(a, str_of(why->hint)));
    *why = (struct fail){0};
}

// Errors of the question or of the program are no property of a config.
static bool is_of_config(int rc) {
    return rc == FAIL_INPUT || rc == FAIL_MACHINE;
}

// --- One config on one GPU -----------------------------------------------------------------------

static struct str explain_words(struct arena *a, const struct fit_check_row *row) {
    const char *option = row->plan.ranks > 1 && str_is_digit(row->key.p[0]) ? "gpus" : "gpu";
    return str_format(
        a,
        "batchfit explain --config %.*s --%s %.*s shows where the memory goes and what would fit",
        STR_ARG(shell_word(a, row->config)), option, STR_ARG(row->key));
}

// Whatever --max-memory allows, a gate passes nothing that would not run with 3 % less.
static bool gate_passes(const struct answer *answer) {
    return answer->fits && answer->peak.verdict == FORECAST_FITS;
}

// What fits is said, and why something does not.
static void set_verdict(struct question *q, const struct answer *answer,
                        struct fit_check_row *row) {
    static const enum fit_check_state states[] = {FIT_CHECK_FAILS, FIT_CHECK_PASSES};
    const struct answer_memory *m = &row->memory;
    enum answer_verdict verdict = answer_verdict(answer);
    double share = 100 * (double)m->expected_bytes / fmax(1, (double)m->usable_bytes);
    const bool passes = gate_passes(answer);
    bool is_tight = !passes && verdict != ANSWER_NOT;
    row->state = states[passes];
    row->verdict = is_tight ? fit_check_verdicts[TOO_TIGHT] : answer_verdict_name(verdict);
    if (passes) return;
    row->hint = explain_words(q->arena, row);
    if (answer->peak.is_in_gap && is_tight)
        row->reason = STR("it runs with a little less memory, but not with just this much");
    else if (!is_tight)
        row->reason =
            str_format(q->arena, "%.*s expected", STR_ARG(answer_memory_text(q->arena, m)));
    else if (!answer_margin_kept(answer))
        row->reason =
            str_format(q->arena, "%.*f %% of the memory expected, %.0f %% allowed (--max-memory)",
                       share - 100 * row->limit < 0.5 ? 2 : 0, share, 100 * row->limit);
    else
        row->reason = STR("it runs, but not with 3 % less memory");
}

// An upper bound that fits does fit; one that does not says nothing. Returns what stands in; empty:
// nothing does.
static struct str bounded_by(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    if (gate_passes(answer) || !t || !t->is_upper_bound) return (struct str){0};
    return t->notes.count > 0 ? t->notes.items[0] : STR("every figure is an upper bound");
}

// What the config asks for and the forecast does not count: named, with the figure without it, if
// there is one.
static bool is_left_out(struct question *q, const struct answer *answer,
                        struct fit_check_row *row) {
    struct arena *a = q->arena;
    struct str what = question_not_modelled(q);
    if (what.len == 0) return false;
    what = str_format(a, QUESTION_NOT_MODELLED "%.*s", STR_ARG(what));
    if (answer) {
        const struct answer_memory m = answer_memory(answer);
        what = str_format(a, "%.*s; without it %.*s", STR_ARG(what),
                          STR_ARG(answer_memory_text(a, &m)));
    }
    unjudged(row, what, STR("measure it: batchfit fit --config FILE -- COMMAND"));
    return true;
}

// What fit counts as something else, and says so, a gate does not pass: an optimizer may have any
// number of states.
static bool is_unknown(struct question *q, const struct question_options *asked,
                       struct fit_check_row *row) {
    const struct config_value *optimizer = &q->reading.values[CONFIG_OPTIMIZER];
    const struct config_value *precision = &q->reading.values[CONFIG_PRECISION];
    const bool has_optimizer = optimizer->text.len > 0 && !asked->optimizer && !asked->tape;
    const bool has_precision =
        precision->type != CONFIG_ABSENT && !asked->precision && !asked->tape;
    if (q->config.is_partial) {
        bool is_known = q->config.notes.count > 0;
        unjudged(row, is_known ? q->config.notes.items[0] : STR("a file that it names is missing"),
                 STR("put the files that it refers to next to it"));
    } else if (q->plan.batch <= 0) {
        unjudged(row, STR("it does not give the batch of one GPU"),
                 STR("--key batch=PATH names its key"));
    } else if (has_optimizer && !q->plan.inference && !plan_optimizer_find(optimizer->text)) {
        unjudged(
            row,
            str_format(q->arena, "the optimizer '%.*s' is not known", STR_ARG(optimizer->text)),
            STR("--optimizer NAME says which one it is like"));
    } else if (has_precision && !plan_precision_find(precision->word)) {
        unjudged(
            row,
            str_format(q->arena, "the precision '%.*s' is not known", STR_ARG(precision->text)),
            STR("--precision WORD says which one it is like"));
    } else {
        return false;
    }
    return true;
}

bool fit_check_is_unjudged(struct question *q, const struct question_options *asked,
                           struct fit_check_row *row) {
    return is_unknown(q, asked, row) || is_left_out(q, NULL, row);
}

// What the GPU has not stops the training; scores of attention that nobody counts may not fit.
static void set_lacking(const struct question *q, struct answer *answer,
                        struct fit_check_row *row) {
    const struct str lacking = answer_lacking(q, answer);
    if (answer_lacks(q, answer, NULL).len == 0) {
        unjudged(row, lacking, STR("in fp16, or on another GPU"));
        return;
    }
    row->state = FIT_CHECK_FAILS;
    row->verdict = fit_check_verdicts[DOES_NOT_RUN];
    row->reason = lacking;
    row->hint = (struct str){0};
    row->answer = answer;
}

int fit_check_judge(struct question *q, const struct question_options *asked,
                    const struct forecast_card *card, struct fit_check_row *row, struct fail *why) {
    struct answer *answer = arena_new(q->arena, struct answer, 1);
    row->limit = 1 - card->margin;
    row->plan = q->plan;
    if (is_unknown(q, asked, row)) return 0;
    q->precision_fixed = true; // as it stands, whatever suits the GPU
    int rc = answer_at(q, card, q->plan.batch, plan_micro_steps(&q->plan), answer, why);
    if (rc < 0 && !is_of_config(rc)) return rc;
    if (is_left_out(q, rc == 0 ? answer : NULL, row)) return 0;
    if (rc < 0) {
        unjudged_by(q->arena, row, why);
        return 0;
    }
    row->plan = answer->plan;
    row->memory = answer_memory(answer);
    row->basis = answer->verdict_basis;
    row->notes = answer->notes;
    set_verdict(q, answer, row);
    const struct answer_open *open = answer_open_size(q, answer);
    if (open)
        unjudged(row, str_format(q->arena, "it does not give the %s", open->what),
                 str_format(q->arena, "%s N sets it", open->option));
    else if (answer_verdict(answer) != ANSWER_NOT && !answer_has_all(q, answer))
        set_lacking(q, answer, row);
    else if (bounded_by(answer).len > 0)
        unjudged(row, bounded_by(answer),
                 STR("the tape that stands in needs more and does not fit: batchfit record makes "
                     "one of the training itself"));
    else
        row->answer = answer;
    return 0;
}

int fit_check_find_batch(struct question *q, struct fail *why) {
    struct plan *p = &q->plan;
    int64_t ranks = p->ranks > 0 ? p->ranks : 1;
    if (p->batch <= 0 && q->effective > 0 && q->effective % ranks == 0) {
        p->batch = q->effective / ranks;
        p->accumulation = 1;
    }
    if (p->batch > 0) return 0;
    if (q->path.len == 0) {
        fail_set(why, FAIL_INPUT,
                 "%.*s without a config has no batch: any GPU might be large enough",
                 STR_ARG(p->model));
        return fail_hint(why, "--effective-batch-size N says what the training needs");
    }
    fail_set(why, FAIL_INPUT, "%.*s: no batch per GPU is given: any GPU might be large enough",
             STR_ARG(q->path));
    return fail_hint(why, "--effective-batch-size N says what the training needs, --key batch=PATH "
                          "the key of the config");
}

int fit_check_fail(const struct question *q, const struct fit_check_row *row, struct fail *why) {
    const char *sign = q->path.len > 0 ? ": " : "";
    fail_set(why, FAIL_INPUT, "%.*s%s%.*s", STR_ARG(q->path), sign, STR_ARG(row->reason));
    return fail_hint(why, "%.*s", STR_ARG(row->hint));
}

// --- One config ----------------------------------------------------------------------------------

// The command line says what the config leaves open; its batch and what else it says stand.
static int open_question(struct fit_check *c, const char *config, int64_t ranks,
                         const struct question_source *source, struct question **ret,
                         struct fail *why) {
    struct question_options asked = c->options->o.q;
    asked.config = config;
    asked.gpus = NULL;
    asked.source = source;
    asked.like = c->like;
    if (ranks > 0) asked.ranks = ranks;
    asked.gpus_in_all |= ranks > 0; // "8xh100" is all there are
    *ret = arena_new(c->arena, struct question, 1);
    int rc = question_open(c->arena, &asked, *ret, why);
    if (rc == 0) c->like = *ret;
    return rc;
}

// What a GPU's name was taken for concerns every config: said once.
static void move_notes(struct fit_check *c, struct question *q, ptrdiff_t from) {
    for (ptrdiff_t i = from; i < q->notes.count; i++) {
        str_list_add_new(c->arena, &c->notes, q->notes.items[i]);
    }
    q->notes.count = from;
}

static int judge_gpus(struct fit_check *c, const char *config, struct question *q,
                      const struct question_gpus *cards, int64_t ranks, struct fail *why) {
    const char *prefix = ranks > 0 ? str_format(c->arena, "%lldx", (long long)ranks).p : "";
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        const struct gpu *gpu = &cards->items[i].gpu;
        struct str name = show_gpu_name(gpu->name);
        struct fit_check_row *row = add_row(c, config);
        row->question = q;
        row->line =
            q->reading.values[CONFIG_BATCH].file.len > 0 ? 0 : q->reading.values[CONFIG_BATCH].line;
        row->gpu = str_format(c->arena, "%s%s%.*s", prefix, ranks > 0 ? " " : "", STR_ARG(name));
        row->key = gpu->key.len > 0 ? gpu->key : name;
        row->key = str_format(c->arena, "%s%.*s", prefix, STR_ARG(row->key));
        int rc = fit_check_judge(q, &c->options->o.q, &cards->items[i], row, why);
        if (rc < 0) return rc;
    }
    return 0;
}

static int no_gpus(const char *config, struct fail *why) {
    fail_set(why, FAIL_USAGE, "--check: no GPU is named, and %s has no team_gpu_settings", config);
    return fail_hint(why, "for example --gpus rtx3060,a100 or --gpus 8xh100");
}

// A tier's GPUs are the config's, those of a name everybody's.
static bool is_tier(struct str name) {
    for (int i = 0; i < GPU_TIERS; i++) {
        if (str_is(name, gpu_tier_name((enum gpu_tier)i))) return true;
    }
    return false;
}

static int find_named(struct fit_check *c, struct question *q, struct str name,
                      struct question_gpus *cards, struct fail *why) {
    for (ptrdiff_t i = 0; i < c->gpus_count; i++) {
        if (!str_equal(c->gpus[i].name, name)) continue;
        *cards = (struct question_gpus){arena_new(q->arena, struct forecast_card, 1), 1, 1};
        question_place(q, c->gpus[i].gpu, cards->items);
        return 0;
    }
    int rc = question_gpus_named(q, str_z(c->arena, name), cards, why);
    if (rc == 0 && cards->count == 1 && !is_tier(name))
        *arena_push(c->arena, &c->gpus, &c->gpus_count, &c->gpus_capacity) =
            (struct fit_check_gpu){name, cards->items[0].gpu};
    return rc;
}

// The GPUs of one word of the list; without any, those of the config's team.
static int find_gpus(struct fit_check *c, const char *config, struct question *q, struct str name,
                     struct question_gpus *cards, struct fail *why) {
    const struct choice_options *o = &c->options->o;
    struct config_card *team = NULL;
    ptrdiff_t before = q->notes.count;
    int count = 0, rc;
    if (name.len > 0) {
        rc = find_named(c, q, name, cards, why);
    } else if (o->gpu || o->gpu_memory > 0) {
        *cards = (struct question_gpus){arena_new(q->arena, struct forecast_card, 1), 1, 1};
        rc = question_card(q, str_of(o->gpu), o->gpu_memory, cards->items, why);
    } else {
        rc = config_team_read(c->arena, &q->config, &team, &count, why);
        if (rc == 0 && count == 0) return no_gpus(config, why);
        if (rc == 0) rc = question_gpus_of_team(q, cards, why);
    }
    move_notes(c, q, before);
    return rc;
}

int fit_check_config(struct fit_check *c, const char *config, const struct question_source *source,
                     struct fail *why) {
    struct str rest = str_of(c->options->o.q.gpus);
    struct question *open = NULL; // as the config has its ranks
    int gpus = 0;
    do {
        struct question_gpus cards = {0};
        struct question *q = open;
        struct str name = str_trim(str_cut(&rest, ','));
        int64_t ranks = 0;
        if (name.len == 0 && (gpus > 0 || rest.p)) continue;
        int rc = name.len > 0 ? question_gpu_word(&c->options->o.q, name, &ranks, &name, why) : 0;
        if (rc < 0) return rc;
        if (!q || ranks > 0) rc = open_question(c, config, ranks, source, &q, why);
        if (rc < 0 && is_of_config(rc)) {
            struct fit_check_row *row = add_row(c, config);
            unjudged_by(c->arena, row, why);
            if (ranks == 0) return 0;
            row->gpu = row->key =
                str_format(c->arena, "%lldx%.*s", (long long)ranks, STR_ARG(name));
            continue;
        }
        if (rc == 0) rc = find_gpus(c, config, q, name, &cards, why);
        if (rc == 0) rc = judge_gpus(c, config, q, &cards, ranks, why);
        if (rc < 0) return rc;
        if (ranks == 0) open = q;
        gpus += (int)cards.count;
    } while (rest.p);
    c->gpu_count = gpus > c->gpu_count ? gpus : c->gpu_count;
    return 0;
}
