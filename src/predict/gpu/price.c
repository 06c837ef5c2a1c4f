// SPDX-License-Identifier: Apache-2.0
#include "predict/gpu/gpu.h"

#include "base/data.h"
#include "base/os.h"
#include "base/unit.h"

static int read_price(const struct tsv *t, bool is_own, struct gpu_price *ret, struct fail *why) {
    struct str usd = tsv_cell(t, "usd_per_hour");
    *ret = (struct gpu_price){
        .provider = tsv_cell(t, "provider"),
        .card = tsv_cell(t, "card"),
        .instance = tsv_cell(t, "instance"),
        .region = tsv_cell(t, "region"),
        .date = tsv_cell(t, "date"),
        .source = tsv_cell(t, "source"),
        .is_own = is_own,
    };
    bool is_price =
        str_to_double(usd, &ret->usd_per_hour) && ret->usd_per_hour > 0 && ret->usd_per_hour < 1e6;
    if (ret->provider.len > 0 && ret->card.len > 0 && is_price) return 0;
    fail_set(why, FAIL_INPUT, "%.*s:%d: not a provider, a GPU and a price: '%.*s' '%.*s' '%.*s'",
             STR_ARG(t->name), t->line, STR_ARG(ret->provider), STR_ARG(ret->card), STR_ARG(usd));
    return fail_hint(
        why, "columns provider, GPU (the key of gpus.tsv) and usd_per_hour, separated by tabs");
}

static int read_prices(struct arena *a, struct gpu_prices *prices, struct str name, struct str text,
                       bool is_own, struct fail *why) {
    struct tsv *t = arena_new(a, struct tsv, 1);
    struct gpu_price price;
    int rc = tsv_open(t, name, text, why);
    while (rc == 0 && (rc = tsv_next(t, why)) > 0) {
        rc = read_price(t, is_own, &price, why);
        if (rc < 0) return rc;
        *arena_push(a, &prices->items, &prices->count, &prices->capacity) = price;
    }
    return rc;
}

static int read_own(struct arena *a, struct gpu_prices *prices, struct fail *why) {
    struct str path, text;
    if (!data_find_own(a, "prices.local.tsv", &path)) return 0;
    int rc = os_read(a, path.p, UNIT_MIB, &text, NULL, why);
    return rc < 0 ? rc : read_prices(a, prices, path, text, true, why);
}

int gpu_prices_load(struct arena *a, struct gpu_prices *ret_prices, struct fail *why) {
    const char *name = "data/prices.tsv";
    struct gpu_prices prices = {0};
    struct str text;
    int rc = read_own(a, &prices, why);
    if (rc == 0) rc = data_find(a, name, &text, why);
    if (rc == 0) rc = read_prices(a, &prices, str_of(name), text, false, why);
    *ret_prices = prices;
    return rc;
}

static int no_provider(struct arena *a, const struct gpu_prices *prices, struct str provider,
                       struct fail *why) {
    struct buf all = buf_new(a);
    for (ptrdiff_t i = 0; i < prices->count; i++) {
        struct str name = prices->items[i].provider;
        if (i > 0 && str_equal(name, prices->items[i - 1].provider)) continue;
        buf_join(&all, ", ", name);
    }
    fail_set(why, FAIL_USAGE, "--cost %.*s: neither a provider nor a price", STR_ARG(provider));
    return fail_hint(why, "%.*s; or USD per GPU hour, such as 1.29", STR_ARG(buf_str(&all)));
}

int gpu_price_find(struct arena *a, const struct gpu_prices *prices, struct str provider,
                   struct str card, const struct gpu_price **ret_price, struct fail *why) {
    struct buf has = buf_new(a);
    for (ptrdiff_t i = 0; i < prices->count; i++) {
        const struct gpu_price *p = &prices->items[i];
        if (!str_equal_nocase(p->provider, provider)) continue;
        if (str_equal(p->card, card)) {
            *ret_price = p;
            return 0;
        }
        buf_join(&has, ", ", p->card);
    }
    if (has.count == 0) return no_provider(a, prices, provider, why);
    fail_set(why, FAIL_INPUT, "no price for '%.*s' at %.*s", STR_ARG(card), STR_ARG(provider));
    return fail_hint(why,
                     "it has %.*s: choose one with --cost %.*s:GPU, give your own price with "
                     "--cost 1.29, or keep it in prices.local.tsv",
                     STR_ARG(buf_str(&has)), STR_ARG(provider));
}

static bool is_better(const struct gpu_price *a, const struct gpu_price *b) {
    if (a->is_own != b->is_own) return a->is_own;
    return a->usd_per_hour < b->usd_per_hour;
}

const struct gpu_price *gpu_price_least(const struct gpu_prices *prices, struct str card,
                                        const char *provider) {
    const struct gpu_price *best = NULL;
    for (ptrdiff_t i = 0; i < prices->count; i++) {
        const struct gpu_price *p = &prices->items[i];
        bool is_asked = !provider || str_equal_nocase(p->provider, str_of(provider));
        if (!str_equal(p->card, card) || !is_asked) continue;
        if (!best || is_better(p, best)) best = p;
    }
    return best;
}

double gpu_cost_per_million(double usd_per_hour, double cards, double samples_per_s) {
    return usd_per_hour * cards * 1e6 / samples_per_s / 3600;
}

struct gpu_month gpu_cost_of_month(double usd_per_hour, double cards, double samples, double runs,
                                   double samples_per_s) {
    double hours = runs * samples / samples_per_s / 3600;
    return (struct gpu_month){hours, hours * usd_per_hour * cards};
}
