// SPDX-License-Identifier: Apache-2.0
#include "job/answer/write.h"

#include "job/answer/eval.h"

// Only what the answer changed is wished for; what the command line said to this run alone
// (--img-size, --precision) stays out of the file.
static struct config_change change_of(const struct question *q, const struct answer *answer,
                                      unsigned flags) {
    const struct plan *p = &answer->plan;
    struct config_change change = {.batch = p->batch, .ranks = p->ranks, .flags = flags};
    const struct answer_eval *eval = answer->eval;
    if (eval && eval->fits && eval->has_key) change.eval_batch = eval->batch;
    if (!p->inference) change.accumulation = p->accumulation;
    bool is_inferences = p->inference && q->reading.values[CONFIG_PRECISION].line > 0;
    if (p->precision != q->plan.precision && (!p->inference || is_inferences)) {
        change.precision = str_of(plan_precision_name(p->precision));
    }
    return change;
}

static void report_lines(struct buf *report, const struct str_list *lines) {
    for (ptrdiff_t i = 0; i < lines->count; i++) {
        buf_format(report, "%.*s\n", STR_ARG(lines->items[i]));
    }
}

int answer_write_file(struct arena *a, const char *path, struct str text,
                      const struct os_stamp *stamp, struct buf *report, struct fail *why) {
    struct os_updated done;
    int rc = os_update(a, path, text, stamp, &done, why);
    if (rc < 0) return rc;
    if (done.backup.len > 0) buf_format(report, "backup: %.*s\n", STR_ARG(done.backup));
    report_lines(report, &done.notes);
    return 0;
}

// Where the file cannot be edited, the user is told what to type.
static int advise(struct question *q, const struct config_change *change, const struct fail *why,
                  struct buf *report) {
    struct str advice = config_advice(q->arena, &q->reading, change);
    if (advice.len > 0) {
        buf_add(report, STR("set it yourself:\n"));
        buf_add(report, advice); // a line each
        buf_byte(report, '\n');
    }
    return why->code;
}

static int patch(struct question *q, const struct config_change *change,
                 const struct config_edits *more, struct config_patched *ret_patched,
                 struct fail *why) {
    struct config_edits edits = {0};
    int rc = config_fit(q->arena, &q->config, &q->reading, change, &edits, why);
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < more->count; i++) {
        config_edits_add(q->arena, &edits, more->items[i]);
    }
    return config_patch(q->arena, &q->config, edits.items, edits.count, change->flags, ret_patched,
                        why);
}

bool answer_write_is_refused(const struct question *q, bool force, struct buf *report) {
    struct str what = question_not_modelled(q);
    if (what.len == 0) return false;
    if (force)
        buf_format(report, "forced: this does not count %.*s\n", STR_ARG(what));
    else
        buf_add(report, STR("not written: the config has settings that are not counted; --force "
                            "writes it anyway\n"));
    return !force;
}

// *report says why there is nothing to write to.
static void say_no_key(const struct question *q, struct buf *report) {
    const struct config_value *batch = &q->reading.values[CONFIG_BATCH];
    if (batch->line <= 0) {
        buf_add(report, STR("not written: the config has no inference batch; name its key with "
                            "--key batch=PATH\n"));
        return;
    }
    buf_format(report,
               "not written: %.*s is the training batch, and the config has none for inference; "
               "name its key with --key batch=PATH\n",
               STR_ARG(batch->path));
}

int answer_write(struct question *q, struct answer *answer,
                 const struct answer_write_options *options, struct buf *report, struct fail *why) {
    struct config_change change = change_of(q, answer, options->flags);
    struct config_patched patched;
    if (q->batch_is_trainings) {
        say_no_key(q, report);
        return 0;
    }
    if (!options->is_measured && answer_write_is_refused(q, options->force, report)) return FAIL_NO;
    int rc = patch(q, &change, &options->more, &patched, why);
    if (rc < 0 && change.precision.len > 0) {
        // A file without a word for the precision still gets its batch.
        struct str precision = change.precision;
        change.precision = (struct str){0};
        rc = patch(q, &change, &options->more, &patched, why);
        buf_format(report, "the file has no key for precision: train with precision %.*s\n",
                   STR_ARG(precision));
    }
    if (rc < 0) return advise(q, &change, why, report);
    const char *path = options->save_config ? options->save_config : str_z(q->arena, q->path);
    if (patched.changed || options->save_config) {
        const struct os_stamp *stamp = options->save_config ? NULL : &q->stamp;
        rc = answer_write_file(q->arena, path, patched.text, stamp, report, why);
        if (rc < 0) return rc;
        answer->config_written = true;
    }
    report_lines(report, &patched.changes);
    report_lines(report, &patched.notes);
    if (!patched.changed)
        buf_format(report, "%s: nothing to change\n", str_z(q->arena, q->path));
    else
        buf_format(report, "written: %s\n", path);
    return 0;
}
