// SPDX-License-Identifier: Apache-2.0
#include "job/answer/answer.h"

#include "base/shell.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "job/answer/answer_int.h"
#include "view/show/show.h"

struct shared {
    struct question *q;
    const struct answer *answer;
    bool changes;
    const struct cli_options *base;
};

// The command without the card's own option.
static struct str command_text(const struct shared *s) {
    struct arena *a = s->q->arena;
    const struct str_words kept = cli_words_without(a, s->base, "share", NULL);
    return str_format(a, "batchfit %.*s", STR_ARG(shell_command(a, kept.items)));
}

static void draw(const struct shared *s, struct buf *out) {
    struct arena *a = s->q->arena;
    const struct answer_memory m = answer_memory(s->answer);
    const struct answer_word word = answer_word(s->q, s->answer);
    const struct answer_said said = answer_said(s->q, s->answer, s->changes);
    const struct answer_parts parts = answer_parts(s->q, s->answer);
    const struct str lines[] = {
        said.change,
        said.advice,
        str_format(a, "%.*s, %s", STR_ARG(answer_plan_text(a, &s->answer->plan)),
                   plan_precision_name(s->answer->plan.precision)),
        question_not_modelled(s->q).len > 0 ? s->q->notes.items[0] : (struct str){0},
    };
    const struct chart_figure figures[] = {
        {STR("expected"), unit_bytes(a, m.expected_bytes)},
        {STR("worst case"), unit_bytes(a, m.worst_bytes)},
        {STR("usable"), unit_bytes(a, m.usable_bytes)},
        {STR("headroom"), m.headroom_bytes > 0 ? unit_bytes(a, m.headroom_bytes) : STR("none")},
    };
    const struct chart_card card = {
        .tone = word.tone,
        .word = str_of(word.name),
        .text = said.sentence,
        .lines = lines,
        .line_count = (int)(sizeof lines / sizeof *lines),
        .segments = parts.items,
        .segment_count = parts.count,
        .capacity = (double)m.usable_bytes,
        .figures = figures,
        .figure_count = (int)(sizeof figures / sizeof *figures),
        .command = command_text(s),
        .footer = STR("batchfit " BATCHFIT_VERSION),
    };
    chart_card(&card, a, out);
}

static struct str svg_text(void *context) {
    const struct shared *s = context;
    struct buf out = buf_new(s->q->arena);
    draw(s, &out);
    return buf_str(&out);
}

static struct str html_text(void *context) {
    const struct shared *s = context;
    struct buf out = buf_new(s->q->arena);
    html_open(&out, answer_plan_text(s->q->arena, &s->answer->plan), (struct str){0});
    draw(s, &out);
    html_close(&out, (struct str){0});
    return buf_str(&out);
}

static const struct show_report_kind kinds[] = {{.suffix = ".svg", .text = svg_text},
                                                {".png", svg_text, chart_png, chart_png_check},
                                                {.suffix = ".html", .text = html_text},
                                                {.suffix = NULL}};

int answer_share_check(struct arena *a, const char *paths, struct fail *why) {
    return paths ? show_report_check(a, kinds, "share", paths, why) : 0;
}

int answer_share_write(struct question *q, const struct answer *answer, bool changes,
                       const struct answer_share_asked *asked, struct fail *why) {
    struct shared shared = {q, answer, changes, asked->base};
    return show_report_write(q->arena, kinds, asked->paths, &shared, why);
}
