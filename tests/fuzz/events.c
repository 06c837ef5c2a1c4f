// SPDX-License-Identifier: Apache-2.0
// Any text as the event log of a run: it is refused, or its events are written and read again as
// the same ones, and after each of them the decision is one that can be followed.
#include "fuzz.h"

#include "measure/recover/recover.h"

#include <stdlib.h>
#include <string.h>

static void check(bool good) {
    if (!good) abort();
}

static struct str lines_of(struct arena *a, const struct recover_log *log) {
    struct buf b = buf_new(a);
    for (ptrdiff_t i = 0; i < log->count; i++) buf_add(&b, recover_event_line(a, &log->events[i]));
    return buf_str(&b);
}

static int64_t forecast(void *context, int64_t batch) {
    return *(const int64_t *)context * (batch & 0xffff);
}

static void decide(struct arena *a, const struct recover_rules *rules,
                   const struct recover_state *s) {
    const struct recover_file files[] = {{STR("a"), 1}, {STR("b"), 2}};
    struct recover_decision d = recover_next(a, rules, s, files, 2);
    struct recover_event e = recover_decided(&d);
    struct recover_log log;
    check(recover_size_fits(rules, d.size));
    check(d.action != RECOVER_START || (d.delay_s >= 0 && d.delay_s <= rules->most_backoff_s));
    check(recover_event_line(a, &e).len > 0);
    int64_t each = s->samples_best & 0xffffff;
    struct recover_sight sight = {
        .peak_bytes = s->steps, .forecast = forecast, .forecast_context = &each};
    struct recover_size size;
    struct str why;
    if (recover_adapt(a, rules, s, &sight, &size, &why))
        check(recover_size_fits(rules, size) && size.batch != s->size.batch);
    check(recover_log_read(a, recover_event_line(a, &e), &log, NULL) < 0); // no log begins with it
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct str text = {(const char *)data, (ptrdiff_t)size};
    struct recover_log log, again;
    struct fail why = {0};
    if (recover_log_read(&a, text, &log, &why) < 0) {
        check(why.code < 0 && strncmp(why.message, "line ", 5) == 0);
        return 0;
    }
    check(log.whole_bytes <= text.len && log.is_torn == (log.whole_bytes < text.len));
    struct str written = lines_of(&a, &log);
    check(recover_log_read(&a, written, &again, &why) == 0 && again.count == log.count);
    check(str_equal(written, lines_of(&a, &again)));
    if (log.count == 0) return 0;
    struct recover_state s = {.arena = &a};
    for (ptrdiff_t i = 0; i < log.count && i < 200; i++) {
        recover_apply(&s, &log.events[i]);
        decide(&a, &log.events[0].rules, &s);
    }
    return 0;
}
