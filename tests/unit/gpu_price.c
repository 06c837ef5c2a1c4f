// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "predict/gpu/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct arena arena;

static struct gpu_prices loaded(void) {
    struct gpu_prices prices;
    struct fail why = {0};
    if (gpu_prices_load(&arena, &prices, &why) < 0) fail_msg("%s; %s", why.message, why.hint);
    return prices;
}

static void every_row_is_of_a_known_card_and_says_its_source(void **state) {
    struct gpu_catalogue cards;
    struct gpu_prices prices = loaded();
    (void)state;
    assert_int_equal(gpu_load(&arena, &cards, NULL), 0);
    assert_true(prices.count >= 80 && prices.count <= 200);
    for (ptrdiff_t i = 0; i < prices.count; i++) {
        const struct gpu_price *p = &prices.items[i];
        bool is_known = false;
        for (ptrdiff_t j = 0; j < cards.count; j++)
            is_known |= str_equal(cards.gpus[j].key, p->card);
        if (!is_known) fail_msg("%.*s is no GPU", STR_ARG(p->card));
        assert_true(p->date.len >= 4 && p->source.len > 0 && !p->is_own);
        for (ptrdiff_t j = 0; j < i; j++) {
            assert_false(str_equal(prices.items[j].provider, p->provider) &&
                         str_equal(prices.items[j].card, p->card));
        }
    }
}

static void what_is_missing_says_what_there_is(void **state) {
    struct gpu_prices prices = loaded();
    const struct gpu_price *price;
    struct fail why = {0};
    (void)state;
    assert_int_equal(gpu_price_find(&arena, &prices, STR("AWS"), STR("t4"), &price, &why), 0);
    assert_true(price->usd_per_hour > 0.1 && price->usd_per_hour < 2);
    assert_int_equal(gpu_price_find(&arena, &prices, STR("aws"), STR("rtx_4090"), &price, &why),
                     FAIL_INPUT);
    assert_non_null(strstr(why.hint, "t4"));
    assert_int_equal(gpu_price_find(&arena, &prices, STR("asw"), STR("t4"), &price, &why),
                     FAIL_USAGE);
    assert_non_null(strstr(why.hint, "aws"));
}

static void write_own(const char *folder, const char *text) {
    struct str path = str_format(&arena, "%s/prices.local.tsv", folder);
    FILE *f = fopen(path.p, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_users_own_file_wins(void **state) {
    char folder[] = "/tmp/batchfit-price-XXXXXX";
    const struct gpu_price *price;
    struct gpu_prices prices;
    struct fail why = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("BATCHFIT_DATA", folder, 1);
    write_own(folder, "provider\tcard\tusd_per_hour\naws\tt4\t0.25\nours\trtx_4090\t0.1\n");
    prices = loaded();
    assert_int_equal(gpu_price_find(&arena, &prices, STR("aws"), STR("t4"), &price, &why), 0);
    assert_true(price->is_own && price->usd_per_hour == 0.25);
    assert_int_equal(gpu_price_find(&arena, &prices, STR("ours"), STR("rtx_4090"), &price, &why),
                     0);
    write_own(folder, "provider\tcard\tusd_per_hour\naws\tt4\tfree\n");
    assert_int_equal(gpu_prices_load(&arena, &prices, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "prices.local.tsv:2"));
    unlink(str_format(&arena, "%s/prices.local.tsv", folder).p);
    rmdir(folder);
    unsetenv("BATCHFIT_DATA");
}

// 20 runs of 90 epochs over 50,000 samples at 1,000 samples/s: 25 hours; 4 GPUs of 0.5 USD.
static void a_months_hours_and_money(void **state) {
    struct gpu_month month = gpu_cost_of_month(0.5, 4, 50000.0 * 90, 20, 1000);
    (void)state;
    assert_true(fabs(month.hours - 25) < 1e-9);
    assert_true(fabs(month.usd - 50) < 1e-9);
    assert_true(fabs(gpu_cost_per_million(3.6, 1, 1000) - 1) < 1e-12);
    assert_true(isnan(gpu_cost_per_million(NAN, 1, 1000)));
    assert_true(isnan(gpu_cost_of_month(0.5, 1, NAN, 20, 1000).hours));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_of_a_known_card_and_says_its_source),
        cmocka_unit_test(what_is_missing_says_what_there_is),
        cmocka_unit_test(the_users_own_file_wins),
        cmocka_unit_test(a_months_hours_and_money),
    };
    int failed = cmocka_run_group_tests_name("gpu_price", tests, NULL, NULL);
    arena_clear(&arena);
    return failed;
}
