// SPDX-License-Identifier: Apache-2.0
#include "machine/device/device.h"

#include "base/data.h"

int device_demo_or_machine(struct arena *a, bool demo, const char *machine, const char **ret_folder,
                           struct fail *why) {
    struct str folder;
    *ret_folder = machine;
    if (!demo) return 0;
    if (machine)
        return fail_set(why, FAIL_USAGE, "--demo is a machine of its own; leave out --machine");
    int rc = data_lay_out(a, "data/demo/", "demo", &folder, why);
    if (rc == 0) *ret_folder = str_z(a, folder);
    return rc;
}
