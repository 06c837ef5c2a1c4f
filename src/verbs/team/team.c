// SPDX-License-Identifier: Apache-2.0
// batchfit team: one table and one settings file for all the team's GPUs; with --collect from what
// the team's machines measured.
#include "verbs/team/team.h"
#include "base/out.h"
#include "base/say.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

struct team_options {
    struct question_options q;
    struct team_collect_options c;
    struct team_cost_options cost;
    const char *gpus, *output;
    bool collects, force;
};

#define AT(member) offsetof(struct team_options, member)
static const struct cli_row rows[] = {
    QUESTION_ROWS(struct team_options),
    QUESTION_ROW_INFERENCE(struct team_options),
    {"gpus", "LIST", CLI_LIST, AT(gpus),
     "the team's GPUs: rtx4090,rtx3080, a tier (high_end, mid_range, budget, low_end), or 'all'",
     "gpus"},
    {"output", "FILE", CLI_TEXT, AT(output),
     "write the settings file (team_gpu_settings), or edit an existing one", "file", 'o'},
    {"collect", NULL, CLI_SWITCH, AT(collects),
     "add this machine's measurements to its file in DIR (.batchfit/team), and answer from all "
     "machines' files"},
    {"prefer", "WORD", CLI_TEXT, AT(c.prefer),
     "if machines with the same GPU disagree, take the safest (the smallest batch), newest or "
     "fastest",
     "safest newest fastest"},
    {"name", "TEXT", CLI_TEXT, AT(c.name), "the team's name for this machine (default a number)"},
    {"cost", NULL, CLI_SWITCH, AT(cost.is_asked),
     "what the training costs on each GPU, the cheapest first: predicted speed x price (without "
     "--gpus, on all that have a price)"},
    {"samples", "N", CLI_COUNT, AT(cost.samples),
     "with --cost: samples of the whole training, epochs x images or sequences (default a "
     "million)"},
    {"deadline", "TIME", CLI_TEXT, AT(cost.deadline),
     "with --cost: the cheapest that ends within it: 12h, 90m, 2d"},
    {"provider", "NAME", CLI_TEXT, AT(cost.provider),
     "with --cost: this provider's prices (default the cheapest's of each GPU)"},
    {"spot", "SHARE,RATE,TIME", CLI_TEXT, AT(cost.spot),
     "with --cost: spot machines: share of the price, interruptions an hour, time lost in each: "
     "0.35,0.1,15m"},
    {"electricity", "USD", CLI_NUMBER, AT(cost.electricity),
     "with --cost: price of a kWh, which is what a GPU without a price costs"},
    CLI_ROW_FORCE(AT(force)),
    CLI_ROW_TEST_ONLY(AT(c.test_only)),
    CLI_ROW_STORE(AT(c.store)),
    {"no-history", NULL, CLI_SWITCH, AT(c.no_history),
     "do not touch this machine's history and file"},
    {.name = NULL},
};

// The config's, else those of the settings file that is to be written.
static int own_cards(struct question *q, const struct team_options *o, struct question_gpus *cards,
                     struct fail *why) {
    struct config_card *team = NULL;
    int count = 0;
    int rc = q->has_config ? config_team_read(q->arena, &q->config, &team, &count, why) : 0;
    if (rc == 0 && count == 0 && o->output) rc = team_settings_cards(q, o->output, cards, why);
    return rc < 0 || cards->count > 0 ? rc : question_gpus_of_team(q, cards, why);
}

static int find_cards(struct question *q, const struct team_options *o, struct question_gpus *cards,
                      struct fail *why) {
    if (!o->gpus) return own_cards(q, o, cards, why);
    if (str_is(str_of(o->gpus), "all")) return question_gpus_every(q, cards), 0;
    int rc = question_gpus_named(q, o->gpus, cards, why);
    if (rc < 0 || cards->count > 0) return rc;
    return fail_set(why, FAIL_USAGE, "--gpus %s: names no GPU", o->gpus);
}

// --- Predicted -----------------------------------------------------------------------------------

// Why none is written, also in the word of the document; NULL: they are.
static const char *why_refused(const struct question *q, const struct answer *answers,
                               ptrdiff_t count, bool force, struct buf *report) {
    if (answer_write_is_refused(q, force, report)) return "not_modelled";
    const bool is_assumed = count > 0 && answer_write_is_assumed(q, &answers[0], force, report);
    return is_assumed ? "assumed_size" : NULL;
}

