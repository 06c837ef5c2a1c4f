// SPDX-License-Identifier: Apache-2.0
// Places on the screen: the frame of a window, and what a place stands for when it is clicked.
#include "verbs/watch/watch.h"

enum { WINDOW_COLUMNS = 76 };

// A border all around, with the title in it. Returns what is inside.
struct tui_area watch_draw_frame(struct tui_area area, int rows, const char *title) {
    struct tui_area w = tui_area_middle(area, rows + 2, WINDOW_COLUMNS);
    int right = w.columns - 1, bottom = w.rows - 1;
    tui_area_fill(w, ' ', SHOW_PLAIN);
    for (int i = 0; i <= right; i++) {
        tui_put(w, 0, i, SHOW_DIM, i == 0 ? STR("┌") : i == right ? STR("┐") : STR("─"));
        tui_put(w, bottom, i, SHOW_DIM, i == 0 ? STR("└") : i == right ? STR("┘") : STR("─"));
    }
    for (int i = 1; i < bottom; i++) {
        tui_put(w, i, 0, SHOW_DIM, STR("│"));
        tui_put(w, i, right, SHOW_DIM, STR("│"));
    }
    tui_put_format(w, 0, 2, TUI_INK_BAND, " %s ", title);
    return (struct tui_area){w.canvas, w.row + 1, w.column + 1, w.rows - 2, w.columns - 2};
}

void watch_hit_add(struct watch_draw *d, struct tui_area area, enum watch_hit_kind kind,
                   int value) {
    struct watch_look *look = d->look;
    if (look->hit_count == WATCH_HITS || area.rows < 1) return;
    look->hits[look->hit_count++] = (struct watch_hit){area, kind, value};
}

const struct watch_hit *watch_hit_at(const struct watch_look *look, int row, int column) {
    for (int i = 0; i < look->hit_count; i++) {
        const struct tui_area *a = &look->hits[i].area;
        bool is_in = row >= a->row && row < a->row + a->rows && column >= a->column &&
                     column < a->column + a->columns;
        if (is_in) return &look->hits[i];
    }
    return NULL;
}
