// SPDX-License-Identifier: Apache-2.0
#include "verbs/fit/fit.h"

#include "base/near.h"
#include "base/shell.h"
#include "base/unit.h"
#include "job/answer/answer.h"

#include <stdlib.h>

#define SBATCH_DEADLINE_MS INT64_C(60000)

// --- Which GPU a type is -------------------------------------------------------------------------

// "a100=a100-80gb" of --gres; a part before the sign is the type, which may be empty.
static bool is_said(const struct fit_slurm *s, struct str type, struct str *ret_gpu) {
    struct str rest = str_of(s->options->s.gres);
    while (rest.len > 0) {
        struct str gpu = str_line(&rest), name = str_cut(&gpu, '=');
        if (!gpu.p || !str_equal_nocase(str_trim(name), type)) continue;
        *ret_gpu = str_trim(gpu);
        return true;
    }
    return false;
}

static int check_said(const struct fit_slurm *s, struct fail *why) {
    struct str rest = str_of(s->options->s.gres);
    while (rest.len > 0) {
        struct str gpu = str_line(&rest), name = str_trim(str_cut(&gpu, '='));
        struct near near = {.typed = name};
        bool is_there = false;
        for (ptrdiff_t i = 0; i < s->cluster.count; i++) {
            is_there |= str_equal_nocase(s->cluster.types[i].name, name);
            near_offer(&near, s->cluster.types[i].name);
        }
        if (is_there && gpu.len > 0) continue;
        fail_set(why, FAIL_USAGE, "--gres %.*s%s%.*s: %s", STR_ARG(name), gpu.p ? "=" : "",
                 STR_ARG(gpu), gpu.p ? "the cluster has no GPUs of this type" : "not TYPE=GPU");
        struct str names = near_text(s->q->arena, &near);
        return names.len > 0 ? fail_hint(why, "nearest: %.*s", STR_ARG(names))
                             : fail_hint(why, "for example --gres a100=a100-80gb");
    }
    return 0;
}

static void place_memory(struct fit_slurm *s, struct fit_slurm_row *row, int64_t bytes,
                         struct str name) {
    struct gpu gpu = gpu_custom(NULL, bytes);
    gpu.name = name;
    question_place(s->q, gpu, &row->card);
    row->is_known = true;
}

// A type that says less than the catalogue knows is the GPU with the least memory that is meant.
static void find_gpu(struct fit_slurm *s, struct fit_slurm_row *row) {
    struct question *q = s->q;
    struct arena *a = q->arena;
    struct str type = row->type->name, typed = type;
    struct fail why = {0};
    struct gpu_match match;
    bool by_user = is_said(s, type, &typed);
    int64_t bytes = slurm_slice_bytes(typed);
    if (bytes > 0) {
        place_memory(s, row, bytes, str_format(a, "MIG %.*s", STR_ARG(typed)));
        row->is_slice = true;
    } else if (by_user && unit_parse_bytes(typed, &bytes) && bytes >= UNIT_GIB) {
        place_memory(s, row, bytes, str_format(a, "%.*s GPU", STR_ARG(typed)));
    } else if (typed.len == 0) {
        row->reason = STR("no type is named: --gres =NAME says which GPUs they are");
    } else if (gpu_find(a, &q->gpus, typed, &match, &why) < 0) {
        row->reason = str_format(a, "not in the catalogue: --gres %.*s=NAME, or =24GiB, says which",
                                 STR_ARG(type));
    } else {
        question_place(q, by_user ? *match.gpu : *match.least, &row->card);
        row->is_known = true;
        row->is_least = !by_user && match.least != match.gpu;
    }
}

static void say_least(struct question *q, const struct fit_slurm_row *row) {
    struct str type = row->type->name;
    question_say(
        q, "%.*s is taken as %.*s, the one with the least memory; --gres %.*s=NAME names another",
        STR_ARG(type), STR_ARG(show_gpu_name(row->card.gpu.name)), STR_ARG(type));
}

