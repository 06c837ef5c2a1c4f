// SPDX-License-Identifier: Apache-2.0
// A watched machine as JSON (doc/formats/watch.md): what watch logs and serve sends.
#pragma once

#include "measure/observe/observe.h"

#include <jansson.h>

// The view now. The caller drops it; NULL: out of memory.
json_t *observe_document(const struct observe_view *view);
// What is kept of the last `seconds` (0: all), at most `points` of each GPU and run (0: all),
// evenly thinned.
json_t *observe_document_history(const struct observe_view *view, double seconds, int points);
// The findings as in the document, for those who show only them.
json_t *observe_document_findings(const struct findings *findings);
