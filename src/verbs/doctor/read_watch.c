// SPDX-License-Identifier: Apache-2.0
// The logs of watch as doctor reads them (doc/formats/watch.md, watch-log.md): medians of the
// gauges, and each finding that was ever a warning.
#include "base/unit.h"
#include "stats/stats.h"
#include "verbs/doctor/doctor.h"

#include <math.h>
#include <string.h>

static void add(struct doctor_figures *f, double value) { // NaN is not kept
    if (!isnan(value)) f->values[f->seen++ % DOCTOR_READING_KEPT] = value;
}

double doctor_figures_median(const struct doctor_figures *f) {
    return stats_median(f->values, f->seen < DOCTOR_READING_KEPT ? f->seen : DOCTOR_READING_KEPT);
}

// Less than what a process with a CUDA context holds.
enum { EMPTY_MIB = 512 };

void doctor_gauges_add(struct doctor_reading *r, double utilisation, double used_mib,
                       double total_mib) {
    if (utilisation < 0.01 && used_mib < EMPTY_MIB) {
        r->empty++;
        return;
    }
    add(&r->utilisation, utilisation);
    add(&r->memory, used_mib / total_mib);
}

static enum finding_severity severity_named(const char *name) {
    for (int i = FINDING_OK; i <= FINDING_PROBLEM; i++) {
        if (name && strcmp(name, finding_severity_name((enum finding_severity)i)) == 0)
            return (enum finding_severity)i;
    }
    return FINDING_UNKNOWN;
}

static bool is_found(const struct doctor_reading *r, const char *id) {
    for (ptrdiff_t i = 0; i < r->findings.count; i++) {
        if (strcmp(r->findings.items[i].id, id) == 0) return true;
    }
    return false;
}

static void add_finding(struct doctor_reading *r, struct finding f) {
    struct findings *all = &r->findings;
    *arena_push(r->d->arena, &all->items, &all->count, &all->capacity) = f;
}

// The last word on each id that was ever a warning.
static void keep_finding(struct doctor_reading *r, const json_t *object) {
    const char *id = json_string_value(json_object_get(object, "id"));
    struct finding f = {.severity =
                            severity_named(json_string_value(json_object_get(object, "severity")))};
    if (!id || f.severity < FINDING_WARNING) return;
    if (is_found(r, id)) return;
    f.id = str_z(r->d->arena, str_of(id));
    f.evidence = str_format(r->d->arena, "line %lld: %s", (long long)r->lines,
                            json_string_value(json_object_get(object, "evidence")));
    f.remedy = json_text_at(r->d->arena, object, "remedy");
    add_finding(r, f);
}

int doctor_reading_watch_line(struct doctor_reading *r, struct str line, struct fail *why) {
    (void)why;
    json_t *document = json_loadb(line.p, (size_t)line.len, 0, NULL), *item;
    size_t i;
    if (!json_is_object(document) || !json_object_get(document, "watch")) r->broken++;
    json_array_foreach(json_object_get(document, "findings"), i, item) {
        keep_finding(r, item);
    }
    json_array_foreach(json_object_get(document, "cards"), i, item) {
        const json_t *memory = json_object_get(item, "memory");
        doctor_gauges_add(r, json_number_at(json_object_get(item, "gauges"), "utilisation"),
                          json_number_at(memory, "used_bytes") / UNIT_MIB,
                          json_number_at(memory, "total_bytes") / UNIT_MIB);
    }
    json_decref(document);
    return 0;
}

int doctor_reading_watch_end(struct doctor_reading *r, struct fail *why) {
    if (r->broken == r->lines)
        return fail_set(why, FAIL_INPUT, "%s: every line is broken", r->name);
    if (r->broken > 0)
        str_list_format(r->d->arena, &r->d->notes, "%lld broken lines skipped",
                        (long long)r->broken);
    r->d->facts.utilisation = doctor_figures_median(&r->utilisation);
    r->d->facts.memory_share = doctor_figures_median(&r->memory);
    r->d->facts.gauge_count = r->utilisation.seen;
    r->d->read = str_format(r->d->arena, "%lld readings", (long long)r->lines);
    return 0;
}

static const char *const csv_columns[DOCTOR_READING_CSV_COLUMNS] = {"sm", "fb", "total",
                                                                    "throttled"};
enum { CSV_SM, CSV_FB, CSV_TOTAL, CSV_THROTTLED };

static void csv_throttled(struct doctor_reading *r, double percent) {
    if (!(percent >= 1) || is_found(r, "trend.throttled")) return;
    struct finding f = {.id = "trend.throttled", .severity = FINDING_WARNING};
    f.evidence = str_format(
        r->d->arena, "line %lld: heat or power brake limited the clocks for %.1f %% of a minute",
        (long long)r->lines, percent);
    add_finding(r, f);
}

int doctor_reading_csv_line(struct doctor_reading *r, struct str line, struct fail *why) {
    (void)why;
    double cells[DOCTOR_READING_CSV_COLUMNS] = {NAN, NAN, NAN, NAN};
    for (int column = 0; line.len > 0; column++) {
        struct str cell = str_trim(str_cut(&line, ','));
        for (int i = 0; i < DOCTOR_READING_CSV_COLUMNS; i++) {
            if (r->lines == 1 && str_is(cell, csv_columns[i]))
                r->columns[i] = column;
            else if (r->lines > 1 && r->columns[i] == column)
                str_to_double(cell, &cells[i]);
        }
    }
    doctor_gauges_add(r, cells[CSV_SM] / 100, cells[CSV_FB], cells[CSV_TOTAL]);
    csv_throttled(r, cells[CSV_THROTTLED]);
    return 0;
}
