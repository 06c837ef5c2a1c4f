// SPDX-License-Identifier: Apache-2.0
// The cheapest of the types that hold the config: predicted speed x price, a million samples. The
// price is the user's own (prices.local.tsv, which may name the cluster's type), else the cheapest
// published one; a type without a price or without a predicted speed cannot be compared, and is
// taken only where none can.
#include "predict/gpu/gpu.h"
#include "verbs/fit/fit.h"

#include <math.h>

static const struct gpu_price *price_of(const struct gpu_prices *prices,
                                        const struct fit_slurm_row *row) {
    const struct gpu_price *own = gpu_price_least(prices, row->type->name, NULL);
    if (own && own->is_own) return own;
    return row->card.gpu.key.len > 0 ? gpu_price_least(prices, row->card.gpu.key, NULL) : NULL;
}

// The speed is a rank's, and the price a GPU's: more ranks cost as much for each sample, a rank of
// several GPUs as many times as much.
static void price_row(const struct gpu_prices *prices, struct fit_slurm_row *row) {
    const struct speed *s = &row->answer->speed;
    row->price = price_of(prices, row);
    if (!row->price || !s->row) return;
    const struct plan *p = &row->answer->plan;
    double split = (double)plan_devices(p) / (double)(p->ranks > 1 ? p->ranks : 1);
    double usd = row->price->usd_per_hour * split;
    row->usd = gpu_cost_per_million(usd, 1, s->samples_per_s);
    row->usd_low = gpu_cost_per_million(usd, 1, s->high);
    row->usd_high = gpu_cost_per_million(usd, 1, s->low);
}

static void note_unpriced(struct fit_slurm *s) {
    struct buf names = buf_new(s->q->arena);
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct fit_slurm_row *row = &s->rows[i];
        if (!row->fits || !isnan(row->usd)) continue;
        buf_format(&names, "%s%.*s (%s)", names.count > 0 ? ", " : "", STR_ARG(row->type->name),
                   row->price ? "no predicted speed" : "no price");
    }
    if (names.count == 0) return;
    question_say(s->q,
                 "not compared by cost: %.*s; prices.local.tsv takes your own prices, by the GPU's "
                 "key or the cluster's type",
                 STR_ARG(buf_str(&names)));
}

int fit_slurm_take_cheapest(struct fit_slurm *s, struct fail *why) {
    struct gpu_prices prices;
    const struct fit_slurm_row *best = NULL;
    for (ptrdiff_t i = 0; i < s->count; i++)
        s->rows[i].usd = s->rows[i].usd_low = s->rows[i].usd_high = (double)NAN;
    if (!s->options->s.cheapest || !s->chosen) return 0;
    int rc = gpu_prices_load(s->q->arena, &prices, why);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        struct fit_slurm_row *row = &s->rows[i];
        if (!row->fits) continue;
        price_row(&prices, row);
        s->compared += !isnan(row->usd);
        if (!isnan(row->usd) && (!best || row->usd < best->usd)) best = row;
    }
    if (best) s->chosen = best;
    note_unpriced(s);
    return 0;
}
