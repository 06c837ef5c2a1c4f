// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/unit.h"
#include "predict/search/search.h"
#include "view/show/show.h"

enum {
    ALLOCATION = 512
}; // the caching allocator's smallest step (c10/cuda/CUDACachingAllocator.h)

// What a training or an evaluation leaves on the GPU from one step to the next.
static int64_t kept_bytes(const struct forecast_card *card, const struct forecast_tape *t,
                          int64_t classes) {
    int64_t bytes = forecast_extra(card, t);
    for (int32_t i = 0; i < t->tape->alloc_count; i++) {
        const struct tape_alloc *alloc = &t->tape->allocs[i];
        bool stays = alloc->tag == TAPE_PARAM || alloc->tag == TAPE_BUFFER ||
                     alloc->tag == TAPE_GRADIENT || alloc->tag == TAPE_OPTIMIZER_STATE ||
                     alloc->tag == TAPE_OTHER;
        if (!stays || alloc->free_event >= 0) continue;
        bytes += unit_round_up(tape_size(t->tape, alloc, 1, classes), ALLOCATION);
    }
    return bytes;
}

// The config's note that it stays as it is would no longer be true.
static void drop_note(struct question *q, struct str path) {
    ptrdiff_t kept = 0;
    struct str begin = str_format(q->arena, "%.*s = ", STR_ARG(path));
    for (ptrdiff_t i = 0; i < q->notes.count; i++) {
        struct str text = q->notes.items[i];
        if (str_starts(text, begin) && str_ends(text, STR(CONFIG_EVAL_STAYS))) continue;
        q->notes.items[kept++] = text;
    }
    q->notes.count = kept;
}

static struct question question_of(const struct question *q, const struct answer *training,
                                   int64_t now) {
    struct question eval = *q;
    eval.plan = training->plan;
    eval.plan.inference = true;
    eval.plan.checkpointing = eval.plan.ema = false;
    eval.plan.accumulation = 1;
    eval.plan.optimizer = (struct str){0};
    eval.precision_fixed = true; // adapted to the GPU already
    eval.effective = 0;
    eval.range.own = now;
    eval.notes = (struct str_list){0};
    return eval;
}

// --- The cache of generated text -----------------------------------------------------------------

// Keys and values that a decoder keeps of a sample while it generates, with one beam: of every
// layer those of the target so far, and those of the source. 0: the shape is unknown.
static int64_t cache_of_sample(struct question *q, const struct plan *p) {
    const struct shape *s = NULL;
    struct forecast_model found;
    struct str name = p->model;
    if (forecast_find_model(q->arena, &q->store, name, &found, NULL) == 0) name = found.name;
    if (forecast_shape(&q->tape_cache, name, &s, NULL) < 0) return 0;
    if (str_starts(name, STR("hf:"))) name = str_slice(name, 3, name.len);
    if (!s) s = shape_find(q->tape_cache.shapes, name);
    if (!s || s->layers <= 0 || s->heads <= 0) return 0;
    int64_t head = s->head_dim > 0 ? s->head_dim : s->hidden / s->heads;
    int64_t heads = s->kv_heads > 0 ? s->kv_heads : s->heads;
    int64_t element = p->precision == PLAN_FP32 ? 4 : 2;
    return 2 * s->layers * heads * head * (p->target_length + p->sequence_length) * element;
}

struct with_cache {
    struct question *eval;
    struct forecast_card card; // beside the training's states
    int64_t of_sample;
    struct answer answer;
};

static int fits_with_cache(void *context, int64_t batch, struct fail *why) {
    struct with_cache *w = context;
    struct forecast_card card = w->card;
    card.others_bytes += w->of_sample * batch;
    int rc = answer_at(w->eval, &card, batch, 1, &w->answer, why);
    return rc < 0 ? rc : w->answer.fits;
}

static bool may_fit_with_cache(void *context, int64_t batch) {
    const struct with_cache *w = context;
    return w->of_sample * batch < forecast_budget(&w->card);
}

// The largest batch that fits with the cache that it makes; *answer: without it.
static int choose_with_cache(struct with_cache *w, struct answer *answer, struct fail *why) {
    struct plan_range range = w->eval->range;
    int64_t batch = 0;
    range.most = answer->plan.batch;
    struct plan_batches every = plan_every_batch(w->eval->arena, &range);
    int found = search_largest(every.values, every.count, may_fit_with_cache, fits_with_cache, w,
                               &batch, why);
    if (found < 0) return found;
    answer->fits = found > 0;
    return found > 0 ? answer_at(w->eval, &w->card, batch, 1, answer, why) : 0;
}

