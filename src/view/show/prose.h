// SPDX-License-Identifier: Apache-2.0
// Sentences, wrapped at words: within the terminal, and never more than a hundred columns, which is
// as much as an eye follows. Where the width is unknown (a pipe) a sentence stays one line.
#pragma once

#include "view/show/style.h"

// Adds the text and a line end. `column` is where the line stands already (what was drawn before
// it), `indent` where the next lines begin. A word wider than the line is left whole.
void show_prose(struct buf *b, struct show_style style, enum show_tone tone, struct str text,
                int column, int indent);
// A text of several lines, each for itself.
void show_prose_lines(struct buf *b, struct show_style style, struct str text);
// The columns that prose stays within; INT_MAX: no limit.
int show_prose_width(struct show_style style);
