// SPDX-License-Identifier: Apache-2.0
// What is said where no setting ran.
#include "job/grid/grid.h"

static const struct grid_row *first_with(const struct grid *b, int status) {
    for (ptrdiff_t i = 0; i < b->rows.count; i++) {
        if (b->rows.items[i].status == status) return &b->rows.items[i];
    }
    return NULL;
}

static int nothing_fits(struct grid *b, const struct grid_row *r) {
    int64_t batch = r->setting.batch;
    struct str what =
        batch > 0 ? str_format(b->arena, "batch %lld", (long long)batch) : STR("the command");
    b->reason = str_format(b->arena, "%.*s does not fit: %.*s", STR_ARG(what),
                           STR_ARG(r->reason.len > 0 ? r->reason : STR("memory ran out")));
    if (batch > 1) {
        grid_note(b, STR("no smaller batch was tried: give smaller --batch-sizes"));
    } else {
        grid_note(b, STR("what helps: a smaller model or image, gradient checkpointing, mixed "
                         "precision, a GPU with more memory (batchfit explain)"));
    }
    return FAIL_NO;
}

// As much of the end of the command's output as an error's hint has room for.
static struct str last_lines(struct arena *a, struct str text) {
    enum { ROOM = 380 };
    struct buf b = buf_new(a);
    text = str_trim(text);
    while (text.len > ROOM && str_find(text, STR("\n")) >= 0) str_line(&text);
    if (text.len > ROOM) text = str_slice(text, 0, ROOM);
    if (text.len > 0) buf_add(&b, STR("last lines of its output:"));
    while (text.len > 0) {
        struct str line = str_line(&text);
        buf_format(&b, "\n    %.*s", STR_ARG(line));
    }
    return buf_str(&b);
}

int bench_verdict(struct grid *b, struct fail *why) {
    const struct grid_row *out = first_with(b, LAUNCH_OOM), *failed = first_with(b, LAUNCH_FAILED);
    if (first_with(b, GRID_DIFFERS)) {
        if (b->best.throughput < 0) b->reason = STR("no engine matches the reference's outputs");
        return FAIL_NO;
    }
    if (b->best.throughput >= 0) return 0;
    if (out) return nothing_fits(b, out);
    if (!failed) failed = first_with(b, GRID_ABSENT);
    if (!failed) {
        b->reason = STR("nothing was measured");
        return FAIL_NO;
    }
    b->reason = failed->reason;
    fail_set(why, failed->input_is_bad ? FAIL_INPUT : FAIL_MACHINE, "no setting ran: %.*s",
             STR_ARG(failed->reason));
    struct str last = last_lines(b->arena, failed->last_lines);
    if (failed->hint.len + last.len > 0) {
        const char *between = failed->hint.len > 0 && last.len > 0 ? "\n  " : "";
        fail_hint_lines(
            why, str_format(b->arena, "%.*s%s%.*s", STR_ARG(failed->hint), between, STR_ARG(last)));
    }
    return why->code;
}
