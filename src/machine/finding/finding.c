// SPDX-License-Identifier: Apache-2.0
#include "machine/finding/finding.h"

#include <stdarg.h>

const char *finding_severity_name(enum finding_severity severity) {
    static const char *const names[] = {"ok", "note", "unknown", "warning", "problem"};
    return names[severity];
}

json_t *finding_json(const struct finding *f, int card) {
    // The contract's words; a note is nothing wrong.
    static const char *const statuses[] = {"ok", "ok", "unknown", "warn", "fail"};
    json_t *made = json_object();
    json_object_set_new(made, "id", json_string(f->id));
    json_object_set_new(made, "status", json_string(statuses[f->severity]));
    json_object_set_new(made, "severity", json_string(finding_severity_name(f->severity)));
    json_object_set_new(made, "card", json_count(card));
    json_object_set_new(made, "what", json_string(f->what));
    json_object_set_new(made, "value", json_text(f->value));
    json_object_set_new(made, "evidence", json_text(f->evidence));
    json_object_set_new(made, "remedy", json_text(f->remedy));
    return made;
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
