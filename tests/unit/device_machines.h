// SPDX-License-Identifier: Apache-2.0
// The machines under tests/machines and how a test writes down what was found on one.
#ifndef TESTS_DEVICE_MACHINES_H
#define TESTS_DEVICE_MACHINES_H

#include "unit.h"

#include "base/os.h"
#include "machine/device/device.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const machines[] = {
    "rtx3060",       "rtx4090",   "gtx1080",  "laptop", "two-cards",     "h100x8",
    "a100-mig",      "wsl",       "gb10",     "jetson", "lost",          "wedged",
    "driver-535.54", "no-driver", "rtx2080s", "l40s",   "no-permission", "driver-mismatch",
};
enum { MACHINES = sizeof machines / sizeof *machines };

static const char *machine_folder(struct arena *a, const char *name) {
    return str_format(a, "%s/tests/machines/%s", getenv("BATCHFIT_SOURCE"), name).p;
}

static void write_device(struct buf *b, const struct device *d) {
    buf_format(b, "%d %.*s %.*s: ", d->index, STR_ARG(d->name), STR_ARG(d->uuid));
    if (d->total_bytes < 0) {
        buf_format(b, "memory unknown");
    } else {
        buf_format(b, "%lld = %lld used + %lld reserved + %lld free MiB",
                   (long long)d->total_bytes >> 20, (long long)d->used_bytes >> 20,
                   d->reserved_bytes < 0 ? -1 : (long long)d->reserved_bytes >> 20,
                   (long long)d->free_bytes >> 20);
    }
    buf_format(b, "%s\n", d->is_mig ? " (MIG)" : "");
}

// All that was found, without the label of the fake.
static inline struct str write_list(struct arena *a, const struct device_list *list) {
    struct buf b = buf_new(a);
    if (list->driver_version.len) buf_format(&b, "driver %.*s\n", STR_ARG(list->driver_version));
    for (ptrdiff_t i = 0; i < list->count; i++) write_device(&b, &list->items[i]);
    if (list->why_none.len) buf_format(&b, "none: %.*s\n", STR_ARG(list->why_none));
    if (list->left_out.len) buf_format(&b, "left out: %.*s\n", STR_ARG(list->left_out));
    return buf_str(&b);
}

static inline void assert_machine(struct arena *a, const char *name,
                                  const struct device_list *list) {
    struct str expected;
    struct fail why = {0};
    const char *path = str_format(a, "%s/devices.expected", machine_folder(a, name)).p;
    assert_int_equal(os_read(a, path, 1 << 16, &expected, NULL, &why), 0);
    assert_string_equal(str_z(a, write_list(a, list)), str_z(a, expected));
}

// A machine of this text in a temporary folder.
static inline const char *make_machine(struct arena *a, const char *json) {
    static char folder[64];
    struct fail why = {0};
    strcpy(folder, "/tmp/batchfit-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    const char *path = str_format(a, "%s/devices.json", folder).p;
    assert_int_equal(os_replace(a, path, str_of(json), NULL, &why), 0);
    return folder;
}

// A file below a folder, with the folders on its way.
static inline void put_file(struct arena *a, const char *root, const char *path, const char *text) {
    struct fail why = {0};
    const char *whole = str_format(a, "%s/%s", root, path).p;
    const char *folder = str_z(a, str_slice(str_of(whole), 0, strrchr(whole, '/') - whole));
    assert_int_equal(os_make_dirs(a, folder, &why), 0);
    assert_int_equal(os_replace(a, whole, str_of(text), NULL, &why), 0);
}

static inline int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at) {
    (void)stat;
    (void)kind;
    (void)at;
    return remove(path);
}
static inline int remove_all(const char *folder) {
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void drop_machine(struct arena *a, const char *folder) {
    assert_int_equal(remove(str_format(a, "%s/devices.json", folder).p), 0);
    assert_int_equal(remove(folder), 0);
}

#endif
