// SPDX-License-Identifier: Apache-2.0
// Inside the show room: text by code points.
#ifndef SHOW_WIDTH_H
#define SHOW_WIDTH_H

#include "base/str.h"

#define SHOW_WIDTH_BROKEN UINT32_C(0xfffd) // what a byte that is no UTF-8 counts as

// Takes the first code point off a text that is not empty.
uint32_t show_width_next(struct str *text);
int show_width_of(uint32_t code_point); // columns: 0, 1 or 2
// Characters that would drive the terminal or turn the reading order.
bool show_width_is_control(uint32_t code_point);

#endif
