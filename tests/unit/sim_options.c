// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/unit.h"
#include "predict/sim/sim.h"

static struct sim_options parse(const char *text) {
    struct sim_options o = sim_options_default();
    struct fail why = {0};
    if (sim_options_parse(str_of(text), &o, &why) < 0) fail_msg("%s", why.message);
    return o;
}

static void every_option_is_read(void **state) {
    (void)state;
    struct sim_options o =
        parse("backend:native, max_split_size_mb: 128,expandable_segments:True,"
              "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,"
              "max_non_split_rounding_mb:64,large_segment_size_mb:12,"
              "roundup_bypass_threshold_mb:1000,roundup_power2_divisions:[256:1,512:2,>:8],"
              "pinned_use_background_threads:True,release_lock_on_cudamalloc:True");
    assert_true(o.expandable_segments);
    assert_int_equal(o.max_split_bytes, 128 * UNIT_MIB);
    assert_int_equal(o.max_non_split_rounding_bytes, 64 * UNIT_MIB);
    assert_int_equal(o.large_segment_bytes, 12 * UNIT_MIB);
    assert_int_equal(o.roundup_bypass_bytes, 1000 * UNIT_MIB);
    assert_true(o.garbage_collection_threshold == 0.8);
    assert_true(o.memory_fraction == 0.5);
    static const int64_t divisions[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8};
    assert_memory_equal(o.roundup_divisions, divisions, sizeof divisions);
}

static void nothing_is_the_default(void **state) {
    (void)state;
    struct sim_options o = parse(""), d = sim_options_default();
    assert_memory_equal(&o, &d, sizeof o);
    o = parse("expandable_segments:True,expandable_segments:False");
    assert_false(o.expandable_segments);
    o = parse("per_process_memory_fraction:1.0"); // no limit
    assert_true(o.memory_fraction == 0);
}

// As the library of torch 2.13.0 reads them (AcceleratorAllocatorConfig::roundup_power2_divisions
// of 1 MiB, 2 MiB, ... 32 GiB).
static void lists_of_divisions_are_read_as_torch_does(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int64_t divisions[16];
    } cases[] = {
        {"4", {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
        {"[256:1,512:2,1024:4,>:8]", {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}},
        {"[4:2,65536:4,>:8]", {2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4}},
        {"[4:2,32768:4,>:8]", {2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4}},
        {"[4:0,>:8]", {0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
        {"[>:8]", {0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
        {"[>:8,4:2]", {2, 2, 2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}},
        {"[4:2,2:8]", {2, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"[4:2,4:8]", {2, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"[4:2,]", {2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"[]", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
        {"4,roundup_power2_divisions:[4:2]", {2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct str text = str_format(&a, "roundup_power2_divisions:%s", cases[i].value);
        struct sim_options o = parse(text.p);
        if (memcmp(o.roundup_divisions, cases[i].divisions, sizeof o.roundup_divisions) != 0)
            fail_msg("%s", cases[i].value);
    }
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "max_split_size_mb:19",
        "max_split_size_mb:x",
        "max_split_size_mb",
        "expandable_segments:true",
        "garbage_collection_threshold:1",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:nan",
        "per_process_memory_fraction:1.5",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[256:3]",
        "roundup_power2_divisions:[100:4]",
        "roundup_power2_divisions:[256:4",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:-4",
        "roundup_power2_divisions:[0:4]",
        "roundup_power2_divisions:[1:2,>:3]",
        "large_segment_size_mb:10",
        "backend:other",
        "backend:cudaMallocAsync",
        "no_such_option:1",
        "max_split_size_mb:128,,expandable_segments:True",
        "pinned_num_register_threads:",
        ":1",
    };
    struct sim_options d = sim_options_default();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sim_options o = d;
        struct fail why = {0};
        assert_int_equal(sim_options_parse(str_of(bad[i]), &o, &why), FAIL_INPUT);
        assert_true(why.message[0] != 0);
        assert_memory_equal(&o, &d, sizeof o);
    }
}

static void a_typing_error_names_the_nearest(void **state) {
    (void)state;
    struct sim_options o = sim_options_default();
    struct fail why = {0};
    assert_int_equal(sim_options_parse(STR("expandable_segment:True"), &o, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "expandable_segment"));
    assert_non_null(strstr(why.hint, "expandable_segments"));
    assert_int_equal(sim_options_parse(STR("backend:cudaMallocAsync"), &o, &why), FAIL_INPUT);
    assert_non_null(strstr(why.hint, "driver"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_read),
        cmocka_unit_test(nothing_is_the_default),
        cmocka_unit_test(lists_of_divisions_are_read_as_torch_does),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(a_typing_error_names_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
