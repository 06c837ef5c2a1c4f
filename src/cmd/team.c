// SPDX-License-Identifier: Apache-2.0
// batchfit team: one table and one settings file for all the team's cards.
#include "cmd/cards.h"
#include "cmd/write.h"

#include <stdio.h>
#include <unistd.h>

struct team_options {
    struct question_options q;
    const char *gpus, *output;
};

#define AT(member) offsetof(struct team_options, member)
static const struct option_row rows[] = {
    QUESTION_ROWS(struct team_options),
    {"gpus", "LIST", OPTION_LIST, AT(gpus),
     "the team's cards: rtx4090,rtx3080; 'all' is the whole catalogue", "gpus"},
    {"output", "FILE", OPTION_TEXT, AT(output),
     "writes the settings file (team_gpu_settings); an existing one is edited", "file", 'o'},
    {.name = NULL},
};

static int every_card(struct question *q, struct cards *cards) {
    for (ptrdiff_t i = 0; i < q->gpus.count; i++) {
        question_place(q, q->gpus.gpus[i],
                       arena_push(q->arena, &cards->items, &cards->count, &cards->capacity));
    }
    return 0;
}

static int find_cards(struct question *q, const struct team_options *o, struct cards *cards,
                      struct fail *why) {
    if (!o->gpus) return cards_of_team(q, cards, why);
    if (str_is(str_of(o->gpus), "all")) return every_card(q, cards);
    return cards_named(q, o->gpus, cards, why);
}

static struct config_card settings_of(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    return (struct config_card){
        .card = answer->card.gpu.key,
        .batch = p->batch,
        .accumulation = p->accumulation,
        .effective = plan_effective(p),
        .image_size = p->image_size,
        .mixed_precision = p->precision == PLAN_FP32 ? -1 : 1,
        .precision = str_of(plan_precision_name(p->precision)),
        .model = p->model,
    };
}

// Cards on which nothing fits get no entry: a setting that runs out of memory is no setting.
static int write_settings(struct question *q, struct answer *answers, ptrdiff_t count,
                          const char *path, struct buf *report, struct fail *why) {
    struct config_card *cards = arena_new(q->arena, struct config_card, count);
    struct config before;
    struct config_patched patched;
    struct os_stamp stamp = {0};
    struct str text;
    int kept = 0, rc = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (answers[i].fits) cards[kept++] = settings_of(&answers[i]);
    }
    bool exists = os_exists(path);
    if (exists) rc = os_read(q->arena, path, CONFIG_MAX_BYTES, &text, &stamp, why);
    if (rc == 0 && exists) rc = config_parse(q->arena, str_of(path), text, &before, why);
    if (rc == 0) {
        rc = config_team_write(q->arena, exists ? &before : NULL, cards, kept, &patched, why);
    }
    if (rc == 0 && (!exists || patched.changed)) {
        rc = write_file(q->arena, path, patched.text, &stamp, report, why);
    }
    if (rc < 0) return rc;
    for (ptrdiff_t i = 0; i < count; i++) answers[i].config_written = answers[i].fits;
    buf_format(report, "%s: %s, %d cards\n", exists && !patched.changed ? "already so" : "written",
               path, kept);
    return 0;
}

static void show(struct question *q, const struct answer *answers, ptrdiff_t count,
                 const struct buf *report) {
    struct show_style style = show_style_of(STDOUT_FILENO);
    struct buf out = buf_new(q->arena);
    answer_table(q->arena, answers, (int)count, style, &out);
    answer_notes(&q->notes, style, &out);
    buf_add(&out, buf_str(report));
    fwrite(out.items, 1, (size_t)out.count, stdout);
}

static int team_run(struct arena *a, const struct options *options, struct fail *why) {
    const struct team_options *o = (const struct team_options *)options;
    struct question q;
    struct cards cards = {0};
    struct buf report = buf_new(a);
    int rc = question_open(a, &o->q, &q, why);
    if (rc == 0) rc = find_cards(&q, o, &cards, why);
    struct answer *answers = arena_new(a, struct answer, cards.count);
    for (ptrdiff_t i = 0; rc == 0 && i < cards.count; i++) {
        rc = answer_choose(&q, &cards.items[i], &answers[i], why);
    }
    if (rc == 0 && o->output) rc = write_settings(&q, answers, cards.count, o->output, &report, why);
    if (rc < 0) return rc;
    if (options->json) return answer_print_json(&q, answers, (int)cards.count, why);
    show(&q, answers, cards.count, &report);
    return 0;
}

const struct verb verb_team = {
    .name = "team",
    .summary = "one table and one settings file for all the team's cards",
    .description =
        "Answers the question of fit for every card of the team: the same effective batch on each, "
        "mixed precision where the card has tensor cores. Without --gpus the cards of the config's "
        "team_gpu_settings, or four that span what teams have.",
    .examples = "batchfit team --config configs/train.yaml --gpus rtx4090,rtx3080,rtx3060,gtx1080 "
                "-o configs/team_settings.yaml\n"
                "batchfit team --model resnet50 --gpus all --json",
    .options = rows,
    .options_size = sizeof(struct team_options),
    .run = team_run,
};
