// SPDX-License-Identifier: Apache-2.0
// A memory snapshot under the doctor's eyes.
#ifndef DOCTOR_SNAPSHOT_H
#define DOCTOR_SNAPSHOT_H

#include "predict/death/death.h"
#include "verbs/doctor/doctor.h"

struct doctor_snapshot {
    struct snapshot file;
    struct death *gpus; // those that it has something of
    int count;
};

#endif
