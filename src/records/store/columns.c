// SPDX-License-Identifier: Apache-2.0
// The columns of the table of runs, and runs of which nothing is known. What is written and read
// goes through this table alone.
#include "records/store/store_int.h"

#define OWN(member) \
    { FIELD(struct store_run, member), 1 }
#define NEW(member, since) \
    { FIELD(struct store_run, member), since }
#define PLAN(member) \
    { PLAN_FIELD(offsetof(struct store_run, plan), member), 1 }
#define TIME(part)                                               \
    {                                                            \
        {.name = #part "_ms",                                    \
         .type = FIELD_REAL,                                     \
         .offset = offsetof(struct store_run, times.part##_ms)}, \
            1                                                    \
    }
// A new column at the end.
const struct store_column store_columns[] = {
    OWN(at_ms),
    OWN(kind),
    OWN(version),
    OWN(is_standin),
    PLAN(model),
    OWN(library),
    PLAN(image_size),
    PLAN(sequence_length),
    PLAN(target_length),
    PLAN(batch),
    PLAN(accumulation),
    PLAN(ranks),
    OWN(workers),
    PLAN(precision),
    PLAN(optimizer),
    PLAN(layout),
    PLAN(checkpointing),
    PLAN(ema),
    PLAN(inference),
    OWN(device),
    OWN(gpu),
    OWN(gpu_hash),
    OWN(capacity_bytes),
    OWN(limit_bytes),
    OWN(driver),
    OWN(cuda),
    OWN(torch),
    OWN(command_hash),
    OWN(setting),
    OWN(status),
    OWN(steps),
    OWN(seen_batch),
    OWN(allocated_bytes),
    OWN(reserved_bytes),
    OWN(peak_bytes),
    OWN(charged_bytes),
    OWN(alloc_retries),
    OWN(samples_per_s),
    OWN(samples_per_s_low),
    OWN(samples_per_s_high),
    STEP_TIMES(TIME),
    OWN(device_share),
    OWN(energy_joules),
    OWN(seconds),
    OWN(predicted_bytes),
    OWN(predicted_reserved_bytes),
    OWN(predicted_upper_bytes),
    NEW(question, 2),
    NEW(began_ms, 2),
    NEW(reason, 2),
    NEW(hint, 2),
    NEW(ending, 2),
    NEW(covered, 2),
    NEW(made, 2),
    NEW(exit_status, 2),
    NEW(signal, 2),
    NEW(wanted_bytes, 2),
    NEW(each_s, 2),
    NEW(uid, 3),
    {.since = 0},
};
#undef TIME

struct store_run store_run_unknown(void) {
    struct store_run run = {.id = -1};
    for (const struct store_column *c = store_columns; c->since; c++) field_forget(&run, &c->field);
    return run;
}
