// SPDX-License-Identifier: Apache-2.0
// The columns of the table of runs, and runs of which nothing is known. What is written and read
// goes through this table alone.
#include "store/store_int.h"

#include <math.h>

#define AT(member) offsetof(struct store_run, member)
#define TIME(name) \
    { #name "_ms", STORE_REAL, AT(times.name##_ms), 1 }
const struct store_column store_columns[] = {
    {"at_ms", STORE_WHOLE, AT(at_ms), 1},
    {"kind", STORE_TEXT, AT(kind), 1},
    {"version", STORE_TEXT, AT(version), 1},
    {"is_standin", STORE_WHOLE, AT(is_standin), 1},
    {"model", STORE_TEXT, AT(model), 1},
    {"library", STORE_TEXT, AT(library), 1},
    {"image_size", STORE_WHOLE, AT(image_size), 1},
    {"sequence_length", STORE_WHOLE, AT(sequence_length), 1},
    {"target_length", STORE_WHOLE, AT(target_length), 1},
    {"batch", STORE_WHOLE, AT(batch), 1},
    {"accumulation", STORE_WHOLE, AT(accumulation), 1},
    {"ranks", STORE_WHOLE, AT(ranks), 1},
    {"workers", STORE_WHOLE, AT(workers), 1},
    {"precision", STORE_TEXT, AT(precision), 1},
    {"optimizer", STORE_TEXT, AT(optimizer), 1},
    {"layout", STORE_TEXT, AT(layout), 1},
    {"checkpointing", STORE_WHOLE, AT(checkpointing), 1},
    {"ema", STORE_WHOLE, AT(ema), 1},
    {"inference", STORE_WHOLE, AT(inference), 1},
    {"device", STORE_TEXT, AT(device), 1},
    {"gpu", STORE_TEXT, AT(gpu), 1},
    {"gpu_hash", STORE_TEXT, AT(gpu_hash), 1},
    {"capacity_bytes", STORE_WHOLE, AT(capacity_bytes), 1},
    {"limit_bytes", STORE_WHOLE, AT(limit_bytes), 1},
    {"driver", STORE_TEXT, AT(driver), 1},
    {"cuda", STORE_TEXT, AT(cuda), 1},
    {"torch", STORE_TEXT, AT(torch), 1},
    {"command_hash", STORE_TEXT, AT(command_hash), 1},
    {"setting", STORE_TEXT, AT(setting), 1},
    {"status", STORE_TEXT, AT(status), 1},
    {"steps", STORE_WHOLE, AT(steps), 1},
    {"seen_batch", STORE_WHOLE, AT(seen_batch), 1},
    {"allocated_bytes", STORE_WHOLE, AT(allocated_bytes), 1},
    {"reserved_bytes", STORE_WHOLE, AT(reserved_bytes), 1},
    {"peak_bytes", STORE_WHOLE, AT(peak_bytes), 1},
    {"charged_bytes", STORE_WHOLE, AT(charged_bytes), 1},
    {"alloc_retries", STORE_WHOLE, AT(alloc_retries), 1},
    {"samples_per_s", STORE_REAL, AT(samples_per_s), 1},
    {"samples_per_s_low", STORE_REAL, AT(samples_per_s_low), 1},
    {"samples_per_s_high", STORE_REAL, AT(samples_per_s_high), 1},
    STEP_TIMES(TIME),
    {"device_share", STORE_REAL, AT(device_share), 1},
    {"energy_joules", STORE_REAL, AT(energy_joules), 1},
    {"seconds", STORE_REAL, AT(seconds), 1},
    {"predicted_bytes", STORE_WHOLE, AT(predicted_bytes), 1},
    {"predicted_reserved_bytes", STORE_WHOLE, AT(predicted_reserved_bytes), 1},
    {"predicted_upper_bytes", STORE_WHOLE, AT(predicted_upper_bytes), 1},
    {"question", STORE_TEXT, AT(question), 2},
    {"began_ms", STORE_WHOLE, AT(began_ms), 2},
    {"reason", STORE_TEXT, AT(reason), 2},
    {"hint", STORE_TEXT, AT(hint), 2},
    {"ending", STORE_TEXT, AT(ending), 2},
    {"covered", STORE_WHOLE, AT(covered), 2},
    {"made", STORE_WHOLE, AT(made), 2},
    {"exit_status", STORE_WHOLE, AT(exit_status), 2},
    {"signal", STORE_WHOLE, AT(signal), 2},
    {"wanted_bytes", STORE_REAL, AT(wanted_bytes), 2},
    {"each_s", STORE_TEXT, AT(each_s), 2},
    {.name = NULL},
};
#undef TIME

struct store_run store_run_unknown(void) {
    struct store_run run = {.id = -1};
    for (const struct store_column *c = store_columns; c->name; c++) {
        char *member = (char *)&run + c->offset;
        if (c->type == STORE_WHOLE) *(int64_t *)(void *)member = -1;
        if (c->type == STORE_REAL) *(double *)(void *)member = NAN;
    }
    return run;
}