static bool is_written(const struct question *q, const struct answer *answer, bool force) {
    return answer->fits && (force || answer_has_all(q, answer));
}

static const char *why_unwritten(const struct answer *answer) {
    if (answer->fits) return "not_modelled"; // the GPU lacks what is asked for
    return answer_verdict(answer) == ANSWER_TIGHT ? "margin_not_kept" : "does_not_fit";
}

// GPUs on which nothing fits get no entry: a setting that runs out of memory is no setting. A file
// without any is none of a team's.
static int write_answers(struct question *q, struct answer *answers, ptrdiff_t count,
                         const struct team_options *o, struct buf *report, struct fail *why) {
    struct config_card *cards = arena_new(q->arena, struct config_card, count);
    int kept = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (is_written(q, &answers[i], o->force))
            cards[kept++] = team_settings_of(answers[i].card.gpu.key, &answers[i].plan);
        else
            answers[i].not_written = why_unwritten(&answers[i]);
    }
    if (kept == 0) buf_format(report, "not written: %s: there is no GPU to write\n", o->output);
    int rc = kept > 0 ? team_settings_write(q, cards, kept, o->output, report, why) : 0;
    for (ptrdiff_t i = 0; rc == 0 && i < count; i++)
        answers[i].config_written = is_written(q, &answers[i], o->force);
    return rc;
}

// What is so on every GPU: a size that nobody said, a number of classes.
static struct str_list common_notes(const struct question *q, const struct answer *answers,
                                    ptrdiff_t count) {
    struct str_list common = {0};
    for (ptrdiff_t i = 0; count > 0 && i < answers[0].notes.count; i++) {
        const struct str said = answers[0].notes.items[i];
        ptrdiff_t same = 1;
        while (same < count && str_list_has(&answers[same].notes, said)) same++;
        if (same == count) str_list_add(q->arena, &common, said);
    }
    return common;
}

// What each GPU can do, where it is not so on all.
static struct str_list gpu_notes(const struct question *q, const struct answer *answers,
                                 ptrdiff_t count, const struct str_list *common) {
    struct str_list own = {0};
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct str_list *notes = &answers[i].notes;
        for (ptrdiff_t k = 0; k < notes->count; k++)
            if (answer_is_of_gpu(notes->items[k]) && !str_list_has(common, notes->items[k]))
                str_list_format(q->arena, &own, "%.*s: %.*s", STR_ARG(answers[i].card.gpu.name),
                                STR_ARG(notes->items[k]));
    }
    return own;
}

static void show(struct question *q, const struct answer *answers, ptrdiff_t count,
                 const struct buf *report) {
    SAY_OWN_AUTO;
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_shown(q->arena);
    answer_verdict_show_all(q, answers, (int)count, false, style, &out);
    answer_loud_notes(&q->notes, style, &out);
    buf_byte(&out, '\n');
    answer_table(q, answers, (int)count, style, &out);
    buf_byte(&out, '\n');
    answer_quiet_notes(q->arena, &q->notes, style, &out);
    const struct str_list common = common_notes(q, answers, count);
    answer_notes(&common, style, &out);
    const struct str_list of_gpus = gpu_notes(q, answers, count, &common);
    answer_notes(&of_gpus, style, &out);
    show_prose_lines(&out, style, buf_str(report));
    out_buf(stdout, &out);
}

// One of them is to be chosen, or each has its own setting: yes is yes of any.
static bool is_any_yes(const struct question *q, const struct answer *answers, ptrdiff_t count,
                       bool force) {
    ptrdiff_t i = 0;
    while (i < count && !(force ? answers[i].fits : answer_is_yes(q, &answers[i]))) i++;
    return i < count;
}

