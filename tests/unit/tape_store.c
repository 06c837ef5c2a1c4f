// SPDX-License-Identifier: Apache-2.0
// The store on a made-up bundle and folder of recordings (tests/tapes).
#include "unit.h"

#include "predict/tape/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tape_places places(struct arena *a) {
    const char *source = getenv("BATCHFIT_SOURCE");
    struct str root = str_of(source ? source : ".");
    return (struct tape_places){
        .bundles = str_format(a, "%.*s/tests/tapes/bundle", STR_ARG(root)).p,
        .recorded = str_format(a, "%.*s/tests/tapes/recorded", STR_ARG(root)).p};
}

static struct tape_store open_store(struct arena *a) {
    struct tape_store s;
    struct fail why = {0};
    if (tape_store_open(a, places(a), &s, &why) < 0) fail_msg("%s", why.message);
    return s;
}

static void all_entries_are_listed(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store s = open_store(&a);
    assert_int_equal(s.count, 2 + 5);
    assert_false(tape_store_at(&s, 0)->shipped); // recordings first, by name
    assert_int_equal(tape_store_at(&s, 0)->header.image_size, 96);
    assert_int_equal(tape_store_at(&s, 1)->header.image_size, 192);
    assert_true(tape_store_at(&s, 2)->shipped);
    assert_str(tape_store_at(&s, 2)->header.torch, "2.13.0");
    assert_int_equal(tape_store_at(&s, 2)->header.parameters, 521408);
    assert_int_equal(tape_store_at(&s, 6)->header.image_size, TAPE_UNKNOWN);
    assert_int_equal(tape_store_at(&s, 6)->header.classes, TAPE_UNKNOWN);
    assert_int_equal(s.broken_count, 1);
    assert_true(str_ends(s.broken[0].file, STR("recorded/broken.tape")));
    assert_true(str_find(s.broken[0].message, STR("\"model\"")) >= 0);
}

static void every_entry_loads_as_what_it_says(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store s = open_store(&a);
    for (ptrdiff_t i = 0; i < s.count; i++) {
        struct tape t;
        struct fail why = {0};
        if (tape_store_load(&a, &s, tape_store_at(&s, i), &t, &why) < 0)
            fail_msg("%s", why.message);
        const struct tape_header *h = &tape_store_at(&s, i)->header;
        assert_true(str_equal(t.header.model, h->model));
        assert_true(str_equal(t.header.precision, h->precision));
        assert_int_equal(t.header.image_size, h->image_size);
        assert_int_equal(t.header.classes, h->classes);
        assert_int_equal(t.alloc_count, 8);
    }
}

static void a_model_is_known_by_its_names(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    static const struct {
        const char *name;
        int entries;
    } names[] = {{"net", 6}, {"timm:net", 6}, {"ne", 0}, {"org/words", 1}, {"words-base", 1}};
    struct tape_store s = open_store(&a);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int count = 0;
        for (ptrdiff_t k = 0; k < s.count; k++)
            count += tape_entry_is_model(tape_store_at(&s, k), str_of(names[i].name));
        if (count != names[i].entries) fail_msg("%s: %d", names[i].name, count);
    }
}

// A question is about one model, and the index has a thousand rows.
static void rows_of_other_models_are_not_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store s;
    ptrdiff_t at = 0, read = 0, found = 0;
    assert_int_equal(
        tape_store_open(&a, (struct tape_places){.recorded = "/no/such/folder"}, &s, NULL), 0);
    for (const struct tape_entry *e; (e = tape_store_next(&s, STR("resnet50"), &at)); found++)
        assert_true(tape_entry_is_model(e, STR("timm:resnet50")));
    for (ptrdiff_t i = 0; i < s.count; i++) read += s.rows[i].entry != NULL;
    assert_true(found > 10 && read < s.count / 4);
    const struct tape_entry *first = tape_store_at(&s, 0);
    assert_ptr_equal(tape_store_at(&s, 0), first);
}

// But of a folder's index that is not ours every row is checked.
static void a_wrong_row_is_refused(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/tape_store_XXXXXX";
    struct tape_store s;
    struct fail why = {0};
    assert_non_null(mkdtemp(folder));
    struct str path = str_format(&a, "%s/index.tsv", folder);
    struct str text = STR("file\toffset\tlength\tmodel\nx.tapes.zst\t0\t10\tm\n"
                          "# of another\nx.tapes.zst\tfar\t10\tn\n");
    FILE *f = fopen(path.p, "w");
    assert_non_null(f);
    fwrite(text.p, 1, (size_t)text.len, f);
    fclose(f);
    assert_int_equal(tape_store_open(&a, (struct tape_places){folder, folder}, &s, &why),
                     FAIL_INPUT);
    assert_non_null(strstr(why.message, "/index.tsv:4: offset 'far' is not a whole number"));
    remove(path.p);
    remove(folder);
}

