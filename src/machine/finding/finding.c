// SPDX-License-Identifier: Apache-2.0
#include "machine/finding/finding.h"

const char *finding_insight_severity_name(enum finding_insight_severity severity) {
    static const char *const names[] = {"ok", "note", "unknown", "warning", "problem"};
    return names[severity];
}

bool finding_insight_say(struct finding_insight_finding *f, enum finding_insight_severity severity,
                         struct str value, struct str evidence, const char *remedy) {
    f->severity = severity;
    f->value = value;
    f->evidence = evidence;
    f->remedy = str_of(remedy);
    return true;
}