static int predict_run(struct question *q, const struct team_options *o, struct fail *why) {
    struct question_gpus cards = {0};
    struct buf report = buf_shown(q->arena);
    int rc = find_cards(q, o, &cards, why);
    struct answer *answers = arena_new(q->arena, struct answer, cards.count);
    for (ptrdiff_t i = 0; rc == 0 && i < cards.count; i++) {
        rc = answer_choose(q, &cards.items[i], &answers[i], why);
    }
    bool writes = rc == 0 && o->output && !o->c.test_only;
    const char *refused = writes ? why_refused(q, answers, cards.count, o->force, &report) : NULL;
    const bool is_yes = rc == 0 && is_any_yes(q, answers, cards.count, o->force);
    for (ptrdiff_t i = 0; refused && i < cards.count; i++) answers[i].not_written = refused;
    if (writes && !refused) rc = write_answers(q, answers, cards.count, o, &report, why);
    if (rc < 0) return question_failed(q, rc);
    if (!o->q.base.json)
        show(q, answers, cards.count, &report);
    else if (answer_print_json(q, answers, (int)cards.count, why) < 0)
        return FAIL_BUG;
    return refused || !is_yes ? FAIL_NO : 0;
}

// --- Collected -----------------------------------------------------------------------------------

// Named, of the config, of the settings file that is to be written. None is no error: what was
// measured has its row anyway.
static int find_rows(struct question *q, const struct team_options *o, struct question_gpus *cards,
                     struct fail *why) {
    struct config_card *team = NULL;
    int count = 0;
    int rc =
        !o->gpus && q->has_config ? config_team_read(q->arena, &q->config, &team, &count, why) : 0;
    if (rc == 0 && (o->gpus || count > 0)) rc = find_cards(q, o, cards, why);
    return rc == 0 && o->output ? team_settings_cards(q, o->output, cards, why) : rc;
}

static bool has_answer(const struct team_collect *c) {
    for (ptrdiff_t i = 0; i < c->row_count; i++)
        if (team_collect_taken(&c->rows[i]) || c->rows[i].is_answered) return true;
    return false;
}

static bool rests_on_guesses(const struct question *q, const struct answer *answer) {
    return question_not_modelled(q).len > 0 || answer_open_size(q, answer) != NULL ||
           !answer_has_all(q, answer);
}

// What was measured was measured as the config says; what is predicted may not be.
static int write_collected(const struct team_collect *c, const char *path, bool force,
                           struct buf *report, struct fail *why) {
    struct config_card *cards = arena_new(c->q->arena, struct config_card, c->row_count + 1);
    int kept = 0;
    for (ptrdiff_t i = 0; i < c->row_count; i++) {
        const struct team_collect_row *row = &c->rows[i];
        const struct survey_choice *taken = team_collect_taken(row);
        if (taken)
            cards[kept++] = team_settings_of(taken->record->key, &taken->record->plan);
        else if (row->is_answered && (force || !rests_on_guesses(c->q, &row->predicted)))
            cards[kept++] = team_settings_of(row->predicted.card.gpu.key, &row->predicted.plan);
    }
    if (kept == 0) return fail_set(why, FAIL_NO, "%s: no GPU to write", path);
    return team_settings_write(c->q, cards, kept, path, report, why);
}

static int nothing_there(const struct team_collect *c, struct fail *why) {
    struct buf left = buf_new(c->q->arena);
    for (ptrdiff_t i = 0; i < c->q->notes.count; i++) {
        if (!str_starts(c->q->notes.items[i], STR("not collected"))) continue;
        buf_format(&left, "%.*s\n  ", STR_ARG(c->q->notes.items[i]));
    }
    fail_set(why, FAIL_INPUT, "%.*s: no machine has measured this training", STR_ARG(c->folder));
    buf_add(&left, STR("measure it on a GPU with batchfit fit --config FILE -- COMMAND, or name "
                       "GPUs with --gpus for predictions"));
    return fail_hint_lines(why, buf_str(&left));
}

static int collect_run(struct question *q, const struct team_options *o, struct fail *why) {
    struct team_collect_options options = o->c;
    struct question_gpus cards = {0};
    struct team_collect c;
    struct buf report = buf_shown(q->arena);
    if (o->q.base.argument_count > 0) options.folder = o->q.base.arguments[0];
    int rc = find_rows(q, o, &cards, why);
    if (rc == 0) rc = team_collect(q, &options, &cards, &c, why);
    if (rc < 0) return rc;
    bool is_same = c.merged.differing == 0;
    bool writes = o->output && !o->c.test_only && is_same;
    if (c.row_count == 0 && c.files.left_count == 0 && is_same) return nothing_there(&c, why);
    if (o->output && !is_same) buf_format(&report, "not written: %s\n", o->output);
    if (writes) rc = write_collected(&c, o->output, o->force, &report, why);
    if (rc < 0 && rc != FAIL_NO) return rc;
    if (!o->q.base.json)
        team_collect_show(&c, &report);
    else if (team_collect_print_json(&c, writes && rc == 0 ? o->output : NULL, why) < 0)
        return FAIL_BUG;
    return rc < 0 ? rc : is_same && (c.row_count == 0 || has_answer(&c)) ? 0 : FAIL_NO;
}

