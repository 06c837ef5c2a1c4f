// SPDX-License-Identifier: Apache-2.0
// Batches in a row, each with its verdict, and where it ends: what one batch's answer does not
// show is how near the cliff is. Powers of two, as many as fit 60 columns, the cliff among them;
// peaks are not monotone in the batch, so each is replayed.
#include "job/answer/answer.h"

enum { CELLS = 8, AFTER_CLIFF = 2, LABEL = 8, CELL = 6, CLIFF = 2, POWERS = 24 };

struct cell {
    int64_t batch;
    enum answer_verdict verdict;
    double gib;
};

// False: the tape does not say.
static bool look(struct question *q, const struct answer *answer, int64_t batch,
                 struct cell *ret_cell) {
    struct answer one = *answer;
    struct fail why = {0};
    int64_t accumulation = plan_accumulation(q->effective, batch, q->plan.ranks);
    if (forecast_at(&one.forecast, &one.card, batch, accumulation, &one.peak, &why) < 0)
        return false;
    one.fits = forecast_fits(&one.forecast, &one.card, batch, accumulation, &why) == 1;
    struct answer_memory m = answer_memory(&one);
    *ret_cell = (struct cell){batch, answer_verdict(&one), (double)m.expected_bytes / (1 << 30)};
    return true;
}

// The last ones up to the cliff and a little beyond it.
static int gather(struct question *q, const struct answer *answer, struct cell *cells) {
    int count = 0, beyond = 0;
    for (int power = 0; power < POWERS && beyond < AFTER_CLIFF; power++) {
        struct cell cell;
        if (!look(q, answer, INT64_C(1) << power, &cell)) continue;
        beyond += cell.verdict == ANSWER_NOT;
        if (count == CELLS) {
            for (int i = 1; i < CELLS; i++) cells[i - 1] = cells[i];
            count--;
        }
        cells[count++] = cell;
    }
    return count;
}

static bool is_cliff(const struct cell *cells, int i) {
    return i > 0 && cells[i].verdict == ANSWER_NOT && cells[i - 1].verdict != ANSWER_NOT;
}

static void put_row(struct arena *a, const struct cell *cells, int from, int to, int row,
                    struct show_style style, struct buf *out) {
    static const char *const labels[] = {"batch", "GiB", ""};
    static const char *const words[] = {
        [ANSWER_FITS] = "fits", [ANSWER_TIGHT] = "tight", [ANSWER_NOT] = "no"};
    show_padded(out, style, SHOW_DIM, str_of(labels[row]), LABEL, false);
    for (int i = from; i < to; i++) {
        const struct cell *c = &cells[i];
        struct str text = row == 0   ? str_format(a, "%lld", (long long)c->batch)
                          : row == 1 ? str_format(a, c->gib < 99.95 ? "%.1f" : "%.0f", c->gib)
                                     : str_of(words[c->verdict]);
        if (is_cliff(cells, i)) show_text(out, style, SHOW_BAD, style.utf8 ? STR(" ║") : STR(" |"));
        show_padded(out, style, row == 2 ? answer_verdict_tone(c->verdict) : SHOW_PLAIN, text, CELL,
                    true);
    }
    buf_byte(out, '\n');
}

void answer_cells(struct question *q, const struct answer *answer, struct show_style style,
                  struct buf *out) {
    struct cell cells[CELLS];
    int count = gather(q, answer, cells);
    if (count < 2) return;
    buf_byte(out, '\n');
    // In as many rows of them as the terminal is narrow.
    int each = style.width > 0 ? (style.width - LABEL - CLIFF) / CELL : count;
    if (each < 1) each = 1;
    for (int from = 0; from < count; from += each) {
        int to = from + each < count ? from + each : count;
        for (int row = 0; row < 3; row++) put_row(q->arena, cells, from, to, row, style, out);
    }
}
