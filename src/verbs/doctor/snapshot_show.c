// SPDX-License-Identifier: Apache-2.0
// What a memory snapshot shows: a picture of each GPU at its death (or its peak), as text and JSON.
#include "verbs/doctor/doctor.h"

#include "base/json.h"
#include "base/unit.h"
#include "view/show/show.h"

static const char *const phases[SNAPSHOT_PLACE_COUNT] = {
    [SNAPSHOT_NOWHERE] = NULL,      [SNAPSHOT_LOADING] = "init",
    [SNAPSHOT_STATE] = "optimizer", [SNAPSHOT_STEPPING] = "optimizer",
    [SNAPSHOT_FEEDING] = "input",   [SNAPSHOT_BACKWARD] = "backward",
    [SNAPSHOT_FORWARD] = "forward",
};
static const char *const replays[] = {
    [DEATH_SAME] = "same",
    [DEATH_EARLIER] = "earlier",
    [DEATH_LATER] = "later",
    [DEATH_NOT_PLAYED] = NULL,
};

static void show_kinds(struct doctor *d, const struct death *x, struct show_style style,
                       struct buf *out) {
    struct show_table t = show_table_new(d->arena, (struct str){0});
    static const struct show_heading headings[] = {
        {"kind", SHOW_LEFT}, {"bytes", SHOW_RIGHT}, {"allocations", SHOW_RIGHT}, {NULL, SHOW_LEFT}};
    show_table_columns(&t, headings);
    for (int i = 0; i < x->kind_count; i++) {
        const struct death_share *s = &x->kinds[i];
        show_table_cell(&t, SHOW_PLAIN, str_of(snapshot_kinds[s->kind].text));
        show_table_cell(&t, SHOW_PLAIN, unit_bytes(d->arena, s->bytes));
        show_table_format(&t, SHOW_PLAIN, "%lld", (long long)s->count);
    }
    show_table_text(&t, style, out);
}

static void show_holders(struct doctor *d, const struct death *x, struct show_style style,
                         struct buf *out) {
    struct show_table t = show_table_new(d->arena, (struct str){0});
    static const struct show_heading headings[] = {
        {"allocated at", SHOW_LEFT}, {"kind", SHOW_LEFT},   {"bytes", SHOW_RIGHT},
        {"allocations", SHOW_RIGHT}, {"steps", SHOW_RIGHT}, {NULL, SHOW_LEFT}};
    show_table_columns(&t, headings);
    for (int i = 0; i < x->holder_count; i++) {
        const struct death_holder *o = &x->holders[i];
        show_table_known(&t, SHOW_PLAIN, snapshot_place_text(d->arena, x->history->of, o->stack));
        show_table_cell(&t, SHOW_PLAIN, str_of(snapshot_kinds[o->kind].text));
        show_table_cell(&t, SHOW_PLAIN, unit_bytes(d->arena, o->bytes));
        show_table_format(&t, SHOW_PLAIN, "%lld", (long long)o->count);
        show_table_format(&t, SHOW_PLAIN, "%d", o->steps);
    }
    show_table_text(&t, style, out);
}

static struct str case_text(struct arena *a, const struct death_case *c) {
    if (c->needed < 0) return c->runs ? STR("fits") : STR("runs out");
    if (c->runs && c->spare >= 0)
        return str_format(a, "fits, %.*s to spare", STR_ARG(unit_bytes(a, c->spare)));
    if (c->spare < 0)
        return str_format(a, "runs out, %.*s short", STR_ARG(unit_bytes(a, -c->spare)));
    return STR("runs out here, though it fits in less: pure chance");
}

