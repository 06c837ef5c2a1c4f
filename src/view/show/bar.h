// SPDX-License-Identifier: Apache-2.0
// A bar of stacked parts against a capacity, in a terminal:
//
//   RTX 3090  [AAAAAAAAAAAAGGGGGGC·········|······]  18.2 of 23.7 GiB
//             A activations 9.1 GiB  G gradients 4.0 GiB  C CUDA 1.5 GiB  | 20 % kept free
//
// With colours the parts are solid; without, each is filled with a letter of its name.
#pragma once

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
    double capacity;      // the right end of the bar (parts beyond it are drawn past the mark)
    double mark;          // a mark within the bar; NaN: none
    struct str mark_text; // what it says, in the legend
    struct str text;      // at the right: "18.2 of 23.7 GiB"
    enum show_tone tone;  // of that text: the verdict
};
// Two lines: the bar, and its legend (wrapped within the width). style.width 0 draws 80 columns; on
// a screen too narrow for a picture there is the legend alone.
void show_bar(const struct show_bar *bar, struct show_style style, struct buf *b);
