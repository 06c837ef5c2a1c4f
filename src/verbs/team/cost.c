// SPDX-License-Identifier: Apache-2.0
#include "verbs/team/team.h"

#include "base/near.h"
#include "base/unit.h"

#include <math.h>
#include <stdlib.h>

static const double usual_samples = 1e6;

// --- Options -------------------------------------------------------------------------------------

static int bad_spot(const char *text, struct fail *why) {
    fail_set(why, FAIL_USAGE, "--spot %s: not SHARE,PER_HOUR,TIME", text);
    return fail_hint(why,
                     "for example --spot 0.35,0.1,15m, which is 35 %% of the price, taken away "
                     "0.1 times an hour, each time for 15 minutes");
}

static int read_spot(struct team_cost *c, const char *text, struct fail *why) {
    struct str rest = str_of(text), share = str_cut(&rest, ','), rate = str_cut(&rest, ',');
    double lost_s = 0;
    if (!text) return 0;
    bool is_spot = unit_parse_share(str_trim(share), &c->spot_share) && c->spot_share > 0 &&
                   str_to_double(str_trim(rate), &c->interruptions) && c->interruptions >= 0 &&
                   rest.p && unit_parse_time(str_trim(rest), &lost_s);
    if (!is_spot) return bad_spot(text, why);
    c->lost_h = lost_s / 3600;
    if (c->interruptions * c->lost_h < 1) return 0;
    return fail_set(why, FAIL_USAGE,
                    "--spot %s: what is lost an hour is an hour or more; it would never end", text);
}

static int check_provider(const struct team_cost *c, const char *name, struct fail *why) {
    struct near near = {.typed = str_of(name)};
    if (!name) return 0;
    for (ptrdiff_t i = 0; i < c->prices.count; i++) {
        if (str_equal_nocase(c->prices.items[i].provider, near.typed)) return 0;
        near_offer(&near, c->prices.items[i].provider);
    }
    fail_set(why, FAIL_USAGE, "--provider %s: not in data/prices.tsv or prices.local.tsv", name);
    return near.count > 0 ? fail_hint(why, "nearest: %.*s", STR_ARG(near_text(c->q->arena, &near)))
                          : FAIL_USAGE;
}

int team_cost_open(struct question *q, const struct team_cost_options *o, struct team_cost *ret,
                   struct fail *why) {
    double seconds = INFINITY;
    *ret = (struct team_cost){.q = q, .spot_share = 1};
    ret->samples = o->samples > 0 ? (double)o->samples : usual_samples;
    if (o->deadline && !unit_parse_time(str_of(o->deadline), &seconds)) {
        fail_set(why, FAIL_USAGE, "--deadline %s: not a time", o->deadline);
        return fail_hint(why, "for example --deadline 12h, 90m or 2d");
    }
    if (o->deadline && o->samples <= 0) {
        fail_set(why, FAIL_USAGE, "--deadline %s: the number of samples is missing", o->deadline);
        return fail_hint(why, "the samples of the whole training, epochs x images or sequences: "
                              "--samples 3840000");
    }
    ret->deadline_hours = seconds / 3600;
    int rc = read_spot(ret, o->spot, why);
    if (rc == 0) rc = gpu_prices_load(q->arena, &ret->prices, why);
    return rc < 0 ? rc : check_provider(ret, o->provider, why);
}

// --- Prices --------------------------------------------------------------------------------------

int team_cost_cards(struct team_cost *c, const struct team_cost_options *o,
                    struct question_gpus *ret_cards, struct fail *why) {
    struct question *q = c->q;
    for (ptrdiff_t i = 0; i < q->gpus.count; i++) {
        if (!gpu_price_least(&c->prices, q->gpus.gpus[i].key, o->provider)) continue;
        question_place(
            q, q->gpus.gpus[i],
            arena_push(q->arena, &ret_cards->items, &ret_cards->count, &ret_cards->capacity));
    }
    if (ret_cards->count > 0) return 0;
    return fail_set(why, FAIL_INPUT, "no GPU of the catalogue has a price");
}

