// SPDX-License-Identifier: Apache-2.0
// What a rule of a cause has seen, in the words of its cause.
#include "machine/cause/cause_int.h"

#include "base/unit.h"

#include <stdarg.h>

enum cause_strength cause_measured(ptrdiff_t readings) {
    return readings >= CAUSE_READINGS ? CAUSE_MEASURED : CAUSE_BRIEFLY;
}

bool cause_say(struct cause *c, enum cause_strength strength, struct str evidence) {
    c->strength = strength;
    c->evidence = evidence;
    return true;
}

bool cause_tell(const struct cause_view *v, struct cause *c, enum cause_strength strength,
                const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct str evidence = str_format_list(v->arena, format, args);
    va_end(args);
    return cause_say(c, strength, evidence);
}

bool cause_quote(const struct cause_view *v, struct cause *c, enum cause_strength strength,
                 const char *more) {
    const struct cause_ending *e = &v->facts->ending;
    struct buf b = buf_new(v->arena);
    if (e->line_number > 0) buf_format(&b, "line %lld: ", (long long)e->line_number);
    buf_add(&b, str_trim(e->line).len > 0 ? str_trim(e->line) : str_of(e->what));
    if (more && *more) buf_format(&b, " (%s)", more);
    c->subject = e->subject;
    c->quote = str_trim(e->line);
    c->line = e->line_number;
    if (e->is_doubtful && strength < CAUSE_AMBIGUOUS) strength = CAUSE_AMBIGUOUS;
    return cause_say(c, strength, buf_str(&b));
}

struct str cause_figures(const struct cause_view *v) {
    const struct cause_ending *e = &v->facts->ending;
    const struct {
        const char *name;
        int64_t bytes;
    } all[] = {
        {"tried", e->tried_bytes},         {"GPU", e->total_bytes},
        {"free", e->free_bytes},           {"this process", e->in_use_bytes},
        {"allocated", e->allocated_bytes}, {"reserved but unallocated", e->unallocated_bytes}};
    struct buf b = buf_new(v->arena);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].bytes < 0) continue;
        buf_format(&b, "%s%s %.*s", b.count ? ", " : "", all[i].name,
                   STR_ARG(unit_bytes(v->arena, all[i].bytes)));
    }
    return buf_str(&b);
}

const struct finding *cause_trend(const struct cause_view *v) {
    for (ptrdiff_t i = 0; i < v->facts->trend_count; i++) {
        const struct finding *f = &v->facts->trends[i];
        if (f->severity >= FINDING_WARNING && str_has_word(str_of(v->trends), str_of(f->id)))
            return f;
    }
    return NULL;
}

bool cause_named(const struct cause_view *v, struct cause *c) {
    c->what = v->facts->ending.what;
    return cause_quote(v, c, v->is_likely ? CAUSE_AMBIGUOUS : c->strength, NULL);
}
