// SPDX-License-Identifier: Apache-2.0
// Causes that are about memory. Of an out-of-memory exactly one row says where it was; that the
// figures of the message show why (fragments, others, a leak) is surer than that it ran out.
#include "machine/cause/cause_int.h"

#include "base/unit.h"

#include <string.h>

enum { MANY_STEPS = 100 }; // what fitted so often is not the model at its usual size

bool cause_leak(const struct cause_view *v, struct cause *c) {
    const struct finding *f = cause_trend(v);
    if (!f) return false;
    // Growth to the end, and the end was that memory ran out.
    bool ended_so = v->has_signature && v->facts->ending.tried_bytes > 0;
    return cause_say(c, ended_so ? CAUSE_SAID : CAUSE_MEASURED, f->evidence);
}

static bool oom(const struct cause_view *v, struct cause *c, const char *where) {
    const struct cause_ending *e = &v->facts->ending;
    struct cause_view leak = *v;
    leak.trends = "trend.leak";
    bool has_reason =
        v->is_likely || e->is_fragmented || e->by_others || e->is_spilled || cause_trend(&leak);
    struct buf b = buf_new(v->arena);
    buf_add(&b, cause_figures(v));
    if (where) buf_format(&b, "%s%s", b.count ? "; " : "", where);
    return cause_quote(v, c, has_reason ? CAUSE_AMBIGUOUS : CAUSE_SAID, buf_z(&b));
}

bool cause_fragmented(const struct cause_view *v, struct cause *c) {
    return v->facts->ending.is_fragmented && cause_quote(v, c, CAUSE_COUNTED, cause_figures(v).p);
}

bool cause_others(const struct cause_view *v, struct cause *c) {
    return v->facts->ending.by_others && cause_quote(v, c, CAUSE_COUNTED, cause_figures(v).p);
}

bool cause_validation(const struct cause_view *v, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    if (e->place != CAUSE_IN_VALIDATION) return false;
    return oom(v, c, str_format(v->arena, "at: %.*s", STR_ARG(e->place_line)).p);
}

bool cause_last_batch(const struct cause_view *v, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    if (e->place != CAUSE_IN_LAST_BATCH) return false;
    return oom(v, c, str_format(v->arena, "at: %.*s", STR_ARG(e->place_line)).p);
}

bool cause_start(const struct cause_view *v, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    return e->place == CAUSE_ANYWHERE && e->steps == 0 && oom(v, c, "before the first step");
}

bool cause_later(const struct cause_view *v, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    if (e->place != CAUSE_ANYWHERE || e->steps < MANY_STEPS) return false;
    return oom(v, c, str_format(v->arena, "after %lld steps", (long long)e->steps).p);
}

bool cause_oom(const struct cause_view *v, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    if (e->place != CAUSE_ANYWHERE || e->steps == 0 || e->steps >= MANY_STEPS) return false;
    if (e->steps < 0) return oom(v, c, NULL);
    return oom(v, c, str_format(v->arena, "after %lld steps", (long long)e->steps).p);
}

// Of the limits one has nothing to do with the batch.
bool cause_limit(const struct cause_view *v, struct cause *c) {
    if (strcmp(v->facts->ending.signature, "triton-resources") == 0) c->actions = 0;
    return cause_named(v, c);
}

bool cause_shm_low(const struct cause_view *v, struct cause *c) {
    const struct cause_process *p = &v->facts->process;
    if (p->seconds <= 0 || p->shm_total_bytes <= 0 || p->shm_free_bytes < 0) return false;
    if (p->shm_free_bytes > p->shm_total_bytes / 10) return false;
    return cause_tell(v, c, CAUSE_MEASURED, "%.*s of %.*s free in /dev/shm",
                      STR_ARG(unit_bytes(v->arena, p->shm_free_bytes)),
                      STR_ARG(unit_bytes(v->arena, p->shm_total_bytes)));
}

bool cause_full(const struct cause_view *v, struct cause *c) {
    const struct cause_facts *f = v->facts;
    if (f->flush_count == 0) return cause_told(v, c);
    c->quote = str_trim(f->flush_text);
    c->line = f->flush_line;
    return cause_tell(v, c, CAUSE_MEASURED, "line %lld: %.*s (the first of %lld)",
                      (long long)f->flush_line, STR_ARG(c->quote), (long long)f->flush_count);
}
