// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/say.h"
#include "base/unit.h"
#include "view/show/show.h"

#include <math.h>

// What others hold is worth a word from this share of the GPU's memory on: a desktop is not.
static const double busy_share = 0.05;

static const struct answer_word verdicts[] = {[ANSWER_FITS] = {"FITS", SHOW_GOOD},
                                              [ANSWER_TIGHT] = {"FITS TIGHTLY", SHOW_WARN},
                                              [ANSWER_NOT] = {"DOES NOT FIT", SHOW_BAD}};

const char *answer_verdict_name(enum answer_verdict verdict) {
    return verdicts[verdict].name;
}

enum show_tone answer_verdict_tone(enum answer_verdict verdict) {
    return verdicts[verdict].tone;
}

// The band is one of what the allocator holds (doc/accuracy.md); what the step needs errs as much.
static int64_t most_needed(const struct answer *answer) {
    const struct forecast_peak *peak = &answer->peak;
    double most = (double)(peak->upper_bytes - answer->card.overhead.high_bytes);
    double share = (double)peak->needed_bytes / fmax(1, (double)peak->reserved_bytes);
    return (int64_t)fmax(most * share, (double)peak->needed_bytes);
}

struct answer_memory answer_memory(const struct answer *answer) {
    const struct forecast_peak *peak = &answer->peak;
    const struct forecast_card *card = &answer->card;
    struct answer_memory m = {
        .expected_bytes = peak->needed_bytes + peak->overhead_bytes + card->others_bytes,
        .worst_bytes = most_needed(answer) + card->overhead.high_bytes + card->others_bytes,
        .usable_bytes = card->gpu.usable_bytes,
    };
    if (m.usable_bytes > m.expected_bytes) m.headroom_bytes = m.usable_bytes - m.expected_bytes;
    return m;
}

bool answer_margin_kept(const struct answer *answer) {
    struct answer_memory m = answer_memory(answer);
    double kept = (double)m.usable_bytes * (1 - answer->card.margin);
    return answer->fits || (double)m.expected_bytes <= kept;
}

enum answer_verdict answer_verdict(const struct answer *answer) {
    struct answer_memory m = answer_memory(answer);
    if (answer->peak.verdict == FORECAST_OOM) return ANSWER_NOT;
    if (answer->peak.verdict == FORECAST_AT_RISK || !answer->fits) return ANSWER_TIGHT;
    return m.worst_bytes <= m.usable_bytes ? ANSWER_FITS : ANSWER_TIGHT;
}

int64_t answer_masked_words(const struct question *q, const struct answer *answer) {
    const struct config_guard *head = question_head(q);
    const struct shape *s = answer->forecast.shape;
    const struct plan *p = &answer->plan;
    if (!head || !str_is(head->what, QUESTION_MASKED) || !s || p->sequence_length <= 0) return 0;
    return 4 * p->batch * p->sequence_length * s->vocabulary;
}

// Whether three of them do not fit beside what is counted: themselves, their logarithms and the
// gradient, when backward begins.
static bool lacks_masked_words(const struct question *q, const struct answer *answer) {
    const struct answer_memory m = answer_memory(answer);
    const int64_t bytes = answer_masked_words(q, answer);
    return bytes > 0 && m.expected_bytes + 3 * bytes > m.usable_bytes;
}

static bool lacks_scores(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    return t && t->lacks_scores;
}

bool answer_has_all(const struct question *q, const struct answer *answer) {
    return answer_lacks(q, answer, NULL).len == 0 && !lacks_scores(answer);
}

static void add_lacking(const struct question *q, const struct answer *answer,
                        struct str *without) {
    struct buf text = buf_new(q->arena);
    struct str lacking;
    answer_lacks(q, answer, &lacking);
    if (lacks_scores(answer)) lacking = STR("scores of attention in bf16");
    buf_add(&text, *without);
    buf_join(&text, ", ", lacking);
    *without = buf_str(&text);
}

static enum question_whose whose(const struct question *q, const struct answer *answer,
                                 struct str *ret_without) {
    const bool fits = answer_verdict(answer) != ANSWER_NOT;
    const enum question_whose it = question_whose(q, fits, ret_without);
    if (!fits) return it;
    if (!answer_has_all(q, answer)) {
        if (ret_without) add_lacking(q, answer, ret_without);
        return QUESTION_OF_ANOTHER;
    }
    return lacks_masked_words(q, answer) ? QUESTION_OF_ANOTHER : it;
}

