// SPDX-License-Identifier: Apache-2.0
// What doctor says, as text and as JSON (doc/formats/doctor.md).
#include "view/show/show.h"
#include "base/out.h"
#include "base/say.h"
#include "base/unit.h"
#include "verbs/doctor/doctor.h"

#include <stdio.h>
#include <unistd.h>

static void line(struct buf *out, struct show_style style, const char *name, struct str text) {
    if (text.len == 0) return;
    buf_add(out, STR("     "));
    show_padded(out, style, SHOW_PLAIN, say_str(str_of(name)), 10, false);
    show_prose(out, style, SHOW_PLAIN, text, 15, 15);
}

// What was seen, without the line of the log that says it.
static struct str without_quote(struct doctor *d, const struct cause *c) {
    ptrdiff_t at = c->quote.len > 0 ? str_find(c->evidence, c->quote) : -1;
    if (at < 0) return c->evidence;
    struct str rest = str_slice(c->evidence, at + c->quote.len, c->evidence.len);
    rest = str_trim(rest);
    if (str_starts(rest, STR("(")) && str_ends(rest, STR(")")))
        rest = str_slice(rest, 1, rest.len - 1);
    return rest.len > 0 ? str_format(d->arena, "%.*s%.*s", (int)at, c->evidence.p, STR_ARG(rest))
                        : (struct str){0};
}

// The same event as one before says another cause of: they are told together.
static bool is_of_earlier(const struct doctor *d, ptrdiff_t which) {
    const struct cause *c = &d->causes.items[which];
    for (ptrdiff_t i = 0; i < which; i++) {
        const struct cause *other = &d->causes.items[i];
        bool is_same = c->line > 0 ? other->line == c->line : str_equal(other->quote, c->quote);
        if (c->quote.len > 0 && other->quote.len > 0 && is_same) return true;
    }
    return false;
}

static struct str event_text(struct doctor *d, ptrdiff_t which) {
    const struct cause *first = &d->causes.items[which];
    struct buf text = buf_new(d->arena);
    for (ptrdiff_t i = which + 1; i < d->causes.count; i++) {
        const struct cause *c = &d->causes.items[i];
        bool is_same =
            c->quote.len > 0 && c->line == first->line && str_equal(c->quote, first->quote);
        if (!is_same) continue;
        buf_format(&text, "%s%s  [%s, %.0f %%]", text.count > 0 ? "; " : "", say(c->what), c->id,
                   100 * cause_confidence(c->strength));
    }
    return buf_str(&text);
}

// "a file is missing: data/train.csv"
static struct str named(struct doctor *d, const struct cause *c) {
    struct str what = say_str(str_of(c->what));
    if (c->subject.len == 0) return what;
    return str_format(d->arena, "%.*s: %.*s", STR_ARG(what), STR_ARG(c->subject));
}

// Three figures of the message, those that decide.
static struct str figures(struct doctor *d) {
    const struct cause_ending *e = &d->facts.ending;
    const struct {
        const char *name;
        int64_t bytes;
    } all[] = {{"asked for", e->tried_bytes},
               {"free", e->free_bytes},
               {"the GPU has", e->total_bytes},
               {"allocated", e->allocated_bytes}};
    struct buf b = buf_new(d->arena);
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && count < 3; i++) {
        if (all[i].bytes < 0) continue;
        buf_format(&b, "%s%s %.*s", count++ > 0 ? ", " : "", say(all[i].name),
                   STR_ARG(unit_bytes(d->arena, all[i].bytes)));
    }
    return buf_str(&b);
}

// What the headline says of the first cause besides its name. A line of the log is evidence for the
// list below: it may be long, and what to do should not stand behind it.
static struct str headline_figures(struct doctor *d) {
    const struct cause *first = &d->causes.items[0];
    struct str text = first->quote.len > 0 ? figures(d) : first->evidence;
    return str_is(text, first->what) ? (struct str){0} : text;
}

// That it failed: what the program said of it is all that there is to tell.
static bool says_nothing(const struct doctor *d) {
    struct str names = STR("own-error unknown-error exit-status");
    const struct cause *first = &d->causes.items[0];
    return first->quote.len > 0 && str_equal(first->quote, str_trim(d->facts.ending.line)) &&
           str_has_word(names, str_of(d->facts.ending.signature));
}

static void add_cause(struct doctor *d, ptrdiff_t i, int number, struct show_style style,
                      struct buf *out) {
    const struct cause *c = &d->causes.items[i];
    const bool has_details = d->options->details;
    buf_format(out, "\n%2d. ", number);
    struct str what = str_format(d->arena, "%.*s  [%s, %.0f %%]", STR_ARG(named(d, c)), c->id,
                                 100 * cause_confidence(c->strength));
    show_prose(out, style, i == 0 ? SHOW_BAD : SHOW_STRONG, what, 4, 4);
    line(out, style, "also", event_text(d, i));
    const bool is_in_headline = i == 0 && (headline_figures(d).len > 0 || says_nothing(d));
    if (has_details || (i == 0 && !is_in_headline))
        line(out, style, "evidence", c->evidence);
    else if (i > 0)
        line(out, style, "evidence", without_quote(d, c));
    if (i > 0 || doctor_command(d, c).len > 0) line(out, style, "remedy", c->remedy);
    struct str keys = doctor_keys(d, c);
    while (keys.len > 0) line(out, style, "config", str_cut(&keys, '\n'));
    if (i > 0) line(out, style, "command", doctor_command(d, c));
}

