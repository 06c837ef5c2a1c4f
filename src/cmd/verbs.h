// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, for main alone: no verb knows another.
#ifndef CMD_VERBS_H
#define CMD_VERBS_H

#include "cmd/cmd.h"

// NULL-ended, in the order of --help.
extern const struct verb *const verbs[];

extern const struct verb verb_check, verb_fit, verb_bench, verb_compare, verb_explain, verb_team,
    verb_record, verb_list, verb_watch, verb_doctor, verb_serve, verb_sim, verb_manual,
    verb_completion, verb_rate, verb_run, verb_infer;

#endif