bool answer_is_counted(const struct question *q, const struct answer *answer) {
    return whose(q, answer, NULL) <= QUESTION_OF_IT_AT_MOST;
}

bool answer_is_yes(const struct question *q, const struct answer *answer) {
    return answer->fits && answer_is_counted(q, answer);
}

struct str answer_why_not_counted(const struct question *q, const struct answer *answer) {
    const struct str lacking = answer_lacking(q, answer), left_out = question_not_modelled(q);
    struct str without;
    if (whose(q, answer, &without) <= QUESTION_OF_IT_AT_MOST) return (struct str){0};
    if (lacking.len > 0 && answer_verdict(answer) != ANSWER_NOT) return lacking;
    if (left_out.len > 0)
        return str_format(q->arena, QUESTION_NOT_MODELLED "%.*s", STR_ARG(left_out));
    return str_format(q->arena, "not counted: %.*s", STR_ARG(without)); // paged states
}

struct answer_word answer_word(const struct question *q, const struct answer *answer) {
    if (!answer_is_counted(q, answer)) return (struct answer_word){"NOT COUNTED", SHOW_WARN};
    return verdicts[answer_verdict(answer)];
}

// --- Figures -------------------------------------------------------------------------------------

struct scale {
    double unit;
    const char *name;
    int decimals;
};

static bool looks_equal(const struct scale *s, int64_t a, int64_t b) {
    double steps = pow(10, s->decimals) / s->unit;
    return a != b && lround((double)a * steps) == lround((double)b * steps);
}

// So many digits that what differs looks different.
static struct scale scale_of(const struct answer_memory *m) {
    bool is_large = m->usable_bytes >= UNIT_GIB;
    struct scale s = {(double)(is_large ? UNIT_GIB : UNIT_MIB), is_large ? "GiB" : "MiB", is_large};
    while (s.decimals < 3 && (looks_equal(&s, m->expected_bytes, m->usable_bytes) ||
                              looks_equal(&s, m->worst_bytes, m->usable_bytes)))
        s.decimals++;
    return s;
}

struct str answer_memory_text(struct arena *a, const struct answer_memory *m) {
    struct scale s = scale_of(m);
    return str_format(a, _("%.*f of %.*f %s"), s.decimals, (double)m->expected_bytes / s.unit,
                      s.decimals, (double)m->usable_bytes / s.unit, s.name);
}

// " (worst case 9.7)"; where it does not fit, the expected case is bad enough.
static void add_worst(const struct answer_memory *m, struct buf *text) {
    struct scale s = scale_of(m);
    if (m->expected_bytes > m->usable_bytes) return;
    buf_format(text, _(" (worst case %.*f)"), s.decimals, (double)m->worst_bytes / s.unit);
}

struct str answer_batch_text(struct arena *a, const struct plan *p) {
    struct buf text = buf_new(a);
    buf_format(&text, "%lld", (long long)p->batch);
    if (p->accumulation > 1) buf_format(&text, " x %lld", (long long)p->accumulation);
    if (p->ranks > 1 && p->tensor_parallel > 1)
        buf_format(&text, " x %lld ranks of %lld GPUs", (long long)p->ranks,
                   (long long)p->tensor_parallel);
    else if (p->ranks > 1)
        buf_format(&text, " x %lld GPUs", (long long)p->ranks);
    if (p->accumulation > 1 || p->ranks > 1)
        buf_format(&text, " = %lld", (long long)plan_effective(p));
    return buf_str(&text);
}

// --- The first lines -----------------------------------------------------------------------------

bool answer_is_busy(const struct answer *answer) {
    const struct forecast_card *card = &answer->card;
    return (double)card->others_bytes > busy_share * (double)card->gpu.usable_bytes;
}

