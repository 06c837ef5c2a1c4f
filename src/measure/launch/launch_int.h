// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/launch/launch.h"

// Finds the device that the options ask for. FAIL_USAGE: no such word or GPU; FAIL_MACHINE: no
// GPU although one was asked for.
int launch_place_open(struct arena *a, const struct launch_options *o,
                      struct launch_place *ret_place, struct fail *why);
void launch_place_close(struct launch_place *place);

// Where {config} leads for these values: to a copy of the config with them, below the folder
// `scratch`, or to the file itself when the command takes them in another way.
int launch_config(struct launch *l, const struct launch_values *v, const char *scratch,
                  struct str *ret_path, struct fail *why);
// Whether the config's copy takes the value of that name.
bool launch_config_takes(const struct launch *l, struct str name);

// The command with torchrun before it when several ranks are asked for and it does not start them
// itself.
int launch_ranks(struct launch *l, char *const *argv, char *const **ret_argv, struct fail *why);

// snapshots.c: makes the folder of --snapshot; says of each snapshot that is new in it where it is.
int launch_snapshots_open(struct launch *l, struct fail *why);
void launch_snapshots_tell(struct launch *l, bool aloud);

// The energy counter over a trial's measured steps: looked at while it runs, then judged. A zeroed
// one has seen nothing.
struct launch_energy {
    struct launch_energy_point {
        int64_t at_ns; // 0: none
        double joules, samples;
    } first, last;
    int64_t looked_ns;
    int changes; // times the counter was seen to move
    bool is_there, fell_back;
};
void launch_energy_look(struct launch_energy *e, struct launch *l, const struct steps *steps);
void launch_energy_read(const struct launch_energy *e, struct launch *l,
                        struct launch_result *result);

// What becomes of a plan's values when the scratch folder is there: a trial's `prepare`.
struct launch_making {
    struct launch *l;
    struct launch_values values;
    int64_t limit_bytes;
    struct launch_attempt *attempt; // NULL: a trial
};
struct launch_making launch_making_of(struct launch *l, const struct launch_values *values,
                                      int64_t limit_bytes);
int launch_prepare(void *context, struct arena *a, const char *scratch, char *const **ret_argv,
                   char *const **ret_environment, struct fail *why);
struct registry_entry *launch_register(struct launch *l, int64_t batch);

// Fills the result from result->trial: what it came to, the times and the memory. The slowest rank
// and the one that needs most decide.
void launch_read(struct launch *l, struct launch_result *result);