// --- Costs ---------------------------------------------------------------------------------------

static int cost_run(struct question *q, const struct team_options *o, struct fail *why) {
    struct question_gpus cards = {0};
    struct team_cost c;
    if (o->output)
        return fail_set(why, FAIL_USAGE,
                        "--output %s cannot be combined with --cost, which writes nothing",
                        o->output);
    int rc = team_cost_open(q, &o->cost, &c, why);
    if (rc == 0)
        rc = o->gpus ? find_cards(q, o, &cards, why) : team_cost_cards(&c, &o->cost, &cards, why);
    if (rc == 0) rc = team_cost_judge(&c, &o->cost, &cards, why);
    if (rc < 0) return question_failed(q, rc);
    if (!o->q.base.json)
        team_cost_show(&c, &o->cost);
    else if (team_cost_json(&c, why) < 0)
        return FAIL_BUG;
    return c.best ? 0 : FAIL_NO;
}

// What is said without the switch that it belongs to.
static int check_cost(const struct team_options *o, struct fail *why) {
    const struct team_cost_options *c = &o->cost;
    const char *word = c->deadline              ? "--deadline"
                       : c->provider            ? "--provider"
                       : c->spot                ? "--spot"
                       : c->samples > 0         ? "--samples"
                       : !isnan(c->electricity) ? "--electricity"
                                                : NULL;
    if (c->is_asked && o->collects)
        return fail_set(why, FAIL_USAGE, "--cost cannot be combined with --collect");
    if (c->is_asked || !word) return 0;
    return fail_set(why, FAIL_USAGE, "%s: only with --cost", word);
}

static int team_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct team_options *o = (const struct team_options *)options;
    struct question q;
    if (options->argument_count > o->collects) {
        fail_set(why, FAIL_USAGE, "unexpected argument '%s'", options->arguments[o->collects]);
        return fail_hint(why, "only --collect takes a folder of results, and only one");
    }
    int rc = check_cost(o, why);
    if (rc < 0) return rc;
    rc = question_open(a, &o->q, &q, why);
    if (rc < 0) return question_failed(&q, rc);
    if (o->cost.is_asked) return cost_run(&q, o, why);
    return o->collects ? collect_run(&q, o, why) : predict_run(&q, o, why);
}

const struct cli_verb team_verb = {
    .name = "team",
    .summary = "make one table and one settings file for all the team's GPUs",
    .arguments = "[DIR]",
    .description =
        "Answers like fit for every GPU of the team: the same effective batch on each, mixed "
        "precision if the GPU has tensor cores. Without --gpus it takes the GPUs of the config's "
        "team_gpu_settings, those of the settings file, or four typical ones.\n\nWith --collect "
        "the answer comes from what the team's machines measured (fit -- COMMAND). Each has its "
        "own file in DIR (.batchfit/team), shared through git: this machine's is updated from its "
        "history, and all are read. A GPU that no one measured is predicted, and marked as such. "
        "If machines with the same GPU disagree, they are named and the smallest batch is taken. A "
        "machine that measured with another effective batch is named, and the exit status is "
        "1.\n\nWith --cost the rows are what the training costs on each GPU: predicted speed x "
        "price of an hour (data/prices.tsv, prices.local.tsv), with the range of the speed; the "
        "cheapest that fits and ends by the --deadline comes first.",
    .examples =
        "batchfit team --config configs/train.yaml --gpus rtx4090,rtx3080,rtx3060,gtx1080 -o "
        "configs/team_settings.yaml\n"
        "batchfit team --collect --config configs/train.yaml -o configs/team_settings.yaml\n"
        "batchfit team --cost --config configs/train.yaml --samples 3840000 --deadline 12h\n"
        "batchfit team --model resnet50 --gpus all --json",
    .options = rows,
    .common = "config model img-size precision effective-batch-size gpus collect output test-only",
    .options_size = sizeof(struct team_options),
    .run = team_run,
};
