// SPDX-License-Identifier: Apache-2.0
// Any bytes as the output of a training, with facts made from them: some row is always found, a
// good end is one with exit status 0 or without a status, views lie in what they were taken from,
// and numbers are absent or not negative. The corpus is tests/failures/.
#include "fuzz.h"

#include "measure/failure/failure_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void check(bool good) {
    if (!good) abort();
}

static struct failure_facts facts_of(struct str text) {
    static const int statuses[] = {0, 1 << 8, 2 << 8, 137 << 8, 139 << 8, 9, 6, 7, 11, 0};
    uint64_t h = str_hash(text);
    return (struct failure_facts){
        .status = statuses[h % 10],
        .has_status = h % 10 < 9,
        .oom_kills = (int64_t)(h / 10 % 3) - 1,
        .system_oom_kills = (int64_t)(h / 30 % 3) - 1,
        .memory_limit_bytes = h / 90 % 2 ? INT64_C(1) << 30 : 0,
    };
}

static void check_numbers(const struct failure_numbers *n) {
    const int64_t all[] = {n->tried_bytes,      n->total_bytes,     n->free_bytes,
                           n->in_use_bytes,     n->allocated_bytes, n->reserved_bytes,
                           n->unallocated_bytes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(all[i] >= -1);
    check(n->device >= -1);
}

static void check_facts(const struct failure *e, const struct failure_facts *f) {
    bool may_be_clean = !f->has_status || f->status == 0;
    check(e->signature && e->signature->id);
    check(e->signature->kind != FAILURE_CLEAN || may_be_clean);
    check(!f->has_status || f->status != 0 || e->signature->kind == FAILURE_CLEAN);
    check((e->signal != 0) == (f->has_status && WIFSIGNALED(f->status)));
    check((e->exit_status == -1) == (e->signal != 0 || !f->has_status));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    const struct str text = {(const char *)data, (ptrdiff_t)size};
    const struct failure_facts facts = facts_of(text);
    struct failure e, again;
    struct failure_numbers n;
    failure_classify(&a, text, &facts, &e);
    check_facts(&e, &facts);
    check_numbers(&e.numbers);
    int lines = 0;
    for (ptrdiff_t i = 0; i < e.last_lines.len; i++) {
        check(e.last_lines.p[i] != '\033' && e.last_lines.p[i] != '\r');
        lines += e.last_lines.p[i] == '\n';
    }
    check(lines <= 12);
    check(str_find(e.line, STR("\n")) < 0 && str_find(e.exception, STR("\n")) < 0);
    failure_classify(&a, text, &facts, &again);
    check(again.signature == e.signature && str_equal(again.line, e.line));
    if (failure_read_numbers(text, &n)) {
        check(n.tried_bytes >= 0);
        check_numbers(&n);
        (void)failure_cause_of(&n);
    }
    return 0;
}
