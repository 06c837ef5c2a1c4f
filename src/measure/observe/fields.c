// SPDX-License-Identifier: Apache-2.0
// What a document has of a run, read (told.c) and written (document.c) by the same rows.
#include "measure/observe/observe_int.h"

const char *observe_run_state_name(enum observe_run_state state) {
    static const char *const names[] = {"starts", "steps", "quiet", "ended"};
    return names[state];
}

#define R(member) FIELD(struct observe_run, member)
const struct field observe_run_fields[] = {
    R(host),
    R(id),
    R(pid),
    R(verb),
    R(model),
    R(command),
    R(precision),
    R(standin),
    R(card),
    R(batch),
    R(accumulation),
    R(ranks),
    {"steps", FIELD_WHOLE, offsetof(struct observe_run, steps_done), NULL},
    {"samples", FIELD_WHOLE, offsetof(struct observe_run, samples_done), NULL},
    R(alloc_retries),
    {"samples_per_second", FIELD_REAL, offsetof(struct observe_run, samples_per_s), NULL},
    R(samples_per_joule),
    R(predicted_peak_bytes),
    R(predicted_upper_bytes),
    R(peak_bytes),
    {.name = NULL},
};
#undef R

#define P(member) \
    { #member, FIELD_REAL, offsetof(struct step_times, member##_ms), NULL }
const struct field observe_phase_fields[] = {STEP_TIMES(P), {.name = NULL}};
#undef P
