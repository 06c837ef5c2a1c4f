// SPDX-License-Identifier: Apache-2.0
// A bar of stacked parts against a capacity, in a terminal:
//
//   RTX 3090  [████████████▓▓▓▓▓▓░░░····|······]  18.2 of 23.7 GiB
//             █ activations 9.1 GiB  ▓ gradients 4.0 GiB  ░ overhead 1.5 GiB  | budget 19.0 GiB
#ifndef SHOW_BAR_H
#define SHOW_BAR_H

#include "view/show/style.h"

struct show_segment {
    struct str name; // "activations"
    double value;    // any unit, the same for all; not negative
    struct str text; // the value for people: "9.1 GiB"
};
struct show_bar {
    struct str name; // at the left; may be empty
    const struct show_segment *segments;
    int segment_count;
    double capacity; // the right end of the bar (parts beyond it are drawn past the mark)
    double budget;   // a mark within the bar; NaN: none
    struct str budget_text;
    struct str text;     // at the right: "18.2 of 23.7 GiB"
    enum show_tone tone; // of that text: the verdict
};
// Two lines: the bar, and its legend (wrapped within the width). style.width 0 draws 80 columns.
void show_bar(const struct show_bar *bar, struct show_style style, struct buf *b);

#endif
