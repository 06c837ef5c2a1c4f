// SPDX-License-Identifier: Apache-2.0
#include "insight/finding.h"

const char *insight_severity_name(enum insight_severity severity) {
    static const char *const names[] = {"ok", "note", "unknown", "warning", "problem"};
    return names[severity];
}

bool insight_say(struct insight_finding *f, enum insight_severity severity, struct str value,
                 struct str evidence, const char *remedy) {
    f->severity = severity;
    f->value = value;
    f->evidence = evidence;
    f->remedy = str_of(remedy);
    return true;
}
