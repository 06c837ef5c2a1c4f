// SPDX-License-Identifier: Apache-2.0
// What the tests of a watched machine share.
#ifndef TESTS_WATCH_OPEN_H
#define TESTS_WATCH_OPEN_H

#include "device_machines.h"

#include "measure/observe/observe.h"

#include <unistd.h>

static inline struct watch *open_watch(struct arena *a, const struct observe_options *options) {
    struct watch *w = NULL;
    struct fail why = {0};
    if (observe_open(a, options, &w, &why)) fail_msg("%s", why.message);
    return w;
}

// Updates as a screen does, for so long, and at least once.
static inline const struct observe_view *watch_for(struct watch *w, int ms) {
    int64_t end_ns = os_now_ns() + (int64_t)ms * 1000000;
    int looks = ms / 2; // so many also where one of them took all the time
    do {
        observe_update(w);
        usleep(2000);
    } while (--looks > 0 || os_now_ns() < end_ns);
    return observe_view(w);
}

#endif
