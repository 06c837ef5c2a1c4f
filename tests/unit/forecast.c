// SPDX-License-Identifier: Apache-2.0
// The forecast on small tapes written here: a weight of 1 MiB and, in the forward pass, PER_SAMPLE
// MiB a sample.
#include "unit.h"

#include "base/os.h"
#include "base/unit.h"
#include "predict/forecast/forecast.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

struct toy {
    const char *file, *precision, *optimizer;
    int image_size, accumulation, checkpointing, mib_per_sample;
};
static const struct toy toys[] = {
    {"a", "fp32", "adamw", 64, 1, 0, 40},      {"b", "amp-fp16", "adamw", 64, 1, 0, 20},
    {"c", "amp-fp16", "adamw", 128, 1, 0, 80}, {"d", "amp-fp16", "adamw", 64, 2, 0, 22},
    {"e", "amp-fp16", "adamw", 64, 1, 1, 5},   {"f", "fp32", "sgd", 64, 1, 0, 39},
};

static int write_tapes(void **state) {
    (void)state;
    strcpy(folder, "/tmp/batchfit-unit-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    char index[128];
    snprintf(index, sizeof index, "%s/index.tsv", folder); // no shipped tapes
    FILE *empty = fopen(index, "w");
    fputs("file\toffset\tlength\tmodel\n", empty);
    fclose(empty);
    for (size_t i = 0; i < sizeof toys / sizeof *toys; i++) {
        const struct toy *t = &toys[i];
        char path[128];
        snprintf(path, sizeof path, "%s/%s.tape", folder, t->file);
        FILE *f = fopen(path, "w");
        fprintf(
            f,
            "{\"tape\":1,\"model\":\"python:toy:net\",\"mode\":\"train\",\"image_size\":%d,"
            "\"precision\":\"%s\",\"optimizer\":\"%s\",\"accumulation\":%d,\"layout\":\"nchw\","
            "\"checkpointing\":%s,\"parameters\":262144,\"batches\":[2,4,8]}\n"
            "m init 0\na 1 1048576 0 param\nm forward 0\na 2 0 %lld activation conv body\nf 2\n",
            t->image_size, t->precision, t->optimizer, t->accumulation,
            t->checkpointing ? "true" : "false", t->mib_per_sample * (long long)UNIT_MIB);
        fclose(f);
    }
    return 0;
}

static int drop_tapes(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct forecast open_toy(struct arena *a, struct tape_store *store, struct plan plan) {
    struct fail why = {0};
    struct forecast f;
    struct forecast_cache *cache = arena_new(a, struct forecast_cache, 1);
    *cache = (struct forecast_cache){.arena = a, .store = store, .options = sim_options_default()};
    plan.model = STR("python:toy:net");
    assert_int_equal(tape_store_open(a, (struct tape_places){folder, folder}, store, &why), 0);
    int rc = forecast_open(cache, &plan, &f, &why);
    if (rc < 0) fail_msg("%s", why.message);
    return f;
}

static struct forecast_card card_of(int64_t mib) {
    return (struct forecast_card){
        .gpu = {.usable_bytes = mib * UNIT_MIB, .has_tensor_cores = true},
        .overhead = {.bytes = 100 * UNIT_MIB, .high_bytes = 150 * UNIT_MIB}};
}

static const struct plan amp = {
    .precision = PLAN_AMP_FP16, .optimizer = {"adamw", 5}, .image_size = 64};

static void figures_follow_the_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct forecast f = open_toy(&a, &store, amp);
    struct forecast_card card = card_of(1000);
    struct forecast_peak peak;
    assert_int_equal(forecast_at(&f, &card, 4, 1, &peak, NULL), 0);
    assert_int_equal(peak.allocated_bytes, 81 * UNIT_MIB);
    assert_int_equal(peak.reserved_bytes, 82 * UNIT_MIB); // the weight's small segment is 2 MiB
    assert_int_equal(peak.needed_bytes, 82 * UNIT_MIB);
    assert_int_equal(peak.verdict, FORECAST_FITS);
    assert_true(peak.upper_bytes > 82 * UNIT_MIB + 150 * UNIT_MIB);
}

static void the_verdict_looks_below_the_capacity(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct forecast f = open_toy(&a, &store, amp);
    struct forecast_peak peak;
    static const struct {
        int64_t usable_mib;
        enum forecast_verdict verdict;
    } cases[] = {{100 + 402, FORECAST_AT_RISK},
                 {100 + 401, FORECAST_OOM},
                 {100 + 420, FORECAST_FITS},
                 {100 + 409, FORECAST_AT_RISK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forecast_card card = card_of(cases[i].usable_mib);
        assert_int_equal(forecast_at(&f, &card, 20, 1, &peak, NULL), 0); // needs 402 MiB
        assert_int_equal(peak.verdict, cases[i].verdict);
    }
}

static void the_margin_is_a_share_of_the_card(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct forecast f = open_toy(&a, &store, amp);
    struct forecast_card card = card_of(1000);
    card.margin = 0.2;
    card.others_bytes = 50 * UNIT_MIB;
    assert_int_equal(forecast_capacity(&card), 850 * UNIT_MIB);
    assert_int_equal(forecast_budget(&card), 650 * UNIT_MIB);
    assert_int_equal(forecast_fits(&f, &card, 32, 1, NULL), 1); // 642 MiB
    assert_int_equal(forecast_fits(&f, &card, 33, 1, NULL), 0); // 662 MiB
    assert_true(forecast_may_fit(&f, &card, 32, 1));
    assert_false(forecast_may_fit(&f, &card, 33, 1));
}

static void accumulation_has_a_tape_of_its_own(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct forecast f = open_toy(&a, &store, amp);
    struct forecast_card card = card_of(1000);
    struct forecast_peak peak;
    assert_int_equal(forecast_at(&f, &card, 4, 3, &peak, NULL), 0);
    assert_int_equal(peak.allocated_bytes, 89 * UNIT_MIB);
}

static void a_larger_image_stands_in_and_says_so(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct plan plan = amp;
    plan.image_size = 100;
    struct forecast f = open_toy(&a, &store, plan);
    struct forecast_tape *t;
    assert_int_equal(forecast_tape(&f, 8, 1, &t, NULL), 0);
    assert_int_equal(t->entry->header.image_size, 128);
    assert_true(t->is_upper_bound);
    assert_int_equal(t->notes.count, 1);
}

static void missing_copies_are_added(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct plan plan = amp;
    plan.ema = true;
    struct forecast f = open_toy(&a, &store, plan);
    struct forecast_card card = card_of(1000);
    struct forecast_peak peak;
    assert_int_equal(forecast_at(&f, &card, 4, 1, &peak, NULL), 0);
    assert_int_equal(peak.allocated_bytes, 82 * UNIT_MIB); // 4 B x 262144 parameters
}

static void bf16_autocast_is_served_by_fp16s_tape(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct plan plan = amp;
    plan.precision = PLAN_AMP_BF16;
    struct forecast f = open_toy(&a, &store, plan);
    assert_non_null(f.tapes[0]);
}

static void what_no_tape_serves_is_an_error_with_a_command(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct tape_store store;
    struct forecast f = open_toy(&a, &store, amp);
    struct plan plan = f.plan;
    plan.optimizer = STR("adafactor");
    assert_int_equal(forecast_open(f.cache, &plan, &f, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "no tape for that optimizer"));
    assert_non_null(strstr(why.hint, "batchfit record python:toy:net --precision amp-fp16 "
                                     "--optimizer adafactor --img-size 64"));
    plan.model = STR("python:toy:nett");
    assert_int_equal(forecast_open(f.cache, &plan, &f, &why), FAIL_INPUT);
    assert_non_null(strstr(why.hint, "nearest"));
}

static void remedies_are_measured_on_tapes(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store store;
    struct plan plan = {.precision = PLAN_FP32, .optimizer = {"adamw", 5}, .image_size = 64};
    struct forecast f = open_toy(&a, &store, plan);
    struct forecast_card card = card_of(500);
    struct forecast_remedies remedies;
    assert_int_equal(forecast_remedies(&f, &card, 16, 1, &remedies, NULL), 0);
    assert_int_equal(remedies.count, 2); // mixed precision and SGD have tapes, the others none
    assert_str(remedies.items[0].what, "mixed precision");
    assert_int_equal(remedies.items[0].saved_bytes, 16 * 20 * UNIT_MIB);
    assert_true(remedies.items[0].is_enough);
    assert_int_equal(remedies.items[1].saved_bytes, 16 * UNIT_MIB);
    assert_false(remedies.items[1].is_enough);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_follow_the_tape),
        cmocka_unit_test(the_verdict_looks_below_the_capacity),
        cmocka_unit_test(the_margin_is_a_share_of_the_card),
        cmocka_unit_test(accumulation_has_a_tape_of_its_own),
        cmocka_unit_test(a_larger_image_stands_in_and_says_so),
        cmocka_unit_test(missing_copies_are_added),
        cmocka_unit_test(bf16_autocast_is_served_by_fp16s_tape),
        cmocka_unit_test(what_no_tape_serves_is_an_error_with_a_command),
        cmocka_unit_test(remedies_are_measured_on_tapes),
    };
    return cmocka_run_group_tests(tests, write_tapes, drop_tapes);
}
