// SPDX-License-Identifier: Apache-2.0
// What an hour of a GPU costs at a provider: data/prices.tsv, and before it the user's own
// prices.local.tsv.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct gpu_price {
    struct str provider, card;                 // "aws"; the GPU's key in the catalogue: "t4"
    double usd_per_hour;                       // of one GPU
    struct str instance, region, date, source; // empty: not said
    bool is_own;                               // of the user's file
};
struct gpu_prices {
    struct gpu_price *items; // the user's own first
    ptrdiff_t count, capacity;
};

// FAIL_INPUT names file and line.
int gpu_prices_load(struct arena *a, struct gpu_prices *ret_prices, struct fail *why);

// The price of the GPU with this key. FAIL_USAGE: no such provider, with those there are;
// FAIL_INPUT: the provider has no price for the GPU, and the hint says for which ones it has.
int gpu_price_find(struct arena *a, const struct gpu_prices *prices, struct str provider,
                   struct str card, const struct gpu_price **ret_price, struct fail *why);

// The user's own price of what has this key, else the cheapest; of one provider, or NULL for all.
// NULL: there is none.
const struct gpu_price *gpu_price_least(const struct gpu_prices *prices, struct str card,
                                        const char *provider);

// What training at this speed costs. NaN where a figure is.
double gpu_cost_per_million(double usd_per_hour, double cards, double samples_per_s);
struct gpu_month {
    double hours, usd; // of the machine's time; of its GPUs
};
// `runs` of `samples` each in a month.
struct gpu_month gpu_cost_of_month(double usd_per_hour, double cards, double samples, double runs,
                                   double samples_per_s);
