// SPDX-License-Identifier: Apache-2.0
#include "machine/finding/finding.h"

#include <stdarg.h>

const char *finding_severity_name(enum finding_severity severity) {
    static const char *const names[] = {"ok", "note", "unknown", "warning", "problem"};
    return names[severity];
}

bool finding_say(struct finding *f, enum finding_severity severity, struct str value,
                 struct str evidence, const char *remedy) {
    f->severity = severity;
    f->value = value;
    f->evidence = evidence;
    f->remedy = str_of(remedy);
    return true;
}

bool finding_tell(struct arena *a, struct finding *f, enum finding_severity severity,
                  struct str value, const char *remedy, const char *evidence, ...) {
    va_list args;
    va_start(args, evidence);
    struct str text = str_format_list(a, evidence, args);
    va_end(args);
    return finding_say(f, severity, value, text, remedy);
}
