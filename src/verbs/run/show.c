// SPDX-License-Identifier: Apache-2.0
// What a run says: a line for each decision and a closing one on standard error, and one document
// with --json.
#include "verbs/run/run.h"

#include "base/json.h"
#include "base/out.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void run_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    out_say(stderr, "batchfit run: ");
    out_say_list(stderr, format, list);
    out_say(stderr, "\n");
    va_end(list);
}

// A command that starts its ranks itself says how many only when it runs.
static int64_t ranks_of(const struct run *r) {
    return r->ranks_seen > r->rules.ranks ? r->ranks_seen : r->rules.ranks;
}

struct str run_size_text(const struct run *r, struct recover_size size) {
    struct buf b = buf_new(r->arena);
    buf_format(&b, "batch %lld x %lld", (long long)size.batch, (long long)size.accumulation);
    if (ranks_of(r) > 1) buf_format(&b, " x %lld ranks", (long long)ranks_of(r));
    return buf_str(&b);
}

struct recover_size run_size_last(const struct run *r) {
    if (r->has_batch && !r->is_one_micro_batch) return r->state.size;
    return r->row_count > 0 ? r->rows[r->row_count - 1].size : (struct recover_size){0};
}

static int64_t effective(const struct run *r, struct recover_size size) {
    return size.batch * size.accumulation * ranks_of(r);
}

static struct str samples_text(struct arena *a, int64_t samples) {
    return samples >= 0 ? str_format(a, "%lld", (long long)samples) : STR("unknown");
}

// Standard error may be a pipe that is read line by line: one line, one write.
void run_say_decision(struct run *r, const struct recover_decision *d) {
    struct buf b = buf_new(r->arena);
    if (r->state.attempt == 0 && d->action == RECOVER_START && d->checkpoint.path.len == 0) return;
    if (d->action == RECOVER_DONE && d->hint.len == 0) return;
    buf_add(&b, d->why);
    if (d->action == RECOVER_START) {
        if (d->checkpoint.path.len > 0) {
            buf_format(&b, "; from %.*s", STR_ARG(d->checkpoint.path));
            if (d->samples >= 0) buf_format(&b, " (%lld samples)", (long long)d->samples);
        } else if (!r->rules.resumes_itself) {
            buf_add(&b, STR("; from scratch"));
        }
        if (d->delay_s > 0) buf_format(&b, "; in %.3g s", d->delay_s);
    }
    run_say("%.*s%s", STR_ARG(buf_str(&b)), d->action == RECOVER_GIVE_UP ? "; giving up" : "");
    if (d->hint.len > 0) run_say("%.*s", STR_ARG(d->hint));
}

void run_say_resuming(struct run *r) {
    struct launch_values values = run_values(r, r->state.size, STR("CHECKPOINT"));
    struct str text = {0};
    if (!r->rules.recover || r->state.phase != RECOVER_FRESH || r->rules.resumes_itself) return;
    if (!r->takes_checkpoint) {
        struct str words = run_resume_words(r->arena, r->o->base.command);
        run_say("the command takes no {resume}, so a restart begins at 0; %.*s", STR_ARG(words));
    } else if (launch_preview(&r->launch, &values, &text, NULL) == 0) {
        run_say("once it has saved a checkpoint, a restart is: %.*s", STR_ARG(text));
    }
}

void run_say_end(struct run *r, int status) {
    const struct recover_state *s = &r->state;
    struct buf b = buf_new(r->arena);
    buf_format(&b, "%lld restart%s, ", (long long)s->restarts, s->restarts == 1 ? "" : "s");
    struct recover_size size = run_size_last(r);
    if (size.batch > 0) {
        buf_format(&b, "%.*s (effective %lld", STR_ARG(run_size_text(r, size)),
                   (long long)effective(r, size));
        if (r->is_one_micro_batch) {
            buf_format(&b, ", not %lld: it does not accumulate", (long long)effective(r, s->size));
        }
        buf_add(&b, STR("), "));
    }
    // Who is killed cannot tell of its last steps.
    bool is_least = s->phase == RECOVER_FINISHED && s->status > 128 && s->samples > 0;
    buf_format(&b, "samples seen: %s%.*s", is_least ? "at least " : "",
               STR_ARG(samples_text(r->arena, s->samples)));
    if (r->is_standin) buf_add(&b, STR("; FAKE: the command plays a scenario"));
    bool is_stopped = s->phase != RECOVER_FINISHED && r->rules.recover;
    if (is_stopped) buf_add(&b, STR("; stopped: the same command continues"));
    if (status != 0) buf_format(&b, "; exit status %d", status);
    run_say("%.*s", STR_ARG(buf_str(&b)));
}

static json_t *known_size(struct recover_size size, int64_t value) {
    return size.batch > 0 ? json_integer(value) : json_null();
}