static struct str sentence(struct question *q, const struct answer *answer) {
    static const char *const bounds[] = {[QUESTION_OF_IT] = "",
                                         [QUESTION_OF_IT_AT_MOST] = "at most ",
                                         [QUESTION_OF_MORE] = "at most ",
                                         [QUESTION_OF_ANOTHER] = "without it "};
    struct arena *a = q->arena;
    struct buf text = buf_new(a);
    const struct forecast_card *card = &answer->card;
    struct answer_memory m = answer_memory(answer);
    if (answer_is_busy(answer)) {
        bool is_known = card->others.len > 0;
        buf_format(&text, _("%s held by others%s%.*s%s; "), unit_bytes(a, card->others_bytes).p,
                   is_known ? " (" : "", STR_ARG(card->others), is_known ? ")" : "");
    }
    struct str batch = answer_batch_text(a, &answer->plan), gpu = show_gpu_name(card->gpu.name);
    struct str memory = answer_memory_text(a, &m), without;
    const enum question_whose it = whose(q, answer, &without);
    const char *bound = say(bounds[it]);
    if (it <= QUESTION_OF_IT_AT_MOST)
        buf_format(&text, _("batch %.*s on %.*s: %s%.*s"), STR_ARG(batch), STR_ARG(gpu), bound,
                   STR_ARG(memory));
    else
        buf_format(&text, _("%.*s: batch %.*s on %.*s: %s%.*s"), STR_ARG(without), STR_ARG(batch),
                   STR_ARG(gpu), bound, STR_ARG(memory));
    add_worst(&m, &text);
    if (answer_host_is_short(answer))
        buf_format(&text, _("; the host has %s of the %s that offload needs"),
                   unit_bytes(a, card->host_bytes).p, unit_bytes(a, answer_host(answer).bytes).p);
    return buf_str(&text);
}

// A sweep's batches stay what they are: which of them fit is said.
static struct str sweep_text(const struct question *q, const struct answer *answer) {
    const int64_t largest = q->plan.batch, fitting = answer->plan.batch;
    struct str head = str_format(q->arena, _("%.*s: the largest of its batches, %lld,"),
                                 STR_ARG(q->path), (long long)largest);
    if (fitting >= largest) return str_format(q->arena, _("%.*s fits"), STR_ARG(head));
    return str_format(q->arena, _("%.*s does not fit, %lld does"), STR_ARG(head),
                      (long long)fitting);
}

// "train.yaml: 48 -> 12, accumulation 1 -> 4"; empty: nothing changes.
static struct str change_text(struct question *q, const struct answer *answer) {
    struct buf text = buf_new(q->arena);
    const struct plan *p = &answer->plan;
    int64_t batch = q->plan.batch, accumulation = plan_micro_steps(&q->plan);
    if (batch <= 0 || answer_verdict(answer) == ANSWER_NOT || !answer->fits) return buf_str(&text);
    if (!answer_is_counted(q, answer)) return buf_str(&text);
    if (q->reading.is_sweep) return sweep_text(q, answer);
    if (p->batch != batch) buf_format(&text, "%lld -> %lld", (long long)batch, (long long)p->batch);
    if (!p->inference && p->accumulation != accumulation) {
        buf_format(&text, _("%saccumulation %lld -> %lld"), text.count > 0 ? ", " : "",
                   (long long)accumulation, (long long)p->accumulation);
    }
    if (!p->inference && p->precision != q->plan.precision) {
        buf_format(&text, "%s%s -> %s", text.count > 0 ? ", " : "",
                   plan_precision_name(q->plan.precision), plan_precision_name(p->precision));
    }
    if (text.count == 0) buf_add(&text, str_of(_("stays as it is")));
    return str_format(q->arena, "%.*s: %.*s", STR_ARG(q->path), STR_ARG(buf_str(&text)));
}

// "batch 32 x 4 (same effective batch) + Adafactor": its parts, and what stands in brackets.
struct str answer_way_text(struct arena *a, struct str way) {
    struct buf text = buf_new(a);
    for (struct str rest = way; rest.p;) {
        ptrdiff_t plus = str_find(rest, STR(" + "));
        struct str part = plus < 0 ? rest : str_slice(rest, 0, plus);
        rest = plus < 0 ? (struct str){0} : str_slice(rest, plus + 3, rest.len);
        struct str own = say_str(part), inner = part, head = str_cut(&inner, '(');
        if (own.p == part.p && str_starts(part, STR("batch ")) && str_ends(part, STR(")"))) {
            own = str_format(a, _("batch %.*s(%.*s)"), STR_ARG(str_slice(head, 6, head.len)),
                             STR_ARG(say_str(str_slice(inner, 0, inner.len - 1))));
        } else if (own.p == part.p && str_ends(part, STR(")"))) { // "LoRA of rank 16 (amp-bf16)"
            own = str_format(a, "%.*s (%.*s", STR_ARG(say_str(str_trim(head))), STR_ARG(inner));
        }
        buf_join(&text, " + ", own);
    }
    return buf_str(&text);
}

