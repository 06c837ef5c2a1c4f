// SPDX-License-Identifier: Apache-2.0
// A memory snapshot under the doctor's eyes.
#pragma once

#include "predict/death/death.h"
#include "verbs/doctor/doctor.h"

struct doctor_snapshot {
    struct snapshot file;
    struct death *gpus; // those that it has something of
    int count;
};
