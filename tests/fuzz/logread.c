// SPDX-License-Identifier: Apache-2.0
// Any bytes as a log, given whole and in pieces of seven: the answer is the same, counts are not
// negative, lines exist, and the causes are in order.
#include "fuzz.h"

#include "machine/cause/cause.h"
#include "measure/logread/logread.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good) abort();
}

static void read_in(struct arena *a, struct str text, ptrdiff_t piece, struct logread *ret_journal,
                    struct failure *ret_ending, int64_t *ret_line) {
    *ret_journal = logread_new(a);
    for (ptrdiff_t i = 0; i < text.len; i += piece) {
        logread_feed(ret_journal, str_slice(text, i, i + piece < text.len ? i + piece : text.len));
    }
    logread_end(ret_journal, ret_ending, ret_line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct str text = {(const char *)data, (ptrdiff_t)size};
    struct logread whole, pieces;
    struct failure ending, again;
    int64_t line, line_again, lines = 1;
    for (ptrdiff_t i = 0; i < text.len; i++) lines += text.p[i] == '\n';
    logread_refusal(text);
    read_in(&a, text, text.len + 1, &whole, &ending, &line);
    read_in(&a, text, 7, &pieces, &again, &line_again);
    check(ending.signature == again.signature && line == line_again);
    check(whole.line == lines && pieces.line == lines);
    check(line >= 0 && line <= lines && whole.nan.line >= 0 && whole.nan.line <= lines);
    check(whole.nan_count == pieces.nan_count && whole.bar_count == pieces.bar_count);
    check((whole.nan_count > 0) == (whole.nan.line > 0));
    const struct logread_bar *bar = logread_training(&whole);
    struct cause_facts facts = cause_facts_unknown();
    struct causes causes;
    facts.ending.signature = ending.signature->id;
    facts.ending.line = ending.line;
    facts.nan_count = whole.nan_count;
    if (bar) {
        facts.times_ms = bar->times_ms;
        facts.times_at = bar->lines;
        facts.time_count = bar->count;
        facts.at_is_line = true;
    }
    cause_judge(&a, &facts, &causes);
    for (ptrdiff_t i = 0; i < causes.count; i++) {
        check(i == 0 || causes.items[i - 1].strength <= causes.items[i].strength);
        check(causes.items[i].evidence.len >= 0 && causes.items[i].line >= 0);
    }
    return 0;
}
