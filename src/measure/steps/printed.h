// SPDX-License-Identifier: Apache-2.0
// Progress that a training prints: the bars and lines of the usual frameworks, by one table of
// patterns. Where nothing tells of its steps otherwise, what it counts up regularly are its steps.
#pragma once

#include "measure/steps/steps.h"

// What one line says of a place in a training. -1: not said.
struct printed_line {
    int64_t number, total;
    bool is_validation;
    bool is_step; // it counts steps or batches, by its words; else: samples, or nobody knows what
    bool has_loss;
    uint64_t label; // the same for all lines of a kind
};
// False: it tells of none. Without its end; escape sequences are skipped.
bool steps_printed_read(struct str line, struct printed_line *ret_line);

enum { PRINTED_LINE_BYTES = 512, PRINTED_BARS = 8, PRINTED_SPANS = 256 };
// One stream of output: the line that is being read. Of a longer one only the beginning counts.
struct printed_source {
    char line[PRINTED_LINE_BYTES];
    ptrdiff_t length;
};
// What counts up: between two lines some steps were made, in some time.
struct printed_bar {
    uint64_t label;
    int64_t number, last_ns, made; // made: since its first line
    struct printed_span {
        int64_t steps;
        double ms;
    } spans[PRINTED_SPANS]; // the first ones
    ptrdiff_t count;
    char example[80];
};
struct printed {
    struct printed_bar bars[PRINTED_BARS];
    int count;
    int64_t lines; // that told of progress, of any kind
};
void steps_printed_feed(struct printed *p, struct printed_source *source, struct str bytes,
                        int64_t now_ns);
// The bar that has counted up the farthest and does so regularly; NULL: none.
const struct printed_bar *steps_printed_best(const struct printed *p);
// Its steps as those of a training that says only how long they took; `samples`: of each, -1:
// unknown.
void steps_printed_take(const struct printed_bar *bar, int64_t samples, struct steps *steps);