static int by_memory(const void *left, const void *right) {
    const struct fit_slurm_row *a = left, *b = right;
    int64_t x = a->is_known ? a->card.gpu.usable_bytes : INT64_MAX;
    int64_t y = b->is_known ? b->card.gpu.usable_bytes : INT64_MAX;
    if (x != y) return x < y ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

static void open_rows(struct fit_slurm *s) {
    const int64_t gpus = plan_devices(&s->q->plan);
    s->rows = arena_new(s->q->arena, struct fit_slurm_row, s->cluster.count);
    for (ptrdiff_t i = 0; i < s->cluster.count; i++) {
        struct fit_slurm_row *row = &s->rows[s->count++];
        row->type = &s->cluster.types[i];
        find_gpu(s, row);
        row->verdict = row->type->partitions.count == 0 ? "DOWN"
                       : row->is_known                  ? "TOO FEW"
                                                        : "UNKNOWN";
        if (row->type->partitions.count == 0)
            row->reason = STR("every node is down, drained or reserved");
        else if (gpus > 1 && row->is_slice)
            row->reason = STR("slices of a GPU do not train together: NCCL has no link between "
                              "them");
        else if (!slurm_place(s->q->arena, row->type, gpus, &row->place))
            row->reason = str_format(s->q->arena, "not %lld GPUs at once", (long long)gpus);
        if (row->reason.len == 0 && row->is_least) say_least(s->q, row);
    }
    qsort(s->rows, (size_t)s->count, sizeof *s->rows, by_memory);
}

// --- Judging -------------------------------------------------------------------------------------

static int judge_as_is(struct fit_slurm *s, struct fail *why) {
    int rc = 0;
    if (s->wants_other) return 0;
    for (ptrdiff_t i = 0; rc == 0 && i < s->count; i++) {
        struct fit_slurm_row *row = &s->rows[i];
        if (!row->is_known || row->reason.len > 0) continue;
        row->as_is.config = s->q->path;
        row->as_is.gpu = row->as_is.key = row->card.gpu.key;
        rc = fit_check_judge(s->q, &s->options->o.q, &row->card, &row->as_is, why);
        row->fits = row->as_is.state == FIT_CHECK_PASSES;
        row->answer = row->as_is.answer;
        row->verdict = row->as_is.verdict;
        if (!row->fits) row->reason = row->as_is.reason;
        if (row->fits && !s->chosen) s->chosen = row;
    }
    s->as_it_stands = s->chosen != NULL;
    return rc;
}

static int check_config(const struct fit_slurm *s, struct fail *why) {
    struct fit_check_row row = {0};
    if (!fit_check_is_unjudged(s->q, &s->options->o.q, &row)) return 0;
    return fit_check_fail(s->q, &row, why);
}

// A type that could not be judged is no reason to edit the config for another.
static int check_types(const struct fit_slurm *s, struct fail *why) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const struct fit_check_row *row = &s->rows[i].as_is;
        if (row->verdict && row->state == FIT_CHECK_UNJUDGED) return fit_check_fail(s->q, row, why);
    }
    return 0;
}

// The batch that the config keeps there: a larger one than its own is no reason for a larger GPU.
static int64_t kept_batch(const struct fit_slurm *s, const struct fit_slurm_row *row) {
    int64_t own = s->q->plan.batch, changed = row->answer->plan.batch;
    return changed < own ? changed : own;
}

static int judge_changed(struct fit_slurm *s, struct fail *why) {
    int rc = 0;
    for (ptrdiff_t i = 0; rc == 0 && i < s->count; i++) {
        struct fit_slurm_row *row = &s->rows[i];
        if (!row->is_known || row->place.gpus == 0 || row->type->partitions.count == 0) continue;
        struct answer *changed = arena_new(s->q->arena, struct answer, 1);
        rc = answer_choose(s->q, &row->card, changed, why);
        if (rc < 0) break;
        row->answer = s->answer = changed;
        row->verdict = answer_word(s->q, changed).name;
        row->fits = answer_is_yes(s->q, changed);
        if (row->fits || !answer_is_counted(s->q, changed))
            row->reason = answer_why_not_counted(s->q, changed);
        if (!row->fits) continue;
        if (!s->chosen || kept_batch(s, row) > kept_batch(s, s->chosen)) s->chosen = row;
    }
    return rc;
}

// The answer that is shown: the chosen type's; without one, the largest's and what would help.
static int answer_it(struct fit_slurm *s, struct fail *why) {
    if (s->chosen) s->answer = s->chosen->answer;
    return s->chosen || !s->answer ? 0 : answer_ways(s->q, s->answer, why);
}

// --- sbatch --------------------------------------------------------------------------------------

