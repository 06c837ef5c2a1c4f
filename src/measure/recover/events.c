// SPDX-License-Identifier: Apache-2.0
// The event log's fields, as tables that its writer (here) and its reader read.c share,
// and the events that a decision makes.
#include "measure/recover/recover_int.h"

#include "base/json.h"

#include <math.h>

const char *const recover_event_names[] = {"begin",  "start", "checkpoint", "end",
                                           "decide", "adapt", "finish",     NULL};
static const char *const end_words[] = {
    "unknown",       "clean", "memory",  "crash",       "killed", "device",
    "communication", "hang",  "stopped", "interrupted", NULL};
static const char *const action_words[] = {"done", "start", "give-up", NULL};
static const char *const lr_words[] = {"keep", "linear", "sqrt", NULL};

#define BIT(kind) (1u << (kind))
#define SIZED \
    (BIT(RECOVER_STARTED) | BIT(RECOVER_DECIDE) | BIT(RECOVER_ADAPT) | BIT(RECOVER_FINISH))
#define TEXT(name, member, events) \
    { name, RECOVER_FIELD_TEXT, events, offsetof(struct recover_event, member) }
#define WHOLE(name, member, events, needed, least) \
    { name, RECOVER_FIELD_WHOLE, events, offsetof(struct recover_event, member), needed, least }
#define NUMBER(name, member, events) \
    { name, RECOVER_FIELD_NUMBER, events, offsetof(struct recover_event, member) }
#define FLAG(name, member, events) \
    { name, RECOVER_FIELD_FLAG, events, offsetof(struct recover_event, member) }
#define WORD(name, member, events, words) \
    { name, RECOVER_FIELD_WORD, events, offsetof(struct recover_event, member), true, 0, words }

const struct recover_field recover_event_fields[] = {
    NUMBER("t", t_s, ~0u),
    TEXT("config", config, BIT(RECOVER_BEGIN)),
    TEXT("folder", folder, BIT(RECOVER_BEGIN)),
    WORD("action", action, BIT(RECOVER_DECIDE), action_words),
    WHOLE("attempt", attempt, BIT(RECOVER_STARTED), true, 1),
    WHOLE("batch", size.batch, SIZED, true, 1),
    WHOLE("accumulation", size.accumulation, SIZED, true, 1),
    NUMBER("lr", size.lr, SIZED),
    TEXT("checkpoint", file.path, BIT(RECOVER_STARTED) | BIT(RECOVER_CHECKPOINT)),
    TEXT("passed_over", file.path, BIT(RECOVER_DECIDE)),
    WHOLE("written", file.written,
          BIT(RECOVER_STARTED) | BIT(RECOVER_CHECKPOINT) | BIT(RECOVER_DECIDE), false, 0),
    WORD("end", end, BIT(RECOVER_END), end_words),
    TEXT("ending", ending, BIT(RECOVER_END)),
    TEXT("exception", exception, BIT(RECOVER_END)),
    WHOLE("status", status, BIT(RECOVER_END) | BIT(RECOVER_DECIDE) | BIT(RECOVER_FINISH), false, 0),
    WHOLE("steps", steps, BIT(RECOVER_END), false, 0),
    WHOLE("restarts", restarts, BIT(RECOVER_FINISH), false, 0),
    WHOLE("samples", samples,
          BIT(RECOVER_STARTED) | BIT(RECOVER_CHECKPOINT) | BIT(RECOVER_END) | BIT(RECOVER_FINISH),
          false, 0),
    WHOLE("peak_bytes", peak_bytes, BIT(RECOVER_CHECKPOINT) | BIT(RECOVER_END) | BIT(RECOVER_ADAPT),
          false, 0),
    NUMBER("delay_s", delay_s, BIT(RECOVER_DECIDE)),
    FLAG("counted", is_counted, BIT(RECOVER_DECIDE)),
    FLAG("taken", is_taken, BIT(RECOVER_ADAPT)),
    TEXT("why", why, BIT(RECOVER_DECIDE) | BIT(RECOVER_ADAPT)),
    {0},
};

