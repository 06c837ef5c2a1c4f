// SPDX-License-Identifier: Apache-2.0
// The reader of the event log. It was written by us, line by line, and each line was on the disk
// before anything came of it: so a last line without its end is dropped, and any other fault is
// refused with its number, because a decision built on a guess could cost a training.
#include "measure/recover/recover_int.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { VERSION = 1 };
static const int64_t whole_max = INT64_C(1) << 62;

static struct str text_of(struct arena *a, const json_t *value) {
    return str_copy(a,
                    (struct str){json_string_value(value), (ptrdiff_t)json_string_length(value)});
}

static int find_word(const char *const *words, const json_t *value) {
    for (int i = 0; json_is_string(value) && words[i]; i++) {
        if (strcmp(words[i], json_string_value(value)) == 0) return i;
    }
    return -1;
}

static bool read_whole(const struct recover_field *f, const json_t *value, int64_t *ret) {
    int64_t whole = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
    if (whole < f->least || whole > whole_max) return false;
    *ret = whole;
    return true;
}

// False: of the wrong type, or out of its range.
static bool read_value(struct arena *a, const struct recover_field *f, const json_t *value,
                       void *at) {
    if (f->type == RECOVER_FIELD_TEXT) {
        if (!json_is_string(value)) return false;
        *(struct str *)at = text_of(a, value);
        return true;
    }
    if (f->type == RECOVER_FIELD_WHOLE) return read_whole(f, value, at);
    if (f->type == RECOVER_FIELD_NUMBER) {
        if (!json_is_number(value)) return false;
        *(double *)at = json_number_value(value);
        return true;
    }
    if (f->type == RECOVER_FIELD_FLAG) {
        if (!json_is_boolean(value)) return false;
        *(bool *)at = json_is_true(value);
        return true;
    }
    int word = find_word(f->words, value);
    if (word >= 0) *(unsigned *)at = (unsigned)word;
    return word >= 0;
}

// The name of the field that is wrong or missing; NULL: all are good.
static const char *read_fields(struct arena *a, const json_t *object,
                               const struct recover_field *fields, unsigned event, void *base) {
    for (const struct recover_field *f = fields; f->name; f++) {
        if (event != 0 && (f->events & event) == 0) continue;
        const json_t *value = json_object_get(object, f->name);
        bool is_there = value && !json_is_null(value);
        if (!is_there && f->is_needed) return f->name;
        if (is_there && !read_value(a, f, value, (char *)base + f->offset)) return f->name;
    }
    return NULL;
}

static const char *read_begin(struct arena *a, const json_t *object, struct recover_event *event) {
    const json_t *rules = json_object_get(object, "rules"),
                 *command = json_object_get(object, "command");
    if (!json_is_object(rules)) return "rules";
    const char *wrong = read_fields(a, rules, recover_rule_fields, 0, &event->rules);
    if (wrong) return wrong;
    if (!json_is_array(command)) return "command";
    for (size_t i = 0; i < json_array_size(command); i++) {
        const json_t *word = json_array_get(command, i);
        if (!json_is_string(word)) return "command";
        str_list_add(a, &event->command, text_of(a, word));
    }
    return recover_check(&event->rules, NULL) < 0 ? "rules" : NULL;
}

static int read_event(struct arena *a, const json_t *object, struct recover_event *ret_event,
                      struct fail *why) {
    const json_t *version = json_object_get(object, "v");
    if (!json_is_integer(version)) return fail_set(why, FAIL_INPUT, "not an event of a run");
    if (json_integer_value(version) != VERSION) {
        fail_set(why, FAIL_INPUT, "log version %lld; this batchfit supports up to %d",
                 (long long)json_integer_value(version), VERSION);
        return fail_hint(why,
                         "continue with the batchfit that wrote it, or start over with --fresh");
    }
    int kind = find_word(recover_event_names, json_object_get(object, "event"));
    if (kind < 0) return fail_set(why, FAIL_INPUT, "unknown event");
    *ret_event = recover_event_of((enum recover_event_kind)kind);
    const char *wrong = read_fields(a, object, recover_event_fields, 1u << kind, ret_event);
    if (!wrong && kind == RECOVER_BEGIN) wrong = read_begin(a, object, ret_event);
    if (wrong)
        return fail_set(why, FAIL_INPUT, "event %s: %s is missing or wrong",
                        recover_event_names[kind], wrong);
    return 0;
}

static int read_line(struct arena *a, struct str line, struct recover_event *ret_event,
                     struct fail *why) {
    json_error_t error;
    json_t *object = json_loadb(line.p, (size_t)line.len, JSON_REJECT_DUPLICATES, &error);
    int rc = 0;
    if (!json_is_object(object)) {
        rc = fail_set(why, FAIL_INPUT, "not a JSON object%s%s", object ? "" : ": ",
                      object ? "" : error.text);
    } else {
        rc = read_event(a, object, ret_event, why);
    }
    json_decref(object);
    return rc;
}

static int check_order(const struct recover_log *log, const struct recover_event *e,
                       struct fail *why) {
    if ((e->kind == RECOVER_BEGIN) == (log->count == 0)) return 0;
    return fail_set(why, FAIL_INPUT,
                    log->count == 0 ? "the log does not begin with `begin`" : "a second `begin`");
}

static int check_size(const struct recover_log *log, const struct recover_event *e,
                      struct fail *why) {
    if (log->count == 0 || e->size.batch < 0 || recover_size_fits(&log->events[0].rules, e->size))
        return 0;
    return fail_set(
        why, FAIL_INPUT, "event %s: batch %lld x %lld does not give the effective batch",
        recover_event_names[e->kind], (long long)e->size.batch, (long long)e->size.accumulation);
}

static int read_next(struct arena *a, struct recover_log *log, struct str line, struct fail *why) {
    struct recover_event event;
    int rc = log->is_finished ? fail_set(why, FAIL_INPUT, "an event after `finish`")
                              : read_line(a, line, &event, why);
    if (rc == 0) rc = check_order(log, &event, why);
    if (rc == 0) rc = check_size(log, &event, why);
    if (rc < 0) return rc;
    *arena_push(a, &log->events, &log->count, &log->capacity) = event;
    log->is_finished = event.kind == RECOVER_FINISH;
    return 0;
}

int recover_log_read(struct arena *a, struct str text, struct recover_log *ret_log,
                     struct fail *why) {
    int64_t number = 0;
    *ret_log = (struct recover_log){0};
    while (text.len > 0) {
        const char *end = memchr(text.p, '\n', (size_t)text.len);
        if (!end) {
            ret_log->is_torn = true;
            return 0;
        }
        struct str line = str_slice(text, 0, end - text.p);
        text = str_slice(text, line.len + 1, text.len);
        number++;
        if (read_next(a, ret_log, line, why) < 0) {
            fail_wrap(why, "line %lld", (long long)number);
            return why ? why->code : FAIL_INPUT;
        }
        ret_log->whole_bytes += line.len + 1;
    }
    return 0;
}
