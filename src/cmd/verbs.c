// SPDX-License-Identifier: Apache-2.0
#include "cmd/cmd.h"

const struct verb *const verbs[] = {
    &verb_check, &verb_fit,  &verb_infer,  &verb_explain,    &verb_bench, &verb_compare,
    &verb_run,   &verb_team, &verb_record, &verb_list,       &verb_watch, &verb_doctor,
    &verb_serve, &verb_sim,  &verb_manual, &verb_completion, &verb_rate,  NULL,
};

const struct verb *verb_find(struct str name) {
    for (int i = 0; verbs[i]; i++) {
        if (str_is(name, verbs[i]->name)) return verbs[i];
    }
    return NULL;
}
