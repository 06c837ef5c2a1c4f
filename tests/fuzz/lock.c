// SPDX-License-Identifier: Apache-2.0
// Any text as batchfit.lock: what is accepted is written as lines that read back as the same.
#include "fuzz.h"

#include "verbs/fit/fit.h"

#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static bool is_same(const struct fit_check_known *a, const struct fit_check_known *b) {
    return str_equal(a->config, b->config) && str_equal(a->key, b->key) &&
           str_equal(a->verdict, b->verdict) && a->bytes == b->bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct fit_check_list list = {0}, again = {0};
    struct str text = {(const char *)data, (ptrdiff_t)size};
    double band;
    if (fit_check_lock_read(&a, "batchfit.lock", text, &list, &band, &why) < 0) {
        check(why.code == FAIL_INPUT && why.message[0] != 0);
        return 0;
    }
    struct buf written = buf_new(&a);
    buf_add(&written, STR("# batchfit.lock 1:\n"));
    for (ptrdiff_t i = 0; i < list.count; i++) {
        buf_add(&written, fit_check_lock_line(&a, &list.items[i]));
        buf_byte(&written, '\n');
    }
    check(fit_check_lock_read(&a, "batchfit.lock", buf_str(&written), &again, &band, &why) == 0);
    check(again.count == list.count && band >= 0 && band < 1);
    for (ptrdiff_t i = 0; i < list.count; i++) check(is_same(&list.items[i], &again.items[i]));
    return 0;
}
