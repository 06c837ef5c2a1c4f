// SPDX-License-Identifier: Apache-2.0
// What both sides cost by a price for the GPU's hour, and what the better one saves in a month.
#include "verbs/compare/compare.h"

#include "predict/gpu/gpu.h"

#include <math.h>

// "aws_pricing", as older scripts have it, is aws.
static struct str provider_of(struct str text) {
    const struct str tail = STR("_pricing");
    return str_ends(text, tail) ? str_slice(text, 0, text.len - tail.len) : text;
}

static int card_key(struct compare *c, struct str typed, struct str name, int64_t bytes,
                    struct str *ret_key, struct fail *why) {
    struct gpu_catalogue cards;
    struct gpu_match match;
    int rc = gpu_load(c->arena, &cards, why);
    if (rc == 0 && typed.len > 0) {
        rc = gpu_find(c->arena, &cards, typed, &match, why);
        if (rc == 0) *ret_key = match.gpu->key;
        return rc;
    }
    const struct gpu *known = rc == 0 ? gpu_of_name(&cards, name, bytes) : NULL;
    *ret_key = known ? known->key : name;
    return rc;
}

static struct str price_text(struct arena *a, const struct gpu_price *p) {
    struct buf b = buf_new(a);
    buf_format(&b, "%.*s, %.*s", STR_ARG(p->provider), STR_ARG(p->card));
    if (p->instance.len > 0) buf_format(&b, ", %.*s", STR_ARG(p->instance));
    if (p->region.len > 0) buf_format(&b, ", %.*s", STR_ARG(p->region));
    if (p->date.len > 0) buf_format(&b, ", of %.*s", STR_ARG(p->date));
    if (p->source.len > 0) buf_format(&b, " (%.*s)", STR_ARG(p->source));
    if (p->is_own) buf_add(&b, STR(", from prices.local.tsv"));
    return buf_str(&b);
}

// A price is one of a device: the speed of another says nothing of what that one would cost.
static int check_device(struct compare *c, struct str key, struct str name, int64_t bytes,
                        struct fail *why) {
    struct str measured;
    int rc = card_key(c, (struct str){0}, name, bytes, &measured, why);
    if (rc < 0 || str_equal(measured, key)) return rc;
    fail_set(why, FAIL_USAGE, "--cost %s: the price is one of %.*s, but the speed is that of %.*s",
             c->options->cost, STR_ARG(key), STR_ARG(name));
    return fail_hint(why,
                     "measure on that GPU; or price this device: --cost 1.29, in USD per hour");
}

static int find_price(struct compare *c, struct str name, int64_t bytes, struct fail *why) {
    struct str typed = str_of(c->options->cost), key;
    struct str provider = provider_of(str_cut(&typed, ':'));
    struct gpu_prices prices;
    const struct gpu_price *price = NULL;
    int rc = gpu_prices_load(c->arena, &prices, why);
    if (rc == 0) rc = card_key(c, str_trim(typed), name, bytes, &key, why);
    if (rc == 0) rc = gpu_price_find(c->arena, &prices, provider, key, &price, why);
    if (rc == 0) rc = check_device(c, key, name, bytes, why);
    if (rc < 0 || !price) return rc;
    c->cost.usd_per_hour = price->usd_per_hour;
    c->cost.source = price_text(c->arena, price);
    return 0;
}

static int check_month(const struct compare_options *o, struct fail *why) {
    bool has_month = o->runs_per_month > 0 || o->samples > 0 || o->epochs > 0;
    if (!has_month || (o->runs_per_month > 0 && o->samples > 0)) return 0;
    fail_set(why, FAIL_USAGE, "--runs-per-month and --samples need each other");
    return fail_hint(why, "--samples is the size of the dataset if --epochs is given, else the "
                          "samples of a whole run");
}

int compare_ask_cost(struct compare *c, struct str card_name, int64_t card_bytes, int64_t ranks,
                     struct fail *why) {
    const struct compare_options *o = c->options;
    double price = (double)NAN;
    c->cost =
        (struct compare_cost){.usd_per_hour = (double)NAN, .cards = ranks > 0 ? (double)ranks : 1};
    int rc = check_month(o, why);
    if (rc < 0 || (!o->cost && o->runs_per_month <= 0)) return rc;
    c->cost.is_asked = true;
    c->cost.runs_per_month = (double)o->runs_per_month;
    c->cost.samples = (double)o->samples * (double)(o->epochs > 0 ? o->epochs : 1);
    if (!o->cost) return 0;
    if (!str_to_double(str_of(o->cost), &price)) return find_price(c, card_name, card_bytes, why);
    if (!(price > 0) || price > 1e6) {
        return fail_set(why, FAIL_USAGE, "--cost %s: not a price in USD per GPU hour", o->cost);
    }
    c->cost.usd_per_hour = price;
    c->cost.source = STR("given by --cost");
    return 0;
}

void compare_count_cost(struct compare *c) {
    struct compare_cost *k = &c->cost;
    const struct compare_result *speed = &c->results[COMPARE_THROUGHPUT];
    bool is_chance = speed->is_tested && str_is(STR("no difference"), speed->verdict);
    const double speeds[] = {c->results[COMPARE_THROUGHPUT].a, c->results[COMPARE_THROUGHPUT].b};
    for (int i = 0; i < COMPARE_SIDES; i++) {
        k->per_million[i] = gpu_cost_per_million(k->usd_per_hour, k->cards, speeds[i]);
        bool has_month = k->runs_per_month > 0;
        k->months[i] =
            gpu_cost_of_month(k->usd_per_hour, k->cards, has_month ? k->samples : (double)NAN,
                              k->runs_per_month, speeds[i]);
    }
    if (k->is_asked && is_chance) {
        compare_note(c, STR("the speeds of A and B cannot be told apart: the difference in cost "
                            "may be chance"));
    }
}
