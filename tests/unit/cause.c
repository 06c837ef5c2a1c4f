// SPDX-License-Identifier: Apache-2.0
// The table of causes: every way in which programs end has a row, ids stand once, the confidence is
// of the strength alone, and rules hold where they should and only there.
#include "unit.h"

#include "base/os.h"
#include "machine/cause/cause.h"
#include "measure/failure/failure.h"
#include "stats/stats.h"

#include <math.h>
#include <stdlib.h>

static const struct cause *first(struct arena *a, const struct cause_facts *f) {
    struct causes causes;
    cause_judge(a, f, &causes);
    return causes.count > 0 ? &causes.items[0] : NULL;
}

static void every_signature_has_a_cause(void **state) {
    (void)state;
    const struct failure_signature *row;
    for (int i = 0; (row = failure_signature(i)); i++) {
        if (row->kind == FAILURE_CLEAN)
            assert_null(cause_of_signature(row->id));
        else if (!cause_of_signature(row->id))
            fail_msg("%s: no cause", row->id);
    }
}

static void ids_stand_once_and_in_the_document(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct str text;
    struct fail why;
    const char *path = str_format(&a, "%s/doc/formats/doctor.md", getenv("BATCHFIT_SOURCE")).p;
    assert_int_equal(os_read(&a, path, 1 << 20, &text, NULL, &why), 0);
    for (int i = 0; cause_id(i); i++) {
        for (int k = 0; k < i; k++) assert_string_not_equal(cause_id(i), cause_id(k));
        if (str_find(text, str_format(&a, "| `%s` |", cause_id(i))) < 0)
            fail_msg("%s: not in doctor.md", cause_id(i));
    }
}

static void confidences_fall(void **state) {
    (void)state;
    for (int i = 1; i < CAUSE_STRENGTHS; i++) {
        assert_true(cause_confidence((enum cause_strength)i) <
                    cause_confidence((enum cause_strength)(i - 1)));
    }
}

static void nothing_is_known_nothing_is_said(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct cause_facts f = cause_facts_unknown();
    assert_null(first(&a, &f));
}

static void waits_of_seconds_are_measured_by_their_share(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct cause_facts f = cause_facts_unknown();
    f.phases.io_ms = 40;
    f.phases.total_ms = 2000;
    f.phase_steps = 100;
    assert_null(first(&a, &f));
    f.phases.total_ms = 200;
    assert_string_equal(first(&a, &f)->id, "data.loading");
    assert_int_equal(first(&a, &f)->strength, CAUSE_MEASURED);
    f.phase_steps = 5;
    assert_int_equal(first(&a, &f)->strength, CAUSE_BRIEFLY);
}

static void noise_is_no_slowdown(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct stats_random random = {7};
    static double times[1000];
    static int64_t at[1000];
    for (int round = 0; round < 100; round++) {
        struct cause_facts f = cause_facts_unknown();
        for (int i = 0; i < 1000; i++) {
            times[i] = 100 * exp(0.3 * stats_normal(&random));
            at[i] = i;
        }
        f.times_ms = times;
        f.times_at = at;
        f.time_count = 1000;
        assert_null(first(&a, &f));
        for (int i = 600; i < 1000; i++) times[i] *= 12;
        assert_string_equal(first(&a, &f)->id, "memory.spill");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_signature_has_a_cause),
        cmocka_unit_test(ids_stand_once_and_in_the_document),
        cmocka_unit_test(confidences_fall),
        cmocka_unit_test(nothing_is_known_nothing_is_said),
        cmocka_unit_test(waits_of_seconds_are_measured_by_their_share),
        cmocka_unit_test(noise_is_no_slowdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