static int events(const struct doctor *d) {
    int count = 0;
    for (ptrdiff_t i = 0; i < d->causes.count; i++) count += !is_of_earlier(d, i);
    return count;
}

// What would tell more, where nothing was found.
static const char *advice(const struct doctor *d) {
    static const struct {
        const char *kind, *text;
    } texts[] = {
        {"log",
         "What to do: if it died, read all of its output, with stderr (2>&1), to the last line; "
         "if it is slow, batchfit doctor --pid PID while it trains"},
        {"run", "What to do: if it died, batchfit doctor LOG on its output; if it is slow, "
                "batchfit bench -- COMMAND"},
        {"process", "What to do: look again while it is slow, for longer (--duration 60); "
                    "batchfit bench -- COMMAND times the parts of its steps"},
        {"steps", "What to do: if it died, batchfit doctor LOG on its output; if it is slow, "
                  "batchfit doctor --pid PID while it trains"},
        {"watch", "What to do: a log of the time when it was slow; batchfit bench -- COMMAND "
                  "times the parts of its steps"},
        {"bench",
         "What to do: nothing; what else may be faster: --batch-sizes, --num-workers, --amp both"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (str_is(d->kind, texts[i].kind)) return texts[i].text;
    }
    return "";
}

// What was found, in the first line, the likeliest where there are several; the figures that show
// it; what fit answers; and what to do.
static void add_headline(struct doctor *d, struct show_style style, struct buf *out) {
    const struct cause *first = d->causes.count > 0 ? d->causes.items : NULL;
    int more = events(d) - 1;
    struct buf text = buf_new(d->arena);
    struct str source = say_str(d->source), kind = say_str(d->kind), read = say_str(d->read);
    struct str found = first ? named(d, first) : say_str(STR("nothing found"));
    buf_format(&text, "%.*s (%.*s%s%.*s): %.*s", STR_ARG(source), STR_ARG(kind),
               read.len ? ", " : "", STR_ARG(read), STR_ARG(found));
    if (first && says_nothing(d)) buf_format(&text, ": %.*s", STR_ARG(first->quote));
    if (more > 0)
        buf_format(&text,
                   more == 1 ? _(" (or %d less likely cause)") : _(" (or %d less likely causes)"),
                   more);
    show_prose(out, style, SHOW_STRONG, buf_str(&text), 0, 2);
    if (!first) {
        show_prose(out, style, SHOW_PLAIN, str_of(_(advice(d))), 0, 2);
        return;
    }
    struct str numbers = headline_figures(d);
    if (numbers.len > 0) show_prose(out, style, SHOW_PLAIN, numbers, 0, 2);
    if (doctor_is_of_gpu_memory(first) && d->effect.len > 0)
        show_prose(out, style, SHOW_PLAIN, d->effect, 0, 2);
    struct str command = doctor_command(d, first);
    struct str advised = command.len > 0 ? command : say_str(first->remedy);
    if (advised.len == 0) return;
    show_prose(out, style, SHOW_PLAIN,
               str_format(d->arena, _("What to do: %.*s"), STR_ARG(advised)), 0, 2);
}

void doctor_print(struct doctor *d) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(d->arena);
    add_headline(d, style, &out);
    for (ptrdiff_t i = 0, number = 0; i < d->causes.count; i++) {
        if (!is_of_earlier(d, i)) add_cause(d, i, (int)++number, style, &out);
    }
    if (d->snapshot) doctor_show_snapshot(d, style, &out);
    for (ptrdiff_t i = 0; i < d->notes.count; i++) {
        buf_add(&out, i == 0 ? STR("\n- ") : STR("- "));
        show_prose(&out, style, SHOW_PLAIN, d->notes.items[i], 2, 2);
    }
    out_buf(stdout, &out);
}

static json_t *cause_json(struct doctor *d, const struct cause *c) {
    json_t *effect = json_null();
    if (doctor_is_of_gpu_memory(c) && d->effect.len > 0) {
        effect = json_pack("{s:o, s:I, s:I, s:I}", "text", json_text(d->effect), "batch",
                           (json_int_t)d->effect_batch, "before_bytes",
                           (json_int_t)d->effect_before_bytes, "after_bytes",
                           (json_int_t)d->effect_after_bytes);
    }
    json_t *keys = json_array();
    for (struct str rest = doctor_keys(d, c); rest.len > 0;) {
        json_array_append_new(keys, json_text(str_cut(&rest, '\n')));
    }
    return json_pack("{s:s, s:s, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "id", c->id, "what",
                     c->what, "subject", json_text(c->subject), "confidence",
                     cause_confidence(c->strength), "evidence", json_text(c->evidence), "quote",
                     json_text(c->quote), "line", json_size(c->line), "remedy",
                     json_text(c->remedy), "config", keys, "effect", effect);
}

int doctor_print_json(struct doctor *d, struct fail *why) {
    json_t *causes = json_array();
    for (ptrdiff_t i = 0; i < d->causes.count; i++) {
        json_array_append_new(causes, cause_json(d, &d->causes.items[i]));
    }
    json_t *document =
        json_pack("{s:o, s:o, s:o, s:o}", "source", json_text(d->source), "kind",
                  json_text(d->kind), "causes", causes, "notes", json_texts(&d->notes));
    if (d->snapshot && json_object_set_new(document, "snapshot", doctor_snapshot_json(d)) < 0)
        return json_print(NULL, why);
    return json_print(document, why);
}
