// SPDX-License-Identifier: Apache-2.0
// The runs of other machines, as their servers tell them: they are shown as ours are, and the rules
// that need their steps have looked at them there.
#include "measure/observe/observe_int.h"

#include "base/json.h"
#include "base/out.h"

#include <string.h>

// False: it is none.
static bool read_run(struct arena *a, const json_t *from, struct observe_run *ret_run) {
    const char *name = json_string_value(json_object_get(from, "state"));
    struct observe_run r = {.state = OBSERVE_RUN_STARTS};
    if (!json_is_object(from) || !name) return false;
    while (strcmp(observe_run_state_name(r.state), name) != 0)
        if (++r.state > OBSERVE_RUN_ENDED) return false;
    json_read_fields(a, from, &r, observe_run_fields);
    json_read_fields(a, json_object_get(from, "phases_ms"), &r.phases, observe_phase_fields);
    for (const struct field *f = observe_run_fields; f->name; f++) {
        if (f->type == FIELD_TEXT) field_set_text(&r, f, clean_text(a, field_text(&r, f)));
    }
    *ret_run = r;
    return true;
}

static void show_memory(const json_t *ours, const struct device_snapshot *devices,
                        struct observe_card *cards) {
    for (int i = 0; i < devices->count; i++) {
        const json_t *bytes = json_array_get(ours, (size_t)i);
        int64_t used = devices->cards[i].now.used_bytes, held = json_integer_value(bytes);
        bool is_known = json_is_integer(bytes) && used >= 0;
        cards[i].ours_bytes = is_known ? held : -1;
        cards[i].others_bytes = !is_known ? -1 : used > held ? used - held : 0;
    }
}

void observe_told_show(struct arena *a, const struct device_snapshot *devices,
                       struct observe_card *cards, struct observe_view *view) {
    json_t *told = json_loadb(devices->told.p, (size_t)devices->told.len, 0, NULL);
    const json_t *list = json_object_get(told, "runs"), *item;
    size_t i;
    struct observe_run *runs = arena_new(a, struct observe_run, json_array_size(list));
    view->run_count = 0;
    json_array_foreach(list, i, item) {
        struct observe_run *r = &runs[view->run_count];
        if (!read_run(a, item, r)) continue;
        if (r->card >= devices->count) r->card = -1;
        view->run_count++;
    }
    view->runs = runs;
    view->runs_unlisted = (int)json_integer_value(json_object_get(told, "runs_unlisted"));
    show_memory(json_object_get(told, "ours_bytes"), devices, cards);
    json_decref(told);
}
