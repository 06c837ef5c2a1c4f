// SPDX-License-Identifier: Apache-2.0
// Any text as the file of another machine: what is read is sound, is written to the same bytes
// every time, and any question can be asked of it.
//
// Input: what is preferred and the effective batch; then the text.
#include "fuzz.h"

#include "records/survey/survey_int.h"

#include <math.h>
#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static void check_merged(const struct survey_merged *m) {
    for (ptrdiff_t i = 0; i < m->count; i++) {
        const struct survey_card *card = &m->cards[i];
        check(card->count > 0 && card->taken < card->count);
        check(card->taken < 0 || card->choices[card->taken].record);
        check(i == 0 || !str_equal(card->key, m->cards[i - 1].key));
    }
    for (ptrdiff_t i = 0; i < m->part_count; i++) {
        check((m->parts[i].used > 0) == (m->parts[i].reason.len == 0));
    }
}

static void ask(struct arena *a, struct survey_file *file, const uint8_t *data) {
    struct survey_record *r = file->records;
    for (ptrdiff_t i = 0; i < file->count; i++) {
        check(!survey_unsound(&r[i]) && plan_effective(&r[i].plan) > 0);
        r[i].key = r[i].card;
    }
    struct survey_file files[2] = {*file, *file};
    struct survey_folder folder = {.files = files, .count = 2};
    struct survey_question q = {.margin = data[0] & 4 ? 0.1 : (double)NAN,
                                .prefer = (enum survey_prefer)(data[0] % 3),
                                .effective = data[1]};
    if (file->count > 0) {
        q.plan.model = r->plan.model;
        q.plan.image_size = r->plan.image_size;
        q.plan.optimizer = r->plan.optimizer;
        q.plan.layout = r->plan.layout;
    }
    struct survey_merged merged;
    survey_judge(a, &folder, &q, &merged);
    check_merged(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    ARENA_AUTO a = {0};
    struct str text = {(const char *)data + 2, (ptrdiff_t)size - 2};
    struct survey_file file, again;
    struct fail why = {0};
    int64_t line;
    if (survey_read(&a, STR("fuzz"), text, &file, &line, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] && line > 0);
        return 0;
    }
    struct str once = survey_write(&a, &file);
    check(survey_read(&a, STR("fuzz"), once, &again, &line, &why) == 0);
    check(again.count == file.count && str_equal(survey_write(&a, &again), once));
    ask(&a, &file, data);
    return 0;
}