static json_t *resumed(const struct run_row *row) {
    return row->resumes == RUN_RESUMES_UNKNOWN ? json_null()
                                               : json_boolean(row->resumes == RUN_RESUMED);
}

static json_t *attempts(const struct run *r) {
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < r->row_count; i++) {
        const struct run_row *row = &r->rows[i];
        json_array_append_new(
            list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "batch",
                            known_size(row->size, row->size.batch), "accumulation",
                            known_size(row->size, row->size.accumulation), "lr",
                            json_number(row->size.lr), "checkpoint", json_text(row->checkpoint),
                            "resumed", resumed(row), "ending", json_text(row->ending), "samples",
                            json_count(row->samples), "peak_bytes", json_size(row->peak_bytes),
                            "seconds", json_number(row->seconds)));
    }
    return list;
}

int run_print(struct run *r, int status, struct fail *why) {
    const struct recover_state *s = &r->state;
    const struct recover_size size = run_size_last(r);
    json_t *document =
        json_pack("{s:i,s:i,s:o,s:o,s:o,s:i,s:o,s:o,s:o,s:b,s:o,s:o}", "status", status, "restarts",
                  (int)s->restarts, "batch", known_size(size, size.batch), "accumulation",
                  known_size(size, size.accumulation), "effective_batch",
                  known_size(size, effective(r, size)), "ranks", (int)ranks_of(r), "samples",
                  json_count(s->samples), "ending", json_text(s->ending), "why", json_text(s->why),
                  "standin", r->is_standin, "attempts", attempts(r), "log", json_text(r->log.path));
    return json_print(document, why);
}

// --- Without starting anything -------------------------------------------------------------------

// One that would be started, and when.
struct planned {
    const char *when;
    struct recover_size size;
    struct str text;
};
struct planned_list {
    struct planned *items;
    ptrdiff_t count, capacity;
};

static int add_command(struct run *r, struct planned_list *list, const char *when,
                       struct recover_size size, struct str checkpoint, struct fail *why) {
    struct launch_values values = run_values(r, size, checkpoint);
    struct planned *p = arena_push(r->arena, &list->items, &list->count, &list->capacity);
    *p = (struct planned){.when = when, .size = size};
    return launch_preview(&r->launch, &values, &p->text, why);
}

static int plan_all(struct run *r, struct planned_list *list, struct fail *why) {
    const struct recover_rules *rules = &r->rules;
    struct recover_size size = recover_size_first(rules);
    int rc = add_command(r, list, "First", size, (struct str){0}, why);
    struct str checkpoint = r->takes_checkpoint ? STR("CHECKPOINT") : (struct str){0};
    const char *when = "When memory runs out";
    if (rc == 0 && rules->recover && r->takes_checkpoint) {
        rc = add_command(r, list, "Again, from its newest checkpoint", size, checkpoint, why);
    }
    while (rc == 0 && rules->recover && r->takes_batch) {
        int64_t batch = recover_batch_below(rules, size.batch / 2);
        if (batch == 0) break;
        size = recover_size_of(rules, batch);
        rc = add_command(r, list, when, size, checkpoint, why);
        when = "Then";
    }
    return rc;
}

static int print_planned(const struct run *r, const struct planned_list *list, struct fail *why) {
    json_t *all = json_array();
    for (ptrdiff_t i = 0; i < list->count; i++) {
        const struct planned *p = &list->items[i];
        const struct recover_size known = r->has_batch ? p->size : (struct recover_size){0};
        json_array_append_new(all, json_pack("{s:s,s:o,s:o,s:o}", "when", p->when, "batch",
                                             known_size(known, known.batch), "accumulation",
                                             known_size(known, known.accumulation), "command",
                                             json_text(p->text)));
    }
    return json_print(json_pack("{s:b,s:o}", "dry_run", true, "commands", all), why);
}

int run_dry(struct run *r, struct fail *why) {
    struct planned_list list = {0};
    const bool recovers = r->rules.recover;
    int rc = plan_all(r, &list, why);
    if (rc < 0 || r->o->base.json) return rc < 0 ? rc : print_planned(r, &list, why);
    struct buf out = buf_shown(r->arena);
    for (ptrdiff_t i = 0; i < list.count; i++) {
        const struct planned *p = &list.items[i];
        buf_format(&out, "%s", p->when);
        if (r->has_batch) buf_format(&out, " (%.*s)", STR_ARG(run_size_text(r, p->size)));
        buf_format(&out, ":\n    %.*s\n", STR_ARG(p->text));
    }
    buf_add(&out, !recovers ? STR("Any failure is final (use --recover to continue).\n")
                  : r->takes_batch && list.items[list.count - 1].size.batch > 0
                      ? STR("Below that: give up.\n")
                      : STR("When memory runs out: give up, as the command takes no {batch}.\n"));
    out_buf(stdout, &out);
    return 0;
}
