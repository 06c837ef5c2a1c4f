// SPDX-License-Identifier: Apache-2.0
// The recordings under tests/tapes.
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

#include "unit.h"

#include <stdlib.h>

#include "base/os.h"
#include "predict/tape/tape.h"

// "zero/whole"
static inline struct tape recorded_tape(struct arena *a, const char *name) {
    struct tape t = {0};
    struct str bytes;
    struct fail why = {0};
    const char *path = str_format(a, "%s/tests/tapes/%s.tape", getenv("BATCHFIT_SOURCE"), name).p;
    if (os_read(a, path, TAPE_TEXT_MAX, &bytes, NULL, &why) < 0 ||
        tape_read(a, str_of(name), bytes, &t, &why) < 0)
        fail_msg("%s", why.message);
    return t;
}

#endif
