// SPDX-License-Identifier: Apache-2.0
// What a rule has found: how bad it is, what was seen, and what can be done. The rules of a machine
// (rules.h), those over time (trend.h) and those of causes (cause.h) answer with these.
#pragma once

#include "base/json.h"

// In the order of weight. A note is worth knowing and nothing is wrong.
enum finding_severity {
    FINDING_OK,
    FINDING_NOTE,
    FINDING_UNKNOWN,
    FINDING_WARNING, // it trains, but slower or with less than it could
    FINDING_PROBLEM, // it does not train, or the result cannot be trusted
};
const char *finding_severity_name(enum finding_severity severity); // "ok", "note", …

struct finding {
    const char *id; // stable: "card.link"
    enum finding_severity severity;
    int card;         // index into the GPUs; -1: about the machine
    const char *what; // "PCIe link"
    struct str value; // in a few words: "gen 4 x16"; may be empty
    struct str evidence;
    struct str remedy; // empty when there is nothing to do
    int64_t since_ms;  // from when on it holds, since 1970, where somebody watches; 0: not known
};
// As documents have it; `card` as they number GPUs, -1: about the machine.
json_t *finding_json(const struct finding *f, int card);
struct findings {
    struct finding *items;
    ptrdiff_t count, capacity;
};

// Returns true, for the end of a rule. An empty remedy may be NULL.
bool finding_say(struct finding *f, enum finding_severity severity, struct str value,
                 struct str evidence, const char *remedy);
// The same with the evidence behind the remedy, as printf takes it.
__attribute__((format(printf, 6, 7))) bool finding_tell(struct arena *a, struct finding *f,
                                                        enum finding_severity severity,
                                                        struct str value, const char *remedy,
                                                        const char *evidence, ...);