static void show_cases(struct doctor *d, const struct death *x, struct show_style style,
                       struct buf *out) {
    if (x->case_count == 0 || x->replay == DEATH_LATER) return;
    struct show_table t =
        show_table_new(d->arena, str_format(d->arena, "replayed in the simulator with %.*s",
                                            STR_ARG(unit_bytes(d->arena, x->capacity))));
    static const struct show_heading headings[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", SHOW_LEFT}, {"result", SHOW_LEFT}, {NULL, SHOW_LEFT}};
    show_table_columns(&t, headings);
    for (int i = 0; i < x->case_count; i++) {
        const struct death_case *c = &x->cases[i];
        show_table_cell(&t, SHOW_PLAIN, str_of(c->conf));
        show_table_cell(&t, c->runs ? SHOW_GOOD : SHOW_PLAIN, case_text(d->arena, c));
    }
    buf_byte(out, '\n');
    show_table_text(&t, style, out);
}

static void show_head(struct doctor *d, const struct death *x, struct show_style style,
                      struct buf *out) {
    const struct snapshot_history *h = x->history;
    struct arena *a = d->arena;
    struct buf b = buf_new(a);
    const char *phase = phases[h->phase];
    buf_format(&b, "GPU %d, %s", h->gpu,
               h->is_oom            ? "when memory ran out"
               : h->event_count > 0 ? "at the peak (memory did not run out)"
                                    : "at the end of the file");
    if (phase) buf_format(&b, " (step %d of the history, %s)", (int)h->step, phase);
    buf_format(&b, ": %.*s in use", STR_ARG(unit_bytes(a, h->allocated)));
    if (h->reserved >= 0) buf_format(&b, ", %.*s held", STR_ARG(unit_bytes(a, h->reserved)));
    if (h->is_oom)
        buf_format(&b, ", %.*s requested at %.*s", STR_ARG(unit_bytes(a, h->asked)),
                   STR_ARG(h->oom_stack > 0 ? snapshot_place_text(a, h->of, h->oom_stack)
                                            : STR("an unknown place (no Python stack)")));
    buf_byte(out, '\n');
    show_text(out, style, SHOW_STRONG, buf_str(&b));
    buf_add(out, STR("\n\n"));
}

void doctor_show_snapshot(struct doctor *d, struct show_style style, struct buf *out) {
    for (int i = 0; i < d->snapshot->count; i++) {
        const struct death *x = &d->snapshot->gpus[i];
        show_head(d, x, style, out);
        if (x->kind_count == 0) continue;
        show_kinds(d, x, style, out);
        buf_byte(out, '\n');
        show_holders(d, x, style, out);
        show_cases(d, x, style, out);
    }
}

static json_t *kinds_json(const struct death *x) {
    json_t *all = json_array();
    for (int i = 0; i < x->kind_count; i++) {
        const struct death_share *s = &x->kinds[i];
        json_array_append_new(all, json_pack("{s:s, s:I, s:I}", "kind", snapshot_kinds[s->kind].id,
                                             "bytes", (json_int_t)s->bytes, "allocations",
                                             (json_int_t)s->count));
    }
    return all;
}

static json_t *holders_json(struct doctor *d, const struct death *x) {
    json_t *all = json_array();
    for (int i = 0; i < x->holder_count; i++) {
        const struct death_holder *o = &x->holders[i];
        struct str place = snapshot_place_text(d->arena, x->history->of, o->stack);
        json_array_append_new(all, json_pack("{s:o, s:s, s:I, s:I, s:i}", "place", json_text(place),
                                             "kind", snapshot_kinds[o->kind].id, "bytes",
                                             (json_int_t)o->bytes, "allocations",
                                             (json_int_t)o->count, "steps", o->steps));
    }
    return all;
}

static json_t *cases_json(const struct death *x) {
    json_t *all = json_array();
    for (int i = 0; i < x->case_count && x->replay != DEATH_LATER; i++) {
        const struct death_case *c = &x->cases[i];
        json_t *spare = c->needed >= 0 ? json_integer(c->spare) : json_null();
        json_array_append_new(all, json_pack("{s:s, s:b, s:o, s:o}", "settings", c->conf, "runs",
                                             c->runs, "needed_bytes", json_count(c->needed),
                                             "spare_bytes", spare));
    }
    return all;
}

static json_t *batches_json(const struct death *x) {
    json_t *all = json_array();
    for (int i = 0; i < x->batch_count; i++) {
        json_array_append_new(all, json_pack("{s:s, s:I}", "settings", x->batches[i].conf, "batch",
                                             (json_int_t)x->batches[i].batch));
    }
    return all;
}

static json_t *leak_json(struct doctor *d, const struct death *x) {
    if (x->leak_bytes == 0) return json_null();
    struct str place = snapshot_place_text(d->arena, x->history->of, x->leak.stack);
    return json_pack("{s:I, s:I, s:o, s:i}", "bytes", (json_int_t)x->leak_bytes, "bytes_per_step",
                     (json_int_t)x->leak_per_step, "place", json_text(place), "steps",
                     x->leak.steps);
}

static json_t *gpu_json(struct doctor *d, const struct death *x) {
    const struct snapshot_history *h = x->history;
    struct str place = snapshot_place_text(d->arena, h->of, h->oom_stack);
    json_t *gpu = json_pack(
        "{s:i, s:b, s:i, s:i, s:o, s:i, s:I, s:I, s:o, s:o, s:o}", "gpu", h->gpu, "out_of_memory",
        h->is_oom, "events", (int)h->event_count, "steps", (int)(h->event_count ? h->steps : 0),
        "phase", json_text(str_of(phases[h->phase])), "step", (int)h->step, "allocated_bytes",
        (json_int_t)h->allocated, "requested_bytes", (json_int_t)h->requested, "reserved_bytes",
        json_count(h->reserved), "free_inside_bytes", json_count(h->holes), "largest_hole_bytes",
        json_count(h->largest_hole));
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "asked_bytes",
        json_count(h->asked), "asked_at", json_text(place), "device_free_bytes",
        json_count(h->device_free), "capacity_bytes", json_count(x->capacity),
        "before_history_bytes", (json_int_t)h->before_bytes, "before_history_allocations",
        (json_int_t)h->before_count, "kinds", kinds_json(x), "holders", holders_json(d, x), "leak",
        leak_json(d, x), "replay", json_text(str_of(replays[x->replay])), "settings", cases_json(x),
        "batches", batches_json(x));
    json_object_update_new(gpu, more);
    return gpu;
}

json_t *doctor_snapshot_json(struct doctor *d) {
    json_t *gpus = json_array();
    for (int i = 0; i < d->snapshot->count; i++)
        json_array_append_new(gpus, gpu_json(d, &d->snapshot->gpus[i]));
    return json_pack("{s:I, s:o, s:o}", "file_bytes", (json_int_t)d->snapshot->file.bytes,
                     "settings", json_text(d->snapshot->file.settings.conf), "gpus", gpus);
}
