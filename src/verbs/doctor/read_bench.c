// SPDX-License-Identifier: Apache-2.0
// A result of bench as doctor reads it: its recommended setting.
#include "verbs/doctor/doctor.h"

enum { DOCUMENT_MOST = 16 << 20 };

int doctor_reading_bench_bytes(struct doctor_reading *r, struct str bytes, struct fail *why) {
    if (r->document.count + bytes.len > DOCUMENT_MOST)
        return fail_set(why, FAIL_INPUT, "%s: larger than a bench result can be (16 MiB)", r->name);
    buf_add(&r->document, bytes);
    return 0;
}

int doctor_reading_bench_end(struct doctor_reading *r, struct fail *why) {
    struct cause_facts *f = &r->d->facts;
    json_error_t error;
    json_t *document = json_loadb(r->document.items, (size_t)r->document.count, 0, &error);
    if (!document)
        return fail_set(why, FAIL_INPUT, "%s:%d: broken JSON: %s", r->name, error.line, error.text);
    const json_t *rows = json_object_get(document, "rows");
    const json_t *best = json_object_get(json_object_get(document, "best"), "recommended");
    const json_t *row =
        json_array_get(rows, (size_t)json_integer_value(json_object_get(best, "row")));
    if (row && best) {
        for (int i = 0; i < STEP_TIME_COUNT; i++)
            f->phases.ms[i] = json_number_at(row, step_time_keys[i]);
        f->phase_steps = (ptrdiff_t)json_integer_value(json_object_get(row, "steps"));
        f->utilisation = json_number_at(row, "gpu_percent") / 100;
        f->on_cpu =
            str_is(json_text_at(r->d->arena, json_object_get(document, "device"), "kind"), "cpu");
        f->memory_share = json_number_at(best, "memory_share");
        f->is_fp32 |= str_is(str_of(json_string_value(json_object_get(row, "precision"))), "fp32");
        const json_t *workers = json_object_get(row, "workers");
        if (json_is_integer(workers)) f->workers = (int)json_integer_value(workers);
    }
    r->d->read =
        str_format(r->d->arena, "%zu rows, showing the recommended one", json_array_size(rows));
    json_decref(document);
    return 0;
}
