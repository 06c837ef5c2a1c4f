// SPDX-License-Identifier: Apache-2.0
// A tape that is named on the command line: it is the whole store, says which model it is, and its
// conditions are the question's where the user did not say otherwise.
#include "job/question/question_int.h"

#include "base/os.h"

// Where weights are shared, over so many GPUs as there are in its header.
static void follow(struct question *q, const struct question_options *o) {
    const struct tape_header *h = &tape_store_at(&q->store, 0)->header;
    struct plan *p = &q->plan;
    p->model = h->model;
    if (!o->precision && forecast_precision(h)) {
        p->precision = forecast_precision(h);
        q->precision_fixed = true;
    }
    if (!o->optimizer && h->optimizer.len > 0) p->optimizer = h->optimizer;
    if (!o->shard) p->shard = h->shard;
    if (o->tensor_parallel <= 0) p->tensor_parallel = h->tp;
    p->checkpointing = h->checkpointing == 1;
    p->inference = str_is(h->mode, "inference");
    p->ema = h->ema == 1;
    p->adapter = h->adapter;
    p->quant = h->quant;
    p->loss = h->loss;
    p->compile = h->compile.len > 0;
}

// A tape is of the training that was recorded: what the command line says beside it, it must have.
static int check_said(const struct question *q, const struct question_options *o,
                      const struct tape_header *h, struct fail *why) {
    const struct plan *p = &q->plan;
    struct str bare = h->model;
    str_cut(&bare, ':');
    const struct {
        const char *text;
        bool is_otherwise;
    } said[] = {
        {"without this --model",
         o->model && !str_is(h->model, o->model) && !str_is(bare, o->model)},
        {"without this --img-size", o->image_size > 0 && o->image_size != h->image_size},
        {"without this --seq-len",
         o->sequence_length > 0 && o->sequence_length != h->sequence_length},
        {"without this --target-len", o->target_length > 0 && o->target_length != h->target_length},
        {"without this --checkpointing", o->checkpointing && h->checkpointing != 1},
        {"without this --ema", o->ema && h->ema != 1},
        {"without this --compile", o->compile && h->compile.len == 0},
        {"as it trains, not of inference", o->inference && !str_is(h->mode, "inference")},
        {"without this --lora", o->lora && !str_equal(p->adapter, h->adapter)},
        {"without this --quant", o->quant && !str_equal(p->quant, h->quant)},
        {"without this --loss", o->loss && !str_equal(p->loss, h->loss)},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (!said[i].is_otherwise) continue;
        fail_set(why, FAIL_USAGE, "--tape %s: a recording of %.*s %s", o->tape, STR_ARG(h->model),
                 said[i].text);
        return fail_hint(why, "record what is asked for (batchfit record), or leave that out");
    }
    return 0;
}

static int read_tape(struct question *q, const char *path, struct fail *why) {
    struct str bytes;
    struct tape_entry *e = arena_new(q->arena, struct tape_entry, 1);
    int rc = os_read(q->arena, path, TAPE_TEXT_MAX, &bytes, NULL, why);
    if (rc == 0) rc = tape_read_header(q->arena, str_of(path), bytes, &e->header, why);
    if (rc < 0) return rc;
    e->file = str_of(path);
    e->length = -1;
    q->store = tape_store_of(q->arena, e);
    return 0;
}

int question_store(struct question *q, const struct question_options *o, struct fail *why) {
    if (!o->like && !o->tape)
        return tape_store_open(q->arena, (struct tape_places){0}, &q->store, why);
    int rc = 0;
    if (o->like) q->store = o->like->store;
    if (!o->like) rc = read_tape(q, o->tape, why);
    if (rc < 0 || !o->tape) return rc;
    rc = check_said(q, o, &tape_store_at(&q->store, 0)->header, why);
    if (rc == 0) follow(q, o);
    return rc;
}

int question_tape_ranks(struct question *q, const struct question_options *o, struct fail *why) {
    const struct tape_header *h = o->tape ? &tape_store_at(&q->store, 0)->header : NULL;
    struct plan *p = &q->plan;
    if (!h || h->ranks <= 1 || p->shard.len == 0) return 0;
    if (p->ranks <= 0) p->ranks = h->ranks;
    if (p->ranks == h->ranks) return 0;
    fail_set(why, FAIL_USAGE, "--tape %s: recorded as one of %lld GPUs, not of %lld", o->tape,
             (long long)h->ranks, (long long)p->ranks);
    return fail_hint(why, "record one of them: batchfit record … --shard %.*s --ranks %lld",
                     STR_ARG(p->shard), (long long)p->ranks);
}

int question_tape_range(struct question *q, const struct question_options *o, struct fail *why) {
    const struct tape_header *h = o->tape ? &tape_store_at(&q->store, 0)->header : NULL;
    const int64_t only = h && h->batch_count == 1 ? h->batches[0] : 0;
    if (only == 0 || (q->range.most > 0 && q->range.most <= only)) return 0;
    if (o->batch > only) {
        fail_set(why, FAIL_USAGE, "--tape %s: only for batch %lld, not %lld", o->tape,
                 (long long)only, (long long)o->batch);
        return fail_hint(why, "record it at two batches: batchfit record … --batches 2,4");
    }
    q->range.most = only;
    str_list_format(q->arena, &q->notes, "the tape is only for batch %lld: no larger one is tried",
                    (long long)only);
    return 0;
}
