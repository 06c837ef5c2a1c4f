// SPDX-License-Identifier: Apache-2.0
// The shipped templates: every row of the index loads as what it says.
#include "unit.h"

#include "predict/tape/catalogue.h"
#include "predict/tape/template_int.h"

#include <stdlib.h>

static struct tape_catalogue open_catalogue(struct arena *a) {
    struct tape_catalogue s;
    struct fail why = {0};
    if (tape_catalogue_open(a, NULL, STR(""), &s, &why) < 0) fail_msg("%s", why.message);
    return s;
}

static int every = 1; // of the templates: the first argument

static void every_template_is_what_its_row_says(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_catalogue s = open_catalogue(&a);
    assert_true(s.count > 70);
    for (ptrdiff_t i = 0; i < s.count; i += every) {
        const struct tape_catalogue_entry *e = &s.entries[i];
        const struct tape_header *row = &e->entry.header;
        struct arena_mark mark = arena_mark(&a);
        struct tape_template *t;
        struct fail why = {0};
        if (tape_catalogue_load(&a, NULL, e, &t, &why) < 0 || tape_template_check(&a, t, &why) < 0)
            fail_msg("%s", why.message);
        const struct tape_header *h = &t->header;
        assert_true(str_equal(h->precision, row->precision));
        assert_true(str_equal(h->adapter, row->adapter));
        assert_true(str_equal(h->quant, row->quant));
        assert_int_equal(h->checkpointing, row->checkpointing);
        assert_true(str_starts(e->name, e->family));
        assert_int_equal(tape_template_bound(t, TAPE_DIM_BATCH).most == 0, e->is_single);
        assert_int_equal(tape_template_bound(t, TAPE_DIM_GROUP).most > 0, e->is_grouped);
        assert_int_equal(tape_template_bound(t, TAPE_DIM_ADAPTER_RANK).most > 0,
                         row->adapter.len > 0);
        arena_rewind(&a, mark);
    }
}

static void a_family_has_its_own_rows_and_no_other(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_catalogue all = open_catalogue(&a), own;
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < all.count; i++)
        count += str_equal(all.entries[i].family, STR("qwen2")); // qwen2_moe has the word, too
    assert_int_equal(tape_catalogue_open(&a, NULL, STR("qwen2"), &own, NULL), 0);
    assert_true(count > 0);
    assert_int_equal(own.count, count);
    for (ptrdiff_t i = 0; i < own.count; i++) assert_true(str_is(own.entries[i].family, "qwen2"));
}

static void a_folder_without_an_index_is_an_error(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_catalogue s;
    struct fail why = {0};
    assert_true(tape_catalogue_open(&a, "/nonexistent", STR("llama"), &s, &why) < 0);
    assert_true(strlen(why.message) > 0);
}

int main(int argc, char **argv) {
    if (argc > 1) every = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_is_what_its_row_says),
        cmocka_unit_test(a_family_has_its_own_rows_and_no_other),
        cmocka_unit_test(a_folder_without_an_index_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
