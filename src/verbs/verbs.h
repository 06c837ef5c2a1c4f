// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, for main alone: no verb knows another.
#pragma once

#include "cli/cli.h"

// NULL-ended, in the order of --help.
extern const struct cli_verb *const verbs[];

extern const struct cli_verb check_verb, fit_verb, bench_verb, compare_verb, explain_verb,
    team_verb, record_verb, list_verb, watch_verb, doctor_verb, serve_verb, sim_verb, manual_verb,
    completion_verb, check_microbench_verb, run_verb, infer_verb;
