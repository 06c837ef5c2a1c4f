// SPDX-License-Identifier: Apache-2.0
// What a tape predicts of the training's memory on the GPU: for --adaptive, and for those who
// watch. Nothing is predicted without a model that a tape matches, and on the CPU, whose
// allocator is another one.
#include "job/question/question.h"
#include "verbs/run/run.h"

#include <math.h>

struct run_prediction {
    struct question question;
    struct forecast_card card;
    struct answer answer;
};

void run_predict_open(struct run *r) {
    const struct launch_place *place = &r->launch.place;
    if (place->kind != LAUNCH_CUDA || !r->has_batch || r->plan.model.len == 0) return;
    struct run_prediction *p = arena_new(r->arena, struct run_prediction, 1);
    struct question_options o = {
        .config = r->o->config,
        .dialect = r->o->dialect,
        .section = r->o->section,
        .model = r->o->model,
        .ranks = r->o->l.ranks,
        .batch = r->o->batch,
        .accumulation = r->o->accumulation,
        .margin = NAN,
    };
    int rc = question_open(r->arena, &o, &p->question, NULL);
    if (rc == 0) rc = question_gpu_of_place(&p->question, place, NULL, &p->card, NULL);
    if (rc == 0) {
        rc = answer_at(&p->question, &p->card, r->rules.batch, r->rules.accumulation, &p->answer,
                       NULL);
    }
    if (rc == 0) r->prediction = p;
}

bool run_predict(const struct run *r, int64_t batch, struct forecast_peak *ret_peak) {
    struct run_prediction *p = r->prediction;
    if (!p) return false;
    int64_t accumulation = recover_size_of(&r->rules, batch).accumulation;
    return forecast_at(&p->answer.forecast, &p->card, batch, accumulation, ret_peak, NULL) == 0;
}
