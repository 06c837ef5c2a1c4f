// SPDX-License-Identifier: Apache-2.0
#include "job/question/question_int.h"

#include "predict/forecast/forecast.h"

enum { USUAL_BATCH = 8 }; // to compare models by, where the config has none

// On which of the GPUs they are compared makes no difference: the one with the most memory.
static struct forecast_card largest_card(const struct question *q) {
    ptrdiff_t best = 0;
    for (ptrdiff_t i = 1; i < q->gpus.count; i++) {
        if (q->gpus.gpus[i].total_bytes > q->gpus.gpus[best].total_bytes) best = i;
    }
    return (struct forecast_card){.gpu = q->gpus.gpus[best]};
}

static int need_of(struct question *q, const struct forecast_card *card, struct str model,
                   int64_t *ret_bytes, struct fail *why) {
    struct plan plan = q->plan;
    struct forecast f;
    struct forecast_peak peak;
    plan.model = model;
    int rc = forecast_open(&q->tape_cache, &plan, &f, why);
    if (rc == 0)
        rc = forecast_at(&f, card, plan.batch > 0 ? plan.batch : USUAL_BATCH, 1, &peak, why);
    if (rc == 0) *ret_bytes = peak.needed_bytes;
    return rc;
}

int question_several(struct question *q, struct fail *why) {
    const struct str_list *models = &q->reading.models;
    int64_t most = -1;
    if (models->count < 2) return 0;
    const struct forecast_card card = largest_card(q);
    struct str decides = {0};
    for (ptrdiff_t i = 0; i < models->count; i++) {
        int64_t bytes;
        int rc = need_of(q, &card, models->items[i], &bytes, why);
        if (rc < 0) return rc;
        if (bytes > most) decides = models->items[i];
        most = bytes > most ? bytes : most;
    }
    q->plan.model = decides;
    str_list_format(q->arena, &q->notes,
                    "an ensemble of %td models, one after another (%.*s): %.*s needs the most and "
                    "decides",
                    models->count, STR_ARG(str_list_text(q->arena, models)), STR_ARG(decides));
    return 0;
}
