// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/out.h"
#include "job/answer/answer_int.h"

#include <math.h>

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

// What the user can do where no key would keep the effective batch.
static void say_without(const struct config_change *change, int64_t before, struct buf *report) {
    int64_t after = change->batch * (change->ranks > 0 ? change->ranks : 1);
    double times = (double)after / (double)before;
    if (before <= 0 || after == before) return;
    buf_format(report,
               "without accumulation a step has %lld samples instead of %lld: --free-batch writes "
               "the largest batch alone; scale the learning rate then (x %.3g for SGD, x %.3g for "
               "Adam)\n",
               (long long)after, (long long)before, times, sqrt(times));
}

// A key for accumulation that nobody reads would shrink the effective batch without a word.
static int check_is_read(const struct question *q, const struct config_change *change,
                         struct config_edit *edit, struct buf *report) {
    struct arena *a = q->arena;
    struct answer_project code = answer_project_look(a, q->path, edit->path, STR("accum"));
    if (code.reads == ANSWER_READS) edit->note = (struct str){0};
    if (code.reads == ANSWER_READS_UNKNOWN && code.files == 0) {
        edit->note = str_format(a, "%.*s; there is no Python file next to the config to check",
                                STR_ARG(edit->note));
    }
    if (code.reads != ANSWER_READS_NOT) return 0;
    buf_format(report, "not written: no code around %.*s reads %.*s (%d Python file%s looked at)",
               STR_ARG(q->path), STR_ARG(edit->path), code.files, code.files == 1 ? "" : "s");
    if (code.other.len > 0) {
        buf_format(report, "; it has %.*s: --key accumulation=PATH names its key",
                   STR_ARG(code.other));
    }
    buf_add(report, STR("; --add-accumulation writes it anyway\n"));
    say_without(change, q->batches.effective, report);
    return FAIL_NO;
}

static int patch(struct question *q, const struct config_change *change,
                 const struct answer_write_options *options, struct config_patched *ret_patched,
                 struct buf *report, struct fail *why) {
    struct config_edits edits = {0};
    int rc = config_fit(q->arena, &q->config, &q->reading, change, &edits, why);
    for (ptrdiff_t i = 0; i < edits.count && rc == 0; i++) {
        if (!edits.items[i].is_unsure || options->add_accumulation) continue;
        rc = check_is_read(q, change, &edits.items[i], report);
    }
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < options->more.count; i++) {
        config_edits_add(q->arena, &edits, options->more.items[i]);
    }
    return config_patch(q->arena, &q->config, edits.items, edits.count, change->flags, ret_patched,
                        why);
}

// A file without a word for the precision still gets its batch.
static int patch_at_least(struct question *q, const struct config_change *change,
                          const struct answer_write_options *options, struct config_patched *ret,
                          struct buf *report, struct fail *why) {
    struct config_change rest = *change;
    struct fail refused = {0}; // forgotten where the rest can be written
    const bool has_precision = change->precision.len > 0;
    int rc = patch(q, change, options, ret, report, has_precision ? &refused : why);
    if (rc == 0 || rc == FAIL_NO || !has_precision) return rc;
    rest.precision = (struct str){0};
    rc = patch(q, &rest, options, ret, report, why);
    if (rc == 0)
        buf_format(report, "the file has no key for precision: train with precision %.*s\n",
                   STR_ARG(change->precision));
    return rc;
}

bool answer_write_is_refused(const struct question *q, bool force, struct buf *report) {
    struct str what = question_not_modelled(q);
    if (what.len == 0) return false;
    if (force)
        buf_format(report, "forced: this does not count %.*s\n", STR_ARG(what));
    else
        buf_add(report, STR("not written: the config has settings that are not counted; --force "
                            "writes anyway\n"));
    return !force;
}

bool answer_write_is_lacking(const struct question *q, const struct answer *answer, bool force,
                             struct buf *report) {
    if (force || answer_has_all(q, answer)) return false;
    buf_add(report,
            STR("not written: this GPU lacks what the training asks for; --force writes anyway\n"));
    return true;
}

bool answer_write_is_assumed(const struct question *q, const struct answer *answer, bool force,
                             struct buf *report) {
    const struct answer_open *open = answer_open_size(q, answer);
    if (!open || force) return false;
    buf_format(report, "not written: the %s is assumed; %s N sets it, --force writes anyway\n",
               open->what, open->option);
    return true;
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
    answer->not_written = "no_key";
    if (q->batch_is_trainings) {
        say_no_key(q, report);
        return 0;
    }
    answer->not_written = "not_modelled";
    if (!options->is_measured && answer_write_is_refused(q, options->force, report)) return FAIL_NO;
    if (!options->is_measured && answer_write_is_lacking(q, answer, options->force, report))
        return FAIL_NO;
    answer->not_written = "assumed_size";
    // Where nothing is edited what to type is said all the same, for the size that was counted.
    const bool is_edited = q->reading.editable || answer->plan.image_size <= 0;
    const bool is_sure = !is_edited || options->is_measured || options->force;
    if (answer_write_is_assumed(q, answer, is_sure, report)) return FAIL_NO;
    answer->not_written = "stand_in";
    if (answer_stands_in(answer) && !options->is_measured && !options->force) {
        buf_add(report, STR("not written: another size stands in for the config's, so a larger "
                            "batch may fit; --force writes anyway\n"));
        return FAIL_NO;
    }
    answer->not_written = "key_not_read";
    int rc = patch_at_least(q, &change, options, &patched, report, why);
    if (rc == FAIL_NO) return rc;
    answer->not_written = "not_editable";
    if (rc < 0) return advise(q, &change, why, report);
    answer->not_written = patched.changed || options->save_config ? "failed" : "unchanged";
    const char *path = options->save_config ? options->save_config : str_z(q->arena, q->path);
    if (patched.changed || options->save_config) {
        const struct os_stamp *stamp = options->save_config ? NULL : &q->stamp;
        rc = answer_write_file(q->arena, path, patched.text, stamp, report, why);
        if (rc < 0) return rc;
        answer->config_written = true;
        answer->config_text = patched.text;
        answer->not_written = NULL;
    }
    report_lines(report, &patched.changes);
    report_lines(report, &patched.notes);
    if (!patched.changed)
        buf_format(report, "%s: nothing to change\n", str_z(q->arena, q->path));
    else
        buf_format(report, "written: %s\n", path);
    return 0;
}

int answer_take_back(struct question *q, const struct answer *answer,
                     const struct answer_write_options *options, struct fail *why) {
    const struct os_stamp stamp = {true, answer->config_text};
    if (!answer->config_written || options->save_config) return 0;
    int rc = os_replace(q->arena, str_z(q->arena, q->path), q->stamp.text, &stamp, why);
    if (rc == 0)
        out_say(stderr, "batchfit: %s is as it was: stdout did not take the answer\n",
                str_z(q->arena, q->path));
    return rc;
}
