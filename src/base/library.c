// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

// glibc keeps what dlerror() would say for as long as the thread lives, unless it was said.
static void *forget_error(void) {
    while (dlerror()) continue;
    return NULL;
}

void *library_open(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library ? library : forget_error();
}

void *library_address(void *library, const char *symbol) {
    void *address = dlsym(library, symbol);
    return address ? address : forget_error();
}

const char *library_find(void *library, const struct library_symbol *symbols, void *ret_calls) {
    for (; symbols->name; symbols++) {
        void *address = library_address(library, symbols->name);
        if (!address && symbols->is_required) return symbols->name;
        memcpy((char *)ret_calls + symbols->offset, &address, sizeof address);
    }
    return NULL;
}
