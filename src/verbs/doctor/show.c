// SPDX-License-Identifier: Apache-2.0
// What doctor says, as text and as JSON (doc/formats/doctor.md).
#include "base/out.h"
#include "verbs/doctor/doctor.h"
#include "view/show/prose.h"

#include <stdio.h>
#include <unistd.h>

static void line(struct buf *out, struct show_style style, const char *name, struct str text) {
    if (text.len == 0) return;
    buf_format(out, "     %-9s ", name);
    show_prose(out, style, SHOW_PLAIN, text, 15, 15);
}

static void add_cause(struct doctor *d, ptrdiff_t i, struct show_style style, struct buf *out) {
    const struct cause *c = &d->causes.items[i];
    buf_format(out, "\n%2td. ", i + 1);
    struct str what = str_format(d->arena, "%s  [%s, %.0f %%]", c->what, c->id,
                                 100 * cause_confidence(c->strength));
    show_prose(out, style, i == 0 ? SHOW_BAD : SHOW_STRONG, what, 4, 4);
    line(out, style, "evidence", c->evidence);
    line(out, style, "remedy", c->remedy);
    struct str keys = doctor_keys(d, c);
    while (keys.len > 0) line(out, style, "config", str_cut(&keys, '\n'));
    if (c->actions & CAUSE_SMALLER_BATCH) line(out, style, "predicted", d->effect);
}

// What was found, in the first line; the likeliest cause where there are several.
static void add_headline(struct doctor *d, struct show_style style, struct buf *out) {
    ptrdiff_t more = d->causes.count - 1;
    struct buf text = buf_new(d->arena);
    buf_format(&text, "%.*s (%.*s%s%.*s): %s", STR_ARG(d->source), STR_ARG(d->kind),
               d->read.len ? ", " : "", STR_ARG(d->read),
               more < 0 ? "nothing found" : d->causes.items[0].what);
    if (more > 0) buf_format(&text, " (or %td less likely cause%s)", more, more == 1 ? "" : "s");
    show_prose(out, style, SHOW_STRONG, buf_str(&text), 0, 2);
}

void doctor_print(struct doctor *d) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(d->arena);
    add_headline(d, style, &out);
    for (ptrdiff_t i = 0; i < d->causes.count; i++) add_cause(d, i, style, &out);
    if (d->snapshot) doctor_show_snapshot(d, style, &out);
    for (ptrdiff_t i = 0; i < d->notes.count; i++) {
        buf_add(&out, i == 0 ? STR("\n- ") : STR("- "));
        show_prose(&out, style, SHOW_PLAIN, d->notes.items[i], 2, 2);
    }
    out_buf(stdout, &out);
}

static json_t *cause_json(struct doctor *d, const struct cause *c) {
    json_t *effect = json_null();
    if ((c->actions & CAUSE_SMALLER_BATCH) && d->effect.len > 0) {
        effect = json_pack("{s:o, s:I, s:I, s:I}", "text", json_text(d->effect), "batch",
                           (json_int_t)d->effect_batch, "before_bytes",
                           (json_int_t)d->effect_before_bytes, "after_bytes",
                           (json_int_t)d->effect_after_bytes);
    }
    json_t *keys = json_array();
    for (struct str rest = doctor_keys(d, c); rest.len > 0;) {
        json_array_append_new(keys, json_text(str_cut(&rest, '\n')));
    }
    return json_pack("{s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "id", c->id, "what", c->what,
                     "confidence", cause_confidence(c->strength), "evidence",
                     json_text(c->evidence), "quote", json_text(c->quote), "line",
                     json_size(c->line), "remedy", json_text(c->remedy), "config", keys, "effect",
                     effect);
}

int doctor_print_json(struct doctor *d, struct fail *why) {
    json_t *causes = json_array(), *notes = json_array();
    for (ptrdiff_t i = 0; i < d->causes.count; i++) {
        json_array_append_new(causes, cause_json(d, &d->causes.items[i]));
    }
    for (ptrdiff_t i = 0; i < d->notes.count; i++) {
        json_array_append_new(notes, json_text(d->notes.items[i]));
    }
    json_t *document = json_pack("{s:o, s:o, s:o, s:o}", "source", json_text(d->source), "kind",
                                 json_text(d->kind), "causes", causes, "notes", notes);
    if (d->snapshot && json_object_set_new(document, "snapshot", doctor_snapshot_json(d)) < 0)
        return json_print(NULL, why);
    return json_print(document, why);
}
