// SPDX-License-Identifier: Apache-2.0
// Any text as the run.json of an announced run, and as its steps.jsonl in several looks: what is
// kept is within its limits, times grow, and nothing of it can speak to a terminal.
//
// Input: how many steps files it is cut into; then the text.
#include "fuzz.h"

#include "measure/observe/observe_int.h"

#include <math.h>
#include <stdlib.h>

static void check(bool good) {
    if (!good) abort();
}

static void check_text(struct str text) {
    check(text.len >= 0 && text.len <= 400);
    for (ptrdiff_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        check(c == '\n' || (c >= 0x20 && c != 0x7f));
    }
}

static void check_run(const struct registry_run *r) {
    const struct str texts[] = {r->verb,   r->model,     r->command, r->precision,
                                r->device, r->card_uuid, r->standin};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check_text(texts[i]);
    check(r->batch >= -1 && r->predicted_peak_bytes <= INT64_C(1) << 60);
    check(isnan(r->repeat_s) || r->repeat_s >= 1);
}

static void check_progress(const struct progress *p) {
    struct observe_run run = {0};
    observe_progress_show(p, &run);
    check(run.step_count >= 0 && run.step_count <= OBSERVE_STEPS);
    check(run.samples_done >= -1 && run.steps_done >= 0);
    check(isnan(run.samples_per_s) || run.samples_per_s > 0);
    for (ptrdiff_t i = 1; i < run.step_count; i++) {
        check(run.steps[i].at_ns > run.steps[i - 1].at_ns);
    }
    (void)observe_progress_state(p, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    ARENA_AUTO a = {0};
    struct str text = {(const char *)data + 1, (ptrdiff_t)size - 1};
    struct registry_run run;
    if (registry_read(&a, text, &run)) check_run(&run);
    struct progress p = {0};
    observe_progress_open(&p, &a);
    ptrdiff_t piece = text.len / (data[0] % 8 + 1) + 1;
    for (int look = 0; text.len > 0; look++) {
        struct steps steps = steps_new(&a);
        struct step_source source = {0};
        ptrdiff_t len = text.len < piece ? text.len : piece;
        steps_feed(&steps, &source, str_slice(text, 0, len));
        text = str_slice(text, len, text.len);
        const struct progress_clock clock = {look * INT64_C(1000000000), 1e9, 0};
        observe_progress_add(&p, &steps, &clock);
        check_progress(&p);
    }
    return 0;
}
