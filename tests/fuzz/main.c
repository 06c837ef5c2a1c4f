// SPDX-License-Identifier: Apache-2.0
// Stands in for libFuzzer: gives every file of the folders named to the target.
#include "fuzz.h"

#include "base/os.h"

#include <stdio.h>

static int play_folder(const char *folder) {
    ARENA_AUTO a = {0};
    struct str *names, bytes;
    struct fail why;
    ptrdiff_t count;
    if (os_list(&a, folder, "", &names, &count, &why) < 0) {
        fprintf(stderr, "%s\n", why.message);
        return -1;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        struct str path = str_format(&a, "%s/%.*s", folder, STR_ARG(names[i]));
        if (os_read(&a, path.p, INT64_C(1) << 24, &bytes, NULL, &why) < 0) {
            fprintf(stderr, "%s\n", why.message);
            return -1;
        }
        LLVMFuzzerTestOneInput((const uint8_t *)bytes.p, (size_t)bytes.len);
    }
    printf("%s: %td inputs\n", folder, count);
    return count > 0 ? 0 : -1;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (play_folder(argv[i]) < 0) return 1;
    }
    return 0;
}