#define RULE(name, kind, needed, least) \
    { #name, kind, 0, offsetof(struct recover_rules, name), needed, least }
const struct recover_field recover_rule_fields[] = {
    RULE(batch, RECOVER_FIELD_WHOLE, true, 1),
    RULE(accumulation, RECOVER_FIELD_WHOLE, true, 1),
    RULE(ranks, RECOVER_FIELD_WHOLE, true, 1),
    RULE(least_batch, RECOVER_FIELD_WHOLE, true, 1),
    RULE(recover, RECOVER_FIELD_FLAG, false, 0),
    RULE(can_accumulate, RECOVER_FIELD_FLAG, false, 0),
    {"lr_rule", RECOVER_FIELD_WORD, 0, offsetof(struct recover_rules, lr_rule), true, 0, lr_words},
    RULE(lr, RECOVER_FIELD_NUMBER, false, 0),
    RULE(max_restarts, RECOVER_FIELD_WHOLE, true, 0),
    RULE(backoff_s, RECOVER_FIELD_NUMBER, true, 0),
    RULE(most_backoff_s, RECOVER_FIELD_NUMBER, true, 0),
    RULE(from_scratch, RECOVER_FIELD_FLAG, false, 0),
    RULE(resumes_itself, RECOVER_FIELD_FLAG, false, 0),
    RULE(capacity_bytes, RECOVER_FIELD_WHOLE, false, 0),
    RULE(near_share, RECOVER_FIELD_NUMBER, true, 0),
    RULE(adaptive, RECOVER_FIELD_FLAG, false, 0),
    RULE(initial_batch, RECOVER_FIELD_WHOLE, true, 0),
    RULE(most_batch, RECOVER_FIELD_WHOLE, true, 0),
    RULE(threshold, RECOVER_FIELD_NUMBER, true, 0),
    RULE(factor, RECOVER_FIELD_NUMBER, true, 0),
    {0},
};

struct recover_event recover_event_of(enum recover_event_kind kind) {
    return (struct recover_event){.kind = kind,
                                  .t_s = NAN,
                                  .rules = recover_rules_default(),
                                  .attempt = -1,
                                  .samples = -1,
                                  .steps = -1,
                                  .status = -1,
                                  .restarts = -1,
                                  .peak_bytes = -1,
                                  .size = {-1, -1, NAN},
                                  .file = {.written = -1},
                                  .delay_s = NAN};
}

struct recover_event recover_started(const struct recover_state *state,
                                     const struct recover_decision *decision) {
    struct recover_event e = recover_event_of(RECOVER_STARTED);
    e.attempt = state->attempt + 1;
    e.size = decision->size;
    e.file = decision->checkpoint;
    e.samples = decision->samples;
    return e;
}

struct recover_event recover_decided(const struct recover_decision *decision) {
    struct recover_event e = recover_event_of(RECOVER_DECIDE);
    e.action = decision->action;
    e.size = decision->size;
    e.delay_s = decision->delay_s;
    e.file = decision->passed_over;
    e.is_counted = decision->is_counted;
    e.status = decision->status;
    e.why = decision->why;
    return e;
}

struct recover_event recover_finished(const struct recover_state *state,
                                      const struct recover_decision *decision) {
    struct recover_event e = recover_event_of(RECOVER_FINISH);
    e.status = decision->status;
    e.restarts = state->restarts;
    e.size = state->size;
    e.samples = state->samples;
    return e;
}

// --- Writing -------------------------------------------------------------------------------------

// NULL: not known, so it is not written.
static json_t *value_json(const struct recover_field *f, const void *base) {
    const void *at = (const char *)base + f->offset;
    if (f->type == RECOVER_FIELD_TEXT) {
        struct str text = *(const struct str *)at;
        return text.len > 0 ? json_text(text) : NULL;
    }
    if (f->type == RECOVER_FIELD_WHOLE) {
        int64_t value = *(const int64_t *)at;
        return value >= f->least ? json_integer(value) : NULL;
    }
    if (f->type == RECOVER_FIELD_NUMBER) {
        double value = *(const double *)at;
        return isnan(value) || isinf(value) ? NULL : json_real(value);
    }
    if (f->type == RECOVER_FIELD_FLAG) return json_boolean(*(const bool *)at);
    return json_string(f->words[*(const unsigned *)at]);
}

static void put_fields(json_t *object, const struct recover_field *fields, unsigned event,
                       const void *base) {
    for (const struct recover_field *f = fields; f->name; f++) {
        if (event != 0 && (f->events & event) == 0) continue;
        json_t *value = value_json(f, base);
        if (value) json_object_set_new(object, f->name, value);
    }
}

static json_t *words_json(const struct str_list *words) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < words->count; i++)
        json_array_append_new(list, words->items[i].len > 0 ? json_text(words->items[i])
                                                            : json_string(""));
    return list;
}

struct str recover_event_line(struct arena *a, const struct recover_event *event) {
    json_t *object = json_pack("{siss}", "v", 1, "event", recover_event_names[event->kind]);
    put_fields(object, recover_event_fields, BIT(event->kind), event);
    if (event->kind == RECOVER_BEGIN) {
        json_t *rules = json_object();
        put_fields(rules, recover_rule_fields, 0, &event->rules);
        json_object_set_new(object, "rules", rules);
        json_object_set_new(object, "command", words_json(&event->command));
    }
    struct str text = json_take(a, object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    return str_format(a, "%.*s\n", STR_ARG(text.len > 0 ? text : STR("{}")));
}
