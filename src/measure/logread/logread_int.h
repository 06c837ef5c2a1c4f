// SPDX-License-Identifier: Apache-2.0
// Between the files that read a log.
#pragma once

#include "measure/logread/logread.h"

// One line without its end and without escape sequences, not empty; its number is j->line.
void logread_read_line(struct logread *j, struct str line);
