// SPDX-License-Identifier: Apache-2.0
// Any bytes as the steps protocol, in pieces: what is kept is within what steps.h promises, and
// does not depend on where the pieces were cut.
//
// Input: the size of a piece; then the text.
#include "fuzz.h"

#include "measure/steps/steps.h"

#include <math.h>
#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static void check_time(double ms) {
    check(isnan(ms) || (ms >= 0 && ms <= 1e15));
}

static void check_count(int64_t n) {
    check(n >= -1 && n <= INT64_C(1) << 50);
}

static void check_text(struct str text, ptrdiff_t max) {
    check(text.len >= 0 && text.len <= max);
    for (ptrdiff_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        check(c == '\n' || (c >= 0x20 && c != 0x7f));
        check(c != 0xc2 || (i + 1 < text.len && (unsigned char)text.p[i + 1] >= 0xa0));
    }
}

static void check_step(const struct step *s) {
    const int64_t counts[] = {
        s->number,          s->samples,        s->micro_batch,         s->micro_count,
        s->allocated_bytes, s->reserved_bytes, s->peak_reserved_bytes, s->alloc_retries};
    for (int i = 0; i < STEP_TIME_COUNT; i++) check_time(s->times.ms[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check_count(counts[i]);
    check(s->rank >= 0 && s->micro_count != 0);
}

static struct steps read_in_pieces(struct arena *a, struct str text, ptrdiff_t piece) {
    struct steps s = steps_new(a);
    struct step_source source = {0};
    while (text.len > 0) {
        ptrdiff_t len = text.len < piece ? text.len : piece;
        steps_feed(&s, &source, str_slice(text, 0, len));
        text = str_slice(text, len, text.len);
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    ARENA_AUTO a = {0};
    const struct str text = {(const char *)data + 1, (ptrdiff_t)size - 1};
    struct steps s = read_in_pieces(&a, text, data[0] + 1);
    struct steps whole = read_in_pieces(&a, text, text.len + 1);
    int64_t steps = 0;
    for (ptrdiff_t i = 0; i < s.count; i++) check_step(&s.items[i]);
    for (ptrdiff_t i = 0; i < s.rank_count; i++) {
        const struct step_rank *r = &s.ranks[i];
        steps += r->steps;
        check_text(r->error, 2000);
        check_text(r->oom_message, 2000);
        check_text(r->device, 2000);
        check(r->oom_ns <= r->last_ns && r->dropped >= 0);
    }
    check(steps == s.count && s.dropped_lines >= 0);
    check_text(s.first_broken, 200);
    check((s.broken_lines > 0) == (s.first_broken.len > 0));
    check(s.broken_lines == whole.broken_lines && s.count == whole.count);
    check(s.covered == whole.covered && s.rank_count == whole.rank_count);
    check(str_equal(s.first_broken, whole.first_broken));
    check(steps_of_slowest(&s, 1) <= s.count);
    return 0;
}
