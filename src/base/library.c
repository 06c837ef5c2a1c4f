// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

void *library_open(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

const char *library_find(void *library, const struct library_symbol *symbols, void *ret_calls) {
    for (; symbols->name; symbols++) {
        void *address = dlsym(library, symbols->name);
        if (!address && symbols->is_required) return symbols->name;
        memcpy((char *)ret_calls + symbols->offset, &address, sizeof address);
    }
    return NULL;
}