static const struct forecast_remedy *remedy_at(const struct answer *answer, ptrdiff_t which) {
    const struct forecast_remedies *r = &answer->remedies;
    return which < r->count && r->items[which].is_enough ? &r->items[which] : NULL;
}

// Nothing is enough: what was tried, and what else there is.
static struct str nothing_text(struct question *q, const struct answer *answer) {
    const bool is_shared_elsewhere = answer->forecast.shape != NULL;
    const long long gpus = answer->gpus_tried;
    if (is_shared_elsewhere && answer->plan.inference)
        return str_of(_(
            "No known remedy makes it fit on one GPU; a server may split the model over several."));
    if (gpus > 0 && answer->shorter == ANSWER_SHORTER_SHARED)
        return str_format(q->arena,
                          _("Nothing that was tried makes it fit, nor do up to %lld GPUs that "
                            "share the weights: the sequence is too long for them."),
                          gpus);
    if (gpus > 0 && answer->shorter == ANSWER_SHORTER_FITS)
        return str_format(
            q->arena,
            _("Nothing that was tried makes it fit, nor do up to %lld GPUs that share the weights: "
              "the sequence is too long (--find seq-len finds the longest that fits)."),
            gpus);
    if (gpus > 0)
        return str_format(q->arena,
                          _("Nothing that was tried makes it fit, nor do up to %lld GPUs that "
                            "share the weights."),
                          gpus);
    return str_of(_("No remedy that is known for this model makes it fit."));
}

// One sequence by a server, which holds it otherwise than generate does; empty: no more than that.
static struct str server_text(const struct question *q, const struct answer *answer) {
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, answer->plan.batch, answer->plan.accumulation);
    const struct forecast_card *card = &answer->card;
    const int64_t bytes = t ? t->server_bytes : 0;
    const double room = (double)card->gpu.usable_bytes * (1 - card->margin) -
                        (double)(card->overhead.bytes + card->others_bytes);
    if (bytes <= 0 || (double)bytes > room) return (struct str){0};
    return str_format(q->arena,
                      _(" A server with a paged cache (vLLM) needs %s for the weights and the "
                        "cache of one sequence."),
                      unit_bytes(q->arena, bytes).p);
}

// What is enough, at most two of it: the remedies come with those that are enough first.
static struct str remedy_text(struct question *q, const struct answer *answer) {
    struct buf text = buf_new(q->arena);
    if (answer_verdict(answer) != ANSWER_NOT && answer_lacks(q, answer, NULL).len > 0)
        return str_of(_("The training would stop on this GPU, whatever the memory."));
    if (!answer_is_counted(q, answer))
        return str_format(q->arena, "%s%.*s",
                          _("Whether it fits is not known: measure it with trials (batchfit fit "
                            "--config FILE -- COMMAND)."),
                          STR_ARG(server_text(q, answer)));
    const struct forecast_peak *peak = &answer->peak;
    int64_t beside = peak->overhead_bytes + answer->card.others_bytes;
    for (ptrdiff_t i = 0; i < 2; i++) {
        const struct forecast_remedy *r = remedy_at(answer, i);
        if (!r) break;
        buf_format(&text, "%s%.*s, %s", i > 0 ? _("; or ") : "",
                   STR_ARG(answer_way_text(q->arena, r->what)),
                   unit_bytes(q->arena, r->needed_bytes + beside).p);
    }
    const struct str server = server_text(q, answer);
    if (text.count == 0)
        return str_format(q->arena, "%.*s%.*s", STR_ARG(nothing_text(q, answer)), STR_ARG(server));
    if (server.len > 0) buf_format(&text, ".%.*s", STR_ARG(server));
    return str_format(q->arena, _("What fits: %.*s"), STR_ARG(buf_str(&text)));
}

