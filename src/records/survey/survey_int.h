// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: the members of a record.
#pragma once

#include "records/survey/survey.h"

struct survey_member {
    struct field field; // of struct survey_record
    bool is_needed;     // a record without it is damaged
    int order;          // place in what a record is known by, from 1 on; 0: a figure
    int64_t divisor;    // what is smaller than this is the same; 0: every difference counts
};
extern const struct survey_member
    survey_members[]; // in the order of the alphabet; ends without a name

// By what records are known by; 0: of the same question, GPU and batch.
int survey_compare(const struct survey_record *a, const struct survey_record *b);
