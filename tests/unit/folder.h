// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own: setup and teardown for cmocka, and paths in it.
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/batchfit-unit-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static inline const char *at(struct arena *a, const char *name) {
    return str_format(a, "%s/%s", folder, name).p;
}

#endif