static void absent_places_are_empty(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_places p = places(&a);
    struct tape_store s;
    struct fail why = {0};
    p.recorded = "/no/such/folder";
    assert_int_equal(tape_store_open(&a, p, &s, &why), 0);
    assert_int_equal(s.count, 5);
    p.bundles = "/no/such/folder"; // named, so it must be there
    assert_int_equal(tape_store_open(&a, p, &s, &why), FAIL_INPUT);
    p.bundles = NULL;
    assert_int_equal(tape_store_open(&a, p, &s, &why), 0);
}

static void the_environment_names_the_folder(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_places p = places(&a);
    struct tape_store s;
    setenv("BATCHFIT_TAPES", p.recorded, 1);
    p.recorded = NULL;
    assert_int_equal(tape_store_open(&a, p, &s, NULL), 0);
    assert_int_equal(s.count, 7);
    unsetenv("BATCHFIT_TAPES");
}

static void a_wrong_index_is_named(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store s = open_store(&a);
    struct tape_entry e = *tape_store_at(&s, 2);
    struct tape t;
    struct fail why = {0};
    e.offset = 100;
    assert_int_equal(tape_store_load(&a, &s, &e, &t, &why), FAIL_INPUT);
    e.offset = 0;
    e.length = 100000;
    assert_int_equal(tape_store_load(&a, &s, &e, &t, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "no 100000 bytes of text at 0"));
    e.file = STR("absent.tapes.zst");
    assert_int_equal(tape_store_load(&a, &s, &e, &t, &why), FAIL_INPUT);
}

// Where a template and recordings of the same training are shipped, they say the same, event for
// event: what is read is what was recorded, whatever made the template.
static bool is_same_training(const struct tape_header *x, const struct tape_header *y) {
    return str_equal(x->model, y->model) && str_equal(x->mode, y->mode) &&
           str_equal(x->precision, y->precision) && str_equal(x->optimizer, y->optimizer) &&
           x->accumulation == y->accumulation && x->checkpointing == y->checkpointing;
}

static void assert_same_tape(const struct tape *made, const struct tape *t) {
    assert_int_equal(made->alloc_count, t->alloc_count);
    for (int32_t i = 0; i < t->alloc_count; i++) {
        const struct tape_alloc *x = &made->allocs[i], *y = &t->allocs[i];
        bool is_same = x->c == y->c && x->k == y->k && x->cn == y->cn && x->kn == y->kn &&
                       x->tag == y->tag && x->id == y->id && x->stream == y->stream &&
                       (x->free_event < 0) == (y->free_event < 0) &&
                       str_equal(made->strings[x->module], t->strings[y->module]);
        if (!is_same)
            fail_msg("%.*s at %lld px: allocation %d", STR_ARG(t->header.model),
                     (long long)t->header.image_size, i);
    }
    assert_int_equal(made->scratch_count, t->scratch_count);
    for (int32_t i = 0; i < t->scratch_count; i++)
        assert_memory_equal(&made->scratches[i], &t->scratches[i], sizeof *t->scratches);
    assert_int_equal(made->header.image_size, t->header.image_size);
}

// One in seven templates: a second instead of ten.
static void shipped_templates_are_their_recordings(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct tape_store s;
    int compared = 0, templates = 0;
    assert_int_equal(
        tape_store_open(&a, (struct tape_places){.recorded = "/no/such/folder"}, &s, NULL), 0);
    for (ptrdiff_t i = 0; i < s.count; i++) {
        const struct tape_entry *e = tape_store_at(&s, i);
        ARENA_AUTO scratch = {0};
        struct tape_template *template;
        if (e->image.most <= 0 || templates++ % 7) continue;
        assert_int_equal(tape_store_load_template(&scratch, &s, e, &template, NULL), 0);
        for (ptrdiff_t k = 0; k < s.count; k++) {
            const struct tape_header *h = &tape_store_at(&s, k)->header;
            int64_t values[TAPE_DIM_COUNT] = {[TAPE_DIM_IMAGE_SIZE] = h->image_size};
            struct tape made, t;
            if (!is_same_training(h, &e->header) || !tape_bound_holds(&e->image, h->image_size))
                continue;
            assert_int_equal(tape_instantiate(&scratch, template, values, &made, NULL), 0);
            assert_int_equal(tape_store_load(&scratch, &s, tape_store_at(&s, k), &t, NULL), 0);
            assert_same_tape(&made, &t);
            compared++;
        }
    }
    assert_true(compared > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_entries_are_listed),
        cmocka_unit_test(every_entry_loads_as_what_it_says),
        cmocka_unit_test(a_model_is_known_by_its_names),
        cmocka_unit_test(rows_of_other_models_are_not_read),
        cmocka_unit_test(a_wrong_row_is_refused),
        cmocka_unit_test(absent_places_are_empty),
        cmocka_unit_test(the_environment_names_the_folder),
        cmocka_unit_test(shipped_templates_are_their_recordings),
        cmocka_unit_test(a_wrong_index_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
