// SPDX-License-Identifier: Apache-2.0
// Series over an x axis: stacked areas or lines, as SVG.
#pragma once

#include "base/fail.h"
#include "view/show/show.h"

enum chart_kind { CHART_AREAS, CHART_LINES };
enum chart_unit { CHART_NUMBERS, CHART_BYTES };

struct chart_series {
    struct str name;
    const double *y; // one value a point; NaN leaves a gap (areas take it as 0)
};
// A name under a stretch of the x axis: "forward", "backward".
struct chart_span {
    struct str name;
    double from, to;
};
struct chart {
    enum chart_kind kind;
    enum chart_unit unit; // of y
    struct str title, x_name, y_name;
    const double *x;           // not decreasing; NULL: 0, 1, 2, …
    const struct str *x_texts; // names of the points instead of their figures; NULL: none
    ptrdiff_t point_count;
    const struct chart_series *series; // areas: the first lies lowest
    int series_count;                  // at most CHART_SERIES_MAX are told apart by colour
    const struct chart_span *spans;
    int span_count;
    double limit, budget; // horizontal lines; NaN: none
    struct str limit_name, budget_name;
};
enum { CHART_SERIES_MAX = 10 };

// One <figure> for view/html/html.h's page, without script: legend, axes, the peak of the areas
// marked, values as hover titles, and a sentence with peak and limit as the text alternative.
// Points beyond what a screen can show are thinned; the highest total of each group of points is
// kept, so the peak never disappears.
void chart_svg(const struct chart *c, struct arena *scratch, struct buf *b);
// The same below one another as a file of its own.
void chart_picture(const struct chart *charts, int count, struct arena *scratch, struct buf *b);

// One answer as a picture for a chat, a file of its own: the verdict, what it says, a bar, figures,
// the command. Texts are wrapped.
struct chart_figure {
    struct str name, value;
};
struct chart_card {
    enum show_tone tone;
    struct str word, text;   // "FITS", "batch 12 on RTX 3060: ..."
    const struct str *lines; // more below; empty ones are left out
    int line_count;
    const struct show_segment *segments;
    int segment_count;
    double capacity; // the end of the bar, in the unit of the segments
    const struct chart_figure *figures;
    int figure_count;
    struct str command, footer;
};
void chart_card(const struct chart_card *c, struct arena *scratch, struct buf *b);

// A picture of ours (an SVG of its own) as a PNG; FAIL_MACHINE: rsvg-convert is not installed.
int chart_png(struct arena *a, struct str svg, struct str *ret_png, struct fail *why);
int chart_png_check(struct arena *a, struct fail *why);

// Where the sum of all areas, or the highest line, is highest; -1 without points. ret_value may be
// NULL.
ptrdiff_t chart_peak(const struct chart *c, double *ret_value);

// The rules of a page (view/html/html.h), those of charts among them.
struct str chart_style_sheet(void);