static void add_words(struct fit_slurm *s) {
    const struct fit_slurm_row *row = s->chosen;
    const struct slurm_place *place = &row->place;
    struct str type = row->type->name;
    struct arena *a = s->q->arena;
    s->words.arena = a;
    s->gres = str_format(a, "gpu:%.*s%s%lld", STR_ARG(type), type.len > 0 ? ":" : "",
                         (long long)place->gpus);
    if (place->nodes > 1)
        str_word_add(&s->words, str_format(a, "--nodes=%lld", (long long)place->nodes));
    str_word_add(&s->words, str_format(a, "--gres=%.*s", STR_ARG(s->gres)));
    s->partition = s->options->s.partition ? str_of(s->options->s.partition) : place->partitions;
    if (s->partition.len == 0) return;
    str_word_add(&s->words, str_format(a, "--partition=%.*s", STR_ARG(s->partition)));
}

static int submit(struct fit_slurm *s, struct fail *why) {
    struct arena *a = s->q->arena;
    struct str_words command = {.arena = a};
    struct os_captured c;
    struct str script = str_of(s->options->s.exec);
    str_word_add(&command, STR("sbatch"));
    for (ptrdiff_t i = 0; i < s->words.count; i++)
        str_word_add(&command, str_of(s->words.items[i]));
    str_word_add(&command, script);
    int rc = os_capture(a, command.items, SBATCH_DEADLINE_MS, UNIT_MIB, &c, why);
    if (rc < 0) return rc;
    s->submitted = str_trim(c.out);
    if (c.status == 0 && !c.timed_out) return 0;
    struct str said = str_trim(c.err), line = str_line(&said);
    fail_set(why, FAIL_MACHINE, "sbatch %s: %.*s", c.timed_out ? "did not answer" : "refused it",
             STR_ARG(line));
    return fail_hint(why, "%.*s", STR_ARG(shell_command(a, command.items)));
}

// What stands in the config is what the job reads: without it nothing is submitted.
static int write_changed(struct fit_slurm *s, struct buf *report, struct fail *why) {
    const struct choice_options *o = &s->options->o;
    struct answer_write_options write = choice_write_options(o);
    if (o->test_only || !s->q->has_config) {
        s->answer->not_written = o->test_only ? "not_asked" : "no_config";
        return 0;
    }
    return answer_write(s->q, s->answer, &write, report, why);
}

static int finish(struct fit_slurm *s, struct buf *report, struct fail *why) {
    const char *script = s->options->s.exec;
    int rc = 0;
    if (!s->chosen) {
        if (s->answer)
            s->answer->not_written =
                answer_is_counted(s->q, s->answer) ? "does_not_fit" : "not_modelled";
        return FAIL_NO;
    }
    add_words(s);
    if (!s->as_it_stands) rc = write_changed(s, report, why);
    if (rc < 0 || !script) return rc;
    if (s->as_it_stands || (s->answer->config_written && !s->options->o.save_config))
        return submit(s, why);
    fail_set(why, FAIL_NO, "nothing is submitted: the job would still have batch %lld",
             (long long)s->q->plan.batch);
    return fail_hint(why, "without --test-only and --save-config the config gets the new batch "
                          "first");
}

int fit_slurm(struct arena *a, const struct fit_options *options, struct fail *why) {
    const struct fit_slurm_options *o = &options->s;
    struct fit_slurm s = {.options = options, .q = arena_new(a, struct question, 1)};
    struct buf report = buf_shown(a);
    if (o->exec && !os_exists(o->exec))
        return fail_set(why, FAIL_INPUT, "--exec %s: no such file", o->exec);
    int rc = slurm_read(a, o->partition, &s.cluster, why);
    if (rc == 0) rc = question_open(a, &options->o.q, s.q, why);
    if (rc == 0) rc = check_said(&s, why);
    if (rc == 0) rc = fit_check_find_batch(s.q, why);
    if (rc == 0) rc = check_config(&s, why);
    if (rc < 0) return rc;
    s.wants_other = s.q->effective > 0 && s.q->effective != plan_effective(&s.q->plan);
    open_rows(&s);
    rc = judge_as_is(&s, why);
    if (rc == 0 && !s.chosen) rc = check_types(&s, why);
    if (rc == 0 && !s.chosen) rc = judge_changed(&s, why);
    if (rc == 0) rc = fit_slurm_take_cheapest(&s, why);
    if (rc == 0) rc = answer_it(&s, why);
    if (rc < 0) return question_failed(s.q, rc);
    rc = finish(&s, &report, why);
    // The answer is shown also when it could not be written or submitted: it was asked for.
    if (options->o.q.base.json) return fit_slurm_json(&s, rc < 0 ? NULL : why) < 0 ? FAIL_BUG : rc;
    fit_slurm_show(&s, &report);
    return rc;
}
