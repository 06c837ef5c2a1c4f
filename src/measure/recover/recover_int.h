// SPDX-License-Identifier: Apache-2.0
// Private to the room.
#pragma once

#include "measure/recover/recover.h"

// The batch after one that was too large: half of it at most, or what an adaptive run had grown out
// of. 0: there is none.
int64_t recover_batch_smaller(const struct recover_rules *rules, const struct recover_state *s);

// --- The event log's fields (events.c) -----------------------------------------------------------

enum recover_field_type {
    RECOVER_FIELD_TEXT,
    RECOVER_FIELD_WHOLE,
    RECOVER_FIELD_NUMBER,
    RECOVER_FIELD_FLAG,
    RECOVER_FIELD_WORD, // an enum, by its words
};
struct recover_field {
    const char *name;
    enum recover_field_type type;
    unsigned events;          // bits of recover_event_kind that have it; 0 in the rules' table
    size_t offset;            // in struct recover_event, or in struct recover_rules
    bool is_needed;           // else it may be absent or null
    int64_t least;            // of a whole number that is there
    const char *const *words; // RECOVER_FIELD_WORD: NULL-ended, by value
};
extern const struct recover_field recover_event_fields[]; // each ends with a row without a name
extern const struct recover_field recover_rule_fields[];
extern const char *const recover_event_names[]; // NULL-ended
