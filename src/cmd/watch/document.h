// SPDX-License-Identifier: Apache-2.0
// A watched machine as JSON (doc/formats/watch.md): what watch logs and serve sends.
#ifndef CMD_WATCH_DOCUMENT_H
#define CMD_WATCH_DOCUMENT_H

#include "watch/watch.h"

#include <jansson.h>

// The view now. The caller drops it; NULL: out of memory.
json_t *watch_document(const struct watch_view *view);
// What is kept of the last `seconds` (0: all), at most `points` of each card and run (0: all),
// evenly thinned.
json_t *watch_document_history(const struct watch_view *view, double seconds, int points);
// The findings as in the document, for those who show only them.
json_t *watch_document_findings(const struct insight_findings *findings);

#endif
