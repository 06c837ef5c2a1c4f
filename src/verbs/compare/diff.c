// SPDX-License-Identifier: Apache-2.0
// The lines in which two configs differ: the longest common subsequence of their lines.
#include "verbs/compare/compare.h"

enum { LINES_MOST = 1000 };

struct lines {
    struct str *items;
    ptrdiff_t count, capacity;
};

static struct lines lines_of(struct arena *a, struct str text) {
    struct lines lines = {0};
    while (text.len > 0 && lines.count <= LINES_MOST) {
        *arena_push(a, &lines.items, &lines.count, &lines.capacity) = str_line(&text);
    }
    return lines;
}

static void add_line(struct buf *b, char mark, struct str line) {
    buf_byte(b, mark);
    buf_add(b, line);
    buf_byte(b, '\n');
}

struct str compare_diff(struct arena *a, struct str text_a, struct str text_b) {
    struct lines x = lines_of(a, text_a), y = lines_of(a, text_b);
    struct buf out = buf_new(a);
    if (x.count > LINES_MOST || y.count > LINES_MOST) {
        return str_equal(text_a, text_b) ? (struct str){0} : STR("(too long to show)\n");
    }
    // common[i][j]: lines that the rests from i and j have in common.
    ptrdiff_t width = y.count + 1;
    short *common = arena_new(a, short, (x.count + 1) * width);
    for (ptrdiff_t i = x.count - 1; i >= 0; i--) {
        for (ptrdiff_t j = y.count - 1; j >= 0; j--) {
            short right = common[i * width + j + 1], down = common[(i + 1) * width + j];
            short most = right > down ? right : down;
            bool same = str_equal(x.items[i], y.items[j]);
            common[i * width + j] = same ? (short)(common[(i + 1) * width + j + 1] + 1) : most;
        }
    }
    ptrdiff_t i = 0, j = 0;
    while (i < x.count || j < y.count) {
        bool has_both = i < x.count && j < y.count;
        if (has_both && str_equal(x.items[i], y.items[j])) {
            i++, j++;
        } else if (j == y.count ||
                   (has_both && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            add_line(&out, '-', x.items[i++]);
        } else {
            add_line(&out, '+', y.items[j++]);
        }
    }
    return buf_str(&out);
}