int answer_eval_choose(struct question *q, const struct answer *training, struct answer_eval **ret,
                       struct fail *why) {
    const struct config_value *v = &q->reading.values[CONFIG_EVAL_BATCH];
    struct answer_eval *e = arena_new(q->arena, struct answer_eval, 1);
    struct forecast_tape *of_training, *of_eval;
    struct forecast forecast;
    struct answer answer;
    e->has_key = q->has_config && v->line > 0;
    if (e->has_key && v->type == CONFIG_INT) e->now = v->integer;
    struct question eval = question_of(q, training, e->now);
    struct forecast of = training->forecast;
    int rc =
        forecast_tape(&of, training->plan.batch, training->plan.accumulation, &of_training, why);
    if (rc == 0) rc = forecast_open(&eval.tape_cache, &eval.plan, &forecast, why);
    if (rc == 0) rc = forecast_tape(&forecast, e->now, 1, &of_eval, why);
    if (rc < 0) return rc;
    struct forecast_card card = training->card;
    int64_t beside = kept_bytes(&card, of_training, training->plan.classes) -
                     kept_bytes(&card, of_eval, training->plan.classes);
    e->resident_bytes = beside > 0 ? beside : 0;
    card.others_bytes += e->resident_bytes;
    rc = answer_choose(&eval, &card, &answer, why);
    if (rc < 0) return rc;
    e->may_generate = answer.plan.target_length > 0;
    struct with_cache with = {.eval = &eval, .card = card};
    if (e->may_generate) with.of_sample = cache_of_sample(q, &answer.plan);
    if (answer.fits && with.of_sample > 0) rc = choose_with_cache(&with, &answer, why);
    if (rc < 0) return rc;
    if (e->may_generate && with.of_sample == 0 && e->now > 0 && answer.plan.batch > e->now)
        rc = answer_at(&eval, &card, e->now, 1, &answer, why); // no more than what is known to run
    if (rc < 0) return rc;
    e->cache_bytes = with.of_sample * answer.plan.batch;
    e->batch = answer.plan.batch;
    e->fits = answer.fits;
    e->peak = answer.peak;
    e->answer = answer;
    if (e->has_key && e->fits) drop_note(q, v->path);
    *ret = e;
    return 0;
}

void answer_eval_show(struct arena *a, const struct answer_eval *e, struct show_style style,
                      struct buf *out) {
    struct str resident = unit_bytes(a, e->resident_bytes);
    struct buf text = buf_new(a);
    if (!e->fits) {
        buf_format(&text, "evaluation: no batch fits beside the training's states (%.*s)\n",
                   STR_ARG(resident));
        show_prose_lines(out, style, buf_str(&text));
        return;
    }
    buf_format(&text, "evaluation: batch %lld", (long long)e->batch);
    if (e->now > 0) buf_format(&text, " (now %lld)", (long long)e->now);
    buf_format(&text, ", needed %s beside the training's states (%.*s)\n",
               unit_bytes(a, e->peak.needed_bytes).p, STR_ARG(resident));
    if (e->cache_bytes > 0) {
        buf_format(&text,
                   "- counted: %.*s for the cache of generated text with one beam; N beams need N "
                   "times as much\n",
                   STR_ARG(unit_bytes(a, e->cache_bytes)));
    }
    buf_format(
        &text,
        "- not included: predictions collected on the GPU (Hugging Face: "
        "eval_accumulation_steps)%s\n",
        e->cache_bytes > 0 ? ""
        : e->may_generate
            ? " and the cache of generated text: its size is unknown, so the batch is not raised"
            : " and the cache of generated text");
    if (!e->has_key) buf_add(&text, STR("- the config has no key for the evaluation batch\n"));
    show_prose_lines(out, style, buf_str(&text));
}

json_t *answer_eval_json(const struct answer_eval *e) {
    if (!e) return json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:s, s:b}", "batch_size",
                     json_size(e->fits ? e->batch : 0), "resident_bytes",
                     (json_int_t)e->resident_bytes, "generation_cache_bytes",
                     (json_int_t)e->cache_bytes, "needed_bytes", (json_int_t)e->peak.needed_bytes,
                     "verdict", forecast_verdict_name(e->peak.verdict), "fits_budget", e->fits);
}
