// SPDX-License-Identifier: Apache-2.0
// Inside of the chart room: heights, marks and points for the drawing.
#pragma once

#include "view/chart/chart.h"

double chart_x(const struct chart *c, ptrdiff_t i);
double chart_sum(const struct chart *c, ptrdiff_t i);
double chart_top(const struct chart *c); // highest value that the axis must hold, above 0
struct str chart_text_of(struct arena *a, enum chart_unit unit, double value);
// The name of a mark on an axis whose marks are `step` apart: all in the unit of the step.
struct str chart_tick_of(struct arena *a, enum chart_unit unit, double value, double step);
// A round distance between marks, so that at most so many stand on the span.
double chart_step(enum chart_unit unit, double span, int at_most);
// At most `at_most` + 2 points: of each group the highest, and both ends.
ptrdiff_t *chart_thin(struct arena *a, const struct chart *c, ptrdiff_t at_most,
                      ptrdiff_t *ret_count);

// The picture without its frame, CHART_WIDTH by CHART_HEIGHT of its own units.
enum { CHART_WIDTH = 960, CHART_HEIGHT = 380 };
void chart_draw(const struct chart *c, struct arena *scratch, struct buf *b);
// "Lines of 2 series over batch."
struct str chart_alternative(const struct chart *c, struct arena *scratch);
