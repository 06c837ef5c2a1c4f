// SPDX-License-Identifier: Apache-2.0
// Private to the room.
#ifndef KEEP_KEEP_INT_H
#define KEEP_KEEP_INT_H

#include "keep/journal.h"

// The batch after one that was too large: half of it at most, or what an adaptive run had grown out
// of. 0: there is none.
int64_t keep_batch_smaller(const struct keep_rules *rules, const struct keep_state *s);

// --- The log's fields (journal.c) ----------------------------------------------------------------

enum keep_field_type {
    KEEP_FIELD_TEXT,
    KEEP_FIELD_WHOLE,
    KEEP_FIELD_NUMBER,
    KEEP_FIELD_FLAG,
    KEEP_FIELD_WORD, // an enum, by its words
};
struct keep_field {
    const char *name;
    enum keep_field_type type;
    unsigned events;          // bits of keep_event_kind that have it; 0 in the rules' table
    size_t offset;            // in struct keep_event, or in struct keep_rules
    bool is_needed;           // else it may be absent or null
    int64_t least;            // of a whole number that is there
    const char *const *words; // KEEP_FIELD_WORD: NULL-ended, by value
};
extern const struct keep_field keep_event_fields[]; // each ends with a row without a name
extern const struct keep_field keep_rule_fields[];
extern const char *const keep_event_names[]; // NULL-ended

#endif
