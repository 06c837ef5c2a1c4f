// SPDX-License-Identifier: Apache-2.0
// Between the files that read a log.
#ifndef PROBE_JOURNAL_INT_H
#define PROBE_JOURNAL_INT_H

#include "probe/journal.h"

// One line without its end and without escape sequences, not empty; its number is j->line.
void logread_read_line(struct logread *j, struct str line);

#endif
