// SPDX-License-Identifier: Apache-2.0
// What the files of this room share: the members of a record.
#ifndef TEAM_TEAM_INT_H
#define TEAM_TEAM_INT_H

#include "team/team.h"

enum team_type { TEAM_TEXT, TEAM_WHOLE, TEAM_REAL };
struct team_member {
    const char *name;
    enum team_type type;
    size_t offset;   // in struct team_record
    bool is_needed;  // a record without it is damaged
    int order;       // place in what a record is known by, from 1 on; 0: a figure
    int64_t divisor; // what is smaller than this is the same; 0: every difference counts
};
extern const struct team_member team_members[]; // in the order of the alphabet; ends without a name

const struct str *team_text(const struct team_record *r, const struct team_member *m);
int64_t team_whole(const struct team_record *r, const struct team_member *m);
double team_real(const struct team_record *r, const struct team_member *m);
// By what records are known by; 0: of the same question, card and batch.
int team_compare(const struct team_record *a, const struct team_record *b);

#endif
