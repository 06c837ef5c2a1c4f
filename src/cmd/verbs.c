// SPDX-License-Identifier: Apache-2.0
#include "cmd/verbs.h"

const struct verb *const verbs[] = {
    &verb_check, &verb_fit,  &verb_infer,  &verb_explain,    &verb_bench, &verb_compare,
    &verb_run,   &verb_team, &verb_record, &verb_list,       &verb_watch, &verb_doctor,
    &verb_serve, &verb_sim,  &verb_manual, &verb_completion, &verb_rate,  NULL,
};