// Why it is tight, and what to do.
static struct str tight_text(struct question *q, const struct answer *answer) {
    struct answer_memory m = answer_memory(answer);
    if (answer->peak.is_in_gap)
        return str_of(_("It runs with a little less memory, but not with just this much, as the "
                        "allocator's cache then lies otherwise: a smaller batch is safer."));
    if (!answer_margin_kept(answer)) {
        return str_format(q->arena,
                          _("It runs, but leaves less free than the margin of %.0f %% "
                            "(--safety-margin)."),
                          100 * answer->card.margin);
    }
    if (m.worst_bytes > m.usable_bytes) {
        return str_of(
            _("The worst case is more than the GPU has: a larger --safety-margin is safer."));
    }
    if (answer->peak.verdict == FORECAST_AT_RISK)
        return str_of(_("It runs, but not with 3 % less memory: a smaller batch is safer."));
    return str_of(_("It runs with this much memory and with less, but not with just the margin "
                    "free: a smaller batch is safer."));
}

static void show_empty(struct question *q, const struct answer *answer, struct show_style style,
                       struct buf *out) {
    const struct answer *empty = answer->empty;
    if (!empty) return;
    struct answer_memory m = answer_memory(empty);
    struct str text = str_format(q->arena, _("On the empty GPU batch %.*s %s: %.*s."),
                                 STR_ARG(answer_batch_text(q->arena, &empty->plan)),
                                 empty->fits ? _("fits") : _("does not fit either"),
                                 STR_ARG(answer_memory_text(q->arena, &m)));
    show_prose(out, style, SHOW_PLAIN, text, 0, 2);
}

// It does not fit, or whether it does is not known: the sentence goes on with what to do then.
static bool is_no(const struct question *q, const struct answer *answer) {
    return answer_verdict(answer) == ANSWER_NOT || !answer_is_counted(q, answer);
}

// The batch was made smaller for a figure that is a bound.
static bool is_cut_by_bound(const struct question *q, const struct answer *answer) {
    return answer->fits && answer->plan.batch < q->plan.batch &&
           whose(q, answer, NULL) == QUESTION_OF_IT_AT_MOST;
}

struct answer_said answer_said(struct question *q, const struct answer *answer, bool changes) {
    struct answer_said said = {.sentence = sentence(q, answer)};
    if (changes) said.change = change_text(q, answer);
    if (is_no(q, answer))
        said.advice = remedy_text(q, answer);
    else if (answer_verdict(answer) == ANSWER_TIGHT)
        said.advice = tight_text(q, answer);
    else if (is_cut_by_bound(q, answer))
        said.advice = str_of(_("What is not counted takes less: a larger batch may fit, too; "
                               "measure it with trials (batchfit fit --config FILE -- COMMAND)."));
    return said;
}

struct str answer_verdict_text(struct question *q, const struct answer *answer) {
    const struct answer_said said = answer_said(q, answer, false);
    struct str text = said.sentence;
    if (is_no(q, answer))
        text = str_format(q->arena, "%.*s. %.*s", STR_ARG(text), STR_ARG(said.advice));
    return str_format(q->arena, "%s  %.*s", answer_word(q, answer).name, STR_ARG(text));
}

void answer_verdict_show(struct question *q, const struct answer *answer, bool changes,
                         struct show_style style, struct buf *out) {
    enum { GAP = 4, UNKNOWN_WIDTH = 100 }; // a pipe's
    const struct answer_word word = answer_word(q, answer);
    const struct answer_said said = answer_said(q, answer, changes);
    struct str name = str_of(say(word.name)), text = said.sentence, more = said.change;
    int column = show_width(name) + 2, width = style.width > 0 ? style.width : UNKNOWN_WIDTH;
    show_text(out, style, word.tone, name);
    buf_add(out, STR("  "));
    const bool goes_on = is_no(q, answer);
    if (goes_on) {
        text = str_format(q->arena, "%.*s. %.*s", STR_ARG(text), STR_ARG(said.advice));
    } else if (more.len > 0 && column + show_width(text) + GAP + show_width(more) <= width) {
        text = str_format(q->arena, "%.*s    %.*s", STR_ARG(text), STR_ARG(more));
        more = (struct str){0};
        style.width = 0; // it is known to have room
    }
    show_prose(out, style, SHOW_PLAIN, text, column, 2);
    if (more.len > 0) show_prose(out, style, SHOW_PLAIN, more, 0, 2);
    if (!goes_on && said.advice.len > 0) show_prose(out, style, SHOW_PLAIN, said.advice, 0, 2);
    show_empty(q, answer, style, out);
}
