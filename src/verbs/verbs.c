// SPDX-License-Identifier: Apache-2.0
#include "verbs/verbs.h"

const struct cli_verb *const verbs[] = {
    &check_verb,
    &fit_verb,
    &infer_verb,
    &explain_verb,
    &bench_verb,
    &compare_verb,
    &run_verb,
    &team_verb,
    &record_verb,
    &list_verb,
    &watch_verb,
    &doctor_verb,
    &serve_verb,
    &sim_verb,
    &manual_verb,
    &completion_verb,
    &check_microbench_verb,
    NULL,
};