// --- Rows ----------------------------------------------------------------------------------------

static double hours_at(const struct team_cost *c, double samples_per_s, int64_t ranks) {
    double hours = c->samples / (samples_per_s * (double)ranks) / 3600;
    return hours / (1 - c->interruptions * c->lost_h);
}

static struct team_cost_figure times(struct team_cost_figure f, double factor) {
    return (struct team_cost_figure){f.expected * factor, f.low * factor, f.high * factor};
}

// At its power limit all the time.
static double kwh_of(const struct gpu *gpu, int64_t devices, double hours) {
    return gpu->tdp_watts * (double)devices * hours / 1000;
}

static enum team_cost_end end_of(const struct team_cost *c, struct team_cost_figure hours) {
    if (hours.high <= c->deadline_hours || isinf(c->deadline_hours)) return TEAM_COST_IN_TIME;
    return hours.low > c->deadline_hours ? TEAM_COST_LATE : TEAM_COST_UNSURE; // unsure, too: NaN
}

static void price_row(const struct team_cost *c, const struct team_cost_options *o,
                      struct team_cost_row *row) {
    const struct speed *s = &row->answer.speed;
    const struct gpu *gpu = &row->answer.card.gpu;
    // Samples are a rank's, which may be several GPUs; price and power are a GPU's.
    int64_t ranks = row->answer.plan.ranks, devices = plan_devices(&row->answer.plan);
    double usd_per_hour = NAN;
    row->hours = row->usd = (struct team_cost_figure){NAN, NAN, NAN};
    if (row->holds && s->row) {
        row->hours =
            (struct team_cost_figure){hours_at(c, s->samples_per_s, ranks),
                                      hours_at(c, s->high, ranks), hours_at(c, s->low, ranks)};
    }
    row->price = gpu_price_least(&c->prices, gpu->key, o->provider);
    row->is_electricity = !row->price && !isnan(o->electricity);
    if (row->price) usd_per_hour = row->price->usd_per_hour * c->spot_share * (double)devices;
    if (row->is_electricity) usd_per_hour = kwh_of(gpu, devices, 1) * o->electricity;
    row->usd = times(row->hours, usd_per_hour);
    row->kwh = kwh_of(gpu, devices, row->hours.expected);
    row->end = row->holds ? end_of(c, row->hours) : TEAM_COST_LATE;
}

static int class_of(const struct team_cost_row *row) {
    return !isnan(row->usd.expected) ? 0 : !isnan(row->hours.expected) ? 1 : row->holds ? 2 : 3;
}

static int in_order(const void *left, const void *right) {
    const struct team_cost_row *a = left, *b = right;
    int x = class_of(a), y = class_of(b);
    if (x != y) return x - y;
    double u = x == 0 ? a->usd.expected : a->hours.expected;
    double v = x == 0 ? b->usd.expected : b->hours.expected;
    return (u > v) - (u < v);
}

static const struct team_cost_row *best_of(const struct team_cost *c) {
    for (int end = TEAM_COST_IN_TIME; end >= TEAM_COST_UNSURE; end--) {
        for (ptrdiff_t i = 0; i < c->count; i++) {
            const struct team_cost_row *row = &c->rows[i];
            if (!isnan(row->usd.expected) && (int)row->end == end) return row;
        }
    }
    return NULL;
}

int team_cost_judge(struct team_cost *c, const struct team_cost_options *o,
                    const struct question_gpus *cards, struct fail *why) {
    struct question *q = c->q;
    c->rows = arena_new(q->arena, struct team_cost_row, cards->count);
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        struct team_cost_row *row = &c->rows[c->count++];
        int rc = answer_choose(q, &cards->items[i], &row->answer, why);
        if (rc < 0) return rc;
        row->holds = answer_is_yes(q, &row->answer);
        price_row(c, o, row);
    }
    if (c->count > 0) qsort(c->rows, (size_t)c->count, sizeof *c->rows, in_order);
    c->best = best_of(c);
    return 0;
}
