// SPDX-License-Identifier: Apache-2.0
// From when on each finding holds, and which ones have held: kept here and not by who looks, so
// that a page that is reloaded does not make them young.
#include "measure/observe/observe_int.h"

enum { LIVES = 128, RESOLVED = 32 };

struct lives {
    struct life {
        struct observe_resolved of; // until_ms 0: it holds
        bool is_seen;
    } lives[LIVES];
    int count;
    struct observe_resolved resolved[RESOLVED]; // newest first
    int resolved_count;
};

struct lives *observe_lives_open(struct arena *a) {
    struct lives *l = arena_new(a, struct lives, 1);
    *l = (struct lives){0};
    return l;
}

static struct life *life_of(struct lives *l, const struct finding *f) {
    for (int i = 0; i < l->count; i++) {
        struct observe_resolved *of = &l->lives[i].of;
        if (of->card == f->card && str_is(str_of(of->id), f->id)) return &l->lives[i];
    }
    return NULL;
}

static void see(struct lives *l, struct finding *f, int64_t now_ms) {
    struct life *life = life_of(l, f);
    if (!life && l->count < LIVES) {
        life = &l->lives[l->count++];
        *life = (struct life){.of = {.id = f->id, .card = f->card, .since_ms = now_ms}};
    }
    if (!life) return;
    life->is_seen = true;
    life->of.what = f->what;
    life->of.severity = f->severity;
    f->since_ms = life->of.since_ms;
}

static void resolve(struct lives *l, const struct observe_resolved *of, int64_t now_ms) {
    int kept = l->resolved_count < RESOLVED ? l->resolved_count : RESOLVED - 1;
    for (int i = kept; i > 0; i--) l->resolved[i] = l->resolved[i - 1];
    l->resolved[0] = *of;
    l->resolved[0].until_ms = now_ms;
    l->resolved_count = kept + 1;
}

void observe_lives_shift(struct lives *l, int64_t ms) {
    for (int i = 0; i < l->count; i++) l->lives[i].of.since_ms += ms;
    for (int i = 0; i < l->resolved_count; i++) {
        l->resolved[i].since_ms += ms;
        l->resolved[i].until_ms += ms;
    }
}

// The worst first; equal ones stay in their order.
static void sort(struct findings *findings) {
    for (ptrdiff_t i = 1; i < findings->count; i++) {
        struct finding f = findings->items[i];
        ptrdiff_t at = i;
        for (; at > 0 && findings->items[at - 1].severity < f.severity; at--)
            findings->items[at] = findings->items[at - 1];
        findings->items[at] = f;
    }
}

void observe_lives_turn(struct lives *l, struct observe_view *view) {
    int kept = 0;
    for (int i = 0; i < l->count; i++) l->lives[i].is_seen = false;
    for (ptrdiff_t i = 0; i < view->findings.count; i++)
        see(l, &view->findings.items[i], view->at_ms);
    for (int i = 0; i < l->count; i++) {
        const struct life life = l->lives[i];
        if (life.is_seen)
            l->lives[kept++] = life;
        else if (life.of.severity >= FINDING_WARNING)
            resolve(l, &life.of, view->at_ms);
    }
    l->count = kept;
    sort(&view->findings);
    view->resolved = l->resolved;
    view->resolved_count = l->resolved_count;
}
