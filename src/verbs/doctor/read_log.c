// SPDX-License-Identifier: Apache-2.0
// A training's output as doctor reads it: how it ended, where, and the times of its progress bars.
#include "stats/stats.h"
#include "verbs/doctor/doctor.h"

#include <string.h>

void doctor_take_ending(struct doctor *d, const struct failure *e, int64_t line) {
    struct cause_ending *c = &d->facts.ending;
    const struct failure_numbers *n = &e->numbers;
    if (e->signature->kind == FAILURE_CLEAN) return;
    c->signature = e->signature->id;
    c->what = e->signature->what;
    c->hint = e->signature->hint;
    c->subject = e->subject;
    c->line = e->line;
    c->line_number = line;
    c->tried_bytes = n->tried_bytes;
    c->total_bytes = n->total_bytes;
    c->free_bytes = n->free_bytes;
    c->in_use_bytes = n->in_use_bytes;
    c->allocated_bytes = n->allocated_bytes;
    c->unallocated_bytes = n->unallocated_bytes;
    c->is_fragmented = e->cause == FAILURE_CAUSE_FRAGMENTATION;
    c->by_others = e->cause == FAILURE_CAUSE_OTHERS;
    c->is_spilled = e->cause == FAILURE_CAUSE_SPILL;
}

int doctor_reading_log_bytes(struct doctor_reading *r, struct str bytes, struct fail *why) {
    (void)why;
    logread_feed(&r->log, bytes);
    return 0;
}

static void take_place(struct doctor_reading *r) {
    const struct logread *j = &r->log;
    struct cause_ending *e = &r->d->facts.ending;
    e->steps = logread_steps(j);
    if (j->traceback.line > 0 || j->place_is_validation) {
        e->place = CAUSE_IN_VALIDATION;
        e->place_line = str_of(j->traceback.line > 0 ? j->traceback.text : j->place.text);
    } else if (j->place_is_last_batch && !(j->place_is_done && j->place.line > e->line_number)) {
        e->place = CAUSE_IN_LAST_BATCH;
        e->place_line = str_of(j->place.text);
    }
}

// What has no end that explains it may be slow for want of its GPU.
static void take_on_cpu(struct doctor_reading *r) {
    const struct failure_signature *row = logread_on_cpu(&r->log);
    struct failure ending = {.signature = row, .line = str_of(r->log.on_cpu.text)};
    ending.numbers = (struct failure_numbers){-1, -1, -1, -1, -1, -1, -1, -1};
    if (row) doctor_take_ending(r->d, &ending, r->log.on_cpu.line);
}

// What is told of another rank counts, whatever was printed after it.
static bool is_of_others(const struct failure *e) {
    return e->signature->kind == FAILURE_COMMUNICATION &&
           strcmp(e->signature->id, "port-in-use") != 0;
}

// Errors besides the one that is named as the cause.
static void note_errors(struct doctor_reading *r, const struct failure *e) {
    struct doctor *d = r->d;
    const long long handled = logread_number_of(&r->log, e->handled),
                    later = logread_number_of(&r->log, e->later);
    if (handled > 0)
        str_list_format(d->arena, &d->notes,
                        "the error of line %lld was handled and is not what ended it: %.*s",
                        handled, STR_ARG(str_trim(e->handled)));
    if (later > 0)
        str_list_format(d->arena, &d->notes,
                        "the error of line %lld came after it and may be what ended it: %.*s",
                        later, STR_ARG(str_trim(e->later)));
}

int doctor_reading_log_end(struct doctor_reading *r, struct fail *why) {
    (void)why;
    struct logread *j = &r->log;
    struct cause_facts *f = &r->d->facts;
    struct failure ending;
    int64_t line;
    logread_end(j, &ending, &line);
    if (logread_went_on(j, line) && !is_of_others(&ending)) {
        if (line != j->on_cpu.line)
            str_list_format(r->d->arena, &r->d->notes,
                            "the training continued after line %lld: %.*s", (long long)line,
                            STR_ARG(str_trim(ending.line)));
        logread_end_later(j, &ending, &line);
    }
    doctor_take_ending(r->d, &ending, line);
    note_errors(r, &ending);
    f->ending.is_doubtful =
        ending.later.len > 0 || (!is_of_others(&ending) && logread_may_have_gone_on(j, line));
    if (!f->ending.signature) take_on_cpu(r);
    take_place(r);
    const struct logread_bar *b = logread_training(j);
    if (b && !logread_is_elapsed(b)) {
        f->times_ms = b->times_ms;
        f->times_at = b->lines;
        f->time_count = b->count;
        f->at_is_line = true;
    }
    f->nan_line = j->nan.line;
    f->nan_count = j->nan_count;
    f->nan_text = str_of(j->nan.text);
    f->loss_recovered = j->loss_recovered;
    f->flush_line = j->flushes.line;
    f->flush_count = j->flush_count;
    f->flush_text = str_of(j->flushes.text);
    if (logread_scale_is_gone(j)) {
        f->scale_line = j->scale.line;
        f->scale_text = str_of(j->scale.text);
    }
    if (j->io_count > 0) {
        f->phases.io_ms = stats_median(j->io_ms, j->io_count);
        f->phases.total_ms = stats_median(j->io_total_ms, j->io_count);
        f->phase_steps = j->io_count;
    }
    int64_t card = j->card_bytes > 0 ? j->card_bytes : r->d->options->gpu_memory;
    if (card > 0) f->memory_share = j->memory_gib * 1e9 / (double)card; // it prints 10^9 bytes
    int64_t lines = j->line - (j->bytes > 0);
    r->d->read = str_format(r->d->arena, "%lld line%s", (long long)lines, lines == 1 ? "" : "s");
    return 0;
}
