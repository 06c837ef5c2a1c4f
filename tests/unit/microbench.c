// SPDX-License-Identifier: Apache-2.0
// Ranges and what is said about figures; the real CPU. GPUs are measured in
// tests/standin/rate.
#include "unit.h"

#include "machine/rules/rules.h"
#include "predict/gpu/gpu.h"

#include <math.h>

static const struct microbench_measure *measure(const char *id) {
    return microbench_find(str_of(id));
}

static struct microbench_range range_of(struct arena *a, const char *id,
                                        const struct microbench_subject *s) {
    struct fail why = {0};
    struct microbench_table table;
    struct microbench_range range;
    assert_int_equal(microbench_table_load(a, &table, &why), 0);
    microbench_range_find(a, &table, measure(id), s, &range);
    return range;
}

static struct gpu card(void) {
    return (struct gpu){.name = STR("Card"),
                        .key = STR("card"),
                        .bandwidth = 1e12,
                        .fp32 = 2e13,
                        .tf32 = (double)NAN,
                        .fp16 = 1e14,
                        .bf16 = 1e14,
                        .has_tensor_cores = true};
}

static void every_measurement_has_a_range_with_a_source(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu g = card();
    g.tf32 = 5e13;
    struct microbench_subject s = {.gpu = &g, .pcie_generation = 4, .pcie_width = 16, .cores = 4};
    assert_null(microbench_find(STR("rate.nothing")));
    for (int i = 0; i < microbench_measure_count; i++) {
        struct microbench_range r = range_of(&a, microbench_measures[i].id, &s);
        assert_true(r.floor <= r.low && r.low < r.high && r.floor >= 0);
        assert_true(r.source.len > 0 && r.of.len > 0 && r.why_none.len == 0);
    }
}

static void links_are_lanes_times_generation(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu g = card();
    struct microbench_subject s = {.gpu = &g, .pcie_generation = 4, .pcie_width = 16};
    struct microbench_range wide = range_of(&a, "rate.h2d", &s);
    assert_true(wide.high > 26e9 && wide.high < 31.5e9); // A100: 26.1 GB/s are fine
    assert_true(wide.low < 26.1e9);
    s.pcie_width = 4;
    struct microbench_range narrow = range_of(&a, "rate.h2d", &s);
    assert_true(narrow.high < wide.floor);
    assert_true(fabs(narrow.low * 4 - wide.low) < 1);
    s.pcie_generation = 0;
    assert_true(isnan(range_of(&a, "rate.h2d", &s).low));
    s.pcie_generation = 9;
    assert_true(isnan(range_of(&a, "rate.h2d", &s).low));
    s.pcie_generation = 4;
    s.is_unified = true;
    assert_true(range_of(&a, "rate.h2d", &s).why_none.len > 0);
}

static void what_is_not_known_has_no_range(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu g = card();
    struct microbench_subject s = {.gpu = &g};
    assert_true(isnan(range_of(&a, "rate.tf32", &s).low)); // no figure in the catalogue
    assert_false(isnan(range_of(&a, "rate.bf16", &s).low));
    s.is_mig = true;
    assert_true(isnan(range_of(&a, "rate.bf16", &s).low));
    s = (struct microbench_subject){0};
    assert_true(isnan(range_of(&a, "rate.device_copy", &s).floor));
    assert_true(isnan(range_of(&a, "rate.cpu_sgemm", &s).floor)); // cores unknown
}

static void a_card_may_have_a_range_of_its_own(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct gpu any = card(), a100 = card();
    a100.key = STR("a100_sxm4_40gb");
    struct microbench_subject s = {.gpu = &any}, own = {.gpu = &a100};
    assert_true(range_of(&a, "rate.bf16", &own).low > range_of(&a, "rate.bf16", &s).low);
    any.has_tensor_cores = false; // then fp16 is multiplied in fp32
    assert_true(range_of(&a, "rate.fp16", &s).high < 1.2 * any.fp32);
}

static struct finding say(struct arena *a, struct rules_microbench r) {
    static struct device_card cards[1];
    struct findings findings = {0};
    cards[0] = device_card_unknown();
    struct rules_facts facts = {.devices = {.cards = cards, .count = 1}};
    rules_judge_microbench(a, &facts, &r, &findings);
    assert_int_equal(findings.count, 1);
    return findings.items[0];
}

