// SPDX-License-Identifier: Apache-2.0
// Any text as the devices.json of a recorded machine: it is listed and played, or refused with a
// reason; no number of a GPU is ever outside of its limits, and both readers see the same devices.
#include "fuzz.h"

#include "base/os.h"
#include "machine/device/device_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[64];

static void remove_folder(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/devices.json", folder);
    remove(path);
    remove(folder);
}

static void check(bool good) {
    if (!good) abort();
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/batchfit-fuzz-XXXXXX");
    check(mkdtemp(folder) != NULL);
    atexit(remove_folder);
}

static void check_card(const struct device_card *card) {
    for (int i = 0; i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        double value = device_field_value(card, field) / (field->is_whole ? 1 : field->factor);
        bool is_inside = value >= field->least * 1.001 - 0.001 && value <= field->most * 1.001;
        check(isnan(value) || is_inside);
    }
    check(card->process_count >= 0 && card->process_count <= DEVICE_PROCESSES);
    check(card->state == DEVICE_ANSWERS || card->reason[0]);
}

static void play(struct arena *a, const struct device_list *list) {
    struct device_session *session;
    struct fail why = {0};
    int failed = device_recording_open(a, folder, &session, &why);
    check(!failed || (why.message[0] && why.code == FAIL_INPUT));
    if (failed) return;
    check(session->list.count == list->count);
    session->speed = 1e6;
    for (int i = 0; i < session->list.count && i < 8; i++) {
        struct device_card card = device_card_unknown();
        device_recording_sample(session, i, DEVICE_ASK_ALL | DEVICE_ASK_PCIE | DEVICE_ASK_PROFILE,
                                &card);
        check_card(&card);
    }
    device_recording_close(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct device_list list = {0};
    if (!folder[0]) make_folder();
    // Not os_replace: nobody needs an fsync here.
    FILE *f = fopen(str_format(&a, "%s/devices.json", folder).p, "we");
    check(f && fwrite(data, 1, size, f) == size);
    check(fclose(f) == 0);
    int failed = device_list(&a, folder, &list, &why);
    check(!failed || (why.message[0] && why.code == FAIL_INPUT));
    if (!failed) play(&a, &list);
    return 0;
}
