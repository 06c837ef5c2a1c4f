// SPDX-License-Identifier: Apache-2.0
// Between the files of the rules about causes.
#pragma once

#include "machine/cause/cause.h"

struct cause_view {
    struct arena *arena;
    const struct cause_facts *facts;
    const char *trends; // of the row: verdicts that are this cause
    bool has_signature; // the ending is one that a row knows
    bool is_likely;     // … and what it says only usually means this row
};
// Fills strength and evidence, and what differs from the row; false: it does not hold.
typedef bool cause_rule(const struct cause_view *v, struct cause *c);

enum { CAUSE_READINGS = 20 }; // as trend.h's rules: fewer are BRIEFLY

enum cause_strength cause_measured(ptrdiff_t readings);
bool cause_say(struct cause *c, enum cause_strength strength, struct str evidence);
__attribute__((format(printf, 4, 5))) bool cause_tell(const struct cause_view *v, struct cause *c,
                                                      enum cause_strength strength,
                                                      const char *format, ...);
// The line that ended it, quoted, with its figures behind it.
bool cause_quote(const struct cause_view *v, struct cause *c, enum cause_strength strength,
                 const char *more);
struct str cause_figures(
    const struct cause_view *v); // of the ending's message: "tried 2.00 GiB, ..."
const struct finding *cause_trend(const struct cause_view *v);
cause_rule cause_named; // what the signature says, in its words

// memory.c
cause_rule cause_full, cause_leak, cause_fragmented, cause_others, cause_start, cause_validation,
    cause_last_batch, cause_later, cause_oom, cause_shm_low, cause_limit;
// speed.c
cause_rule cause_loading, cause_no_workers, cause_pin, cause_compute, cause_small, cause_idle,
    cause_sync, cause_slowed, cause_spill, cause_nan, cause_told;
// process.c
cause_rule cause_disk, cause_one_core, cause_workers_pace, cause_files_low;