static void figures_are_judged(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct rules_microbench r = {
        .card = 0,
        .busy = (double)NAN,
        .figure = {.measure = measure("rate.h2d"),
                   .state = MICROBENCH_MEASURED,
                   .median = 25e9,
                   .count = 5},
        .range = {.low = 20e9, .high = 28e9, .floor = 15e9, .of = STR("a link")}};
    assert_int_equal(say(&a, r).severity, FINDING_OK);
    assert_true(str_is(say(&a, r).value, "25.0 GB/s"));
    r.figure.median = 40e9; // a surprise, and no fault
    assert_int_equal(say(&a, r).severity, FINDING_OK);
    r.figure.median = 19e9;
    assert_int_equal(say(&a, r).severity, FINDING_NOTE);
    r.figure.median = 6e9;
    assert_int_equal(say(&a, r).severity, FINDING_WARNING);
    assert_true(say(&a, r).remedy.len > 0);
    r.busy = 0.9; // of others: then it says nothing
    assert_int_equal(say(&a, r).severity, FINDING_UNKNOWN);
    r.busy = 0.05;
    assert_int_equal(say(&a, r).severity, FINDING_WARNING);
    r.figure.state = MICROBENCH_WRONG; // fast or not
    r.figure.median = 25e9;
    assert_int_equal(say(&a, r).severity, FINDING_PROBLEM);
    r.figure.state = MICROBENCH_UNKNOWN;
    assert_int_equal(say(&a, r).severity, FINDING_UNKNOWN);
    r.figure.state = MICROBENCH_MEASURED;
    r.range = (struct microbench_range){(double)NAN, (double)NAN, (double)NAN,
                                        .why_none = STR("no link")};
    assert_int_equal(say(&a, r).severity, FINDING_UNKNOWN);
    assert_true(str_find(say(&a, r).evidence, STR("no link")) >= 0);
}

static void rates_are_written_with_three_digits(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    assert_true(str_is(microbench_text(&a, MICROBENCH_BYTES_S, 24.64e9), "24.6 GB/s"));
    assert_true(str_is(microbench_text(&a, MICROBENCH_BYTES_S, 3.35e12), "3.35 TB/s"));
    assert_true(str_is(microbench_text(&a, MICROBENCH_FLOP_S, 312e12), "312 TFLOP/s"));
    assert_true(str_is(microbench_text(&a, MICROBENCH_FLOP_S, 1.8e15), "1.80 PFLOP/s"));
    assert_true(str_is(microbench_text(&a, MICROBENCH_BYTES_S, 0), "0.00 kB/s"));
    assert_int_equal(microbench_text(&a, MICROBENCH_BYTES_S, (double)NAN).len, 0);
}

// --- The real CPU --------------------------------------------------------------------------------

static struct microbench_figure seen[32];
static int seen_count;

static void take(void *owner, const struct microbench_figure *figure) {
    (void)owner;
    assert_true(seen_count < 32);
    seen[seen_count++] = *figure;
}

static void this_processor_moves_and_multiplies(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    const struct microbench_sink sink = {take, NULL};
    const struct microbench_host host = {.cores = 2, .available_bytes = INT64_C(1) << 30};
    microbench_cpu(&a, &host, &sink);
    assert_int_equal(seen_count, 5);
    for (int i = 0; i < seen_count; i++) {
        const struct microbench_figure *f = &seen[i];
        // A machine without any BLAS is told so; what was measured is possible.
        if (f->state == MICROBENCH_UNKNOWN)
            assert_true(f->why.len > 0);
        else
            assert_true(f->state == MICROBENCH_MEASURED && f->median > 5e7 && f->median < 1e15);
        if (f->state == MICROBENCH_MEASURED)
            assert_true(f->low <= f->median && f->median <= f->high);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_measurement_has_a_range_with_a_source),
        cmocka_unit_test(links_are_lanes_times_generation),
        cmocka_unit_test(what_is_not_known_has_no_range),
        cmocka_unit_test(a_card_may_have_a_range_of_its_own),
        cmocka_unit_test(figures_are_judged),
        cmocka_unit_test(rates_are_written_with_three_digits),
        cmocka_unit_test(this_processor_moves_and_multiplies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
