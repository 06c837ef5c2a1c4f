// SPDX-License-Identifier: Apache-2.0
#include "predict/tape/edit.h"

#include <string.h>

void tape_put_event(struct tape *to, struct tape_event e) {
    to->events[to->event_count++] = e;
}

int32_t tape_put_alloc(struct tape *to, struct tape_alloc x) {
    int32_t at = to->alloc_count++;
    x.id = at;
    x.event = to->event_count;
    x.free_event = -1;
    to->allocs[at] = x;
    tape_put_event(to, (struct tape_event){.kind = TAPE_ALLOC, .index = at});
    return at;
}

void tape_drop(struct tape *to, int32_t copy) {
    if (copy < 0 || to->allocs[copy].free_event >= 0) return;
    to->allocs[copy].free_event = to->event_count;
    tape_put_event(to, (struct tape_event){.kind = TAPE_FREE, .index = copy});
}

int32_t tape_add_ops(struct arena *a, const struct tape *from, struct tape *to,
                     const char *const *names, int count) {
    struct str *strings = arena_new(a, struct str, from->string_count + count);
    memcpy(strings, from->strings, sizeof *strings * (size_t)from->string_count);
    for (int i = 0; i < count; i++) strings[from->string_count + i] = str_of(names[i]);
    to->strings = strings;
    to->string_count = from->string_count + count;
    return from->string_count;
}

int32_t tape_end_of_phase(const struct tape *t, int32_t event) {
    while (event < t->event_count && t->events[event].kind != TAPE_MARK) event++;
    return event;
}

bool tape_param_decays(const struct tape *t, int32_t alloc) {
    const struct tape_alloc *x = &t->allocs[alloc];
    struct str last = str_last(t->strings[x->module], '.');
    bool is_second = alloc > 0 && t->allocs[alloc - 1].module == x->module &&
                     t->allocs[alloc - 1].tag == TAPE_PARAM; // a bias stands behind its weight
    return str_find(last, STR("norm")) < 0 && !is_second;
}
