// SPDX-License-Identifier: Apache-2.0
// Inside the show room: text by code points.
#pragma once

#include "base/str.h"

int show_width_of(uint32_t code_point); // columns: 0, 1 or 2
