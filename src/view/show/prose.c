// SPDX-License-Identifier: Apache-2.0
#include "view/show/show.h"

#include "base/say.h"

#include <limits.h>
#include <string.h>

enum { WIDEST = 100 };

int show_prose_width(struct show_style style) {
    if (style.width <= 0) return INT_MAX;
    return style.width < WIDEST ? style.width : WIDEST;
}

// What belongs to the word before it: a figure stands with its unit.
static bool is_unit(struct str rest) {
    static const char *const units[] = {"B",  "KiB", "MiB", "GiB", "TiB",
                                        "GB", "%",   "s",   "ms",  NULL};
    struct str word = str_cut(&rest, ' ');
    while (word.len > 1 && strchr(",;.)", word.p[word.len - 1])) word.len--;
    return str_is_one_of(word, units);
}

// As many words as there is room for, one at least.
static struct str take_line(struct str *text, int room) {
    ptrdiff_t end = 0;
    for (struct str rest = *text; rest.p;) {
        str_cut(&rest, ' ');
        ptrdiff_t next = rest.p ? text->len - rest.len - 1 : text->len;
        if (rest.p && is_unit(rest)) continue;
        if (end > 0 && show_width(str_slice(*text, 0, next)) > room) break;
        end = next;
    }
    struct str line = str_slice(*text, 0, end);
    *text = str_trim(str_slice(*text, end, text->len));
    while (line.len > 0 && line.p[line.len - 1] == ' ') line.len--; // of two, one is left
    return line;
}

void show_prose(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                int column, int indent) {
    int width = show_prose_width(style);
    text = say_str(text);
    struct str rest = text, word = str_cut(&rest, ' ');
    // What stands there already may leave no room for the first word.
    bool is_full = column > indent && show_width(word) > width - column;
    if (width == INT_MAX) {
        show_text(b, style, tone, text);
        text = (struct str){0};
    }
    while (text.len > 0) {
        if (!is_full) show_text(b, style, tone, take_line(&text, width - column));
        if (is_full || text.len > 0) {
            buf_byte(b, '\n');
            for (int i = 0; i < indent; i++) buf_byte(b, ' ');
        }
        column = indent;
        is_full = false;
    }
    buf_byte(b, '\n');
}

void show_prose_lines(struct buf *b, struct show_style style, struct str text) {
    while (text.len > 0) show_prose(b, style, SHOW_PLAIN, str_line(&text), 0, 2);
}
