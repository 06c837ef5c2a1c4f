// SPDX-License-Identifier: Apache-2.0
// A run that lets itself be watched: whoever launches a training registers it in a folder of the
// user's, and watch and serve find it there (doc/formats/runs.md). One folder a run,
//
//   $XDG_RUNTIME_DIR/batchfit/runs/PID/   (without the variable: /tmp/batchfit-UID/runs/PID, 0700)
//     run.json      what is trained, where, and what was predicted
//     steps.jsonl   the steps protocol; begun again when it gets long
//
// Registering is a courtesy: where it fails, the run goes on.
#pragma once

#include "measure/steps/steps.h"

// Texts empty, numbers -1 where not known (registry_unknown).
struct registry_run {
    struct str verb; // "fit", "bench", "run"
    struct str model, command, precision;
    struct str device;    // "NVIDIA GeForce RTX 3090", "CPU, 8 cores"
    struct str card_uuid; // empty: the CPU
    struct str standin;   // set: its figures are those of a fake
    int64_t card_index;   // the driver's number
    int64_t pid;          // of the process whose children train
    int64_t batch, accumulation;
    int64_t predicted_peak_bytes, predicted_upper_bytes; // of the GPU, all of the run's memory
    int64_t started_s;                                   // unix time
    double repeat_s; // of a recorded run: then it begins again; NaN
};
struct registry_run registry_unknown(void);

struct registry_entry; // private; NULL where nothing could be written: all calls below take it
struct registry_entry *registry_open(struct arena *a, const struct registry_run *run);
// Adds what is new in `steps` since the last call.
void registry_steps(struct registry_entry *n, const struct steps *steps);
void registry_close(struct registry_entry *n); // removes the folder

// The folder of all registered runs of this user. Empty: there is none.
struct str registry_folder(struct arena *a);
// The runs that are there and whose process is alive. Folders that dead processes left are removed.
struct registry_found {
    struct registry_run run;
    struct str id; // the name of its folder
    struct str steps_path;
};
int registry_list(struct arena *a, struct registry_found **ret_found);
// A run.json. False: not one of this version. Its texts are short and may be shown.
bool registry_read(struct arena *a, struct str text, struct registry_run *ret_run);
